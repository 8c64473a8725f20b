use std::sync::Arc;

use object_store::memory::InMemory;
use object_store::path::Path;

use bytes::Bytes;

use super::{GroupEdit, create_group};
use crate::array::group::{GROUP_FOLDER, Group};
use crate::array::window::{OpenWindow, TimestampMs};
use crate::error::ErrorKind;
use crate::filter::generic_tile;
use crate::format::group::{GroupDetails, MemberEntry, ObjectKind};
use crate::storage::{Location, Storage};

async fn group_of_three() -> Storage {
    let location = Location::new(Arc::new(InMemory::new()), Path::from("g"), "memory:///g");
    let storage = Storage::new(location.clone());
    for below in ["", "a", "b", "c/a"] {
        let group = storage.at(location.resolve(below));
        create_group(&group).await.unwrap();
    }
    storage
}

async fn at(storage: &Storage, end: u64) -> Vec<String> {
    let window = OpenWindow::new(TimestampMs(0), Some(TimestampMs(end))).unwrap();
    let group = Group::open(storage, window).await.unwrap();
    let members = group.members.into_iter();
    members
        .map(|m| format!("{} {} {}", m.name, m.kind, m.uri))
        .collect()
}

#[tokio::test]
async fn members_come_and_go() {
    let storage = group_of_three().await;
    let group = storage.location().clone();
    let edit = GroupEdit::new()
        .add(group.join("a"), Some("first"))
        .add_absolute(group.join("b"), Some("second"))
        .add_path("c/a", None)
        .timestamp(10);
    let (_, words) = edit.apply_in_words(&storage).await.unwrap();
    let expected = [
        "add group \"first\"",
        "add group \"second\"",
        "add group \"c/a\"",
    ];
    assert_eq!(words, expected);
    let edit = GroupEdit::new().remove("first").remove("a").timestamp(20);
    edit.apply(&storage).await.unwrap();
    let edit = GroupEdit::new()
        .remove("second")
        .add_path("b", Some("second"));
    edit.timestamp(30).apply(&storage).await.unwrap();
    assert!(at(&storage, 9).await.is_empty());
    assert_eq!(
        at(&storage, 10).await,
        [
            "a group memory:///g/c/a",
            "first group memory:///g/a",
            "second group memory:///g/b"
        ]
    );
    assert_eq!(at(&storage, 20).await, ["second group memory:///g/b"]);
    assert_eq!(at(&storage, 30).await, ["second group memory:///g/b"]);
}

#[tokio::test]
async fn what_cannot_be_is_refused() {
    let storage = group_of_three().await;
    let group = storage.location().clone();
    let new = GroupEdit::new;
    let named = new()
        .add_path("a", Some("n"))
        .add_path("c/a", None)
        .add_path("a", None);
    named.apply(&storage).await.unwrap();
    let other = Location::new(Arc::new(InMemory::new()), Path::from("x"), "other:///x");
    create_group(&Storage::new(other.clone())).await.unwrap();
    let outside = new().add_member(Ok(other), Some("o"), Some(true));
    for (edit, why) in [
        (
            new().add_path("b", Some("n")),
            "a member \"n\" already, at a",
        ),
        (new().add_path("c/a", None), "a member \"c/a\" already"),
        (new().add_path("z", Some("z")), "that is there"),
        (new().add_path("", Some("z")), "a member of itself"),
        (new().add(group.join("b"), Some("")), "is empty"),
        (new().remove("z"), "its members are a, c/a, n"),
        (new().remove("n").remove("n"), "no member \"n\""),
        (outside, "cannot be relative"),
    ] {
        let before = storage.list(GROUP_FOLDER).await.unwrap();
        let error = edit.apply(&storage).await.unwrap_err();
        assert!(error.message().contains(why), "{why}: {error}");
        assert_eq!(storage.list(GROUP_FOLDER).await.unwrap(), before);
    }
    let nowhere = storage.at(group.join("nothing"));
    let error = new().remove("z").apply(&nowhere).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

/// libtiledb before 2.15 reads the newest list alone.
#[tokio::test]
async fn a_group_of_version_1_gets_a_complete_list() {
    let storage = group_of_three().await;
    let entry = MemberEntry {
        version: 1,
        kind: ObjectKind::Group,
        relative: true,
        uri: "a".to_owned(),
        name: Some("first".to_owned()),
        deleted: false,
    };
    let details = GroupDetails {
        complete: true,
        members: vec![entry],
    };
    let tile = generic_tile::encode_with(&details.encode(), None).unwrap();
    let file = "__group/__1_1_0123456789abcdef0123456789abcdef";
    storage.create_file(file, Bytes::from(tile)).await.unwrap();
    let edit = GroupEdit::new().add_path("b", Some("second"));
    let file = edit.apply(&storage).await.unwrap();
    let bytes = storage.read(&file.unwrap()).await.unwrap();
    let tile = generic_tile::decode(&bytes, "group", None).unwrap();
    let details = GroupDetails::decode(&tile.data).unwrap();
    assert!(details.complete && details.members.iter().all(|m| m.version == 1));
    assert_eq!(at(&storage, u64::MAX).await.len(), 2);
    let edit = GroupEdit::new().remove("first");
    edit.apply(&storage).await.unwrap();
    assert_eq!(at(&storage, u64::MAX).await, ["second group memory:///g/b"]);
}

#[tokio::test]
async fn a_group_has_a_folder_of_its_own() {
    let storage = group_of_three().await;
    let error = create_group(&storage).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    let array = storage.location().join("array");
    let schema = "__schema/__1_1_0123456789abcdef0123456789abcdef";
    let schemas = storage.at(array.clone());
    schemas
        .create_file(schema, Bytes::from_static(b"x"))
        .await
        .unwrap();
    for inside in ["", "b", "b/c"] {
        let error = create_group(&storage.at(array.resolve(inside))).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::IsAnArray, "{inside}");
    }
}
