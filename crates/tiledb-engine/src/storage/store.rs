//! A [`Storage`] reads the files of one array: its location, and the engine, key, cache and counters to read with.

/// Calls a method of [`access::FileAccess`] for the place where the files of a storage are.
macro_rules! of_files {
    ($storage:expr, $files:ident => $call:expr) => {{
        use crate::storage::store::ArrayFiles;
        use crate::storage::store::access::FileAccess as _;

        match $storage.files() {
            ArrayFiles::Disk($files) => $call,
            ArrayFiles::Objects($files) => $call,
        }
    }};
}

mod access;
mod ahead;
#[cfg(feature = "cache")]
mod cached;
mod disk;
mod list;
mod objects;
mod pages;
mod read;
mod requests;
#[cfg(not(feature = "cache"))]
mod uncached;
mod upload;
mod write;

pub use ahead::ExpectedFiles;
pub use read::FileSuffix;
pub use upload::{Upload, Uploaded};
pub use write::STAGED_SUFFIX;

use std::fmt;
use std::sync::Arc;

use object_store::ObjectStore;

use self::ahead::FilesAhead;
#[cfg(feature = "cache")]
use self::cached::ListedFiles;
use self::disk::DiskFiles;
use self::objects::ObjectFiles;
#[cfg(not(feature = "cache"))]
use self::uncached::UnlistedFiles as ListedFiles;
use super::buffers::FileBuffers;
use super::cache::{CacheKey, MetadataCache};
use super::coalesce::{self, IoOptions};
use super::engine::Engine;
use super::link::LinkEstimate;
use super::listing::FileInfo;
use super::location::Location;
use super::request_log::{CacheReads, IoCounters, RequestLog};
use crate::error::{Error, Result};
use crate::filter::generic_tile::{self, GenericTileContext};
use crate::filter::{EncryptionKey, GenericTile, KeyFingerprint};
use crate::memory::budget::MemoryBudget;

/// Reads the files of one array. Cheap to clone.
#[derive(Clone)]
pub struct Storage {
    location: Location,
    /// The folder that was opened or attached, if this array or group is a member of it.
    root: Option<Arc<Location>>,
    /// Options other than those of the kind of store.
    options: Option<IoOptions>,
    engine: Engine,
    cache: Arc<MetadataCache>,
    counters: Arc<IoCounters>,
    log: Option<Arc<RequestLog>>,
    encryption: StorageEncryption,
    /// Grants the memory of large metadata; without it, they take what they need.
    memory: Option<Arc<dyn MemoryBudget>>,
    buffers: FileBuffers,
    ahead: Option<Arc<FilesAhead>>,
    listed: Arc<ListedFiles>,
    /// Whether the store is asked for bytes that are kept on disk, too.
    asks_store: bool,
    cache_reads: Option<Arc<CacheReads>>,
}

/// The place where the files of an array are. Only [`Storage::files`] looks at which one it is.
enum ArrayFiles<'a> {
    Disk(DiskFiles<'a>),
    Objects(ObjectFiles<'a>),
}

/// The key that the array's files are read with.
#[derive(Clone, Default)]
struct StorageEncryption {
    key: Option<Arc<EncryptionKey>>,
    /// Whether the key only applies if the array is encrypted; otherwise it is an error if the array is not.
    on_demand: bool,
}

impl Storage {
    /// Reads below `location`, in the [shared](Engine::shared) engine.
    pub fn new(location: Location) -> Self {
        Self::in_engine(location, &Engine::shared())
    }

    /// Reads below `location`, with the cache, the threads and the buffers of an engine.
    pub fn in_engine(location: Location, engine: &Engine) -> Self {
        Self {
            options: None,
            location,
            root: None,
            engine: engine.clone(),
            cache: Arc::clone(engine.cache()),
            buffers: engine.file_account(None),
            counters: Arc::default(),
            log: None,
            encryption: StorageEncryption::default(),
            memory: None,
            ahead: None,
            listed: Arc::default(),
            asks_store: false,
            cache_reads: None,
        }
    }

    /// The same with another location.
    #[must_use]
    pub fn at(&self, location: Location) -> Self {
        let is_same_kind = location.is_files() == self.location.is_files();
        let options = self.options.filter(|_| is_same_kind);
        Self {
            location,
            options,
            // Another folder may be listed by other people.
            listed: Arc::default(),
            ..self.clone()
        }
    }

    /// The storage of a member of a group, or of an array of labels, at another location; it belongs to what was opened.
    #[must_use]
    pub fn of_member(&self, location: Location) -> Self {
        Self {
            root: Some(Arc::new(self.root().clone())),
            ..self.at(location)
        }
    }

    /// The folder that the user opened or attached: the location itself, or that of a group above it.
    pub fn root(&self) -> &Location {
        self.root.as_deref().unwrap_or(&self.location)
    }

    /// Reads with the cache, the threads and the buffers of another engine. The key, the log and the memory stay.
    #[must_use]
    pub fn with_engine(mut self, engine: &Engine) -> Self {
        self.engine = engine.clone();
        self.cache = Arc::clone(engine.cache());
        self.buffers = engine.file_account(self.memory.as_ref());
        self
    }

    /// Sets a cache other than that of the engine.
    #[must_use]
    pub fn with_cache(mut self, cache: Arc<MetadataCache>) -> Self {
        self.cache = cache;
        self
    }

    /// Sets the log of requests.
    #[must_use]
    pub fn with_request_log(mut self, log: Arc<RequestLog>) -> Self {
        self.log = Some(log);
        self
    }

    /// Sets the key of an encrypted array; reading then fails if the array is not encrypted.
    #[must_use]
    pub fn with_encryption_key(mut self, key: Option<Arc<EncryptionKey>>) -> Self {
        self.encryption = StorageEncryption {
            key,
            on_demand: false,
        };
        self
    }

    /// Sets the key to use if the array is encrypted.
    #[must_use]
    pub fn with_encryption_key_on_demand(mut self, key: Option<Arc<EncryptionKey>>) -> Self {
        self.encryption = StorageEncryption {
            key,
            on_demand: true,
        };
        self
    }

    /// Sets the memory limit of metadata: what is large is granted by it while it is decoded. The idle buffers of files that
    /// were read here are charged to it, too.
    #[must_use]
    pub fn with_memory(self, budget: Arc<dyn MemoryBudget>) -> Self {
        let mut storage = self.charging(&budget);
        storage.memory = Some(budget);
        storage
    }

    /// Charges the idle buffers of files that are read from now on to `budget`.
    #[must_use]
    pub fn charging(mut self, budget: &Arc<dyn MemoryBudget>) -> Self {
        self.buffers = self.engine.file_account(Some(budget));
        self
    }

    /// Decodes the generic tile at the start of `bytes`; `what` names it in errors. If the array has a key, the tile must be
    /// encrypted.
    ///
    /// # Errors
    /// As for [`generic_tile::decode_by`].
    pub fn decode_generic_tile(&self, bytes: &[u8], what: &'static str) -> Result<GenericTile> {
        generic_tile::decode_by(bytes, what, self.means())
    }

    /// As [`decode_generic_tile`](Self::decode_generic_tile), but a plain tile passes although there is a key.
    ///
    /// # Errors
    /// As for [`generic_tile::decode_or_plain_by`].
    pub fn decode_generic_tile_or_plain(
        &self,
        bytes: &[u8],
        what: &'static str,
    ) -> Result<GenericTile> {
        generic_tile::decode_or_plain_by(bytes, what, self.means())
    }

    fn means(&self) -> GenericTileContext<'_> {
        GenericTileContext {
            key: self.encryption_key(),
            budget: self.memory.as_ref(),
        }
    }

    /// The key to read encrypted files with.
    pub fn encryption_key(&self) -> Option<&Arc<EncryptionKey>> {
        self.encryption.key.as_ref()
    }

    /// Whether the key, if any, only applies if the array is encrypted.
    pub fn has_key_on_demand(&self) -> bool {
        self.encryption.on_demand
    }

    /// Asks the store for all bytes, also for those that the engine keeps on disk.
    #[must_use]
    pub fn without_disk_cache(mut self) -> Self {
        self.asks_store = true;
        self
    }

    /// Counts what comes from disk instead of the store.
    #[must_use]
    pub fn with_cache_reads(mut self, reads: Arc<CacheReads>) -> Self {
        self.cache_reads = Some(reads);
        self
    }

    /// Sets the counters, for example those of one query.
    #[must_use]
    pub fn with_counters(mut self, counters: Arc<IoCounters>) -> Self {
        self.counters = counters;
        self
    }

    /// Replaces the default options for the kind of store.
    #[must_use]
    pub fn with_io_options(mut self, options: IoOptions) -> Self {
        self.options = Some(options);
        self
    }

    /// Replaces the files that are in memory.
    pub(super) fn with_files_ahead(mut self, ahead: Option<Arc<FilesAhead>>) -> Self {
        self.ahead = ahead;
        self
    }

    /// Whether other processes reach the same files by the URI alone: they lie on a disk, or in a store that was made from nothing but
    /// its URL and the environment.
    pub fn is_found_by_uri(&self) -> bool {
        if self.location.is_on_disk() {
            return true;
        }
        let stores = self.engine().stores();
        let url = url::Url::parse(self.uri()).ok();
        let is_stand_in = url.is_none_or(|url| stores.is_stand_in(&url));
        self.location.address().is_some() && !is_stand_in
    }

    /// Whether each request takes the time of a round trip.
    pub fn is_remote(&self) -> bool {
        !self.location.is_files()
    }

    /// How many small files to read at the same time, where `local` is the number for files of this machine.
    pub(crate) fn reads_at_once(&self, local: usize) -> usize {
        if self.is_remote() {
            ahead::SMALL_READS
        } else {
            local
        }
    }

    /// The bytes that take as long as a round trip to the store.
    pub fn round_trip_bytes(&self) -> u64 {
        match self.link_estimate() {
            Some(link) => link.round_trip_bytes().min(coalesce::LARGEST_REQUEST_BYTES),
            None => self.io_options().gap_bytes,
        }
    }

    /// What is known of the way to the store; `None` for files of this machine.
    fn link_estimate(&self) -> Option<LinkEstimate> {
        self.location.link().map(|link| link.estimate())
    }

    /// The bytes that may still be asked for before as much is on the way as the store can send; `None` for files of this machine.
    pub fn link_room_bytes(&self) -> Option<u64> {
        let link = self.location.link()?;
        let most = link.estimate().in_flight_bytes();
        Some(most.saturating_sub(link.asked_bytes()))
    }

    /// How ranges are coalesced at the moment.
    pub(super) fn io_options(&self) -> IoOptions {
        self.options.unwrap_or_else(|| match self.link_estimate() {
            Some(link) => IoOptions::of_link(link),
            None => IoOptions::LOCAL,
        })
    }

    /// The URI of the array, for messages.
    pub fn uri(&self) -> &str {
        self.location.uri()
    }

    /// The location of the array.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The cache of parsed metadata.
    pub fn cache(&self) -> &Arc<MetadataCache> {
        &self.cache
    }

    /// The counters in use.
    pub fn counters(&self) -> &Arc<IoCounters> {
        &self.counters
    }

    /// The cache key of what is parsed from `part` of `file` (0, or an offset), valid for the version of the file that
    /// `info` describes.
    pub fn cache_key(&self, file: &str, part: u64, info: &FileInfo) -> CacheKey {
        CacheKey::new(&self.location, file, part, Some(info), self.fingerprint())
    }

    /// As [`cache_key`](Self::cache_key), but without a request to the store: only for files that are never rewritten
    /// under the same name, such as those of a fragment, whose name holds a UUID.
    pub fn cache_key_immutable(&self, file: &str, part: u64) -> CacheKey {
        CacheKey::new(&self.location, file, part, None, self.fingerprint())
    }

    fn fingerprint(&self) -> Option<KeyFingerprint> {
        self.encryption_key().map(|key| key.fingerprint())
    }

    /// The files of the array, where they are.
    fn files(&self) -> ArrayFiles<'_> {
        if self.location.is_on_disk() {
            ArrayFiles::Disk(DiskFiles { storage: self })
        } else {
            ArrayFiles::Objects(ObjectFiles { storage: self })
        }
    }

    fn buffers(&self) -> FileBuffers {
        Arc::clone(&self.buffers)
    }

    fn store(&self) -> &Arc<dyn ObjectStore> {
        self.location.store()
    }
}

impl From<Location> for Storage {
    fn from(location: Location) -> Self {
        Self::new(location)
    }
}

impl TryFrom<&str> for Storage {
    type Error = Error;

    /// The storage at a path of this machine, or at a URL in the object store that it names.
    fn try_from(path_or_url: &str) -> Result<Self> {
        Location::open(path_or_url, &Engine::shared()).map(Self::new)
    }
}

impl TryFrom<&String> for Storage {
    type Error = Error;

    fn try_from(path_or_url: &String) -> Result<Self> {
        Self::try_from(path_or_url.as_str())
    }
}

impl TryFrom<String> for Storage {
    type Error = Error;

    fn try_from(path_or_url: String) -> Result<Self> {
        Self::try_from(path_or_url.as_str())
    }
}

impl From<&Storage> for Storage {
    fn from(storage: &Storage) -> Self {
        storage.clone()
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Storage").field(&self.uri()).finish()
    }
}
