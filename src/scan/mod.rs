//! Scans of arrays: what a query reads, how it is planned, and the [source](source::TileDbSource) that reads it.

pub mod claims;
pub(crate) mod moment;
pub(crate) mod planning;
pub mod query;
pub(crate) mod scan_box;
pub mod source;
pub(crate) mod statistics;
#[cfg(feature = "cluster")]
pub(crate) mod task_scan;
#[cfg(feature = "distributed")]
pub(crate) mod wire;
