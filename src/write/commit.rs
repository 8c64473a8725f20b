//! The one step that makes a change visible.
//!
//! One fragment is committed by an empty file of its name. Several are named in one file together, so that all of them
//! become visible at once.

use std::collections::HashSet;

use bytes::Bytes;

use super::clock::Clock;
use super::fragment::StagedFragment;
use crate::array::snapshot::Snapshot;
use crate::array::window::{OpenWindow, TimestampMs};
use crate::error::{Error, Result};
use crate::format::commit::encode_consolidated_commits;
use crate::geometry::domain::KeyBox;
use crate::storage::Storage;

/// The folder of commits.
const COMMITS_FOLDER: &str = "__commits";

/// Commits fragments: afterwards, every reader sees all of them. No fragments need no commit.
///
/// # Errors
/// The store fails. Whether the change is visible is then not known, if the answer of the store was lost; it is visible
/// whole or not at all.
pub async fn commit(storage: &Storage, clock: &Clock, fragments: &[StagedFragment]) -> Result<()> {
    match fragments {
        [] => Ok(()),
        [only] => {
            let file = only.commit_path();
            storage.create_file(&file, Bytes::new()).await
        }
        several => {
            let paths = several.iter().map(|fragment| fragment.commit_path());
            let paths = paths.collect::<Vec<_>>();
            let lines = paths.iter().map(|path| (path.as_str(), None));
            let bytes = encode_consolidated_commits(lines);
            let times = several
                .iter()
                .map(|fragment| (fragment.name.t1, fragment.name.t2));
            let t1 = times.clone().map(|(t1, _)| t1).min().unwrap_or(0);
            let t2 = times.map(|(_, t2)| t2).max().unwrap_or(0);
            let name = clock.fresh_fragment_name(TimestampMs(t1), TimestampMs(t2))?;
            let file = format!("{COMMITS_FOLDER}/{name}.con");
            storage.create_file(&file, Bytes::from(bytes)).await
        }
    }
}

/// Fails if somebody has written since `snapshot` to one of the boxes that were filled from it: the new fragment would hide
/// that.
///
/// # Errors
/// There is such a fragment, or the array cannot be listed.
pub async fn check_unchanged(snapshot: &Snapshot, filled: &[KeyBox]) -> Result<()> {
    if filled.is_empty() {
        return Ok(());
    }
    let window = OpenWindow::new(TimestampMs(0), None)?;
    let now = snapshot.reopen(&snapshot.storage, window).await?;
    let known = snapshot
        .fragments
        .iter()
        .map(|fragment| fragment.name.name.as_str());
    let known = known.collect::<HashSet<_>>();
    let newer = now
        .fragments
        .iter()
        .filter(|f| !known.contains(f.name.name.as_str()));
    for fragment in newer {
        let datatypes = fragment.dimension_datatypes();
        let domain = fragment.footer.non_empty_domain.as_ref();
        let domain = domain
            .map(|domain| KeyBox::from_ranges(&datatypes, domain))
            .transpose()?;
        if domain.is_none_or(|domain| filled.iter().any(|cells| cells.intersects(&domain))) {
            return Err(Error::conflict(format!(
                "the fragment {} was written meanwhile over cells that this statement copies to fill a tile: run the \
                 statement again",
                fragment.name.name
            ))
            .with("array", snapshot.storage.uri()));
        }
    }
    Ok(())
}

impl StagedFragment {
    /// The file that commits the fragment, relative to the array.
    fn commit_path(&self) -> String {
        format!("{COMMITS_FOLDER}/{}.wrt", self.name.name)
    }
}
