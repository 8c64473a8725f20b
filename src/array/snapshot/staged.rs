//! Fragments that are complete and that nothing commits yet: their writers are about to commit them, or have died.
//!
//! A writer puts the metadata of a fragment last, and commits it a moment later. So a folder with metadata that are not old
//! is taken for that of a running writer, and one with old metadata for what a crash has left.

use std::collections::HashSet;

use super::{Snapshot, open_alone};
use crate::array::commits;
use crate::array::directory::CommittedFragment;
use crate::array::fragment::{Fragment, METADATA_FILE};
use crate::array::window::{TimestampMs, Visibility};
use crate::error::{ErrorKind, Result};
use crate::format::names::TimestampedName;

const FRAGMENTS_FOLDER: &str = "__fragments";
/// A writer that has not committed its complete fragment for so long is dead.
pub const DEAD_AFTER_MS: u64 = 20_000;

impl Snapshot {
    /// The fragments that running writers have completed since this snapshot was taken, and not committed then. Those of
    /// consolidations, which change no cell, are not among them; `known` are the names of others that are left out.
    ///
    /// # Errors
    /// The array cannot be listed, or the metadata of such a fragment cannot be read.
    pub async fn staged(&self, known: &HashSet<&str>) -> Result<Vec<Fragment>> {
        let listing = self.storage.list(FRAGMENTS_FOLDER).await?;
        let here = self.fragments.iter();
        let here = here.map(|fragment| fragment.name.name.as_str());
        let files = self.directory.commit_files();
        let files = files.map(|(path, _)| path).collect::<Vec<_>>();
        let committed = files
            .iter()
            .filter_map(|path| path.rsplit('/').next()?.strip_suffix(".wrt"));
        let here = here.chain(committed).collect::<HashSet<_>>();
        let others = listing.folders.iter().map(String::as_str);
        let others = others.filter(|name| !here.contains(name) && !known.contains(name));
        let others = others.filter_map(|name| TimestampedName::parse(name).ok());
        // The fragment of a consolidation spans the times of several.
        let mut others = others.filter(|name| name.t1 == name.t2).collect::<Vec<_>>();
        if others.is_empty() {
            return Ok(Vec::new());
        }
        // Commits of several fragments name them in one file.
        let commits = match commits::load(&self.storage, &self.directory).await {
            // Such a file was vacuumed meanwhile, and nothing that it names is young.
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            commits => commits?,
        };
        let committed = commits.iter().filter(|commit| commit.is_committed());
        let committed = committed.map(|commit| commit.name.name.as_str());
        let committed = committed.collect::<HashSet<_>>();
        others.retain(|name| !committed.contains(name.name.as_str()));
        let mut staged = Vec::new();
        for name in others {
            staged.extend(self.open_staged(name).await?);
        }
        Ok(staged)
    }

    /// Opens a fragment that nothing commits, if it is complete and not old.
    async fn open_staged(&self, name: TimestampedName) -> Result<Option<Fragment>> {
        let folder = format!("{FRAGMENTS_FOLDER}/{}", name.name);
        let metadata = format!("{folder}/{METADATA_FILE}");
        let Some(metadata) = self.storage.head(&metadata).await? else {
            return Ok(None);
        };
        let modified_ms = u64::try_from(metadata.modified_us / 1000).unwrap_or(0);
        if modified_ms.saturating_add(DEAD_AFTER_MS) < TimestampMs::now().0 {
            return Ok(None);
        }
        let staged = CommittedFragment {
            name,
            folder,
            visibility: Visibility::Whole,
            commit: metadata,
            listed: false,
            has_coords_file: false,
        };
        match open_alone(&self.storage, &self.directory, staged).await {
            Ok(fragment) => Ok(Some(fragment)),
            // Its writer has withdrawn it.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}
