//! Statistics of tiles and fragments, and when they can be trusted.

mod enumerated;
mod known;
pub mod pruner;
mod statistics_cache;
mod text;
pub mod trust;
mod zeros;

pub use known::KnownStatistics;
pub use statistics_cache::{Candidate, Extent, StatisticsCache};
pub(crate) use zeros::outer_zeros;
