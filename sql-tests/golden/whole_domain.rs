//! Dense golden arrays with `empty_cells` = `domain`: the rows are all coordinates of a box that holds the written cells, the written
//! cells are as ever, all others are alike, and random queries get what the same rows in memory give. One array of eight is tried;
//! `GOLDEN=each` tries each.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::TileDbTable;
use libtest_mimic::Failed;
use serde_json::Value;

use crate::golden::pruning;
use crate::support::{golden, neutral_rows};

/// Larger domains take too long.
const MOST_ROWS: usize = 20_000;
const QUERIES: usize = 3;

trials!(golden::on_one_of(16, 5, |array, entry| async move {
    check(array, &entry).await
}));

async fn check(array: PathBuf, entry: &Value) -> Result<(), Failed> {
    let options = golden::options(entry);
    if options.iter().any(|(key, _)| key.ends_with("empty_cells")) {
        return Ok(());
    }
    let part = open(&array, &options).await?;
    let whole = [
        options,
        vec![("empty_cells".to_owned(), "domain".to_owned())],
    ]
    .concat();
    let whole = open(&array, &whole).await?;
    let Some(rows) = read(&whole).await? else {
        return Ok(());
    };
    let part = read(&part)
        .await?
        .ok_or("the box is larger than the domain")?;
    let (all, written) = (cells(&rows), cells(&part));
    let missing = written.iter().find(|cell| !all.contains(*cell));
    if let Some(missing) = missing {
        return Err(format!("{missing:?} is not in the whole domain").into());
    }
    let dimensions = columns_of(&rows, "dimension");
    if dimensions.is_empty() || rows.num_rows() == part.num_rows() {
        return compare(&array, &whole, &rows).await;
    }
    let coordinates = texts(&rows, &dimensions);
    let distinct = coordinates.iter().collect::<BTreeSet<_>>().len();
    let sides = (0..dimensions.len()).map(|d| {
        let values = coordinates.iter().map(|row| &row[d]);
        values.collect::<BTreeSet<_>>().len()
    });
    let product = sides.product::<usize>();
    if distinct != rows.num_rows() || product != distinct {
        let found = rows.num_rows();
        return Err(format!("{found} rows, {distinct} coordinates of {product}").into());
    }
    let inside = texts(&part, &dimensions)
        .into_iter()
        .collect::<BTreeSet<_>>();
    let attributes = texts(&rows, &columns_of(&rows, "attribute"));
    let outside = coordinates.iter().zip(attributes);
    let outside = outside.filter(|(cell, _)| !inside.contains(*cell));
    let kinds = outside.map(|(_, values)| values).collect::<BTreeSet<_>>();
    if kinds.len() > 1 {
        return Err(format!("cells that nobody wrote differ: {kinds:?}").into());
    }
    compare(&array, &whole, &rows).await
}

async fn open(array: &Path, options: &[(String, String)]) -> Result<Arc<TileDbTable>, Failed> {
    let mut builder = TileDbTable::builder(array.display().to_string());
    for (key, value) in options {
        builder = builder.option(key, value)?;
    }
    Ok(Arc::new(builder.open().await?))
}

/// All rows; `None` if there are too many.
async fn read(table: &Arc<TileDbTable>) -> Result<Option<RecordBatch>, Failed> {
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    let rows = ctx.read_table(Arc::clone(table) as _)?;
    let schema = Arc::clone(rows.schema().inner());
    let first = rows.limit(0, Some(MOST_ROWS + 1))?.collect().await?;
    let rows = concat_batches(&schema, &first)?;
    Ok((rows.num_rows() <= MOST_ROWS).then_some(rows))
}

async fn compare(array: &Path, table: &Arc<TileDbTable>, rows: &RecordBatch) -> Result<(), Failed> {
    if rows.num_rows() == 0 {
        return Ok(());
    }
    let memory = MemTable::try_new(rows.schema(), vec![vec![rows.clone()]])?;
    pruning::compare(array, table, &Arc::new(memory), rows, QUERIES).await
}

fn cells(rows: &RecordBatch) -> BTreeSet<String> {
    neutral_rows::rows(std::slice::from_ref(rows))
        .into_iter()
        .collect()
}

/// The columns with a role.
fn columns_of(rows: &RecordBatch, role: &str) -> Vec<usize> {
    let schema = rows.schema();
    let has_role = |c: &usize| {
        let roles = schema.field(*c).metadata();
        roles.get("tiledb.role").is_some_and(|found| found == role)
    };
    (0..rows.num_columns()).filter(has_role).collect()
}

/// The values of columns, row by row, each as text.
fn texts(rows: &RecordBatch, columns: &[usize]) -> Vec<Vec<String>> {
    let columns = columns.iter().map(|column| {
        let column = rows.project(&[*column]).unwrap();
        (0..rows.num_rows())
            .map(|row| neutral_rows::rows(&[column.slice(row, 1)]).concat())
            .collect::<Vec<_>>()
    });
    let columns = columns.collect::<Vec<_>>();
    let row = |row: usize| columns.iter().map(|column| column[row].clone()).collect();
    (0..rows.num_rows()).map(row).collect()
}
