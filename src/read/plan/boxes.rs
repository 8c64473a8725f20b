//! The MBRs of tiles as boxes of ranks.
//!
//! The bounds of all MBRs of a dimension are sorted once and replaced by their positions, so that numbers and strings
//! are alike from then on.

use std::ops::Range;

use crate::array::key;
use crate::array::subarray::{BytesRange, DimRanges, Subarray};
use crate::error::Result;
use crate::format::fragment::rtree::Mbrs;
use crate::format::schema::{ArraySchema, CellValNum};

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

    /// The number of dimensions.
    pub(super) fn dimensions(&self) -> usize {
        self.axes.len()
    }

    /// The ranks of a tile, inclusive.
    pub(super) fn tile(&self, tile: usize) -> &[(u32, u32)] {
        let width = self.axes.len();
        self.ranks
            .get(tile * width..(tile + 1) * width)
            .unwrap_or_default()
    }

    /// Whether the MBRs of two tiles meet.
    pub(super) fn meet(&self, a: usize, b: usize) -> bool {
        let mut dims = self.tile(a).iter().zip(self.tile(b));
        dims.all(|(a, b)| a.0 <= b.1 && b.0 <= a.1)
    }

    /// Whether the MBR of a tile is a single place, but that zeros of either sign are one.
    pub(super) fn is_one_place(&self, tile: usize) -> bool {
        self.tile(tile).iter().all(|(lo, hi)| lo == hi)
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

#[cfg(test)]
impl TileBounds {
    /// Of tiles with these bounds in their only dimension.
    pub(super) fn of_line(pairs: Vec<(u64, u64)>) -> Self {
        let (values, ranks) = rank(pairs);
        Self {
            axes: vec![Axis::Keys(values)],
            ranks,
        }
    }

    /// The rank of the last bound at or before a key of the only dimension.
    pub(super) fn rank_of(&self, key: u64) -> u32 {
        let Some(Axis::Keys(values)) = self.axes.first() else {
            panic!("the axis has keys")
        };
        values.partition_point(|v| *v <= key) as u32 - 1
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
pub struct Clip(pub(super) Vec<Range<u32>>);

impl Clip {
    /// Everything.
    pub(super) fn all(dimensions: usize) -> Self {
        Self(vec![0..u32::MAX; dimensions])
    }

    /// Whether a box of ranks, which are inclusive, lies inside.
    pub(super) fn covers(&self, ranks: &[(u32, u32)]) -> bool {
        let mut dims = self.0.iter().zip(ranks);
        dims.all(|(clip, (lo, hi))| clip.start <= *lo && *hi < clip.end)
    }

    /// About how much of a box of ranks lies inside: ranks are close together where tiles are.
    pub(super) fn share(&self, ranks: &[(u32, u32)]) -> f64 {
        let share = |(clip, (lo, hi)): (&Range<u32>, &(u32, u32))| {
            let end = clip.end.min(hi.saturating_add(1));
            let inside = end.saturating_sub(clip.start.max(*lo));
            f64::from(inside) / (f64::from(*hi) - f64::from(*lo) + 1.0)
        };
        self.0.iter().zip(ranks).map(share).product()
    }
}
