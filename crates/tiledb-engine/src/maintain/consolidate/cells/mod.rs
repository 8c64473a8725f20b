//! The cells of a consolidation: from the tiles of its inputs to the tiles of its output.
//!
//! A [`source`] decodes the tiles of one input and computes what else a cell needs ([`order`], [`deleted`]); the [`feed`]
//! fetches them before they are needed. The [`merge`] decides which cell comes next, and records runs of cells to copy. From
//! these runs, the threads that filter the tiles of the output make the tiles ([`tile`]). [`sparse`] and [`dense`] drive this.

pub(super) mod deleted;
pub(super) mod dense;
pub(super) mod feed;
pub(super) mod merge;
pub(super) mod order;
pub(super) mod source;
pub(super) mod sparse;
pub(super) mod tile;

use self::tile::TileRecipe;

/// Which versions of a cell remain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeptVersions {
    /// All of them.
    All,
    /// Those that are not deleted, and those that hide an older one that is not.
    Alive,
    /// The newest version, unless it is deleted.
    Newest,
}

/// A step of the merge.
#[derive(Debug)]
struct CellStep {
    /// The tiles of the output that are complete.
    tiles: Vec<TileRecipe>,
    /// How the merge goes on.
    next: NextCell,
}

/// How a merge goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextCell {
    /// The input with this index has to give its next tile.
    Needs(usize),
    /// The merge needs nothing.
    More,
    /// No cells are left.
    Done,
    /// The cells of an input are not in the order of the merge.
    Unsorted,
}

/// Numbers of cells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct MergedCells {
    /// Cells of the inputs.
    pub(super) read: u64,
    /// Cells of the output.
    pub(super) written: u64,
}
