//! One tile of one field: from filtered bytes to an Arrow array (specification: "Tile", "Filter Pipeline").
//!
//! No I/O happens here. Tiles are unfiltered straight into the buffer that the array will own;
//! [`ColumnType`](crate::arrow::ColumnType) interprets the bytes. There is one decoder per field and fragment, because
//! pipelines depend on the fragment's own schema and version.

mod bitsort;
mod column;
mod coords;
mod numbers;

#[cfg(test)]
mod tests;

pub use bitsort::{Bitsort, CellOrder, EqualCells};
pub use column::{ColumnDecoder, NeededCells, TileBytes};
pub use numbers::{cell_numbers_context, cell_numbers_pipeline, decode_u64};
