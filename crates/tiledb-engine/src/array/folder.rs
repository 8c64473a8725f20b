//! What a folder is: an array, a group, or a folder with some in it.

use futures::{StreamExt, TryStreamExt, stream};

use crate::error::{Error, ErrorKind, Result};
use crate::format::group::ObjectKind;
use crate::storage::Storage;

/// The folder of a group's members.
pub const GROUP_FOLDER: &str = "__group";
/// The file that marks a group.
pub const GROUP_FILE: &str = "__tiledb_group.tdb";
/// The most folders that are looked into.
const MOST_FOLDERS: usize = 64;
/// The folders that are looked into at the same time.
const AT_A_TIME: usize = 8;

/// Whether there is an array or a group.
///
/// # Errors
/// There is neither.
pub async fn kind_at(storage: &Storage) -> Result<ObjectKind> {
    let root = storage.list("").await?;
    let folder = |name: &str| root.folders.iter().any(|f| f == name);
    let file = |name: &str| root.files.iter().any(|f| f.name == name);
    if folder("__schema") || file("__array_schema.tdb") {
        return Ok(ObjectKind::Array);
    }
    if folder(GROUP_FOLDER) || file(GROUP_FILE) {
        return Ok(ObjectKind::Group);
    }
    let error = if root.files.is_empty() && root.folders.is_empty() {
        Error::not_found("neither an array nor a group is here: check the path")
    } else {
        Error::not_an_array("the folder is neither a TileDB array nor a TileDB group")
    };
    Err(error.with("array", storage.uri()))
}

/// The names of arrays and groups in a folder, in their order; of very many, the first.
///
/// # Errors
/// The store fails.
pub async fn arrays_in(storage: &Storage) -> Result<Vec<String>> {
    let root = storage.list("").await?;
    let mut names = root.folders.clone();
    names.retain(|name| !name.starts_with(['_', '.']));
    names.truncate(MOST_FOLDERS);
    let names: Vec<_> = stream::iter(names)
        .map(|name| {
            let folder = storage.at(storage.location().join(&name));
            async move {
                match kind_at(&folder).await {
                    Ok(_) => Ok(Some(name)),
                    Err(e) if matches!(e.kind(), ErrorKind::NotAnArray | ErrorKind::NotFound) => {
                        Ok(None)
                    }
                    Err(e) => Err(e),
                }
            }
        })
        .buffered(AT_A_TIME)
        .try_collect()
        .await?;
    Ok(names.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;
    use object_store::path::Path;
    use object_store::{ObjectStore, ObjectStoreExt};

    use super::*;
    use crate::storage::Location;

    #[tokio::test]
    async fn finds_arrays_and_groups_alone() {
        let store = InMemory::new();
        for file in [
            "f/new/__schema/__1_1_00000000000000000000000000000000",
            "f/old/__array_schema.tdb",
            "f/group/__tiledb_group.tdb",
            "f/folder/deeper/__schema/x",
            "f/x.csv",
            "f/_hidden/__schema/x",
        ] {
            store.put(&Path::from(file), "x".into()).await.unwrap();
        }
        let store: Arc<dyn ObjectStore> = Arc::new(store);
        let found = |folder: &str| {
            let location = Location::new(Arc::clone(&store), Path::from(folder), "memory:///f");
            async move { arrays_in(&Storage::new(location)).await.unwrap() }
        };
        assert_eq!(found("f").await, ["group", "new", "old"]);
        assert!(found("f/folder/deeper").await.is_empty());
        assert!(found("nowhere").await.is_empty());
    }
}
