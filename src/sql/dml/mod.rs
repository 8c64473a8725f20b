//! Statements that change arrays.

mod insert;
mod order_columns;
mod target;
mod write_exec;

pub(super) use insert::insert_plan;
pub use write_exec::TileDbWriteExec;
