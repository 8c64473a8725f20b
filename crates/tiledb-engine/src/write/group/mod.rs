//! Groups: their creation, and the members that they list.
//!
//! | Change | Puts | Visible with |
//! |---|---|---|
//! | create | the empty file that identifies a group | the same |
//! | members | the changes, or for groups of libtiledb before 2.15 the complete list | `__group/<name>` |
//!
//! A file of the current version holds changes alone, and readers replay all of them, so no change spoils another one. The
//! subtle thing: a group whose newest file is of version 1 is read from that file alone. So a change writes a complete list,
//! and then fails if another writer's list came in between.

mod edit;
#[cfg(test)]
mod tests;

use bytes::Bytes;

pub use self::edit::GroupEdit;
use crate::array::group::{GROUP_FILE, GROUP_FOLDER};
use crate::array::metadata::METADATA_FOLDER;
use crate::error::{Error, ErrorKind, Result};
use crate::format::fragment::footer::OLD_SCHEMA_NAME;
use crate::storage::Storage;

/// The folders of a group, as libtiledb creates them on a local disk.
const FOLDERS: [&str; 3] = ["", GROUP_FOLDER, METADATA_FOLDER];
/// The folder by which an array is known.
const SCHEMA_FOLDER: &str = "__schema";
/// The most folders above a group that are checked.
const MOST_PARENTS: usize = 64;

/// Creates an empty group.
///
/// It may lie in the folder of another group. It becomes a member only when it is [added](GroupEdit::add).
///
/// ```
/// use tiledb_engine::{Location, create_group};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("experiment").display().to_string();
/// create_group(Location::local(&path)?).await?;
/// assert!(create_group(Location::local(&path)?).await.is_err());
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
///
/// # Errors
/// There is a group or an array already, the folder lies inside an array, or the storage fails.
pub async fn create_group(location: impl TryInto<Storage, Error: Into<Error>>) -> Result<()> {
    let storage = location.try_into().map_err(Into::into)?;
    let created = create(&storage).await;
    created.map_err(|e| e.with("group", storage.uri()))
}

async fn create(storage: &Storage) -> Result<()> {
    let root = storage.list("").await?;
    let folder = |name: &str| root.folders.iter().any(|f| f == name);
    let file = |name: &str| root.files.iter().any(|f| f.name == name);
    if folder(SCHEMA_FOLDER) || file(OLD_SCHEMA_NAME) {
        return Err(Error::new(
            ErrorKind::IsAnArray,
            "there is an array: a group is created in a folder of its own",
        ));
    }
    if folder(GROUP_FOLDER) || file(GROUP_FILE) {
        return Err(Error::already_exists(
            "there is a group already; attach it, or choose another folder",
        ));
    }
    check_parents(storage).await?;
    storage.create_folders(&FOLDERS).await?;
    storage.create_file(GROUP_FILE, Bytes::new()).await
}

/// Fails if a folder above is an array, which holds nothing but its own files.
async fn check_parents(storage: &Storage) -> Result<()> {
    let mut location = storage.location().clone();
    for _ in 0..MOST_PARENTS {
        let parent = location.resolve("..");
        if parent.root() == location.root() {
            return Ok(());
        }
        location = parent;
        let above = storage.at(location.clone());
        let schemas = above.list(SCHEMA_FOLDER).await?;
        if !schemas.files.is_empty() || above.head(OLD_SCHEMA_NAME).await?.is_some() {
            return Err(Error::new(
                ErrorKind::IsAnArray,
                format!(
                    "the folder lies inside the array {}: choose one outside",
                    above.uri()
                ),
            ));
        }
    }
    Ok(())
}
