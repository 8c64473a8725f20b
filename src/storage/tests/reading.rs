//! Tests that whole files and their ends are read from every store.

use super::odd::{Odd, Oddity};
use super::*;

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
        let asked = Request {
            kind: RequestKind::Suffix,
            file: "f".to_owned(),
            offset: None,
            bytes_asked: Some(10),
            bytes_returned: Some(10),
        };
        assert_eq!(fixture.log.entries(), [asked]);
    }
}
