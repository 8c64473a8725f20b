//! What lies in the folders of an array or a group.

use std::sync::Arc;

use crate::array::directory::{ENUMERATIONS_FOLDER, SCHEMA_FOLDER};
use crate::array::group::{GROUP_FILE, GROUP_FOLDER};
use crate::array::metadata::METADATA_FOLDER;
use crate::error::{Error, Result};
use crate::format::fragment::footer::OLD_SCHEMA_NAME;
use crate::storage::{FileInfo, Listing, Storage};

/// The folder of commit files.
pub const COMMITS_FOLDER: &str = "__commits";
/// The folder of fragments.
pub const FRAGMENTS_FOLDER: &str = "__fragments";
/// The folder of copies of footers.
pub const COPIES_FOLDER: &str = "__fragment_meta";
/// The folder of the arrays that hold dimension labels.
pub const LABELS_FOLDER: &str = "__labels";

/// What a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Array,
    Group,
}

/// The listings of all folders with a meaning.
#[derive(Debug)]
pub struct Folders {
    pub root: Arc<Listing>,
    pub schemas: Arc<Listing>,
    pub enumerations: Arc<Listing>,
    pub commits: Arc<Listing>,
    pub fragments: Arc<Listing>,
    pub copies: Arc<Listing>,
    pub metadata: Arc<Listing>,
    pub labels: Arc<Listing>,
    pub group: Arc<Listing>,
}

impl Folders {
    /// Lists them all.
    pub async fn list(storage: &Storage) -> Result<Self> {
        let (root, schemas, enumerations, commits, fragments, copies, metadata, labels, group) = futures::try_join!(
            storage.list(""),
            storage.list(SCHEMA_FOLDER),
            storage.list(ENUMERATIONS_FOLDER),
            storage.list(COMMITS_FOLDER),
            storage.list(FRAGMENTS_FOLDER),
            storage.list(COPIES_FOLDER),
            storage.list(METADATA_FOLDER),
            storage.list(LABELS_FOLDER),
            storage.list(GROUP_FOLDER),
        )?;
        Ok(Self {
            root,
            schemas,
            enumerations,
            commits,
            fragments,
            copies,
            metadata,
            labels,
            group,
        })
    }

    /// Whether there is an array or a group.
    ///
    /// # Errors
    /// There is neither.
    pub fn kind(&self) -> Result<Kind> {
        let file = |name: &str| self.root.files.iter().any(|f| f.name == name);
        let folder = |name: &str| self.root.folders.iter().any(|f| f == name);
        if folder(SCHEMA_FOLDER) || file(OLD_SCHEMA_NAME) {
            Ok(Kind::Array)
        } else if folder(GROUP_FOLDER) || file(GROUP_FILE) {
            Ok(Kind::Group)
        } else if self.root.files.is_empty() && self.root.folders.is_empty() {
            Err(Error::not_found(
                "neither an array nor a group is here: check the path",
            ))
        } else {
            Err(Error::not_an_array(
                "the folder is neither a TileDB array nor a TileDB group",
            ))
        }
    }

    /// The files of the array's own folder and of `folder`, with their paths.
    pub fn in_root_and<'a>(
        &'a self,
        folder: &'static str,
        listing: &'a Listing,
    ) -> impl Iterator<Item = (String, &'a FileInfo)> {
        let root = self.root.files.iter().map(|f| (f.name.clone(), f));
        let inside = listing.files.iter();
        root.chain(inside.map(move |f| (format!("{folder}/{}", f.name), f)))
    }
}
