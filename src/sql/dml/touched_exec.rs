//! The step that passes rows on and remembers which space tiles of a dense array they touch.
//!
//! It lies below the sort: when the sort puts out its first row, it has seen them all, and the boxes to write are known.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::{StreamExt, stream};

use super::node::{Step, StepExec};
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
    /// Whether the rows have been read already when the plan that writes them is executed.
    kept: bool,
}

impl SharedTouched {
    pub(super) fn new(numbers: &Arc<OrderNumbers>, grid: TileGrid) -> Self {
        Self {
            numbers: Arc::clone(numbers),
            state: Mutex::new(State {
                touched: TouchedTiles::new(grid.clone()),
                running: 0,
                kept: false,
            }),
            grid,
        }
    }

    /// Forgets the rows of an earlier run of the plan.
    pub(super) fn reset(&self) {
        let mut state = self.state();
        if !state.kept {
            state.touched = TouchedTiles::new(self.grid.clone());
            state.running = 0;
        }
    }

    /// Remembers the rows that are read from now on, whenever the plan that writes them is executed. It is executed once.
    pub(super) fn keep(&self) {
        self.state().kept = true;
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
pub struct Touch(pub(super) Arc<SharedTouched>);

/// The plan node.
pub type TileDbTouchedExec = StepExec<Touch>;

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

impl Step for Touch {
    const NAME: &'static str = "TileDbTouchedExec";

    fn properties(&self, input: &Arc<dyn ExecutionPlan>) -> PlanProperties {
        PlanProperties::new(
            input.equivalence_properties().clone(),
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        )
    }

    fn describe(&self) -> String {
        String::new()
    }

    fn wants_one_partition(&self) -> bool {
        false
    }

    fn keeps_order(&self) -> bool {
        true
    }

    fn execute(
        self: &Arc<Self>,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
        _metrics: &ExecutionPlanMetricsSet,
    ) -> Result<SendableRecordBatchStream> {
        let rows = input.execute(partition, context)?;
        self.0.state().running += 1;
        let running = Running {
            touched: TouchedTiles::new(self.0.grid.clone()),
            shared: Arc::clone(&self.0),
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
            input.schema(),
            seen,
        )))
    }
}
