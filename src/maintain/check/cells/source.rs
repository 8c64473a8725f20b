//! The fetched bytes of one tile, and what to compare its cells with.

use super::context::Audited;
use super::reader::Asked;
use crate::tile::fetch::Fetched;

/// The bytes of a tile.
pub struct Source<'a> {
    pub audited: &'a Audited,
    pub tile: u64,
    pub cells: usize,
    pub asked: &'a [Option<Asked>],
    pub fetched: &'a Fetched,
}
