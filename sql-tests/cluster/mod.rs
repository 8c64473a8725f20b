//! Queries over workers: the answers are those of one process.

mod answers;
mod failures;
mod golden_arrays;
mod slt_on_workers;
