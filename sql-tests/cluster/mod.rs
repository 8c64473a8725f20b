//! Queries over workers: the answers are those of one process.

mod answers;
mod clouds;
mod failures;
mod golden_arrays;
mod slt_on_workers;
mod vacuumed;
