//! The one step that makes a change visible.
//!
//! One fragment is committed by an empty file of its name. Several are named in one file together, so that all of them
//! become visible at once.

use std::sync::Arc;

use bytes::Bytes;

use super::clock::Clock;
use super::delete::DeleteFile;
use super::fragment::StagedFragment;
use crate::array::fragment::Fragment;
use crate::array::window::TimestampMs;
use crate::error::Result;
use crate::format::commit::{STAGED_VACUUM, encode_commit_list, encode_vacuum};
use crate::storage::Storage;

/// The folder of commits.
const COMMITS_FOLDER: &str = "__commits";

/// What a commit made visible.
#[derive(Debug, Default)]
pub struct Committed {
    /// The folders of the fragments.
    folders: Vec<String>,
    /// The file that commits them.
    file: Option<String>,
}

impl Committed {
    /// Takes the commit back, for an array that nobody sees yet.
    ///
    /// # Errors
    /// The store fails.
    pub async fn withdraw(&self, storage: &Storage) -> Result<()> {
        if let Some(file) = &self.file {
            storage.remove_file(file).await?;
        }
        for folder in &self.folders {
            storage.remove_folder(folder).await?;
        }
        Ok(())
    }
}

/// Commits fragments: afterwards, every reader sees all of them. No fragments need no commit.
///
/// # Errors
/// The store fails. Whether the change is visible is then not known, if the answer of the store was lost; it is visible
/// whole or not at all. So the files of the fragments stay.
pub async fn commit(
    storage: &Storage,
    clock: &Clock,
    mut fragments: Vec<StagedFragment>,
) -> Result<Committed> {
    for delete in fragments
        .iter()
        .filter_map(|fragment| fragment.delete.as_ref())
    {
        commit_delete(storage, delete).await?;
    }
    fragments.iter_mut().for_each(StagedFragment::keep);
    let file = match fragments.as_slice() {
        [] => None,
        [only] => {
            let file = only.commit_path();
            storage.create_file(&file, Bytes::new()).await?;
            Some(file)
        }
        several => Some(put_together(storage, clock, several, None).await?),
    };
    let folders = fragments
        .iter()
        .map(|fragment| fragment.folder().to_owned());
    Ok(Committed {
        folders: folders.collect(),
        file,
    })
}

/// Announces that a fragment is about to replace others; `replaced` are their folders.
///
/// The list is put beside the commits before the commit ([`staged_vacuum`]): readers that know it see one or the other at
/// every moment, what a crash leaves can be completed by [`complete_replacement`], and whoever is about to replace the same
/// fragments finds it. Whoever goes on must list the commits afterwards: what was committed before is seen then, and what
/// is committed later finds this.
///
/// [`staged_vacuum`]: crate::format::commit::staged_vacuum
///
/// # Errors
/// The store fails.
pub async fn announce_replacement(
    storage: &Storage,
    fragment: &StagedFragment,
    replaced: &[String],
) -> Result<()> {
    let staged = format!("{COMMITS_FOLDER}/{}{STAGED_VACUUM}", fragment.name.name);
    storage.create_file(&staged, replaced_list(replaced)).await
}

/// Commits a fragment that was announced: afterwards every reader sees it, and none of those that it replaces. `false` if
/// somebody else has taken the announcement for one of the dead and removed it; then the fragment must be withdrawn.
///
/// # Errors
/// The store fails. Whether the change is visible is then not known; it is visible whole or not at all.
pub async fn commit_replacement(
    storage: &Storage,
    fragment: &mut StagedFragment,
    replaced: &[String],
) -> Result<bool> {
    fragment.keep();
    let name = &fragment.name.name;
    storage
        .create_file(&fragment.commit_path(), Bytes::new())
        .await?;
    let staged = format!("{COMMITS_FOLDER}/{name}{STAGED_VACUUM}");
    if storage.head(&staged).await?.is_none() {
        return Ok(false);
    }
    complete_replacement(storage, name, replaced_list(replaced)).await?;
    Ok(true)
}

/// Gives up somebody else's announcement, who may be dead; who is not finds out when committing.
///
/// # Errors
/// The store fails.
pub async fn give_up_announcement(storage: &Storage, name: &str) -> Result<()> {
    let staged = format!("{COMMITS_FOLDER}/{name}{STAGED_VACUUM}");
    storage.remove_file(&staged).await
}

fn replaced_list(replaced: &[String]) -> Bytes {
    Bytes::from(encode_vacuum(replaced.iter().map(String::as_str)))
}

/// Does what is left after the commit of a fragment that replaces others.
///
/// # Errors
/// The store fails.
pub async fn complete_replacement(storage: &Storage, name: &str, list: Bytes) -> Result<()> {
    let path = format!("{COMMITS_FOLDER}/{name}.vac");
    storage.create_file(&path, list).await?;
    let staged = format!("{COMMITS_FOLDER}/{name}{STAGED_VACUUM}");
    storage.remove_file(&staged).await
}

/// Takes a fragment back that replaces others, whether or not it is committed; they are visible again.
///
/// # Errors
/// The store fails.
pub async fn withdraw_replacement(storage: &Storage, mut fragment: StagedFragment) -> Result<()> {
    fragment.keep();
    let name = &fragment.name.name;
    for list in [STAGED_VACUUM, ".vac"] {
        let list = format!("{COMMITS_FOLDER}/{name}{list}");
        storage.remove_file(&list).await?;
    }
    storage.remove_file(&fragment.commit_path()).await?;
    storage.remove_folder(fragment.folder()).await
}

/// Commits a delete.
///
/// # Errors
/// The store fails, as in [`commit`].
pub async fn commit_delete(storage: &Storage, delete: &DeleteFile) -> Result<()> {
    let key = storage.encryption_key().cloned();
    let bytes = delete.encode(key.as_ref())?;
    storage.create_file(&delete.path, bytes).await
}

/// Commits a delete and fragments so that they become visible together. Both have the same time: the fragments record the
/// delete as processed, because it would delete their cells otherwise.
///
/// The delete is then put as a file of its own, too, because libtiledb looks for that when it consolidates commits. It
/// changes nothing for readers, so a failure of that is only logged.
///
/// # Errors
/// The store fails, as in [`commit`].
pub async fn commit_with_delete(
    storage: &Storage,
    clock: &Clock,
    delete: &DeleteFile,
    mut fragments: Vec<StagedFragment>,
) -> Result<()> {
    fragments.iter_mut().for_each(StagedFragment::keep);
    put_together(storage, clock, &fragments, Some(delete)).await?;
    if let Err(error) = commit_delete(storage, delete).await {
        log::warn!(
            "{}: {} is not a file of its own: {error}",
            storage.uri(),
            delete.path
        );
    }
    Ok(())
}

/// Names everything in one file.
async fn put_together(
    storage: &Storage,
    clock: &Clock,
    fragments: &[StagedFragment],
    delete: Option<&DeleteFile>,
) -> Result<String> {
    let paths = fragments.iter().map(|fragment| fragment.commit_path());
    let paths = paths.collect::<Vec<_>>();
    let key = storage.encryption_key().cloned();
    let deleted = delete.map(|delete| delete.encode(key.as_ref()));
    let deleted = deleted.transpose()?;
    let delete = delete.zip(deleted.as_deref());
    let delete = delete.map(|(delete, bytes)| (delete.path.as_str(), Some(bytes)));
    let lines = paths.iter().map(|path| (path.as_str(), None));
    let bytes = encode_commit_list(delete.into_iter().chain(lines));
    let times = fragments
        .iter()
        .map(|fragment| (fragment.name.t1, fragment.name.t2));
    let t1 = times.clone().map(|(t1, _)| t1).min().unwrap_or(0);
    let t2 = times.map(|(_, t2)| t2).max().unwrap_or(0);
    let name = clock.fresh_fragment_name(TimestampMs(t1), TimestampMs(t2))?;
    let file = format!("{COMMITS_FOLDER}/{name}.con");
    storage.create_file(&file, Bytes::from(bytes)).await?;
    Ok(file)
}

/// Hides fragments from all readers of that time and later ones; they stay for readers of the past until they are vacuumed.
///
/// # Errors
/// The store fails, as in [`commit`].
pub async fn commit_removal(
    storage: &Storage,
    clock: &Clock,
    time: TimestampMs,
    fragments: &[Arc<Fragment>],
) -> Result<()> {
    let names = fragments.iter().map(|fragment| fragment.folder.as_str());
    let bytes = encode_vacuum(names);
    let name = clock.fresh_fragment_name(time, time)?;
    let file = format!("{COMMITS_FOLDER}/{name}.vac");
    storage.create_file(&file, Bytes::from(bytes)).await
}

impl StagedFragment {
    /// The file that commits the fragment, relative to the array.
    fn commit_path(&self) -> String {
        format!("{COMMITS_FOLDER}/{}.wrt", self.name.name)
    }
}
