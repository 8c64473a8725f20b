//! The commit of a new fragment in place of others, and the changes that others made meanwhile.
//!
//! The array is listed before the commit: the inputs must still exist, with no new fragment between them. It is listed again
//! after the commit, because two consolidations of one fragment can't see each other before. The one with the greater name then
//! withdraws.

use std::collections::HashSet;

use bytes::Bytes;

use super::choice;
use super::options::ConsolidateOptions;
use crate::array::directory::list_commits;
use crate::array::snapshot::{DEAD_AFTER_MS, Snapshot};
use crate::array::window::{OpenWindow, TimestampMs};
use crate::error::{Error, ErrorKind, Result};
use crate::format::commit::{STAGED_VACUUM, parse_vacuum, path_name, staged_vacuum, truncates};
use crate::format::names::TimestampedName;
use crate::maintain::plan;
use crate::maintain::report::{ReportRow, StepOutcome};
use crate::storage::{Listing, Storage};
use crate::write::commit::{
    announce_replacement, commit_replacement, complete_replacement, give_up_announcement,
    withdraw_replacement,
};
use crate::write::fragment::StagedFragment;

const COMMITS_FOLDER: &str = "__commits";

/// Commits a fragment in place of the fragments `inputs` of a snapshot. If it fails before the commit, the fragment is
/// removed.
pub(super) async fn replace(
    snapshot: &Snapshot,
    inputs: &[usize],
    mut staged: StagedFragment,
    options: &ConsolidateOptions,
) -> Result<()> {
    let storage = &snapshot.storage;
    let fragments = inputs
        .iter()
        .filter_map(|index| snapshot.fragments.get(*index));
    let folders = fragments
        .map(|fragment| fragment.folder.clone())
        .collect::<Vec<_>>();
    let ready = async {
        announce_replacement(storage, &staged, &folders).await?;
        let listed = list_commits(storage).await?;
        check_before(snapshot, inputs, &staged, options).await?;
        Ok(listed)
    };
    let listed = match ready.await {
        Ok(listed) => listed,
        Err(e) => {
            // Vacuum removes what can't be removed here.
            drop(withdraw_replacement(storage, staged).await);
            return Err(e);
        }
    };
    if !commit_replacement(storage, &mut staged, &folders).await? {
        withdraw_replacement(storage, staged).await?;
        return Err(Error::conflict(
            "another writer consolidated some of the same fragments at the same time, and this consolidation was taken back: \
             run it again for the rest",
        ));
    }
    if loses_times(snapshot, options)
        && let Some(delete) = late_delete(storage, &listed, &staged).await?
    {
        withdraw_replacement(storage, staged).await?;
        return Err(late(&delete));
    }
    check_after(storage, &folders, staged).await
}

/// Whether the new cells no longer show what a change of an earlier time would have met.
fn loses_times(snapshot: &Snapshot, options: &ConsolidateOptions) -> bool {
    snapshot.schema.is_dense() || !options.timestamps || options.purge_deleted
}

/// A delete that was committed since the listing, for times of the fragment's inputs.
async fn late_delete(
    storage: &Storage,
    listed: &Listing,
    staged: &StagedFragment,
) -> Result<Option<String>> {
    let now = list_commits(storage).await?;
    let known = listed
        .named_files()
        .map(|file| file.name.as_str())
        .collect::<HashSet<_>>();
    let mut new = now.named_files().map(|file| file.name.as_str());
    let late = new.find(|name| {
        let delete = name.strip_suffix(".del").filter(|_| !known.contains(name));
        delete.is_some_and(|name| delete_time(name) <= staged.name.t2)
    });
    Ok(late.map(str::to_owned))
}

fn late(delete: &str) -> Error {
    Error::conflict(format!(
        "the delete {delete} was committed meanwhile, for times of these fragments: run it again"
    ))
}

/// Fails if the inputs are gone, or something has come between them.
async fn check_before(
    snapshot: &Snapshot,
    inputs: &[usize],
    staged: &StagedFragment,
    options: &ConsolidateOptions,
) -> Result<()> {
    let storage = &snapshot.storage;
    let window = OpenWindow::new(TimestampMs(0), None)?;
    let now = snapshot.reopen(storage, window).await?;
    let wanted = inputs
        .iter()
        .filter_map(|index| snapshot.fragments.get(*index))
        .map(|f| f.name.name.as_str())
        .collect::<HashSet<_>>();
    let all = choice::candidates(&now)?;
    let found = all
        .iter()
        .enumerate()
        .filter(|(_, c)| wanted.contains(c.name.as_str()));
    let group = found.map(|(index, _)| index).collect::<Vec<_>>();
    if group.len() != wanted.len() {
        return Err(Error::conflict(
            "some of the fragments were consolidated or removed by another writer meanwhile: run it again",
        ));
    }
    let terms = choice::terms(&snapshot.schema, options);
    if let Some(obstacle) = plan::obstacle(&all, &group, terms) {
        return Err(Error::conflict(format!(
            "the array was changed meanwhile: {obstacle}; run it again"
        )));
    }
    let known = snapshot.deletes.names().collect::<HashSet<_>>();
    let mut late = now.deletes.names().filter(|name| !known.contains(name));
    if !loses_times(snapshot, options) {
        return Ok(());
    }
    // If cells have lost their times, or were dropped, a delete that was not evaluated would apply to other cells than before.
    if let Some(delete) = late.find(|name| delete_time(name) <= staged.name.t2) {
        return Err(self::late(delete));
    }
    // A complete fragment that is committed later would be hidden, or would show cells that it replaced.
    let ours = HashSet::from([staged.name.name.as_str()]);
    let running = now.staged(&ours).await?;
    match running.iter().find(|f| f.name.t1 <= staged.name.t2) {
        None => Ok(()),
        Some(running) => Err(Error::conflict(format!(
            "the fragment {} is about to be committed by another writer, with a time among those of these fragments: run it again",
            running.name.name
        ))),
    }
}

fn delete_time(name: &str) -> u64 {
    let parsed = TimestampedName::parse(name);
    parsed.map_or(0, |name| name.t1)
}

/// Withdraws the fragment if another fragment with a smaller name replaces one of its inputs, too. The check removes the
/// announcement of a fragment that isn't committed yet: a crash may have left it, and otherwise its writer notices at the
/// commit. The fragment is also withdrawn if a TRUNCATE hides its inputs, or is about to. The TRUNCATE hasn't seen the
/// fragment, which would bring the rows back.
async fn check_after(storage: &Storage, folders: &[String], staged: StagedFragment) -> Result<()> {
    let name = staged.name.name.as_str();
    for ReplacementCommit { name: rival, hides } in rivals(storage, folders, name).await? {
        if hides {
            withdraw_replacement(storage, staged).await?;
            return Err(Error::conflict(format!(
                "{rival} removes some of the same fragments at the same time: this consolidation was taken back; run it again \
                 for the rest"
            )));
        }
        let commit = format!("{COMMITS_FOLDER}/{rival}.wrt");
        let mut committed = storage.head(&commit).await?.is_some();
        if !committed {
            give_up_announcement(storage, &rival).await?;
            // The fragment may have been committed in the meantime.
            committed = storage.head(&commit).await?.is_some();
        }
        if committed && rival.as_str() < name {
            withdraw_replacement(storage, staged).await?;
            return Err(Error::conflict(format!(
                "{rival} is made of some of the same fragments at the same time: this consolidation was taken back; run it \
                 again for the rest"
            )));
        }
    }
    Ok(())
}

/// A commit that replaces fragments, or is about to.
struct ReplacementCommit {
    name: String,
    /// Whether the commit only hides the fragments.
    hides: bool,
}

/// The commits that replace one of these folders, or are about to.
async fn rivals(
    storage: &Storage,
    folders: &[String],
    name: &str,
) -> Result<Vec<ReplacementCommit>> {
    let inputs = folders.iter().map(|f| path_name(f)).collect::<HashSet<_>>();
    let listing = list_commits(storage).await?;
    let mut rivals = Vec::new();
    for file in listing.named_files() {
        let announced = staged_vacuum(&file.name);
        let Some(rival) = announced.or_else(|| file.name.strip_suffix(".vac")) else {
            continue;
        };
        if rival == name {
            continue;
        }
        // A list that is gone was completed under its other name, or withdrawn.
        let names = [file.name.clone(), format!("{rival}.vac")];
        let mut replaced = Vec::new();
        for list in names {
            match storage.read(&format!("{COMMITS_FOLDER}/{list}")).await {
                Ok(bytes) => replaced = parse_vacuum(&bytes)?,
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                Err(e) => return Err(e),
            }
            break;
        }
        if !replaced.iter().any(|path| inputs.contains(path_name(path))) {
            continue;
        }
        let parsed = TimestampedName::parse(rival)?;
        let hidden = replaced.iter().map(|path| path_name(path));
        let modified_ms = u64::try_from(file.modified_us / 1000).unwrap_or(0);
        let is_dead = modified_ms.saturating_add(DEAD_AFTER_MS) < TimestampMs::now().0;
        rivals.push(ReplacementCommit {
            name: rival.to_owned(),
            hides: truncates(&parsed, &hidden.collect::<Vec<_>>())
                && !(announced.is_some() && is_dead),
        });
    }
    Ok(rivals)
}

/// Completes replacements that were committed, and then interrupted.
pub(super) async fn complete(storage: &Storage, dry_run: bool) -> Result<Vec<ReportRow>> {
    let listing = list_commits(storage).await?;
    let mut rows = Vec::new();
    for file in listing.named_files() {
        let Some(name) = staged_vacuum(&file.name) else {
            continue;
        };
        let committed = listing
            .files
            .iter()
            .any(|f| f.name == format!("{name}.wrt"));
        if !committed {
            continue;
        }
        let bytes: Bytes = storage
            .read(&format!("{COMMITS_FOLDER}/{name}{STAGED_VACUUM}"))
            .await?;
        let inputs = parse_vacuum(&bytes)?.len() as u64;
        if !dry_run {
            complete_replacement(storage, name, bytes).await?;
        }
        rows.push(ReportRow {
            mode: super::ConsolidateMode::Fragments.name(),
            action: "complete",
            object: format!("{COMMITS_FOLDER}/{name}.vac"),
            inputs,
            bytes_read: file.bytes,
            bytes_written: (!dry_run).then_some(file.bytes),
            bytes_freed: 0,
            gain: "an interrupted consolidation is complete, for all readers".to_owned(),
            outcome: if dry_run {
                StepOutcome::Planned
            } else {
                StepOutcome::Done
            },
        });
    }
    Ok(rows)
}
