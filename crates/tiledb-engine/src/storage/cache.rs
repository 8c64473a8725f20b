//! A cache of metadata parsed from immutable files, kept across queries within a budget of bytes.
//!
//! A value that several tasks need at once is loaded once: the first one loads it, the others wait. If the loader fails
//! or is cancelled, the next waiter loads. Errors are never cached.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use moka::sync::Cache;
use tokio::sync::OnceCell;

use super::listing::FileInfo;
use super::location::Location;
use super::store_id::StoreId;
use crate::error::{Error, Result};
use crate::filter::KeyFingerprint;

/// The memory of an entry besides its value and its path: keys, links, counters.
const ENTRY_OVERHEAD_BYTES: usize = 256;

/// The file and the part of it that a piece of metadata was parsed from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CacheKey {
    store: StoreId,
    path: Arc<str>,
    part: u64,
    version: Option<FileVersion>,
    /// The key that it was decrypted with, so that others without the key cannot read it.
    encryption: Option<KeyFingerprint>,
}

/// The version of a file. It is identified by its entity tag, if the store has one, because the precision of
/// modification times differs between a listing and a read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct FileVersion {
    bytes: u64,
    stamp: CacheStamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum CacheStamp {
    Tag(Arc<str>),
    ModifiedUs(i64),
}

impl CacheKey {
    pub(super) fn new(
        location: &Location,
        file: &str,
        part: u64,
        info: Option<&FileInfo>,
        encryption: Option<KeyFingerprint>,
    ) -> Self {
        let version = info.map(|info| FileVersion {
            bytes: info.bytes,
            stamp: match &info.e_tag {
                Some(tag) => CacheStamp::Tag(tag.as_str().into()),
                None => CacheStamp::ModifiedUs(info.modified_us),
            },
        });
        Self {
            store: location.store_id(),
            path: location.path_of(file).as_ref().into(),
            part,
            version,
            encryption,
        }
    }
}

/// The key and the type of the value, so that values of two types never share a key.
type TypedKey = (CacheKey, TypeId);
type CacheValue = Arc<dyn Any + Send + Sync>;
type CacheSlot = Arc<OnceCell<CacheValue>>;

/// A cache of parsed, immutable metadata under a budget of bytes.
pub struct MetadataCache {
    kept: Cache<TypedKey, CachedEntry>,
    loading: Mutex<HashMap<TypedKey, CacheSlot>>,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Clone)]
struct CachedEntry {
    value: CacheValue,
    weight: u32,
}

/// Statistics of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Requests answered without loading.
    pub hits: u64,
    /// Requests that had to load.
    pub misses: u64,
    /// Cached entries.
    pub entries: u64,
    /// Cached bytes as the loaders report them, with keys and overhead.
    pub bytes: u64,
}

impl MetadataCache {
    /// A cache of up to `budget_bytes`; with 0 nothing is cached.
    pub fn new(budget_bytes: u64) -> Self {
        let kept = Cache::builder()
            .max_capacity(budget_bytes)
            .weigher(|_, kept: &CachedEntry| kept.weight)
            .build();
        Self {
            kept,
            loading: Mutex::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// The value under `key`, if it is cached.
    pub fn get<T: Send + Sync + 'static>(&self, key: CacheKey) -> Option<Arc<T>> {
        let kept = self.kept.get(&(key, TypeId::of::<T>()))?;
        self.hits.fetch_add(1, Ordering::Relaxed);
        downcast(kept.value).ok()
    }

    /// Caches a value of `bytes` bytes that was loaded together with others.
    pub fn insert<T: Send + Sync + 'static>(
        &self,
        key: CacheKey,
        value: T,
        bytes: usize,
    ) -> Arc<T> {
        self.misses.fetch_add(1, Ordering::Relaxed);
        let value = Arc::new(value);
        let kept: CacheValue = Arc::clone(&value) as CacheValue;
        self.keep(&(key, TypeId::of::<T>()), &kept, bytes);
        value
    }

    /// The value under `key`; if there is none, the result of `load`, which also gives its size in bytes.
    ///
    /// # Errors
    /// The error of `load`.
    pub async fn get_or_load<T: Send + Sync + 'static>(
        &self,
        key: CacheKey,
        load: impl Future<Output = Result<(T, usize)>>,
    ) -> Result<Arc<T>> {
        let key = (key, TypeId::of::<T>());
        let what = type_name::<T>();
        if let Some(kept) = self.kept.get(&key) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            log::trace!("{}: {what} was held", key.0.path);
            return downcast(kept.value);
        }
        let joined = self.join(key);
        let mut loaded = false;
        let value = joined
            .slot
            .get_or_try_init(|| async {
                // Another task may have finished between the lookup above and joining.
                if let Some(kept) = self.kept.get(&joined.key) {
                    return Ok(kept.value);
                }
                loaded = true;
                let (value, bytes) = load.await?;
                let value: CacheValue = Arc::new(value);
                self.keep(&joined.key, &value, bytes);
                Ok::<_, Error>(value)
            })
            .await
            .map(Arc::clone);
        let counter = if loaded { &self.misses } else { &self.hits };
        counter.fetch_add(1, Ordering::Relaxed);
        if loaded {
            log::trace!("{}: {what} was not held", joined.key.0.path);
        }
        downcast(value?)
    }

    /// The statistics at this moment.
    pub fn stats(&self) -> CacheStats {
        self.kept.run_pending_tasks();
        CacheStats {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            entries: self.kept.entry_count(),
            bytes: self.kept.weighted_size(),
        }
    }

    fn keep(&self, key: &TypedKey, value: &CacheValue, bytes: usize) {
        let weight = bytes
            .saturating_add(key.0.path.len())
            .saturating_add(ENTRY_OVERHEAD_BYTES);
        let kept = CachedEntry {
            value: Arc::clone(value),
            weight: u32::try_from(weight).unwrap_or(u32::MAX),
        };
        self.kept.insert(key.clone(), kept);
    }

    fn join(&self, key: TypedKey) -> JoinedLoad<'_> {
        let slot = Arc::clone(self.loading().entry(key.clone()).or_default());
        JoinedLoad {
            cache: self,
            key,
            slot,
        }
    }

    fn loading(&self) -> MutexGuard<'_, HashMap<TypedKey, CacheSlot>> {
        self.loading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MetadataCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MetadataCache").field(&self.stats()).finish()
    }
}

/// Takes part in loading one key; the last to leave, finished or cancelled, removes the key's slot.
struct JoinedLoad<'a> {
    cache: &'a MetadataCache,
    key: TypedKey,
    slot: CacheSlot,
}

impl Drop for JoinedLoad<'_> {
    fn drop(&mut self) {
        let mut loading = self.cache.loading();
        // One reference is in the map and one here. New ones are made only under the lock.
        if Arc::strong_count(&self.slot) <= 2 {
            loading.remove(&self.key);
        }
    }
}

fn downcast<T: Send + Sync + 'static>(value: CacheValue) -> Result<Arc<T>> {
    value
        .downcast()
        .map_err(|_| Error::internal("a cached value is not of the type it was kept under"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::filter::EncryptionKey;

    fn key(part: u64) -> CacheKey {
        let location = Location::local("/array").unwrap();
        CacheKey::new(&location, "f", part, None, None)
    }

    async fn load(cache: &MetadataCache, part: u64, bytes: usize) -> Arc<u64> {
        let loaded = async { Ok((part, bytes)) };
        cache.get_or_load(key(part), loaded).await.unwrap()
    }

    #[test]
    fn keys_tell_files_parts_and_versions_apart() {
        let location = Location::local("/array").unwrap();
        let info = |bytes, modified_us, e_tag: Option<&str>| FileInfo {
            name: "f".to_owned(),
            bytes,
            modified_us,
            e_tag: e_tag.map(str::to_owned),
        };
        let key = |file: &str, part, info: FileInfo| {
            CacheKey::new(&location, file, part, Some(&info), None)
        };
        let base = key("f", 0, info(1, 1, None));
        assert_eq!(base, key("f", 0, info(1, 1, None)));
        assert_ne!(base, key("g", 0, info(1, 1, None)));
        assert_ne!(base, key("f", 1, info(1, 1, None)));
        assert_ne!(base, key("f", 0, info(2, 1, None)));
        assert_ne!(base, key("f", 0, info(1, 2, None)));
        assert_ne!(base, key("f", 0, info(1, 1, Some("t"))));
        assert_eq!(
            key("f", 0, info(1, 1, Some("t"))),
            key("f", 0, info(1, 2, Some("t")))
        );
    }

    #[test]
    fn what_was_decrypted_is_only_for_those_with_the_key() {
        let location = Location::local("/array").unwrap();
        let with = |bytes: u8| EncryptionKey::new(&[bytes; 32]).fingerprint();
        let key = |encryption| CacheKey::new(&location, "f", 0, None, encryption);
        assert_eq!(key(Some(with(1))), key(Some(with(1))));
        assert_ne!(key(Some(with(1))), key(Some(with(2))));
        assert_ne!(key(Some(with(1))), key(None));
    }

    #[tokio::test]
    async fn holds_at_most_its_budget() {
        let cache = MetadataCache::new(100_000);
        for part in 0..100 {
            load(&cache, part, 10_000).await;
        }
        let stats = cache.stats();
        assert!(stats.bytes <= 100_000, "{stats:?}");
        assert!((1..=9).contains(&stats.entries), "{stats:?}");
        assert_eq!(stats.misses, 100);
    }

    #[tokio::test]
    async fn what_exceeds_the_budget_is_returned_and_not_kept() {
        let cache = MetadataCache::new(1000);
        assert_eq!(*load(&cache, 1, 5_000_000_000).await, 1);
        assert_eq!(*load(&cache, 2, 1001).await, 2);
        assert_eq!(cache.stats().entries, 0);
    }

    #[tokio::test]
    async fn one_key_may_hold_values_of_two_types() {
        let cache = MetadataCache::new(1 << 20);
        load(&cache, 1, 8).await;
        let text: Arc<String> = cache
            .get_or_load(key(1), async { Ok(("x".to_owned(), 1)) })
            .await
            .unwrap();
        assert_eq!(*text, "x");
        assert_eq!(*load(&cache, 1, 8).await, 1);
        assert_eq!(cache.stats().hits, 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn many_at_once_load_once() {
        // A budget of 0 shows that waiters get the value even if it is not cached.
        for budget in [1 << 20, 0] {
            let cache = Arc::new(MetadataCache::new(budget));
            let loads = Arc::new(AtomicUsize::new(0));
            let (open, gate) = tokio::sync::watch::channel(false);
            let tasks: Vec<_> = (0..50)
                .map(|_| {
                    let (cache, loads, mut gate) =
                        (Arc::clone(&cache), Arc::clone(&loads), gate.clone());
                    tokio::spawn(async move {
                        let load = async {
                            loads.fetch_add(1, Ordering::SeqCst);
                            gate.wait_for(|open| *open).await.unwrap();
                            Ok((7_u64, 8))
                        };
                        *cache.get_or_load(key(1), load).await.unwrap()
                    })
                })
                .collect();
            let all_joined = || {
                let loading = cache.loading();
                loading.values().any(|slot| Arc::strong_count(slot) == 51)
            };
            while !all_joined() {
                tokio::task::yield_now().await;
            }
            open.send(true).unwrap();
            for task in tasks {
                assert_eq!(task.await.unwrap(), 7);
            }
            assert_eq!(loads.load(Ordering::SeqCst), 1);
            assert_eq!((cache.stats().hits, cache.stats().misses), (49, 1));
            assert!(cache.loading().is_empty());
        }
    }

    #[tokio::test]
    async fn after_a_failed_or_cancelled_load_the_next_one_loads() {
        let cache = MetadataCache::new(1 << 20);
        let failing = async { Err::<(u64, usize), _>(Error::storage("down")) };
        assert!(cache.get_or_load(key(1), failing).await.is_err());

        let hanging = cache.get_or_load::<u64>(key(1), std::future::pending());
        let mut hanging = Box::pin(hanging);
        assert!(futures::poll!(&mut hanging).is_pending());
        let mut waiting = Box::pin(cache.get_or_load(key(1), async { Ok((3_u64, 8)) }));
        assert!(futures::poll!(&mut waiting).is_pending());
        drop(hanging);
        assert_eq!(*waiting.await.unwrap(), 3);
        assert!(cache.loading().is_empty());
    }
}
