//! The key-value metadata of an array or a group, as a window of time shows it (specification: "Metadata").
//!
//! Each write is a file in `__meta`; the files wholly inside the window are replayed in the order of their start, later
//! entries replacing earlier ones and deletions removing keys. A `.vac` file inside the window hides the files it
//! lists, which a consolidated file replaces. The subtle thing: arrays and groups store metadata in the same way, so no
//! schema is needed here.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use super::directory::UnsettledListings;
use super::folder::{GROUP_FOLDER, kind_at};
use super::inspect::ArrayInspection;
use super::window::{OpenWindow, TimestampMs};
use crate::error::{Error, Result, ResultExt};
use crate::format::commit;
use crate::format::generic_tile::GenericTileHeader;
use crate::format::group::ObjectKind;
use crate::format::metadata::{MetadataEntry, MetadataValue, decode_metadata};
use crate::format::names::TimestampedName;
use crate::storage::{FileInfo, Listing, ListingReuse, Storage, once_finished};

/// The folder of metadata.
pub const METADATA_FOLDER: &str = "__meta";
/// Files read at the same time.
const LOAD_CONCURRENCY: usize = 16;
/// What is cached of a file's header has this number in its key; its contents have 0.
const HEADER: u64 = 1;

/// The value of a key, and the file that set it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataItem {
    /// The key, usually text.
    pub key: Vec<u8>,
    /// The value.
    pub value: MetadataValue,
    /// The file that holds it: a write, or a consolidation of several.
    pub file: TimestampedName,
}

/// The metadata at `storage` as seen through `window`, by key.
///
/// # Errors
/// There is neither an array nor a group, or a file cannot be read.
pub async fn load(storage: &Storage, window: &OpenWindow) -> Result<Vec<MetadataItem>> {
    let storage = &if storage.has_key_on_demand() {
        settled(storage).await?
    } else {
        storage.clone()
    };
    let listing = list(storage).await?;
    if listing.named_files().next().is_none() {
        kind_at(storage).await?;
    }
    let visible = visible_files(storage, &listing.files, window).await?;
    let loaded: Vec<(TimestampedName, Arc<Vec<MetadataEntry>>)> = stream::iter(visible)
        .map(|(name, file)| async move { Ok::<_, Error>((name, load_file(storage, &file).await?)) })
        .buffered(storage.reads_at_once(LOAD_CONCURRENCY))
        .try_collect()
        .await?;
    let mut items = BTreeMap::new();
    for (file, entries) in loaded {
        for entry in entries.iter() {
            match &entry.value {
                Some(value) => {
                    let item = (value.clone(), file.clone());
                    items.insert(entry.key.clone(), item);
                }
                None => {
                    items.remove(&entry.key);
                }
            }
        }
    }
    let item = |(key, (value, file))| MetadataItem { key, value, file };
    Ok(items.into_iter().map(item).collect())
}

/// The storage of an array or a group, with the key only if it is encrypted.
///
/// # Errors
/// There is neither, or the files that show it can't be read.
pub async fn settled(storage: &Storage) -> Result<Storage> {
    match kind_at(storage).await? {
        ObjectKind::Array => {
            let window = OpenWindow::new(TimestampMs(0), Some(TimestampMs(u64::MAX)))?;
            Ok(ArrayInspection::open(storage, window)
                .await?
                .storage()
                .clone())
        }
        ObjectKind::Group => settled_group(storage).await,
    }
}

/// The storage of a group. It has a key only if some file of the group is encrypted, because nothing else shows whether a group
/// is. All files are examined: an unencrypted one that hides the others may have been planted.
///
/// # Errors
/// The group cannot be listed, or a file cannot be read.
pub async fn settled_group(storage: &Storage) -> Result<Storage> {
    let Some(key) = storage.encryption_key().cloned() else {
        return Ok(storage.clone());
    };
    if !storage.has_key_on_demand() {
        return Ok(storage.clone());
    }
    let mut files = Vec::new();
    for folder in [GROUP_FOLDER, METADATA_FOLDER] {
        let listing = storage.list(folder).await?;
        let named = |file: &FileInfo| (format!("{folder}/{}", file.name), file.clone());
        files.extend(listing.named_files().map(named));
    }
    let encrypted = stream::iter(files)
        .map(|(path, file)| is_encrypted(storage, path, file))
        .buffer_unordered(storage.reads_at_once(LOAD_CONCURRENCY))
        .try_any(|encrypted| async move { encrypted });
    let key = encrypted.await?.then_some(key);
    Ok(storage.clone().with_encryption_key(key))
}

/// Whether a file is an encrypted generic tile.
async fn is_encrypted(storage: &Storage, path: String, file: FileInfo) -> Result<bool> {
    let load = async {
        let bytes = storage.read(&path).await?;
        let header = GenericTileHeader::decode(&bytes, "file of a group");
        Ok((header.is_ok_and(|header| header.encrypted), 1))
    };
    let key = storage.cache_key(&path, HEADER, &file);
    let encrypted = storage.cache().get_or_load(key, load).await;
    encrypted.map(|e| *e).context("file", || path)
}

/// The files that [`load`] replays, in order.
///
/// # Errors
/// The store fails, or a list of replaced files is damaged.
pub async fn replayed_files(
    storage: &Storage,
    window: &OpenWindow,
) -> Result<Vec<(TimestampedName, FileInfo)>> {
    let listing = list(storage).await?;
    visible_files(storage, &listing.files, window).await
}

/// Lists the files of metadata as they were at one moment.
async fn list(storage: &Storage) -> Result<Arc<Listing>> {
    // libtiledb replaces files that it has not written to the end.
    let folders = [(METADATA_FOLDER, ListingReuse::WithoutFiles)];
    let listed = storage.list_all(folders).await?;
    let listed = UnsettledListings::new(folders, listed);
    let [listing] = listed.settled(storage).await?;
    Ok(listing)
}

/// The files that are replayed, in order.
async fn visible_files(
    storage: &Storage,
    files: &[FileInfo],
    window: &OpenWindow,
) -> Result<Vec<(TimestampedName, FileInfo)>> {
    let mut hidden = HashSet::new();
    let mut visible = Vec::new();
    for file in files {
        // Writers rename `.tmp` files when they are complete; other unknown files aren't metadata.
        let Ok(name) = TimestampedName::parse(&file.name) else {
            continue;
        };
        if !window.contains(&name) || file.name.ends_with(".tmp") {
            continue;
        }
        if file.name.ends_with(".vac") {
            let path = format!("{METADATA_FOLDER}/{}", file.name);
            let bytes = storage.read(&path).await?;
            let paths = commit::parse_vacuum(&bytes).context("file", || &path)?;
            hidden.extend(paths.iter().map(|p| commit::path_name(p).to_owned()));
        } else {
            visible.push((name, file.clone()));
        }
    }
    visible.retain(|(name, _)| !hidden.contains(&name.name));
    visible.sort_by(|(a, _), (b, _)| (a.t1, &a.name).cmp(&(b.t1, &b.name)));
    Ok(visible)
}

async fn load_file(storage: &Storage, file: &FileInfo) -> Result<Arc<Vec<MetadataEntry>>> {
    let path = format!("{METADATA_FOLDER}/{}", file.name);
    let load = || {
        async {
            let bytes = storage.read(&path).await?;
            let tile = storage.decode_generic_tile(&bytes, "metadata")?;
            Ok((
                decode_metadata(&tile.data)?,
                tile.data.len().saturating_mul(2),
            ))
        }
        .boxed()
    };
    let key = storage.cache_key(&path, 0, file);
    storage
        .cache()
        .get_or_load(key, once_finished(file, load))
        .await
        .context("file", || path)
        .map_err(|e| e.with("array", storage.uri()))
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;
    use object_store::path::Path;
    use object_store::{ObjectStore, ObjectStoreExt};

    use super::*;
    use crate::error::ErrorKind;
    use crate::storage::{Location, MetadataCache};

    const UUID: &str = "0123456789abcdef0123456789abcdef";

    /// A generic tile without filters.
    fn tile(contents: &[u8]) -> Vec<u8> {
        let chunk = (contents.len() as u32).to_le_bytes();
        let size = contents.len() as u64;
        let parts: [&[u8]; 13] = [
            &22_u32.to_le_bytes(),
            &(size + 20).to_le_bytes(),
            &size.to_le_bytes(),
            &[4],
            &1_u64.to_le_bytes(),
            &[0],
            &8_u32.to_le_bytes(),
            &[0, 0, 1, 0, 0, 0, 0, 0],
            &1_u64.to_le_bytes(),
            &chunk,
            &chunk,
            &0_u32.to_le_bytes(),
            contents,
        ];
        parts.concat()
    }

    /// The file of a write: each key with a value of one byte, or deleted.
    fn write(entries: &[(&[u8], Option<u8>)]) -> Vec<u8> {
        let mut contents = Vec::new();
        for (key, value) in entries {
            contents.extend((key.len() as u32).to_le_bytes());
            contents.extend(*key);
            match value {
                None => contents.push(1),
                Some(value) => contents.extend([0, 6, 1, 0, 0, 0, *value]),
            }
        }
        tile(&contents)
    }

    async fn storage(files: &[(&str, Vec<u8>)]) -> Storage {
        let store = InMemory::new();
        for (name, bytes) in files {
            let path = Path::from(format!("g/{}", name.replace("UUID", UUID)));
            store.put(&path, bytes.clone().into()).await.unwrap();
        }
        let store: Arc<dyn ObjectStore> = Arc::new(store);
        let location = Location::new(store, Path::from("g"), "memory:///g");
        Storage::new(location).with_cache(Arc::new(MetadataCache::new(1 << 20)))
    }

    async fn at(storage: &Storage, start: u64, end: u64) -> Vec<(Vec<u8>, u8)> {
        let window = OpenWindow::new(TimestampMs(start), Some(TimestampMs(end))).unwrap();
        let items = load(storage, &window).await.unwrap();
        items
            .into_iter()
            .map(|i| (i.key, i.value.bytes[0]))
            .collect()
    }

    #[tokio::test]
    async fn writes_are_replayed_inside_the_window() {
        let storage = storage(&[
            ("__group/x", Vec::new()),
            (
                "__meta/__1_1_UUID",
                write(&[(b"a", Some(1)), (b"\xff", Some(1))]),
            ),
            // By name this one would come first.
            (
                "__meta/__10_10_UUID",
                write(&[(b"a", Some(10)), (b"b", None)]),
            ),
            ("__meta/__2_2_UUID", write(&[(b"a", None), (b"b", Some(2))])),
            ("__meta/__3_3_UUID.tmp", b"half".to_vec()),
            ("__meta/notes.txt", b"mine".to_vec()),
            (
                "__meta/__1_2_UUID",
                write(&[(b"b", Some(12)), (b"\xff", Some(12))]),
            ),
            (
                "__meta/__1_2_UUID.vac",
                format!("/__meta/__1_1_{UUID}\n/__meta/__2_2_{UUID}\n").into_bytes(),
            ),
        ])
        .await;
        let (a, b, odd) = (b"a".to_vec(), b"b".to_vec(), vec![0xff]);
        // The consolidated file replaces both, but only if it lies inside the window.
        assert_eq!(at(&storage, 0, 1).await, [(a.clone(), 1), (odd.clone(), 1)]);
        assert_eq!(at(&storage, 2, 2).await, [(b.clone(), 2)]);
        assert_eq!(at(&storage, 0, 5).await, [(b, 12), (odd.clone(), 12)]);
        assert_eq!(at(&storage, 0, 10).await, [(a, 10), (odd, 12)]);
        assert_eq!(at(&storage, 11, 12).await, []);
    }

    #[tokio::test]
    async fn nothing_is_there() {
        let window = OpenWindow::default();
        let empty = storage(&[]).await;
        let error = load(&empty, &window).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let other = storage(&[("readme", b"x".to_vec())]).await;
        let error = load(&other, &window).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotAnArray);
        let group = storage(&[("__tiledb_group.tdb", Vec::new())]).await;
        assert_eq!(load(&group, &window).await.unwrap(), []);
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_named() {
        let bytes = write(&[(b"a", Some(1))]);
        for len in 0..bytes.len() {
            let storage = storage(&[("__meta/__1_1_UUID", bytes[..len].to_vec())]).await;
            let error = load(&storage, &OpenWindow::default()).await.unwrap_err();
            assert!(error.to_string().contains("__meta/__1_1_"), "{error}");
        }
    }
}
