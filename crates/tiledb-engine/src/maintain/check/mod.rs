//! The auditor: reads everything of an array or a group, and reports damage and leftovers.
//!
//! A query reads as little as it can, and refuses what it cannot trust. A check reads everything, and continues after a
//! problem: each [`Finding`] is one broken [`Rule`], with the object, what was found, what was expected and what to do. A check
//! covers
//!
//! 1. the folders: names, commits and the fragments they commit, schemas, enumerations, deletes, metadata;
//! 2. the metadata of each fragment: footer, files, tile offsets, R-tree, non-empty domain, shapes of statistics;
//! 3. the cells: each tile of each field is decoded, its cells are compared with the tile's rectangle and with each
//!    other, and statistics are computed again. [`CheckOptions::metadata_only`] leaves this out.
//!
//! libtiledb itself errs in statistics, in ways that readers know and allow for (see
//! [`array::fragment::statistics`](crate::array::fragment::statistics)). Statistics that some version of libtiledb stores for
//! the existing cells aren't a finding; [`CheckOptions::exact_statistics`] takes the true values only.
//!
//! The subtle thing: a check doesn't use the caches of queries, so it reads what is stored.
//!
//! ```
//! use tiledb_engine::maintain::check::{CheckOptions, check};
//! use tiledb_engine::storage::{Location, Storage};
//! use futures::TryStreamExt;
//!
//! # async fn example() -> tiledb_engine::Result<()> {
//! let storage = Storage::new(Location::local("../../examples/data/weather_stations")?);
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

mod cells;
mod directory;
mod fragment;
mod report;
mod rule;
mod statistics;

pub use self::report::{CheckCounts, CheckProgress, Finding};
pub use self::rule::{Rule, Severity};

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::channel::mpsc;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};

use self::directory::commits::{self, CommitLists};
use self::directory::folders::{self, FolderKind, FolderListings, LABELS_FOLDER, about_stored};
use self::directory::schemas::{self, CheckedSchemas};
use self::directory::{deletes, fragments, metadata};
use self::report::FindingReporter;
use crate::array::directory::{ArrayDirectory, CommittedFragment, ENUMERATIONS_FOLDER};
use crate::array::fragment::Fragment;
use crate::array::metadata::settled_group;
use crate::array::snapshot::open_alone;
use crate::error::{ErrorKind, Result};
use crate::memory::budget::{MemoryBudget, UnlimitedBudget};
use crate::storage::{MetadataCache, Storage};
use crate::write::create::CreationRemains;

/// The size of the cache for the metadata of the current fragment.
const CACHE_BYTES: u64 = 64 << 20;

/// The extent of a check.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CheckOptions {
    /// Whether cells are left out.
    pub metadata_only: bool,
    /// Whether statistics must be the true ones, even if some version of libtiledb stores others.
    pub exact_statistics: bool,
    /// The memory that tiles may take.
    pub budget: Arc<dyn MemoryBudget>,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self {
            metadata_only: false,
            exact_statistics: false,
            budget: Arc::new(UnlimitedBudget),
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
    #[must_use]
    pub fn with_budget(self, budget: Arc<dyn MemoryBudget>) -> Self {
        Self { budget, ..self }
    }
}

/// A running check: a stream of findings, which ends when everything has been checked.
///
/// An error of the stream isn't a fault of the array: the storage failed, a key is missing, or memory was refused.
pub struct Check {
    findings: BoxStream<'static, Result<Finding>>,
    progress: Arc<CheckProgress>,
    storage: Storage,
}

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Check").field(&self.storage.uri()).finish()
    }
}

impl Check {
    /// What was checked and found so far.
    pub fn progress(&self) -> &Arc<CheckProgress> {
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
    // The store may have lost what is still on the disk of this machine.
    let storage = storage
        .without_disk_cache()
        .with_cache(Arc::new(MetadataCache::new(CACHE_BYTES)))
        .with_counters(Arc::default());
    let progress = Arc::new(CheckProgress::default());
    let (sender, findings) = mpsc::unbounded();
    let report = FindingReporter::new(storage.uri(), sender, Arc::clone(&progress));
    let read = storage.clone();
    let audit = async move {
        let uri = read.uri().to_owned();
        let done = check_storage(read, options, report).await;
        done.map_err(|e| e.with("array", uri))
    };
    // The audit only continues while a caller waits for findings, so these don't pile up.
    let failure = stream::once(audit).filter_map(|done| async { done.err().map(Err) });
    Check {
        findings: stream::select(findings.map(Ok), failure).boxed(),
        progress,
        storage,
    }
}

/// Checks whatever is at `storage`.
pub fn check_storage(
    storage: Storage,
    options: CheckOptions,
    report: FindingReporter,
) -> BoxFuture<'static, Result<()>> {
    async move {
        let folders = FolderListings::list(&storage).await?;
        match folders.kind(&storage).await? {
            FolderKind::Array => check_array(storage, &folders, &options, &report).await,
            FolderKind::Remains => check_remains(&storage, &folders, &report).await,
            FolderKind::Group => {
                folders::check_names(&folders, FolderKind::Group, &report);
                let storage = settled_group(&storage).await?;
                metadata::check(&storage, &folders, &report).await?;
                metadata::check_group(&storage, &folders, &report).await
            }
        }
    }
    .boxed()
}

/// Checks the remains of an interrupted creation: they are no part of an array, and can all be removed.
async fn check_remains(
    storage: &Storage,
    folders: &FolderListings,
    report: &FindingReporter,
) -> Result<()> {
    folders::check_names(folders, FolderKind::Remains, report);
    for announcement in CreationRemains::of(storage).await?.announcements {
        for (commit, _) in announcement.commits {
            let found = "a commit of an array that was never created";
            report.tell(Rule::StagingFile, commit, found, "a schema");
        }
    }
    for file in &folders.enumerations.files {
        let path = format!("{ENUMERATIONS_FOLDER}/{}", file.name);
        report.tell(
            Rule::UnusedEnumeration,
            path,
            "no schema",
            "a schema that names it",
        );
    }
    fragments::check(storage, folders, &CommitLists::default(), report).await?;
    Ok(())
}

async fn check_array(
    storage: Storage,
    folders: &FolderListings,
    options: &CheckOptions,
    report: &FindingReporter,
) -> Result<()> {
    folders::check_names(folders, FolderKind::Array, report);
    let schemas = schemas::check(&storage, folders, report).await?;
    let storage = schemas.storage.clone();
    let lists = CommitLists::read(&storage, folders, report).await?;
    let folders_of_fragments = fragments::folders_by_name(folders);
    let is_there = |name: &str| folders_of_fragments.contains_key(name);
    commits::check(&lists, is_there, report);
    deletes::check(&storage, &lists.deletes, &schemas, report).await?;
    metadata::check(&storage, folders, report).await?;
    let committed = fragments::check(&storage, folders, &lists, report).await?;
    let opened = open(&storage, committed, &schemas, report).await?;
    metadata::check_copies(&storage, folders, &opened, is_there, report).await?;
    report.progress.expect_fragments(opened.len());
    for fragment in opened.into_values() {
        let folder = fragment.folder.clone();
        let checked = check_fragment(&storage, fragment, &schemas, options, report).await;
        if let Err(e) = checked {
            let found = about_stored(e)?.to_string();
            let expected = "metadata that agree with each other";
            report.tell(Rule::UnreadableFragment, folder, found, expected);
        }
    }
    check_labels(&storage, folders, options, report).await
}

async fn check_fragment(
    storage: &Storage,
    fragment: Fragment,
    schemas: &CheckedSchemas,
    options: &CheckOptions,
    report: &FindingReporter,
) -> Result<()> {
    let sound = fragment::check(storage, Arc::new(fragment), report).await?;
    match sound.filter(|_| !options.metadata_only) {
        Some(sound) => cells::check(storage, sound, schemas, options, report).await,
        None => Ok(()),
    }
}

/// Opens the fragments, each by itself; those that can't be opened are reported.
async fn open(
    storage: &Storage,
    committed: Vec<CommittedFragment>,
    schemas: &CheckedSchemas,
    report: &FindingReporter,
) -> Result<BTreeMap<String, Fragment>> {
    let mut opened = BTreeMap::new();
    if committed.is_empty() {
        return Ok(opened);
    }
    let directory = match ArrayDirectory::list(storage).await {
        Ok(directory) => directory,
        Err(e) => {
            // Without a schema no fragment can be read; a missing one has been reported if there are files of schemas.
            let problem = match e.kind() {
                ErrorKind::NotAnArray => e,
                _ => about_stored(e)?,
            };
            let expected = "at least one schema";
            report.tell(Rule::UnreadableSchema, "", problem.message(), expected);
            return Ok(opened);
        }
    };
    for fragment in committed {
        let (name, folder) = (fragment.name.name.clone(), fragment.folder.clone());
        match open_alone(storage, &directory, fragment).await {
            Ok(fragment) => {
                kind(&fragment, schemas, report);
                opened.insert(name, fragment);
            }
            Err(e) => {
                let found = about_stored(e)?.to_string();
                let expected = "a footer that decodes, with its schema";
                report.tell(Rule::UnreadableFragment, folder, found, expected);
            }
        }
    }
    Ok(opened)
}

/// The fragment is of the kind of the array, and has its dimensions.
fn kind(fragment: &Fragment, schemas: &CheckedSchemas, report: &FindingReporter) {
    let Some(newest) = schemas.newest() else {
        return;
    };
    let path = fragment.metadata_path();
    if fragment.footer.dense && !newest.is_dense() {
        let found = "a dense fragment";
        report.tell(
            Rule::FragmentKind,
            &path,
            found,
            "sparse ones, as the array is sparse",
        );
    }
    let types = |schema: &crate::format::schema::ArraySchema| {
        let dimensions = schema.dimensions.iter();
        dimensions
            .map(|d| (d.datatype, d.cell_val_num.is_var()))
            .collect::<Vec<_>>()
    };
    if types(&fragment.schema) != types(newest) {
        let found = "other dimensions than the array's newest schema has";
        report.tell(
            Rule::FragmentKind,
            &path,
            found,
            "the same dimensions in all schemas",
        );
    }
}

/// The arrays that hold dimension labels.
async fn check_labels(
    storage: &Storage,
    folders: &FolderListings,
    options: &CheckOptions,
    report: &FindingReporter,
) -> Result<()> {
    let labels: BTreeSet<&String> = folders.labels.folders.iter().collect();
    for label in labels {
        let place = storage.location().join(&format!("{LABELS_FOLDER}/{label}"));
        let report = report.of(place.uri());
        let label = storage.at(place);
        match check_storage(label, options.clone(), report.clone()).await {
            // A folder without an array has no effect.
            Err(e) if matches!(e.kind(), ErrorKind::NotAnArray | ErrorKind::NotFound) => {}
            done => done?,
        }
    }
    Ok(())
}
