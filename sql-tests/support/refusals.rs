//! Statements on files in memory that must be refused, with the words of the error.

use std::path::Path;
use std::sync::Arc;

use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::TileDbTable;
use libtest_mimic::Failed;
use tiledb_engine::storage::MetadataCache;

use crate::support::allocations;
use crate::support::array_files::{Files, contents, plain_tile};

type Setting<'a> = (&'a str, &'a str);

/// Runs a query on the array, as table `t`; the number of rows, or the message of the error.
pub async fn read(array: &Path, options: &[Setting<'_>], sql: &str) -> Result<usize, String> {
    let mut builder = TileDbTable::builder(array.display().to_string())
        .cache(Arc::new(MetadataCache::new(1 << 20)));
    for (key, value) in options {
        builder = builder.option(key, value).map_err(|e| e.to_string())?;
    }
    let table = builder.open().await.map_err(|e| e.to_string())?;
    let ctx = SessionContext::new_with_config_rt(SessionConfig::new(), allocations::runtime());
    ctx.register_table("t", Arc::new(table))
        .map_err(|e| e.to_string())?;
    let frame = ctx.sql(sql).await.map_err(|e| e.to_string())?;
    let batches = frame.collect().await.map_err(|e| e.to_string())?;
    Ok(batches.iter().map(|b| b.num_rows()).sum())
}

/// The outcome must be an error whose message holds all of `words`.
pub fn refused(what: &str, outcome: Result<usize, String>, words: &[&str]) -> Result<(), Failed> {
    match outcome {
        Ok(rows) => {
            Err(format!("{what}: expected an error with {words:?}, found {rows} rows").into())
        }
        Err(message) => match words.iter().find(|word| !message.contains(*word)) {
            Some(word) => Err(format!("{what}: \"{word}\" is not in: {message}").into()),
            None if message.contains("internal error") || message.contains("panic") => {
                Err(format!("{what}: {message}").into())
            }
            None => Ok(()),
        },
    }
}

pub const ALL: &str = "SELECT * FROM t";

/// Writes the files into a folder of their own and reads it.
pub async fn read_files(files: &Files, sql: &str) -> Result<usize, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    files.write(folder.path());
    read(folder.path(), &[], sql).await
}

/// Replaces what the only schema holds.
pub fn edit_schema(files: &mut Files, edit: impl FnOnce(&mut Vec<u8>)) {
    let schema = files.find("__schema/");
    files.edit(&schema, |tile| {
        let mut schema = contents(tile);
        edit(&mut schema);
        *tile = plain_tile(&schema);
    });
}
