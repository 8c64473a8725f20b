//! One suite of tests runs on local files and on a store in memory; some tests run on stores that misbehave.

mod listing;
mod odd;
mod reading;
mod writing;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use tempfile::TempDir;

use super::*;

/// A storage under test; the folder of local files exists as long as this.
struct Fixture {
    storage: Storage,
    log: Arc<RequestLog>,
    _folder: Option<TempDir>,
}

impl Fixture {
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

    /// A folder that is there.
    #[cfg(target_os = "linux")]
    fn at(path: &str) -> Self {
        Self::new(Location::local(path).unwrap(), None)
    }

    async fn put(&self, file: &str, bytes: impl Into<Bytes>) {
        let location = self.storage.location();
        let payload = PutPayload::from(bytes.into());
        let put = location.store().put(&location.path_of(file), payload).await;
        put.unwrap();
    }
}

/// The stores that every test runs on, among them folders with unusual names.
fn fixtures() -> Vec<Fixture> {
    vec![
        Fixture::memory(),
        Fixture::local("array"),
        Fixture::local("with space, 100%41 #1 ?q é~[x]"),
        Fixture::local("array#1"),
        Fixture::local("a\\b{c}^`|<>*\"'+&;="),
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

#[test]
fn futures_can_be_spawned_and_run_without_a_runtime() {
    fn spawnable<F: Future + Send>(future: F) -> F {
        future
    }
    for fixture in fixtures() {
        futures::executor::block_on(fixture.put("f", "0123456789"));
        let storage = fixture.storage.clone();
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
    for fixture in fixtures() {
        let storage = fixture
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
        fixture.put("f", "first").await;
        assert_eq!(*parsed(&mut loads).await, "first");
        assert_eq!(*parsed(&mut loads).await, "first");
        assert_eq!(loads, 1);
        fixture.put("f", "second").await;
        assert_eq!(*parsed(&mut loads).await, "second");
        assert_eq!(loads, 2);
    }
}
