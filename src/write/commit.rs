//! The one step that makes a change visible.
//!
//! One fragment is committed by an empty file of its name. Several are named in one file together, so that all of them
//! become visible at once.

use bytes::Bytes;

use super::clock::Clock;
use super::fragment::StagedFragment;
use crate::array::window::TimestampMs;
use crate::error::Result;
use crate::format::commit::encode_consolidated_commits;
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

impl StagedFragment {
    /// The file that commits the fragment, relative to the array.
    fn commit_path(&self) -> String {
        format!("{COMMITS_FOLDER}/{}.wrt", self.name.name)
    }
}
