//! Which sparse tiles are disjoint, and how the others are cut into units of bounded size.
//!
//! In an array without duplicates several fragments may hold a cell, and its newest version wins. A tile whose MBR
//! meets no MBR of another fragment is *disjoint*: nothing in another fragment can hide its cells. The others are
//! *overlapping* and are de-duplicated together, but not all at once: the space is halved repeatedly, by the cut that
//! separates the tiles best, until the tiles in a box hold few cells. A tile across a cut belongs to both sides, each
//! of which keeps only the cells in its own box.
//!
//! In a fragment that itself holds several versions of a cell, disjoint tiles may share cells with overlapping ones.
//! They are *comparison tiles* in the units of these: their cells are compared there, and become rows in another unit.
//!
//! An R*-tree over the first three dimensions of the boxes finds neighbours. For tiles that may hold NaN it indexes the
//! cells that are not NaN; a second tree finds which of these tiles may share NaN coordinates.

use rstar::primitives::{GeomWithData, Rectangle};
use rstar::{AABB, RTree};

use super::boxes::{RankBox, TileBounds};
use super::versions::TileNeighbourhood;
use crate::scan::plan::sparse_units::{CellVersions, TileRef};

/// The most cells de-duplicated together, unless the space cannot be cut any finer.
const UNIT_CELLS: u64 = 512 * 1024;
/// Units with fewer cells than this are not cut.
const SMALLEST_UNIT_CELLS: u64 = 128 * 1024;
/// The number of units to aim for between these limits, so that many workers have one.
const UNITS: u64 = 32;
/// The most cells de-duplicated together where cuts mostly duplicate tiles: each unit fetches and reads all of its
/// tiles.
const HARD_TO_CUT_CELLS: u64 = 2 * 1024 * 1024;
/// The number of units to aim for even if tiles are hard to cut, so that several workers have one.
const FEWEST_UNITS: u64 = 12;
/// A tile that may hold NaN is compared with at most this many others that may; beyond that, it counts as overlapping.
const MOST_LOOKED_AT: usize = 256;
/// Cuts tried per dimension and level.
const CUTS_TRIED: usize = 8;

/// A tile of an [`OverlappingUnit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverlappingTile {
    /// Its position in the list of tiles.
    pub tile: usize,
    /// Whether all of its cells lie in the clip.
    pub inside: bool,
    /// Whether its cells are only compared, and become rows elsewhere.
    pub is_comparison_tile: bool,
}

/// Overlapping tiles that are de-duplicated together.
#[derive(Debug)]
pub struct OverlappingUnit {
    /// The tiles.
    pub members: Vec<OverlappingTile>,
    /// The box whose cells become rows.
    pub clip: RankBox,
    /// Where versions of the members' cells may lie.
    pub versions: CellVersions,
    /// About how many cells become rows.
    pub cells: u64,
}

/// Tiles, split into disjoint and overlapping ones.
#[derive(Debug)]
pub struct OverlapSplit {
    /// The positions of the disjoint tiles.
    pub disjoint: Vec<usize>,
    /// The units of the overlapping tiles.
    pub units: Vec<OverlappingUnit>,
}

/// Tiles in the order of their fragments, their boxes, and where each fragment may hold several versions of a cell.
pub struct TileOverlaps<'a> {
    tiles: &'a [TileRef],
    bounds: &'a TileBounds,
    versions: &'a [CellVersions],
    comparison_tiles: Vec<usize>,
}

impl<'a> TileOverlaps<'a> {
    /// `versions` says for each fragment where versions of a cell may lie within it.
    pub fn new(tiles: &'a [TileRef], bounds: &'a TileBounds, versions: &'a [CellVersions]) -> Self {
        Self {
            tiles,
            bounds,
            versions,
            comparison_tiles: Vec::new(),
        }
    }

    /// Splits the tiles.
    pub fn split(mut self) -> OverlapSplit {
        let index = OverlapIndex::new(self.tiles, self.bounds);
        let (overlapping, disjoint): (Vec<_>, Vec<_>) =
            (0..self.tiles.len()).partition(|tile| self.is_overlapping(*tile, &index));
        let mut units = Vec::new();
        if !overlapping.is_empty() {
            let with_versions = |tile: &usize| self.versions_in(*tile) == CellVersions::Neighbours;
            let with_versions = overlapping.iter().copied().filter(with_versions);
            let neighbourhood = TileNeighbourhood::new(self.tiles, self.bounds);
            self.comparison_tiles =
                neighbourhood.comparison_tiles(&with_versions.collect::<Vec<_>>());
            let mut members = [overlapping, self.comparison_tiles.clone()].concat();
            members.sort_unstable();
            let whole = RankBox::all(self.bounds.dimensions());
            let cells = self.cells(&members, &whole);
            let most = (cells / UNITS).clamp(SMALLEST_UNIT_CELLS, UNIT_CELLS);
            let hard = (cells / FEWEST_UNITS).clamp(most, HARD_TO_CUT_CELLS);
            self.halve(members, whole, (most, hard), &mut units);
        }
        OverlapSplit { disjoint, units }
    }

    fn fragment(&self, tile: usize) -> usize {
        self.tiles.get(tile).map_or(usize::MAX, |t| t.fragment)
    }

    fn versions_in(&self, tile: usize) -> CellVersions {
        let versions = self.versions.get(self.fragment(tile));
        versions.copied().unwrap_or(CellVersions::Anywhere)
    }

    fn is_overlapping(&self, tile: usize, index: &OverlapIndex) -> bool {
        if self.versions_in(tile) == CellVersions::Anywhere {
            return true;
        }
        let others = |other: usize| self.fragment(other) != self.fragment(tile);
        let meets = |other: usize| others(other) && self.bounds.meet(tile, other);
        let in_numbers = || near(&index.numbers, self.bounds.but_nan(tile)).any(meets);
        let in_nan = || {
            let mut near = near(&index.nan, self.bounds.tile(tile));
            // Where nearly all tiles meet, most of those found may be of the tile's own fragment.
            near.by_ref().take(MOST_LOOKED_AT).any(meets) || near.next().is_some()
        };
        in_numbers() || (self.bounds.may_hold_nan(tile) && index.nan.size() > 0 && in_nan())
    }

    /// About how many cells of the members lie in the clip.
    fn cells(&self, members: &[usize], clip: &RankBox) -> u64 {
        let cells = |m: &usize| {
            let cells = self.tiles.get(*m).map_or(0, |t| t.cells);
            cells as f64 * clip.share(self.bounds.tile(*m))
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an estimate, not negative"
        )]
        let cells = members.iter().map(cells).sum::<f64>() as u64;
        cells
    }

    /// Cuts a box with more than `most` cells, or with more than `hard` cells where cuts would duplicate many tiles.
    fn halve(
        &self,
        members: Vec<usize>,
        clip: RankBox,
        (most, hard): (u64, u64),
        units: &mut Vec<OverlappingUnit>,
    ) {
        let cells = self.cells(&members, &clip);
        let cut = if cells > most {
            // The most tiles that may lie on both sides, in quarters of all tiles.
            let most_twice = if cells > hard { 3 } else { 1 };
            self.best_cut(&members, &clip, most_twice)
        } else {
            None
        };
        let Some((dim, at)) = cut else {
            units.extend(self.unit(&members, clip, cells));
            return;
        };
        let bound = |m: &usize| {
            self.bounds
                .tile(*m)
                .get(dim)
                .copied()
                .unwrap_or((0, u32::MAX))
        };
        let left = members
            .iter()
            .copied()
            .filter(|m| bound(m).0 < at)
            .collect();
        let right = members.into_iter().filter(|m| bound(m).1 >= at).collect();
        let (mut below, mut above) = (clip.clone(), clip);
        if let (Some(below), Some(above)) = (below.0.get_mut(dim), above.0.get_mut(dim)) {
            below.end = at;
            above.start = at;
        }
        self.halve(left, below, (most, hard), units);
        self.halve(right, above, (most, hard), units);
    }

    /// The unit of the members in a box; `None` if none of their cells becomes a row.
    fn unit(&self, members: &[usize], clip: RankBox, cells: u64) -> Option<OverlappingUnit> {
        let first = members.first()?;
        let mut others = members.iter().map(|m| self.fragment(*m));
        let versions = if others.all(|other| other == self.fragment(*first)) {
            self.versions_in(*first)
        } else {
            CellVersions::Anywhere
        };
        let member = |tile: &usize| OverlappingTile {
            tile: *tile,
            inside: clip.covers(self.bounds.tile(*tile)),
            is_comparison_tile: self.comparison_tiles.binary_search(tile).is_ok(),
        };
        let members = members.iter().map(member).collect::<Vec<_>>();
        let any_rows = members.iter().any(|m| !m.is_comparison_tile);
        any_rows.then_some(OverlappingUnit {
            members,
            clip,
            versions,
            cells,
        })
    }

    /// The cut that leaves the fewest tiles on its larger side, counting tiles on both sides twice. `None` if no cut
    /// makes both sides clearly smaller, or if more than `most_twice` quarters of the tiles would lie on both sides,
    /// where they are fetched, decoded and compared twice.
    fn best_cut(
        &self,
        members: &[usize],
        clip: &RankBox,
        most_twice: usize,
    ) -> Option<(usize, u32)> {
        let n = members.len();
        let mut best: Option<(usize, (usize, u32))> = None;
        for (dim, range) in clip.0.iter().enumerate() {
            let bounds = members
                .iter()
                .filter_map(|m| self.bounds.tile(*m).get(dim).copied());
            let (mut los, mut his): (Vec<u32>, Vec<u32>) = bounds.unzip();
            los.sort_unstable();
            his.sort_unstable();
            for i in 1..=CUTS_TRIED {
                let Some(&at) = los.get(n * i / (CUTS_TRIED + 1)) else {
                    continue;
                };
                if at <= range.start || at >= range.end {
                    continue;
                }
                let left = los.partition_point(|lo| *lo < at);
                let right = n - his.partition_point(|hi| *hi < at);
                let larger = left.max(right);
                let twice = (left + right).saturating_sub(n);
                if larger * 10 > n * 9 || twice * 4 > n * most_twice {
                    continue;
                }
                let cost = larger + twice;
                if best.is_none_or(|(lowest, _)| cost < lowest) {
                    best = Some((cost, (dim, at)));
                }
            }
        }
        best.map(|(_, cut)| cut)
    }
}

/// Boxes with the number of their tile.
type NumberedBoxes = RTree<GeomWithData<Rectangle<[i64; 3]>, usize>>;

/// An index of the boxes of tiles: around the cells that are not NaN, and separately around all cells of the tiles that
/// may hold NaN, if several fragments have such tiles.
struct OverlapIndex {
    numbers: NumberedBoxes,
    nan: NumberedBoxes,
}

impl OverlapIndex {
    fn new(tiles: &[TileRef], bounds: &TileBounds) -> Self {
        let entry = |ranks: &[(u32, u32)], tile| {
            let (lo, hi) = corners(ranks);
            GeomWithData::new(Rectangle::from_corners(lo, hi), tile)
        };
        let numbers = 0..tiles.len();
        let numbers = numbers.map(|tile| entry(bounds.but_nan(tile), tile));
        let fragment = |tile: usize| tiles.get(tile).map(|tile| tile.fragment);
        let mut nan = (0..tiles.len()).filter(|tile| bounds.may_hold_nan(*tile));
        let first = nan.clone().next().and_then(fragment);
        let several = nan.any(|tile| fragment(tile) != first);
        let nan = (0..tiles.len())
            .filter(|tile| several && bounds.may_hold_nan(*tile))
            .map(|tile| entry(bounds.tile(tile), tile));
        Self {
            numbers: RTree::bulk_load(numbers.collect()),
            nan: RTree::bulk_load(nan.collect()),
        }
    }
}

fn near<'i>(index: &'i NumberedBoxes, ranks: &[(u32, u32)]) -> impl Iterator<Item = usize> + 'i {
    let (lo, hi) = corners(ranks);
    let near = index.locate_in_envelope_intersecting(AABB::from_corners(lo, hi));
    near.map(|entry| entry.data)
}

/// The first three dimensions of a box of ranks; missing ones are 0.
fn corners(ranks: &[(u32, u32)]) -> ([i64; 3], [i64; 3]) {
    let at = |d: usize| ranks.get(d).copied().unwrap_or((0, 0));
    let (a, b, c) = (at(0), at(1), at(2));
    (
        [i64::from(a.0), i64::from(b.0), i64::from(c.0)],
        [i64::from(a.1), i64::from(b.1), i64::from(c.1)],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::fragment::TileIdx;

    fn tiles(boxes: &[(usize, u64)]) -> Vec<TileRef> {
        let tile = |(i, (fragment, cells)): (usize, &(usize, u64))| TileRef {
            fragment: *fragment,
            tile: TileIdx(i as u64),
            cells: *cells as usize,
            covered: false,
            no_deletes: true,
            proven: false,
        };
        boxes.iter().enumerate().map(tile).collect()
    }

    fn member(tile: usize) -> OverlappingTile {
        OverlappingTile {
            tile,
            inside: true,
            is_comparison_tile: false,
        }
    }

    #[test]
    fn a_tile_is_alone_unless_another_fragment_meets_its_box() {
        let tiles = tiles(&[(0, 10), (0, 10), (1, 10)]);
        let bounds = TileBounds::of_line(vec![(0, 9), (10, 19), (15, 30)]);
        let split = TileOverlaps::new(&tiles, &bounds, &[CellVersions::None; 2]).split();
        assert_eq!(split.disjoint, [0]);
        assert_eq!(split.units.len(), 1);
        assert_eq!(split.units[0].members, [member(1), member(2)]);
        assert_eq!(split.units[0].versions, CellVersions::Anywhere);
    }

    #[test]
    fn nan_meets_nan_and_nothing_else() {
        let tiles = tiles(&[(0, 10), (0, 10), (1, 10), (1, 10), (2, 10)]);
        let pairs = vec![(0, 9), (10, 19), (20, 29), (30, 39), (40, 49)];
        let split = |nan: [bool; 5]| {
            let bounds = TileBounds::of_floats(pairs.clone(), nan.to_vec());
            TileOverlaps::new(&tiles, &bounds, &[CellVersions::None; 3]).split()
        };
        let split_of_two = split([true, false, false, true, false]);
        assert_eq!(split_of_two.disjoint, [1, 2, 4]);
        let members = split_of_two.units.iter().map(|u| u.members.len());
        assert_eq!(members.collect::<Vec<_>>(), [2]);
        // NaN coordinates of a single fragment overlap nothing.
        assert_eq!(split([true, true, false, false, false]).disjoint.len(), 5);
        assert_eq!(split([false; 5]).disjoint.len(), 5);
        assert!(split([true; 5]).disjoint.is_empty());
        // Coordinates that are not NaN overlap as before.
        let bounds = TileBounds::of_floats(vec![(0, 9), (9, 12)], vec![true, false]);
        let two = [tiles[0], tiles[2]];
        let split = TileOverlaps::new(&two, &bounds, &[CellVersions::None; 2]).split();
        assert_eq!(split.units[0].members.len(), 2);
    }

    #[test]
    fn tiles_of_one_fragment_are_overlapping_where_copies_may_lie_anywhere() {
        let tiles = tiles(&[(0, 10), (0, 10)]);
        let bounds = TileBounds::of_line(vec![(0, 9), (9, 19)]);
        let split = TileOverlaps::new(&tiles, &bounds, &[CellVersions::Anywhere]).split();
        assert!(split.disjoint.is_empty());
        assert!(
            split
                .units
                .iter()
                .all(|u| u.versions == CellVersions::Anywhere)
        );
        let split = TileOverlaps::new(&tiles, &bounds, &[CellVersions::Neighbours]).split();
        assert_eq!(split.disjoint, [0, 1]);
    }

    #[test]
    fn neighbours_that_may_share_a_cell_with_an_overlapping_tile_are_comparison_tiles() {
        let pairs = vec![(0, 9), (9, 9), (9, 15), (16, 20), (12, 14)];
        let tiles = tiles(&[(0, 10), (0, 10), (0, 10), (0, 10), (1, 10)]);
        let bounds = TileBounds::of_line(pairs);
        let versions = [CellVersions::Neighbours, CellVersions::None];
        let split = TileOverlaps::new(&tiles, &bounds, &versions).split();
        assert_eq!(split.disjoint, [0, 1, 3]);
        let is_comparison_tile = |tile| OverlappingTile {
            is_comparison_tile: true,
            ..member(tile)
        };
        let expected = [
            is_comparison_tile(0),
            is_comparison_tile(1),
            member(2),
            member(4),
        ];
        assert_eq!(split.units[0].members, expected);
        // Without versions within a fragment, its own tiles are not compared.
        let split = TileOverlaps::new(&tiles, &bounds, &[CellVersions::None; 2]).split();
        assert_eq!(split.units[0].members, [member(2), member(4)]);
    }

    #[test]
    fn tiles_are_not_shared_out_among_many_units() {
        let (mut refs, mut pairs) = (Vec::new(), Vec::new());
        for fragment in 0..20_usize {
            for i in 0..10 {
                refs.push((fragment, 50_000));
                let start = i * 1000 + fragment as u64 * 47;
                pairs.push((start, start + 999));
            }
        }
        let tiles = tiles(&refs);
        let bounds = TileBounds::of_line(pairs);
        let split = TileOverlaps::new(&tiles, &bounds, &[CellVersions::None; 20]).split();
        // Every cut goes through a tile of nearly every fragment; otherwise there would be 32 units.
        let units = split.units.len() as u64;
        assert!(
            (FEWEST_UNITS / 2..=FEWEST_UNITS * 3 / 2).contains(&units),
            "{units}"
        );
        let largest = split.units.iter().map(|unit| unit.cells).max().unwrap();
        assert!(
            largest <= 2 * HARD_TO_CUT_CELLS,
            "{largest} cells in a unit"
        );
    }

    #[test]
    fn large_stacks_are_cut_and_every_cell_belongs_to_one_unit() {
        let per_fragment = 100_u64;
        let mut refs = Vec::new();
        let mut pairs = Vec::new();
        for fragment in 0..4_usize {
            for i in 0..per_fragment {
                refs.push((fragment, 50_000));
                let shift = fragment as u64 * 3;
                pairs.push((i * 100 + shift, i * 100 + 99 + shift));
            }
        }
        let tiles = tiles(&refs);
        let bounds = TileBounds::of_line(pairs.clone());
        let split = TileOverlaps::new(&tiles, &bounds, &[CellVersions::None; 4]).split();
        assert!(split.disjoint.is_empty());
        assert!(split.units.len() > 10, "{} units", split.units.len());
        for key in [0_u64, 3, 4567, 5000, 10_008] {
            let rank = bounds.rank_of(key);
            let owners = split
                .units
                .iter()
                .filter(|u| u.clip.0[0].contains(&rank))
                .collect::<Vec<_>>();
            assert_eq!(owners.len(), 1, "key {key}");
            for (i, (lo, hi)) in pairs.iter().enumerate() {
                let member = owners[0].members.iter().find(|m| m.tile == i);
                if *lo <= key && key <= *hi {
                    assert!(member.is_some(), "tile {i} of key {key}");
                }
                let inside = owners[0].clip.covers(bounds.tile(i));
                assert!(member.is_none_or(|m| m.inside == inside && !m.is_comparison_tile));
            }
        }
    }
}
