//! SQL on TileDB arrays.
