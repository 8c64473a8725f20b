//! Queries over workers: the answers are those of one process.

mod answers;
mod slt_on_workers;
