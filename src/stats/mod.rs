//! Statistics of tiles and fragments, and when they can be trusted.

mod enumerated;
mod knowledge;
mod known;
pub mod pruner;
mod text;
pub mod trust;
mod zeros;

pub use knowledge::{Extent, Knowledge, Subject};
pub use known::KnownStatistics;
pub(crate) use zeros::outer_zeros;
