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

/// Longer than the grain of a file system's clock.
#[cfg(unix)]
fn settle() {
    std::thread::sleep(std::time::Duration::from_millis(120));
}

#[cfg(unix)]
#[tokio::test]
async fn listings_are_kept_while_the_folder_stays_as_it_was() {
    let fixture = Fixture::local("kept");
    let list = async || {
        let folders = [
            ("", ListingReuse::WithoutFiles),
            ("c", ListingReuse::Always),
            ("d", ListingReuse::WithoutFiles),
            ("missing", ListingReuse::Always),
        ];
        let listed = fixture.storage.list_all(folders).await.unwrap();
        listed.map(|listed| {
            let files = listed
                .listing
                .files
                .iter()
                .map(|file| format!("{}:{}", file.name, file.bytes));
            (files.collect::<Vec<_>>().join(" "), listed.at_once)
        })
    };
    let shown = |listed: &[(String, bool); 4]| listed.clone().map(|(files, _)| files);
    fixture.put("c/1", "").await;
    fixture.put("d/1", "").await;
    let listed = list().await;
    assert_eq!(shown(&listed), ["", "1:0", "1:0", ""]);
    // The folders were just written, so they may have changed while they were listed.
    assert_eq!(
        listed.map(|(_, at_once)| at_once),
        [false, false, false, true]
    );
    // Such listings are not kept.
    fixture.put("c/2", "").await;
    settle();
    let listed = list().await;
    assert_eq!(shown(&listed), ["", "1:0 2:0", "1:0", ""]);
    assert!(listed.iter().all(|(_, at_once)| *at_once), "{listed:?}");
    // A file that is rewritten in its place does not change its folder, which shows whose listing is kept.
    let root = fixture.storage.location().local_path("").unwrap();
    for file in ["c/1", "d/1"] {
        std::fs::write(root.join(file), "new").unwrap();
    }
    assert_eq!(shown(&list().await), ["", "1:0 2:0", "1:3", ""]);
    fixture.put("c/3", "").await;
    fixture.put("missing/1", "").await;
    assert_eq!(shown(&list().await), ["", "1:3 2:0 3:0", "1:3", "1:0"]);
}

/// Copies keep the times of folders, and so do tools that synchronise them.
#[cfg(unix)]
#[tokio::test]
async fn a_change_is_seen_although_the_time_of_the_folder_is_set_back() {
    let fixture = Fixture::local("set back");
    fixture.put("c/1", "").await;
    let root = fixture.storage.location().local_path("").unwrap();
    let folder = std::fs::File::open(root.join("c")).unwrap();
    let before = folder.metadata().unwrap().modified().unwrap();
    settle();
    let list = async || {
        let [listed] = fixture
            .storage
            .list_all([("c", ListingReuse::Always)])
            .await
            .unwrap();
        names(&listed.listing).join(" ")
    };
    assert_eq!(list().await, "1");
    fixture.put("c/2", "").await;
    folder.set_modified(before).unwrap();
    assert_eq!(list().await, "1 2");
    // The time is as old as can be, and the folder has just changed all the same.
    folder
        .set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    assert_eq!(list().await, "1 2");
    fixture.put("c/3", "").await;
    folder
        .set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    assert_eq!(list().await, "1 2 3");
}

#[tokio::test]
async fn changes_within_one_tick_of_the_clock_are_seen() {
    let fixture = Fixture::local("ticks");
    for number in 0..300 {
        fixture.put(&format!("c/{number}"), "").await;
        let [listed] = fixture
            .storage
            .list_all([("c", ListingReuse::Always)])
            .await
            .unwrap();
        assert_eq!(listed.listing.files.len(), number + 1);
    }
}

/// The times of such folders stand still, as those of mounted object stores do.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_change_is_seen_where_the_times_of_folders_stand_still() {
    let fixture = Fixture::at("/proc/self");
    let list = async || {
        let [listed] = fixture
            .storage
            .list_all([("fd", ListingReuse::Always)])
            .await
            .unwrap();
        assert!(!listed.at_once);
        let Listing { files, folders } = listed.listing.as_ref();
        files.len() + folders.len()
    };
    let folder = std::path::Path::new("/proc/self/fd");
    let times = || std::fs::metadata(folder).unwrap().modified().unwrap();
    let before = times();
    settle();
    list().await;
    let few = list().await;
    let scratch = tempfile::tempdir().unwrap();
    let opened = (0..100)
        .map(|number| std::fs::File::create(scratch.path().join(number.to_string())).unwrap())
        .collect::<Vec<_>>();
    // Other tests of the process open and close files, too.
    let many = list().await;
    assert!(many > few + 50, "{few}, then {many}");
    assert_eq!(times(), before);
    drop(opened);
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
    let storage = Storage::new(Location::local(here.to_str().unwrap()).unwrap());
    assert_eq!((expected.files.len(), expected.folders.len()), (11, 5));
    let found = storage.list("").await.unwrap();
    assert_eq!(*found, expected);

    // The store fails over these names, which are none of an array's.
    let odd = std::ffi::OsStr::from_bytes(b"\xff");
    fs::write(here.join(odd), "").unwrap();
    fs::write(here.join("a\nb"), "").unwrap();
    assert!(store.list_with_delimiter(Some(&path)).await.is_err());
    let found = storage.list("").await.unwrap();
    assert_eq!(*found, expected);
}
