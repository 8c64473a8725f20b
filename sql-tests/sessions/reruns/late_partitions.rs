//! Partitions of a plan whose files are gone may run in any order: each order gives the answer.

use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::physical_plan::{ExecutionPlan, displayable, execute_stream_partitioned};
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;
use libtest_mimic::Failed;

use super::late::{KINDS, ShelvedArray};
use crate::support::trials::SqlTrial;
use crate::support::turns;
use crate::{block_on, trial};

trials!(late_partitions());

fn late_partitions() -> Vec<SqlTrial> {
    let trials = KINDS.into_iter().enumerate();
    let trials = trials.map(|(number, (kind, create))| {
        trial(format!("late_partitions_{kind}"), move || {
            block_on(in_any_order(number, create))
        })
    });
    trials.collect()
}

/// So many rows that the plan has four partitions, two of which have nothing to read: metadata answer all tiles but the first and
/// the last.
const ROWS: usize = 400_000;
const QUERY: &str = "SELECT sum(v), count(*) FROM t WHERE x BETWEEN 2 AND 399990";

const ORDERS: [[usize; 4]; 3] = [[0, 1, 2, 3], [3, 2, 1, 0], [2, 3, 0, 1]];

/// The kinds of arrays take turns with the orders.
async fn in_any_order(number: usize, create: &str) -> Result<(), Failed> {
    let orders = ORDERS.into_iter().enumerate();
    for (_, order) in orders.filter(|(way, _)| turns::is_taken(number, *way, ORDERS.len())) {
        let shelf = ShelvedArray::new(create, ROWS, false).await?;
        let ctx = shelf.open(4, "").await?;
        let expected = states(&ctx, partial_aggregate(&ctx).await?, order).await?;
        let plan = partial_aggregate(&ctx).await?;
        shelf.vacuum().await?;
        let found = states(&ctx, plan, order)
            .await
            .map_err(|e| format!("{order:?}: {e:?}"))?;
        let values = (2..=399_990).map(|i| i * 7919 % 10007).sum::<i64>();
        assert_eq!(expected, [values, 399_989], "{order:?}");
        assert_eq!(found, expected, "{order:?}");
    }
    Ok(())
}

/// The part of the query's plan whose rows are states, some of them from metadata.
async fn partial_aggregate(ctx: &SessionContext) -> Result<Arc<dyn ExecutionPlan>, Failed> {
    let mut plan = ctx.sql(QUERY).await?.create_physical_plan().await?;
    while plan.name() != "TileDbAggregateExec" {
        let child = plan.children().first().map(|child| Arc::clone(child));
        plan = child.ok_or("metadata answer nothing")?;
    }
    let shown = displayable(plan.as_ref()).indent(false).to_string();
    assert!(!shown.contains("RepartitionExec"), "{shown}");
    assert_eq!(plan.properties().output_partitioning().partition_count(), 4);
    Ok(plan)
}

/// The sums of the states' columns. One partition after the other runs to its end.
async fn states(
    ctx: &SessionContext,
    plan: Arc<dyn ExecutionPlan>,
    order: [usize; 4],
) -> Result<Vec<i64>, Failed> {
    let mut sums = vec![0; plan.schema().fields().len()];
    let streams = execute_stream_partitioned(plan, ctx.task_ctx())?;
    let mut streams = streams.into_iter().map(Some).collect::<Vec<_>>();
    for partition in order {
        let stream = streams[partition].take().ok_or("a partition runs once")?;
        for batch in stream.try_collect::<Vec<_>>().await? {
            for (sum, column) in sums.iter_mut().zip(batch.columns()) {
                let column = cast(column, &DataType::Int64)?;
                *sum += column
                    .as_primitive::<Int64Type>()
                    .iter()
                    .flatten()
                    .sum::<i64>();
            }
        }
    }
    Ok(sums)
}
