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
use datafusion::error::DataFusionError;
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
use futures::{StreamExt, stream};

use super::target::Target;
use crate::error::Error;
use crate::write::commit::commit;
use crate::write::insert::SparseInsert;

/// Writes the rows of its input to an array.
#[derive(Debug)]
pub struct TileDbWriteExec {
    input: Arc<dyn ExecutionPlan>,
    target: Target,
    /// The order that rows are needed in; `None` if there is only one cell.
    order: Option<LexOrdering>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl TileDbWriteExec {
    pub(super) fn new(
        input: Arc<dyn ExecutionPlan>,
        target: Target,
        order: Option<LexOrdering>,
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
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

/// The number of written rows.
fn count_schema() -> SchemaRef {
    let count = Field::new("count", DataType::UInt64, false);
    Arc::new(Schema::new(vec![count]))
}

/// What a statement counts.
struct Counters {
    fragments: datafusion::physical_plan::metrics::Count,
    tiles: datafusion::physical_plan::metrics::Count,
    bytes: datafusion::physical_plan::metrics::Count,
}

/// Writes all rows, and makes them visible; returns their number.
async fn write(
    target: Target,
    mut rows: SendableRecordBatchStream,
    context: Arc<TaskContext>,
    counters: Counters,
) -> Result<u64> {
    let opened = target.open(&context).await.map_err(DataFusionError::from)?;
    let storage = opened.snapshot.storage.clone();
    let clock = opened.clock.clone();
    let mut insert = SparseInsert::begin(opened)
        .await
        .map_err(DataFusionError::from)?;
    let written = async {
        while let Some(batch) = rows.next().await {
            let columns = target.stored(&batch?).map_err(DataFusionError::from)?;
            insert.push(&columns).await.map_err(DataFusionError::from)?;
        }
        Ok::<_, DataFusionError>(())
    };
    if let Err(error) = written.await {
        if let Err(left) = insert.withdraw().await {
            log::warn!(
                "{}: files of a failed statement stay: {left}",
                storage.uri()
            );
        }
        return Err(error);
    }
    let (count, (tiles, _)) = (insert.rows(), insert.progress());
    let staged = insert.finish().await.map_err(DataFusionError::from)?;
    let staged = staged.into_iter().collect::<Vec<_>>();
    commit(&storage, &clock, &staged)
        .await
        .map_err(DataFusionError::from)?;
    counters.fragments.add(staged.len());
    counters
        .tiles
        .add(usize::try_from(tiles).unwrap_or(usize::MAX));
    let bytes = staged.iter().map(|fragment| fragment.bytes).sum::<u64>();
    counters
        .bytes
        .add(usize::try_from(bytes).unwrap_or(usize::MAX));
    log::debug!(
        "{}: committed {count} cells in {} fragments",
        storage.uri(),
        staged.len()
    );
    Ok(count)
}

impl Target {
    /// The columns of a batch that are stored. Dimension labels are written to arrays of their own.
    fn stored(&self, batch: &RecordBatch) -> crate::error::Result<Vec<ArrayRef>> {
        let labels = self
            .columns
            .fields()
            .iter()
            .enumerate()
            .skip(self.stored_columns);
        for (index, field) in labels {
            let given = batch.columns().get(index);
            if given.is_some_and(|column| column.null_count() < column.len()) {
                return Err(Error::unsupported(format!(
                    "the column {} is a dimension label, which INSERT cannot write: leave it out",
                    field.name()
                ))
                .with("array", self.storage.uri()));
            }
        }
        Ok(batch
            .columns()
            .iter()
            .take(self.stored_columns)
            .cloned()
            .collect())
    }
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
        let node = Self::new(Arc::clone(input), self.target.clone(), self.order.clone());
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
        let rows = self.input.execute(0, Arc::clone(&context))?;
        let counter = |name: &'static str| MetricBuilder::new(&self.metrics).counter(name, 0);
        let counters = Counters {
            fragments: counter("fragments_written"),
            tiles: counter("tiles_written"),
            bytes: counter("bytes_written"),
        };
        let target = self.target.clone();
        let written = async move {
            let count = write(target, rows, context, counters).await?;
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
