//! The statistics of a field as they are stored.

use crate::format::fragment::statistics::TileMinMax;

/// The stored statistics of the tiles of a field; what is missing or damaged is empty.
#[derive(Debug, Default)]
pub struct FieldStatistics {
    pub mins: TileMinMax,
    pub maxes: TileMinMax,
    pub sums: Vec<u64>,
    pub null_counts: Vec<u64>,
    /// Whether the lists of tiles are sound, so that tiles can be read.
    pub readable: bool,
}
