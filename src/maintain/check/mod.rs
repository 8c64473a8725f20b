//! The auditor: reads everything of an array or a group, and tells what is wrong with it and what is left over.
//!
//! A query reads as little as it can, and refuses what it cannot trust. This reads all there is, and goes on after what
//! it finds: each [`Finding`] is one broken [`Rule`], with the object, what was found, what was expected and what to do.
//! It looks at
//!
//! 1. the folders: names, commits and the fragments they commit, schemas, enumerations, deletes, metadata;
//! 2. the metadata of each fragment: footer, files, tile offsets, R-tree, non-empty domain, shapes of statistics;
//! 3. the cells: each tile of each field is decoded, its cells are compared with the tile's rectangle and with each
//!    other, and statistics are computed again. [`CheckOptions::metadata_only`] leaves this out.
//!
//! Statistics are where libtiledb itself errs, in ways that readers know and allow for (see
//! [`array::fragment::statistics`](crate::array::fragment::statistics)). What libtiledb of some version stores for the
//! cells at hand is no finding; [`CheckOptions::exact_statistics`] takes the true values only.
//!
//! The subtle thing: nothing is taken from the caches of queries, so what is read is what is stored.
//!
//! ```
//! use datafusion_tiledb::maintain::check::{CheckOptions, check};
//! use datafusion_tiledb::storage::{Location, Storage};
//! use futures::TryStreamExt;
//!
//! # async fn example() -> datafusion_tiledb::Result<()> {
//! let storage = Storage::new(Location::local("./examples/data/weather_stations")?);
//! let mut check = check(storage, CheckOptions::default());
//! while let Some(finding) = check.try_next().await? {
//!     println!("{finding}");
//! }
//! let counts = check.progress().counts();
//! assert_eq!(counts.errors, 0);
//! assert!(counts.fragments > 0 && counts.cells > 0);
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
//! ```

mod array;
mod cells;
mod directory;
mod fragment;
mod report;
mod rule;
mod statistics;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::channel::mpsc;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};

pub use self::report::{Counts, Finding, Progress};
pub use self::rule::{Rule, Severity};

use self::report::Reporter;
use crate::error::Result;
use crate::memory::budget::{MemoryBudget, Unlimited};
use crate::storage::{MetadataCache, Storage};

/// The metadata of the fragment at hand are kept in a cache of this size.
const CACHE_BYTES: u64 = 64 << 20;

/// How far a check goes.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CheckOptions {
    /// Whether cells are left out.
    pub metadata_only: bool,
    /// Whether statistics must be the true ones, also where some version of libtiledb stores others.
    pub exact_statistics: bool,
    /// The memory that tiles may take.
    #[doc(hidden)]
    pub budget: Arc<dyn MemoryBudget>,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self {
            metadata_only: false,
            exact_statistics: false,
            budget: Arc::new(Unlimited),
        }
    }
}

impl CheckOptions {
    /// Leaves cells out, or not.
    #[must_use]
    pub fn with_metadata_only(self, metadata_only: bool) -> Self {
        Self {
            metadata_only,
            ..self
        }
    }

    /// Takes only true statistics, or also those that libtiledb stores.
    #[must_use]
    pub fn with_exact_statistics(self, exact_statistics: bool) -> Self {
        Self {
            exact_statistics,
            ..self
        }
    }

    /// Reserves memory for tiles from `budget`.
    #[doc(hidden)]
    #[must_use]
    pub fn with_budget(self, budget: Arc<dyn MemoryBudget>) -> Self {
        Self { budget, ..self }
    }
}

/// A check under way: a stream of findings, which ends when everything was looked at.
///
/// An error of the stream is not about what is stored: the storage failed, a key is missing, or memory was refused.
pub struct Check {
    findings: BoxStream<'static, Result<Finding>>,
    progress: Arc<Progress>,
    storage: Storage,
}

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Check").field(&self.storage.uri()).finish()
    }
}

impl Check {
    /// What was checked and found so far.
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// The bytes that were read so far.
    pub fn bytes(&self) -> u64 {
        self.storage.counters().counts().bytes_fetched
    }
}

impl Stream for Check {
    type Item = Result<Finding>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.findings.poll_next_unpin(context)
    }
}

/// Checks the array or the group at `storage`.
pub fn check(storage: Storage, options: CheckOptions) -> Check {
    let storage = storage
        .with_cache(Arc::new(MetadataCache::new(CACHE_BYTES)))
        .with_counters(Arc::default());
    let progress = Arc::new(Progress::default());
    let (sender, findings) = mpsc::unbounded();
    let report = Reporter::new(storage.uri(), sender, Arc::clone(&progress));
    let read = storage.clone();
    let audit = async move {
        let uri = read.uri().to_owned();
        let done = array::check(read, options, report).await;
        done.map_err(|e| e.with("array", uri))
    };
    // The audit goes on only when somebody waits for findings, so these do not pile up.
    let failure = stream::once(audit).filter_map(|done| async { done.err().map(Err) });
    Check {
        findings: stream::select(findings.map(Ok), failure).boxed(),
        progress,
        storage,
    }
}
