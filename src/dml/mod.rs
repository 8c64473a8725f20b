//! Statements that change arrays.

mod again;
mod cell_scan;
mod change;
mod changed_rows;
mod condition;
mod copy;
mod expand_exec;
mod global_order;
mod insert;
mod nan_coordinates;
mod new_values;
mod node;
mod order_columns;
mod plan;
#[cfg(test)]
#[cfg(unix)]
mod power_cuts;
pub mod progress;
mod remove_exec;
#[cfg(test)]
mod simulation;
mod target;
mod write;
mod write_exec;

pub(crate) use again::ReplannedStatement;
pub(crate) use again::SingleExecution;
#[cfg(feature = "cluster")]
pub(crate) use again::can_be_read_twice;
pub(crate) use change::ChangeStatement;
pub(crate) use copy::{ArrayFormatFactory, ROWS_READ, TileDbCopyExec, copy_choices};
pub(crate) use global_order::TileDbOrderExec;
pub(crate) use insert::insert_plan;
pub(crate) use new_values::value_of;
#[cfg(feature = "cluster")]
pub(crate) use node::changes_arrays;
pub(crate) use plan::{
    delete_plan, overwrite_plan, truncate_plan, write_changes, write_rows_again,
};
pub(crate) use target::PlannedTarget;
pub(crate) use write::{BYTES_WRITTEN, ROWS_WRITTEN};
pub(crate) use write_exec::TileDbWriteExec;

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

/// A plan whose rows a statement writes.
type RowsPlan = Arc<dyn ExecutionPlan>;
