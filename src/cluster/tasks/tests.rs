//! Shares of random scans: each unit is in exactly one share, shares are even, and together they have the rows of the scan.

use std::fmt::Write as _;

use datafusion::arrow::util::display::array_value_to_string;
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::execution::TaskContext;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::TryStreamExt;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tokio::runtime::Runtime;

use super::*;
use crate::scan::source::task::TaskUnits;

/// An array, a query of it, and a number of tasks.
#[derive(Debug, Clone)]
struct ShareCase {
    dense: bool,
    duplicates: bool,
    capacity: u64,
    tile: u64,
    /// Per fragment: the first coordinate, how far apart cells are, and how many cells there are.
    fragments: Vec<(i64, i64, i64)>,
    condition: String,
    order: &'static str,
    tasks: usize,
}

fn case() -> impl Strategy<Value = ShareCase> {
    let fragment = (0_i64..800, 1_i64..4, 1_i64..200);
    let conditions = prop_oneof![
        Just(String::new()),
        (0_i64..900, 0_i64..900).prop_map(|(a, b)| format!("WHERE x BETWEEN {a} AND {b}")),
        (0_i64..900).prop_map(|a| format!("WHERE v > {a}")),
        (0_i64..900, 0_i64..900)
            .prop_map(|(a, b)| format!("WHERE x < {a} AND y > {b} % 20 OR v = {b}")),
    ];
    (
        any::<bool>(),
        any::<bool>(),
        1_u64..50,
        1_u64..300,
        prop::collection::vec(fragment, 0..5),
        conditions,
        prop_oneof![
            Just(""),
            Just("ORDER BY x, y"),
            Just("ORDER BY v DESC LIMIT 7")
        ],
        1_usize..=16,
    )
        .prop_map(
            |(dense, duplicates, capacity, tile, fragments, condition, order, tasks)| ShareCase {
                dense,
                duplicates,
                capacity,
                tile,
                fragments,
                condition,
                order,
                tasks,
            },
        )
}

impl ShareCase {
    fn statements(&self, place: &str) -> Vec<String> {
        let kind = match self.dense {
            true => format!(
                "'tiledb.array_type' 'dense', 'tiledb.dim.x.tile' '{}', 'tiledb.dim.y.tile' '3'",
                self.tile
            ),
            false => format!(
                "'tiledb.capacity' '{}', 'tiledb.allows_duplicates' '{}'",
                self.capacity, self.duplicates
            ),
        };
        let mut statements = vec![format!(
            "CREATE EXTERNAL TABLE t (x BIGINT, y BIGINT, v BIGINT, PRIMARY KEY (x, y)) STORED AS TILEDB LOCATION '{place}' \
             OPTIONS ('tiledb.dim.x.domain' '[0, 1499]', 'tiledb.dim.y.domain' '[0, 19]', {kind})"
        )];
        for (number, (first, step, count)) in self.fragments.iter().enumerate() {
            let rows = match self.dense {
                // A fragment of a dense array is a box.
                true => format!(
                    "SELECT {first} + value / 20, value % 20, value + {number} FROM generate_series(0, {})",
                    count * 20 - 1
                ),
                false => format!(
                    "SELECT {first} + value * {step}, value % 20, value * {step} + {number} FROM generate_series(0, {count})"
                ),
            };
            statements.push(format!("INSERT INTO t {rows}"));
        }
        statements
    }

    fn query(&self) -> String {
        format!("SELECT * FROM t {} {}", self.condition, self.order)
    }
}

fn source_of(plan: &Arc<dyn ExecutionPlan>) -> Option<TileDbSource> {
    let source = scan_of(plan).cloned();
    source.or_else(|| plan.children().into_iter().find_map(source_of))
}

/// The rows of all partitions, as texts.
async fn rows(plan: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Result<Vec<String>> {
    let mut rows = Vec::new();
    for partition in 0..plan.properties().partitioning.partition_count() {
        let mut batches = plan.execute(partition, Arc::clone(context))?;
        while let Some(batch) = batches.try_next().await? {
            for row in 0..batch.num_rows() {
                let mut text = String::new();
                for column in batch.columns() {
                    write!(text, "{} ", array_value_to_string(column, row)?).unwrap();
                }
                rows.push(text);
            }
        }
    }
    Ok(rows)
}

async fn check(case: &ShareCase) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let config = SessionConfig::new().with_target_partitions(3);
    let ctx = SessionContext::new_with_config(config);
    crate::register(&ctx).map_err(to_datafusion_error)?;
    for sql in case.statements(&folder.path().join("t").display().to_string()) {
        crate::execute(&ctx, &sql).await?.collect().await?;
    }
    let frame = crate::execute(&ctx, &case.query()).await?;
    let plan = frame.create_physical_plan().await?;
    let Some(source) = source_of(&plan) else {
        // The condition keeps no row.
        return Ok(());
    };
    if source.check_cut().is_err() {
        return Ok(());
    }
    let context = ctx.task_ctx();
    let scan = DataSourceExec::new(Arc::new(source.clone()));
    let mut expected = rows(&(Arc::new(scan) as Arc<dyn ExecutionPlan>), &context).await?;
    let tasks = TaskScanExec::of_source(&source, case.tasks)?;
    assert_eq!(tasks.len(), case.tasks);
    let shares = tasks.iter().map(|task| match &task.task().part.units {
        TaskUnits::Share(share) => Some((share.unit_count(), share.bytes())),
        TaskUnits::Ranges { .. } => None,
    });
    if let Some(shares) = shares.collect::<Option<Vec<_>>>() {
        let units: u64 = shares.iter().map(|(units, _)| units).sum();
        assert_eq!(units, source.plan().unit_count());
        let mean = shares.iter().map(|(_, bytes)| bytes).sum::<u64>() / shares.len() as u64;
        let largest = (0..units).map(|unit| source.plan().unit_bytes(unit)).max();
        let allowed = largest.unwrap_or(0).max(mean / 5) + 1;
        for (units, bytes) in shares {
            assert!(
                bytes.abs_diff(mean) <= allowed,
                "{units} units, {bytes} bytes, {mean} on average"
            );
        }
    }
    let partitions = tasks.iter().map(|task| task.task().part.partitions);
    let partitions = partitions.collect::<std::collections::HashSet<_>>();
    assert_eq!(partitions.len(), 1, "{partitions:?}");
    let mut found = Vec::new();
    for task in tasks {
        let task: Arc<dyn ExecutionPlan> = Arc::new(task);
        found.extend(rows(&task, &context).await?);
    }
    // A scan that stops after some rows may stop after others in tasks.
    if source.fetch().is_none() {
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected);
    }
    Ok(())
}

#[test]
fn shares_of_random_scans_are_even_and_have_all_rows() {
    let runtime = Runtime::new().unwrap();
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let checked = runner.run(&case(), |case| {
        let checked = runtime.block_on(check(&case));
        checked.map_err(|e| TestCaseError::fail(format!("{e}: {}", case.query())))
    });
    checked.unwrap();
}
