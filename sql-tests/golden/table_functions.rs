//! The table functions tell what libtiledb tells: every `arrays/<name>.facts.json` is asked of them.
//!
//! The facts are text in the form of the functions' columns; a row must have each value that is told, and as many rows
//! must be there. `arrays/make_arrays/facts.py` wrote them.

use std::fs;

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::prelude::SessionContext;
use libtest_mimic::Failed;
use serde_json::{Map, Value};

use crate::support::golden;
use crate::support::trials::SqlTrial;
use crate::{block_on, trial};

trials!(each_array());

fn each_array() -> Vec<SqlTrial> {
    let mut names: Vec<String> = fs::read_dir(golden::folder())
        .expect("the folder is there")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".facts.json").map(str::to_owned))
        .collect();
    names.sort();
    names
        .into_iter()
        .map(|name| trial(name.clone(), move || block_on(check(&name))))
        .collect()
}

/// A row by the names of its columns; lists as in the facts.
type Row = Map<String, Value>;

async fn check(name: &str) -> Result<(), Failed> {
    let file = golden::folder().join(format!("{name}.facts.json"));
    let facts: Value = serde_json::from_str(&fs::read_to_string(file)?)?;
    let ctx = SessionContext::new();
    datafusion_tiledb::register(&ctx)?;
    let array = golden::folder().join(name).display().to_string();
    let ask = |function: &str, options: &str, order: &str| {
        format!("SELECT * FROM {function}('{array}'{options}) {order}")
    };
    let whole = rows(&ctx, &ask("tiledb_array", "", "")).await?;
    compare("array", &[facts["array"].clone()], &whole)?;
    let fields = rows(
        &ctx,
        &ask(
            "tiledb_schema",
            "",
            "WHERE role <> 'label' ORDER BY position",
        ),
    )
    .await?;
    compare("fields", list(&facts["fields"]), &fields)?;
    let visible = "WHERE vacuumed_by IS NULL ORDER BY timestamp_start, fragment";
    let fragments = rows(&ctx, &ask("tiledb_fragments", "", visible)).await?;
    check_fragments(list(&facts["fragments"]), &fragments)?;
    let replaced = ask("tiledb_fragments", "", "WHERE vacuumed_by IS NOT NULL");
    let mut replaced: Vec<Value> = rows(&ctx, &replaced)
        .await?
        .into_iter()
        .map(|row| row["fragment"].clone())
        .collect();
    replaced.sort_by_key(Value::to_string);
    same(
        "replaced fragments",
        &facts["replaced"],
        &Value::Array(replaced),
    )?;
    check_mbrs(&ctx, &array, list(&facts["fragments"])).await?;
    if facts.get("tiles").is_some() {
        check_tiles(&ctx, &array, list(&facts["tiles"])).await?;
    }
    for (window, entries) in facts["metadata"].as_object().into_iter().flatten() {
        let options = match window.split_once('-') {
            Some((start, end)) => {
                format!(", 'tiledb.timestamp_start', {start}, 'tiledb.timestamp_end', {end}")
            }
            None => String::new(),
        };
        let found = rows(&ctx, &ask("tiledb_metadata", &options, "")).await?;
        compare(&format!("metadata {window}"), list(entries), &found)?;
    }
    Ok(())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Every expected value is in the row at the same index.
fn compare(what: &str, facts: &[Value], rows: &[Row]) -> Result<(), Failed> {
    if facts.len() != rows.len() {
        return Err(format!(
            "{what}: expected {} rows, found {}",
            facts.len(),
            rows.len()
        )
        .into());
    }
    for (i, (fact, row)) in facts.iter().zip(rows).enumerate() {
        for (column, wanted) in fact.as_object().into_iter().flatten() {
            let found = row.get(column).unwrap_or(&Value::Null);
            same(&format!("{what} {i}, {column}"), wanted, found)?;
        }
    }
    Ok(())
}

fn same(what: &str, wanted: &Value, found: &Value) -> Result<(), Failed> {
    if wanted == found {
        return Ok(());
    }
    Err(format!("{what}: expected {wanted}, found {found}").into())
}

fn check_fragments(facts: &[Value], rows: &[Row]) -> Result<(), Failed> {
    let facts: Vec<Value> = facts
        .iter()
        .map(|fact| {
            let mut fact = fact.clone();
            let fields = fact.as_object_mut().expect("a fragment is an object");
            fields.remove("mbrs");
            for (fact, column) in [("t1", "timestamp_start"), ("t2", "timestamp_end")] {
                let ms: i64 = fields
                    .remove(fact)
                    .unwrap_or_default()
                    .as_str()
                    .unwrap_or_default()
                    .parse()
                    .expect("a time");
                let time = chrono_text(ms);
                fields.insert(column.to_owned(), Value::String(time));
            }
            let bytes = fields.remove("bytes").unwrap_or_default();
            fields.insert("total_bytes".to_owned(), bytes);
            fact
        })
        .collect();
    compare("fragments", &facts, rows)
}

/// Milliseconds as Arrow shows them; the fixtures' are of the first days.
fn chrono_text(ms: i64) -> String {
    let array = datafusion::arrow::array::TimestampMillisecondArray::from(vec![ms]);
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(&array, &options).expect("times are shown");
    formatter.value(0).to_string()
}

/// The MBRs of sparse fragments, and that no tile is missing or too many.
async fn check_mbrs(ctx: &SessionContext, array: &str, fragments: &[Value]) -> Result<(), Failed> {
    for fragment in fragments {
        let Some(mbrs) = fragment["mbrs"].as_array() else {
            continue;
        };
        let name = fragment["fragment"].as_str().unwrap_or_default();
        let dimension = fragment["non_empty_domain"][0][0]
            .as_str()
            .unwrap_or_default();
        let sql = format!(
            "SELECT tile, mbr FROM tiledb_tiles('{array}') \
             WHERE fragment = '{name}' AND field = '{dimension}' ORDER BY tile"
        );
        let tiles = rows(ctx, &sql).await?;
        let found = tiles.iter().map(|row| row["mbr"].clone()).collect();
        same("MBRs", &Value::Array(mbrs.clone()), &Value::Array(found))?;
    }
    Ok(())
}

async fn check_tiles(ctx: &SessionContext, array: &str, facts: &[Value]) -> Result<(), Failed> {
    let sql = format!("SELECT * FROM tiledb_tiles('{array}')");
    let found = rows(ctx, &sql).await?;
    let facts: Vec<Value> = facts
        .iter()
        .map(|fact| {
            let mut fact = fact.clone();
            let fields = fact.as_object_mut().expect("a tile is an object");
            // What a tile of nulls or NaN stores says nothing.
            if fields.remove("unknown").is_some() {
                for column in ["min", "max", "sum"] {
                    fields.remove(column);
                }
            }
            fact
        })
        .collect();
    compare("tiles", &facts, &found)
}

async fn rows(ctx: &SessionContext, sql: &str) -> Result<Vec<Row>, Failed> {
    let batches = ctx.sql(sql).await?.collect().await?;
    let mut rows = Vec::new();
    for batch in &batches {
        for row in 0..batch.num_rows() {
            rows.push(of_row(batch, row)?);
        }
    }
    Ok(rows)
}

fn of_row(batch: &RecordBatch, row: usize) -> Result<Row, Failed> {
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns());
    columns
        .map(|(field, column)| Ok((field.name().clone(), cell(column, row)?)))
        .collect()
}

/// A cell as text; a list of structs as a list of lists.
fn cell(column: &dyn Array, row: usize) -> Result<Value, Failed> {
    if column.is_null(row) {
        return Ok(Value::Null);
    }
    if let Some(list) = column.as_list_opt::<i32>() {
        let items = list.value(row);
        let item = |i| match items.as_struct_opt() {
            Some(item) => {
                let fields = item.columns().iter().map(|f| cell(f, i));
                fields.collect::<Result<_, _>>().map(Value::Array)
            }
            None => cell(&items, i),
        };
        let items = (0..items.len()).map(item).collect::<Result<_, _>>()?;
        return Ok(Value::Array(items));
    }
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(column, &options)?;
    Ok(Value::String(formatter.value(row).to_string()))
}
