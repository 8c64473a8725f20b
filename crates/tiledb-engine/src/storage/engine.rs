//! An engine: what all its arrays share, within limits of its own.
//!
//! A program that sets nothing uses one engine ([`Engine::shared`]). A server, or a library in a larger program, opens several,
//! which share nothing: what one caches, decodes or leaves idle takes nothing from the others.
//!
//! The subtle thing: to each other, two engines of one process are like two processes. Each has a clock of its own, so their
//! changes of one array may have the same time, as those of two processes may.

use std::fmt;
use std::num::NonZero;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use arrow::buffer::MutableBuffer;
use tiledb_stores::{DiskCacheOptions, ObjectStores};
use tokio::runtime::Handle;

use super::cache::MetadataCache;
use super::decode_threads::DecodeThreads;
use super::disk_cache::EngineDiskCache;
use crate::error::Result;
use crate::memory::budget::{MemoryBudget, UnlimitedBudget};
use crate::memory::idle::{IdleAccount, IdleBuffers, IdleLedger};

/// The default limit of cached metadata.
const METADATA_BYTES: u64 = 128 << 20;
/// The default limit of idle buffers.
const IDLE_BYTES: usize = 48 << 20;
/// The part of the idle bytes that are memory of decoded tiles; the others are buffers of files.
const TILE_PART: usize = 3;

/// The limits of an [`Engine`].
///
/// ```
/// use tiledb_engine::{Engine, EngineOptions};
///
/// let options = EngineOptions::default()
///     .with_metadata_bytes(16 << 20)
///     .with_decode_threads(2)
///     .with_idle_bytes(0);
/// let small = Engine::new(options);
/// assert_eq!(small.options().decode_threads, 2);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineOptions {
    /// The most bytes of parsed metadata that are cached. The default is 128 MiB; with 0, none are cached.
    pub metadata_bytes: u64,
    /// The most threads that decode tiles at the same time, at least 1. The default is the number of processors.
    pub decode_threads: usize,
    /// The most bytes of buffers that wait for the next query. The default is 48 MiB: a third for the memory of decoded tiles,
    /// two thirds for buffers of local files. With 0, each buffer is freed after its use.
    pub idle_bytes: usize,
}

impl Default for EngineOptions {
    fn default() -> Self {
        let processors = std::thread::available_parallelism();
        Self {
            metadata_bytes: METADATA_BYTES,
            decode_threads: processors.map_or(1, NonZero::get),
            idle_bytes: IDLE_BYTES,
        }
    }
}

impl EngineOptions {
    /// Sets the most bytes of parsed metadata that are cached.
    #[must_use]
    pub fn with_metadata_bytes(mut self, bytes: u64) -> Self {
        self.metadata_bytes = bytes;
        self
    }

    /// Sets the most threads that decode tiles at the same time.
    #[must_use]
    pub fn with_decode_threads(mut self, threads: usize) -> Self {
        self.decode_threads = threads;
        self
    }

    /// Sets the most bytes of buffers that wait for the next query.
    #[must_use]
    pub fn with_idle_bytes(mut self, bytes: usize) -> Self {
        self.idle_bytes = bytes;
        self
    }
}

/// What arrays share that are opened together: object stores, cached metadata, threads that decode, buffers that wait for the
/// next query, and the clock of changes.
///
/// Clones are handles of the same engine. Arrays, tables and scans hold one. When the last is dropped, the threads end and the
/// buffers are freed.
#[derive(Clone)]
pub struct Engine(Arc<EngineState>);

struct EngineState {
    options: EngineOptions,
    cache: Arc<MetadataCache>,
    threads: DecodeThreads,
    idle: Arc<IdleLedger>,
    /// Idle buffers of files, and the account of readers without a budget.
    files: Arc<IdleBuffers<Vec<u8>>>,
    unbudgeted: Arc<IdleAccount<Vec<u8>>>,
    /// Idle memory of decoded tiles.
    tiles: Arc<IdleBuffers<MutableBuffer>>,
    ticks: Arc<Mutex<ClockTicks>>,
    stores: ObjectStores,
    disk_cache: EngineDiskCache,
}

/// The last time and the last name that an engine gave to a change.
#[derive(Debug, Default)]
pub struct ClockTicks {
    /// The time, in milliseconds since 1970.
    pub last_ms: u64,
    /// Makes names of one millisecond ascend in the order of their making, as libtiledb's do.
    pub counter: u32,
}

impl Engine {
    /// An engine with these limits. Its threads start with the first work.
    pub fn new(options: EngineOptions) -> Self {
        Self::with_stores(options, ObjectStores::default())
    }

    /// An engine with these limits and stores, which may see another environment than that of the process.
    pub fn with_stores(options: EngineOptions, stores: ObjectStores) -> Self {
        let idle = IdleLedger::new();
        let tile_bytes = options.idle_bytes / TILE_PART;
        let file_bytes = options.idle_bytes.saturating_sub(tile_bytes);
        let files = IdleBuffers::new(file_bytes, Arc::clone(&idle));
        Self(Arc::new(EngineState {
            cache: Arc::new(MetadataCache::new(options.metadata_bytes)),
            threads: DecodeThreads::new(options.decode_threads),
            unbudgeted: files.account(Arc::new(UnlimitedBudget)),
            files,
            tiles: IdleBuffers::new(tile_bytes, Arc::clone(&idle)),
            idle,
            ticks: Arc::default(),
            stores,
            disk_cache: EngineDiskCache::default(),
            options,
        }))
    }

    /// The engine of everything that is opened without another one, with the default limits.
    pub fn shared() -> Self {
        // It belongs to the process, so that callers who don't know each other share one limit for all of them.
        static SHARED: OnceLock<Engine> = OnceLock::new();
        SHARED
            .get_or_init(|| Self::new(EngineOptions::default()))
            .clone()
    }

    /// The limits.
    pub fn options(&self) -> &EngineOptions {
        &self.0.options
    }

    /// The cache of parsed metadata.
    pub fn cache(&self) -> &Arc<MetadataCache> {
        &self.0.cache
    }

    /// The bytes of buffers that wait for the next query.
    pub fn idle_bytes(&self) -> usize {
        self.0.idle.bytes()
    }

    /// Gives the buffers that wait for the next query back to the system.
    pub fn release_idle(&self) {
        self.0.files.release();
        self.0.tiles.release();
    }

    /// The object stores that URLs name.
    pub fn stores(&self) -> &ObjectStores {
        &self.0.stores
    }

    /// Keeps bytes that object stores return in a folder on disk, or nowhere. All that use the engine share one cache, and the last
    /// call counts. The folder is opened when bytes are looked for. If it can't be used, a warning is logged and the engine goes
    /// without it.
    ///
    /// The bytes are those of the store, so encrypted arrays stay encrypted. [`close_disk_cache`](Self::close_disk_cache) at the end of
    /// a program writes what is still in memory.
    ///
    /// # Errors
    /// Fails if the capacity is too small, or if the program was built without the feature `cache`.
    pub fn set_disk_cache(&self, options: Option<DiskCacheOptions>) -> Result<()> {
        self.0.disk_cache.set(options)
    }

    /// Where bytes are kept on disk.
    pub fn disk_cache(&self) -> Option<DiskCacheOptions> {
        self.0.disk_cache.options()
    }

    /// Writes what waits for the disk, releases the folder for other processes, and goes on without a cache.
    pub async fn close_disk_cache(&self) {
        self.0.disk_cache.close().await;
    }

    /// The reasons for which no bytes are kept although a folder was set, since the last call. A program that doesn't show its log can
    /// show them.
    pub fn take_disk_cache_warnings(&self) -> Vec<String> {
        self.0.disk_cache.take_warnings()
    }

    /// The cache on disk, if it can be opened.
    #[cfg(feature = "cache")]
    pub(super) async fn disk_cache_opened(
        &self,
    ) -> Option<Arc<tiledb_stores::disk_cache::DiskCache>> {
        self.0.disk_cache.get().await
    }

    /// Whether both are handles of one engine.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// A handle that doesn't keep the engine alive.
    pub fn downgrade(&self) -> WeakEngine {
        WeakEngine(Arc::downgrade(&self.0))
    }

    /// Where work is handed to the threads that decode.
    pub(crate) fn decode_threads(&self) -> Result<&Handle> {
        self.0.threads.handle()
    }

    /// The account of a reader of files, whose idle buffers are charged to `budget`.
    pub(super) fn file_account(
        &self,
        budget: Option<&Arc<dyn MemoryBudget>>,
    ) -> Arc<IdleAccount<Vec<u8>>> {
        match budget {
            Some(budget) => self.0.files.account(Arc::clone(budget)),
            None => Arc::clone(&self.0.unbudgeted),
        }
    }

    /// The account of a reader of tiles, whose idle memory is charged to `budget`.
    pub fn tile_account(&self, budget: Arc<dyn MemoryBudget>) -> Arc<IdleAccount<MutableBuffer>> {
        self.0.tiles.account(budget)
    }

    /// The last time and the last name of a change.
    pub(crate) fn ticks(&self) -> &Arc<Mutex<ClockTicks>> {
        &self.0.ticks
    }
}

impl Default for Engine {
    /// The [shared](Self::shared) engine.
    fn default() -> Self {
        Self::shared()
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Engine").field(&self.0.options).finish()
    }
}

impl MetadataCache {
    /// The cache of the [shared](Engine::shared) engine.
    pub fn shared() -> Arc<Self> {
        Arc::clone(Engine::shared().cache())
    }
}

/// A handle of an [`Engine`] that doesn't keep it alive.
#[derive(Clone)]
pub struct WeakEngine(Weak<EngineState>);

impl WeakEngine {
    /// The engine, unless its last handle was dropped.
    pub fn upgrade(&self) -> Option<Engine> {
        self.0.upgrade().map(Engine)
    }
}

impl fmt::Debug for WeakEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakEngine").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::memory::budget::Grant;
    use crate::storage::{Location, Storage};

    const FILE_BYTES: usize = 1 << 20;

    /// A file of a megabyte in a new folder.
    fn file() -> (tempfile::TempDir, Location) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), vec![7; FILE_BYTES]).unwrap();
        let location = Location::local(folder.path().to_str().unwrap()).unwrap();
        (folder, location)
    }

    fn engine(options: EngineOptions) -> Engine {
        let engine = Engine::new(options);
        assert!(!engine.is_same(&Engine::shared()));
        engine
    }

    /// Caches so many pieces of metadata of 1,000 bytes, and returns how many remain.
    async fn cached(storage: &Storage, pieces: u64) -> u64 {
        for piece in 0..pieces {
            let key = storage.cache_key_immutable("f", piece);
            let load = async { Ok((piece, 1000)) };
            storage.cache().get_or_load(key, load).await.unwrap();
        }
        storage.cache().stats().entries
    }

    #[tokio::test]
    async fn the_cache_of_one_engine_evicts_nothing_of_another() {
        let (_folder, location) = file();
        let [large, small] = [1 << 20, 5000].map(|bytes| {
            let engine = engine(EngineOptions::default().with_metadata_bytes(bytes));
            Storage::in_engine(location.clone(), &engine)
        });
        assert_eq!(cached(&large, 20).await, 20);
        assert!(cached(&small, 20).await < 5);
        assert_eq!(cached(&large, 20).await, 20);
        assert_eq!(large.cache().stats().misses, 20);
        let other = Storage::new(location);
        assert!(Arc::ptr_eq(other.cache(), Engine::shared().cache()));
    }

    #[tokio::test]
    async fn the_buffers_of_one_engine_wait_for_no_other() {
        let (_folder, location) = file();
        let [keeps, frees] = [3 * FILE_BYTES, 0].map(|bytes| {
            let engine = engine(EngineOptions::default().with_idle_bytes(bytes));
            Storage::in_engine(location.clone(), &engine)
        });
        for storage in [&keeps, &frees, &keeps, &frees] {
            assert_eq!(storage.read("f").await.unwrap().len(), FILE_BYTES);
        }
        assert_eq!(keeps.engine().idle_bytes(), FILE_BYTES);
        assert_eq!(frees.engine().idle_bytes(), 0);
        frees.engine().release_idle();
        assert_eq!(keeps.engine().idle_bytes(), FILE_BYTES);
        keeps.engine().release_idle();
        assert_eq!(keeps.engine().idle_bytes(), 0);
    }

    #[derive(Debug, Default)]
    struct CountingBudget(Arc<AtomicUsize>);

    impl MemoryBudget for CountingBudget {
        fn reserve(&self, bytes: usize) -> Result<Grant> {
            self.0.fetch_add(bytes, Ordering::Relaxed);
            let reserved = Arc::clone(&self.0);
            Ok(Grant::new(bytes, move |bytes| {
                reserved.fetch_sub(bytes, Ordering::Relaxed);
            }))
        }
    }

    #[tokio::test]
    async fn idle_buffers_are_charged_to_their_reader_and_freed_with_the_engine() {
        let (_folder, location) = file();
        let engine = engine(EngineOptions::default());
        let budgets = [CountingBudget::default(), CountingBudget::default()];
        let [of_one, of_other] = budgets.each_ref().map(|budget| Arc::clone(&budget.0));
        let charged = || [&of_one, &of_other].map(|bytes| bytes.load(Ordering::Relaxed));
        let [one, other] = budgets.map(|budget| {
            let storage = Storage::in_engine(location.clone(), &engine);
            storage.charging(&(Arc::new(budget) as _))
        });
        let (first, second) = (one.read("f").await.unwrap(), other.read("f").await.unwrap());
        assert_eq!(charged(), [0, 0], "they are in use");
        drop(first);
        assert_eq!(charged(), [FILE_BYTES, 0]);
        let again = other.read("f").await.unwrap();
        assert_eq!(charged(), [0, 0], "the other took the buffer");
        drop(again);
        assert_eq!(charged(), [0, FILE_BYTES]);
        let weak = engine.downgrade();
        drop((engine, one, other));
        assert!(weak.upgrade().is_none());
        assert_eq!(charged(), [0, 0]);
        assert_eq!(second.len(), FILE_BYTES, "a buffer in use outlives it");
        drop(second);
        assert_eq!(charged(), [0, 0]);
    }
}
