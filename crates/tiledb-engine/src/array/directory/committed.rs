//! The files of an array that a listing shows, and what they commit.

use bytes::Bytes;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{COMMITS_FOLDER, FRAGMENT_META_FOLDER, SCHEMA_FOLDER};
use crate::array::window::WindowVisibility;
use crate::format::names::TimestampedName;
use crate::storage::FileInfo;

const FRAGMENTS_FOLDER: &str = "__fragments";
/// Since this version, fragments lie in a folder of their own.
const FRAGMENTS_FOLDER_SINCE: u32 = 12;

/// A file of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayFile {
    /// The folder it lies in, relative to the array.
    pub folder: &'static str,
    /// The store's information on it.
    pub info: FileInfo,
}

impl Serialize for ArrayFile {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        (self.folder, &self.info).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ArrayFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let (folder, info) = <(String, FileInfo)>::deserialize(deserializer)?;
        let known = ["", SCHEMA_FOLDER, COMMITS_FOLDER, FRAGMENT_META_FOLDER];
        let found = known.into_iter().find(|known| *known == folder);
        match found {
            Some(folder) if info.is_named() && !info.name.contains('/') => {
                Ok(Self { folder, info })
            }
            _ => Err(D::Error::custom(format!(
                "\"{folder}/{}\" isn't the file of an array",
                info.name
            ))),
        }
    }
}

impl ArrayFile {
    /// The file, relative to the array.
    pub fn path(&self) -> String {
        match self.folder {
            "" => self.info.name.clone(),
            folder => format!("{folder}/{}", self.info.name),
        }
    }
}

/// A committed fragment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommittedFragment {
    /// Its parsed name.
    pub name: TimestampedName,
    /// The folder that holds its files, relative to the array.
    pub folder: String,
    /// How much of it the window shows.
    pub visibility: WindowVisibility,
    /// The file that commits it; caches identify the fragment by this file.
    pub commit: FileInfo,
    /// Whether a `.con` file lists it and no `.ign` file removes it; it may also have a commit file of its own.
    pub listed: bool,
    /// Whether one file holds all coordinates; only checked for fragments that may be older than version 5.
    pub has_coords_file: bool,
}

impl CommittedFragment {
    /// The sort key of fragments, oldest first. libtiledb sorts by start time only, so fragments of one start time keep
    /// the order in which it finds them: the array's own folder, `.con` files, commit files.
    pub(in crate::array) fn age(&self) -> (u64, bool, bool, &str) {
        let new_layout = !self.is_in_root();
        let unlisted = new_layout && !self.listed;
        (self.name.t1, new_layout, unlisted, &self.name.name)
    }

    /// Whether its folder is one that a fragment of its name can have.
    pub(in crate::array) fn is_in_its_folder(&self) -> bool {
        let own = self.folder.strip_prefix(FRAGMENTS_FOLDER);
        let own = own.and_then(|rest| rest.strip_prefix('/'));
        self.is_in_root() || own == Some(self.name.name.as_str())
    }

    /// Whether it lies in the array's own folder.
    pub(super) fn is_in_root(&self) -> bool {
        self.folder == self.name.name
    }

    /// A fragment with a commit file. Versions without commit files are found by [`look_at`].
    pub(in crate::array) fn committed(
        name: TimestampedName,
        visibility: WindowVisibility,
        commit: FileInfo,
    ) -> Self {
        let in_root = name.version.is_none_or(|v| v < FRAGMENTS_FOLDER_SINCE);
        Self {
            folder: if in_root {
                name.name.clone()
            } else {
                format!("{FRAGMENTS_FOLDER}/{}", name.name)
            },
            name,
            visibility,
            commit,
            listed: false,
            has_coords_file: false,
        }
    }
}

/// A delete or update inside the window, before it is read.
#[derive(Debug, Clone)]
pub struct CommittedDelete {
    /// Its parsed name, which fragments record when they process it.
    pub name: TimestampedName,
    /// Whether it is an update.
    pub update: bool,
    /// Its file, or the `.con` file that contains it.
    pub file: ArrayFile,
    /// The offset of its generic tile in a `.con` file, and the tile.
    pub inline: Option<(u64, Bytes)>,
}
