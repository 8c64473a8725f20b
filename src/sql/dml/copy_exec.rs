//! The plan node that creates an array and writes the rows of a query to it.
//!
//! The plan of the writing is made when the array is there, because it depends on what the array has become.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_expr::{Distribution, EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::{TryStreamExt, stream};

use super::insert::insert_plan;
use super::write_exec::count_schema;
use crate::array::snapshot::Snapshot;
use crate::array::window::OpenWindow;
use crate::error::Error;
use crate::sql::labels::Labels;
use crate::sql::options::TableOptions;
use crate::sql::planning::shown;
use crate::storage::Storage;
use crate::write::create::{ArrayBuilder, withdraw_array};

/// Creates an array and writes the rows of its input.
#[derive(Debug)]
pub struct TileDbCopyExec {
    input: Arc<dyn ExecutionPlan>,
    array: NewArray,
    properties: Arc<PlanProperties>,
}

/// The array that a statement creates.
#[derive(Debug, Clone)]
struct NewArray {
    builder: ArrayBuilder,
    storage: Storage,
    options: TableOptions,
}

impl TileDbCopyExec {
    pub(super) fn new(
        input: Arc<dyn ExecutionPlan>,
        builder: ArrayBuilder,
        storage: Storage,
        options: TableOptions,
    ) -> Self {
        let array = NewArray {
            builder,
            storage,
            options,
        };
        Self::of(input, array)
    }

    fn of(input: Arc<dyn ExecutionPlan>, array: NewArray) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(count_schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self {
            input,
            array,
            properties: Arc::new(properties),
        }
    }
}

impl NewArray {
    /// Creates the array and writes the rows; the stream puts out their number.
    async fn fill(
        self,
        input: Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let created = self.builder.create_in(&self.storage).await;
        created.map_err(DataFusionError::from)?;
        let written = async {
            let plan = self.plan(input).await?;
            let counts = plan.execute(0, context)?.try_collect::<Vec<_>>().await?;
            let counts = RecordBatchStreamAdapter::new(
                count_schema(),
                stream::iter(counts.into_iter().map(Ok)),
            );
            Ok(Box::pin(counts) as SendableRecordBatchStream)
        };
        let written: Result<SendableRecordBatchStream> = written.await;
        if written.is_err()
            && let Err(left) = withdraw_array(&self.storage).await
        {
            let uri = self.storage.uri();
            log::warn!("{uri}: the array of a failed COPY stays: {left}");
        }
        written
    }

    async fn plan(&self, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let opened = async {
            let snapshot = Snapshot::open(&self.storage, OpenWindow::default()).await?;
            let table = shown(snapshot, &self.options)?;
            let labels = Labels::of_table(&table, self.options.empty_cells)?;
            Ok::<_, Error>((table, Arc::clone(labels.schema())))
        };
        let (table, columns) = opened.await.map_err(DataFusionError::from)?;
        let rows = with_columns(input, &columns)?;
        let write = insert_plan(&self.storage, &self.options, &table, columns, rows)?;
        sorted(write)
    }
}

/// The input with the columns of the table, in their order and of their types.
fn with_columns(
    input: Arc<dyn ExecutionPlan>,
    columns: &SchemaRef,
) -> Result<Arc<dyn ExecutionPlan>> {
    let given = input.schema();
    let projected = columns.fields().iter().map(|field| {
        let index = given.index_of(field.name())?;
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), index));
        let expr = match given.field(index).data_type() == field.data_type() {
            true => column,
            false => Arc::new(CastExpr::new(column, field.data_type().clone(), None)),
        };
        let alias = field.name().clone();
        Ok(ProjectionExpr { expr, alias })
    });
    let projected = projected.collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(ProjectionExec::try_new(projected, input)?))
}

/// Gives a plan its rows in one partition and in the order that it needs, as the optimizer would.
fn sorted(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let order = plan.required_input_ordering().into_iter().next().flatten();
    let input = plan.children().first().map(|input| Arc::clone(input));
    let Some(input) = input else {
        return internal_err!("a plan that writes has rows to write");
    };
    let several = input.output_partitioning().partition_count() > 1;
    let input: Arc<dyn ExecutionPlan> = match order {
        None if several => Arc::new(CoalescePartitionsExec::new(input)),
        None => input,
        Some(order) => {
            let order = order.into_single();
            let order = datafusion::physical_expr::LexOrdering::from(order);
            let sort = SortExec::new(order.clone(), input).with_preserve_partitioning(several);
            match several {
                true => Arc::new(SortPreservingMergeExec::new(order, Arc::new(sort))),
                false => Arc::new(sort),
            }
        }
    };
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    plan.replace_children(vec![input], options)
}

impl DisplayAs for TileDbCopyExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let uri = self.array.storage.uri();
        match format {
            DisplayFormatType::TreeRender => writeln!(f, "array={uri}"),
            _ => write!(f, "TileDbCopyExec: array={uri}"),
        }
    }
}

impl ExecutionPlan for TileDbCopyExec {
    fn name(&self) -> &'static str {
        "TileDbCopyExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::UnspecifiedDistribution]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
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
            return internal_err!("TileDbCopyExec has one child, not {}", children.len());
        };
        Ok(Arc::new(Self::of(Arc::clone(input), self.array.clone())))
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
            return internal_err!("TileDbCopyExec has one partition, not {partition}");
        }
        let filled = self.array.clone().fill(Arc::clone(&self.input), context);
        let counts = stream::once(filled).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            count_schema(),
            counts,
        )))
    }
}
