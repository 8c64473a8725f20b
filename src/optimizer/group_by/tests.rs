//! Tests that groups are the same by runs, by numbers and by hash.

use datafusion::arrow::array::{
    ArrayRef, Float64Array, Int32Array, RecordBatch, StringArray, UInt8Array,
};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::MemTable;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionConfig, SessionContext};
use proptest::prelude::*;

use super::*;

/// Repeated rows: the keys, and the number of repetitions.
type Run = (u8, Option<bool>, usize);

fn batches(runs: &[Run], rows_per_batch: usize) -> Vec<RecordBatch> {
    let rows = runs
        .iter()
        .flat_map(|(key, text, count)| {
            let text = text.map(|b| if b { "b" } else { "" });
            (0..*count).map(move |i| (*key, text, i))
        })
        .collect::<Vec<_>>();
    let column = |array: ArrayRef| array;
    let batch = |rows: &[(u8, Option<&str>, usize)]| {
        let keys = column(Arc::new(UInt8Array::from_iter_values(
            rows.iter().map(|r| r.0),
        )));
        let text = column(Arc::new(rows.iter().map(|r| r.1).collect::<StringArray>()));
        let number = |i: &usize| (i % 3 != 1).then_some(*i as i32 - 4);
        let numbers = column(Arc::new(
            rows.iter().map(|r| number(&r.2)).collect::<Int32Array>(),
        ));
        // These are integers, so that sums do not depend on the order.
        let floats = rows.iter().map(|r| (r.2 % 5 != 2).then_some(r.2 as f64));
        let floats = column(Arc::new(floats.collect::<Float64Array>()));
        RecordBatch::try_from_iter_with_nullable([
            ("k", keys, false),
            ("s", text, true),
            ("i", numbers, true),
            ("f", floats, true),
        ])
        .unwrap()
    };
    if rows.is_empty() {
        vec![batch(&[])]
    } else {
        rows.chunks(rows_per_batch).map(batch).collect()
    }
}

/// How the groups of rows are found.
#[derive(Debug, Clone, Copy, PartialEq)]
enum By {
    /// As DataFusion does.
    Hash,
    Runs,
    /// In a table of all integers, or of only some, if all keys are small integers.
    Numbers,
    SomeNumbers,
}

/// The ranges of the keys, or wrong ones on purpose; empty unless all keys are small integers.
fn spans(aggregate: &AggregateExec, by: By) -> Vec<KeySpan> {
    let input = aggregate.input().schema();
    let span = |(key, _): &(Arc<dyn PhysicalExpr>, String)| {
        let data_type = key.data_type(&input).ok()?;
        match by {
            By::SomeNumbers => {
                let ends = [2, 5].map(|n| ScalarValue::Int8(Some(n)).cast_to(&data_type));
                let [least, greatest] = ends.map(|end| end.ok());
                KeySpan::between(&least?, &greatest?)
            }
            _ => KeySpan::of_type(&data_type),
        }
    };
    let spans = aggregate.group_expr().expr().iter().map(span);
    spans.collect::<Option<Vec<_>>>().unwrap_or_default()
}

/// The sorted answer, with each partial aggregate replaced as `by` says.
async fn answer(ctx: &SessionContext, sql: &str, by: By) -> Result<String> {
    let plan = ctx.sql(sql).await?.create_physical_plan().await?;
    let mut taken = 0;
    let plan = plan
        .transform_down(|plan| {
            let otherwise = match plan.downcast_ref::<AggregateExec>() {
                Some(aggregate) if by != By::Hash && only_needs_states(aggregate) => {
                    let spans = match by {
                        By::Hash | By::Runs => Vec::new(),
                        By::Numbers | By::SomeNumbers => spans(aggregate, by),
                    };
                    over_states(aggregate, spans)?
                }
                _ => None,
            };
            Ok(match otherwise {
                Some(plan) => {
                    taken += 1;
                    Transformed::yes(plan)
                }
                None => Transformed::no(plan),
            })
        })
        .data()?;
    assert_eq!(taken, usize::from(by != By::Hash), "{sql}");
    let batches = collect(plan, ctx.task_ctx()).await?;
    let mut lines = pretty_format_batches(&batches)?.to_string();
    let mut sorted = lines.lines().collect::<Vec<_>>();
    sorted.sort_unstable();
    lines = sorted.join("\n");
    Ok(lines)
}

const QUERIES: [&str; 10] = [
    "SELECT k, count(*), count(i), sum(i), avg(i), min(i), max(i) FROM t GROUP BY k",
    "SELECT s, k, count(*), sum(f), avg(f), max(f) FROM t GROUP BY k, s",
    "SELECT k / 4 AS q, sum(i), count(DISTINCT i), avg(f) FILTER (WHERE i > 0) FROM t GROUP BY 1",
    "SELECT DISTINCT s FROM t",
    "SELECT nullif(k, 3) AS n, count(*), sum(i), avg(f) FROM t GROUP BY 1",
    "SELECT CAST(CAST(nullif(k, 0) AS INT) - 5 AS SMALLINT) AS n, count(f), max(f) FROM t GROUP BY 1",
    "SELECT s, round(stddev(f), 6), bool_or(i > 3), sum(i) FILTER (WHERE i IS NULL) FROM t GROUP BY s",
    "SELECT k, sum(2), count(NULL), count(1) FROM t GROUP BY k",
    "SELECT k, nullif(k, 3) AS n, count(*), sum(i), max(f) FROM t GROUP BY 1, 2",
    "SELECT k + length(coalesce(s, 'x')) AS n, count(s) FROM t GROUP BY n",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn groups_are_the_same(
        runs in prop::collection::vec((0..9_u8, any::<Option<bool>>(), prop_oneof![1..3_usize, 1..120_usize]), 0..40),
        rows_per_batch in prop_oneof![Just(1_usize), Just(7), Just(4096)],
        partitions in 1..3_usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let batches = batches(&runs, rows_per_batch);
            let config = SessionConfig::new().with_target_partitions(partitions).with_batch_size(16);
            let ctx = SessionContext::new_with_config(config);
            let table = MemTable::try_new(batches[0].schema(), vec![batches]).unwrap();
            ctx.register_table("t", Arc::new(table)).unwrap();
            for sql in QUERIES {
                let plain = answer(&ctx, sql, By::Hash).await.unwrap();
                for by in [By::Runs, By::Numbers, By::SomeNumbers] {
                    assert_eq!(plain, answer(&ctx, sql, by).await.unwrap(), "{sql} by {by:?}");
                }
            }
        });
    }
}

/// States are passed on early if there are too many groups, or no memory for more.
#[tokio::test]
async fn groups_go_on_when_there_are_too_many() {
    let rows = 150_000;
    let column =
        |of: fn(i32) -> i32| Arc::new(Int32Array::from_iter_values((0..rows).map(of))) as ArrayRef;
    let batch = [("k", column(|i| i / 2 % 70_000)), ("i", column(|i| i))];
    let batch = RecordBatch::try_from_iter(batch).unwrap();
    let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
    let table = Arc::new(table);
    let sql = "SELECT count(*), sum(n), sum(s) FROM (SELECT k, count(*) AS n, sum(i) AS s FROM t GROUP BY k) AS g";
    let mut answers = Vec::new();
    let most = usize::MAX;
    for (by, memory) in [
        (By::Hash, most),
        (By::Runs, most),
        (By::Runs, 8 << 20),
        (By::SomeNumbers, most),
        (By::SomeNumbers, 8 << 20),
    ] {
        let runtime = RuntimeEnvBuilder::new().with_memory_limit(memory, 1.0);
        let config = SessionConfig::new().with_target_partitions(2);
        let ctx = SessionContext::new_with_config_rt(config, runtime.build_arc().unwrap());
        ctx.register_table("t", Arc::clone(&table) as _).unwrap();
        answers.push(answer(&ctx, sql, by).await.unwrap());
    }
    assert!(answers[0].contains("| 70000"), "{}", answers[0]);
    assert!(answers.iter().all(|answer| *answer == answers[0]));
}
