//! The files of a snapshot, as values: another machine opens the same snapshot from them, or a part of it, without a listing.
//!
//! They come from another process, so their names are checked before any of them is read: a file of another array, or of none, is
//! out of reach. What they say of the array is believed, as a plan is believed that another machine made.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::Snapshot;
use super::footers::open_fragments;
use super::schemas::{load_enumerations, open_schema};
use crate::array::deletes::Deletes;
use crate::array::directory::{ArrayDirectory, ArrayFile, CommittedDelete, CommittedFragment};
use crate::array::fragment::Fragment;
use crate::array::window::OpenWindow;
use crate::error::{Error, ErrorKind, Result};
use crate::format::names::TimestampedName;
use crate::storage::Storage;

/// The files of a [`Snapshot`], or of some of its fragments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotFiles {
    window: OpenWindow,
    schemas: Vec<ArrayFile>,
    /// The files with copies of footers.
    footers: Vec<ArrayFile>,
    fragments: Vec<CommittedFragment>,
    deletes: Vec<DeleteFile>,
}

/// The file of a delete or an update.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct DeleteFile {
    name: TimestampedName,
    update: bool,
    file: ArrayFile,
    /// The offset of its tile in a file with several, and the tile.
    inline: Option<(u64, Vec<u8>)>,
}

impl SnapshotFiles {
    /// The names of the fragments, oldest first.
    pub fn fragment_names(&self) -> impl Iterator<Item = &str> {
        let fragments = self.fragments.iter();
        fragments.map(|fragment| fragment.name.name.as_str())
    }
}

impl From<&Fragment> for CommittedFragment {
    fn from(fragment: &Fragment) -> Self {
        Self {
            name: fragment.name.clone(),
            folder: fragment.folder.clone(),
            visibility: fragment.visibility,
            commit: fragment.commit.clone(),
            listed: false,
            has_coords_file: !fragment.footer.dense,
        }
    }
}

impl Snapshot {
    /// The files of the snapshot, with those of its fragments that have one of these names.
    pub fn files(&self, fragments: &HashSet<&str>) -> SnapshotFiles {
        let wanted = self
            .fragments
            .iter()
            .filter(|fragment| fragments.contains(fragment.name.name.as_str()));
        let deletes = self.deletes.commits().map(|delete| DeleteFile {
            name: delete.name.clone(),
            update: delete.update,
            file: delete.file.clone(),
            inline: delete
                .inline
                .as_ref()
                .map(|(start, tile)| (*start, tile.to_vec())),
        });
        SnapshotFiles {
            window: self.window,
            schemas: self.directory.schemas().to_vec(),
            footers: self.directory.consolidated_footers.clone(),
            fragments: wanted.map(|f| f.as_ref().into()).collect(),
            deletes: deletes.collect(),
        }
    }

    /// Opens the snapshot that has these files.
    ///
    /// # Errors
    /// A file can't be read, or isn't one of an array; a conflict if one is gone.
    pub async fn of_files(storage: &Storage, files: SnapshotFiles) -> Result<Self> {
        let opened = Box::pin(Self::open_files(storage, files)).await;
        opened.map_err(|e| super::located(e, storage))
    }

    async fn open_files(storage: &Storage, files: SnapshotFiles) -> Result<Self> {
        let window = OpenWindow::new(files.window.start, files.window.end)?;
        if window.end.is_none() {
            return Err(Error::corrupt("a snapshot without a time"));
        }
        let outside = files.fragments.iter().find(|f| !f.is_in_its_folder());
        if let Some(fragment) = outside {
            return Err(Error::corrupt(format!(
                "the fragment {} can't lie in \"{}\"",
                fragment.name.name, fragment.folder
            )));
        }
        let directory = Arc::new(ArrayDirectory::of_files(files.schemas, files.footers)?);
        let (storage, schema) = open_schema(storage, window, &directory).await?;
        let enumerations = load_enumerations(&storage, &directory, &schema).await?;
        let fragments = open_fragments(&storage, &directory, files.fragments).await;
        let fragments = fragments.map_err(gone)?;
        super::check_fragments(&schema, &fragments)?;
        let deletes = files.deletes.into_iter().map(|delete| CommittedDelete {
            name: delete.name,
            update: delete.update,
            file: delete.file,
            inline: delete
                .inline
                .map(|(start, tile)| (start, Bytes::from(tile))),
        });
        let deletes = Deletes::load(&storage, deletes.collect(), &fragments).await;
        let deletes = deletes.map_err(gone)?;
        Ok(Self {
            storage,
            window,
            schema,
            enumerations: Arc::new(enumerations),
            fragments: Arc::new(fragments),
            deletes: Arc::new(deletes),
            directory,
        })
    }
}

/// The error for a file that was there when the statement was planned.
fn gone(error: Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound => Error::conflict(
            "a file that this statement reads is gone, because somebody vacuumed the array since the statement was planned: run it \
             again, and vacuum with a min_age that is longer than statements take",
        )
        .with_source(error),
        _ => error,
    }
}
