//! The boxes of tiles as boxes of ranks.
//!
//! The ends of all boxes in a dimension are sorted once and replaced by their ranks, so that numbers and strings are
//! compared alike from then on. A tile whose bounds in a dimension are unknown spans all ranks of it. So does a tile
//! that may have NaN in it; but NaN coordinates of one tile only meet NaN coordinates of another.

use std::ops::Range;

use crate::array::fragment::boxes::{TileBoxes, TileRange};
use crate::format::schema::{ArraySchema, CellValNum};
use crate::geometry::subarray::{BytesRange, DimRanges, Subarray};

/// The sorted distinct bounds of one dimension.
enum BoxAxis {
    Keys(Vec<u64>),
    Bytes(Vec<Vec<u8>>),
}

/// One dimension of all tiles.
struct BoxColumn {
    /// Ranks around the values that are not NaN, inclusive.
    ranks: Vec<(u32, u32)>,
    /// Which tiles may have NaN; empty if none.
    nan: Vec<bool>,
}

impl BoxColumn {
    fn ranks(&self, tile: usize) -> (u32, u32) {
        self.ranks.get(tile).copied().unwrap_or_default()
    }

    fn may_hold_nan(&self, tile: usize) -> bool {
        self.nan.get(tile).copied().unwrap_or(false)
    }
}

/// The boxes of tiles as boxes of ranks, inclusive.
pub struct TileBounds {
    axes: Vec<BoxAxis>,
    /// `[lo, hi]` ranks around all cells, dimension after dimension, tile after tile.
    ranks: Vec<(u32, u32)>,
    /// `[lo, hi]` ranks around the cells that are not NaN, in the same order; empty if no cell can be NaN.
    but_nan: Vec<(u32, u32)>,
    /// In which dimensions cells may be NaN, in the same order; empty if in none.
    nan: Vec<bool>,
}

impl TileBounds {
    /// Ranks the boxes of tiles, each given as (boxes of the fragment, number of the tile).
    pub fn new(schema: &ArraySchema, tiles: &[(&TileBoxes, usize)]) -> Self {
        let mut axes = Vec::with_capacity(schema.dimensions.len());
        let mut columns = Vec::with_capacity(schema.dimensions.len());
        for (d, dimension) in schema.dimensions.iter().enumerate() {
            let ranges = tiles.iter().map(|(boxes, tile)| boxes.range(*tile, d));
            if dimension.cell_val_num == CellValNum::Var {
                let (values, ranks) = rank(ranges.map(|range| match range {
                    TileRange::Bytes { lo, hi } => Some((lo.to_vec(), hi.to_vec())),
                    _ => None,
                }));
                axes.push(BoxAxis::Bytes(values));
                columns.push(BoxColumn {
                    ranks,
                    nan: Vec::new(),
                });
            } else {
                let (values, ranks) = rank(ranges.clone().map(|range| match range {
                    TileRange::Keys { lo, hi, .. } => Some((lo, hi)),
                    _ => None,
                }));
                // A tile with unknown bounds may have NaN, too.
                let float = dimension.datatype.is_float();
                let nan = ranges.map(|range| float && range.keys().is_none());
                axes.push(BoxAxis::Keys(values));
                columns.push(BoxColumn {
                    ranks,
                    nan: nan.collect(),
                });
            }
        }
        Self::of_columns(axes, &columns, tiles.len())
    }

    /// Assembles the columns of all dimensions.
    fn of_columns(axes: Vec<BoxAxis>, columns: &[BoxColumn], tiles: usize) -> Self {
        let each = || (0..tiles).flat_map(|tile| columns.iter().map(move |column| (column, tile)));
        let mut nan = each()
            .map(|(column, tile)| column.may_hold_nan(tile))
            .collect::<Vec<_>>();
        let mut but_nan = each()
            .map(|(column, tile)| column.ranks(tile))
            .collect::<Vec<_>>();
        let whole = axes.iter().map(|axis| (0, axis.last())).collect::<Vec<_>>();
        let ranks = but_nan.iter().zip(&nan).zip(whole.iter().cycle());
        let ranks = ranks
            .map(|((ranks, nan), whole)| if *nan { *whole } else { *ranks })
            .collect();
        if !nan.contains(&true) {
            (nan, but_nan) = (Vec::new(), Vec::new());
        }
        Self {
            axes,
            ranks,
            but_nan,
            nan,
        }
    }

    /// The number of dimensions.
    pub(super) fn dimensions(&self) -> usize {
        self.axes.len()
    }

    fn of_tile<'a, T>(&self, all: &'a [T], tile: usize) -> &'a [T] {
        let width = self.axes.len();
        all.get(tile * width..(tile + 1) * width)
            .unwrap_or_default()
    }

    /// The ranks of a tile, inclusive.
    pub(super) fn tile(&self, tile: usize) -> &[(u32, u32)] {
        self.of_tile(&self.ranks, tile)
    }

    /// The ranks of a tile's cells that are not NaN, inclusive.
    pub(super) fn but_nan(&self, tile: usize) -> &[(u32, u32)] {
        if self.but_nan.is_empty() {
            self.tile(tile)
        } else {
            self.of_tile(&self.but_nan, tile)
        }
    }

    /// In which dimensions cells of a tile may be NaN; empty if no tile may have NaN.
    fn nan(&self, tile: usize) -> &[bool] {
        self.of_tile(&self.nan, tile)
    }

    /// Whether cells of a tile may be NaN in some dimension.
    pub(super) fn may_hold_nan(&self, tile: usize) -> bool {
        self.nan(tile).contains(&true)
    }

    /// Whether two tiles may have cells at the same coordinates.
    pub(super) fn meet(&self, a: usize, b: usize) -> bool {
        let (nan_a, nan_b) = (self.nan(a), self.nan(b));
        let both_nan = |d: usize| nan_a.get(d) == Some(&true) && nan_b.get(d) == Some(&true);
        let mut dims = self
            .but_nan(a)
            .iter()
            .zip(self.but_nan(b))
            .enumerate()
            .map(|(d, (a, b))| (a.0 <= b.1 && b.0 <= a.1) || both_nan(d));
        dims.all(|meet| meet)
    }

    /// Whether the box of a tile is a single point; zeros of either sign count as one coordinate.
    pub(super) fn has_one_coordinate(&self, tile: usize) -> bool {
        self.tile(tile).iter().all(|(lo, hi)| lo == hi)
    }

    /// The box of values that a box of ranks stands for.
    pub fn subarray(&self, clip: &RankBox) -> Subarray {
        let mut subarray = Subarray::all(self.axes.len());
        for (d, (axis, range)) in self.axes.iter().zip(&clip.0).enumerate() {
            let open = range.start == 0;
            let (start, end) = (range.start as usize, range.end as usize);
            let ranges = match axis {
                BoxAxis::Keys(values) => {
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
                BoxAxis::Bytes(values) => {
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
    /// The boxes of tiles with these bounds in their only dimension.
    pub(super) fn of_line(pairs: Vec<(u64, u64)>) -> Self {
        let nan = vec![false; pairs.len()];
        Self::of_floats(pairs, nan)
    }

    /// The boxes of tiles with these bounds in their only dimension, of floats; `nan` says which may hold NaN.
    pub(super) fn of_floats(pairs: Vec<(u64, u64)>, nan: Vec<bool>) -> Self {
        let tiles = pairs.len();
        let (values, ranks) = rank(pairs.into_iter().map(Some));
        Self::of_columns(
            vec![BoxAxis::Keys(values)],
            &[BoxColumn { ranks, nan }],
            tiles,
        )
    }

    /// The rank of the last bound that is at most a key of the only dimension.
    pub(super) fn rank_of(&self, key: u64) -> u32 {
        let Some(BoxAxis::Keys(values)) = self.axes.first() else {
            panic!("the axis has keys")
        };
        values.partition_point(|v| *v <= key) as u32 - 1
    }
}

impl BoxAxis {
    /// The largest rank.
    fn last(&self) -> u32 {
        let count = match self {
            Self::Keys(values) => values.len(),
            Self::Bytes(values) => values.len(),
        };
        u32::try_from(count.saturating_sub(1)).unwrap_or(u32::MAX)
    }
}

/// Sorts all ends and replaces each by its rank; a tile without bounds gets all ranks.
fn rank<T: Ord + Clone>(pairs: impl Iterator<Item = Option<(T, T)>>) -> (Vec<T>, Vec<(u32, u32)>) {
    let pairs = pairs.collect::<Vec<_>>();
    let known = pairs.iter().flatten();
    let mut values = known
        .flat_map(|(lo, hi)| [lo.clone(), hi.clone()])
        .collect::<Vec<_>>();
    values.sort_unstable();
    values.dedup();
    let position = |value: &T| {
        let position = values.partition_point(|v| v < value);
        u32::try_from(position).unwrap_or(u32::MAX)
    };
    let last = u32::try_from(values.len().saturating_sub(1)).unwrap_or(u32::MAX);
    let ranks = pairs
        .iter()
        .map(|pair| match pair {
            Some((lo, hi)) => (position(lo), position(hi)),
            None => (0, last),
        })
        .collect();
    (values, ranks)
}

/// A half-open box of ranks.
#[derive(Debug, Clone)]
pub struct RankBox(pub(super) Vec<Range<u32>>);

impl RankBox {
    /// The box of all ranks.
    pub(super) fn all(dimensions: usize) -> Self {
        Self(vec![0..u32::MAX; dimensions])
    }

    /// Whether a box of inclusive ranks lies inside.
    pub(super) fn covers(&self, ranks: &[(u32, u32)]) -> bool {
        let mut dims = self.0.iter().zip(ranks);
        dims.all(|(clip, (lo, hi))| clip.start <= *lo && *hi < clip.end)
    }

    /// About how much of a box of ranks lies inside. Ranks are dense where tiles are, so this estimates the share of
    /// its cells.
    pub(super) fn share(&self, ranks: &[(u32, u32)]) -> f64 {
        let share = |(clip, (lo, hi)): (&Range<u32>, &(u32, u32))| {
            let end = clip.end.min(hi.saturating_add(1));
            let inside = end.saturating_sub(clip.start.max(*lo));
            f64::from(inside) / (f64::from(*hi) - f64::from(*lo) + 1.0)
        };
        self.0.iter().zip(ranks).map(share).product()
    }
}
