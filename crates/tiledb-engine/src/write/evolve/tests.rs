use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use object_store::memory::InMemory;
use object_store::path::Path;

use super::SchemaEvolution;
use super::history::definition;
use super::step::{EvolutionStep, apply, between, follow, meet, same};
use crate::array::inspect::ArrayInspection;
use crate::array::window::{OpenWindow, TimestampMs};
use crate::error::{Error, ErrorKind, Result};
use crate::filter::{EncryptionKey, generic_tile};
use crate::storage::{Location, Storage};
use crate::write::clock::Clock;
use crate::write::create::{ArrayBuilder, ArrayDefinition};

fn builder() -> ArrayBuilder {
    let columns = Schema::new(vec![
        Field::new("x", DataType::Int32, false),
        Field::new("a", DataType::Int32, true),
        Field::new("c", DataType::Utf8, true),
    ]);
    let builder = ArrayBuilder::new(&columns, ["x"])
        .unwrap()
        .enumeration("c", ["red", "blue"], false)
        .unwrap();
    builder.timestamp(1000)
}

fn places(folder: &tempfile::TempDir) -> [Storage; 2] {
    let path = folder.path().join("a").to_str().unwrap().to_owned();
    let memory = Location::new(Arc::new(InMemory::new()), Path::from("a"), "memory:///a");
    [Location::local(&path).unwrap(), memory].map(Storage::new)
}

async fn at(storage: &Storage, end: u64) -> (ArrayDefinition, String) {
    let window = OpenWindow::new(TimestampMs(0), Some(TimestampMs(end))).unwrap();
    let array = ArrayInspection::open(storage, window).await.unwrap();
    let enumerations = array.enumerations().await.unwrap();
    let found = definition(&array.schema, &enumerations).unwrap();
    (found, array.schema_name)
}

fn names(array: &ArrayDefinition) -> Vec<&str> {
    let attributes = array.schema.attributes.iter();
    attributes.map(|a| a.name.as_str()).collect()
}

fn add(name: &str, data_type: DataType) -> SchemaEvolution {
    let field = Field::new(name, data_type, true);
    SchemaEvolution::new().add_column(&field).unwrap()
}

async fn refused(evolution: SchemaEvolution, storage: &Storage) -> Error {
    let before = storage.list("__schema").await.unwrap();
    let error = evolution.apply(storage).await.unwrap_err();
    let after = storage.list("__schema").await.unwrap();
    assert_eq!(before, after, "{error}");
    error
}

#[tokio::test]
async fn each_time_has_its_schema() {
    let folder = tempfile::tempdir().unwrap();
    for storage in places(&folder) {
        builder().create(&storage).await.unwrap();
        let evolved = add("b", DataType::Utf8)
            .enumeration("b", ["p", "q"], true)
            .unwrap()
            .drop_column("a")
            .extend_enumeration("c", ["green", ""])
            .current_domain("x", -5, 5)
            .timestamp(2000)
            .apply(&storage)
            .await
            .unwrap();
        assert_eq!(
            evolved.changes,
            [
                "drop column \"a\"",
                "add enumeration \"b\" of 2 values",
                "extend enumeration \"c\" to 4 values",
                "add column \"b\"",
                "set current domain"
            ]
        );
        let (before, _) = at(&storage, 1999).await;
        assert_eq!(names(&before), ["a", "c"]);
        assert_eq!(before.enumerations[0].len(), 2);
        let (after, name) = at(&storage, 2000).await;
        assert_eq!((names(&after), &name), (vec!["c", "b"], &evolved.schema));
        let colours = after.enumerations.iter().find(|e| e.name == "c").unwrap();
        let values: Vec<_> = (0..5).map(|i| colours.member(i)).collect();
        let expected = [b"red".as_slice(), b"blue", b"green", b""];
        assert_eq!(values[..4], expected.map(Some));
        assert_eq!(values[4], None);

        // Dropping the column drops its enumeration; the old file stays for the old schema.
        let drop = SchemaEvolution::new().drop_column("c").timestamp(3000);
        drop.apply(&storage).await.unwrap();
        let (after, _) = at(&storage, 3000).await;
        assert_eq!(after.enumerations.len(), 1);
        assert_eq!(at(&storage, 2500).await.0.enumerations.len(), 2);
        // The last attribute of a sparse array may go.
        let drop = SchemaEvolution::new().drop_column("b").timestamp(4000);
        drop.apply(&storage).await.unwrap();
        assert!(names(&at(&storage, 4000).await.0).is_empty());
    }
}

#[tokio::test]
async fn what_is_wanted_already_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for storage in places(&folder) {
        builder().create(&storage).await.unwrap();
        let field = Field::new("a", DataType::Int32, true);
        let nothing = SchemaEvolution::new()
            .add_column_if_missing(&field)
            .unwrap()
            .drop_column_if_there("z");
        let evolved = nothing.apply(&storage).await.unwrap();
        assert!(evolved.changes.is_empty());
        assert_eq!(evolved.schema, at(&storage, 1000).await.1);
    }
}

#[tokio::test]
async fn what_cannot_be_is_refused_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let [storage, _] = places(&folder);
    builder().create(&storage).await.unwrap();
    let new = SchemaEvolution::new;
    let grown = new().current_domain("x", 0, 9).timestamp(2000);
    grown.apply(&storage).await.unwrap();
    for (evolution, why) in [
        (add("a", DataType::Int8), "there is a column \"a\" already"),
        (add("x", DataType::Int8), "there is a column \"x\" already"),
        (add("__b", DataType::Int8), "belong to the format"),
        (new().drop_column("z"), "the columns are x, a, c"),
        (new().drop_column("x"), "is a dimension"),
        (new().extend_enumeration("a", ["1"]), "no enumeration"),
        (new().extend_enumeration("c", ["red"]), "with the number 0"),
        (new().extend_enumeration::<&str>("c", []), "no value"),
        (new().current_domain("x", 1, 9), "can only grow"),
        (new().current_domain("x", 0, 8), "can only grow"),
        (new().current_domain("a", 0, 8), "no dimension \"a\""),
        (new().current_domain("x", 0, 1_i64 << 40), "a number from"),
        (add("b", DataType::Int8).timestamp(2000), "later"),
        // By name, letter by letter, the new schema would come before the existing one.
        (add("b", DataType::Int8).timestamp(10_000), "digits sort"),
    ] {
        let error = refused(evolution, &storage).await;
        assert!(error.message().contains(why), "{why}: {error}");
    }
    for (key, why) in [
        ("tiledb.capacity", "only be set when an array is created"),
        ("dim.x.tile", "only be set when an array is created"),
        ("attr.z.filters", "no column \"z\""),
        ("timestamp", "no such option"),
    ] {
        let error = new().option(key, "1").unwrap_err();
        assert!(error.message().contains(why), "{key}: {error}");
    }
    let dense = Storage::new(Location::local(folder.path().join("d").to_str().unwrap()).unwrap());
    let created = builder().dense().domain("x", 0, 9).unwrap();
    created.create(&dense).await.unwrap();
    let all = new().drop_column("a").drop_column("c");
    let error = refused(all, &dense).await;
    assert!(error.message().contains("the last one"), "{error}");
    let nothing = Storage::new(Location::local(folder.path().join("n").to_str().unwrap()).unwrap());
    let error = add("b", DataType::Int8).apply(&nothing).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn codes_have_room() {
    let folder = tempfile::tempdir().unwrap();
    for storage in places(&folder) {
        let columns = Schema::new(vec![
            Field::new("x", DataType::Int32, false),
            Field::new("c", DataType::Int64, true),
        ]);
        let builder = ArrayBuilder::new(&columns, ["x"])
            .unwrap()
            .timestamp(1000)
            .enumeration("c", 0..125_i64, false)
            .unwrap()
            .option("attr.c.type", "INT8")
            .unwrap();
        builder.create(&storage).await.unwrap();
        let one = SchemaEvolution::new().extend_enumeration("c", [1000]);
        one.timestamp(2000).apply(&storage).await.unwrap();
        let more = SchemaEvolution::new().extend_enumeration("c", [1001]);
        let error = refused(more.timestamp(3000), &storage).await;
        assert!(
            error.message().contains("INT8 has codes for 126"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn an_encrypted_array_stays_encrypted() {
    let folder = tempfile::tempdir().unwrap();
    let key = Arc::new(EncryptionKey::from_text(b"0123456789abcdeF0123456789abcdeF").unwrap());
    for storage in places(&folder) {
        let create = builder().encryption_key(Some(Arc::clone(&key)));
        create.create(&storage).await.unwrap();
        let evolve = add("b", DataType::Utf8)
            .enumeration("b", ["p"], false)
            .unwrap()
            .timestamp(2000);
        let error = refused(evolve.clone(), &storage).await;
        assert_eq!(error.kind(), ErrorKind::Encryption);
        let with_key = storage.clone().with_encryption_key(Some(Arc::clone(&key)));
        let evolved = evolve.apply(&with_key).await.unwrap();
        let enumerations = storage.list("__schema/__enumerations").await.unwrap();
        let mut files: Vec<_> = enumerations
            .files
            .iter()
            .map(|f| format!("__schema/__enumerations/{}", f.name))
            .collect();
        files.push(format!("__schema/{}", evolved.schema));
        for file in files {
            let bytes = storage.read(&file).await.unwrap();
            let tile = generic_tile::decode(&bytes, "file", Some(&key)).unwrap();
            assert!(tile.encrypted, "{file}");
        }
    }
}

/// Whatever the order in which they meet, nobody's column is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn evolutions_at_the_same_time_are_merged() {
    let folder = tempfile::tempdir().unwrap();
    for storage in places(&folder) {
        builder().create(&storage).await.unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for i in 0..5 {
            let storage = storage.clone();
            let seed = i + 1;
            tasks.spawn(async move {
                let clock = Clock::manual(TimestampMs(5000), seed);
                let evolution = add(&format!("n{i}"), DataType::Int32).clock(clock);
                evolution.apply(&storage).await.map(|_| ())
            });
        }
        let ended: Result<Vec<()>> = tasks.join_all().await.into_iter().collect();
        ended.unwrap();
        let (array, _) = at(&storage, u64::MAX).await;
        let mut found = names(&array);
        found.sort_unstable();
        assert_eq!(found, ["a", "c", "n0", "n1", "n2", "n3", "n4"]);
    }
}

async fn evolved(storage: &Storage, evolution: SchemaEvolution, time: u64) -> ArrayDefinition {
    let clock = Clock::manual(TimestampMs(time), time);
    let evolution = evolution.timestamp(time).clock(clock);
    let name = evolution.apply(storage).await.unwrap().schema;
    let always = OpenWindow::new(TimestampMs(0), Some(TimestampMs(u64::MAX))).unwrap();
    let (schema, enumerations) = ArrayInspection::open(storage, always)
        .await
        .unwrap()
        .read_schema(&name)
        .await
        .unwrap();
    definition(&schema, &enumerations).unwrap()
}

#[tokio::test]
async fn changes_are_found_between_schemas_and_joined() {
    let folder = tempfile::tempdir().unwrap();
    let [_, storage] = places(&folder);
    builder().create(&storage).await.unwrap();
    let (first, _) = at(&storage, 1000).await;
    let new = SchemaEvolution::new;
    let second = evolved(&storage, add("b", DataType::Int8).drop_column("a"), 2000).await;
    let third = evolved(&storage, new().extend_enumeration("c", ["z"]), 3000).await;
    let fourth = evolved(&storage, new().current_domain("x", 0, 9), 4000).await;
    for (old, new) in [(&first, &second), (&second, &third), (&first, &fourth)] {
        let steps = between(old, new).unwrap();
        assert!(same(&apply(old, &steps).unwrap(), new));
        assert!(!same(old, new));
    }
    let mine = between(&first, &second).unwrap();
    let theirs = between(&second, &third).unwrap();
    assert!(meet(&mine, &theirs, &third).is_none());
    let joined = follow(second.clone(), theirs.clone()).unwrap();
    let joined = follow(joined, [mine.clone(), theirs].concat()).unwrap();
    assert!(same(&joined, &third));
    let dropped = [EvolutionStep::DropAttribute("b".to_owned())];
    let (met, other) = meet(&mine, &dropped, &first).unwrap();
    assert_eq!(met.to_string(), "add column \"b\"");
    assert_eq!(other.to_string(), "drop column \"b\"");
    // A change that is in effect anyway conflicts with no other.
    assert!(meet(&mine, &dropped, &second).is_none());
}
