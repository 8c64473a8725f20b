//! Creates an array on storage: folders, files of enumerations, and last the schema, which makes the array visible.
//!
//! Before the schema is put, nobody sees an array, whatever a crash leaves. The next creation uses the leftovers' folders, and
//! takes back commits that don't belong to an array. The subtle thing: names differ, so a put that never overwrites does not
//! keep two creations apart. Each lists the schemas after its put; the one whose name comes first stays, and the other takes
//! its files back.

use std::sync::Arc;

use bytes::Bytes;
use object_store::memory::InMemory;
use object_store::path::Path;

use super::definition::ArrayDefinition;
use super::remains::{CreationRemains, has_schema};
use crate::array::directory::{ENUMERATIONS_FOLDER, SCHEMA_FOLDER};
use crate::array::snapshot::Snapshot;
use crate::array::window::{OpenWindow, TimestampMs};
use crate::error::{Error, ErrorKind, Result};
use crate::filter::{EncryptionKey, generic_tile};
use crate::format::fragment::footer::OLD_SCHEMA_NAME;
use crate::storage::{Location, STAGED_SUFFIX, Storage};
use crate::write::clock::Clock;

/// The folders of an array, as libtiledb creates them on a local disk.
const FOLDERS: [&str; 8] = [
    "",
    SCHEMA_FOLDER,
    ENUMERATIONS_FOLDER,
    "__commits",
    "__fragments",
    "__meta",
    "__fragment_meta",
    "__labels",
];
/// The folder and the file by which a group is known.
const GROUP: [&str; 2] = ["__group", "__tiledb_group.tdb"];
/// The version that ends the name of an enumeration's file.
const ENUMERATION_VERSION: u32 = 0;

/// The creation of an array.
pub(super) struct ArrayCreation<'a> {
    pub definition: &'a ArrayDefinition,
    pub storage: &'a Storage,
    pub clock: &'a Clock,
    /// The time of the schema.
    pub time: TimestampMs,
}

/// An array that is ready to be created: nobody sees it before it is published.
#[derive(Debug)]
pub struct StagedArray {
    storage: Storage,
    /// The name of the schema.
    name: String,
    /// The files, the schema last.
    files: Vec<(String, Bytes)>,
}

impl ArrayCreation<'_> {
    /// Makes all files of the array, encrypted if there is a key, and its folders.
    pub(super) async fn stage(&self, key: Option<&Arc<EncryptionKey>>) -> Result<StagedArray> {
        let staged = self.files(key).await;
        staged.map_err(|e| e.with("array", self.storage.uri()))
    }

    async fn files(&self, key: Option<&Arc<EncryptionKey>>) -> Result<StagedArray> {
        let storage = self.storage;
        let name_file = || {
            let uuid = self.clock.fresh_uuid()?;
            Ok(format!("__{uuid}_{ENUMERATION_VERSION}"))
        };
        let (schema, enumerations) = self.definition.with_files(name_file)?;
        let mut files = Vec::new();
        for enumeration in &enumerations {
            let file = format!("{ENUMERATIONS_FOLDER}/{}", enumeration.file);
            files.push((file, stored(&enumeration.encode()?, key)?));
        }
        let schema = stored(&schema.encode()?, key)?;
        let remains = check_vacant(storage).await?;
        if !remains.announcements.is_empty() {
            // A late creation has put a schema by now, or finds that its commit is gone.
            check_vacant(storage).await?;
            remains.remove(storage).await?;
        }
        storage.create_folders(&FOLDERS).await?;
        let name = self.clock.fresh_name(self.time, self.time)?;
        files.push((format!("{SCHEMA_FOLDER}/{name}"), schema));
        Ok(StagedArray {
            storage: storage.clone().with_encryption_key(key.cloned()),
            name,
            files,
        })
    }
}

impl StagedArray {
    /// The future array, without fragments: the cells that are written to it now become visible with it.
    ///
    /// # Errors
    /// The schema cannot be read back.
    pub async fn snapshot(&self) -> Result<Snapshot> {
        let location = Location::new(
            Arc::new(InMemory::new()),
            Path::default(),
            self.storage.uri(),
        );
        let key = self.storage.encryption_key().cloned();
        let memory = Storage::in_engine(location, self.storage.engine()).with_encryption_key(key);
        put_all(&memory, &self.files).await?;
        let snapshot = Snapshot::open(&memory, OpenWindow::default()).await?;
        Ok(snapshot.at_storage(self.storage.clone()))
    }

    /// Makes the array visible, unless another writer has created one meanwhile.
    ///
    /// # Errors
    /// An array was created meanwhile, or the store fails. The files are then removed, as far as the store allows.
    pub async fn publish(&self) -> Result<()> {
        let published = self.put().await;
        published.map_err(|e| e.with("array", self.storage.uri()))
    }

    /// Takes back a published array.
    ///
    /// # Errors
    /// The store fails.
    pub async fn withdraw(&self) -> Result<()> {
        withdraw(&self.storage, &self.files).await
    }

    async fn put(&self) -> Result<()> {
        let (storage, files) = (&self.storage, &self.files);
        let stays = match put_all(storage, files).await {
            Ok(()) => is_first(storage, &self.name).await,
            Err(error) => Err(error),
        };
        match stays {
            Ok(true) => Ok(()),
            Ok(false) => {
                withdraw(storage, files).await?;
                Err(exists())
            }
            Err(error) => {
                // Unfinished changes are undone as far as possible; the first error is returned.
                let _ = withdraw(storage, files).await;
                Err(error)
            }
        }
    }
}

/// The bytes of a file: a generic tile, encrypted if there is a key.
fn stored(contents: &[u8], key: Option<&Arc<EncryptionKey>>) -> Result<Bytes> {
    generic_tile::encode_with(contents, key).map(Bytes::from)
}

/// Puts the files one after the other, so that the last one exists only if all do.
async fn put_all(storage: &Storage, files: &[(String, Bytes)]) -> Result<()> {
    for (file, bytes) in files {
        storage.create_file(file, bytes.clone()).await?;
    }
    Ok(())
}

/// Removes the files, first the schema: without it, nobody looks at the others.
async fn withdraw(storage: &Storage, files: &[(String, Bytes)]) -> Result<()> {
    for (file, _) in files.iter().rev() {
        storage.remove_file(file).await?;
    }
    Ok(())
}

/// Whether no other schema's name comes before this one.
async fn is_first(storage: &Storage, name: &str) -> Result<bool> {
    let listing = storage.list(SCHEMA_FOLDER).await?;
    let mut others = listing.named_files();
    Ok(others.all(|file| file.name.as_str() >= name))
}

/// Fails if the place holds an array or anything else. Leftovers of an interrupted creation don't count, but its commits must
/// be removed.
pub(super) async fn check_vacant(storage: &Storage) -> Result<CreationRemains> {
    let root = storage.list("").await?;
    let is_group = root.folders.iter().any(|name| name == GROUP[0])
        || root.files.iter().any(|file| file.name == GROUP[1]);
    if is_group {
        return Err(Error::new(
            ErrorKind::IsAGroup,
            "there is a TileDB group: an array is created in a folder of its own, which may lie inside the group's",
        ));
    }
    let has_old_schema = root.files.iter().any(|file| file.name == OLD_SCHEMA_NAME);
    if has_old_schema || has_schema(storage, &root).await? {
        return Err(exists());
    }
    let remains = if root.folders.iter().any(|name| name == "__commits") {
        CreationRemains::of(storage).await?
    } else {
        CreationRemains::default()
    };
    remains.check_dead()?;
    let ours = |name: &str| FOLDERS.contains(&name) || name.starts_with('.');
    let folders = root.folders.iter().filter(|name| !ours(name));
    let files = root
        .files
        .iter()
        .map(|file| &file.name)
        .filter(|name| !ours(name) && !name.ends_with(STAGED_SUFFIX));
    let others: Vec<_> = folders.chain(files).take(3).map(String::as_str).collect();
    if others.is_empty() {
        return Ok(remains);
    }
    Err(Error::not_an_array(format!(
        "the folder holds other things ({}): an array is created in a new or an empty folder",
        others.join(", ")
    )))
}

fn exists() -> Error {
    Error::already_exists("there is an array already; open it, or choose another folder")
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};
    use object_store::memory::InMemory;
    use object_store::path::Path;

    use super::*;
    use crate::array::inspect::ArrayInspection;
    use crate::array::snapshot::Snapshot;
    use crate::array::window::OpenWindow;
    use crate::storage::Location;
    use crate::write::create::ArrayBuilder;

    fn definition(capacity: &str) -> ArrayDefinition {
        let columns = Schema::new(vec![
            Field::new("x", DataType::Int64, false),
            Field::new("colour", DataType::Utf8, true),
        ]);
        let builder = ArrayBuilder::new(&columns, ["x"])
            .unwrap()
            .enumeration("colour", ["red", ""], true)
            .unwrap();
        builder
            .option("capacity", capacity)
            .unwrap()
            .definition()
            .unwrap()
    }

    fn targets(folder: &tempfile::TempDir) -> [Storage; 2] {
        let path = folder.path().join("a/b").to_str().unwrap().to_owned();
        let memory = Arc::new(InMemory::new());
        let memory = Location::new(memory, Path::from("a/b"), "memory:///a/b");
        [Location::local(&path).unwrap(), memory].map(Storage::new)
    }

    async fn create(
        definition: &ArrayDefinition,
        storage: &Storage,
        clock: &Clock,
        key: Option<&Arc<EncryptionKey>>,
    ) -> Result<()> {
        let creation = ArrayCreation {
            definition,
            storage,
            clock,
            time: clock.fresh_time().await,
        };
        creation.stage(key).await?.publish().await
    }

    async fn open(storage: &Storage) -> Result<ArrayDefinition> {
        let array = ArrayInspection::open(storage, OpenWindow::new(TimestampMs(0), None)?).await?;
        let enumerations = array.enumerations().await?;
        Ok(ArrayDefinition::of(&array.schema, &enumerations)?.0)
    }

    #[tokio::test]
    async fn an_array_is_created_once() {
        let folder = tempfile::tempdir().unwrap();
        for storage in targets(&folder) {
            let wanted = definition("7");
            let clock = Clock::manual(TimestampMs(5), 1);
            create(&wanted, &storage, &clock, None).await.unwrap();
            assert_eq!(open(&storage).await.unwrap(), wanted);
            let schemas = storage.list(SCHEMA_FOLDER).await.unwrap();
            assert!(schemas.files[0].name.starts_with("__5_5_"));
            let again = create(&wanted, &storage, &clock, None).await.unwrap_err();
            assert_eq!(again.kind(), ErrorKind::AlreadyExists);
            assert_eq!(storage.list(SCHEMA_FOLDER).await.unwrap().files.len(), 1);
            assert_eq!(
                storage.list(ENUMERATIONS_FOLDER).await.unwrap().files.len(),
                1
            );
        }
        let local = folder.path().join("a/b");
        let mut made: Vec<_> = std::fs::read_dir(local)
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        made.sort();
        let expected = [
            "__commits",
            "__fragment_meta",
            "__fragments",
            "__labels",
            "__meta",
            "__schema",
        ];
        assert_eq!(made, expected);
    }

    /// As if another process had put its schema between our look and our put.
    #[tokio::test]
    async fn of_two_creations_the_first_name_stays() {
        let folder = tempfile::tempdir().unwrap();
        for storage in targets(&folder) {
            let late = definition("7");
            let files = |time, seed| {
                let clock = Clock::manual(TimestampMs(time), seed);
                let (schema, _) = late.with_files(|| Ok("__0_0".to_owned())).unwrap();
                let name = clock
                    .fresh_name(TimestampMs(time), TimestampMs(time))
                    .unwrap();
                let bytes = stored(&schema.encode().unwrap(), None).unwrap();
                (
                    name.clone(),
                    vec![(format!("{SCHEMA_FOLDER}/{name}"), bytes)],
                )
            };
            let (first, first_files) = files(1000, 1);
            let (second, second_files) = files(1001, 2);
            put_all(&storage, &first_files).await.unwrap();
            put_all(&storage, &second_files).await.unwrap();
            assert!(is_first(&storage, &first).await.unwrap());
            assert!(!is_first(&storage, &second).await.unwrap());
            withdraw(&storage, &second_files).await.unwrap();
            let left = storage.list(SCHEMA_FOLDER).await.unwrap();
            let left: Vec<_> = left.files.iter().map(|f| f.name.as_str()).collect();
            assert_eq!(left, [first.as_str()]);
        }
    }

    #[tokio::test]
    async fn an_interrupted_creation_leaves_no_array() {
        let folder = tempfile::tempdir().unwrap();
        for storage in targets(&folder) {
            storage.create_folders(&FOLDERS).await.unwrap();
            let leftover = format!("{ENUMERATIONS_FOLDER}/__0123_0");
            storage
                .create_file(&leftover, Bytes::from_static(b"half"))
                .await
                .unwrap();
            storage
                .create_file("__schema.__1_1_0.staged", Bytes::from_static(b"half"))
                .await
                .unwrap();
            // Nothing commits the fragment, so it doesn't belong to the next array.
            storage
                .create_file("__fragments/__1_1_a_22/a0.tdb", Bytes::from_static(b"half"))
                .await
                .unwrap();
            assert!(open(&storage).await.is_err());
            create(&definition("7"), &storage, &Clock::system(), None)
                .await
                .unwrap();
            assert_eq!(open(&storage).await.unwrap(), definition("7"));
        }
    }

    #[tokio::test]
    async fn other_things_are_not_mixed_with() {
        for (file, kind, why) in [
            ("__group/x", ErrorKind::IsAGroup, "group"),
            ("__tiledb_group.tdb", ErrorKind::IsAGroup, "group"),
            ("__array_schema.tdb", ErrorKind::AlreadyExists, "already"),
            (
                "__commits/__1_1_a_22.wrt",
                ErrorKind::NotAnArray,
                "remains of an array",
            ),
            ("notes.txt", ErrorKind::NotAnArray, "(notes.txt)"),
            ("photos/a.jpg", ErrorKind::NotAnArray, "(photos)"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            for storage in targets(&folder) {
                storage
                    .create_file(file, Bytes::from_static(b"x"))
                    .await
                    .unwrap();
                let created = create(&definition("7"), &storage, &Clock::system(), None).await;
                let error = created.unwrap_err();
                assert_eq!(error.kind(), kind, "{file}: {error}");
                assert!(error.message().contains(why), "{file}: {error}");
                let listing = storage.list(SCHEMA_FOLDER).await.unwrap();
                assert!(
                    listing.files.is_empty() && listing.folders.is_empty(),
                    "{file}"
                );
            }
        }
    }

    #[tokio::test]
    async fn an_array_is_encrypted_with_a_key() {
        let folder = tempfile::tempdir().unwrap();
        for storage in targets(&folder) {
            let key = EncryptionKey::from_text(b"0123456789abcdeF0123456789abcdeF").unwrap();
            let key = Arc::new(key);
            let clock = Clock::system();
            create(&definition("7"), &storage, &clock, Some(&key))
                .await
                .unwrap();
            let open = |storage| async move {
                Snapshot::open(&storage, OpenWindow::default())
                    .await
                    .map(|_| ())
            };
            let with_key = storage.clone().with_encryption_key(Some(key));
            open(with_key).await.unwrap();
            let error = open(storage).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Encryption);
        }
    }
}
