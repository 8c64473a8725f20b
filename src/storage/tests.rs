//! One suite of behaviour, run over local files and over a store in memory, and what happens with stores that misbehave.

#![expect(
    clippy::single_range_in_vec_init,
    reason = "lists of ranges are the subject"
)]

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload,
    PutResult,
};
use tempfile::TempDir;

use super::*;
use crate::error::ErrorKind;

/// A storage under test; the folder of local files lives as long as this.
struct Place {
    storage: Storage,
    log: Arc<RequestLog>,
    _folder: Option<TempDir>,
}

impl Place {
    fn new(location: Location, folder: Option<TempDir>) -> Self {
        let log = Arc::new(RequestLog::new());
        let storage = Storage::new(location).with_request_log(Arc::clone(&log));
        Self {
            storage,
            log,
            _folder: folder,
        }
    }

    fn memory() -> Self {
        Self::over(Arc::new(InMemory::new()))
    }

    fn over(store: Arc<dyn ObjectStore>) -> Self {
        let root = Path::from("some/array");
        Self::new(Location::new(store, root, "memory://some/array"), None)
    }

    fn local(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let location = Location::local(path.to_str().unwrap()).unwrap();
        Self::new(location, Some(folder))
    }

    async fn put(&self, file: &str, bytes: impl Into<Bytes>) {
        let location = self.storage.location();
        let payload = PutPayload::from(bytes.into());
        let put = location.store().put(&location.path_of(file), payload).await;
        put.unwrap();
    }
}

/// The stores every behaviour is checked on, among them folders with names that need care.
fn places() -> Vec<Place> {
    vec![
        Place::memory(),
        Place::local("array"),
        Place::local("with space, 100%41 #1 ?q é~[x]"),
        Place::local("a\\b{c}^`|<>*\"'+&;="),
    ]
}

fn names(listing: &Listing) -> Vec<&str> {
    listing.files.iter().map(|f| f.name.as_str()).collect()
}

fn digits(len: usize) -> Vec<u8> {
    (0..len).map(|i| u8::try_from(i % 251).unwrap()).collect()
}

fn range_of(data: &[u8], range: &Range<u64>) -> Bytes {
    let start = usize::try_from(range.start).unwrap();
    let end = usize::try_from(range.end).unwrap();
    Bytes::copy_from_slice(&data[start..end])
}

#[tokio::test]
async fn lists_files_and_folders_sorted() {
    for place in places() {
        for file in [
            "b.tdb",
            "a.tdb",
            "__fragments/__2/x",
            "__fragments/__1/y/z",
            "__fragments/c",
        ] {
            place.put(file, "12345").await;
        }
        place.put("../elsewhere", "1").await;
        let root = place.storage.list("").await.unwrap();
        assert_eq!(names(&root), ["a.tdb", "b.tdb"]);
        assert_eq!(root.folders, ["%2E%2E", "__fragments"]);
        assert_eq!(root.files[0].bytes, 5);
        assert!(root.files[0].modified_us > 1_600_000_000_000_000);

        let fragments = place.storage.list("__fragments").await.unwrap();
        assert_eq!(names(&fragments), ["c"]);
        assert_eq!(fragments.folders, ["__1", "__2"]);
        assert_eq!(place.storage.list("__fragments/").await.unwrap(), fragments);
        assert_eq!(place.log.count(RequestKind::List), 3);

        let info = place.storage.head("a.tdb").await.unwrap();
        assert_eq!(info.as_ref(), root.files.first());
    }
}

#[tokio::test]
async fn what_does_not_exist_is_an_empty_folder_or_not_found() {
    for place in places() {
        let storage = &place.storage;
        assert_eq!(*storage.list("").await.unwrap(), Listing::default());
        place.put("file", "1").await;
        place.put("folder/file", "1").await;
        for folder in ["nothing", "file", "file/below", "fol", "folder/nothing"] {
            let listing = storage.list(folder).await.unwrap();
            assert_eq!(*listing, Listing::default(), "{folder}");
        }
        for file in ["nothing", "file/below", "folder", "fol"] {
            assert_eq!(storage.head(file).await.unwrap(), None, "{file}");
            let errors = [
                storage.read(file).await.unwrap_err(),
                storage.read_range(file, 0..1).await.unwrap_err(),
                storage.read_suffix(file, 5).await.unwrap_err(),
                storage.read_suffix(file, 0).await.unwrap_err(),
                storage
                    .read_ranges(file, &[0..1, 1 << 40..2 << 40])
                    .await
                    .unwrap_err(),
            ];
            for error in errors {
                assert_eq!(error.kind(), ErrorKind::NotFound, "{file}: {error}");
                let uri = format!("{}/{file}", storage.uri());
                assert_eq!(error.message(), format!("{uri} does not exist"));
            }
        }
    }
}

#[tokio::test]
async fn listings_are_kept_while_the_folder_stays_as_it_was() {
    let place = Place::local("kept");
    let root = place.storage.location().local_path("").unwrap();
    let age = |folder: &str, seconds| {
        let time = std::time::SystemTime::now() - std::time::Duration::from_secs(seconds);
        let folder = std::fs::File::open(root.join(folder)).unwrap();
        folder.set_modified(time).unwrap();
        time
    };
    let restore = |folder: &str, time| {
        let folder = std::fs::File::open(root.join(folder)).unwrap();
        folder.set_modified(time).unwrap();
    };
    let list = async || {
        let folders = [
            ("", Keep::WithoutFiles),
            ("c", Keep::Always),
            ("d", Keep::WithoutFiles),
            ("missing", Keep::Always),
        ];
        let listed = place.storage.list_all(folders).await.unwrap();
        listed.map(|listing| names(&listing).join(" "))
    };
    place.put("c/1", "").await;
    place.put("d/1", "").await;
    assert_eq!(list().await, ["", "1", "1", ""]);
    // Just written, so nothing was kept.
    place.put("c/2", "").await;
    assert_eq!(list().await, ["", "1 2", "1", ""]);
    let (c, d, top) = (age("c", 100), age("d", 100), age("", 100));
    assert_eq!(list().await, ["", "1 2", "1", ""]);
    // What takes back the time of a folder goes unseen where listings are kept.
    for file in ["c/3", "d/2", "top"] {
        place.put(file, "").await;
    }
    restore("c", c);
    restore("d", d);
    restore("", top);
    assert_eq!(list().await, ["", "1 2", "1 2", ""]);
    age("c", 50);
    age("", 50);
    place.put("missing/1", "").await;
    assert_eq!(list().await, ["top", "1 2 3", "1 2", "1"]);
}

#[tokio::test]
async fn names_are_literal_in_every_store() {
    for place in places() {
        for name in [
            "a b",
            "a%20b",
            "100%",
            "é~[x]{y}",
            "a#b",
            "?*|",
            "a%2A.tdb",
            "\"<>\"",
            "a\\b",
        ] {
            place.put(name, name.to_owned()).await;
            assert_eq!(place.storage.read(name).await.unwrap(), name);
            let listing = place.storage.list("").await.unwrap();
            assert!(names(&listing).contains(&name), "{name} in {listing:?}");
        }
    }
}

#[tokio::test]
async fn empty_objects_that_stand_for_folders_are_dropped() {
    let place = Place::memory();
    place.put("__fragments", "").await;
    place.put("__fragments/x", "1").await;
    place.put("__meta", "not empty").await;
    place.put("__meta/x", "1").await;
    place.put("empty", "").await;
    let listing = place.storage.list("").await.unwrap();
    assert_eq!(names(&listing), ["__meta", "empty"]);
    assert_eq!(listing.folders, ["__fragments", "__meta"]);

    let place = Place::over(Odd::store(Oddity::ListsTheFolderItself));
    place.put("__fragments/x", "1").await;
    let listing = place.storage.list("__fragments").await.unwrap();
    assert_eq!(names(&listing), ["x"]);
}

#[tokio::test]
async fn reads_whole_files_and_their_ends() {
    let mut all = places();
    all.push(Place::over(Odd::store(Oddity::NoSuffix)));
    for place in all {
        let storage = &place.storage;
        let data = digits(100_000);
        place.put("f", data.clone()).await;
        place.put("empty", "").await;
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
    for place in places() {
        place.put("f", digits(1000)).await;
        place.storage.read_suffix("f", 10).await.unwrap();
        let counts = place.storage.counters().counts();
        assert_eq!((counts.requests, counts.bytes_fetched), (1, 10));
        let asked = Request {
            kind: RequestKind::Suffix,
            file: "f".to_owned(),
            offset: None,
            bytes_asked: Some(10),
            bytes_returned: Some(10),
        };
        assert_eq!(place.log.entries(), [asked]);
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
    for place in places() {
        let data = digits(100_000);
        place.put("f", data.clone()).await;
        for gap_bytes in [0, 100, 1 << 20] {
            for request_bytes in [1, 1000, 1 << 20] {
                let storage = place.storage.clone().with_io_options(IoOptions {
                    gap_bytes,
                    request_bytes,
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
            place
                .storage
                .read_ranges("f", &[])
                .await
                .unwrap()
                .is_empty()
        );
        assert_eq!(
            place.storage.read_range("f", 1..3).await.unwrap(),
            data[1..3]
        );
    }
}

#[tokio::test]
async fn near_ranges_are_one_request_and_far_ones_are_not() {
    for place in places() {
        place.put("f", digits(100_000)).await;
        let storage = place.storage.clone().with_io_options(IoOptions {
            gap_bytes: 1000,
            request_bytes: 20_000,
            parallel_requests: 2,
        });
        let asked = async |ranges: &[Range<u64>]| {
            place.log.clear();
            let before = storage.counters().counts();
            storage.read_ranges("f", ranges).await.unwrap();
            let entries = place.log.entries();
            assert!(entries.iter().all(|r| r.kind == RequestKind::Range));
            assert!(entries.iter().all(|r| r.bytes_asked == r.bytes_returned));
            let counts = storage.counters().counts() - before;
            assert_eq!(counts.requests, entries.len() as u64);
            assert_eq!(counts.bytes_fetched, place.log.bytes_returned());
            let request = |r: &Request| {
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
    for place in places() {
        place.put("a0.tdb", digits(1000)).await;
        for ranges in lists {
            let error = place
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
        let error = place
            .storage
            .read_ranges("a0.tdb", &[Range { start: 9, end: 3 }])
            .await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(
            place.storage.read_range("a0.tdb", 0..1000).await.unwrap(),
            digits(1000)
        );
    }
}

#[tokio::test]
async fn stores_that_answer_wrongly_are_caught() {
    for oddity in [Oddity::DropsBytes, Oddity::ShiftsRanges] {
        let place = Place::over(Odd::store(oddity));
        place.put("f", digits(1000)).await;
        let error = place.storage.read_range("f", 10..20).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Storage, "{error}");
    }
    let place = Place::over(Odd::store(Oddity::DropsBytes));
    place.put("f", digits(1000)).await;
    assert_eq!(
        place.storage.read("f").await.unwrap_err().kind(),
        ErrorKind::Storage
    );
    let error = place.storage.read_suffix("f", 10).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Storage);
    // The failed request is in the log, the bytes that came back are not lost.
    assert_eq!(place.log.len(), 2);

    let place = Place::over(Odd::store(Oddity::Fails));
    place.put("f", digits(1000)).await;
    for error in [
        place.storage.list("").await.unwrap_err(),
        place.storage.read("f").await.unwrap_err(),
        place.storage.read_range("f", 1..2).await.unwrap_err(),
        place.storage.read_suffix("f", 1).await.unwrap_err(),
        place.storage.head("f").await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Storage);
        assert!(error.to_string().contains("memory://some/array"), "{error}");
        assert!(error.to_string().contains("out of order"), "{error}");
    }
}

#[test]
fn futures_can_be_spawned_and_run_without_a_runtime() {
    fn spawnable<F: Future + Send>(future: F) -> F {
        future
    }
    for place in places() {
        futures::executor::block_on(place.put("f", "0123456789"));
        let storage = place.storage.clone();
        let ranges = [0..1, 9..10];
        let options = IoOptions {
            gap_bytes: 1,
            ..IoOptions::LOCAL
        };
        let storage = storage.with_io_options(options);
        let read = spawnable(storage.read_ranges("f", &ranges));
        assert_eq!(futures::executor::block_on(read).unwrap(), ["0", "9"]);
        drop(spawnable(storage.list("")));
        drop(spawnable(storage.read_suffix("f", 1)));
        drop(spawnable(storage.head("f")));
    }
}

#[tokio::test]
async fn a_local_path_may_go_through_links_and_parents() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().join("real/array");
    std::fs::create_dir_all(&real).unwrap();
    std::fs::write(real.join("f"), "1").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(&real, folder.path().join("link")).unwrap();
    for path in [
        "real/array",
        "real/../real/./array/",
        "link",
        "link/../array",
    ] {
        let path = folder.path().join(path);
        let storage = Storage::new(Location::local(path.to_str().unwrap()).unwrap());
        assert_eq!(storage.read("f").await.unwrap(), "1", "{path:?}");
        assert_eq!(names(&storage.list("").await.unwrap()), ["f"], "{path:?}");
    }
}

#[tokio::test]
async fn a_cached_value_goes_stale_with_its_file() {
    for place in places() {
        let storage = place
            .storage
            .clone()
            .with_cache(Arc::new(MetadataCache::new(1 << 20)));
        let parsed = async |loads: &mut u32| {
            let info = storage.head("f").await.unwrap().unwrap();
            let key = storage.cache_key("f", 0, &info);
            let load = async {
                *loads += 1;
                Ok((storage.read("f").await?, 1))
            };
            storage.cache().get_or_load(key, load).await.unwrap()
        };
        let mut loads = 0;
        place.put("f", "first").await;
        assert_eq!(*parsed(&mut loads).await, "first");
        assert_eq!(*parsed(&mut loads).await, "first");
        assert_eq!(loads, 1);
        place.put("f", "second").await;
        assert_eq!(*parsed(&mut loads).await, "second");
        assert_eq!(loads, 2);
    }
}

/// A store in memory with one oddity.
#[derive(Debug)]
struct Odd {
    inner: InMemory,
    oddity: Oddity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Oddity {
    NoSuffix,
    DropsBytes,
    ShiftsRanges,
    ListsTheFolderItself,
    Fails,
}

impl Odd {
    fn store(oddity: Oddity) -> Arc<dyn ObjectStore> {
        let inner = InMemory::new();
        Arc::new(Self { inner, oddity })
    }

    fn fail_if_so(&self) -> object_store::Result<()> {
        if self.oddity != Oddity::Fails {
            return Ok(());
        }
        Err(object_store::Error::Generic {
            store: "Odd",
            source: "out of order".into(),
        })
    }
}

impl std::fmt::Display for Odd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.oddity)
    }
}

#[async_trait::async_trait]
impl ObjectStore for Odd {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> object_store::Result<PutResult> {
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(
        &self,
        location: &Path,
        mut options: GetOptions,
    ) -> object_store::Result<GetResult> {
        self.fail_if_so()?;
        match (self.oddity, &mut options.range) {
            (Oddity::NoSuffix, Some(GetRange::Suffix(_))) => {
                let source = "no suffix ranges".into();
                return Err(object_store::Error::NotSupported { source });
            }
            (Oddity::ShiftsRanges, Some(GetRange::Bounded(range))) => {
                *range = range.start + 1..range.end + 1
            }
            _ => {}
        }
        let head = options.head;
        let mut result = self.inner.get_opts(location, options).await?;
        if self.oddity == Oddity::DropsBytes && !head {
            let GetResultPayload::Stream(stream) = result.payload else {
                return Ok(result);
            };
            let shorter = stream.map(|chunk| chunk.map(|bytes| bytes.slice(1..)));
            result.payload = GetResultPayload::Stream(shorter.boxed());
        }
        Ok(result)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.fail_if_so()?;
        let mut result = self.inner.list_with_delimiter(prefix).await?;
        if let (Oddity::ListsTheFolderItself, Some(prefix)) = (self.oddity, prefix) {
            let mut itself = result.objects[0].clone();
            itself.location = prefix.clone();
            itself.size = 0;
            result.objects.push(itself);
        }
        Ok(result)
    }

    async fn copy_opts(
        &self,
        from: &Path,
        to: &Path,
        options: CopyOptions,
    ) -> object_store::Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
