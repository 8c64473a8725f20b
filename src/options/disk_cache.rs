//! The settings of the cache on disk: `SET tiledb.cache_dir = '/tmp/tiledb'`, `SET tiledb.cache_size = '20 GB'`.
//!
//! The cache belongs to the engine. If several sessions use one engine, the last `SET` of any of them counts, and all of them show it.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::common::config::ConfigEntry;
use tiledb_engine::{Engine, Result};
use tiledb_stores::{DiskCacheOptions, SMALLEST_CACHE_BYTES};

use super::byte_sizes::{byte_size, shown_size};
use super::home::expand_home;

const CACHE_DIR: &str = "cache_dir";
const CACHE_SIZE: &str = "cache_size";

/// The capacity of a cache without another one.
const USUAL_CACHE_BYTES: u64 = 10_000_000_000;

/// The settings of the cache of an engine. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct DiskCacheSettings(Arc<Mutex<CacheSettingState>>);

#[derive(Clone)]
struct CacheSettingState {
    /// The folder that was set before there was an engine.
    folder: Option<PathBuf>,
    /// The capacity of the next cache.
    bytes: u64,
    engine: Option<Engine>,
}

impl Default for CacheSettingState {
    fn default() -> Self {
        Self {
            folder: None,
            bytes: USUAL_CACHE_BYTES,
            engine: None,
        }
    }
}

impl CacheSettingState {
    /// The folder and the capacity, which are those of the engine if it has a cache.
    fn current(&self) -> (Option<PathBuf>, u64) {
        let Some(engine) = &self.engine else {
            return (self.folder.clone(), self.bytes);
        };
        match engine.disk_cache() {
            Some(options) => (Some(options.folder), options.capacity_bytes),
            None => (None, self.bytes),
        }
    }

    fn apply(&mut self, folder: Option<PathBuf>, bytes: u64) -> Result<()> {
        if let Some(engine) = &self.engine {
            let options = folder.clone().map(|folder| DiskCacheOptions {
                folder,
                capacity_bytes: bytes,
            });
            engine.set_disk_cache(options)?;
        }
        (self.folder, self.bytes) = (folder, bytes);
        Ok(())
    }
}

impl DiskCacheSettings {
    /// The names of the settings, without `tiledb.`.
    pub const NAMES: [&str; 2] = [CACHE_DIR, CACHE_SIZE];

    fn state(&self) -> MutexGuard<'_, CacheSettingState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Settings of the cache of `engine`, which become those of this session if it has set a folder before.
    pub fn of_engine(&self, engine: &Engine) -> Result<Self> {
        let mut state = self.state().clone();
        state.engine = Some(engine.clone());
        if let Some(folder) = state.folder.take() {
            let bytes = state.bytes;
            state.apply(Some(folder), bytes)?;
        }
        Ok(Self(Arc::new(Mutex::new(state))))
    }

    /// Sets the folder or the size; `None` if there is no setting of this name.
    pub fn set(&self, name: &str, value: &str) -> Option<Result<(), String>> {
        let mut state = self.state();
        let (folder, bytes) = state.current();
        let (folder, bytes) = match name {
            CACHE_DIR => match cache_folder(value) {
                Ok(folder) => (folder, bytes),
                Err(why) => return Some(Err(why)),
            },
            CACHE_SIZE => match cache_bytes(value) {
                Ok(bytes) => (folder, bytes),
                Err(why) => return Some(Err(why)),
            },
            _ => return None,
        };
        let applied = state.apply(folder, bytes);
        Some(applied.map_err(|e| format!("can't be set to '{value}': {e}")))
    }

    /// The settings with their values.
    pub fn entries(&self, prefix: &str) -> [ConfigEntry; 2] {
        let (folder, bytes) = self.state().current();
        let folder = folder.map_or_else(String::new, |folder| folder.display().to_string());
        [
            (
                CACHE_DIR,
                folder,
                "The folder in which bytes of arrays in object stores are kept; empty: nowhere.",
            ),
            (
                CACHE_SIZE,
                shown_size(bytes),
                "The disk space that the folder tiledb.cache_dir may fill.",
            ),
        ]
        .map(|(name, value, description)| ConfigEntry {
            key: format!("{prefix}.{name}"),
            value: Some(value),
            description,
        })
    }
}

/// The folder that a setting names, from the root of the file system; `None` if it's empty.
fn cache_folder(value: &str) -> Result<Option<PathBuf>, String> {
    if value.trim().is_empty() {
        return Ok(None);
    }
    let is_url = value.contains("://");
    let folder = std::path::absolute(expand_home(value).as_ref());
    match folder {
        Ok(folder) if !is_url => Ok(Some(folder)),
        _ => Err(format!(
            "is a folder of this machine, or empty for no cache, found '{value}'"
        )),
    }
}

/// The capacity of a cache, as `tiledb.cache_size` and `--cache-size` take it. The error is the end of a sentence about the setting.
///
/// # Errors
///
/// It isn't a number of bytes, or too few.
pub fn cache_bytes(value: &str) -> Result<u64, String> {
    let bytes = byte_size(value).filter(|bytes| *bytes >= SMALLEST_CACHE_BYTES);
    bytes.ok_or_else(|| {
        format!("is a size of at least 16 MiB, such as 500 MB, 10 GB or 1 TiB, found '{value}'")
    })
}

impl fmt::Debug for DiskCacheSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state().current().fmt(f)
    }
}

impl PartialEq for DiskCacheSettings {
    fn eq(&self, other: &Self) -> bool {
        // One lock at a time: both may be the same.
        let mine = self.state().current();
        mine == other.state().current()
    }
}

impl Eq for DiskCacheSettings {}

#[cfg(test)]
mod tests {
    use tiledb_engine::EngineOptions;

    use super::*;

    fn shown(settings: &DiskCacheSettings) -> [Option<String>; 2] {
        settings.entries("tiledb").map(|entry| entry.value)
    }

    #[test]
    fn sizes_and_folders_are_checked() {
        let settings = DiskCacheSettings::default();
        assert_eq!(
            shown(&settings),
            [Some(String::new()), Some("10 GB".to_owned())]
        );
        for (name, value, expected) in [
            (
                CACHE_SIZE,
                "much",
                "at least 16 MiB, such as 500 MB, 10 GB or 1 TiB, found 'much'",
            ),
            (CACHE_SIZE, "0", "found '0'"),
            (CACHE_SIZE, "15 MiB", "found '15 MiB'"),
            (CACHE_SIZE, "", "found ''"),
            (CACHE_DIR, "s3://bucket/cache", "a folder of this machine"),
        ] {
            let error = settings.set(name, value).unwrap().unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(settings.set("cache", "x").is_none());
        settings.set(CACHE_SIZE, "2 GiB").unwrap().unwrap();
        settings.set(CACHE_DIR, "x").unwrap().unwrap();
        let folder = std::env::current_dir().unwrap().join("x");
        let folder = folder.display().to_string();
        assert_eq!(shown(&settings), [Some(folder), Some("2 GiB".to_owned())]);
    }

    #[cfg(feature = "cache")]
    #[test]
    fn the_last_setting_of_an_engine_counts() {
        let engine = Engine::new(EngineOptions::default());
        let early = DiskCacheSettings::default();
        early.set(CACHE_DIR, "/early").unwrap().unwrap();
        let [one, other] = [early, DiskCacheSettings::default()]
            .map(|settings| settings.of_engine(&engine).unwrap());
        assert_eq!(one, other);
        let folder = || engine.disk_cache().map(|options| options.folder);
        assert_eq!(folder(), Some(PathBuf::from("/early")));
        other.set(CACHE_SIZE, "1 GB").unwrap().unwrap();
        other.set(CACHE_DIR, "/late").unwrap().unwrap();
        assert_eq!(
            shown(&one),
            [Some("/late".to_owned()), Some("1 GB".to_owned())]
        );
        one.set(CACHE_DIR, "").unwrap().unwrap();
        assert_eq!((engine.disk_cache(), folder()), (None, None));
        assert_eq!(shown(&other)[0], Some(String::new()));
    }

    #[cfg(not(feature = "cache"))]
    #[test]
    fn a_build_without_the_cache_says_so() {
        let engine = Engine::new(EngineOptions::default());
        let settings = DiskCacheSettings::default().of_engine(&engine).unwrap();
        let error = settings.set(CACHE_DIR, "/x").unwrap().unwrap_err();
        assert!(error.contains("feature cache"), "{error}");
    }
}
