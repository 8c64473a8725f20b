//! The plan node that passes rows on and remembers which space tiles of a dense array they touch.
//!
//! It lies below the sort: when the sort puts out its first row, it has seen them all, and the boxes to write are known.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::{StreamExt, stream};

use super::order_columns::OrderNumbers;
use crate::geometry::tile_grid::TileGrid;
use crate::write::dense::boxes::TouchedTiles;

/// The tiles that the rows of a statement touch, shared by those who see the rows and the one who writes them.
#[derive(Debug)]
pub(super) struct SharedTouched {
    numbers: Arc<OrderNumbers>,
    grid: TileGrid,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    touched: TouchedTiles,
    /// Partitions that have begun and not ended.
    running: usize,
}

impl SharedTouched {
    pub(super) fn new(numbers: &Arc<OrderNumbers>, grid: TileGrid) -> Self {
        Self {
            numbers: Arc::clone(numbers),
            state: Mutex::new(State {
                touched: TouchedTiles::new(grid.clone()),
                running: 0,
            }),
            grid,
        }
    }

    /// Forgets the rows of an earlier run of the plan.
    pub(super) fn reset(&self) {
        *self.state() = State {
            touched: TouchedTiles::new(self.grid.clone()),
            running: 0,
        };
    }

    /// The tiles that all rows touch; `None` while some rows have not been seen.
    pub(super) fn complete(&self) -> Option<TouchedTiles> {
        let state = self.state();
        (state.running == 0).then(|| state.touched.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes rows on and remembers the tiles they touch.
#[derive(Debug)]
pub struct TileDbTouchedExec {
    input: Arc<dyn ExecutionPlan>,
    shared: Arc<SharedTouched>,
    properties: Arc<PlanProperties>,
}

impl TileDbTouchedExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, shared: &Arc<SharedTouched>) -> Self {
        let properties = PlanProperties::new(
            input.equivalence_properties().clone(),
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Self {
            input,
            shared: Arc::clone(shared),
            properties: Arc::new(properties),
        }
    }
}

/// Tells the shared state when a partition has ended, however it ends.
struct Running {
    shared: Arc<SharedTouched>,
    touched: TouchedTiles,
}

impl Running {
    fn see(&mut self, batch: &RecordBatch) -> Result<()> {
        let keys = self.shared.numbers.keys_of(batch.columns());
        self.touched.add(&keys.map_err(DataFusionError::from)?);
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let nothing = TouchedTiles::new(self.shared.grid.clone());
        let touched = std::mem::replace(&mut self.touched, nothing);
        let mut state = self.shared.state();
        state.touched.merge(touched);
        state.running = state.running.saturating_sub(1);
    }
}

impl DisplayAs for TileDbTouchedExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        match format {
            DisplayFormatType::TreeRender => Ok(()),
            _ => write!(f, "TileDbTouchedExec"),
        }
    }
}

impl ExecutionPlan for TileDbTouchedExec {
    fn name(&self) -> &'static str {
        "TileDbTouchedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

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
            return internal_err!("TileDbTouchedExec has one child, not {}", children.len());
        };
        Ok(Arc::new(Self::new(Arc::clone(input), &self.shared)))
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
        let rows = self.input.execute(partition, context)?;
        self.shared.state().running += 1;
        let running = Running {
            touched: TouchedTiles::new(self.shared.grid.clone()),
            shared: Arc::clone(&self.shared),
        };
        let seen = stream::unfold(Some((rows, running)), |state| async move {
            let (mut rows, mut running) = state?;
            let batch = match rows.next().await? {
                Ok(batch) => batch,
                Err(error) => return Some((Err(error), None)),
            };
            match running.see(&batch) {
                Ok(()) => Some((Ok(batch), Some((rows, running)))),
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.input.schema(),
            seen,
        )))
    }
}
