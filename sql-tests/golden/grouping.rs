//! GROUP BY, DISTINCT and PARTITION BY on every golden array: it must make no difference that scans are cut at
//! coordinates for them, that enumerations are grouped by their codes, and that rows of one coordinate are taken together.

use std::path::Path;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::prelude::{SessionConfig, SessionContext};
use libtest_mimic::Failed;
use serde_json::Value;

use crate::golden::pruning;
use crate::support::{golden, neutral_rows};

trials!(golden::on_oldest_or_newest(1, |array, entry| async move {
    check(&array, &entry).await
}));

async fn check(array: &Path, entry: &Value) -> Result<(), Failed> {
    let Some((table, memory, rows)) = pruning::copied(array, entry).await? else {
        return Ok(());
    };
    let schema = rows.schema();
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    // Dimensions come first.
    let leading = quoted(schema.field(0).name());
    let mut queries = vec![
        format!("SELECT {leading}, count(*) FROM t GROUP BY {leading}"),
        format!("SELECT DISTINCT {leading} FROM t"),
        format!("SELECT {leading}, count(*) OVER (PARTITION BY {leading}) FROM t"),
    ];
    // Sums of integers do not depend on the order, nor do averages of those that floats hold.
    let added = schema
        .fields()
        .iter()
        .map(|field| {
            let name = quoted(field.name());
            match field.data_type().primitive_width() {
                Some(1..=4) if field.data_type().is_integer() => {
                    format!(", sum({name}), avg({name})")
                }
                Some(8) if field.data_type().is_integer() => format!(", sum({name}), max({name})"),
                _ => format!(", count({name})"),
            }
        })
        .collect::<String>();
    // Dimensions come first; whether the others come in runs does not matter here.
    for by in schema.fields().iter().take(3) {
        let by = quoted(by.name());
        queries.push(format!("SELECT {by}, count(*){added} FROM t GROUP BY {by}"));
    }
    for field in schema.fields() {
        if field.metadata().contains_key("tiledb.enumeration") {
            let shown = quoted(field.name());
            queries.extend([
                format!("SELECT {shown}, count(*) FROM t GROUP BY {shown}"),
                format!("SELECT DISTINCT {shown} FROM t WHERE {shown} IS NOT NULL"),
                format!("SELECT {leading}, {shown}, count(*) FROM t GROUP BY {leading}, {shown}"),
                format!(
                    "SELECT a.{shown}, count(*) FROM t a LEFT JOIN t b USING ({leading}) GROUP BY a.{shown}"
                ),
            ]);
        }
    }
    for (query, partitions) in queries.into_iter().zip([5, 2, 1].into_iter().cycle()) {
        let expected = answer(Arc::clone(&memory) as _, 1, &query).await?;
        let found = answer(Arc::clone(&table) as _, partitions, &query).await?;
        if found != expected {
            let differ = format!(
                "{query} in {partitions} partitions\nexpected {expected:#?}\nfound {found:#?}"
            );
            return Err(differ.into());
        }
    }
    Ok(())
}

async fn answer(
    table: Arc<dyn TableProvider>,
    partitions: usize,
    query: &str,
) -> Result<Vec<String>, Failed> {
    let config = SessionConfig::new().with_target_partitions(partitions);
    let ctx = SessionContext::new_with_config(config);
    datafusion_tiledb::register(&ctx)?;
    ctx.register_table("t", table)?;
    Ok(neutral_rows::rows(&ctx.sql(query).await?.collect().await?))
}
