//! One immutable picture of an open array, and pure geometry over it.
//!
//! [`snapshot::Snapshot`] is what a window of time shows of an array; [`table::ArrayTable`] gives it Arrow columns.
//! The other modules are pure code over numbers and bytes: order-preserving [`key`]s, [`subarray`]s, [`domain`]
//! boxes, the [`tile_grid`] of dense arrays, [`cell_order`] and [`hilbert`].

pub mod box_runs;
pub mod cell_order;
pub mod columns;
pub mod commits;
pub mod deletes;
pub mod directory;
pub mod domain;
pub mod fragment;
pub mod group;
pub mod hilbert;
pub mod inspect;
pub mod key;
pub mod label;
pub mod metadata;
pub mod snapshot;
pub mod subarray;
pub mod table;
pub mod tile_grid;
pub mod types;
pub mod window;
