//! Tests on folders as releases of all times leave them.

use std::sync::Arc;

use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};

use super::*;
use crate::array::window::TimestampMs;
use crate::storage::{Location, RequestKind, RequestLog};

const U: &str = "0123456789abcdef0123456789abcdef";

/// An array folder with these files.
async fn storage(files: &[(String, &str)]) -> (Storage, Arc<RequestLog>) {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    for (name, text) in files {
        let path = Path::from(format!("array/{name}"));
        let text = PutPayload::from((*text).to_owned());
        store.put(&path, text).await.unwrap();
    }
    let log = Arc::new(RequestLog::new());
    let location = Location::new(store, Path::from("array"), "memory://array");
    (
        Storage::new(location).with_request_log(Arc::clone(&log)),
        log,
    )
}

/// The fragments that `[0, end]` shows, and the number of listings it takes to find them.
async fn fragments(files: &[(String, &str)], end: u64) -> (Vec<CommittedFragment>, usize) {
    let (storage, log) = storage(files).await;
    let directory = ArrayDirectory::list(&storage).await.unwrap();
    let window = OpenWindow::new(TimestampMs(0), Some(TimestampMs(end))).unwrap();
    let found = directory.commits(&storage, &window, true).await.unwrap();
    let found = found.fragments;
    (found, log.count(RequestKind::List))
}

fn folders(found: &[CommittedFragment]) -> Vec<&str> {
    found.iter().map(|f| f.folder.as_str()).collect()
}

fn file(name: impl Into<String>) -> (String, &'static str) {
    (name.into(), "x")
}

#[tokio::test]
async fn fragments_before_version_5_are_committed_by_their_metadata() {
    let files = [
        file("__array_schema.tdb"),
        file("__lock.tdb"),
        file(format!("__{U}_7/__fragment_metadata.tdb")),
        file(format!("__{U}_7/__coords.tdb")),
        file(format!("__{U}_9_3/__fragment_metadata.tdb")),
        file(format!("__4_6_{U}/__fragment_metadata.tdb")),
        file(format!("__5_5_{U}/a.tdb")),
        file(format!("__8_9_{U}/__fragment_metadata.tdb")),
        file("my_notes/todo.md"),
        file("__1_2/x"),
        file("data.bin"),
        file("__meta/__1_1_x"),
    ];
    let (found, lists) = fragments(&files, 8).await;
    let wanted = [
        format!("__{U}_9_3"),
        format!("__4_6_{U}"),
        format!("__{U}_7"),
    ];
    assert_eq!(folders(&found), wanted);
    let coords: Vec<_> = found.iter().map(|f| f.has_coords_file).collect();
    assert_eq!(coords, [false, false, true]);
    assert!(found.iter().all(|f| f.commit.name == METADATA_FILE));
    // Four folders of any array, and those that may be fragments inside the window.
    assert_eq!(lists, 4 + 5);
}

#[tokio::test]
async fn fragments_of_versions_5_to_11_lie_beside_their_commits() {
    let files = [
        file("__array_schema.tdb"),
        file(format!("__1_1_{U}_5.ok")),
        file(format!("__2_2_{U}_8.ok")),
        file(format!("__3_3_{U}_11.ok")),
        file(format!("__1_3_{U}_11.ok")),
        file(format!("__1_1_{U}_5/__fragment_metadata.tdb")),
        file(format!("__2_2_{U}_8/__fragment_metadata.tdb")),
        file(format!("__3_3_{U}_11/__fragment_metadata.tdb")),
        file(format!("__1_3_{U}_11/__fragment_metadata.tdb")),
        (
            format!("__1_3_{U}_11.vac"),
            "s3://elsewhere/old/__1_1_0123456789abcdef0123456789abcdef_5\n\
             s3://elsewhere/old/__2_2_0123456789abcdef0123456789abcdef_8/\n",
        ),
        file(format!("__4_4_{U}_9/__fragment_metadata.tdb")),
    ];
    let (found, lists) = fragments(&files, 9).await;
    assert_eq!(
        folders(&found),
        [format!("__1_3_{U}_11"), format!("__3_3_{U}_11")]
    );
    assert_eq!(lists, 4);
    // A window before the consolidation shows its inputs, as long as they exist.
    let (found, _) = fragments(&files, 2).await;
    assert_eq!(
        folders(&found),
        [format!("__1_1_{U}_5"), format!("__2_2_{U}_8")]
    );
}

/// libtiledb finds fragments of these versions by their folders, and those of later versions by their commits.
#[tokio::test]
async fn a_commit_of_the_old_layout_without_its_folder_stands_for_nothing() {
    let files = [
        file("__array_schema.tdb"),
        file(format!("__1_1_{U}_5.ok")),
        file(format!("__2_2_{U}_8.ok")),
        file(format!("__2_2_{U}_8/a.tdb")),
        // A file instead of a folder is reported by reading.
        file(format!("__3_3_{U}_10.ok")),
        file(format!("__3_3_{U}_10")),
        file(format!("__commits/__5_5_{U}_22.wrt")),
        (
            format!("__commits/__4_4_{U}_22.con"),
            "__4_4_0123456789abcdef0123456789abcdef_11.ok\n\
             __commits/__6_6_0123456789abcdef0123456789abcdef_22.wrt\n",
        ),
    ];
    let (found, _) = fragments(&files, 9).await;
    let wanted = [
        format!("__2_2_{U}_8"),
        format!("__3_3_{U}_10"),
        format!("__fragments/__5_5_{U}_22"),
        format!("__fragments/__6_6_{U}_22"),
    ];
    assert_eq!(folders(&found), wanted);
}

#[tokio::test]
async fn both_hierarchies_in_one_array() {
    let files = [
        file("__array_schema.tdb"),
        file(format!("__schema/__7_7_{U}")),
        file(format!("__{U}_1/__fragment_metadata.tdb")),
        file(format!("__2_2_{U}_10.ok")),
        file(format!("__2_2_{U}_10/a0.tdb")),
        file(format!("__3_3_{U}_11/a0.tdb")),
        file(format!("__commits/__4_4_{U}_22.wrt")),
        file(format!("__commits/__2_2_{}_22.wrt", "0".repeat(32))),
        (
            format!("__commits/__2_5_{U}_22.con"),
            "__3_3_0123456789abcdef0123456789abcdef_11.ok\n\
             __commits/__5_5_0123456789abcdef0123456789abcdef_22.wrt\n",
        ),
        file(format!("__1_1_{U}_9.meta")),
        file(format!("__fragment_meta/__1_5_{U}_22.meta")),
    ];
    let (found, _) = fragments(&files, 9).await;
    let wanted = [
        format!("__{U}_1"),
        format!("__2_2_{U}_10"),
        format!("__fragments/__2_2_{}_22", "0".repeat(32)),
        format!("__3_3_{U}_11"),
        format!("__fragments/__4_4_{U}_22"),
        format!("__fragments/__5_5_{U}_22"),
    ];
    assert_eq!(folders(&found), wanted);

    let (storage, _) = storage(&files).await;
    let directory = ArrayDirectory::list(&storage).await.unwrap();
    let metas = directory.consolidated_footers.iter().map(ArrayFile::path);
    let wanted = [
        format!("__1_1_{U}_9.meta"),
        format!("__fragment_meta/__1_5_{U}_22.meta"),
    ];
    assert_eq!(metas.collect::<Vec<_>>(), wanted);
    let at = |end| {
        let window = OpenWindow::new(TimestampMs(0), Some(TimestampMs(end))).unwrap();
        directory.schema_at(&window).unwrap().path()
    };
    assert_eq!(at(6), "__array_schema.tdb");
    assert_eq!(at(7), format!("__schema/__7_7_{U}"));
    assert!(directory.schema_named("__array_schema.tdb").is_ok());
    let error = directory.schema_named("__8_8_x").unwrap_err().to_string();
    assert!(error.contains("is not in __schema"), "{error}");
}

/// As libtiledb 2.30 reads them, up to sixteen fragments; beyond that its sort is not stable.
#[tokio::test]
async fn fragments_of_one_start_time_come_in_the_order_of_the_listings() {
    let name = |digit: &str, version: u32| format!("__2_2_{}_{version}", digit.repeat(32));
    let files = [
        file("__array_schema.tdb"),
        file(format!("{}.ok", name("e", 11))),
        file(format!("{}/a0.tdb", name("e", 11))),
        file(format!("{}/a0.tdb", name("d", 11))),
        file(format!("__2_2_{}/__fragment_metadata.tdb", "f".repeat(32))),
        file(format!("__commits/{}.wrt", name("0", 22))),
        // This fragment has a commit file and is listed.
        file(format!("__commits/{}.wrt", name("b", 22))),
        // This fragment is removed from the list, and has a commit file.
        file(format!("__commits/{}.wrt", name("1", 22))),
        (
            format!("__commits/__2_2_{U}_22.con"),
            "__commits/__2_2_cccccccccccccccccccccccccccccccc_22.wrt\n\
             __commits/__2_2_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb_22.wrt\n\
             __commits/__2_2_11111111111111111111111111111111_22.wrt\n\
             __2_2_dddddddddddddddddddddddddddddddd_11.ok\n",
        ),
        (
            format!("__commits/__2_2_{U}_22.ign"),
            "__commits/__2_2_11111111111111111111111111111111_22.wrt\n",
        ),
    ];
    let (found, _) = fragments(&files, 9).await;
    let new = |digit: &str| format!("__fragments/{}", name(digit, 22));
    let wanted = [
        name("d", 11),
        name("e", 11),
        format!("__2_2_{}", "f".repeat(32)),
        new("b"),
        new("c"),
        new("0"),
        new("1"),
    ];
    assert_eq!(folders(&found), wanted);
}

#[tokio::test]
async fn a_commit_whose_times_run_backwards_is_refused() {
    let files = [file("__array_schema.tdb"), file(format!("__9_8_{U}_7.ok"))];
    let (storage, _) = storage(&files).await;
    let directory = ArrayDirectory::list(&storage).await.unwrap();
    let window = OpenWindow::default();
    let found = directory.commits(&storage, &window, true).await;
    let error = found.unwrap_err().to_string();
    assert!(
        error.contains("first time 9 is after its last time 8"),
        "{error}"
    );
    assert!(error.contains("_7.ok"), "{error}");
}
