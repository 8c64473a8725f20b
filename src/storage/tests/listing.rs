//! Tests that listings show literal names, and that they are not reused after a change.

use super::odd::{Odd, Oddity};
use super::*;
use crate::error::ErrorKind;

#[tokio::test]
async fn lists_files_and_folders_sorted() {
    for fixture in fixtures() {
        for file in [
            "b.tdb",
            "a.tdb",
            "__fragments/__2/x",
            "__fragments/__1/y/z",
            "__fragments/c",
        ] {
            fixture.put(file, "12345").await;
        }
        fixture.put("../elsewhere", "1").await;
        let root = fixture.storage.list("").await.unwrap();
        assert_eq!(names(&root), ["a.tdb", "b.tdb"]);
        assert_eq!(root.folders, ["%2E%2E", "__fragments"]);
        assert_eq!(root.files[0].bytes, 5);
        assert!(root.files[0].modified_us > 1_600_000_000_000_000);

        let fragments = fixture.storage.list("__fragments").await.unwrap();
        assert_eq!(names(&fragments), ["c"]);
        assert_eq!(fragments.folders, ["__1", "__2"]);
        assert_eq!(
            fixture.storage.list("__fragments/").await.unwrap(),
            fragments
        );
        assert_eq!(fixture.log.count(RequestKind::List), 3);

        let info = fixture.storage.head("a.tdb").await.unwrap();
        assert_eq!(info.as_ref(), root.files.first());
    }
}

#[tokio::test]
async fn what_does_not_exist_is_an_empty_folder_or_not_found() {
    for fixture in fixtures() {
        let storage = &fixture.storage;
        assert_eq!(*storage.list("").await.unwrap(), Listing::default());
        fixture.put("file", "1").await;
        fixture.put("folder/file", "1").await;
        for folder in ["nothing", "file", "file/below", "fol", "folder/nothing"] {
            let listing = storage.list(folder).await.unwrap();
            assert_eq!(*listing, Listing::default(), "{folder}");
        }
        for file in ["nothing", "file/below", "folder", "fol"] {
            assert_eq!(storage.head(file).await.unwrap(), None, "{file}");
            let errors = [
                storage.read(file).await.unwrap_err(),
                storage.read_range(file, 0..1).await.unwrap_err(),
                storage.read_suffix(file, 5).await.unwrap_err(),
                storage.read_suffix(file, 0).await.unwrap_err(),
                storage
                    .read_ranges(file, &[0..1, 1 << 40..2 << 40])
                    .await
                    .unwrap_err(),
            ];
            for error in errors {
                assert_eq!(error.kind(), ErrorKind::NotFound, "{file}: {error}");
                let uri = format!("{}/{file}", storage.uri());
                assert_eq!(error.message(), format!("{uri} does not exist"));
            }
        }
    }
}

#[tokio::test]
async fn listings_are_kept_while_the_folder_stays_as_it_was() {
    let fixture = Fixture::local("kept");
    let root = fixture.storage.location().local_path("").unwrap();
    let age = |folder: &str, seconds| {
        let time = std::time::SystemTime::now() - std::time::Duration::from_secs(seconds);
        let folder = std::fs::File::open(root.join(folder)).unwrap();
        folder.set_modified(time).unwrap();
        time
    };
    let restore = |folder: &str, time| {
        let folder = std::fs::File::open(root.join(folder)).unwrap();
        folder.set_modified(time).unwrap();
    };
    let list = async || {
        let folders = [
            ("", Keep::WithoutFiles),
            ("c", Keep::Always),
            ("d", Keep::WithoutFiles),
            ("missing", Keep::Always),
        ];
        let listed = fixture.storage.list_all(folders).await.unwrap();
        listed.map(|listing| names(&listing).join(" "))
    };
    fixture.put("c/1", "").await;
    fixture.put("d/1", "").await;
    assert_eq!(list().await, ["", "1", "1", ""]);
    // The folder was just written, so its listing was not kept.
    fixture.put("c/2", "").await;
    assert_eq!(list().await, ["", "1 2", "1", ""]);
    let (c, d, top) = (age("c", 100), age("d", 100), age("", 100));
    assert_eq!(list().await, ["", "1 2", "1", ""]);
    // Where listings are kept, a change is not seen if the folder's time is set back.
    for file in ["c/3", "d/2", "top"] {
        fixture.put(file, "").await;
    }
    restore("c", c);
    restore("d", d);
    restore("", top);
    assert_eq!(list().await, ["", "1 2", "1 2", ""]);
    age("c", 50);
    age("", 50);
    fixture.put("missing/1", "").await;
    assert_eq!(list().await, ["top", "1 2 3", "1 2", "1"]);
}

#[tokio::test]
async fn names_are_literal_in_every_store() {
    for fixture in fixtures() {
        for name in [
            "a b",
            "a%20b",
            "100%",
            "é~[x]{y}",
            "a#b",
            "?*|",
            "a%2A.tdb",
            "\"<>\"",
            "a\\b",
        ] {
            fixture.put(name, name.to_owned()).await;
            assert_eq!(fixture.storage.read(name).await.unwrap(), name);
            let listing = fixture.storage.list("").await.unwrap();
            assert!(names(&listing).contains(&name), "{name} in {listing:?}");
        }
    }
}

#[tokio::test]
async fn empty_objects_that_stand_for_folders_are_dropped() {
    let fixture = Fixture::memory();
    fixture.put("__fragments", "").await;
    fixture.put("__fragments/x", "1").await;
    fixture.put("__meta", "not empty").await;
    fixture.put("__meta/x", "1").await;
    fixture.put("empty", "").await;
    let listing = fixture.storage.list("").await.unwrap();
    assert_eq!(names(&listing), ["__meta", "empty"]);
    assert_eq!(listing.folders, ["__fragments", "__meta"]);

    let fixture = Fixture::over(Odd::store(Oddity::ListsTheFolderItself));
    fixture.put("__fragments/x", "1").await;
    let listing = fixture.storage.list("__fragments").await.unwrap();
    assert_eq!(names(&listing), ["x"]);
}

/// Local folders are listed without their store, which must make no difference.
#[cfg(unix)]
#[tokio::test]
async fn local_folders_are_listed_as_by_their_store() {
    use std::fs::{self, File, FileTimes};
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use std::time::{Duration, SystemTime};

    use object_store::{ObjectStore, local::LocalFileSystem};

    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    for name in [
        "a0.tdb",
        "a%25b.tdb",
        "a b",
        "é",
        "~",
        "#",
        "a#x1",
        "#1",
        "a#12",
        "a#1#2",
        ".hidden",
        "-",
    ] {
        fs::write(here.join(name), name).unwrap();
    }
    for name in ["__1_1_00_22", "empty", "folder#1", "below/below"] {
        fs::create_dir_all(here.join(name)).unwrap();
    }
    fs::write(here.join("below/file"), "").unwrap();
    symlink("a0.tdb", here.join("to a file")).unwrap();
    symlink("below", here.join("to a folder")).unwrap();
    symlink("nothing", here.join("to nothing")).unwrap();
    let before_1970 = SystemTime::UNIX_EPOCH - Duration::from_nanos(1_000_001_500);
    let times = FileTimes::new().set_modified(before_1970);
    File::options()
        .write(true)
        .open(here.join("~"))
        .unwrap()
        .set_times(times)
        .unwrap();

    let path = object_store::path::Path::from_absolute_path(here).unwrap();
    let store = LocalFileSystem::new();
    let listed = store.list_with_delimiter(Some(&path)).await.unwrap();
    let expected = Listing::new(listed, &path);
    assert_eq!((expected.files.len(), expected.folders.len()), (11, 5));
    let found = Listing::of_local(here.to_owned()).await.unwrap();
    assert_eq!(found, expected);

    // The store fails over these names, which are none of an array's.
    let odd = std::ffi::OsStr::from_bytes(b"\xff");
    fs::write(here.join(odd), "").unwrap();
    fs::write(here.join("a\nb"), "").unwrap();
    assert!(store.list_with_delimiter(Some(&path)).await.is_err());
    let found = Listing::of_local(here.to_owned()).await.unwrap();
    assert_eq!(found, expected);
}
