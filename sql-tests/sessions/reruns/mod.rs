//! Plans that run again: a plan that is reset gives the same answer. What operators found out in one run is nothing to the next.
//! Plans that run late are in [`late`], [`late_commits`] and [`late_partitions`].

mod late;
mod late_commits;
mod late_partitions;

use std::sync::Arc;

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::Result;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use libtest_mimic::Failed;

use crate::support::fixtures;
use crate::support::session_shapes::{SHAPES, USUAL};
use crate::support::trials::SqlTrial;
use crate::support::turns;
use crate::{block_on, trial};

/// Statements whose operators hand the scan filters while they run; in `seldom`, `c` = `d` modulo 1000.
const STATEMENTS: [(&str, &str, &str); 5] = [
    (
        "a_bound",
        "SELECT min(c) AS a, max(d) AS b FROM seldom WHERE d % 7 = 3",
        "| 0 | 1999994 |",
    ),
    (
        "a_top",
        "SELECT c AS a, d AS b FROM seldom ORDER BY c DESC, d LIMIT 1",
        "| 999 | 999 |",
    ),
    (
        "a_join",
        "SELECT count(*) AS a, max(d) AS b FROM seldom JOIN (VALUES (7), (9)) v(k) ON seldom.d = v.k * 1000",
        "| 2 | 9000 |",
    ),
    (
        "a_limit",
        "SELECT count(*) AS a, 0 AS b FROM (SELECT d FROM seldom LIMIT 10)",
        "| 10 | 0 |",
    ),
    // The values of each group are sorted, and the filter of the top-k does not pass that sort.
    (
        "a_top_of_groups",
        "SELECT count(*) AS a, sum(array_length(xs)) AS b FROM (SELECT array_agg(x ORDER BY x) AS xs \
         FROM tiledb_scan('$GRID') GROUP BY row, col ORDER BY row, col LIMIT 2)",
        "| 2 | 2 |",
    ),
];

trials!(statements());

fn statements() -> Vec<SqlTrial> {
    let statements = STATEMENTS.into_iter().enumerate();
    let trials = statements.map(|(number, (name, sql, expected))| {
        trial(name, move || block_on(run(number, sql, expected)))
    });
    trials.collect()
}

/// Neighbours among the statements take turns with the shapes, unless `GOLDEN=each` is set.
async fn run(number: usize, sql: &str, expected: &str) -> Result<(), Failed> {
    // One session takes the rows one by one, which takes too long for two million.
    let shapes = [USUAL].into_iter().chain(SHAPES);
    let shapes = shapes.filter(|shape| shape.batch_size > 1).enumerate();
    for (_, shape) in shapes.filter(|(turn, _)| turns::is_taken(number, *turn, 2)) {
        let ctx = shape.context()?;
        let array = fixtures::root().join("large/seldom");
        let table = format!(
            "CREATE EXTERNAL TABLE seldom STORED AS TILEDB LOCATION '{}'",
            array.display()
        );
        ctx.sql(&table).await?;
        let grid = fixtures::root().join("fuzz/arrays/grid");
        let sql = sql.replace("$GRID", &grid.display().to_string());
        let plan = ctx.sql(&sql).await?.create_physical_plan().await?;
        let first = answer(&ctx, Arc::clone(&plan)).await?;
        let again = reset_plan_states(plan)?;
        let second = answer(&ctx, Arc::clone(&again)).await?;
        let third = answer(&ctx, reset_plan_states(again)?).await?;
        for (run, found) in [("first", first), ("second", second), ("third", third)] {
            if !found.contains(expected) {
                return Err(format!("{}, {run} run: {found}", shape.name).into());
            }
        }
    }
    Ok(())
}

/// The rows, with single blanks.
async fn answer(ctx: &SessionContext, plan: Arc<dyn ExecutionPlan>) -> Result<String> {
    let batches = collect(plan, ctx.task_ctx()).await?;
    let table = pretty_format_batches(&batches)?.to_string();
    Ok(table.split_whitespace().collect::<Vec<_>>().join(" "))
}
