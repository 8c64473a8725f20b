//! Statistics computed again from the cells, and what of the stored ones may differ.
//!
//! What libtiledb computes is defined by its loops (`tile_metadata_generator.cc`, `fragment_metadata.cc`), and these have
//! oddities that stay in stored arrays for ever. A stored value passes if it is the true one, or the one that libtiledb
//! of the fragment's version stores for these cells:
//!
//! - a NaN resets the running minimum and maximum, and sums stop at the limits of their type;
//! - a tile of NULLs has zeros, sentinels or nothing as minimum and maximum;
//! - strings compare up to their first NUL byte, single characters as signed numbers;
//! - types without minimum and maximum count no NULLs if variable-sized, and too many if dense;
//! - dense writers include padding in some tiles, and read validity at the wrong place for variable-sized cells, of which
//!   they also store the minima and maxima of other tiles, or bytes that were freed;
//! - the statistics of a fragment are put together from those of its tiles, and the sum of `CHAR` is forgotten.
//!
//! Lossy filters change values after their statistics were computed, and those of geometries mean nothing: neither is
//! compared.

mod accept;
mod compute;
mod tiles;
mod totals;

pub use self::compute::{Seen, Values, compute};
pub use self::tiles::{Context, compare as compare_tile};
pub use self::totals::FragmentTotals;
