//! Searching a tile for cells in ranges, by the order in which cells are stored.
//!
//! This serves `SELECT avg(value) FROM genes WHERE gene = 77`, where `gene` is the inner dimension of a sparse matrix
//! in row-major order, and a point `WHERE cell = 54321 AND gene = 77`. Without it, all chunks of the requested
//! coordinates are unfiltered; a search finds the cells of a column in three or four chunks out of thirteen. It does
//! not apply to tiles of less than 8,192 cells or four chunks, in Hilbert order, to dimensions of text, where NaN may
//! be among the coordinates, and where the box of a tile leaves several dimensions free at first, like a tile of
//! several rows of space tiles. `tiledb.enable_cell_search` switches it off. Benchmark: `benches/special_ways.rs`,
//! `enable_cell_search`: 1.8 × for a column, 1.4 × for a point, 1.5 × for a box of the inner dimensions, on two cores.
//!
//! Cells are ordered by space tile, and within one by cell order (specification: "Global Cell Order"). If the box of a
//! tile leaves only one dimension free at first, the coordinates of that dimension ascend from cell to cell, or the
//! space tiles in which they lie do: the first and the last coordinate of a decoded chunk bound those of the chunks
//! before and after it. Where the cells continue from one row of space tiles into the next, the coordinates ascend
//! twice: from the first cell to the end of the row, and from the start of the next row to the last cell.

#[cfg(test)]
mod tests;

use std::ops::{Range, RangeInclusive};

use crate::filter::ChunkChoice;
use crate::format::datatype::Datatype;
use crate::format::schema::{CellValNum, Dimension, Layout};
use crate::geometry::cell_order::GlobalOrder;
use crate::geometry::key::{self, NativeKey, with_native};
use crate::geometry::subarray::DimRanges;

/// With fewer chunks, a search skips none,
const FEWEST_CHUNKS: usize = 4;
/// and tiles with fewer cells than these have fewer chunks.
pub(super) const FEWEST_CELLS: usize = 8 << 10;
/// The number of guesses by interpolation; after them, gaps are halved.
const GUESSES: u8 = 3;

/// A position in the order of a tile's cells: whether it is in the second ascent, and the step.
type SearchPosition = (bool, u64);

/// Consecutive chunks that are not decoded, between two that are.
#[derive(Debug)]
struct ChunkGap {
    /// Indices into the list of chunks.
    chunks: Range<usize>,
    guesses: u8,
}

/// The state of a search.
#[derive(Debug)]
pub(super) struct TileSearch<'a> {
    by: &'a SearchBy,
    datatype: Datatype,
    order: &'a GlobalOrder,
    ranges: &'a DimRanges,
    /// The chunks that have cells: number in the tile, and range of cells.
    chunks: Vec<(usize, Range<usize>)>,
    /// The first and the last step of each chunk that was decoded.
    ends: Vec<Option<(u64, u64)>>,
    /// Whether a chunk need not be decoded.
    skipped: Vec<bool>,
    /// The step at which the second ascent ends, and the one at which the first begins, once both are known.
    turn: Option<(u64, u64)>,
    gaps: Vec<ChunkGap>,
    /// Chunks that must be decoded, whatever they hold.
    due: Vec<usize>,
    /// Whether the search has given up: chunks contradict the order, or do not hold whole cells.
    lost: bool,
}

impl<'a> TileSearch<'a> {
    /// A search for the cells in `ranges`.
    pub fn new(
        by: &'a SearchBy,
        datatype: Datatype,
        order: &'a GlobalOrder,
        ranges: &'a DimRanges,
    ) -> Self {
        Self {
            by,
            datatype,
            order,
            ranges,
            chunks: Vec::new(),
            ends: Vec::new(),
            skipped: Vec::new(),
            turn: None,
            gaps: Vec::new(),
            due: Vec::new(),
            lost: false,
        }
    }

    /// Deselects the cells of skipped chunks, which hold none in the ranges.
    pub fn select(&self, mask: &mut [bool]) {
        for ((_, cells), skipped) in self.chunks.iter().zip(&self.skipped) {
            if *skipped {
                mask.get_mut(cells.clone()).unwrap_or_default().fill(false);
            }
        }
    }

    /// Gives up the search: all chunks are decoded, in order.
    fn give_up(&mut self) {
        self.lost = true;
        self.gaps.clear();
        self.skipped.fill(false);
        let decoded = self.ends.iter().map(Option::is_some);
        let left = decoded.enumerate().filter(|(_, decoded)| !decoded);
        self.due = left.map(|(chunk, _)| chunk).rev().collect();
    }

    /// The step of a coordinate: its key, or its space tile.
    fn step(&self, key: u64) -> u64 {
        match self.by.step {
            SearchStep::Key => key,
            SearchStep::SpaceTile => self.order.tile_index(self.by.dimension, key),
        }
    }

    /// The position of a step; `None` if the order does not allow it.
    fn position(&self, step: u64) -> Option<SearchPosition> {
        match self.turn {
            None => Some((false, step)),
            Some((_, start)) if step >= start => Some((false, step)),
            Some((end, _)) if step <= end => Some((true, step)),
            Some(_) => None,
        }
    }

    /// The positions of the cells right before and after a gap.
    fn around(&self, chunks: &Range<usize>) -> Option<(SearchPosition, SearchPosition)> {
        let (min, max) = (*self.by.bounds.start(), *self.by.bounds.end());
        let end = |chunk: Option<usize>| self.ends.get(chunk?).copied().flatten();
        let before = end(chunks.start.checked_sub(1)).map_or(min, |(_, last)| last);
        let behind = end(Some(chunks.end)).map_or(max, |(first, _)| first);
        let around = (self.position(before)?, self.position(behind)?);
        (around.0 <= around.1).then_some(around)
    }

    /// The steps between two positions, in one or two ranges.
    fn steps(&self, from: SearchPosition, to: SearchPosition) -> [Option<(u64, u64)>; 2] {
        match (from, to) {
            ((true, _), _) | (_, (false, _)) => [Some((from.1, to.1)), None],
            _ => [
                Some((from.1, *self.by.bounds.end())),
                Some((*self.by.bounds.start(), to.1)),
            ],
        }
    }

    /// The first wanted range within some steps.
    fn wanted_in(&self, (lo, hi): (u64, u64)) -> Option<(u64, u64)> {
        let ranges = self.ranges.key_ranges();
        let next = ranges.partition_point(|range| self.step(range.hi) < lo);
        let range = ranges.get(next)?;
        let (from, to) = (self.step(range.lo).max(lo), self.step(range.hi).min(hi));
        (from <= to).then_some((from, to))
    }

    /// The chunk of a gap that most likely holds the first wanted cells; `None` if none can hold any.
    fn guess(&self, gap: &ChunkGap, from: SearchPosition, to: SearchPosition) -> Option<usize> {
        let pieces = self.steps(from, to);
        // The distance of the wanted step from the start of the gap, and the number of steps in it.
        let (mut target, mut all) = (None, 0_u64);
        for (lo, hi) in pieces.into_iter().flatten() {
            if let (None, Some((wanted, _))) = (target, self.wanted_in((lo, hi))) {
                target = Some(all.saturating_add(wanted.saturating_sub(lo)));
            }
            all = all.saturating_add(hi.saturating_sub(lo)).saturating_add(1);
        }
        let (target, chunks) = (target?, gap.chunks.len());
        if gap.guesses >= GUESSES || self.by.step == SearchStep::Key && self.datatype.is_float() {
            return Some(gap.chunks.start + chunks / 2);
        }
        let part = (u128::from(target) * 2 + 1) * chunks as u128 / (u128::from(all) * 2).max(1);
        let part = usize::try_from(part).unwrap_or(0).min(chunks - 1);
        Some(gap.chunks.start + part)
    }

    /// Skips a gap, or splits it at a chunk to decode.
    fn look_at(&mut self, gap: &ChunkGap) {
        let Some((from, to)) = self.around(&gap.chunks) else {
            self.give_up();
            return;
        };
        let Some(guess) = self.guess(gap, from, to) else {
            let skipped = self.skipped.get_mut(gap.chunks.clone());
            skipped.unwrap_or_default().fill(true);
            return;
        };
        let guesses = gap.guesses.saturating_add(1);
        let parts = [gap.chunks.start..guess, guess + 1..gap.chunks.end]
            .into_iter()
            .filter(|chunks| !chunks.is_empty());
        self.gaps
            .extend(parts.map(|chunks| ChunkGap { chunks, guesses }));
        self.due.push(guess);
    }
}

impl ChunkChoice for TileSearch<'_> {
    fn begin(&mut self, chunks: &[Range<usize>]) {
        let width = self.datatype.size().max(1);
        let chunks = chunks.iter().enumerate().filter(|(_, b)| !b.is_empty());
        self.lost = chunks
            .clone()
            .any(|(_, bytes)| !bytes.len().is_multiple_of(width));
        let cells = chunks.map(|(number, b)| (number, b.start / width..b.end / width));
        self.chunks = cells.collect();
        self.ends = vec![None; self.chunks.len()];
        self.skipped = vec![false; self.chunks.len()];
        let count = self.chunks.len();
        if self.lost || count < FEWEST_CHUNKS {
            self.give_up();
        } else if self.by.twice {
            self.due = vec![count - 1, 0];
        } else {
            self.gaps = vec![ChunkGap {
                chunks: 0..count,
                guesses: 0,
            }];
        }
    }

    fn next(&mut self) -> Option<usize> {
        loop {
            if let Some(due) = self.due.pop() {
                return self.chunks.get(due).map(|(number, _)| *number);
            }
            let gap = self.gaps.pop()?;
            self.look_at(&gap);
        }
    }

    fn decoded(&mut self, chunk: usize, bytes: &[u8]) {
        let ends = with_native!(self.datatype, T => {
            let values = bytes.as_chunks().0;
            let key = |value: &[u8; size_of::<T>()]| T::from_le_bytes(*value).to_key();
            values.first().map(key).zip(values.last().map(key))
        }, _ => None)
        .map(|(first, last)| (self.step(first), self.step(last)));
        let index = self
            .chunks
            .binary_search_by_key(&chunk, |(number, _)| *number);
        if let Some(known) = index.ok().and_then(|index| self.ends.get_mut(index)) {
            *known = ends;
        }
        if self.lost {
            return;
        }
        if self.by.twice && self.turn.is_none() {
            let end = |ends: Option<&Option<(u64, u64)>>| ends.copied().flatten();
            let (first, last) = (end(self.ends.first()), end(self.ends.last()));
            if let Some(((start, _), (_, end))) = first.zip(last) {
                // If the last step is not below the first, the cells may ascend through all steps twice.
                if start <= end {
                    self.give_up();
                    return;
                }
                self.turn = Some((end, start));
                self.gaps.push(ChunkGap {
                    chunks: 1..self.chunks.len() - 1,
                    guesses: 0,
                });
            }
            return;
        }
        let positions = ends.map(|(first, last)| (self.position(first), self.position(last)));
        let ascends = |(first, last)| matches!((first, last), (Some(a), Some(b)) if a <= b);
        if !positions.is_some_and(ascends) {
            self.give_up();
        }
    }
}

/// What ascends from cell to cell of a tile: the coordinates of a dimension, or the space tiles in which they lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchStep {
    Key,
    SpaceTile,
}

/// A dimension by which a tile can be searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SearchBy {
    /// The dimension.
    pub dimension: usize,
    step: SearchStep,
    /// Whether the steps ascend twice.
    twice: bool,
    /// The smallest and the largest step.
    bounds: RangeInclusive<u64>,
}

/// The box of a tile.
struct SearchBox<'a, F> {
    dimensions: &'a [Dimension],
    order: &'a GlobalOrder,
    ends: F,
}

impl<F: Fn(usize) -> Option<(u64, u64)>> SearchBox<'_, F> {
    /// The keys of the box's ends in a dimension; `None` if it has none.
    fn keys(&self, d: usize) -> Option<(u64, u64)> {
        let dimension = self.dimensions.get(d)?;
        let fixed = dimension.cell_val_num == CellValNum::Fixed(1);
        if !fixed || !key::has_key(dimension.datatype) {
            return None;
        }
        (self.ends)(d).filter(|(lo, hi)| lo <= hi)
    }

    /// The space tiles of the box's ends in a dimension.
    fn space_tiles(&self, d: usize) -> (u64, u64) {
        let (lo, hi) = self.keys(d).unwrap_or_default();
        (self.order.tile_index(d, lo), self.order.tile_index(d, hi))
    }
}

/// The dimension, out of `searched`, by which a tile in global order can be searched; `ends` are the keys of its box
/// for every dimension that has keys.
pub(super) fn search_by<'a>(
    dimensions: &'a [Dimension],
    order: &'a GlobalOrder,
    ends: impl Fn(usize) -> Option<(u64, u64)>,
    searched: impl Fn(usize) -> bool,
) -> Option<SearchBy> {
    let tile = SearchBox {
        dimensions,
        order,
        ends,
    };
    let in_order = |layout: Layout| -> Option<Vec<usize>> {
        let dimensions = 0..dimensions.len();
        match layout {
            Layout::RowMajor => Some(dimensions.collect()),
            Layout::ColMajor => Some(dimensions.rev().collect()),
            Layout::Hilbert => None,
        }
    };
    let by_cell = in_order(order.cell_order())?;
    let by_tile = in_order(order.tile_order())?;
    // The dimensions in which the box spans several space tiles, outermost first.
    let spread = |d: &usize| {
        let (lo, hi) = tile.space_tiles(*d);
        lo < hi
    };
    let mut spread = by_tile.into_iter().filter(spread);
    let found = |dimension: usize, step, twice| {
        let (lo, hi) = match step {
            SearchStep::Key => tile.keys(dimension)?,
            SearchStep::SpaceTile => tile.space_tiles(dimension),
        };
        searched(dimension).then_some(SearchBy {
            dimension,
            step,
            twice,
            bounds: lo..=hi,
        })
    };
    // The first dimension in cell order in which the box spans several coordinates.
    let mut free = by_cell.into_iter().filter_map(|d| match tile.keys(d) {
        Some((lo, hi)) if lo == hi => None,
        Some(_) => Some(Some(d)),
        // The order of strings is not relied on.
        None => Some(None),
    });
    let first_free = free.next().flatten();
    match (spread.next(), spread.next()) {
        (None, _) => found(first_free?, SearchStep::Key, false),
        (Some(only), None) if first_free == Some(only) => found(only, SearchStep::Key, false),
        (Some(outer), inner) => {
            let (lo, hi) = tile.space_tiles(outer);
            let inner = inner.filter(|_| hi - lo == 1);
            let inner = inner.and_then(|inner| found(inner, SearchStep::SpaceTile, true));
            inner.or_else(|| found(outer, SearchStep::SpaceTile, false))
        }
    }
}
