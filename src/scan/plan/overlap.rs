//! Which sparse tiles are disjoint, and how the others are cut into units of bounded size.
//!
//! In an array without duplicates a cell may lie in several fragments, and its newest version wins. A tile whose MBR
//! meets no MBR of another fragment is *disjoint*: nothing in another fragment can hide its cells. The others are
//! *overlapping* and are resolved together, but not all at once: space is halved, again and again, where the cut parts
//! the tiles best, until what is left in a box is small. A tile that straddles a cut belongs to both sides, which keep
//! only the cells in their own box.
//!
//! Of a fragment that holds several versions of a cell itself, tiles that are disjoint may share cells with overlapping ones.
//! They are *witnesses* there: their cells are compared, and become rows elsewhere.
//!
//! An R*-tree over the first three dimensions of the boxes finds neighbours. Of tiles with cells that may be NaN it knows
//! where the others lie; which of these tiles may meet in NaN, says a second one.

use rstar::primitives::{GeomWithData, Rectangle};
use rstar::{AABB, RTree};

use super::boxes::{Clip, TileBounds};
use super::versions::Neighbourhood;
use crate::scan::plan::sparse_units::{CellVersions, TileRef};

/// Cells resolved together at most, unless space cannot be cut any finer.
const UNIT_CELLS: u64 = 512 * 1024;
/// There is always so much to resolve together.
const SMALLEST_UNIT_CELLS: u64 = 128 * 1024;
/// In between, so many units are made, for as many workers.
const UNITS: u64 = 32;
/// So much is resolved together where cuts would only share the tiles out among more units: each of them looks through
/// all of its tiles, and fetches them.
const HARD_TO_CUT_CELLS: u64 = 2 * 1024 * 1024;
/// There are so many units even of tiles that are hard to cut, for as many workers.
const FEWEST_UNITS: u64 = 12;
/// A tile that may hold NaN is compared with at most so many others that may; with more of them, it counts as overlapping.
const MOST_LOOKED_AT: usize = 256;
/// Cuts tried per dimension and level.
const CUTS_TRIED: usize = 8;

/// A tile of an [`OverlappingUnit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its position.
    pub tile: usize,
    /// Whether all of its cells count.
    pub inside: bool,
    /// Whether its cells are only compared.
    pub witness: bool,
}

/// Overlapping tiles read together.
#[derive(Debug)]
pub struct OverlappingUnit {
    /// The tiles.
    pub members: Vec<Member>,
    /// Whose cells count.
    pub clip: Clip,
    /// Where versions of the members' cells may lie.
    pub versions: CellVersions,
    /// About how many cells count.
    pub cells: u64,
}

/// The tiles, parted.
#[derive(Debug)]
pub struct OverlapSplit {
    /// Positions of the tiles that are disjoint.
    pub disjoint: Vec<usize>,
    /// The others.
    pub units: Vec<OverlappingUnit>,
}

/// Tiles in the order of their fragments, their boxes, and where a fragment itself holds versions of its cells.
pub struct Overlaps<'a> {
    tiles: &'a [TileRef],
    bounds: &'a TileBounds,
    versions: &'a [CellVersions],
    witnesses: Vec<usize>,
}

impl<'a> Overlaps<'a> {
    /// `versions` says per fragment where versions of its cells may lie within it.
    pub fn new(tiles: &'a [TileRef], bounds: &'a TileBounds, versions: &'a [CellVersions]) -> Self {
        Self {
            tiles,
            bounds,
            versions,
            witnesses: Vec::new(),
        }
    }

    /// Parts the tiles.
    pub fn split(mut self) -> OverlapSplit {
        let index = Index::new(self.tiles, self.bounds);
        let (overlapping, disjoint): (Vec<_>, Vec<_>) =
            (0..self.tiles.len()).partition(|tile| self.is_overlapping(*tile, &index));
        let mut units = Vec::new();
        if !overlapping.is_empty() {
            let with_versions = |tile: &usize| self.versions_in(*tile) == CellVersions::Neighbours;
            let with_versions = overlapping.iter().copied().filter(with_versions);
            let neighbourhood = Neighbourhood::new(self.tiles, self.bounds);
            self.witnesses = neighbourhood.witnesses(&with_versions.collect::<Vec<_>>());
            let mut members = [overlapping, self.witnesses.clone()].concat();
            members.sort_unstable();
            let whole = Clip::all(self.bounds.dimensions());
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

    fn is_overlapping(&self, tile: usize, index: &Index) -> bool {
        if self.versions_in(tile) == CellVersions::Anywhere {
            return true;
        }
        let others = |other: usize| self.fragment(other) != self.fragment(tile);
        let meets = |other: usize| others(other) && self.bounds.meet(tile, other);
        let in_numbers = || near(&index.numbers, self.bounds.but_nan(tile)).any(meets);
        let in_nan = || {
            let mut near = near(&index.nan, self.bounds.tile(tile));
            // Where nearly all meet, most of them may be of the tile's own fragment.
            near.by_ref().take(MOST_LOOKED_AT).any(meets) || near.next().is_some()
        };
        in_numbers() || (self.bounds.may_hold_nan(tile) && index.nan.size() > 0 && in_nan())
    }

    /// About how many cells of the members lie in the clip.
    fn cells(&self, members: &[usize], clip: &Clip) -> u64 {
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

    /// Cuts what has more cells than `most`, or, where that is hard, than `hard`.
    fn halve(
        &self,
        members: Vec<usize>,
        clip: Clip,
        (most, hard): (u64, u64),
        units: &mut Vec<OverlappingUnit>,
    ) {
        let cells = self.cells(&members, &clip);
        let cut = if cells > most {
            // Tiles on both sides, in quarters of all.
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

    /// The members in a box; `None` if nothing of them becomes rows.
    fn unit(&self, members: &[usize], clip: Clip, cells: u64) -> Option<OverlappingUnit> {
        let first = members.first()?;
        let mut others = members.iter().map(|m| self.fragment(*m));
        let versions = match others.all(|other| other == self.fragment(*first)) {
            true => self.versions_in(*first),
            false => CellVersions::Anywhere,
        };
        let member = |tile: &usize| Member {
            tile: *tile,
            inside: clip.covers(self.bounds.tile(*tile)),
            witness: self.witnesses.binary_search(tile).is_ok(),
        };
        let members = members.iter().map(member).collect::<Vec<_>>();
        let any_rows = members.iter().any(|m| !m.witness);
        any_rows.then_some(OverlappingUnit {
            members,
            clip,
            versions,
            cells,
        })
    }

    /// The cut that leaves the fewest tiles on its larger side, counting tiles on both sides twice; `None` if no cut
    /// makes both sides clearly smaller, or if more than `most_twice` quarters of the tiles would lie on both. Those are
    /// fetched, decoded and looked through twice.
    fn best_cut(&self, members: &[usize], clip: &Clip, most_twice: usize) -> Option<(usize, u32)> {
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

/// Boxes, and whose they are.
type Boxes = RTree<GeomWithData<Rectangle<[i64; 3]>, usize>>;

/// Where tiles lie: their cells but for NaN, and, apart from them, all cells of those tiles that may have NaN, if they are
/// of several fragments.
struct Index {
    numbers: Boxes,
    nan: Boxes,
}

impl Index {
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
        let nan = (0..tiles.len()).filter(|tile| several && bounds.may_hold_nan(*tile));
        let nan = nan.map(|tile| entry(bounds.tile(tile), tile));
        Self {
            numbers: RTree::bulk_load(numbers.collect()),
            nan: RTree::bulk_load(nan.collect()),
        }
    }
}

fn near<'i>(index: &'i Boxes, ranks: &[(u32, u32)]) -> impl Iterator<Item = usize> + 'i {
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

    fn member(tile: usize) -> Member {
        Member {
            tile,
            inside: true,
            witness: false,
        }
    }

    #[test]
    fn a_tile_is_alone_unless_another_fragment_meets_its_box() {
        let tiles = tiles(&[(0, 10), (0, 10), (1, 10)]);
        let bounds = TileBounds::of_line(vec![(0, 9), (10, 19), (15, 30)]);
        let split = Overlaps::new(&tiles, &bounds, &[CellVersions::None; 2]).split();
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
            Overlaps::new(&tiles, &bounds, &[CellVersions::None; 3]).split()
        };
        let split_of_two = split([true, false, false, true, false]);
        assert_eq!(split_of_two.disjoint, [1, 2, 4]);
        let members = split_of_two.units.iter().map(|u| u.members.len());
        assert_eq!(members.collect::<Vec<_>>(), [2]);
        // The NaN of one fragment alone is in one place only.
        assert_eq!(split([true, true, false, false, false]).disjoint.len(), 5);
        assert_eq!(split([false; 5]).disjoint.len(), 5);
        assert!(split([true; 5]).disjoint.is_empty());
        // Numbers meet as ever.
        let bounds = TileBounds::of_floats(vec![(0, 9), (9, 12)], vec![true, false]);
        let two = [tiles[0], tiles[2]];
        let split = Overlaps::new(&two, &bounds, &[CellVersions::None; 2]).split();
        assert_eq!(split.units[0].members.len(), 2);
    }

    #[test]
    fn tiles_of_one_fragment_are_overlapping_where_copies_may_lie_anywhere() {
        let tiles = tiles(&[(0, 10), (0, 10)]);
        let bounds = TileBounds::of_line(vec![(0, 9), (9, 19)]);
        let split = Overlaps::new(&tiles, &bounds, &[CellVersions::Anywhere]).split();
        assert!(split.disjoint.is_empty());
        assert!(
            split
                .units
                .iter()
                .all(|u| u.versions == CellVersions::Anywhere)
        );
        let split = Overlaps::new(&tiles, &bounds, &[CellVersions::Neighbours]).split();
        assert_eq!(split.disjoint, [0, 1]);
    }

    #[test]
    fn neighbours_that_may_share_a_cell_with_an_overlapping_tile_are_witnesses() {
        let pairs = vec![(0, 9), (9, 9), (9, 15), (16, 20), (12, 14)];
        let tiles = tiles(&[(0, 10), (0, 10), (0, 10), (0, 10), (1, 10)]);
        let bounds = TileBounds::of_line(pairs);
        let versions = [CellVersions::Neighbours, CellVersions::None];
        let split = Overlaps::new(&tiles, &bounds, &versions).split();
        assert_eq!(split.disjoint, [0, 1, 3]);
        let witness = |tile| Member {
            witness: true,
            ..member(tile)
        };
        let expected = [witness(0), witness(1), member(2), member(4)];
        assert_eq!(split.units[0].members, expected);
        // Without versions within the fragment nobody is asked.
        let split = Overlaps::new(&tiles, &bounds, &[CellVersions::None; 2]).split();
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
        let split = Overlaps::new(&tiles, &bounds, &[CellVersions::None; 20]).split();
        // Every cut goes through a tile of nearly every fragment; those would be cut into 32 otherwise.
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
        let split = Overlaps::new(&tiles, &bounds, &[CellVersions::None; 4]).split();
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
                assert!(member.is_none_or(|m| m.inside == inside && !m.witness));
            }
        }
    }
}
