//! The tiles of sparse fragments in a dense array, found by their MBRs.
//!
//! Releases up to libtiledb 2.5 could write single cells into dense arrays, as sparse fragments; these cells hide those
//! of older fragments at the same coordinates. An R*-tree over the first three dimensions finds which of their tiles
//! may touch a box.

use rstar::primitives::{GeomWithData, Rectangle};
use rstar::{AABB, RTree};

use crate::array::fragment::boxes::TileBoxes;
use crate::array::fragment::{Fragment, TileIdx};
use crate::error::Result;
use crate::geometry::domain::KeyBox;

/// A tile of a sparse fragment.
#[derive(Debug, Clone)]
pub struct ScatteredTile {
    /// Index into the plan's fragments.
    pub fragment: usize,
    /// The tile.
    pub tile: TileIdx,
    /// Number of cells in it.
    pub cells: usize,
    mbr: KeyBox,
}

/// The tiles of all sparse fragments of a dense scan.
#[derive(Debug, Default)]
pub struct ScatteredTiles {
    index: RTree<GeomWithData<Rectangle<[i64; 3]>, ScatteredTile>>,
}

impl ScatteredTiles {
    /// Indexes the tiles of fragments given as (index into the plan's fragments, fragment, its boxes). A tile whose
    /// bounds are unknown gets a box that contains the whole domain.
    pub fn new<'a>(
        fragments: impl Iterator<Item = (usize, &'a Fragment, &'a TileBoxes)>,
    ) -> Result<Self> {
        let mut tiles = Vec::new();
        for (number, fragment, boxes) in fragments {
            for tile in 0..boxes.len() {
                let idx = TileIdx(tile as u64);
                let (mut lo, mut hi) = (Vec::new(), Vec::new());
                for d in 0..fragment.schema.dimensions.len() {
                    let (low, high) = boxes.keys(tile, d).unwrap_or((0, u64::MAX));
                    lo.push(low);
                    hi.push(high);
                }
                let Some(mbr) = KeyBox::new(lo, hi) else {
                    continue;
                };
                let (low, high) = corners(&mbr);
                let tile = ScatteredTile {
                    fragment: number,
                    tile: idx,
                    cells: fragment.sparse_tile_cells(idx)?,
                    mbr,
                };
                tiles.push(GeomWithData::new(Rectangle::from_corners(low, high), tile));
            }
        }
        Ok(Self {
            index: RTree::bulk_load(tiles),
        })
    }

    /// The tiles that may hold cells of a box, by fragment, then tile.
    pub fn touching(&self, cells: &KeyBox) -> Vec<ScatteredTile> {
        if self.index.size() == 0 {
            return Vec::new();
        }
        let (lo, hi) = corners(cells);
        let found = self
            .index
            .locate_in_envelope_intersecting(AABB::from_corners(lo, hi));
        let mut tiles = found
            .map(|found| &found.data)
            .filter(|tile| tile.mbr.intersects(cells))
            .cloned()
            .collect::<Vec<_>>();
        tiles.sort_unstable_by_key(|tile| (tile.fragment, tile.tile));
        tiles
    }
}

/// The corners of a box in the index's numbers, which are coarse so that no difference overflows. Boxes found by them
/// are compared again exactly.
fn corners(cells: &KeyBox) -> ([i64; 3], [i64; 3]) {
    let (mut low, mut high) = ([0; 3], [0; 3]);
    let slots = low.iter_mut().zip(&mut high);
    for ((low, high), (lo, hi)) in slots.zip(cells.ranges()) {
        *low = (lo >> 2).cast_signed();
        *high = (hi >> 2).cast_signed();
    }
    (low, high)
}
