//! Statements that change arrays.

mod cell_scan;
mod change;
mod changed_rows;
mod condition;
mod copy;
mod copy_exec;
mod existing;
mod expand_exec;
mod insert;
mod nan_coordinates;
mod node;
mod order_columns;
mod plan;
mod remove_exec;
mod target;
mod touched_exec;
mod write;
mod write_exec;

pub(super) use copy::ArrayFormatFactory;
pub(super) use copy_exec::TileDbCopyExec;
pub(super) use insert::{Destination, insert_plan};
pub(super) use plan::{
    delete_plan, overwrite_plan, truncate_plan, write_changes, write_rows_again,
};
pub(super) use touched_exec::TileDbTouchedExec;
pub(super) use write::{BYTES_WRITTEN, ROWS_WRITTEN};
pub(super) use write_exec::TileDbWriteExec;
