//! Statistics of tiles and fragments, and when they can be trusted.

mod bounds;
mod enumerated;
mod known;
pub mod pruner;
mod statistics_cache;
pub mod trust;

pub use bounds::outer_zeros;
pub use known::KnownStatistics;
pub use statistics_cache::{CandidateTile, StatisticsCache, TileExtent};
