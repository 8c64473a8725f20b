//! Tests that whole files, their ends and ranges are read from every store: in their order, in few requests, or not at
//! all.

#![expect(
    clippy::single_range_in_vec_init,
    reason = "lists of ranges are the subject"
)]

use super::odd::{Odd, Oddity};
use super::*;
use crate::error::ErrorKind;

#[tokio::test]
async fn reads_whole_files_and_their_ends() {
    let mut all = fixtures();
    all.push(Fixture::over(Odd::store(Oddity::NoSuffix)));
    for fixture in all {
        let storage = &fixture.storage;
        let data = digits(100_000);
        fixture.put("f", data.clone()).await;
        fixture.put("empty", "").await;
        assert_eq!(storage.read("f").await.unwrap(), data);
        assert_eq!(storage.read("empty").await.unwrap(), "");
        for len in [1, 10, 99_999, 100_000, 100_001, u64::MAX, 0] {
            let suffix = storage.read_suffix("f", len).await.unwrap();
            let start = 100_000_u64.saturating_sub(len);
            assert_eq!(suffix.bytes, range_of(&data, &(start..100_000)));
            assert_eq!(suffix.file_bytes, 100_000);
        }
        let suffix = storage.read_suffix("empty", 10).await.unwrap();
        assert_eq!((suffix.bytes.len(), suffix.file_bytes), (0, 0));
    }
}

#[tokio::test]
async fn a_suffix_is_one_request() {
    for fixture in fixtures() {
        fixture.put("f", digits(1000)).await;
        fixture.storage.read_suffix("f", 10).await.unwrap();
        let counts = fixture.storage.counters().counts();
        assert_eq!((counts.requests, counts.bytes_fetched), (1, 10));
        let asked = LoggedRequest {
            kind: RequestKind::Suffix,
            file: "f".to_owned(),
            offset: None,
            bytes_asked: Some(10),
            bytes_returned: Some(10),
        };
        assert_eq!(fixture.log.entries(), [asked]);
    }
}

#[tokio::test]
async fn ranges_come_back_in_the_order_asked() {
    let ranges = [
        500..600,
        0..10,
        5..20,
        90_000..100_000,
        7..7,
        0..0,
        599..601,
        0..10,
        5_000_000..5_000_000,
    ];
    for fixture in fixtures() {
        let data = digits(100_000);
        fixture.put("f", data.clone()).await;
        for gap_bytes in [0, 100, 1 << 20] {
            for request_bytes in [1, 1000, 1 << 20] {
                let storage = fixture.storage.clone().with_io_options(IoOptions {
                    gap_bytes,
                    request_bytes,
                    unwanted_part: 1,
                    parallel_requests: 3,
                });
                let read = storage.read_ranges("f", &ranges).await.unwrap();
                assert_eq!(read.len(), ranges.len());
                for (range, bytes) in ranges.iter().zip(&read) {
                    let expected = if range.is_empty() {
                        Bytes::new()
                    } else {
                        range_of(&data, range)
                    };
                    assert_eq!(bytes, &expected);
                }
            }
        }
        assert!(
            fixture
                .storage
                .read_ranges("f", &[])
                .await
                .unwrap()
                .is_empty()
        );
        assert_eq!(
            fixture.storage.read_range("f", 1..3).await.unwrap(),
            data[1..3]
        );
    }
}

#[tokio::test]
async fn near_ranges_are_one_request_and_far_ones_are_not() {
    for fixture in fixtures() {
        fixture.put("f", digits(100_000)).await;
        let storage = fixture.storage.clone().with_io_options(IoOptions {
            gap_bytes: 1000,
            request_bytes: 20_000,
            unwanted_part: 1,
            parallel_requests: 2,
        });
        let asked = async |ranges: &[Range<u64>]| {
            fixture.log.clear();
            let before = storage.counters().counts();
            storage.read_ranges("f", ranges).await.unwrap();
            let entries = fixture.log.entries();
            assert!(entries.iter().all(|r| r.kind == RequestKind::Range));
            assert!(entries.iter().all(|r| r.bytes_asked == r.bytes_returned));
            let counts = storage.counters().counts() - before;
            assert_eq!(counts.requests, entries.len() as u64);
            assert_eq!(counts.bytes_fetched, fixture.log.bytes_returned());
            let request = |r: &LoggedRequest| {
                let start = r.offset.unwrap();
                start..start + r.bytes_asked.unwrap()
            };
            entries.iter().map(request).collect::<Vec<_>>()
        };
        assert_eq!(asked(&[1100..1200, 0..100]).await, [0..1200]);
        assert_eq!(asked(&[0..100, 1101..1200]).await, [0..100, 1101..1200]);
        assert_eq!(
            asked(&[0..15_000, 15_000..30_000]).await,
            [0..15_000, 15_000..30_000]
        );
        assert_eq!(asked(&[0..50_000, 10..20]).await, [0..50_000]);
        assert_eq!(asked(&[5..5, 9..9]).await, []);
        let tiles: Vec<Range<u64>> = (0..100).map(|i| i * 200..i * 200 + 200).collect();
        assert_eq!(asked(&tiles).await, [0..20_000]);
    }
}

#[tokio::test]
async fn a_range_beyond_the_end_is_a_truncated_file_and_no_allocation() {
    let big = 1_u64 << 50;
    let lists: [&[Range<u64>]; 7] = [
        &[990..1001],
        &[1000..1001],
        &[5000..big],
        &[0..big],
        &[0..u64::MAX],
        &[0..10, 600_000_000..600_000_001],
        &[0..1000, 3..4, 999..1001],
    ];
    for fixture in fixtures() {
        fixture.put("a0.tdb", digits(1000)).await;
        for ranges in lists {
            let error = fixture
                .storage
                .read_ranges("a0.tdb", ranges)
                .await
                .unwrap_err();
            let beyond = ranges.last().unwrap();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            assert_eq!(
                error.message(),
                format!(
                    "file a0.tdb has 1000 bytes but bytes {}..{} are needed: the file is truncated",
                    beyond.start, beyond.end
                )
            );
        }
        let error = fixture
            .storage
            .read_ranges("a0.tdb", &[Range { start: 9, end: 3 }])
            .await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(
            fixture.storage.read_range("a0.tdb", 0..1000).await.unwrap(),
            digits(1000)
        );
    }
}

#[tokio::test]
async fn several_files_are_read_as_each_alone() {
    for fixture in fixtures() {
        let storage = &fixture.storage;
        fixture.put("small", digits(1000)).await;
        fixture.put("large", digits(300_000)).await;
        let lists = [
            vec![],
            vec![("small", vec![0..10, 990..1000])],
            vec![
                ("small", vec![5..5]),
                ("large", vec![7..20, 0..3]),
                ("small", vec![1..1000]),
            ],
            vec![("large", vec![0..300_000]), ("small", vec![1..2])],
        ];
        for list in lists {
            let files = list
                .iter()
                .map(|(file, ranges)| ((*file).to_owned(), ranges.clone()))
                .collect::<Vec<_>>();
            let found = storage.read_files(&files).await.unwrap();
            assert_eq!(found.len(), files.len());
            for ((file, ranges), found) in files.iter().zip(&found) {
                assert_eq!(found, &storage.read_ranges(file, ranges).await.unwrap());
            }
        }
        for (file, kind) in [
            ("nothing", ErrorKind::NotFound),
            ("small", ErrorKind::Corrupt),
        ] {
            let files = [("large", vec![0..9]), (file, vec![900..1001])]
                .map(|(file, ranges)| (file.to_owned(), ranges));
            let error = storage.read_files(&files).await.unwrap_err();
            assert_eq!(error.kind(), kind);
            assert!(error.to_string().contains(file), "{error}");
        }
    }
}
