//! Enumerated columns of every golden array that has some: joins, subqueries, groups, orders, ends and conditions give what the
//! same rows give in memory, whatever codes, statistics and run-time filters do on the way.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::catalog::TableProvider;
use datafusion::prelude::{SessionConfig, SessionContext};
use libtest_mimic::Failed;
use serde_json::Value;

use crate::golden::pruning;
use crate::support::{golden, neutral_rows};

/// Partitions and rows of a batch: answers must not depend on it.
const SESSIONS: [(usize, usize); 2] = [(3, 8192), (1, 7)];

trials!(golden::on_oldest_or_newest(2, |array, entry| async move {
    check(&array, &entry).await
}));

async fn check(array: &Path, entry: &Value) -> Result<(), Failed> {
    let of_enumerations = |entry: &Value| {
        let features = entry["features"].as_array().into_iter().flatten();
        features.into_iter().any(|f| f == "enumeration")
    };
    if !of_enumerations(entry) {
        return Ok(());
    }
    let Some((table, memory, rows)) = pruning::copied(array, entry).await? else {
        return Ok(());
    };
    let schema = rows.schema();
    let leading = quoted(schema.field(0).name());
    let mut found_some = false;
    for (number, field) in schema.fields().iter().enumerate() {
        if !field.metadata().contains_key("tiledb.enumeration") {
            continue;
        }
        found_some = true;
        let column = quoted(field.name());
        let mut queries = joined(&leading, &column);
        if !field.data_type().is_nested() {
            queries.extend(compared(&column, &rows, number));
        }
        for (query, session) in queries.iter().zip(SESSIONS.into_iter().cycle()) {
            let expected = answer(Arc::clone(&memory) as _, session, query).await;
            let found = answer(Arc::clone(&table) as _, session, query).await;
            match (found, expected) {
                (Ok(found), Ok(expected)) if found == expected => {}
                // What DataFusion cannot do with rows in memory, such as joining lists, it need not do here.
                (_, Err(_)) if matches!(field.data_type(), DataType::Dictionary(..)) => {}
                (found, expected) => {
                    return Err(format!(
                        "{query} in {session:?}\nexpected {expected:#?}\nfound {found:#?}"
                    )
                    .into());
                }
            }
        }
    }
    if found_some {
        Ok(())
    } else {
        Err("no column says that it is enumerated".into())
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Joins, subqueries, groups and orders.
fn joined(leading: &str, column: &str) -> Vec<String> {
    let (d, c) = (leading, column);
    let some = format!("(SELECT * FROM t ORDER BY {d} LIMIT 9)");
    vec![
        format!("SELECT a.{d}, b.{d} FROM t a JOIN {some} b ON a.{c} = b.{c}"),
        format!(
            "SELECT a.{d}, b.{d} FROM {some} a LEFT JOIN t b ON a.{c} = b.{c} AND b.{d} IS NOT NULL"
        ),
        format!(
            "SELECT a.{d}, b.{c} FROM t a FULL JOIN {some} b ON a.{c} IS NOT DISTINCT FROM b.{c}"
        ),
        format!("SELECT count(*), count({c}) FROM t WHERE {c} IN (SELECT {c} FROM {some})"),
        format!(
            "SELECT {d} FROM t WHERE {c} NOT IN (SELECT {c} FROM {some} WHERE {c} IS NOT NULL)"
        ),
        format!("SELECT {d} FROM t a WHERE EXISTS (SELECT 1 FROM {some} b WHERE a.{c} = b.{c})"),
        format!(
            "SELECT {d} FROM t a WHERE NOT EXISTS (SELECT 1 FROM {some} b WHERE a.{c} = b.{c})"
        ),
        format!("SELECT {c}, count(*), min({d}) FROM t GROUP BY {c}"),
        format!("SELECT {c}, {d}, count(*) FROM t GROUP BY {c}, {d}"),
        format!(
            "SELECT a.{c}, count(*) FROM t a JOIN t b ON a.{c} = b.{c} AND a.{d} = b.{d} GROUP BY a.{c}"
        ),
        format!("SELECT DISTINCT {c} FROM t WHERE {c} IS NOT NULL"),
        format!("SELECT count({c}), count(DISTINCT {c}) FROM t"),
        format!("SELECT count(*) FROM t WHERE {c} IS NULL"),
        format!("SELECT {c} FROM t UNION SELECT {c} FROM {some}"),
        format!("SELECT {d}, count(*) OVER (PARTITION BY {c}) FROM t"),
    ]
}

/// Comparisons with values that occur, and the ends.
fn compared(column: &str, rows: &RecordBatch, number: usize) -> Vec<String> {
    let c = column;
    let mut queries = vec![
        format!("SELECT min({c}), max({c}) FROM t"),
        format!("SELECT {c} FROM t ORDER BY {c} LIMIT 5"),
        format!("SELECT {c} FROM t ORDER BY {c} DESC NULLS LAST LIMIT 5"),
        format!("SELECT first_value({c} ORDER BY {c}) FROM t"),
    ];
    let ty = rows.column(number).data_type();
    let plain = !matches!(ty, DataType::Dictionary(..));
    if ty.is_numeric() {
        queries.push(format!("SELECT sum({c}), avg({c}), count({c}) FROM t"));
    }
    let shown = |row: usize| array_value_to_string(rows.column(number), row).unwrap_or_default();
    let present = (0..rows.num_rows()).filter(|row| !rows.column(number).is_null(*row));
    let mut values = present.map(shown).collect::<Vec<_>>();
    values.sort();
    values.dedup();
    let literal = |value: &String| {
        let text = format!("'{}'", value.replace('\'', "''"));
        if plain {
            format!("arrow_cast({text}, '{ty}')")
        } else {
            text
        }
    };
    if matches!(ty, DataType::Dictionary(_, of) if of.is_binary()) {
        return queries;
    }
    for (value, other) in values.iter().zip(values.iter().rev()).take(8) {
        let (value, other) = (literal(value), literal(other));
        for op in ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM"] {
            queries.push(format!("SELECT * FROM t WHERE {c} {op} {value}"));
        }
        queries.push(format!(
            "SELECT * FROM t WHERE {c} BETWEEN {value} AND {other}"
        ));
        queries.push(format!(
            "SELECT * FROM t WHERE {c} IN ({value}, {other}, {value}, {other})"
        ));
        queries.push(format!(
            "SELECT * FROM t WHERE NOT ({c} = {value} OR {c} IS NULL)"
        ));
    }
    if values.len() > 4 {
        let all = values
            .iter()
            .skip(1)
            .map(literal)
            .collect::<Vec<_>>()
            .join(", ");
        queries.push(format!("SELECT * FROM t WHERE {c} IN ({all})"));
        queries.push(format!("SELECT * FROM t WHERE {c} NOT IN ({all})"));
    }
    queries
}

async fn answer(
    table: Arc<dyn TableProvider>,
    (partitions, batch_size): (usize, usize),
    query: &str,
) -> Result<Vec<String>, String> {
    let config = SessionConfig::new()
        .with_target_partitions(partitions)
        .with_batch_size(batch_size);
    let ctx = SessionContext::new_with_config(config);
    datafusion_tiledb::register(&ctx).map_err(|e| e.to_string())?;
    ctx.register_table("t", table).map_err(|e| e.to_string())?;
    let frame = ctx.sql(query).await.map_err(|e| e.to_string())?;
    let batches = frame.collect().await.map_err(|e| e.to_string())?;
    Ok(neutral_rows::rows(&batches))
}
