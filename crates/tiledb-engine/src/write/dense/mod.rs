//! Dense fragments: boxes of cells, in whole tiles.
//!
//! A dense fragment is a box, and all cells of the box are its own: what it does not say hides what an older fragment said.
//! So the rows of a statement, collected by tile ([`collected`]), become boxes that hold nothing else where that is possible
//! ([`boxes`]), and where it is not, the cells between them are filled with what the array shows ([`insert`]). Tiles are stored
//! with all their cells; those outside the box are padding, which nobody reads (specification: "Dense fragments").

pub mod boxes;
pub mod collected;
pub mod coverage;
mod given;
pub mod insert;
mod segments;
pub mod snapshot_cells;
mod tiler;
