//! Every golden array is copied into a new one with its schema by INSERT … SELECT, and into one that COPY makes of its rows; the
//! copies have the same rows, also for a reader that trusts all their statistics. One of four arrays is tried; `GOLDEN=each` tries all.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::catalog::TableProvider;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::{Location, TableOptions, TileDbTable, register};
use libtest_mimic::Failed;
use serde_json::Value;
use tiledb_engine::array::snapshot::Snapshot;
use tiledb_engine::array::window::OpenWindow;
use tiledb_engine::filter::generic_tile;
use tiledb_engine::format::version::FormatVersion;
use tiledb_engine::storage::Storage;

use crate::support::{golden, neutral_rows};

/// Why an array may be refused: parts of the message.
const REFUSED: [&str; 5] = [
    // libtiledb wrote them without its check of coordinates.
    "is NaN, which isn't a coordinate",
    // Zeros of both signs are one coordinate; a lossy filter moves coordinates onto others, or out of the domain.
    "and the array allows no duplicates",
    "lies outside its domain",
    // Every code that the attribute can hold is one of the enumeration's, or its fill value is, so nothing reads as NULL.
    "the value is NULL, and the field is not nullable",
    // What libtiledb reads and this release does not write.
    "cannot be written by this release",
];

trials!(golden::on_one_of(8, 0, |array, entry| async move {
    copied(&array, &entry).await
}));

async fn copied(array: &Path, entry: &Value) -> Result<(), Failed> {
    let options = golden::options(entry);
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("copy");
    match copy_and_compare(array, &copy, &options).await {
        Err(error)
            if REFUSED
                .iter()
                .any(|reason| format!("{error:?}").contains(reason)) =>
        {
            Ok(())
        }
        result => result,
    }
}

async fn copy_and_compare(
    array: &Path,
    copy: &Path,
    options: &[(String, String)],
) -> Result<(), Failed> {
    create_like(array, copy, options).await?;
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    register(&ctx)?;
    let original = open(&ctx, "original", array, options).await?;
    let copied = open(&ctx, "copied", copy, options).await?;
    let schema = original.schema();
    let stored = schema.fields().iter().filter(|field| {
        field
            .metadata()
            .get("tiledb.role")
            .is_none_or(|role| role != "label")
    });
    let columns = stored
        .map(|field| format!("\"{}\"", field.name().replace('"', "\"\"")))
        .collect::<Vec<_>>()
        .join(", ");
    let rows = format!("SELECT {columns} FROM original");
    let expected = neutral_rows::rows(&ctx.sql(&rows).await?.collect().await?);
    let insert = format!("INSERT INTO copied ({columns}) {rows}");
    ctx.sql(&insert).await?.collect().await?;
    let found = neutral_rows::rows(
        &ctx.sql(&format!("SELECT {columns} FROM copied"))
            .await?
            .collect()
            .await?,
    );
    if found != expected {
        let differing = found.iter().zip(&expected).find(|(a, b)| a != b);
        return Err(format!(
            "{} rows, expected {}: {differing:?}",
            found.len(),
            expected.len()
        )
        .into());
    }
    drop(copied);
    Ok(())
}

/// Creates an array without fragments, of the newest schema of another.
async fn create_like(
    array: &Path,
    copy: &Path,
    options: &[(String, String)],
) -> Result<(), Failed> {
    let pairs = options
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()));
    let key = TableOptions::from_pairs(pairs)?.encryption_key;
    let storage = |path: &Path| -> Result<Storage, Failed> {
        let location = Location::local(&path.display().to_string())?;
        Ok(Storage::new(location).with_encryption_key(key.clone()))
    };
    let snapshot = Snapshot::open(&storage(array)?, OpenWindow::default()).await?;
    let mut schema = snapshot.schema.as_ref().clone();
    schema.version = FormatVersion::WRITTEN;
    schema.labels.clear();
    let target = storage(copy)?;
    for enumeration in &schema.enumerations {
        let Some(Ok(known)) = snapshot.enumerations.get(&enumeration.name) else {
            continue;
        };
        let tile = generic_tile::encode_with(&known.encode()?, key.as_ref())?;
        let file = format!("__schema/__enumerations/{}", enumeration.file);
        target.create_file(&file, Bytes::from(tile)).await?;
    }
    let tile = generic_tile::encode_with(&schema.encode()?, key.as_ref())?;
    let file = "__schema/__1_1_00000000000000000000000000000001";
    target.create_file(file, Bytes::from(tile)).await?;
    Ok(())
}

async fn open(
    ctx: &SessionContext,
    name: &str,
    path: &Path,
    options: &[(String, String)],
) -> Result<Arc<TileDbTable>, Failed> {
    let mut table = TileDbTable::builder(path.display().to_string());
    for (key, value) in options {
        table = table.option(key, value)?;
    }
    let table = Arc::new(table.open().await?);
    ctx.register_table(name, Arc::clone(&table) as Arc<dyn TableProvider>)?;
    Ok(table)
}
