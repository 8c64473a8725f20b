//! The plan node between both halves of an aggregate, which adds the partial state of the tiles that metadata answer.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::{StreamExt, TryStreamExt, stream};

use super::answers::Answers;
use crate::sql::claims::{Claims, checked};
use crate::sql::optimizer::arrays::scan;
use crate::sql::source::remaining::RemainingScan;

/// Adds one partial state, of the tiles that metadata answer, to the states of the tiles that are read.
#[derive(Debug, Clone)]
pub struct TileDbAggregateExec {
    /// The partial aggregate over the rest of the scan.
    input: Arc<dyn ExecutionPlan>,
    remaining: Arc<RemainingScan>,
    answers: Answers,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl TileDbAggregateExec {
    /// `None` if the scan below the input is not in the mode that leaves out such tiles.
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, answers: Answers) -> Option<Self> {
        let remaining = Arc::clone(remaining_below(&input)?);
        // The properties of the input's rows are dropped, because the added row may differ from them.
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            input.output_partitioning().clone(),
            EmissionType::Incremental,
            input.boundedness(),
        );
        Some(Self {
            input,
            remaining,
            answers,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The state of the tiles that metadata answer; empty if there are none.
    fn answered(&self) -> SendableRecordBatchStream {
        let schema = self.input.schema();
        let own = Arc::clone(&schema);
        let (remaining, answers) = (Arc::clone(&self.remaining), self.answers.clone());
        let counter = |name: &'static str| MetricBuilder::new(&self.metrics).counter(name, 0);
        let (tiles, rows) = (
            counter("tiles_from_metadata"),
            counter("rows_from_metadata"),
        );
        let time = MetricBuilder::new(&self.metrics).subset_time("metadata_time", 0);
        let state = async move {
            let timer = time.timer();
            let parted = remaining.parted().await.map_err(DataFusionError::from)?;
            for summary in &parted.answered {
                let sum = summary
                    .rows
                    .iter()
                    .fold(0, |sum: u64, rows| sum.saturating_add(*rows));
                tiles.add(summary.ordinals.len());
                rows.add(usize::try_from(sum).unwrap_or(usize::MAX));
            }
            let some = !parted.answered.is_empty();
            let state = some
                .then(|| answers.state(&parted.answered, own))
                .transpose();
            drop(timer);
            state
        };
        let state = stream::once(state).try_filter_map(|state| async move { Ok(state) });
        Box::pin(RecordBatchStreamAdapter::new(schema, state))
    }
}

/// The remaining scan below, and the tiles that metadata answer.
fn remaining_below(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<RemainingScan>> {
    if let Some(source) = scan(plan) {
        return source.remaining();
    }
    plan.children().into_iter().find_map(remaining_below)
}

impl DisplayAs for TileDbAggregateExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let names = self.answers.names().collect::<Vec<_>>().join(", ");
        let tiles = self.remaining.candidates();
        match format {
            DisplayFormatType::TreeRender => {
                let names = names.replace(|c: char| !c.is_ascii(), "?");
                writeln!(f, "aggr={names}")?;
                writeln!(f, "tiles_from_metadata=up to {tiles}")
            }
            _ => write!(
                f,
                "TileDbAggregateExec: aggr=[{names}], tiles_from_metadata=up to {tiles}"
            ),
        }
    }
}

impl ExecutionPlan for TileDbAggregateExec {
    fn name(&self) -> &'static str {
        "TileDbAggregateExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    /// A few rows of state are not worth repartitioning.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = children.as_slice() else {
            return internal_err!("TileDbAggregateExec has one child, not {}", children.len());
        };
        match Self::new(Arc::clone(input), self.answers.clone()) {
            Some(node) => Ok(Arc::new(node)),
            None => internal_err!("TileDbAggregateExec has no scan of an array below"),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let read = self.input.execute(partition, context)?;
        let states = match partition {
            0 => Box::pin(RecordBatchStreamAdapter::new(
                self.input.schema(),
                self.answered().chain(read),
            )),
            _ => read,
        };
        Ok(checked(states, || Claims::of_plan(self, partition)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
