//! The rows of a batch, split by the space tile they belong to, with their places in there.

use std::collections::BTreeMap;
use std::ops::Range;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;

use crate::error::{Error, Result};
use crate::geometry::tile_grid::TileGrid;

/// Rows whose places are computed side by side.
const BLOCK: usize = 64;

/// Rows of a batch that follow each other and belong to one tile.
pub(super) struct RowSegment {
    /// The first row.
    pub(super) row: usize,
    pub(super) tile: Vec<u64>,
    pub(super) places: RowPlaces,
}

/// The places of rows in their tile. Rows of a grid mostly come in lines, whose places follow each other.
#[derive(Default)]
pub(super) struct RowPlaces {
    /// Places that follow each other: the first one, and how many there are.
    pub(super) runs: Vec<(u64, u64)>,
    /// The number of all places.
    pub(super) count: usize,
}

impl RowPlaces {
    /// Adds places that follow each other, no more than a batch has rows.
    fn push(&mut self, first: u64, count: usize) {
        self.count = self.count.saturating_add(count);
        match self.runs.last_mut() {
            Some((last, len)) if last.checked_add(*len) == Some(first) => *len += count as u64,
            _ => self.runs.push((first, count as u64)),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        let runs = self.runs.iter();
        runs.flat_map(|(first, len)| (0..*len).map(move |i| first.saturating_add(i)))
    }
}

/// Splits rows into segments by the tile that they belong to.
pub(super) fn segments(grid: &TileGrid, keys: &[Vec<u64>]) -> Vec<RowSegment> {
    let (extents, strides) = (grid.extents(), grid.strides());
    let rows = keys.first().map_or(0, Vec::len);
    let (mut segments, mut row) = (Vec::new(), 0);
    while row < rows {
        let of_row = keys
            .iter()
            .filter_map(|of_dim| of_dim.get(row).copied())
            .enumerate();
        let tile = of_row
            .map(|(dim, key)| grid.tile_of(dim, key))
            .collect::<Vec<_>>();
        let lo = grid.tile_lo(&tile);
        let sides = lo
            .into_iter()
            .zip(extents)
            .zip(&strides)
            .map(|((lo, extent), stride)| SegmentSide {
                lo,
                extent: *extent,
                stride: *stride,
            });
        let places = places_in_tile(keys, &sides.collect::<Vec<_>>(), row);
        let end = row + places.count;
        segments.push(RowSegment { row, tile, places });
        row = end;
    }
    segments
}

/// A tile in one dimension.
struct SegmentSide {
    /// Its first key.
    lo: u64,
    /// The number of its keys.
    extent: u64,
    /// The distance between the places of neighbours.
    stride: u64,
}

/// The places of the rows from `row` on, which belongs to the tile, up to the first row outside it.
fn places_in_tile(keys: &[Vec<u64>], sides: &[SegmentSide], row: usize) -> RowPlaces {
    let rows = keys.first().map_or(0, Vec::len);
    let mut places = RowPlaces::default();
    let mut row = row;
    while row < rows {
        let block = row..rows.min(row + BLOCK);
        row = block.end;
        if let Some((place, step)) = line(keys, sides, &block) {
            match step {
                1 => places.push(place, block.len()),
                _ => (0..block.len() as u64).for_each(|i| places.push(place + i * step, 1)),
            }
            continue;
        }
        let (mut slots, mut outside) = ([0_u64; BLOCK], [false; BLOCK]);
        for (keys, side) in keys.iter().zip(sides) {
            let keys = keys.get(block.clone()).unwrap_or_default();
            for ((key, slot), outside) in keys.iter().zip(&mut slots).zip(&mut outside) {
                let offset = key.wrapping_sub(side.lo);
                *outside |= offset >= side.extent;
                *slot = slot.wrapping_add(offset.wrapping_mul(side.stride));
            }
        }
        let inside = outside.iter().position(|outside| *outside);
        // A segment has its first row even if that lies outside the domain, because an empty one would never end.
        let count = match inside {
            Some(0) if places.count == 0 => 1,
            Some(inside) => inside,
            None => block.len(),
        };
        for place in slots.iter().take(count) {
            places.push(*place, 1);
        }
        if inside.is_some() {
            break;
        }
    }
    places
}

/// The place of the first row of a block, and the distance between the places of neighbours, if each row is one step from the
/// one before and all lie in the tile. The rows of a grid come like this if it is read line by line.
fn line(keys: &[Vec<u64>], sides: &[SegmentSide], block: &Range<usize>) -> Option<(u64, u64)> {
    let (mut place, mut step) = (0_u64, 0_u64);
    for (keys, side) in keys.iter().zip(sides) {
        let keys = keys.get(block.clone())?;
        let (first, last) = (*keys.first()?, *keys.last()?);
        let offsets = keys.iter().map(|key| key.wrapping_sub(first));
        // All differences are joined and then compared once, which the compiler does for several rows at a time.
        let moves = last != first;
        let differ = if moves {
            offsets
                .zip(0_u64..)
                .fold(0, |differ, (offset, i)| differ | (offset ^ i))
        } else {
            offsets.fold(0, |differ, offset| differ | offset)
        };
        let [begin, end] = [first, last].map(|key| key.wrapping_sub(side.lo));
        if differ != 0 || begin >= side.extent || end >= side.extent {
            return None;
        }
        place = place.checked_add(begin.checked_mul(side.stride)?)?;
        step = step.checked_add(if moves { side.stride } else { 0 })?;
    }
    // The last row lies in the tile, so the places of all rows up to it are numbers of 64 bits.
    Some((place, step))
}

/// Reorders the rows of a batch so that those of each tile follow each other, sorted by their place in the tile.
pub(super) fn in_order_of_tiles(
    given: &[RowSegment],
    columns: &mut [ArrayRef],
) -> Result<Vec<RowSegment>> {
    let mut numbers: BTreeMap<&[u64], usize> = BTreeMap::new();
    for segment in given {
        numbers.insert(&segment.tile, 0);
    }
    for (number, slot) in numbers.values_mut().enumerate() {
        *slot = number;
    }
    let mut order: Vec<(usize, u64, u32)> = Vec::new();
    for segment in given {
        let number = numbers.get(segment.tile.as_slice()).copied().unwrap_or(0);
        for (row, place) in (segment.row..).zip(segment.places.iter()) {
            order.push((number, place, u32::try_from(row)?));
        }
    }
    // Rows of the same cell stay in their order.
    order.sort_unstable();
    let rows = UInt32Array::from_iter_values(order.iter().map(|(.., row)| *row));
    for column in columns {
        let taken = take(column.as_ref(), &rows, None);
        *column = taken.map_err(|e| Error::internal("rows cannot be reordered").with_source(e))?;
    }
    let of_tiles = order.chunk_by(|(a, ..), (b, ..)| a == b);
    let mut row = 0;
    let segments = of_tiles.zip(numbers.into_keys()).map(|(of_tile, tile)| {
        let mut places = RowPlaces::default();
        for (_, place, _) in of_tile {
            places.push(*place, 1);
        }
        let first = row;
        row += of_tile.len();
        RowSegment {
            row: first,
            tile: tile.to_vec(),
            places,
        }
    });
    Ok(segments.collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Rows that walk through a grid, mostly in steps of one in some dimensions.
    fn walks() -> impl Strategy<Value = Vec<[u64; 2]>> {
        let step = (0..6_u64, 0..6_u64, 1..90_usize, 0..2_u64, 0..2_u64);
        let steps = prop::collection::vec(step, 1..5);
        steps.prop_map(|steps| {
            let walk = |(a, b, rows, da, db): (u64, u64, usize, u64, u64)| {
                (0..rows as u64).map(move |i| [u64::MAX - 200 + a + i * da, b + i * db])
            };
            steps.into_iter().flat_map(walk).collect()
        })
    }

    proptest! {
        #[test]
        fn lines_have_the_places_of_their_rows(walk in walks(), extents in [1..100_u64, 1..100_u64]) {
            let keys = [0, 1].map(|dim| walk.iter().map(|row| row[dim]).collect::<Vec<_>>());
            let lows = [u64::MAX - 200, 0];
            let strides = [extents[1], 1];
            let sides = [0, 1].map(|dim| SegmentSide { lo: lows[dim], extent: extents[dim], stride: strides[dim] });
            let offset = |row: &[u64; 2], dim: usize| row[dim].wrapping_sub(lows[dim]);
            let is_inside = |row: &[u64; 2]| (0..2).all(|dim| offset(row, dim) < extents[dim]);
            let inside = walk.iter().take_while(|row| is_inside(row)).count();
            let places = places_in_tile(&keys, &sides, 0);
            prop_assert_eq!(places.count, inside.max(1));
            prop_assert_eq!(places.iter().count(), places.count);
            for (row, place) in walk.iter().zip(places.iter()).take(inside) {
                prop_assert_eq!(place, offset(row, 0) * strides[0] + offset(row, 1));
            }
        }
    }
}
