//! The remains of interrupted writes, once they are too old to belong to a running write: files under the names of unfinished
//! ones, folders of fragments that nothing commits, and lists that name nothing.
//!
//! A folder of a running write looks like one of a dead write. It is as old as the newest of its files. A folder without files
//! is as old as the time in its name; but the folder of a consolidation has an old name from the beginning, and stays.
//!
//! The creation of an array can also be interrupted, before its schema is put.

use std::collections::HashSet;

use super::{FRAGMENTS_FOLDER, VacuumAction, VacuumOptions, VacuumPlan, VacuumedObject};
use crate::array::commits::ArrayCommit;
use crate::array::directory::ENUMERATIONS_FOLDER;
use crate::array::inspect::ArrayInspection;
use crate::array::metadata::METADATA_FOLDER;
use crate::array::window::{OpenWindow, TimestampMs};
use crate::error::{Error, ErrorKind, Result};
use crate::format::commit::{CommitKind, path_name, staged_array, staged_vacuum};
use crate::format::names::TimestampedName;
use crate::storage::{Listing, Storage};
use crate::write::create::{CreationRemains, is_begun};

const COMMITS_FOLDER: &str = "__commits";
/// The folders in which files are begun under other names.
const STAGING_FOLDERS: [&str; 4] = ["", COMMITS_FOLDER, METADATA_FOLDER, "__fragment_meta"];

pub(super) async fn plan(storage: &Storage, options: &VacuumOptions) -> Result<VacuumPlan> {
    let window = OpenWindow::new(TimestampMs(0), None)?;
    let inspection = match ArrayInspection::open(storage, window).await {
        Ok(inspection) => Some(inspection),
        // In a group, only a change of the metadata can be interrupted.
        Err(e) if e.kind() == ErrorKind::IsAGroup => None,
        Err(e) if matches!(e.kind(), ErrorKind::NotAnArray | ErrorKind::NotFound) => {
            return remains(storage, options, e).await;
        }
        Err(e) => return Err(e),
    };
    let commits = match &inspection {
        Some(inspection) => inspection.commits().await?,
        None => Vec::new(),
    };
    let mut plan = VacuumPlan::default();
    unfinished(storage, options, &commits, true, &mut plan).await?;
    orphans(storage, options, &commits, &mut plan).await?;
    idle_lists(storage, options, &commits, &mut plan).await?;
    Ok(plan)
}

/// The remains of interrupted creations at a place with `no_array`.
async fn remains(
    storage: &Storage,
    options: &VacuumOptions,
    no_array: Error,
) -> Result<VacuumPlan> {
    let root = storage.list("").await?;
    if !is_begun(storage, &root).await? {
        return Err(no_array);
    }
    let remains = CreationRemains::of(storage).await?;
    let mut plan = VacuumPlan::default();
    let announcements = &remains.announcements;
    if announcements.iter().any(|a| !options.is_old_time(a.time)) {
        return Ok(plan);
    }
    let why = "its array was never created";
    let enumerations = storage.list(ENUMERATIONS_FOLDER).await?;
    let enumerations = enumerations.files.iter();
    let enumerations = enumerations.filter(|file| options.is_old(file));
    let removed = enumerations.map(|file| {
        let path = format!("{ENUMERATIONS_FOLDER}/{}", file.name);
        vec![VacuumAction::file(path, file.bytes, why)]
    });
    plan.then(removed.collect());
    // Without the announcement, nobody knows which creation the commit belongs to.
    let removed = announcements.iter().map(|announcement| {
        let commits = announcement
            .commits
            .iter()
            .map(|(path, bytes)| VacuumAction::file(path, *bytes, why));
        let announcement = VacuumAction::file(&announcement.path, 0, why);
        commits.chain([announcement]).collect()
    });
    plan.then(removed.collect());
    unfinished(storage, options, &[], false, &mut plan).await?;
    orphans(storage, options, &[], &mut plan).await?;
    Ok(plan)
}

/// Files that a writer had begun: ours, libtiledb's, and those of local object stores.
fn is_unfinished(name: &str) -> bool {
    let number = name.rsplit_once('#').map(|(_, number)| number);
    let numbered = number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    numbered || name.ends_with(".tmp") || name.ends_with(".staged")
}

async fn unfinished(
    storage: &Storage,
    options: &VacuumOptions,
    commits: &[ArrayCommit],
    has_schema: bool,
    plan: &mut VacuumPlan,
) -> Result<()> {
    let (mut completed, mut removed) = (Vec::new(), Vec::new());
    for folder in STAGING_FOLDERS {
        let listing = storage.list(folder).await?;
        for file in listing.named_files().filter(|f| is_unfinished(&f.name)) {
            // Until the schema exists, the announcement is removed together with its commit.
            if !has_schema && staged_array(&file.name).is_some() {
                continue;
            }
            let path = match folder {
                "" => file.name.clone(),
                _ => format!("{folder}/{}", file.name),
            };
            let removal = VacuumAction::file(&path, file.bytes, "it was never finished");
            match staged_vacuum(&file.name) {
                // The fragment is committed, so the list hides the replaced fragments for all readers.
                Some(name) if folder == COMMITS_FOLDER && is_committed(commits, name) => {
                    let list = storage.read(&path).await?;
                    let create = VacuumAction {
                        what: VacuumedObject::Create(list),
                        path: format!("{COMMITS_FOLDER}/{name}.vac"),
                        bytes: 0,
                        why: "an interrupted consolidation is complete",
                    };
                    completed.push(vec![create, removal]);
                }
                _ if options.is_old(file) => removed.push(vec![removal]),
                _ => {}
            }
        }
    }
    plan.then(completed);
    plan.then(removed);
    Ok(())
}

fn is_committed(commits: &[ArrayCommit], name: &str) -> bool {
    let mut writes = commits
        .iter()
        .filter(|c| matches!(c.kind, CommitKind::Write | CommitKind::Ok) && c.name.name == name);
    writes.any(ArrayCommit::is_committed)
}

/// Folders of fragments that nothing commits.
async fn orphans(
    storage: &Storage,
    options: &VacuumOptions,
    commits: &[ArrayCommit],
    plan: &mut VacuumPlan,
) -> Result<()> {
    let mut removed = Vec::new();
    for parent in ["", FRAGMENTS_FOLDER] {
        let listing = storage.list(parent).await?;
        for folder in &listing.folders {
            let Ok(name) = TimestampedName::parse(folder) else {
                continue;
            };
            let of_parent = match parent {
                // Before version 5, metadata commit a fragment.
                "" => name.version.is_some_and(|v| (5..12).contains(&v)),
                _ => name.version.is_some_and(|v| v >= 12),
            };
            if name.name != *folder || !of_parent || is_committed(commits, folder) {
                continue;
            }
            let path = match parent {
                "" => folder.clone(),
                _ => format!("{parent}/{folder}"),
            };
            let files = storage.list(&path).await?;
            if is_abandoned(storage, options, &name, &path, &files).await {
                let bytes = files
                    .files
                    .iter()
                    .fold(0_u64, |sum, f| sum.saturating_add(f.bytes));
                removed.push(vec![VacuumAction {
                    what: VacuumedObject::Folder(None),
                    path,
                    bytes,
                    why: "its write was interrupted before the commit",
                }]);
            }
        }
    }
    plan.then(removed);
    Ok(())
}

async fn is_abandoned(
    storage: &Storage,
    options: &VacuumOptions,
    name: &TimestampedName,
    path: &str,
    files: &Listing,
) -> bool {
    if let Some(newest) = files.files.iter().max_by_key(|file| file.modified_us) {
        return options.is_old(newest);
    }
    match storage.folder_changed_ms(path).await {
        Some(changed) => options.is_old_time(changed),
        // The name of a consolidated fragment has the times of the fragments that it replaces, not that of the consolidation.
        None => name.t1 == name.t2 && options.is_old_time(name.t2),
    }
}

/// Lists of replaced fragments that are all gone.
async fn idle_lists(
    storage: &Storage,
    options: &VacuumOptions,
    commits: &[ArrayCommit],
    plan: &mut VacuumPlan,
) -> Result<()> {
    let mut there = HashSet::new();
    for parent in ["", FRAGMENTS_FOLDER] {
        there.extend(storage.list(parent).await?.folders.iter().cloned());
    }
    let listing = storage.list(COMMITS_FOLDER).await?;
    let old = |path: &str| {
        let mut files = listing.files.iter();
        let file = files.find(|f| path == format!("{COMMITS_FOLDER}/{}", f.name));
        file.filter(|file| options.is_old(file))
            .map(|file| file.bytes)
    };
    let mut removed = Vec::new();
    for list in commits.iter().filter(|c| c.kind == CommitKind::Vacuum) {
        let named = || list.lists.iter().map(|path| path_name(path));
        let gone = named().all(|name| !there.contains(name) && !is_committed(commits, name));
        if let (true, Some(file)) = (gone, &list.file)
            && let Some(bytes) = old(file)
        {
            removed.push(vec![VacuumAction::file(
                file,
                bytes,
                "what it names is gone",
            )]);
        }
    }
    plan.then(removed);
    Ok(())
}
