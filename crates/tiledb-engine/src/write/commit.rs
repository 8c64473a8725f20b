//! The one step that makes a change visible.
//!
//! One fragment is committed by an empty file of its name. Several are named in one file together, so that all of them
//! become visible at once.

use std::sync::Arc;

use bytes::Bytes;

use super::clock::Clock;
use super::delete::NewDeleteFile;
use super::fragment::StagedFragment;
use crate::array::fragment::Fragment;
use crate::array::snapshot::DEAD_AFTER_MS;
use crate::array::window::TimestampMs;
use crate::error::{Error, Result};
use crate::format::commit::{
    STAGED_ARRAY, STAGED_VACUUM, encode_commit_list, encode_ignore, encode_vacuum,
};
use crate::storage::Storage;

/// The folder of commits.
const COMMITS_FOLDER: &str = "__commits";

/// The fragments that a commit made visible, and its files.
#[derive(Debug, Default)]
pub struct CommittedFiles {
    /// The folders of the fragments.
    folders: Vec<String>,
    /// The file that commits them.
    file: Option<String>,
    /// The file that announced the commit and its time, in an array that isn't visible yet.
    announced: Option<(String, TimestampMs)>,
}

impl CommittedFiles {
    /// Fails if others may soon consider the creation of the array dead, because its commit was announced too long ago.
    ///
    /// # Errors
    /// The commit was announced too long ago.
    pub fn check_in_time(&self) -> Result<()> {
        if self.age_ms() > DEAD_AFTER_MS / 2 {
            Err(late())
        } else {
            Ok(())
        }
    }

    /// Fails if others considered the creation of the array, which now has a schema, dead and removed its commit.
    ///
    /// # Errors
    /// The commit is gone.
    pub async fn check_kept(&self, storage: &Storage) -> Result<()> {
        if self.age_ms() <= DEAD_AFTER_MS {
            return Ok(());
        }
        match &self.file {
            Some(file) if storage.head(file).await?.is_none() => Err(late()),
            _ => Ok(()),
        }
    }

    /// How long ago the commit was announced.
    fn age_ms(&self) -> u64 {
        let since = self.announced.as_ref().map(|(_, since)| since.0);
        since.map_or(0, |since| TimestampMs::now().0.saturating_sub(since))
    }

    /// Records that the array is now visible.
    pub async fn settle(&self, storage: &Storage) {
        let Some((announcement, _)) = &self.announced else {
            return;
        };
        if let Err(error) = storage.remove_file(announcement).await {
            log::warn!("{}: {announcement} stays: {error}", storage.uri());
        }
    }

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
        match &self.announced {
            Some((announcement, _)) => storage.remove_file(announcement).await,
            None => Ok(()),
        }
    }
}

fn late() -> Error {
    Error::conflict(
        "creating the array took so long after its rows were written that another writer may have taken its place: run \
         the statement again",
    )
}

/// Commits fragments: afterwards, every reader sees all of them. Without fragments, nothing is committed.
///
/// # Errors
/// The store fails. If its answer was lost, the change may be visible, whole, or not visible at all. So the files of the
/// fragments stay.
pub async fn commit(
    storage: &Storage,
    clock: &Clock,
    mut fragments: Vec<StagedFragment>,
) -> Result<CommittedFiles> {
    for delete in fragments
        .iter()
        .filter_map(|fragment| fragment.delete.as_ref())
    {
        commit_delete(storage, delete).await?;
    }
    fragments.iter_mut().for_each(StagedFragment::keep);
    let mut committed = CommittedFiles::of(&fragments);
    if let Some((file, bytes)) = commit_file(storage, clock, &fragments)? {
        storage.create_file(&file, bytes).await?;
        committed.file = Some(file);
    }
    Ok(committed)
}

/// Commits fragments of an array without a schema, which nobody can see yet. The commit is announced first: if the creation
/// never finishes, the creator of the next array at this place knows which commits don't belong to it.
///
/// # Errors
/// The store fails, as in [`commit`].
pub async fn commit_unpublished(
    storage: &Storage,
    clock: &Clock,
    mut fragments: Vec<StagedFragment>,
) -> Result<CommittedFiles> {
    fragments.iter_mut().for_each(StagedFragment::keep);
    let mut committed = CommittedFiles::of(&fragments);
    if let (Some((file, bytes)), Some(first)) =
        (commit_file(storage, clock, &fragments)?, fragments.first())
    {
        let announcement = format!("{COMMITS_FOLDER}/{}{STAGED_ARRAY}", first.name.name);
        let since = TimestampMs::now();
        let list = Bytes::from(encode_ignore([file.as_str()]));
        storage.create_file(&announcement, list).await?;
        storage.create_file(&file, bytes).await?;
        committed.announced = Some((announcement, since));
        committed.file = Some(file);
    }
    Ok(committed)
}

impl CommittedFiles {
    fn of(fragments: &[StagedFragment]) -> Self {
        let folders = fragments
            .iter()
            .map(|fragment| fragment.folder().to_owned());
        Self {
            folders: folders.collect(),
            ..Self::default()
        }
    }
}

/// The file that commits fragments, and its contents; `None` if there are no fragments.
fn commit_file(
    storage: &Storage,
    clock: &Clock,
    fragments: &[StagedFragment],
) -> Result<Option<(String, Bytes)>> {
    match fragments {
        [] => Ok(None),
        [only] => Ok(Some((only.commit_path(), Bytes::new()))),
        several => list_of(storage, clock, several, None).map(Some),
    }
}

/// Announces that a fragment is about to replace others; `replaced` are their folders.
///
/// The list is put beside the commits before the commit ([`staged_vacuum`]). Readers that know it see either the old fragments
/// or the new one at every moment, [`complete_replacement`] can complete what a crash leaves, and other writers that want to
/// replace the same fragments find the list. The caller must list the commits afterwards: the listing holds all earlier
/// commits, and the authors of later ones find this list.
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

/// Commits an announced fragment: afterwards every reader sees it, and none of the fragments that it replaces. Returns `false`
/// if another writer considered its author dead and removed the announcement; then the fragment must be withdrawn.
///
/// # Errors
/// The store fails. The change is then visible, whole, or not visible at all.
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

/// Removes the announcement of another writer that may be dead. A writer that is alive notices when it commits.
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

/// Completes the replacement after the commit of a fragment that replaces others.
///
/// # Errors
/// The store fails.
pub async fn complete_replacement(storage: &Storage, name: &str, list: Bytes) -> Result<()> {
    let path = format!("{COMMITS_FOLDER}/{name}.vac");
    storage.create_file(&path, list).await?;
    let staged = format!("{COMMITS_FOLDER}/{name}{STAGED_VACUUM}");
    storage.remove_file(&staged).await
}

/// Takes back a fragment that replaces others, whether or not it is committed; the others are visible again.
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
pub async fn commit_delete(storage: &Storage, delete: &NewDeleteFile) -> Result<()> {
    let key = storage.encryption_key().cloned();
    let bytes = delete.encode(key.as_ref())?;
    storage.create_file(&delete.path, bytes).await
}

/// Commits a delete and fragments so that they become visible together. Both have the same time, so the fragments record the
/// delete as processed. Otherwise it would delete their cells.
///
/// Afterwards the delete gets a file of its own, too, because libtiledb looks for that file when it consolidates commits. The
/// file changes nothing for readers, so a failure to put it is only logged.
///
/// # Errors
/// The store fails, as in [`commit`].
pub async fn commit_with_delete(
    storage: &Storage,
    clock: &Clock,
    delete: &NewDeleteFile,
    mut fragments: Vec<StagedFragment>,
) -> Result<()> {
    fragments.iter_mut().for_each(StagedFragment::keep);
    let (file, bytes) = list_of(storage, clock, &fragments, Some(delete))?;
    storage.create_file(&file, bytes).await?;
    if let Err(error) = commit_delete(storage, delete).await {
        log::warn!(
            "{}: {} is not a file of its own: {error}",
            storage.uri(),
            delete.path
        );
    }
    Ok(())
}

/// A single file that commits everything.
fn list_of(
    storage: &Storage,
    clock: &Clock,
    fragments: &[StagedFragment],
    delete: Option<&NewDeleteFile>,
) -> Result<(String, Bytes)> {
    let paths = fragments
        .iter()
        .map(|fragment| fragment.commit_path())
        .collect::<Vec<_>>();
    let key = storage.encryption_key().cloned();
    let deleted = delete
        .map(|delete| delete.encode(key.as_ref()))
        .transpose()?;
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
    Ok((format!("{COMMITS_FOLDER}/{name}.con"), Bytes::from(bytes)))
}

/// Hides fragments from all readers of that time and later ones; they stay for readers of the past until they are vacuumed.
///
/// # Errors
/// The store fails, as in [`commit`].
pub async fn commit_removal(storage: &Storage, removal: &FragmentRemoval) -> Result<()> {
    let file = format!("{COMMITS_FOLDER}/{}.vac", removal.name);
    storage.create_file(&file, removal.list()).await
}

/// A removal of fragments, which will be hidden.
#[derive(Debug)]
pub struct FragmentRemoval {
    /// The name of the commit.
    pub name: String,
    folders: Vec<String>,
}

impl FragmentRemoval {
    /// A removal at `time`, which is later than all fragments.
    ///
    /// # Errors
    /// The system provides no random numbers for a name.
    pub fn new(clock: &Clock, time: TimestampMs, fragments: &[Arc<Fragment>]) -> Result<Self> {
        let folders = fragments.iter().map(|fragment| fragment.folder.clone());
        Ok(Self {
            name: clock.fresh_fragment_name(time, time)?,
            folders: folders.collect(),
        })
    }

    pub(super) fn list(&self) -> Bytes {
        replaced_list(&self.folders)
    }
}

impl StagedFragment {
    /// The file that commits the fragment, relative to the array.
    fn commit_path(&self) -> String {
        format!("{COMMITS_FOLDER}/{}.wrt", self.name.name)
    }
}
