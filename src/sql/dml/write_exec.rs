//! The plan node that writes rows and puts out their number.
//!
//! Everything happens when it is executed, so explaining a statement changes nothing. A statement that fails or is cancelled
//! leaves the array as it was; the files it has written are removed if that is still possible.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexOrdering, OrderingRequirements, Partitioning,
    PhysicalExpr,
};
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::stream;

use super::target::Target;
use super::touched_exec::SharedTouched;
use super::write::{Counters, Statement};

/// Writes the rows of its input to an array.
#[derive(Debug)]
pub struct TileDbWriteExec {
    input: Arc<dyn ExecutionPlan>,
    target: Target,
    /// The order that rows are needed in; `None` if there is only one cell.
    order: Option<LexOrdering>,
    /// The tiles that rows of a dense array touch.
    touched: Option<Arc<SharedTouched>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl TileDbWriteExec {
    pub(super) fn new(
        input: Arc<dyn ExecutionPlan>,
        target: Target,
        order: Option<LexOrdering>,
        touched: Option<Arc<SharedTouched>>,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(count_schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self {
            input,
            target,
            order,
            touched,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

/// The number of written rows.
pub(super) fn count_schema() -> SchemaRef {
    let count = Field::new("count", DataType::UInt64, false);
    Arc::new(Schema::new(vec![count]))
}

impl DisplayAs for TileDbWriteExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let uri = self.target.storage.uri();
        match format {
            DisplayFormatType::TreeRender => writeln!(f, "array={uri}"),
            _ => write!(f, "TileDbWriteExec: array={uri}"),
        }
    }
}

impl ExecutionPlan for TileDbWriteExec {
    fn name(&self) -> &'static str {
        "TileDbWriteExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![self.order.clone().map(OrderingRequirements::from)]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![true]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for sorted_by in self.order.iter().flatten() {
            if f(&sorted_by.expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = children.as_slice() else {
            return internal_err!("TileDbWriteExec has one child, not {}", children.len());
        };
        let (target, order) = (self.target.clone(), self.order.clone());
        let node = Self::new(Arc::clone(input), target, order, self.touched.clone());
        Ok(Arc::new(node))
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
        if partition != 0 {
            return internal_err!("TileDbWriteExec has one partition, not {partition}");
        }
        if let Some(touched) = &self.touched {
            touched.reset();
        }
        let rows = self.input.execute(0, Arc::clone(&context))?;
        let counter = |name: &'static str| MetricBuilder::new(&self.metrics).counter(name, 0);
        let counters = Counters {
            fragments: counter("fragments_written"),
            tiles: counter("tiles_written"),
            bytes: counter("bytes_written"),
        };
        let statement = Statement {
            target: self.target.clone(),
            touched: self.touched.clone(),
            counters,
            context,
        };
        let written = async move {
            let count = statement.write(rows).await?;
            let count: ArrayRef = Arc::new(UInt64Array::from(vec![count]));
            Ok(RecordBatch::try_new(count_schema(), vec![count])?)
        };
        let written = RecordBatchStreamAdapter::new(count_schema(), stream::once(written));
        Ok(Box::pin(written))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
