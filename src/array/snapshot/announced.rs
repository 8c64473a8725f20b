//! What running statements have announced: changes without a fragment, which others could not see before they are committed.
//!
//! A delete by a condition is announced by the file that will commit it, beside the commits under the name of a staged one; a
//! removal of all fragments by its staged list. Readers pass over both. Whoever announces something removes it in the end, so
//! what is old belongs to a writer that died.

use std::collections::HashSet;

use super::{DEAD_AFTER_MS, Snapshot};
use crate::array::deletes::Delete;
use crate::array::window::TimestampMs;
use crate::error::{ErrorKind, Result};
use crate::format::commit::{parse_vacuum, path_name, staged_delete, staged_vacuum, truncates};
use crate::format::delete_condition::Condition;
use crate::format::names::TimestampedName;

/// A change that somebody is about to commit.
#[derive(Debug)]
pub enum AnnouncedChange {
    /// Cells are deleted by a condition.
    Delete(Delete),
    /// These fragments are hidden.
    Removal {
        /// The name of the commit.
        name: TimestampedName,
        /// The names of the fragments.
        fragments: Vec<String>,
    },
}

impl AnnouncedChange {
    /// By its time and name, the later of two changes is the one that gives way.
    pub fn age(&self) -> (u64, &str) {
        match self {
            Self::Delete(delete) => (delete.time, &delete.name),
            Self::Removal { name, .. } => (name.t1, &name.name),
        }
    }
}

impl Snapshot {
    /// What others have announced and not committed; `known` are the names of our own. `None` if one of the files is gone, because
    /// it has just been committed or withdrawn: the array must be listed again.
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
                announced.push(AnnouncedChange::Delete(Delete {
                    marker: format!("__commits/{name}.del"),
                    time: parsed.t1,
                    name: parsed.name,
                    condition: Condition::decode_delete(&tile.data)?.into(),
                }));
                continue;
            }
            let paths = parse_vacuum(&bytes)?;
            let fragments = paths.iter().map(|path| path_name(path).to_owned());
            let fragments = fragments.collect::<Vec<_>>();
            // Others are lists of consolidations, which change no cell.
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
