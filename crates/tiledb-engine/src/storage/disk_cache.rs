//! The cache on disk of an engine: where it is, and whether it's open.
//!
//! It's opened when the first bytes are looked for, and never before: a session that only reads local arrays touches no folder. If it
//! can't be opened, the engine goes without it and says so once.

use std::fmt;
#[cfg(feature = "cache")]
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tiledb_stores::{DiskCacheOptions, SMALLEST_CACHE_BYTES};

use crate::error::{Error, Result};

/// The cache on disk of an engine, if there is one.
#[derive(Default)]
pub(super) struct EngineDiskCache {
    state: Mutex<DiskCacheState>,
}

#[derive(Default)]
struct DiskCacheState {
    options: Option<DiskCacheOptions>,
    #[cfg(feature = "cache")]
    opened: Arc<opening::OpenedCache>,
    warnings: Vec<String>,
}

impl EngineDiskCache {
    fn state(&self) -> MutexGuard<'_, DiskCacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the cache is.
    pub fn options(&self) -> Option<DiskCacheOptions> {
        self.state().options.clone()
    }

    /// Replaces the cache. Setting the same options again keeps an open cache, and tries again to open one that couldn't be opened.
    pub fn set(&self, options: Option<DiskCacheOptions>) -> Result<()> {
        if let Some(options) = &options {
            check(options)?;
        }
        let mut state = self.state();
        if state.options != options || state.is_given_up() {
            *state = DiskCacheState {
                options,
                ..DiskCacheState::default()
            };
        }
        Ok(())
    }

    /// The warnings since the last call.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.state().warnings)
    }
}

/// Fails if no cache can be opened with these options, whatever the folder holds.
fn check(options: &DiskCacheOptions) -> Result<()> {
    if !cfg!(feature = "cache") {
        return Err(Error::unsupported(
            "a cache on disk, because this program was built without it: build it with the feature cache",
        ));
    }
    if options.capacity_bytes < SMALLEST_CACHE_BYTES {
        return Err(Error::invalid(format!(
            "a cache on disk has a capacity of {} bytes, expected at least {SMALLEST_CACHE_BYTES} bytes (16 MiB)",
            options.capacity_bytes
        )));
    }
    Ok(())
}

impl fmt::Debug for EngineDiskCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EngineDiskCache")
            .field(&self.options())
            .finish()
    }
}

#[cfg(not(feature = "cache"))]
impl DiskCacheState {
    fn is_given_up(&self) -> bool {
        false
    }
}

#[cfg(not(feature = "cache"))]
impl EngineDiskCache {
    /// Does nothing, because this build has no cache.
    pub async fn close(&self) {}
}

#[cfg(feature = "cache")]
mod opening {
    use std::collections::HashSet;
    use std::path::PathBuf;
    use std::sync::{Arc, Mutex, PoisonError};

    use tiledb_stores::disk_cache::{DiskCache, DiskCacheProblem};
    use tokio::sync::OnceCell;

    use super::{DiskCacheState, EngineDiskCache};

    /// A cache that is opened once; `None` if it couldn't be.
    pub(super) type OpenedCache = OnceCell<Option<Arc<DiskCache>>>;

    impl DiskCacheState {
        /// Whether the cache couldn't be opened.
        pub(super) fn is_given_up(&self) -> bool {
            matches!(self.opened.get(), Some(None))
        }
    }

    impl EngineDiskCache {
        /// The cache, which is opened if it isn't yet.
        pub async fn get(&self) -> Option<Arc<DiskCache>> {
            let (options, opened) = {
                let state = self.state();
                (state.options.clone()?, Arc::clone(&state.opened))
            };
            let open = || async {
                match DiskCache::open(&options).await {
                    Ok(cache) => Some(Arc::new(cache)),
                    Err(problem) => {
                        self.warn(&problem);
                        None
                    }
                }
            };
            opened.get_or_init(open).await.clone()
        }

        /// Writes what waits for the disk, releases the folder, and goes on without a cache.
        pub async fn close(&self) {
            let closing = std::mem::take(&mut *self.state());
            self.state().warnings = closing.warnings;
            if let Some(Some(cache)) = closing.opened.get() {
                cache.close().await;
            }
        }

        fn warn(&self, problem: &DiskCacheProblem) {
            // One warning for all engines of the process, because a program may have many.
            static WARNED: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);

            let warning = format!("{problem}; queries go on without it");
            let mut warned = WARNED.lock().unwrap_or_else(PoisonError::into_inner);
            let warned = warned.get_or_insert_default();
            if warned.insert(problem.folder().to_path_buf()) {
                log::warn!("{warning}");
            }
            self.state().warnings.push(warning);
        }
    }
}
