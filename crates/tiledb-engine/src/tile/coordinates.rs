//! The coordinates of a tile's cells, as they were decoded, for tests against ranges and comparisons with other cells.

use std::sync::{Arc, OnceLock};

use crate::array::fragment::{FieldTiles, TileIdx};
use crate::arrow::{CellData, TileBuffer, UnfilteredCells};
use crate::error::{Error, Result};
use crate::filter::EncodedStrings;
use crate::format::datatype::Datatype;
use crate::geometry::key::{self, NativeKey, with_native};
use crate::geometry::subarray::{DimRanges, KeyRange};
use crate::tile::decode::{Bitsort, CellOrder, EqualCells};
use crate::tile::fetch::{FetchList, FetchedBytes, TileTicket};
use crate::tile::selection;

/// One dimension of the cells of a tile.
#[derive(Debug)]
pub enum DimCells<'a> {
    /// Numbers of a type that has keys, as stored.
    Numbers {
        /// The datatype of the dimension.
        datatype: Datatype,
        /// As many values as there are cells.
        bytes: &'a [u8],
    },
    /// Strings, with the checked start of each cell, then the end of the last.
    Bytes {
        /// The start of each cell, then the end of the last.
        offsets: Vec<usize>,
        /// The bytes.
        data: &'a [u8],
    },
    /// Strings, with equal ones stored once.
    Encoded(&'a Arc<EncodedStrings>),
}

impl<'a> DimCells<'a> {
    /// Interprets unfiltered cells as coordinates.
    pub fn new(datatype: Datatype, cells: &'a UnfilteredCells) -> Result<Self> {
        match &cells.data {
            CellData::Fixed(values) => {
                let bytes = values.as_slice();
                if !key::has_key(datatype) {
                    return Err(Error::internal(format!("datatype {datatype} has no keys")));
                }
                if cells.len.checked_mul(datatype.size()) != Some(bytes.len()) {
                    return Err(Error::corrupt(format!(
                        "{} bytes of {datatype} values, expected those of {} cells",
                        bytes.len(),
                        cells.len
                    )));
                }
                Ok(Self::Numbers { datatype, bytes })
            }
            CellData::Var { offsets, data } => Ok(Self::Bytes {
                offsets: starts(offsets, cells.len, data.len())?,
                data: data.as_slice(),
            }),
            CellData::Encoded(strings) => Ok(Self::Encoded(strings)),
        }
    }

    /// The string of a cell; empty for a dimension of numbers.
    pub fn bytes(&self, cell: usize) -> &'a [u8] {
        match self {
            Self::Numbers { .. } => &[],
            Self::Bytes { offsets, data } => offsets
                .get(cell)
                .zip(offsets.get(cell + 1))
                .and_then(|(start, end)| data.get(*start..*end))
                .unwrap_or_default(),
            Self::Encoded(strings) => strings.cell(cell),
        }
    }

    /// The key of a cell, but with different keys for NaNs of different bits: they are different coordinates, although no range
    /// separates them. The key is 0 for a string dimension.
    pub fn cell_key(&self, cell: usize) -> u64 {
        let Self::Numbers { datatype, bytes } = self else {
            return 0;
        };
        with_native!(*datatype, T => {
            let value = bytes.as_chunks().0.get(cell);
            value.map_or(0, |value| T::from_le_bytes(*value).to_cell_key())
        }, _ => 0)
    }

    /// Whether the global order does not distinguish a cell from one of other cells of the dimension; see
    /// [`NativeKey::ties`].
    pub fn ties(&self, cell: usize, other: &DimCells<'_>, other_cell: usize) -> bool {
        match (self, other) {
            (
                Self::Numbers { datatype, bytes },
                DimCells::Numbers {
                    bytes: other_bytes, ..
                },
            ) => {
                with_native!(*datatype, T => {
                    let values = (bytes.as_chunks().0.get(cell), other_bytes.as_chunks().0.get(other_cell));
                    match values {
                        (Some(a), Some(b)) => T::from_le_bytes(*a).ties(T::from_le_bytes(*b)),
                        _ => false,
                    }
                }, _ => false)
            }
            _ => self.bytes(cell) == other.bytes(other_cell),
        }
    }

    /// The keys of all cells; none for a dimension of strings.
    pub fn keys(&self) -> Vec<u64> {
        let Self::Numbers { datatype, bytes } = self else {
            return Vec::new();
        };
        let mut keys = Vec::with_capacity(bytes.len() / datatype.size().max(1));
        with_native!(*datatype, T => {
            keys.extend(bytes.as_chunks().0.iter().map(|v| T::from_le_bytes(*v).to_key()));
        }, _ => ());
        keys
    }

    /// Deselects every cell outside `ranges`.
    pub fn select_inside(&self, ranges: &DimRanges, mask: &mut [bool]) {
        if ranges.is_all() {
            return;
        }
        match (self, ranges) {
            (Self::Numbers { datatype, bytes }, DimRanges::Keys(_)) => {
                let ranges = ranges.key_ranges();
                with_native!(*datatype, T => {
                    // The cells that are left are often close together.
                    let runs = bytes.as_chunks().0.chunks(selection::AT_ONCE);
                    let runs = mask.chunks_mut(selection::AT_ONCE).zip(runs);
                    for (mask, values) in runs.filter(|(mask, _)| selection::any_selected(mask)) {
                        let keys = values.iter().map(|v| T::from_le_bytes(*v).to_key());
                        select_keys(keys, ranges, mask);
                    }
                }, _ => mask.fill(false));
            }
            (Self::Bytes { .. }, DimRanges::Bytes(_)) => {
                // Neighbours are often equal.
                let mut last: Option<(&[u8], bool)> = None;
                for (cell, selected) in mask
                    .iter_mut()
                    .enumerate()
                    .filter(|(_, selected)| **selected)
                {
                    let bytes = self.bytes(cell);
                    *selected = match last {
                        Some((known, inside)) if known == bytes => inside,
                        _ => ranges.contains_bytes(bytes),
                    };
                    last = Some((bytes, *selected));
                }
            }
            (Self::Encoded(strings), DimRanges::Bytes(_)) => {
                let inside = (0..strings.strings())
                    .map(|number| ranges.contains_bytes(strings.string(number)))
                    .collect::<Vec<_>>();
                for (selected, key) in mask.iter_mut().zip(strings.keys()) {
                    *selected &= inside.get(*key as usize).copied().unwrap_or(false);
                }
            }
            // Ranges of the other kind of dimension match no cell.
            _ => mask.fill(false),
        }
    }
}

fn select_keys(keys: impl Iterator<Item = u64>, ranges: &[KeyRange], mask: &mut [bool]) {
    match ranges {
        [] => mask.fill(false),
        // A comparison with one value is vectorised for all types.
        [point] if point.lo == point.hi => {
            for (selected, key) in mask.iter_mut().zip(keys) {
                *selected &= key == point.lo;
            }
        }
        [one] => {
            let width = one.hi - one.lo;
            for (selected, key) in mask.iter_mut().zip(keys) {
                *selected &= key.wrapping_sub(one.lo) <= width;
            }
        }
        many => {
            // The bounds of the range or gap that held the last key.
            let (mut lo, mut hi, mut inside) = (1, 0, false);
            for (selected, key) in mask.iter_mut().zip(keys) {
                if !*selected {
                    continue;
                }
                if key < lo || hi < key {
                    let next = many.partition_point(|r| r.hi < key);
                    let below = next.checked_sub(1).and_then(|i| many.get(i));
                    let above = below.map_or(0, |below| below.hi.saturating_add(1));
                    (lo, hi, inside) = match many.get(next) {
                        Some(range) if range.lo <= key => (range.lo, range.hi, true),
                        Some(range) => (above, range.lo.saturating_sub(1), false),
                        None => (above, u64::MAX, false),
                    };
                }
                *selected = inside;
            }
        }
    }
}

/// The start of each of `cells` cells, then the end of the last, all checked.
pub(super) fn starts(offsets: &TileBuffer, cells: usize, data: usize) -> Result<Vec<usize>> {
    let stored = offsets.typed_data::<u64>().iter().take(cells);
    let mut checked = Vec::with_capacity(cells.saturating_add(1));
    for start in stored {
        checked.push(usize::try_from(*start)?);
    }
    // Offsets of old writers may count from the start of the file.
    let first = checked.first().copied().unwrap_or(0);
    checked
        .iter_mut()
        .for_each(|offset| *offset = offset.wrapping_sub(first));
    checked.push(data);
    if !checked.is_sorted() {
        return Err(Error::corrupt(format!(
            "the offsets of strings decrease or pass the tile's {data} bytes"
        )));
    }
    Ok(checked)
}

/// A tile whose cells must be restored to the global order.
///
/// Columns that are requested together share the order of the cells, which is computed once.
#[derive(Debug)]
pub struct MovedTile {
    /// The coordinates of all dimensions.
    coordinates: Vec<TileTicket>,
    order: OnceLock<CellOrder>,
}

impl MovedTile {
    /// Requests the coordinates; `dimensions` locates the tiles of all dimensions.
    pub fn ask(dimensions: &[FieldTiles], tile: TileIdx, list: &mut FetchList) -> Result<Self> {
        let coordinates = dimensions.iter().map(|field| list.tile(field, tile));
        Ok(Self {
            coordinates: coordinates.collect::<Result<_>>()?,
            order: OnceLock::new(),
        })
    }

    /// The global order of its cells.
    pub fn order(
        &self,
        bitsort: &Bitsort,
        fetched: &FetchedBytes,
        cells: usize,
        duplicates: EqualCells,
    ) -> Result<&CellOrder> {
        if let Some(order) = self.order.get() {
            return Ok(order);
        }
        let tiles = self
            .coordinates
            .iter()
            .map(|ticket| fetched.tile(*ticket).map(|tile| tile.values));
        let coordinates = tiles.collect::<Result<Vec<_>>>()?;
        let order = bitsort.order(&coordinates, cells, duplicates)?;
        Ok(self.order.get_or_init(|| order))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn masks_say_what_ranges_contain(
            values in prop::collection::vec(-20_i16..20, 0..40),
            ranges in prop::collection::vec((-22_i16..22, 0_i16..4), 0..6),
        ) {
            let ranges = DimRanges::from_keys(
                ranges
                    .iter()
                    .map(|(lo, len)| KeyRange { lo: lo.to_key(), hi: (lo + len).to_key() })
                    .collect(),
            );
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            let cells = DimCells::Numbers { datatype: Datatype::Int16, bytes: &bytes };
            let asked: Vec<bool> = values.iter().map(|v| v % 5 != 0).collect();
            let mut mask = asked.clone();
            cells.select_inside(&ranges, &mut mask);
            for ((value, asked), selected) in values.iter().zip(asked).zip(mask) {
                prop_assert_eq!(selected, asked && ranges.contains_key(value.to_key()));
            }
        }
    }

    #[test]
    fn zeros_are_one_coordinate_and_nan_are_several_within_one_range() {
        let nan = f64::from_bits(0x7FF0_0000_0000_07A2);
        let bytes: Vec<u8> = [-0.0_f64, 0.0, -f64::NAN, f64::NAN, nan]
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect();
        let cells = DimCells::Numbers {
            datatype: Datatype::Float64,
            bytes: &bytes,
        };
        let keys = [0, 1, 2, 3, 4].map(|cell| cells.cell_key(cell));
        assert_eq!(keys[0], keys[1]);
        assert!(keys[2] != keys[3] && keys[3] != keys[4] && keys[2] != keys[4]);
        for (point, wanted) in [
            (0.0, [true, true, false, false, false]),
            (f64::NAN, [false, false, true, true, true]),
        ] {
            let mut mask = [true; 5];
            cells.select_inside(&DimRanges::from_points([point.to_key()]), &mut mask);
            assert_eq!(mask, wanted);
        }
    }
}
