//! The commits of an array become one file, which lists the commits of fragments and holds deletes (specification:
//! "Consolidated Commits File").
//!
//! Opening an array then reads this file instead of each delete. Replaced fragments are listed, too: they are committed, and
//! earlier times show them. The subtle thing: readers order fragments of one start time by where they are listed, then by name;
//! if a list would change that order, nothing is done.
//!
//! Earlier releases of this library stored conditions of deletes that libtiledb misreads ([`DeleteCondition::is_misread`]). A
//! consolidation rewrites such conditions in their files, so nothing else changes, at any time.

use bytes::Bytes;

use super::options::{ConsolidateMode, ConsolidateOptions};
use crate::array::commits::ArrayCommit;
use crate::array::inspect::ArrayInspection;
use crate::array::snapshot::Snapshot;
use crate::array::window::{OpenWindow, TimestampMs};
use crate::error::{Error, ErrorKind, Result};
use crate::format::commit::{CommitKind, encode_commit_list};
use crate::format::delete_condition::DeleteCondition;
use crate::maintain::report::{ReportRow, StepOutcome};
use crate::storage::Storage;
use crate::write::delete::{RewrittenFile, rewritten};

/// Since this version, commits lie in a folder of their own, and can be listed.
const LISTED_SINCE: u32 = 12;

pub(super) async fn consolidate(
    storage: &Storage,
    options: &ConsolidateOptions,
) -> Result<Vec<ReportRow>> {
    let window = OpenWindow::new(TimestampMs(0), None)?;
    let snapshot = Snapshot::open(storage, window).await?;
    if !snapshot.schema.version.since(LISTED_SINCE) {
        return Err(Error::unsupported(format!(
            "commits can be listed since format {LISTED_SINCE}, and the array's schema has format {}: evolve the schema \
             with libtiledb first",
            snapshot.schema.version
        )));
    }
    let inspection = ArrayInspection::open(storage, window).await?;
    let commits = inspection.commits().await?;
    let listed = commits.iter().filter(|c| is_listed(c)).collect::<Vec<_>>();
    let files = commits
        .iter()
        .filter(|c| c.file.is_some() && is_commit(c))
        .count();
    let (Some(first), Some(last)) = (listed.first(), listed.last()) else {
        return Ok(Vec::new());
    };
    if files < 2 {
        return Ok(Vec::new());
    }
    let t1 = listed
        .iter()
        .map(|c| c.name.t1)
        .min()
        .unwrap_or(first.name.t1);
    let t2 = listed
        .iter()
        .map(|c| c.name.t2)
        .max()
        .unwrap_or(last.name.t2);
    let (bytes, read) = contents(inspection.storage(), &listed).await?;
    let mut row = ReportRow {
        mode: ConsolidateMode::Commits.name(),
        action: "list",
        object: format!("__commits/__{t1}_{t2}"),
        inputs: files as u64,
        bytes_read: read,
        bytes_written: None,
        bytes_freed: read,
        gain: format!(
            "{files} commit files become 1, which lists {} commits",
            listed.len()
        ),
        outcome: StepOutcome::Planned,
    };
    if let Some(name) = reordered(&snapshot) {
        row.outcome = StepOutcome::Skipped(format!(
            "the fragment {name} has the time of another one, and the list would change their order"
        ));
        return Ok(vec![row]);
    }
    if options.dry_run {
        return Ok(vec![row]);
    }
    let name = options
        .clock
        .fresh_fragment_name(TimestampMs(t1), TimestampMs(t2))?;
    let path = format!("__commits/{name}.con");
    row.bytes_written = Some(bytes.len() as u64);
    inspection.storage().create_file(&path, bytes).await?;
    row.object = path;
    row.outcome = StepOutcome::Done;
    Ok(vec![row])
}

/// Whether a list of commits replaces a file.
fn is_commit(commit: &ArrayCommit) -> bool {
    matches!(
        commit.kind,
        CommitKind::Write
            | CommitKind::Ok
            | CommitKind::Delete
            | CommitKind::Consolidated
            | CommitKind::Ignore
    )
}

/// Whether a commit is in effect.
fn is_listed(commit: &ArrayCommit) -> bool {
    matches!(
        commit.kind,
        CommitKind::Write | CommitKind::Ok | CommitKind::Delete
    ) && commit.is_committed()
}

/// The contents of the list, and the number of bytes that were read for it.
async fn contents(storage: &Storage, listed: &[&ArrayCommit]) -> Result<(Bytes, u64)> {
    let mut entries = Vec::with_capacity(listed.len());
    let mut read = 0_u64;
    for commit in listed {
        let name = &commit.name.name;
        let (path, tile) = match commit.kind {
            CommitKind::Ok => (format!("{name}.ok"), None),
            CommitKind::Delete => {
                let tile = match (&commit.inline, &commit.file) {
                    (Some(tile), _) => tile.clone(),
                    (None, Some(file)) => storage.read(file).await?,
                    (None, None) => {
                        return Err(Error::corrupt(format!("the delete {name} is nowhere")));
                    }
                };
                read = read.saturating_add(tile.len() as u64);
                (format!("__commits/{name}.del"), Some(tile))
            }
            _ => (format!("__commits/{name}.wrt"), None),
        };
        entries.push((path, tile));
    }
    let entries = entries
        .iter()
        .map(|(path, tile)| (path.as_str(), tile.as_deref()));
    Ok((Bytes::from(encode_commit_list(entries)), read))
}

/// A fragment that comes before another one of the same time only because of where it is listed.
fn reordered(snapshot: &Snapshot) -> Option<&str> {
    let is_old = |name: &str, folder: &str| name == folder;
    let mut neighbours = snapshot.fragments.windows(2);
    neighbours.find_map(|pair| match pair {
        [a, b] => {
            let same_layout = is_old(&a.name.name, &a.folder) == is_old(&b.name.name, &b.folder);
            let other_order = a.name.t1 == b.name.t1 && same_layout && a.name.name > b.name.name;
            other_order.then_some(b.name.name.as_str())
        }
        _ => None,
    })
}

/// Rewrites conditions of deletes so that libtiledb evaluates them correctly.
pub(super) async fn flatten_deletes(
    storage: &Storage,
    options: &ConsolidateOptions,
) -> Result<Vec<ReportRow>> {
    let window = OpenWindow::new(TimestampMs(0), None)?;
    let inspection = match ArrayInspection::open(storage, window).await {
        Ok(inspection) => inspection,
        // Groups have no deletes.
        Err(e) if e.kind() == ErrorKind::IsAGroup => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let commits = inspection.commits().await?;
    let flat =
        |_: &str, condition: DeleteCondition| condition.is_misread().then(|| condition.flat());
    let mut rows = Vec::new();
    for file in rewritten(inspection.storage(), &commits, &flat).await? {
        let mut row = flattened(&file);
        if !options.dry_run {
            row.bytes_written = Some(file.new_bytes());
            row.outcome = StepOutcome::Done;
            file.put(inspection.storage()).await?;
        }
        rows.push(row);
    }
    Ok(rows)
}

fn flattened(file: &RewrittenFile) -> ReportRow {
    ReportRow {
        mode: ConsolidateMode::Deletes.name(),
        action: "rewrite",
        object: file.path().to_owned(),
        inputs: file.deletes,
        bytes_read: file.old_bytes(),
        bytes_written: None,
        bytes_freed: 0,
        gain: "libtiledb deletes the same cells".to_owned(),
        outcome: StepOutcome::Planned,
    }
}
