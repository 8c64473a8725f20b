//! The memory that scans may use, and what waits between queries.

pub mod budget;
pub mod idle;
