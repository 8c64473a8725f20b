//! What statements change.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;

use crate::evolve;
use crate::functions::maintenance::MAINTENANCE_FUNCTIONS;

/// Whether running a plan changes something: rows of a table, files, arrays or groups. A program that may read the rows of a
/// statement more than once runs such a plan only once.
///
/// ```
/// use datafusion::prelude::SessionContext;
/// use datafusion_tiledb::session::changes_something;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let ctx = SessionContext::new();
/// datafusion_tiledb::register(&ctx)?;
/// for (sql, changes) in [
///     ("COPY (SELECT 1 AS n) TO 'n.csv'", true),
///     ("SELECT outcome FROM tiledb_vacuum('./examples/data/weather_stations')", true),
///     ("SELECT station FROM './examples/data/weather_stations'", false),
/// ] {
///     let frame = datafusion_tiledb::execute(&ctx, sql).await?;
///     assert_eq!(changes_something(frame.logical_plan()), changes);
/// }
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
pub fn changes_something(plan: &LogicalPlan) -> bool {
    // EXPLAIN runs nothing; EXPLAIN ANALYZE does.
    if matches!(plan, LogicalPlan::Explain(_)) {
        return false;
    }
    let mut changes = false;
    let walked = plan.apply_with_subqueries(|node| {
        changes |= match node {
            LogicalPlan::Dml(_) | LogicalPlan::Copy(_) => true,
            LogicalPlan::TableScan(scan) => is_change(scan.table_name.table()),
            _ => false,
        };
        Ok(if changes {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    });
    changes || walked.is_err()
}

/// Whether a scan is the call of a function that changes something. DataFusion names it after the function.
fn is_change(table: &str) -> bool {
    let name = table.trim_end_matches("()");
    MAINTENANCE_FUNCTIONS.contains(&name)
        || evolve::all().iter().any(|function| function.name() == name)
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;

    #[tokio::test]
    async fn changes_are_found_wherever_they_are() {
        let ctx = SessionContext::new();
        crate::register(&ctx).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let array = folder.path().join("array").display().to_string();
        let create = format!(
            "CREATE EXTERNAL TABLE t (x INT, v INT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '{array}'"
        );
        crate::execute(&ctx, &create).await.unwrap();
        crate::execute(&ctx, "CREATE TABLE m (n INT)")
            .await
            .unwrap();
        for (sql, expected) in [
            ("SELECT * FROM t", false),
            ("SELECT * FROM tiledb_fragments('$A')", false),
            ("SELECT * FROM tiledb_check('$A')", false),
            ("EXPLAIN INSERT INTO t VALUES (1, 1)", false),
            ("EXPLAIN ANALYZE INSERT INTO t VALUES (1, 1)", true),
            ("INSERT INTO t VALUES (1, 1)", true),
            ("INSERT INTO m VALUES (1)", true),
            ("UPDATE t SET v = 1", true),
            ("DELETE FROM t", true),
            ("COPY t TO 'x.csv'", true),
            ("SELECT * FROM tiledb_consolidate('$A')", true),
            (
                "SELECT 1 WHERE EXISTS (SELECT * FROM tiledb_vacuum('$A'))",
                true,
            ),
            (
                "SELECT * FROM tiledb_set_metadata('$A', 'k', 1) UNION ALL SELECT * FROM tiledb_evolve('$A', drop => 'v')",
                true,
            ),
        ] {
            let sql = sql.replace("$A", &array);
            let frame = crate::execute(&ctx, &sql).await.unwrap();
            assert_eq!(changes_something(frame.logical_plan()), expected, "{sql}");
        }
    }
}
