//! What of a dense array may touch a box of its cells.
//!
//! Both indexes are R*-trees over the first three dimensions. The subtle thing: fragments are searched newest first, up to one
//! that covers the box. So they are indexed in blocks, each as large as all newer ones together. If ten thousand fragments all
//! cover the array, one is found as fast as if they lay side by side.
//!
//! Releases up to libtiledb 2.5 could write single cells into dense arrays, as sparse fragments; these cells hide those
//! of older fragments at the same coordinates. Their tiles are found by their MBRs.

use rstar::primitives::{GeomWithData, Rectangle};
use rstar::{AABB, RTree};

use crate::array::fragment::boxes::TileBoxes;
use crate::array::fragment::{Fragment, TileIdx};
use crate::error::Result;
use crate::geometry::domain::KeyBox;

/// A box with what lies in it.
type BoxedItem<T> = GeomWithData<Rectangle<[i64; 3]>, T>;

/// The number of fragments in the newest block.
const NEWEST_BLOCK: usize = 16;

/// The fragments of a dense scan by their boxes.
#[derive(Debug, Clone, Default)]
pub struct FragmentIndex {
    /// The numbers of fragments, in blocks from the newest to the oldest.
    blocks: Vec<RTree<BoxedItem<usize>>>,
}

impl FragmentIndex {
    /// Indexes the boxes of fragments, oldest first.
    pub fn new<'a>(
        domains: impl DoubleEndedIterator<Item = &'a KeyBox> + ExactSizeIterator,
    ) -> Self {
        let mut newest_first = domains.enumerate().rev().peekable();
        let (mut blocks, mut size, mut all) = (Vec::new(), NEWEST_BLOCK, 0);
        while newest_first.peek().is_some() {
            let block = newest_first.by_ref().take(size).map(|(number, domain)| {
                let (low, high) = corners(domain);
                GeomWithData::new(Rectangle::from_corners(low, high), number)
            });
            blocks.push(RTree::bulk_load(block.collect()));
            all += size;
            size = all;
        }
        Self { blocks }
    }

    /// The numbers of the fragments whose boxes may touch a box, newest first. All that do are among them.
    pub fn newest_first(&self, cells: &KeyBox) -> impl Iterator<Item = usize> {
        let (low, high) = corners(cells);
        let around = AABB::from_corners(low, high);
        self.blocks.iter().flat_map(move |block| {
            let touching = block.locate_in_envelope_intersecting(around);
            let mut numbers = touching.map(|found| found.data).collect::<Vec<_>>();
            numbers.sort_unstable_by(|a, b| b.cmp(a));
            numbers
        })
    }
}

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
    index: RTree<BoxedItem<ScatteredTile>>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::growth::grows_at_most;

    fn side(lo: u64, hi: u64) -> KeyBox {
        KeyBox::new(vec![lo], vec![hi]).unwrap()
    }

    #[test]
    fn fragments_are_found_from_the_newest_on() {
        // Every seventh fragment covers everything; the others lie side by side.
        let domain = |number: u64| match number % 7 {
            0 => side(0, 10_000),
            _ => side(number * 10, number * 10 + 9),
        };
        for count in [0, 1, 15, 16, 17, 32, 33, 500] {
            let domains = (0..count).map(domain).collect::<Vec<_>>();
            let index = FragmentIndex::new(domains.iter());
            for at in [0, 9, 10, 155, 2_500, 4_999, 20_000] {
                let cells = side(at, at + 20);
                let touching = index
                    .newest_first(&cells)
                    .filter(|number| domains[*number].intersects(&cells));
                let all = domains.iter().enumerate().rev();
                let expected = all
                    .filter(|(_, domain)| domain.intersects(&cells))
                    .map(|(number, _)| number);
                assert!(touching.eq(expected), "{count} fragments at {at}");
            }
        }
    }

    #[test]
    fn a_fragment_that_covers_all_is_found_in_the_first_block() {
        let domains = vec![side(0, 100); 10_000];
        let index = FragmentIndex::new(domains.iter());
        let sizes = index.blocks.iter().map(RTree::size).collect::<Vec<_>>();
        assert_eq!(sizes[..4], [16, 16, 32, 64]);
        assert_eq!(sizes.iter().sum::<usize>(), domains.len());
    }

    #[test]
    fn tiles_are_found_without_looking_at_each_fragment() {
        let fragments = |count: usize| {
            let domains = (0..count as u64)
                .map(|number| side(number * 10, number * 10 + 9))
                .collect::<Vec<_>>();
            let asked = domains.iter().step_by(count / 1_000).cloned();
            (
                FragmentIndex::new(domains.iter()),
                asked.collect::<Vec<_>>(),
            )
        };
        // To look at each of sixteen times as many fragments would take sixteen times as long.
        grows_at_most([1_000, 16_000], 5.0, fragments, |(index, asked)| {
            let found = asked.iter().map(|tile| index.newest_first(tile).count());
            // The boxes in the index are rounded, so that neighbours are found, too.
            assert!((1..=3).contains(&(found.sum::<usize>() / asked.len())));
        });
    }
}
