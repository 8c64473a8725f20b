//! The strings of a tile before they become an array, so that some can be tested, or converted alone.
//!
//! If few cells of a tile are needed, or equal strings are stored once, most of the work of [`ColumnType::to_array`]
//! would be wasted: a view of every cell, and a check of every byte.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::take;

use super::column_type::{ColumnType, ElementConversion};
use super::text::arrow_error;
use super::tile_buffer::TileBuffer;
use crate::arrow::column_type::cells::{CellData, UnfilteredCells, closed_offsets};
use crate::arrow::text::Encoding;
use crate::error::{Error, Result};
use crate::filter::EncodedStrings;

/// Copies are a large part of the data if they have more than one byte in this many.
const LARGE_PART: usize = 8;

/// The strings of a tile.
#[derive(Debug)]
pub struct TileStrings {
    data: StringData,
    nulls: Option<NullBuffer>,
}

#[derive(Debug)]
enum StringData {
    /// All strings, concatenated.
    Plain {
        offsets: OffsetBuffer<i64>,
        data: TileBuffer,
    },
    /// Each distinct string, stored once.
    Encoded(Arc<EncodedStrings>),
}

impl TileStrings {
    /// The strings of variable-sized cells; their offsets are checked here.
    pub fn new(cells: UnfilteredCells) -> Result<Self> {
        let UnfilteredCells { len, data, nulls } = cells;
        let data = match data {
            CellData::Var { offsets, data } => StringData::Plain {
                offsets: closed_offsets(offsets, len, data.len())?,
                data,
            },
            CellData::Encoded(strings) if strings.keys().len() == len => {
                StringData::Encoded(strings)
            }
            _ => return Err(Error::internal("these cells aren't strings")),
        };
        Ok(Self { data, nulls })
    }

    /// Whether a cell is not NULL.
    pub fn is_valid(&self, cell: usize) -> bool {
        self.nulls
            .as_ref()
            .is_none_or(|nulls| cell < nulls.len() && nulls.is_valid(cell))
    }

    /// Which cells are NULL; `None` if none is.
    pub fn nulls(&self) -> Option<&NullBuffer> {
        self.nulls.as_ref().filter(|nulls| nulls.null_count() > 0)
    }

    /// If equal strings are stored once: these strings, and the index of each cell's string.
    pub fn encoded(&self) -> Option<&EncodedStrings> {
        match &self.data {
            StringData::Encoded(strings) => Some(strings),
            StringData::Plain { .. } => None,
        }
    }

    /// The cell that contains a byte of the data; `None` if strings are not concatenated.
    pub fn cell_at(&self, byte: usize) -> Option<usize> {
        let StringData::Plain { offsets, .. } = &self.data else {
            return None;
        };
        let byte = i64::try_from(byte).ok()?;
        let started = offsets.partition_point(|offset| *offset <= byte);
        started.checked_sub(1)
    }

    /// Whether copies of the selected cells would take a large part of the memory of concatenated strings; an empty
    /// mask selects all cells.
    pub fn is_large_part(&self, mask: &[bool]) -> bool {
        let StringData::Plain { offsets, data } = &self.data else {
            return false;
        };
        if mask.is_empty() {
            return true;
        }
        let selected = offsets.lengths().zip(mask).filter(|(_, bit)| **bit);
        let bytes = selected.map(|(len, _)| len).sum::<usize>();
        bytes > data.len() / LARGE_PART
    }

    /// The bytes of a cell; empty if there is no such cell.
    fn cell(&self, cell: usize) -> &[u8] {
        match &self.data {
            StringData::Encoded(strings) => strings.cell(cell),
            StringData::Plain { offsets, data } => {
                let ends = offsets.get(cell).zip(offsets.get(cell + 1));
                let index = |offset: i64| usize::try_from(offset).ok();
                let range = ends.and_then(|(start, end)| Some(index(*start)?..index(*end)?));
                range
                    .and_then(|range| data.as_slice().get(range))
                    .unwrap_or_default()
            }
        }
    }
}

impl ColumnType {
    /// Whether the column's strings have the same bytes as stored.
    pub fn is_stored_as_shown(&self) -> bool {
        let utf8 = ElementConversion::Text(Encoding::Utf8);
        self.cell_bytes().is_none()
            && (self.element == ElementConversion::Bytes || self.element == utf8)
    }

    /// An array of all strings.
    pub fn all_strings(&self, strings: TileStrings) -> Result<ArrayRef> {
        match strings.data {
            StringData::Plain { offsets, data } => self.byte_cells(offsets, data, strings.nulls),
            StringData::Encoded(encoded) => self.encoded(&encoded, strings.nulls),
        }
    }

    /// An array of the strings of some cells.
    pub fn strings_of(&self, strings: &TileStrings, cells: &[u32]) -> Result<ArrayRef> {
        if let StringData::Encoded(encoded) = &strings.data
            && encoded.strings() <= cells.len()
            && let Some(each) = self.each_string(encoded)?
        {
            let key = |cell: &u32| {
                let key = encoded.keys().get(*cell as usize).copied();
                key.filter(|_| strings.is_valid(*cell as usize))
            };
            let keys = cells.iter().map(key).collect::<UInt32Array>();
            return take(&each, &keys, None).map_err(arrow_error);
        }
        let valid = |cell: u32| strings.is_valid(cell as usize);
        let bytes = |cell: u32| match valid(cell) {
            true => strings.cell(cell as usize),
            // The bytes of a NULL cell are undefined.
            false => &[],
        };
        let mut offsets = Vec::with_capacity(cells.len() + 1);
        let mut end = 0_usize;
        offsets.push(0);
        for cell in cells {
            end = end.saturating_add(bytes(*cell).len());
            offsets.push(i64::try_from(end)?);
        }
        let mut data = TileBuffer::zeroed(end)?;
        let mut rest = data.as_slice_mut();
        for cell in cells {
            let bytes = bytes(*cell);
            let (slot, after) = rest.split_at_mut_checked(bytes.len()).unwrap_or_default();
            slot.copy_from_slice(bytes);
            rest = after;
        }
        let nulls = strings.nulls().map(|_| {
            let valid = cells.iter().map(|cell| valid(*cell));
            NullBuffer::from(valid.collect::<Vec<_>>())
        });
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        let array = self.byte_cells(offsets, data, nulls);
        array.map_err(|e| self.first_fault(strings, cells).unwrap_or(e))
    }

    /// The error of the first faulty cell among some cells, with its index in the tile.
    fn first_fault(&self, strings: &TileStrings, cells: &[u32]) -> Option<Error> {
        let mut valid = cells
            .iter()
            .map(|cell| *cell as usize)
            .filter(|cell| strings.is_valid(*cell));
        valid.find_map(|cell| {
            let bytes = strings.cell(cell);
            let mut offsets = vec![0; cell + 1];
            offsets.push(i64::try_from(bytes.len()).ok()?);
            let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
            let bytes = TileBuffer::copy_of(bytes).ok()?;
            self.byte_cells(offsets, bytes, None).err()
        })
    }

    /// Each distinct string; `None` if they are not all text.
    pub fn each_string(&self, strings: &EncodedStrings) -> Result<Option<ArrayRef>> {
        let offsets = strings
            .offsets()
            .iter()
            .map(|o| Ok(i64::try_from(*o)?))
            .collect::<Result<Vec<_>>>()?;
        let data = TileBuffer::copy_of(strings.data())?;
        let each = self.byte_cells(OffsetBuffer::new(offsets.into()), data, None);
        Ok(each.ok().filter(|each| each.len() == strings.strings()))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;

    use super::*;
    use crate::arrow::{InvalidUtf8, TypeOptions};
    use crate::format::datatype::Datatype;
    use crate::format::schema::CellValNum;

    const CELLS: [&[u8]; 6] = [b"", b"a\0b", "żółw".as_bytes(), b"", b"zz", b"a\0b"];

    fn plain(cells: &[&[u8]], nulls: Option<Vec<bool>>) -> TileStrings {
        let mut offsets = TileBuffer::zeroed((cells.len() + 1) * 8).unwrap();
        let mut end = 0;
        for (start, cell) in offsets.typed_data_mut::<u64>().iter_mut().zip(cells) {
            *start = end;
            end += cell.len() as u64;
        }
        let cells = UnfilteredCells {
            len: cells.len(),
            data: CellData::Var {
                offsets,
                data: TileBuffer::copy_of(&cells.concat()).unwrap(),
            },
            nulls: nulls.map(NullBuffer::from),
        };
        TileStrings::new(cells).unwrap()
    }

    fn encoded(cells: &[&[u8]], nulls: Option<Vec<bool>>) -> TileStrings {
        let cells = UnfilteredCells {
            len: cells.len(),
            data: CellData::Encoded(Arc::new(EncodedStrings::of_cells(cells))),
            nulls: nulls.map(NullBuffer::from),
        };
        TileStrings::new(cells).unwrap()
    }

    fn text(lossy: bool) -> ColumnType {
        let options = TypeOptions {
            invalid_utf8: if lossy {
                InvalidUtf8::Lossy
            } else {
                InvalidUtf8::Error
            },
            ..TypeOptions::default()
        };
        ColumnType::plain(Datatype::StringUtf8, CellValNum::Var, true, &options).unwrap()
    }

    #[test]
    fn some_strings_become_an_array() {
        let nulls = vec![true, true, true, false, true, false];
        for strings in [
            plain(&CELLS, Some(nulls.clone())),
            encoded(&CELLS, Some(nulls)),
        ] {
            for cells in [&[1, 2, 3, 4, 5][..], &[5, 0], &[], &[2, 2, 2, 2, 2, 2, 1]] {
                let array = text(false).strings_of(&strings, cells).unwrap();
                let found = array.as_string_view().iter().collect::<Vec<_>>();
                let expected = cells.iter().map(|cell| {
                    let valid = ![3, 5].contains(cell);
                    valid.then(|| std::str::from_utf8(CELLS[*cell as usize]).unwrap())
                });
                assert_eq!(found, expected.collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn copies_of_a_few_long_strings_are_a_large_part() {
        let long = [b'x'; 100];
        let strings = plain(&[b"a", &long, b"b", b""], None);
        assert!(strings.is_large_part(&[]));
        assert!(strings.is_large_part(&[false, true, false, false]));
        assert!(!strings.is_large_part(&[true, false, true, true]));
        assert!(!plain(&[b"", b""], None).is_large_part(&[true, true]));
        assert!(!encoded(&[&long, b"a"], None).is_large_part(&[]));
    }

    #[test]
    fn bytes_belong_to_cells() {
        let strings = plain(&CELLS, None);
        let found = (0..15).map(|byte| strings.cell_at(byte).unwrap());
        let expected = [1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 4, 4, 5, 5, 5];
        assert_eq!(found.collect::<Vec<_>>(), expected);
        assert_eq!(encoded(&CELLS, None).cell_at(0), None);
    }

    #[test]
    fn only_the_strings_that_are_wanted_must_be_text() {
        let cells: [&[u8]; 3] = [b"a\xff", b"b", b"b"];
        for strings in [plain(&cells, None), encoded(&cells, None)] {
            let array = text(false).strings_of(&strings, &[1]).unwrap();
            assert_eq!(array.as_string_view().value(0), "b");
            let error = text(false).strings_of(&strings, &[2, 0, 1, 1]).unwrap_err();
            assert!(
                error
                    .message()
                    .contains("cell 0 holds the bytes \"a\\xff\""),
                "{error}"
            );
            let array = text(true).strings_of(&strings, &[0, 2, 1]).unwrap();
            assert_eq!(array.as_string_view().value(0), "a\u{fffd}");
        }
    }
}
