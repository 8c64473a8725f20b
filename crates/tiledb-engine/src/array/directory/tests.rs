//! Tests on folders as releases of all times leave them.

use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};

use super::*;
use crate::array::window::TimestampMs;
use crate::simulated::{Order, World};
use crate::storage::{Location, MetadataCache, RequestKind, RequestLog, believed};

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
    let found = directory
        .commits(&storage, &window, true)
        .await
        .unwrap()
        .fragments;
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

/// A list hides what it names if what replaces them is there, or nothing else could have been meant.
#[tokio::test]
async fn a_list_of_replaced_fragments_needs_what_replaces_them() {
    let u = |digit: &str| digit.repeat(32);
    let write =
        |t1: u32, t2: u32, digit: &str| file(format!("__commits/__{t1}_{t2}_{}_22.wrt", u(digit)));
    let list = |t1: u32, t2: u32, digit: &str, end: &str, text: &'static str| {
        (format!("__commits/__{t1}_{t2}_{}_22.{end}", u(digit)), text)
    };
    const A: &str = "/__fragments/__1_1_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa_22\n";
    const B: &str = "/__fragments/__1_2_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb_22\n";
    const BY_LIST: &str = "__commits/__1_2_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb_22.wrt\n";
    let a_and = |others: Vec<(String, &'static str)>| {
        [file(format!("__schema/__1_1_{U}")), write(1, 1, "a")]
            .into_iter()
            .chain(others)
            .collect::<Vec<_>>()
    };
    let cases = [
        (
            "it is committed",
            false,
            vec![write(1, 2, "b"), list(1, 2, "b", "vac", A)],
        ),
        (
            "it is listed",
            false,
            vec![list(1, 2, "c", "con", BY_LIST), list(1, 2, "b", "vac", A)],
        ),
        (
            "it was replaced in turn",
            false,
            vec![
                list(1, 2, "b", "vac", A),
                list(1, 3, "c", "vac", B),
                write(1, 3, "c"),
            ],
        ),
        (
            "its successor spans its times",
            false,
            vec![list(1, 2, "b", "vac", A), write(0, 3, "c")],
        ),
        ("it is a truncation", false, vec![list(5, 5, "b", "vac", A)]),
        (
            "it is staged and committed",
            false,
            vec![list(1, 2, "b", "vac.staged", A), write(1, 2, "b")],
        ),
        ("it is staged", true, vec![list(1, 2, "b", "vac.staged", A)]),
        ("it is not there", true, vec![list(1, 2, "b", "vac", A)]),
        (
            "its successor is not there",
            true,
            vec![list(1, 2, "b", "vac", A), list(1, 3, "c", "vac", B)],
        ),
        (
            "it is ignored",
            true,
            vec![
                list(1, 2, "c", "con", BY_LIST),
                list(1, 2, "c", "ign", BY_LIST),
                list(1, 2, "b", "vac", A),
            ],
        ),
    ];
    for (what, visible, others) in cases {
        let (storage, _) = storage(&a_and(others)).await;
        let directory = ArrayDirectory::list(&storage).await.unwrap();
        let window = OpenWindow::new(TimestampMs(0), Some(TimestampMs(9))).unwrap();
        let found = directory.commits(&storage, &window, true).await.unwrap();
        let a = format!("__fragments/__1_1_{}_22", u("a"));
        assert_eq!(
            folders(&found.fragments).contains(&a.as_str()),
            visible,
            "{what}"
        );
        let unfounded = visible && what != "it is staged";
        assert_eq!(found.unfounded.is_some(), unfounded, "{what}");
    }
}

/// What a reader finds while commits move into a list, or a fragment takes the place of others: the times of the fragments.
/// The folder is listed a page at a time, which the reader `knows` or not.
fn found_while_moved(seed: u64, order: Order, knows: bool) -> Vec<(u64, u64)> {
    World::run(seed, move |world| async move {
        world.set_pages(3, order);
        believed::set_page(if knows { 3 } else { usize::MAX });
        // Large folders are then listed again in pages.
        believed::set_in_order(order == Order::Sorted);
        let tender = world.store(Some(1));
        let path = |file: &str| Path::from(format!("array/{file}"));
        let put = async |file: String, text: String| {
            tender.put(&path(&file), text.into()).await.unwrap();
        };
        put(format!("__schema/__1_1_{U}"), "x".to_owned()).await;
        for t in TIMES {
            put(format!("__commits/{}.wrt", named(t, t)), String::new()).await;
        }
        let moves = async {
            world.wait(Duration::from_millis(world.random() % 60)).await;
            let whole = format!("__commits/{}", named(10, 19));
            let mut gone = TIMES
                .map(|t| format!("__commits/{}.wrt", named(t, t)))
                .to_vec();
            if seed.is_multiple_of(2) {
                let lines = TIMES.map(|t| format!("__commits/{}.wrt\n", named(t, t)));
                put(format!("{whole}.con"), lines.concat()).await;
            } else {
                let lines = TIMES.map(|t| format!("/__fragments/{}\n", named(t, t)));
                put(format!("{whole}.vac.staged"), lines.concat()).await;
                put(format!("{whole}.wrt"), String::new()).await;
                put(format!("{whole}.vac"), lines.concat()).await;
                gone.insert(0, format!("{whole}.vac.staged"));
                gone.push(format!("{whole}.vac"));
            }
            for gone in gone {
                tender.delete(&path(&gone)).await.unwrap();
            }
        };
        let reads = async {
            let location = Location::new(world.store(Some(2)), path(""), "sim://array");
            let storage = Storage::new(location).with_cache(Arc::new(MetadataCache::new(0)));
            let window = OpenWindow::new(TimestampMs(0), Some(TimestampMs(99))).unwrap();
            loop {
                let directory = ArrayDirectory::list(&storage).await.unwrap();
                match directory.commits(&storage, &window, true).await {
                    Ok(found) => break found.fragments,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
                }
            }
        };
        let (_, found) = futures::join!(moves, reads);
        found.iter().map(|f| (f.name.t1, f.name.t2)).collect()
    })
}

const TIMES: [u64; 10] = [10, 11, 12, 13, 14, 15, 16, 17, 18, 19];

fn named(t1: u64, t2: u64) -> String {
    format!("__{t1}_{t2}_{t1:016}{t2:016}_22")
}

/// How many of 400 readers find neither all fragments nor the one in their place.
fn mistaken(knows: bool) -> usize {
    let courses = (0..200).flat_map(|seed| [(seed, Order::Sorted), (seed, Order::Scattered)]);
    let found = courses.map(|(seed, order)| found_while_moved(seed, order, knows));
    let all = TIMES.map(|t| (t, t));
    let wrong = found
        .filter(|found| *found != all && *found != [(10, 19)])
        .count();
    believed::set_page(1000);
    wrong
}

#[test]
fn what_moves_while_it_is_listed_is_not_lost() {
    assert_eq!(mistaken(true), 0);
}

/// A single listing loses fragments, which proves that they move while they are listed.
#[test]
fn one_listing_is_not_enough() {
    let mistaken = mistaken(false);
    assert!(mistaken > 20, "{mistaken}");
}
