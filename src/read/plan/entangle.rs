//! Which sparse tiles stand alone, and how the others are cut into units of bounded size.
//!
//! In an array without duplicates a cell may lie in several fragments, and its newest copy wins. A tile whose MBR
//! meets no MBR of another fragment stands *alone*: nothing can hide its cells. The others are *entangled* and are
//! resolved together, but not all at once: space is halved, again and again, where the cut parts the tiles best,
//! until what is left in a box is small. A tile that straddles a cut belongs to both sides, which keep only the
//! cells in their own box.
//!
//! All of it is done on ranks: the bounds of all MBRs of a dimension are sorted once and replaced by their
//! positions, so that numbers and strings are alike. An R*-tree over the first three dimensions finds neighbours.

use std::ops::Range;

use rstar::primitives::{GeomWithData, Rectangle};
use rstar::{AABB, RTree};

use super::sparse::TileRef;
use crate::array::key;
use crate::array::subarray::{BytesRange, DimRanges, Subarray};
use crate::error::Result;
use crate::format::fragment::rtree::Mbrs;
use crate::format::schema::{ArraySchema, CellValNum};

/// Cells resolved together at most, unless space cannot be cut any finer.
const UNIT_CELLS: u64 = 512 * 1024;
/// There is always so much to resolve together.
const SMALLEST_UNIT_CELLS: u64 = 128 * 1024;
/// In between, so many units are made, for as many workers.
const UNITS: u64 = 32;
/// Cuts tried per dimension and level.
const CUTS_TRIED: usize = 8;

/// The sorted distinct bounds of one dimension.
enum Axis {
    Keys(Vec<u64>),
    Bytes(Vec<Vec<u8>>),
}

/// The MBRs of the tiles as boxes of ranks, inclusive.
pub struct TileBounds {
    axes: Vec<Axis>,
    /// `[lo, hi]` ranks, dimension after dimension, tile after tile.
    ranks: Vec<(u32, u32)>,
}

impl TileBounds {
    /// Ranks the MBRs of tiles given as (MBRs of the fragment, number of the tile).
    pub fn new(schema: &ArraySchema, boxes: &[(&Mbrs, usize)]) -> Result<Self> {
        let dimensions = schema.dimensions.len();
        let mut axes = Vec::with_capacity(dimensions);
        let mut columns = Vec::with_capacity(dimensions);
        for (d, dimension) in schema.dimensions.iter().enumerate() {
            let pairs = boxes.iter().map(|(mbrs, tile)| mbrs.range(*tile, d));
            let (axis, column) = if dimension.cell_val_num == CellValNum::Var {
                let pairs = pairs
                    .map(|(lo, hi)| (lo.to_vec(), hi.to_vec()))
                    .collect::<Vec<_>>();
                let (values, ranks) = rank(pairs);
                (Axis::Bytes(values), ranks)
            } else {
                let key = |bytes| key::key(dimension.datatype, bytes);
                let pairs = pairs
                    .map(|(lo, hi)| Ok((key(lo)?, key(hi)?)))
                    .collect::<Result<Vec<_>>>()?;
                let (values, ranks) = rank(pairs);
                (Axis::Keys(values), ranks)
            };
            axes.push(axis);
            columns.push(column);
        }
        let tiles = columns.first().map_or(0, Vec::len);
        let ranks = (0..tiles)
            .flat_map(|tile| columns.iter().filter_map(move |c| c.get(tile).copied()))
            .collect();
        Ok(Self { axes, ranks })
    }

    fn tile(&self, tile: usize) -> &[(u32, u32)] {
        let width = self.axes.len();
        self.ranks
            .get(tile * width..(tile + 1) * width)
            .unwrap_or_default()
    }

    /// The box of values that a box of ranks stands for.
    pub fn subarray(&self, clip: &Clip) -> Subarray {
        let mut subarray = Subarray::all(self.axes.len());
        for (d, (axis, range)) in self.axes.iter().zip(&clip.0).enumerate() {
            let open = range.start == 0;
            let (start, end) = (range.start as usize, range.end as usize);
            let ranges = match axis {
                Axis::Keys(values) => {
                    let lo = if open {
                        0
                    } else {
                        values.get(start).copied().unwrap_or(u64::MAX)
                    };
                    let hi = values
                        .get(end)
                        .map_or(u64::MAX, |end| end.saturating_sub(1));
                    if lo == 0 && hi == u64::MAX {
                        continue;
                    }
                    DimRanges::key_range(lo, hi)
                }
                Axis::Bytes(values) => {
                    let start = if open {
                        Vec::new()
                    } else {
                        values.get(start).cloned().unwrap_or_default()
                    };
                    DimRanges::from_bytes(vec![BytesRange {
                        start,
                        end: values.get(end).cloned(),
                    }])
                }
            };
            subarray.intersect_dim(d, &ranges);
        }
        subarray
    }
}

/// Sorts all bounds and replaces each by its position.
fn rank<T: Ord + Clone>(pairs: Vec<(T, T)>) -> (Vec<T>, Vec<(u32, u32)>) {
    let mut values = pairs
        .iter()
        .flat_map(|(lo, hi)| [lo.clone(), hi.clone()])
        .collect::<Vec<_>>();
    values.sort_unstable();
    values.dedup();
    let position = |value: &T| {
        let position = values.partition_point(|v| v < value);
        u32::try_from(position).unwrap_or(u32::MAX)
    };
    let ranks = pairs
        .iter()
        .map(|(lo, hi)| (position(lo), position(hi)))
        .collect();
    (values, ranks)
}

/// A half-open box of ranks.
#[derive(Debug, Clone)]
pub struct Clip(Vec<Range<u32>>);

impl Clip {
    /// Whether a box of ranks, which are inclusive, lies inside.
    fn covers(&self, ranks: &[(u32, u32)]) -> bool {
        let mut dims = self.0.iter().zip(ranks);
        dims.all(|(clip, (lo, hi))| clip.start <= *lo && *hi < clip.end)
    }

    /// About how much of a box of ranks lies inside: ranks are close together where tiles are.
    fn share(&self, ranks: &[(u32, u32)]) -> f64 {
        let share = |(clip, (lo, hi)): (&Range<u32>, &(u32, u32))| {
            let end = clip.end.min(hi.saturating_add(1));
            let inside = end.saturating_sub(clip.start.max(*lo));
            f64::from(inside) / (f64::from(*hi) - f64::from(*lo) + 1.0)
        };
        self.0.iter().zip(ranks).map(share).product()
    }
}

/// Entangled tiles read together.
#[derive(Debug)]
pub struct EntangledUnit {
    /// Positions of the tiles, and whether all of their cells count.
    pub members: Vec<(usize, bool)>,
    /// Whose cells count.
    pub clip: Clip,
    /// Whether the members can hide each other's cells.
    pub resolve: bool,
    /// About how many cells count.
    pub cells: u64,
}

/// The tiles, parted.
#[derive(Debug)]
pub struct EntanglementSplit {
    /// Positions of the tiles that stand alone.
    pub alone: Vec<usize>,
    /// The others.
    pub units: Vec<EntangledUnit>,
}

/// Tiles, their boxes, and which fragments hold several versions of a cell themselves.
pub struct Entanglement<'a> {
    tiles: &'a [TileRef],
    bounds: &'a TileBounds,
    versions: &'a [bool],
}

impl<'a> Entanglement<'a> {
    /// `versions` says per fragment whether it may hold several versions of one cell.
    pub fn new(tiles: &'a [TileRef], bounds: &'a TileBounds, versions: &'a [bool]) -> Self {
        Self {
            tiles,
            bounds,
            versions,
        }
    }

    /// Parts the tiles.
    pub fn split(&self) -> EntanglementSplit {
        let index = self.index();
        let (entangled, alone): (Vec<_>, Vec<_>) =
            (0..self.tiles.len()).partition(|tile| self.is_entangled(*tile, &index));
        let mut units = Vec::new();
        if !entangled.is_empty() {
            let whole = Clip(vec![0..u32::MAX; self.bounds.axes.len()]);
            let cells = self.cells(&entangled, &whole);
            let most = (cells / UNITS).clamp(SMALLEST_UNIT_CELLS, UNIT_CELLS);
            self.halve(entangled, whole, most, &mut units);
        }
        EntanglementSplit { alone, units }
    }

    fn fragment(&self, tile: usize) -> usize {
        self.tiles.get(tile).map_or(usize::MAX, |t| t.fragment)
    }

    fn has_versions(&self, tile: usize) -> bool {
        self.versions
            .get(self.fragment(tile))
            .copied()
            .unwrap_or(true)
    }

    fn index(&self) -> RTree<GeomWithData<Rectangle<[i64; 3]>, usize>> {
        let boxes = (0..self.tiles.len()).map(|tile| {
            let (lo, hi) = corners(self.bounds.tile(tile));
            GeomWithData::new(Rectangle::from_corners(lo, hi), tile)
        });
        RTree::bulk_load(boxes.collect())
    }

    fn is_entangled(
        &self,
        tile: usize,
        index: &RTree<GeomWithData<Rectangle<[i64; 3]>, usize>>,
    ) -> bool {
        if self.has_versions(tile) {
            return true;
        }
        let own = self.bounds.tile(tile);
        let (lo, hi) = corners(own);
        let neighbours = index.locate_in_envelope_intersecting(AABB::from_corners(lo, hi));
        neighbours.map(|n| n.data).any(|other| {
            self.fragment(other) != self.fragment(tile)
                && own
                    .iter()
                    .zip(self.bounds.tile(other))
                    .all(|(a, b)| a.0 <= b.1 && b.0 <= a.1)
        })
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

    fn halve(&self, members: Vec<usize>, clip: Clip, most: u64, units: &mut Vec<EntangledUnit>) {
        let cells = self.cells(&members, &clip);
        let cut = if cells > most {
            self.best_cut(&members, &clip)
        } else {
            None
        };
        let Some((dim, at)) = cut else {
            let first = members.first().map(|m| self.fragment(*m));
            let one_fragment = members.iter().all(|m| Some(self.fragment(*m)) == first);
            let resolve = !one_fragment || members.iter().any(|m| self.has_versions(*m));
            let inside = |m| (m, clip.covers(self.bounds.tile(m)));
            units.push(EntangledUnit {
                members: members.into_iter().map(inside).collect(),
                clip,
                resolve,
                cells,
            });
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
        self.halve(left, below, most, units);
        self.halve(right, above, most, units);
    }

    /// The cut that leaves the fewest tiles on its larger side, counting tiles on both sides twice; `None` if no cut
    /// makes both sides clearly smaller. Tiles on both sides are decoded once, but looked through twice.
    fn best_cut(&self, members: &[usize], clip: &Clip) -> Option<(usize, u32)> {
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
                if larger * 10 > n * 9 || twice * 4 > n * 3 {
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
            spared: true,
            proven: false,
        };
        boxes.iter().enumerate().map(tile).collect()
    }

    fn bounds_1d(pairs: Vec<(u64, u64)>) -> TileBounds {
        let (values, ranks) = rank(pairs);
        TileBounds {
            axes: vec![Axis::Keys(values)],
            ranks,
        }
    }

    #[test]
    fn a_tile_is_alone_unless_another_fragment_meets_its_box() {
        let tiles = tiles(&[(0, 10), (0, 10), (1, 10)]);
        let bounds = bounds_1d(vec![(0, 9), (10, 19), (15, 30)]);
        let split = Entanglement::new(&tiles, &bounds, &[false, false]).split();
        assert_eq!(split.alone, [0]);
        assert_eq!(split.units.len(), 1);
        assert_eq!(split.units[0].members, [(1, true), (2, true)]);
        assert!(split.units[0].resolve);
    }

    #[test]
    fn tiles_of_one_fragment_with_versions_are_entangled() {
        let tiles = tiles(&[(0, 10), (0, 10)]);
        let bounds = bounds_1d(vec![(0, 9), (9, 19)]);
        let split = Entanglement::new(&tiles, &bounds, &[true]).split();
        assert!(split.alone.is_empty());
        assert!(split.units.iter().all(|u| u.resolve));
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
        let bounds = bounds_1d(pairs.clone());
        let split = Entanglement::new(&tiles, &bounds, &[false; 4]).split();
        assert!(split.alone.is_empty());
        assert!(split.units.len() > 10, "{} units", split.units.len());
        let Axis::Keys(values) = &bounds.axes[0] else {
            panic!("the axis has keys")
        };
        for key in [0_u64, 3, 4567, 5000, 10_008] {
            let rank = values.partition_point(|v| *v <= key) as u32 - 1;
            let owners = split
                .units
                .iter()
                .filter(|u| u.clip.0[0].contains(&rank))
                .collect::<Vec<_>>();
            assert_eq!(owners.len(), 1, "key {key}");
            for (i, (lo, hi)) in pairs.iter().enumerate() {
                let member = owners[0].members.iter().find(|(m, _)| *m == i);
                if *lo <= key && key <= *hi {
                    assert!(member.is_some(), "tile {i} of key {key}");
                }
                let clip = &owners[0].clip.0[0];
                let inside =
                    clip.contains(&(bounds.ranks[i].0)) && clip.contains(&bounds.ranks[i].1);
                assert!(member.is_none_or(|(_, covered)| *covered == inside));
            }
        }
    }
}
