//! The announcements of running statements: changes without a fragment, which other writers couldn't see before their commit.
//!
//! A delete by a condition is announced by its later commit file, which lies beside the commits under a staged name. A removal
//! of all fragments is announced by its staged list. Readers skip both. A writer removes its announcement in the end, so an old
//! announcement belongs to a writer that died.

use std::collections::HashSet;

use super::{DEAD_AFTER_MS, Snapshot};
use crate::array::deletes::TimedDelete;
use crate::array::window::TimestampMs;
use crate::error::{ErrorKind, Result};
use crate::format::commit::{parse_vacuum, path_name, staged_delete, staged_vacuum, truncates};
use crate::format::delete_condition::DeleteCondition;
use crate::format::names::TimestampedName;

/// A change that another writer is about to commit.
#[derive(Debug)]
pub enum AnnouncedChange {
    /// A delete of cells by a condition.
    Delete(TimedDelete),
    /// A removal, which hides fragments.
    Removal {
        /// The name of the commit.
        name: TimestampedName,
        /// The names of the fragments.
        fragments: Vec<String>,
    },
}

impl AnnouncedChange {
    /// The order of changes, by time and name: the later of two changes withdraws.
    pub fn age(&self) -> (u64, &str) {
        match self {
            Self::Delete(delete) => (delete.time, &delete.name),
            Self::Removal { name, .. } => (name.t1, &name.name),
        }
    }
}

impl Snapshot {
    /// The changes that others have announced and not committed; `known` holds the names of the caller's changes. `None` if one
    /// of the files is gone because its change was just committed or withdrawn. The caller must then list the array again.
    ///
    /// # Errors
    /// A file cannot be read.
    pub async fn announced(&self, known: &HashSet<&str>) -> Result<Option<Vec<AnnouncedChange>>> {
        let now = TimestampMs::now().0;
        let mut announced = Vec::new();
        let files = self.directory.commit_files().collect::<Vec<_>>();
        let committed = files.iter().map(|(path, _)| path_name(path));
        for (path, info) in &files {
            let modified_ms = u64::try_from(info.modified_us / 1000).unwrap_or(0);
            let (delete, removal) = (staged_delete(path), staged_vacuum(path));
            let Some(name) = delete.or(removal) else {
                continue;
            };
            let is_committed = || committed.clone().any(|other| other == name);
            let is_dead = modified_ms.saturating_add(DEAD_AFTER_MS) < now;
            let Ok(parsed) = TimestampedName::parse(name) else {
                continue;
            };
            if is_dead || known.contains(name) || parsed.t1 != parsed.t2 || is_committed() {
                continue;
            }
            let bytes = match self.storage.read(path).await {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                bytes => bytes?,
            };
            if delete.is_some() {
                let tile = self
                    .storage
                    .decode_generic_tile(&bytes, "delete condition")?;
                announced.push(AnnouncedChange::Delete(TimedDelete {
                    marker: format!("__commits/{name}.del"),
                    time: parsed.t1,
                    name: parsed.name,
                    condition: DeleteCondition::decode_delete(&tile.data)?.into(),
                    commit: None,
                }));
                continue;
            }
            let paths = parse_vacuum(&bytes)?;
            let fragments = paths
                .iter()
                .map(|path| path_name(path).to_owned())
                .collect::<Vec<_>>();
            // Other staged lists belong to consolidations, which change no cell.
            if truncates(&parsed, &fragments) {
                announced.push(AnnouncedChange::Removal {
                    name: parsed,
                    fragments,
                });
            }
        }
        Ok(Some(announced))
    }
}
