//! Vacuum: removes files that nobody needs any longer.
//!
//! | Mode | Removes |
//! |---|---|
//! | [`VacuumMode::Fragments`] | fragments that a consolidated one replaces, and with them the times in between |
//! | [`VacuumMode::Commits`] | commit files that a list holds, and lists that another one holds |
//! | [`VacuumMode::FragmentMetadata`] | copies of footers, except the latest |
//! | [`VacuumMode::ArrayMetadata`] | files of key-value metadata that a consolidated one replaces |
//! | [`VacuumMode::Leftovers`] | what interrupted writes have left, if it is old enough to belong to no running one |
//!
//! The files and folders to remove are listed first; a dry run ends there. They go in an order that keeps every reader right
//! wherever a run is interrupted: first the entry that hides a fragment from lists of commits, then its commit, then its
//! folder, and last the list of replaced fragments. A list only takes effect if the fragment that replaces the others is
//! committed.

mod commits;
mod fragments;
mod leftovers;
mod metadata;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};

use super::report::ReportRow;
use crate::array::window::TimestampMs;
use crate::error::{Error, Result};
use crate::maintain::mode::mode_of_name;
use crate::maintain::report::StepOutcome;
use crate::storage::{FileInfo, Listing, Storage};
use crate::write::clock::Clock;

/// The default age at which the remains of an interrupted write are removed.
pub const LEFTOVER_AGE: Duration = Duration::from_hours(7 * 24);

/// The default age at which replaced fragments are removed. Queries that have planned to read them end meanwhile.
pub const REPLACED_AGE: Duration = Duration::from_mins(10);

/// The kinds of vacuum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum VacuumMode {
    /// Fragments that others replace.
    Fragments,
    /// Commit files that lists hold.
    Commits,
    /// Copies of footers, except the latest.
    FragmentMetadata,
    /// Files of key-value metadata that others replace.
    ArrayMetadata,
    /// The remains of interrupted writes.
    Leftovers,
}

impl VacuumMode {
    /// Every mode.
    pub const ALL: [Self; 5] = [
        Self::Fragments,
        Self::Commits,
        Self::FragmentMetadata,
        Self::ArrayMetadata,
        Self::Leftovers,
    ];

    /// The name in options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fragments => "fragments",
            Self::Commits => "commits",
            Self::FragmentMetadata => "fragment_metadata",
            Self::ArrayMetadata => "array_metadata",
            Self::Leftovers => "leftovers",
        }
    }

    /// The mode with a name; the mode of an array's metadata has another name for groups.
    ///
    /// # Errors
    /// The mode doesn't exist.
    pub fn of_name(name: &str) -> Result<Self> {
        mode_of_name(&Self::ALL, Self::name, name)
    }
}

/// The options of a vacuum.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct VacuumOptions {
    /// The kind of files that are removed.
    pub mode: VacuumMode,
    /// Whether the files are only listed.
    pub dry_run: bool,
    /// How long ago a thing must have fallen out of use to be removed, so that queries that began before can still read it: by
    /// default [`REPLACED_AGE`] for fragments, [`LEFTOVER_AGE`] for leftovers, and zero for all other modes.
    pub min_age: Duration,
    /// The progress.
    pub progress: Arc<VacuumProgress>,
    /// The source of times and names.
    #[doc(hidden)]
    pub clock: Clock,
}

/// Numbers of files and folders, which grow while a vacuum runs.
#[derive(Debug, Default)]
pub struct VacuumProgress {
    total: AtomicU64,
    done: AtomicU64,
    bytes: AtomicU64,
}

impl VacuumProgress {
    /// The number of steps: mostly files and folders to remove.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// The number of finished steps.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// The bytes that were freed so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl VacuumProgress {
    /// Counts a finished step and the bytes that it freed.
    fn add(&self, bytes: u64) {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl VacuumOptions {
    /// The options of a mode, with its default age.
    pub fn new(mode: VacuumMode) -> Self {
        Self {
            mode,
            dry_run: false,
            min_age: match mode {
                VacuumMode::Fragments => REPLACED_AGE,
                VacuumMode::Leftovers => LEFTOVER_AGE,
                VacuumMode::Commits | VacuumMode::FragmentMetadata | VacuumMode::ArrayMetadata => {
                    Duration::ZERO
                }
            },
            progress: Arc::default(),
            clock: Clock::system(),
        }
    }

    /// Whether a file was last modified long enough ago.
    fn is_old(&self, file: &FileInfo) -> bool {
        self.is_old_time(u64::try_from(file.modified_us / 1000).unwrap_or(0))
    }

    /// Whether a time, in ms, is long enough ago.
    fn is_old_time(&self, time: u64) -> bool {
        let age = TimestampMs::now().0.saturating_sub(time);
        self.min_age.is_zero() || u128::from(age) > self.min_age.as_millis()
    }
}

/// Vacuums the array or the group at `storage`, or reports what that would remove.
///
/// # Errors
/// There is no array, it is damaged, or the store fails. What was removed before stays removed.
pub async fn vacuum(storage: Storage, options: VacuumOptions) -> Result<Vec<ReportRow>> {
    let uri = storage.uri().to_owned();
    let clock = options.clock.in_engine(storage.engine());
    let options = VacuumOptions { clock, ..options };
    let done = async {
        let plan: VacuumPlan = match options.mode {
            VacuumMode::Fragments => fragments::plan(&storage, &options).await?,
            VacuumMode::Commits => commits::plan(&storage, &options).await?,
            VacuumMode::FragmentMetadata => metadata::plan_copies(&storage, &options).await?,
            VacuumMode::ArrayMetadata => metadata::plan(&storage, &options).await?,
            VacuumMode::Leftovers => leftovers::plan(&storage, &options).await?,
        };
        if !options.dry_run {
            plan.run(&storage, &options.progress).await?;
        }
        Ok(plan.rows(options.mode, options.dry_run))
    };
    done.await.map_err(|e: Error| e.with("array", uri))
}

/// The folder of the folders of fragments.
const FRAGMENTS_FOLDER: &str = "__fragments";

/// Chains that are followed at the same time.
const CONCURRENCY: usize = 16;

/// One step.
#[derive(Debug, Clone)]
struct VacuumAction {
    /// The action.
    pub what: VacuumedObject,
    /// The file or folder, relative to the array.
    pub path: String,
    /// The bytes that it takes.
    pub bytes: u64,
    /// The reason why nobody needs it.
    pub why: &'static str,
}

/// The action on a file or folder.
#[derive(Debug, Clone)]
enum VacuumedObject {
    /// Removes a file.
    File,
    /// Removes a folder with all its contents: these files, if they are known.
    Folder(Option<Vec<String>>),
    /// Creates a file.
    Create(Bytes),
}

/// All steps.
#[derive(Debug, Default)]
struct VacuumPlan {
    stages: Vec<Vec<Vec<VacuumAction>>>,
    /// The fragments that stay because they fell out of use too recently, with the reason.
    kept: Vec<(String, String)>,
}

impl VacuumAction {
    /// The removal of a file.
    fn file(path: impl Into<String>, bytes: u64, why: &'static str) -> Self {
        Self {
            what: VacuumedObject::File,
            path: path.into(),
            bytes,
            why,
        }
    }
}

impl VacuumPlan {
    /// Adds chains of steps, which begin when all chains before have ended.
    fn then(&mut self, chains: Vec<Vec<VacuumAction>>) {
        self.stages.push(chains);
    }

    /// Executes the steps.
    async fn run(&self, storage: &Storage, progress: &VacuumProgress) -> Result<()> {
        let steps = self.stages.iter().flatten().map(Vec::len).sum::<usize>();
        progress
            .total
            .store(u64::try_from(steps)?, Ordering::Relaxed);
        for stage in &self.stages {
            if storage.is_remote() {
                follow_in_step(storage, stage, progress).await?;
                continue;
            }
            stream::iter(stage.clone())
                .map(|chain| follow(storage.clone(), chain, progress))
                .buffered(CONCURRENCY)
                .try_collect::<Vec<()>>()
                .await?;
        }
        Ok(())
    }

    /// One row for each step, and rows for the fragments that are left for a later vacuum.
    fn rows(&self, mode: VacuumMode, dry_run: bool) -> Vec<ReportRow> {
        let actions = self.stages.iter().flatten().flatten();
        let row = |action: &VacuumAction| {
            let created = match &action.what {
                VacuumedObject::Create(bytes) => bytes.len() as u64,
                VacuumedObject::File | VacuumedObject::Folder(_) => 0,
            };
            ReportRow {
                mode: mode.name(),
                action: match action.what {
                    VacuumedObject::Create(_) => "create",
                    VacuumedObject::File | VacuumedObject::Folder(_) => "remove",
                },
                object: action.path.clone(),
                inputs: 1,
                bytes_read: 0,
                bytes_written: Some(created),
                bytes_freed: action.bytes,
                gain: action.why.to_owned(),
                outcome: if dry_run {
                    StepOutcome::Planned
                } else {
                    StepOutcome::Done
                },
            }
        };
        let kept = self.kept.iter().map(|(object, why)| ReportRow {
            mode: mode.name(),
            action: "remove",
            object: object.clone(),
            inputs: 1,
            bytes_read: 0,
            bytes_written: Some(0),
            bytes_freed: 0,
            gain: "none yet".to_owned(),
            outcome: StepOutcome::Skipped(why.clone()),
        });
        actions.map(row).chain(kept).collect()
    }
}

async fn follow(
    storage: Storage,
    chain: Vec<VacuumAction>,
    progress: &VacuumProgress,
) -> Result<()> {
    for action in chain {
        match action.what {
            VacuumedObject::File => storage.remove_file(&action.path).await?,
            VacuumedObject::Folder(_) => storage.remove_folder(&action.path).await?,
            VacuumedObject::Create(bytes) => storage.create_file(&action.path, bytes).await?,
        }
        progress.add(action.bytes);
    }
    Ok(())
}

/// Follows all chains at once: the files of their first steps go together, then those of their second steps, and so on. A remote
/// store removes many files in one request.
async fn follow_in_step(
    storage: &Storage,
    chains: &[Vec<VacuumAction>],
    progress: &VacuumProgress,
) -> Result<()> {
    let longest = chains.iter().map(Vec::len).max().unwrap_or(0);
    for step in 0..longest {
        let actions = || chains.iter().filter_map(|chain| chain.get(step));
        let mut files = Vec::new();
        let mut others = Vec::new();
        for action in actions() {
            match &action.what {
                VacuumedObject::File => files.push(action.path.clone()),
                VacuumedObject::Folder(Some(within)) => files.extend_from_slice(within),
                VacuumedObject::Folder(None) | VacuumedObject::Create(_) => {
                    others.push(vec![action.clone()]);
                }
            }
        }
        stream::iter(others)
            .map(|chain| follow(storage.clone(), chain, progress))
            .buffered(CONCURRENCY)
            .try_collect::<Vec<()>>()
            .await?;
        storage.remove_files(&files).await?;
        for action in actions() {
            if let VacuumedObject::File | VacuumedObject::Folder(Some(_)) = action.what {
                progress.add(action.bytes);
            }
        }
    }
    Ok(())
}

/// The folders of fragments, with their files.
struct FragmentFolders {
    /// The files below the parent of many folders, for a store that lists them in few requests.
    tree: Option<Arc<Listing>>,
}

impl FragmentFolders {
    /// Lists the folders of fragments, if that takes fewer requests than listing each of them.
    async fn list(storage: &Storage, wanted: usize) -> Result<Self> {
        let is_cheaper = storage.is_remote() && wanted > 1;
        let tree = match is_cheaper {
            true => Some(storage.list_tree(FRAGMENTS_FOLDER).await?),
            false => None,
        };
        Ok(Self { tree })
    }

    /// Returns the step that removes a folder, or `None` if the folder holds no bytes.
    async fn removal(
        &self,
        storage: &Storage,
        folder: String,
        why: &'static str,
    ) -> Result<Option<VacuumAction>> {
        let parent = format!("{FRAGMENTS_FOLDER}/");
        let known = self.tree.as_ref().zip(folder.strip_prefix(&parent));
        let (bytes, files) = match known {
            Some((tree, name)) => {
                let within = tree.files_below(name);
                let files = within.iter().map(|file| format!("{parent}{}", file.name));
                (sum_of_bytes(within), Some(files.collect()))
            }
            None => (sum_of_bytes(&storage.list(&folder).await?.files), None),
        };
        Ok((bytes > 0).then_some(VacuumAction {
            what: VacuumedObject::Folder(files),
            path: folder,
            bytes,
            why,
        }))
    }
}

fn sum_of_bytes(files: &[FileInfo]) -> u64 {
    let sizes = files.iter().map(|file| file.bytes);
    sizes.fold(0, u64::saturating_add)
}
