//! Searching a tile for the cells in some ranges, by the order in which cells are stored.
//!
//! Cells come by space tile, and within one by cell order (specification: "Global Cell Order"). So of a tile whose box
//! leaves only one dimension free at first, the coordinates of that dimension ascend, or the space tiles in which they
//! lie do: a chunk of coordinates that was decoded says what those before and behind it can hold. Where the cells go
//! through the space tiles of one row and on into the next, they ascend twice: from where they begin to the end of the
//! row, and from the start of the next row to where they end.
//!
//! `WHERE gene = 7` of a matrix in row-major order finds its cells in three or four chunks out of thirteen.

use std::ops::{Range, RangeInclusive};

use crate::filter::ChunkChoice;
use crate::format::datatype::Datatype;
use crate::format::schema::{CellValNum, Dimension, Layout};
use crate::geometry::cell_order::GlobalOrder;
use crate::geometry::key::{self, Native, with_native};
use crate::geometry::subarray::DimRanges;

/// With fewer chunks there is nothing to be found by searching,
const FEWEST_CHUNKS: usize = 4;
/// and tiles with fewer cells than these have no more chunks.
pub(super) const FEWEST_CELLS: usize = 8 << 10;
/// So many guesses are made by distance; after them, halves are as good.
const GUESSES: u8 = 3;

/// What ascends from cell to cell of a tile: coordinates, or the space tiles of the dimension in which they lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Key,
    SpaceTile,
}

/// A dimension by which a tile can be searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SearchBy {
    /// The dimension.
    pub dimension: usize,
    step: Step,
    /// Whether it ascends twice.
    twice: bool,
    /// Between what it ascends.
    bounds: RangeInclusive<u64>,
}

/// The box of a tile.
struct TileBox<'a, F> {
    dimensions: &'a [Dimension],
    order: &'a GlobalOrder,
    ends: F,
}

impl<F: Fn(usize) -> Option<(u64, u64)>> TileBox<'_, F> {
    /// Keys of the ends of a dimension; `None` if it has none.
    fn keys(&self, d: usize) -> Option<(u64, u64)> {
        let dimension = self.dimensions.get(d)?;
        let fixed = dimension.cell_val_num == CellValNum::Fixed(1);
        if !fixed || !key::has_key(dimension.datatype) {
            return None;
        }
        (self.ends)(d).filter(|(lo, hi)| lo <= hi)
    }

    /// Space tiles of the ends of a dimension.
    fn space_tiles(&self, d: usize) -> (u64, u64) {
        let (lo, hi) = self.keys(d).unwrap_or_default();
        (self.order.tile_index(d, lo), self.order.tile_index(d, hi))
    }
}

/// By which of the `searched` dimensions a tile can be searched, whose cells are in global order; `ends` are keys of those
/// of its box, of every dimension that has keys.
pub(super) fn search_by<'a>(
    dimensions: &'a [Dimension],
    order: &'a GlobalOrder,
    ends: impl Fn(usize) -> Option<(u64, u64)>,
    searched: impl Fn(usize) -> bool,
) -> Option<SearchBy> {
    let tile = TileBox {
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
    // What goes over more than one space tile, outermost first.
    let spread = |d: &usize| {
        let (lo, hi) = tile.space_tiles(*d);
        lo < hi
    };
    let mut spread = by_tile.into_iter().filter(spread);
    let found = |dimension: usize, step, twice| {
        let (lo, hi) = match step {
            Step::Key => tile.keys(dimension)?,
            Step::SpaceTile => tile.space_tiles(dimension),
        };
        searched(dimension).then_some(SearchBy {
            dimension,
            step,
            twice,
            bounds: lo..=hi,
        })
    };
    // The first dimension, in cell order, of which the box leaves several coordinates.
    let mut free = by_cell.into_iter().filter_map(|d| match tile.keys(d) {
        Some((lo, hi)) if lo == hi => None,
        Some(_) => Some(Some(d)),
        // What a string is known for is not trusted so far.
        None => Some(None),
    });
    let first_free = free.next().flatten();
    match (spread.next(), spread.next()) {
        (None, _) => found(first_free?, Step::Key, false),
        (Some(only), None) if first_free == Some(only) => found(only, Step::Key, false),
        (Some(outer), inner) => {
            let (lo, hi) = tile.space_tiles(outer);
            let inner = inner.filter(|_| hi - lo == 1);
            let inner = inner.and_then(|inner| found(inner, Step::SpaceTile, true));
            inner.or_else(|| found(outer, Step::SpaceTile, false))
        }
    }
}

/// A place on the way through a tile: the first or the second ascent, and how far up.
type Place = (bool, u64);

/// Chunks between two that were decoded.
#[derive(Debug)]
struct Gap {
    /// Numbers in the list of chunks.
    chunks: Range<usize>,
    guesses: u8,
}

/// A search under way.
#[derive(Debug)]
pub(super) struct Search<'a> {
    by: &'a SearchBy,
    datatype: Datatype,
    order: &'a GlobalOrder,
    ranges: &'a DimRanges,
    /// The chunks that have cells: their numbers in the tile, and their cells.
    chunks: Vec<(usize, Range<usize>)>,
    /// The first and the last value of those that were decoded.
    ends: Vec<Option<(u64, u64)>>,
    /// The chunks that need not be decoded.
    skipped: Vec<bool>,
    /// Where the second ascent ends and the first begins, once that is known of two.
    turn: Option<(u64, u64)>,
    gaps: Vec<Gap>,
    /// Chunks that are to be decoded, whatever they hold.
    due: Vec<usize>,
    /// Whether chunks contradict each other, or are no runs of cells.
    lost: bool,
}

impl<'a> Search<'a> {
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

    /// Clears the marks of cells in chunks that hold none in the ranges.
    pub fn mark(&self, mask: &mut [bool]) {
        for ((_, cells), skipped) in self.chunks.iter().zip(&self.skipped) {
            if *skipped {
                mask.get_mut(cells.clone()).unwrap_or_default().fill(false);
            }
        }
    }

    /// Decodes whatever was not, in order.
    fn give_up(&mut self) {
        self.lost = true;
        self.gaps.clear();
        self.skipped.fill(false);
        let decoded = self.ends.iter().map(Option::is_some);
        let left = decoded.enumerate().filter(|(_, decoded)| !decoded);
        self.due = left.map(|(chunk, _)| chunk).rev().collect();
    }

    /// The step at which a coordinate lies.
    fn step(&self, key: u64) -> u64 {
        match self.by.step {
            Step::Key => key,
            Step::SpaceTile => self.order.tile_index(self.by.dimension, key),
        }
    }

    /// Where on the way a step lies; `None` if it should not be there.
    fn place(&self, step: u64) -> Option<Place> {
        match self.turn {
            None => Some((false, step)),
            Some((_, start)) if step >= start => Some((false, step)),
            Some((end, _)) if step <= end => Some((true, step)),
            Some(_) => None,
        }
    }

    /// The places between which a gap lies.
    fn around(&self, chunks: &Range<usize>) -> Option<(Place, Place)> {
        let (min, max) = (*self.by.bounds.start(), *self.by.bounds.end());
        let end = |chunk: Option<usize>| self.ends.get(chunk?).copied().flatten();
        let before = end(chunks.start.checked_sub(1)).map_or(min, |(_, last)| last);
        let behind = end(Some(chunks.end)).map_or(max, |(first, _)| first);
        let around = (self.place(before)?, self.place(behind)?);
        (around.0 <= around.1).then_some(around)
    }

    /// The steps between two places, in one or two pieces.
    fn steps(&self, from: Place, to: Place) -> [Option<(u64, u64)>; 2] {
        match (from, to) {
            ((true, _), _) | (_, (false, _)) => [Some((from.1, to.1)), None],
            _ => [
                Some((from.1, *self.by.bounds.end())),
                Some((*self.by.bounds.start(), to.1)),
            ],
        }
    }

    /// The first range with cells in some steps, as steps.
    fn wanted_in(&self, (lo, hi): (u64, u64)) -> Option<(u64, u64)> {
        let ranges = self.ranges.key_ranges();
        let next = ranges.partition_point(|range| self.step(range.hi) < lo);
        let range = ranges.get(next)?;
        let (from, to) = (self.step(range.lo).max(lo), self.step(range.hi).min(hi));
        (from <= to).then_some((from, to))
    }

    /// A chunk of a gap that may hold the first wanted cells; `None` if none can.
    fn guess(&self, gap: &Gap, from: Place, to: Place) -> Option<usize> {
        let pieces = self.steps(from, to);
        // Steps from the start of the gap, and all of its steps.
        let (mut target, mut all) = (None, 0_u64);
        for (lo, hi) in pieces.into_iter().flatten() {
            if let (None, Some((wanted, _))) = (target, self.wanted_in((lo, hi))) {
                target = Some(all.saturating_add(wanted.saturating_sub(lo)));
            }
            all = all.saturating_add(hi.saturating_sub(lo)).saturating_add(1);
        }
        let (target, chunks) = (target?, gap.chunks.len());
        if gap.guesses >= GUESSES || self.by.step == Step::Key && self.datatype.is_float() {
            return Some(gap.chunks.start + chunks / 2);
        }
        let part = (u128::from(target) * 2 + 1) * chunks as u128 / (u128::from(all) * 2).max(1);
        let part = usize::try_from(part).unwrap_or(0).min(chunks - 1);
        Some(gap.chunks.start + part)
    }

    /// Looks at a gap: it is skipped, or one of its chunks is due and splits it.
    fn look_at(&mut self, gap: &Gap) {
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
        let parts = [gap.chunks.start..guess, guess + 1..gap.chunks.end];
        let parts = parts.into_iter().filter(|chunks| !chunks.is_empty());
        self.gaps
            .extend(parts.map(|chunks| Gap { chunks, guesses }));
        self.due.push(guess);
    }
}

impl ChunkChoice for Search<'_> {
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
            self.gaps = vec![Gap {
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
        }, _ => None);
        let ends = ends.map(|(first, last)| (self.step(first), self.step(last)));
        let place = self.chunks.iter().position(|(number, _)| *number == chunk);
        if let Some(known) = place.and_then(|place| self.ends.get_mut(place)) {
            *known = ends;
        }
        if self.lost {
            return;
        }
        if self.by.twice && self.turn.is_none() {
            let end = |ends: Option<&Option<(u64, u64)>>| ends.copied().flatten();
            let (first, last) = (end(self.ends.first()), end(self.ends.last()));
            if let Some(((start, _), (_, end))) = first.zip(last) {
                // Who ends where he began may have been everywhere twice.
                if start <= end {
                    self.give_up();
                    return;
                }
                self.turn = Some((end, start));
                self.gaps.push(Gap {
                    chunks: 1..self.chunks.len() - 1,
                    guesses: 0,
                });
            }
            return;
        }
        let places = ends.map(|(first, last)| (self.place(first), self.place(last)));
        let ascends = |(first, last)| matches!((first, last), (Some(a), Some(b)) if a <= b);
        if !places.is_some_and(ascends) {
            self.give_up();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::format::filter_list::FilterList;
    use crate::geometry::subarray::KeyRange;

    fn dimension(extent: Option<u16>) -> Dimension {
        Dimension {
            name: "d".to_owned(),
            datatype: Datatype::UInt16,
            cell_val_num: CellValNum::Fixed(1),
            filters: FilterList::default(),
            domain: Some((0_u16.to_le_bytes().into(), 999_u16.to_le_bytes().into())),
            extent: extent.map(|extent| extent.to_le_bytes().into()),
        }
    }

    /// Cells of a tile in global order.
    struct Tile {
        dimensions: Vec<Dimension>,
        order: GlobalOrder,
        cells: Vec<[u16; 2]>,
    }

    impl Tile {
        fn new(
            extents: [Option<u16>; 2],
            orders: (Layout, Layout),
            mut cells: Vec<[u16; 2]>,
        ) -> Self {
            let dimensions = extents.map(dimension).to_vec();
            let order = GlobalOrder::of_dimensions(&dimensions, orders.0, orders.1).unwrap();
            let keys = |cell: &[u16; 2]| cell.map(Native::to_key);
            cells.sort_by(|a, b| order.compare_keys(&keys(a), &keys(b)));
            Self {
                dimensions,
                order,
                cells,
            }
        }

        /// Searches in chunks of so many cells for the cells whose dimension `d` lies in `ranges`: how many chunks were
        /// decoded of how many. Checks that no cell was missed.
        fn search(&self, d: usize, ranges: &DimRanges, per_chunk: usize) -> Option<(usize, usize)> {
            let values = |d: usize| self.cells.iter().map(move |cell| cell[d]);
            let of_box = |d: usize| {
                let (lo, hi) = (values(d).min().unwrap(), values(d).max().unwrap());
                Some((lo.to_key(), hi.to_key()))
            };
            let by = search_by(&self.dimensions, &self.order, of_box, |s| s == d)?;
            assert_eq!(by.dimension, d);
            let bytes: Vec<u8> = values(d).flat_map(u16::to_le_bytes).collect();
            let starts = (0..bytes.len()).step_by(per_chunk * 2);
            let chunks = starts.map(|start| start..(start + per_chunk * 2).min(bytes.len()));
            let chunks = chunks.collect::<Vec<_>>();
            let mut search = Search::new(&by, Datatype::UInt16, &self.order, ranges);
            let mut decoded = vec![false; chunks.len()];
            search.begin(&chunks);
            while let Some(number) = search.next() {
                assert!(
                    !std::mem::replace(&mut decoded[number], true),
                    "{number} twice"
                );
                search.decoded(number, &bytes[chunks[number].clone()]);
            }
            let mut mask = vec![true; self.cells.len()];
            search.mark(&mut mask);
            for (cell, (value, marked)) in values(d).zip(mask).enumerate() {
                assert_eq!(marked, decoded[cell / per_chunk]);
                assert!(
                    marked || !ranges.contains_key(value.to_key()),
                    "cell {cell} is missed"
                );
            }
            Some((decoded.iter().filter(|d| **d).count(), chunks.len()))
        }
    }

    fn layout() -> impl Strategy<Value = Layout> {
        prop_oneof![Just(Layout::RowMajor), Just(Layout::ColMajor)]
    }

    fn ranges(ranges: &[(u16, u16)]) -> DimRanges {
        let ranges = ranges.iter().map(|(lo, len)| KeyRange {
            lo: lo.to_key(),
            hi: (lo + len).to_key(),
        });
        DimRanges::from_keys(ranges.collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn no_cell_is_missed(
            extents in prop::array::uniform2(prop::option::of(1..30_u16)),
            orders in (layout(), layout()),
            corner in prop::array::uniform2(0..90_u16),
            size in prop::array::uniform2(1..40_u16),
            cells in prop::collection::vec(prop::array::uniform2(0..1000_u16), 1..200),
            window in (0.0..1.0_f64, 0.0..1.0_f64),
            wanted in prop::collection::vec((0..130_u16, 0..9_u16), 1..4),
            per_chunk in 1..12_usize,
        ) {
            let cells = cells.iter().map(|c| [0, 1].map(|d| corner[d] + c[d] % size[d]));
            let mut tile = Tile::new(extents, orders, cells.collect());
            // A tile begins and ends anywhere in the order.
            let place = |part: f64| (part * tile.cells.len() as f64) as usize;
            let (from, to) = (place(window.0.min(window.1)), place(window.0.max(window.1)) + 1);
            tile.cells = tile.cells[from..to].to_vec();
            for d in 0..2 {
                tile.search(d, &ranges(&wanted), per_chunk);
            }
        }
    }

    /// Fourteen space tiles of a row of fifteen, and on into the next row.
    #[test]
    fn a_slice_of_the_inner_dimension_is_found_in_few_chunks() {
        let cells = (0..40_u16).flat_map(|row| (0..150_u16).map(move |column| [row, column]));
        let mut tile = Tile::new(
            [Some(20), Some(10)],
            (Layout::RowMajor, Layout::RowMajor),
            cells.collect(),
        );
        tile.cells = tile.cells[1000..3900].to_vec();
        for column in [0, 7, 44, 77, 101, 149] {
            let (decoded, chunks) = tile.search(1, &ranges(&[(column, 0)]), 200).unwrap();
            assert!(
                decoded <= 6 && chunks == 15,
                "{column}: {decoded} of {chunks}"
            );
        }
        // Of a single row of space tiles nothing is known of both ends.
        tile.cells.retain(|cell| cell[0] < 20);
        let (decoded, chunks) = tile.search(1, &ranges(&[(77, 0)]), 100).unwrap();
        assert!(decoded <= 4 && chunks == 20, "{decoded} of {chunks}");
    }

    #[test]
    fn the_leading_dimension_is_searched_by_its_coordinates() {
        let cells = (0..3000_u16).map(|i| [i / 3, i % 7]);
        let tile = Tile::new(
            [None, None],
            (Layout::RowMajor, Layout::ColMajor),
            cells.clone().collect(),
        );
        assert_eq!(tile.search(0, &ranges(&[(5, 5)]), 100), None);
        let tile = Tile::new(
            [None, None],
            (Layout::ColMajor, Layout::RowMajor),
            cells.collect(),
        );
        assert_eq!(tile.search(1, &ranges(&[(5, 5)]), 100), None);
        let (decoded, chunks) = tile.search(0, &ranges(&[(501, 2), (910, 0)]), 100).unwrap();
        assert!(decoded <= 6 && chunks == 30, "{decoded} of {chunks}");
    }

    /// Cells that are not in order are all decoded, as far as it shows.
    #[test]
    fn disorder_ends_the_search() {
        let mut tile = Tile::new(
            [None, None],
            (Layout::RowMajor, Layout::RowMajor),
            (0..1000_u16).map(|i| [i, 0]).collect(),
        );
        tile.cells.reverse();
        assert_eq!(tile.search(0, &ranges(&[(3, 4)]), 50), Some((20, 20)));
    }
}
