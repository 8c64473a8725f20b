//! The cells of a box inside one dense tile, as the longest runs that are contiguous in the stored order, and their
//! coordinates (specification: "Cell order").
//!
//! A tile stores all cells of its full extents in cell order (row-major: the last dimension runs fastest), so a
//! box that spans a tile's fastest dimensions is one run per step of the others. [`BoxRuns`] and [`BoxCoordinates`]
//! number the box's cells alike: that is the order in which cells leave the scan, without any sorting.

use crate::error::{Error, Result};
use crate::format::schema::Layout;

use crate::geometry::domain::KeyBox;

/// Values copied at once, if they repeat in shorter rounds.
const COPIED_AT_ONCE: usize = 4096;

/// Contiguous cells of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellRun {
    /// The first cell's number within its tile.
    pub start: usize,
    /// The number of cells.
    pub len: usize,
}

/// A dimension that the runs step over, slowest first.
#[derive(Debug, Clone, Copy)]
struct RunAxis {
    /// The current step, and the number of steps.
    step: usize,
    steps: usize,
    /// Number of cells in the tile from one step to the next.
    stride: usize,
}

/// The runs of a box within a tile, in stored order.
#[derive(Debug, Clone)]
pub struct BoxRuns {
    axes: Vec<RunAxis>,
    next: Option<usize>,
    len: usize,
    remaining: usize,
    cells: usize,
}

impl BoxRuns {
    /// The runs of `clip` in the tile that starts at `tile_lo` and has `extents`.
    pub fn new(
        extents: &[u64],
        cell_order: Layout,
        tile_lo: &[u64],
        clip: &KeyBox,
    ) -> Result<Self> {
        if extents.len() != clip.ndim() || tile_lo.len() != clip.ndim() {
            return Err(Error::internal(format!(
                "a box of {} dimensions in a tile of {}",
                clip.ndim(),
                extents.len()
            )));
        }
        let mut sides = extents
            .iter()
            .zip(tile_lo)
            .zip(clip.ranges())
            .map(|((extent, tile_lo), (lo, hi))| side(*extent, *tile_lo, lo, hi))
            .collect::<Result<Vec<_>>>()?;
        // From here on the slowest dimension comes first, as in row-major order.
        if matches!(cell_order, Layout::ColMajor) {
            sides.reverse();
        }
        Self::build(&sides)
    }

    fn build(sides: &[BoxSide]) -> Result<Self> {
        let too_large = || Error::corrupt("a tile has more cells than this machine can address");
        let mut axes = Vec::with_capacity(sides.len());
        let (mut stride, mut start) = (1usize, 0usize);
        let (mut len, mut runs, mut whole) = (1usize, 1usize, true);
        for side in sides.iter().rev() {
            start = side
                .offset
                .checked_mul(stride)
                .and_then(|s| s.checked_add(start))
                .ok_or_else(too_large)?;
            if whole {
                // The box spans every faster dimension, so this dimension's cells are contiguous.
                len = stride.checked_mul(side.len).ok_or_else(too_large)?;
                whole = side.len == side.extent;
            } else if side.len > 1 {
                runs = runs.checked_mul(side.len).ok_or_else(too_large)?;
                axes.push(RunAxis {
                    step: 0,
                    steps: side.len,
                    stride,
                });
            }
            stride = stride.checked_mul(side.extent).ok_or_else(too_large)?;
        }
        axes.reverse();
        let cells = runs.checked_mul(len).ok_or_else(too_large)?;
        Ok(Self {
            axes,
            next: Some(start),
            len,
            remaining: runs,
            cells,
        })
    }

    /// Number of cells in the box.
    pub fn cells(&self) -> usize {
        self.cells
    }

    /// The length of every run.
    pub fn run_len(&self) -> usize {
        self.len
    }

    /// Moves `start` to the next run; `false` after the last one.
    fn step(&mut self, start: &mut usize) -> bool {
        for axis in self.axes.iter_mut().rev() {
            axis.step += 1;
            if axis.step < axis.steps {
                *start += axis.stride;
                return true;
            }
            *start -= axis.stride * (axis.steps - 1);
            axis.step = 0;
        }
        false
    }
}

impl Iterator for BoxRuns {
    type Item = CellRun;

    fn next(&mut self) -> Option<CellRun> {
        let start = self.next.take()?;
        let mut following = start;
        if self.step(&mut following) {
            self.next = Some(following);
        }
        self.remaining = self.remaining.saturating_sub(1);
        Some(CellRun {
            start,
            len: self.len,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining, Some(self.remaining))
    }
}

impl ExactSizeIterator for BoxRuns {}

/// Calls `f` with every run of `clip`; see [`BoxRuns::new`].
pub fn box_runs(
    extents: &[u64],
    cell_order: Layout,
    tile_lo: &[u64],
    clip: &KeyBox,
    f: &mut impl FnMut(CellRun),
) -> Result<()> {
    BoxRuns::new(extents, cell_order, tile_lo, clip)?.for_each(f);
    Ok(())
}

/// One dimension of a box inside a tile.
struct BoxSide {
    offset: usize,
    len: usize,
    extent: usize,
}

fn side(extent: u64, tile_lo: u64, lo: u64, hi: u64) -> Result<BoxSide> {
    let offset = lo.checked_sub(tile_lo);
    let side = offset.filter(|_| hi - tile_lo < extent).ok_or_else(|| {
        Error::internal(format!(
            "a box [{lo}, {hi}] leaves its tile [{tile_lo}, +{extent})"
        ))
    })?;
    Ok(BoxSide {
        offset: usize::try_from(side)?,
        // The difference is less than the extent, so adding one cannot overflow.
        len: usize::try_from(hi - lo + 1)?,
        extent: usize::try_from(extent)?,
    })
}

/// The values of one dimension over the cells of a box, in the order of [`BoxRuns`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoxCoordinates {
    lo: u64,
    /// Number of different values.
    side: usize,
    /// Number of consecutive cells with the same value.
    repeat: usize,
    cells: usize,
}

impl BoxCoordinates {
    /// The values of dimension `dim` over `clip`.
    pub fn new(clip: &KeyBox, cell_order: Layout, dim: usize) -> Result<Self> {
        let too_large = || Error::internal("a box has more cells than this machine can address");
        let len = |(lo, hi): (u64, u64)| {
            (hi - lo)
                .checked_add(1)
                .and_then(|n| usize::try_from(n).ok())
        };
        let range = clip
            .range(dim)
            .ok_or_else(|| Error::internal(format!("a box has no dimension {dim}")))?;
        let side = len(range).ok_or_else(too_large)?;
        let mut repeat = 1usize;
        let mut cells = side;
        for (other, sides) in clip.ranges().enumerate() {
            if other == dim {
                continue;
            }
            let n = len(sides).ok_or_else(too_large)?;
            cells = cells.checked_mul(n).ok_or_else(too_large)?;
            let faster = if matches!(cell_order, Layout::ColMajor) {
                other < dim
            } else {
                other > dim
            };
            if faster {
                repeat *= n;
            }
        }
        Ok(Self {
            lo: range.0,
            side,
            repeat,
            cells,
        })
    }

    /// Number of cells in the box.
    pub fn cells(&self) -> usize {
        self.cells
    }

    /// Writes the values of the box's cells, starting at cell number `start`. `value` converts a key; `T::from_key`
    /// gives the stored value. Slots of `out` beyond the last cell are left unchanged.
    ///
    /// The values repeat in rounds: those of one round are computed, the others are copied from it.
    pub fn fill<T: Copy>(&self, start: usize, out: &mut [T], value: impl Fn(u64) -> T) {
        let count = out.len().min(self.cells.saturating_sub(start));
        let (out, _) = out.split_at_mut(count);
        let round = self.repeat * self.side;
        let (first, _) = out.split_at_mut(count.min(round));
        self.fill_round(start % round, first, value);
        // Whole rounds, few enough to stay in the fastest cache.
        let block = (COPIED_AT_ONCE / round).max(1) * round;
        let mut filled = first.len();
        while filled < count {
            let copied = filled.min(block).min(count - filled);
            out.copy_within(..copied, filled);
            filled += copied;
        }
    }

    /// Writes at most one round of values.
    fn fill_round<T: Copy>(&self, start: usize, out: &mut [T], value: impl Fn(u64) -> T) {
        let mut rest = out;
        let mut step = start / self.repeat;
        if self.repeat == 1 {
            while !rest.is_empty() {
                let (run, others) = rest.split_at_mut(rest.len().min(self.side - step));
                let first = self.lo + step as u64;
                for (i, slot) in run.iter_mut().enumerate() {
                    *slot = value(first + i as u64);
                }
                (rest, step) = (others, 0);
            }
            return;
        }
        let mut len = self.repeat - start % self.repeat;
        while !rest.is_empty() {
            let (run, others) = rest.split_at_mut(rest.len().min(len));
            run.fill(value(self.lo + step as u64));
            (rest, len) = (others, self.repeat);
            step = if step + 1 == self.side { 0 } else { step + 1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::geometry::key::NativeKey;

    fn clip(lo: &[u64], hi: &[u64]) -> KeyBox {
        KeyBox::new(lo.to_vec(), hi.to_vec()).unwrap()
    }

    fn runs(extents: &[u64], order: Layout, lo: &[u64], hi: &[u64]) -> Vec<(usize, usize)> {
        let tile_lo = vec![0; extents.len()];
        BoxRuns::new(extents, order, &tile_lo, &clip(lo, hi))
            .unwrap()
            .map(|r| (r.start, r.len))
            .collect()
    }

    #[test]
    fn whole_fast_dimensions_merge() {
        let row = Layout::RowMajor;
        assert_eq!(runs(&[3, 4], row, &[0, 0], &[2, 3]), [(0, 12)]);
        assert_eq!(runs(&[3, 4], row, &[1, 0], &[2, 3]), [(4, 8)]);
        assert_eq!(runs(&[3, 4], row, &[1, 1], &[2, 2]), [(5, 2), (9, 2)]);
        assert_eq!(
            runs(&[3, 4], Layout::ColMajor, &[1, 1], &[2, 2]),
            [(4, 2), (7, 2)]
        );
        assert_eq!(runs(&[3, 4], Layout::ColMajor, &[0, 1], &[2, 2]), [(3, 6)]);
        assert_eq!(
            runs(&[2, 3, 4], row, &[0, 1, 0], &[1, 2, 3]),
            [(4, 8), (16, 8)]
        );
        assert_eq!(runs(&[5], row, &[2], &[2]), [(2, 1)]);
    }

    #[test]
    fn boxes_that_leave_the_tile_are_refused() {
        let row = Layout::RowMajor;
        assert!(BoxRuns::new(&[4], row, &[10], &clip(&[9], &[10])).is_err());
        assert!(BoxRuns::new(&[4], row, &[10], &clip(&[10], &[14])).is_err());
        assert!(BoxRuns::new(&[u64::MAX, 2], row, &[0, 0], &clip(&[0, 0], &[1, 1])).is_err());
        assert!(BoxRuns::new(&[4], row, &[0, 0], &clip(&[0, 0], &[1, 1])).is_err());
        let last = BoxRuns::new(
            &[4],
            row,
            &[u64::MAX - 1],
            &clip(&[u64::MAX - 1], &[u64::MAX]),
        )
        .unwrap();
        assert_eq!(last.collect::<Vec<_>>(), [CellRun { start: 0, len: 2 }]);
    }

    proptest! {
        #[test]
        fn runs_and_coordinates_agree_with_the_plain_loop(
            sides in prop::collection::vec((1u64..5, 0u64..5, 0u64..5), 1..4),
            col_major: bool,
            window in (0usize..40, 0usize..40),
        ) {
            let order = if col_major { Layout::ColMajor } else { Layout::RowMajor };
            let extents: Vec<u64> = sides.iter().map(|s| s.0).collect();
            let base = (-3i64).to_key();
            let tile_lo = vec![base; sides.len()];
            let lo: Vec<u64> = sides.iter().map(|s| base + s.1.min(s.2) % s.0).collect();
            let hi: Vec<u64> = sides.iter().zip(&lo).map(|(s, lo)| (*lo).max(base + s.1.max(s.2) % s.0)).collect();
            let cells = clip(&lo, &hi);

            // Every cell of the tile in stored order, with its coordinates.
            let mut stored: Vec<Vec<u64>> = vec![vec![]];
            let dims: Vec<usize> = if col_major { (0..sides.len()).rev().collect() } else { (0..sides.len()).collect() };
            for &d in &dims {
                stored = stored.iter().flat_map(|c| (0..extents[d]).map(|i| {
                    let mut c = c.clone();
                    c.push(base + i);
                    c
                })).collect();
            }
            if col_major {
                stored.iter_mut().for_each(|c| c.reverse());
            }
            let expected: Vec<usize> = (0..stored.len()).filter(|i| cells.contains_cell(&stored[*i])).collect();

            let found = BoxRuns::new(&extents, order, &tile_lo, &cells).unwrap();
            prop_assert_eq!(found.cells(), expected.len());
            prop_assert_eq!(found.len(), found.clone().count());
            let mut longest = found.clone().collect::<Vec<_>>();
            longest.dedup_by(|b, a| a.start + a.len == b.start);
            prop_assert_eq!(longest.len(), found.len(), "two runs touch");
            let listed: Vec<usize> = found.flat_map(|r| r.start..r.start + r.len).collect();
            prop_assert_eq!(&listed, &expected);

            for d in dims {
                let values: Vec<i64> = expected.iter().map(|i| i64::from_key(stored[*i][d])).collect();
                let coordinates = BoxCoordinates::new(&cells, order, d).unwrap();
                let mut all = vec![0; values.len()];
                coordinates.fill(0, &mut all, i64::from_key);
                prop_assert_eq!(&all, &values);
                let mut part = vec![77; window.1];
                coordinates.fill(window.0, &mut part, i64::from_key);
                let from = window.0.min(values.len());
                let inside = (values.len() - from).min(window.1);
                prop_assert_eq!(&part[..inside], &values[from..from + inside]);
                prop_assert!(part[inside..].iter().all(|v| *v == 77));
            }
        }
    }
}
