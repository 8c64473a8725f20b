//! Statements that change arrays.

mod copy;
mod copy_exec;
mod existing;
mod insert;
mod order_columns;
mod target;
mod touched_exec;
mod write;
mod write_exec;

pub(super) use copy::ArrayFormatFactory;
pub use copy_exec::TileDbCopyExec;
pub(super) use insert::insert_plan;
pub use touched_exec::TileDbTouchedExec;
pub use write_exec::TileDbWriteExec;
