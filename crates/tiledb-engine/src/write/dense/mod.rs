//! Dense fragments: boxes of cells, in whole tiles.
//!
//! A dense fragment is a box that owns all its cells: even a cell without a new value hides the values of older fragments. So
//! the rows of a statement, collected by tile ([`collected`]), become boxes without other cells where that is possible
//! ([`boxes`]). Where it isn't, the cells between the rows are filled with what the array shows ([`insert`]). Tiles are stored
//! with all their cells; those outside the box are padding, which nobody reads (specification: "Dense fragments").

pub mod boxes;
pub mod collected;
pub mod coverage;
mod given;
pub mod insert;
mod segments;
pub mod snapshot_cells;
mod tiler;
