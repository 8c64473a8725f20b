//! A golden array takes its own rows back: by [`datafusion_tiledb::Array::insert`] as by a session, which writes or refuses the same.

use std::path::{Path, PathBuf};

use datafusion::logical_expr::dml::InsertOp;
use datafusion::prelude::SessionContext;
use datafusion_tiledb::TileDbTable;
use libtest_mimic::Failed;
use serde_json::Value;

use super::{expect, open_with};
use crate::support::array_files::Files;
use crate::support::{golden, neutral_rows};

trials!(golden::on_one_of(8, 1, takes_its_rows));

async fn takes_its_rows(place: PathBuf, entry: Value) -> Result<(), Failed> {
    let options = golden::options(&entry);
    // Rows that other options change as they show them aren't the array's own.
    if options.iter().any(|(key, _)| key != "encryption_key") {
        return Ok(());
    }
    let options = options.iter();
    let options = options.map(|(key, value)| (key.as_str(), value.as_str()));
    let options = options.collect::<Vec<_>>();
    let opened = async |folder: &Path| {
        let uri = folder.display().to_string();
        open_with(&uri, options.iter().copied()).await
    };
    let array = opened(&place).await?;
    let Ok(rows) = array.scan().collect().await else {
        return Ok(());
    };
    let (by_array, by_session) = (tempfile::tempdir()?, tempfile::tempdir()?);
    Files::of(&place).write(by_array.path());
    Files::of(&place).write(by_session.path());
    let written = opened(by_array.path()).await?;
    let written = written.insert().batches(rows.clone()).await;
    let mut table = TileDbTable::builder(by_session.path().display().to_string());
    for (key, value) in &options {
        table = table.option(key, value)?;
    }
    let (table, session) = (table.open().await?, SessionContext::new());
    let inserted = match rows.is_empty() {
        true => Ok(0),
        false => {
            table
                .insert_rows(session.read_batches(rows)?, InsertOp::Append)
                .await
        }
    };
    match (&written, &inserted) {
        (Ok(written), Ok(inserted)) => expect("rows written", written, inserted)?,
        (Err(_), Err(_)) => {}
        other => return Err(format!("one of the ways refuses the rows: {other:?}").into()),
    }
    let shown = async |folder: &Path| {
        let array = opened(folder).await?;
        let rows = neutral_rows::rows(&array.scan().collect().await?);
        Ok::<_, Failed>(rows)
    };
    let found = shown(by_array.path()).await?;
    expect("rows", &found, &shown(by_session.path()).await?)
}
