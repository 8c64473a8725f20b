//! Files are created whole, grow in bounded pieces, and can be replaced only by a writer that knows their contents.

use std::sync::Arc;

use bytes::Bytes;
use object_store::memory::InMemory;
use object_store::path::Path;

use crate::error::ErrorKind;
use crate::storage::{Location, RequestKind, RequestLog, Storage};

/// A folder of this machine and one of a store, neither of which exists yet.
fn targets(folder: &tempfile::TempDir) -> [Storage; 2] {
    let path = folder.path().join("a/b").to_str().unwrap().to_owned();
    let local = Location::local(&path).unwrap();
    let memory = Location::new(
        Arc::new(InMemory::new()),
        Path::from("a/b"),
        "memory:///a/b",
    );
    [local, memory].map(Storage::new)
}

#[tokio::test]
async fn a_file_is_created_once() {
    let folder = tempfile::tempdir().unwrap();
    for storage in targets(&folder) {
        let bytes = Bytes::from_static(b"one");
        storage
            .create_file("__commits/x.wrt", bytes.clone())
            .await
            .unwrap();
        assert_eq!(storage.read("__commits/x.wrt").await.unwrap(), bytes);
        // The answer to an earlier attempt was lost.
        storage
            .create_file("__commits/x.wrt", bytes.clone())
            .await
            .unwrap();
        let other = Bytes::from_static(b"two");
        let error = storage
            .create_file("__commits/x.wrt", other)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(storage.read("__commits/x.wrt").await.unwrap(), bytes);
        let listing = storage.list("").await.unwrap();
        assert_eq!(listing.folders, ["__commits"], "nothing stays staged");
        assert!(listing.files.is_empty());
        assert_eq!(storage.list("__commits").await.unwrap().files.len(), 1);
    }
}

#[tokio::test]
async fn a_file_is_replaced_if_it_holds_what_was_read() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two, three] = [b"one".as_slice(), b"two", b"three"].map(Bytes::from_static);
    for storage in targets(&folder) {
        let file = "__commits/x.del";
        let replace = |old: &Bytes, new: &Bytes| {
            let (old, new) = (old.clone(), new.clone());
            let storage = storage.clone();
            async move { storage.replace_file(file, old, new).await.unwrap() }
        };
        storage.create_file(file, one.clone()).await.unwrap();
        assert!(replace(&one, &three).await);
        assert_eq!(storage.read(file).await.unwrap(), three);
        assert!(!replace(&one, &two).await);
        assert_eq!(storage.read(file).await.unwrap(), three);
        storage.remove_file(file).await.unwrap();
        assert!(!replace(&three, &two).await);
        assert_eq!(storage.head(file).await.unwrap(), None);
        let listing = storage.list("").await.unwrap();
        assert!(listing.files.is_empty(), "nothing stays staged");
    }
}

#[tokio::test]
async fn a_file_grows_in_pieces() {
    let folder = tempfile::tempdir().unwrap();
    for storage in targets(&folder) {
        let log = Arc::new(RequestLog::new());
        let storage = storage.with_request_log(Arc::clone(&log));
        for (file, pieces, piece_bytes) in [
            ("f/none", 0, 0),
            ("f/small", 3, 10),
            ("f/parts", 20, 1 << 20),
            ("f/uneven", 7, (3 << 20) + 1),
            ("f/large", 2, 9 << 20),
        ] {
            log.clear();
            let mut upload = storage.upload(file);
            let mut expected = Vec::new();
            for piece in 0..pieces {
                let bytes = vec![u8::try_from(piece).unwrap(); piece_bytes];
                expected.extend(&bytes);
                upload.append(Bytes::from(bytes)).await.unwrap();
                assert!(upload.waiting_bytes() < 8 << 20);
            }
            assert_eq!(upload.bytes(), expected.len() as u64);
            let uploaded = upload.finish().await.unwrap();
            assert_eq!(uploaded.bytes, expected.len() as u64);
            storage.sync(vec![uploaded], "f").await.unwrap();
            assert!(storage.read(file).await.unwrap() == expected, "{file}");
            assert!(log.count(RequestKind::Put) > 0);
        }
    }
}

#[tokio::test]
async fn files_and_folders_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    for storage in targets(&folder) {
        for file in ["f/a", "f/g/b", "g/c"] {
            storage
                .create_file(file, Bytes::from_static(b"x"))
                .await
                .unwrap();
        }
        storage.remove_file("f/a").await.unwrap();
        storage.remove_file("f/a").await.unwrap();
        assert!(storage.head("f/a").await.unwrap().is_none());
        storage.remove_folder("f").await.unwrap();
        storage.remove_folder("f").await.unwrap();
        assert!(storage.head("f/g/b").await.unwrap().is_none());
        assert!(storage.head("g/c").await.unwrap().is_some());
        assert!(storage.remove_folder("/").await.is_err());
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_to_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let below = file.join("array").to_str().unwrap().to_owned();
    let storage = Storage::new(Location::local(&below).unwrap());
    let error = storage.create_file("x", Bytes::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Storage);
    assert!(error.message().contains(&below), "{error}");
    let mut upload = storage.upload("y");
    upload.append(Bytes::from_static(b"x")).await.unwrap();
    assert!(
        upload
            .finish()
            .await
            .unwrap_err()
            .message()
            .contains(&below)
    );
}

/// A local store gives names like `x#1` to files that it is still writing, and refuses them.
#[tokio::test]
async fn a_folder_may_be_called_like_an_unfinished_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x#1");
    let storage = Storage::new(Location::local(path.to_str().unwrap()).unwrap());
    storage.create_folders(&["", "y#2"]).await.unwrap();
    let bytes = Bytes::from_static(b"one");
    storage.create_file("y#2/a", bytes.clone()).await.unwrap();
    storage.sync(Vec::new(), "y#2").await.unwrap();
    assert_eq!(storage.list("").await.unwrap().folders, ["y#2"]);
    assert_eq!(storage.read("y#2/a").await.unwrap(), bytes);
    storage.remove_folder("y#2").await.unwrap();
    assert!(!path.join("y#2").exists());
    assert!(storage.list("").await.unwrap().folders.is_empty());
}
