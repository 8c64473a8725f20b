//! Reading: from a snapshot and a [`ScanSpec`] to Arrow batches.
//!
//! ```text
//! ScanSpec ─► plan (fragments, tiles, units) ─► fetch (byte ranges) ─► decode ─► visibility ─► deletes ─► predicate ─► batches
//! ```
//!
//! A [`plan::ScanPlan`] is a value: it names scan units, and each unit is read on its own, in any order, by any
//! partition. Only [`stream`] and the loading of metadata in [`plan`] await; decoding runs off the polling threads.

pub mod coordinates;
pub mod decode;
pub mod deletes;
pub mod dense;
pub mod fetch;
pub mod fields;
mod marks;
pub mod memory;
pub mod metrics;
mod moved;
pub mod order;
pub mod plan;
pub mod prune;
mod rows;
pub mod scratch;
pub mod selection;
pub mod sparse;
pub mod spec;
pub mod stream;
pub mod summary;
pub mod text;
pub mod threads;
pub mod tile_memory;
pub mod units;
pub mod visibility;

pub use plan::ScanPlan;
pub use spec::{EmptyCells, Predicate, ScanSpec};
