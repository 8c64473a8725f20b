//! Pure geometry over numbers and bytes: nothing here reads storage or knows Arrow.
//!
//! Coordinates become order-preserving [`key`]s. A [`domain`] box holds keys, a [`subarray`] the ranges that a query
//! selects, a [`tile_grid`] the space tiles of a dense array; [`cell_order`] and [`hilbert`] order the cells of tiles.

pub mod box_runs;
pub mod cell_order;
pub mod domain;
pub mod hilbert;
pub mod key;
pub mod order_key;
pub mod subarray;
pub mod tile_grid;
