//! Reading: from a snapshot and a [`ScanSpec`] to Arrow batches.
//!
//! ```text
//! ScanSpec ─► plan (fragments, tiles, units) ─► fetch (byte ranges) ─► decode ─► visibility ─► deletes ─► predicate ─► batches
//! ```
//!
//! A [`plan::ScanPlan`] is a value: it names scan units, and each unit is read on its own, in any order, by any
//! partition. Only [`stream`] and the loading of metadata in [`plan`] await; decoding runs off the polling threads.

pub mod coalesce;
pub mod context;
pub mod dense;
pub mod metrics;
mod narrow;
pub mod order;
mod parts;
pub mod plan;
mod rounds;
mod rows;
pub mod shown;
pub mod sparse;
pub mod spec;
pub mod stream;
pub mod summary;
pub mod threads;
pub mod unit_order;
pub mod units;

pub use plan::ScanPlan;
pub use spec::{EmptyCells, Predicate, ScanSpec, ScanWays};
