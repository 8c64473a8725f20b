//! Conditions on text on every golden array: the scan asks them of stored bytes, and of strings that are stored once; rows
//! in memory, of which DataFusion asks them, must give the same answers.
//!
//! Conditions are made of values that occur, and of parts of them.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::TableProvider;
use datafusion::prelude::{SessionConfig, SessionContext};
use libtest_mimic::Failed;
use serde_json::Value;

use crate::golden::pruning;
use crate::support::{golden, neutral_rows};

/// So many values of a column are asked for.
const VALUES: usize = 3;
/// About so many questions are asked of an array.
const QUERIES: usize = 4;

trials!(golden::on_oldest_or_newest(1, |array, entry| async move {
    check(&array, &entry).await
}));

async fn check(array: &Path, entry: &Value) -> Result<(), Failed> {
    let Some((table, memory, rows)) = pruning::copied(array, entry).await? else {
        return Ok(());
    };
    let schema = rows.schema();
    let mut queries = Vec::new();
    for (field, column) in schema.fields().iter().zip(rows.columns()) {
        let name = format!("\"{}\"", field.name().replace('"', "\"\""));
        let conditions: Vec<String> = match field.data_type() {
            DataType::Utf8View => {
                let values = column.as_string_view().iter().flatten();
                let values = some_of(values.map(str::to_owned).collect());
                values.iter().flat_map(|v| on_text(&name, v)).collect()
            }
            DataType::BinaryView => {
                let values = column.as_binary_view().iter().flatten();
                let values = some_of(values.map(<[u8]>::to_vec).collect());
                values.iter().flat_map(|v| on_bytes(&name, v)).collect()
            }
            _ => Vec::new(),
        };
        // Sometimes the column is asked for, sometimes it is only asked about.
        let asked = conditions
            .iter()
            .enumerate()
            .map(|(number, c)| match number % 3 {
                0 => format!("SELECT * FROM t WHERE {c}"),
                1 => format!("SELECT count(*) FROM t WHERE {c}"),
                _ => format!("SELECT {name} FROM t WHERE {c} OR {name} IS NULL"),
            });
        queries.extend(asked);
    }
    let [found, expected] = [(table as Arc<dyn TableProvider>, 2), (memory as _, 1)];
    let (found, expected) = (session(found)?, session(expected)?);
    // Other queries for other arrays.
    let step = queries.len().div_ceil(QUERIES).max(1);
    let first = array.as_os_str().len() % step;
    for query in queries.iter().skip(first).step_by(step) {
        let expected = answer(&expected, query).await?;
        let found = answer(&found, query).await?;
        if found != expected {
            let differ = format!("{query}\nexpected {expected:#?}\nfound {found:#?}");
            return Err(differ.into());
        }
    }
    Ok(())
}

fn session((table, partitions): (Arc<dyn TableProvider>, usize)) -> Result<SessionContext, Failed> {
    let config = SessionConfig::new().with_target_partitions(partitions);
    let ctx = SessionContext::new_with_config(config);
    datafusion_tiledb::register(&ctx)?;
    ctx.register_table("t", table)?;
    Ok(ctx)
}

async fn answer(ctx: &SessionContext, query: &str) -> Result<Vec<String>, Failed> {
    let rows = match ctx.sql(query).await {
        Ok(rows) => rows.collect().await,
        Err(e) => Err(e),
    };
    Ok(neutral_rows::rows(
        &rows.map_err(|e| format!("{query}: {e}"))?,
    ))
}

/// A few different values, from the smallest to the largest.
fn some_of<T: Ord>(mut values: Vec<T>) -> Vec<T> {
    values.sort();
    values.dedup();
    let step = values.len().div_ceil(VALUES).max(1);
    values.into_iter().step_by(step).collect()
}

fn on_text(name: &str, value: &str) -> Vec<String> {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let characters = value.chars().collect::<Vec<_>>();
    let part = |from: usize, to: usize| characters[from..to].iter().collect::<String>();
    let half = characters.len() / 2;
    let (front, back) = (part(0, half), part(half, characters.len()));
    let longer = quoted(&format!("{value}{value}x"));
    let v = quoted(value);
    vec![
        format!("{name} = {v}"),
        format!("{name} = {longer}"),
        format!("{name} <> {v}"),
        format!("{name} IN ({v}, {longer}, 'no such text')"),
        format!("{name} NOT IN ({v}, {longer})"),
        format!("{name} < {v} OR {name} = {longer}"),
        format!("{name} >= {v} AND NOT ({name} = {v})"),
        format!("{name} LIKE {}", quoted(&format!("{front}%"))),
        format!("{name} LIKE {}", quoted(&format!("%{back}"))),
        format!("{name} LIKE {}", quoted(&format!("%{}_%", part(0, half)))),
        format!("{name} NOT LIKE {}", quoted(&format!("%{back}%"))),
        format!("starts_with({name}, {})", quoted(&front)),
        format!("{name} = {v} AND length({name}) = {}", characters.len()),
        format!(
            "{name} = {v} AND {name} LIKE {}",
            quoted(&format!("{front}%"))
        ),
        format!(
            "{name} > {v} AND {name} LIKE {}",
            quoted(&format!("%{back}%"))
        ),
    ]
}

fn on_bytes(name: &str, value: &[u8]) -> Vec<String> {
    let hex = |bytes: &[u8]| {
        let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
        format!(
            "arrow_cast(X'{}', 'BinaryView')",
            digits.collect::<String>()
        )
    };
    let v = hex(value);
    let longer = hex(&[value, b"x"].concat());
    vec![
        format!("{name} = {v}"),
        format!("{name} = {longer}"),
        format!("{name} <> {v}"),
        format!("{name} < {v} OR {name} = {longer}"),
    ]
}
