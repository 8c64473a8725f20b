//! The golden arrays, read by three workers.

use std::path::PathBuf;

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;
use datafusion_tiledb::execute;
use libtest_mimic::Failed;
use serde_json::Value;

use crate::support::golden;
use crate::support::session_shapes::{Shape, USUAL};

trials!(golden::on_one_of(8, 5, read_by_workers));

/// The rows of an array, and what metadata answer, are those of one process; so is a refusal.
async fn read_by_workers(place: PathBuf, entry: Value) -> Result<(), Failed> {
    let (plain, workers) = (USUAL.context()?, Shape::with_workers(3).context()?);
    let options = golden::options(&entry);
    let options = options
        .iter()
        .map(|(key, value)| format!("'{}' '{}'", key, value.replace('\'', "''")))
        .collect::<Vec<_>>();
    let options = match options.as_slice() {
        [] => String::new(),
        options => format!("OPTIONS ({})", options.join(", ")),
    };
    let create = format!(
        "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{}' {options}",
        place.display()
    );
    for ctx in [&plain, &workers] {
        execute(ctx, &create).await?.collect().await?;
    }
    for sql in ["SELECT * FROM t", "SELECT count(*) AS n FROM t"] {
        let (found, expected) = (rows(&workers, sql).await, rows(&plain, sql).await);
        match (found, expected) {
            (Ok(found), Ok(expected)) if found == expected => {}
            (Err(_), Err(_)) => {}
            (found, expected) => {
                return Err(format!("{sql}\n{found:?}\nexpected\n{expected:?}").into());
            }
        }
    }
    Ok(())
}

/// The rows in an order of their own.
async fn rows(ctx: &SessionContext, sql: &str) -> Result<Vec<String>, String> {
    let read = async { execute(ctx, sql).await?.collect().await };
    let batches = read.await.map_err(|e| e.strip_backtrace())?;
    let shown = pretty_format_batches(&batches).map_err(|e| e.to_string())?;
    let mut lines: Vec<_> = shown.to_string().lines().map(str::to_owned).collect();
    lines.sort_unstable();
    Ok(lines)
}
