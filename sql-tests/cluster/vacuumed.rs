//! Files that go between the planning of a query and its run.

use std::sync::Arc;

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::SessionContext;
use datafusion_tiledb::{Error, ErrorKind, execute};
use libtest_mimic::Failed;

use super::run_statements;
use crate::support::session_shapes::{Shape, USUAL};

/// What happens to the array before the plan runs.
struct VacuumCase {
    changes: &'static [&'static str],
    /// Whether the array has the same rows afterwards.
    same_rows: bool,
}

const CASES: [VacuumCase; 2] = [
    VacuumCase {
        changes: &[],
        same_rows: true,
    },
    VacuumCase {
        changes: &["DELETE FROM '$P' WHERE x % 2 = 0"],
        same_rows: false,
    },
];

/// An array of several fragments.
const FRAGMENTS: [&str; 4] = [
    "CREATE EXTERNAL TABLE t (x BIGINT, k VARCHAR, v DOUBLE, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '$P' \
     OPTIONS ('tiledb.capacity' '1000', 'tiledb.dim.x.domain' '[0, 1000000]')",
    "INSERT INTO '$P' SELECT value, 'k' || (value % 7), value / 2.0 FROM generate_series(0, 29999)",
    "INSERT INTO '$P' SELECT value, 'k' || (value % 7), value / 4.0 FROM generate_series(30000, 59999)",
    "INSERT INTO '$P' SELECT value * 3, 'late', -1.0 FROM generate_series(0, 9999)",
];

const VACUUM: [&str; 2] = [
    "SELECT * FROM tiledb_consolidate('$P')",
    "SELECT * FROM tiledb_vacuum('$P', min_age => '0')",
];

/// Queries that read the array once, and one that reads it twice.
const QUERIES: [(&str, bool); 5] = [
    (
        "SELECT count(*) AS n, avg(v) AS m, min(x) AS low FROM '$P'",
        true,
    ),
    (
        "SELECT k, count(*) AS n, sum(v) AS s FROM '$P' GROUP BY k ORDER BY k",
        true,
    ),
    (
        "SELECT x, k, v FROM '$P' WHERE v > 100 AND x % 100 = 7 ORDER BY v, x",
        true,
    ),
    ("SELECT x, v FROM '$P' ORDER BY v DESC, x LIMIT 5", true),
    (
        "SELECT count(*) AS n FROM '$P' AS a JOIN '$P' AS b ON a.x = b.x + 1",
        false,
    ),
];

trial!(vacuumed_fragments);
/// A query whose fragments are vacuumed before it runs is planned again on workers, as it is in one process.
async fn vacuumed_fragments() -> Result<(), Failed> {
    for case in &CASES {
        for (sql, reads_once) in QUERIES {
            let folder = tempfile::tempdir()?;
            let place = folder.path().join("a").display().to_string();
            let sql = sql.replace("$P", &place);
            let writer = USUAL.context()?;
            run_statements(&writer, &FRAGMENTS, &place).await?;
            let cluster = Shape::with_workers(2).context()?;
            let (plan, context) = planned(&cluster, &sql).await?;
            if !displayable(plan.as_ref())
                .indent(false)
                .to_string()
                .contains("DistributedExec")
            {
                return Err(format!("{sql} stays in the process").into());
            }
            run_statements(&writer, case.changes, &place).await?;
            run_statements(&writer, &VACUUM, &place).await?;
            let found = collect(plan, context).await;
            if !case.same_rows && !reads_once {
                match found {
                    Err(error) if is_conflict(&error) => continue,
                    Err(error) => return Err(format!("{sql}: no conflict: {error}").into()),
                    Ok(_) => return Err(format!("{sql} shows two states of the array").into()),
                }
            }
            let found =
                pretty_format_batches(&found.map_err(|e| format!("{sql}: {e}"))?)?.to_string();
            let expected = execute(&USUAL.context()?, &sql).await?.collect().await?;
            let expected = pretty_format_batches(&expected)?.to_string();
            if found != expected {
                return Err(format!("{sql}\n{found}\nexpected\n{expected}").into());
            }
        }
    }
    Ok(())
}

/// Whether the kind of an error has come through.
fn is_conflict(error: &DataFusionError) -> bool {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| {
        error.source()
    });
    let mut kinds = causes.filter_map(|error| Some(error.downcast_ref::<Error>()?.kind()));
    kinds.next() == Some(ErrorKind::Conflict)
}

async fn planned(
    ctx: &SessionContext,
    sql: &str,
) -> Result<(Arc<dyn ExecutionPlan>, Arc<TaskContext>), Failed> {
    let frame = execute(ctx, sql).await?;
    let context = Arc::new(frame.task_ctx());
    Ok((frame.create_physical_plan().await?, context))
}
