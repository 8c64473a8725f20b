//! The cells of a tile that a statement gives, and their form on disk.

use crate::arrow::{CellWriter, StoredCells};
use crate::error::{Error, Result};

/// The bytes of a tile besides its lists, with those of its number and of its place among the others.
const TILE_BYTES: usize = 256;

/// The cells of a tile that a statement gives.
#[derive(Debug, Default)]
pub(super) struct GivenCells {
    /// The attributes, in the order in which the cells came.
    pub(super) fields: Vec<StoredCells>,
    /// Where they belong.
    pub(super) runs: Vec<GivenRun>,
    /// How many they are.
    count: u64,
}

/// Cells that follow each other in a tile as they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GivenRun {
    /// The place of the first one in the tile.
    pub(super) place: u64,
    /// Its number among the cells that came.
    pub(super) cell: u32,
    /// How many there are.
    pub(super) len: u32,
}

impl GivenRun {
    pub(super) fn end(&self) -> u64 {
        self.place.saturating_add(u64::from(self.len))
    }
}

impl GivenCells {
    /// No cells.
    pub(super) fn none(attributes: &[CellWriter]) -> Self {
        Self {
            fields: attributes.iter().map(CellWriter::no_cells).collect(),
            runs: Vec::new(),
            count: 0,
        }
    }

    /// The number of cells.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The bytes in memory, with the fixed bytes of every tile.
    pub(super) fn bytes(&self) -> usize {
        let fields = self.fields.iter().map(StoredCells::bytes).sum::<usize>();
        let lists = size_of_val(self.fields.as_slice()) + size_of_val(self.runs.as_slice());
        fields.saturating_add(lists).saturating_add(TILE_BYTES)
    }

    /// Places the next cells of all fields. Each run holds its first place and its number of cells; their places follow each
    /// other.
    pub(super) fn place(&mut self, runs: &[(u64, u64)]) -> Result<()> {
        let mut cell = match self.runs.last() {
            Some(last) => last.cell.checked_add(last.len),
            None => Some(0),
        };
        for (first, count) in runs {
            let of_next = cell.ok_or_else(too_many_cells)?;
            let len = u32::try_from(*count).map_err(|_| too_many_cells())?;
            match self.runs.last_mut() {
                Some(last) if last.end() == *first => {
                    last.len = last.len.checked_add(len).ok_or_else(too_many_cells)?;
                }
                _ => self.runs.push(GivenRun {
                    place: *first,
                    cell: of_next,
                    len,
                }),
            }
            cell = of_next.checked_add(len);
            self.count = self.count.saturating_add(*count);
        }
        Ok(())
    }

    /// Adds the cells of another part of the same tile.
    pub(super) fn append(&mut self, other: Self) -> Result<()> {
        let first = self
            .runs
            .iter()
            .map(|run| run.cell.saturating_add(run.len))
            .max()
            .unwrap_or(0);
        self.count = self.count.saturating_add(other.count);
        for run in other.runs {
            let cell = first.checked_add(run.cell).ok_or_else(too_many_cells)?;
            self.runs.push(GivenRun { cell, ..run });
        }
        for (to, from) in self.fields.iter_mut().zip(other.fields) {
            let before = to.values.len() as u64;
            if let (Some(to), Some(from)) = (&mut to.starts, from.starts) {
                to.extend(from.iter().map(|start| start.saturating_add(before)));
            }
            if let (Some(to), Some(from)) = (&mut to.validity, from.validity) {
                to.extend_from_slice(&from);
            }
            to.values.extend_from_slice(&from.values);
            to.len = to.len.saturating_add(from.len);
        }
        Ok(())
    }

    /// Sorts the runs by their place, and returns a place that two cells claim.
    pub(super) fn sort(&mut self) -> Option<u64> {
        if !self.runs.is_sorted_by_key(|run| run.place) {
            self.runs.sort_unstable_by_key(|run| run.place);
        }
        let pairs = self.runs.iter().zip(self.runs.iter().skip(1));
        let mut twice = pairs.filter(|(a, b)| a.end() > b.place);
        twice.next().map(|(_, second)| second.place)
    }
}

/// A tile and its cells as a record.
pub(super) fn encode(tile: &[u64], cells: &GivenCells) -> Vec<u8> {
    let mut out = Vec::with_capacity(cells.bytes());
    put_numbers(&mut out, tile);
    put_number(&mut out, cells.runs.len());
    for run in &cells.runs {
        out.extend_from_slice(&run.place.to_le_bytes());
        out.extend_from_slice(&run.cell.to_le_bytes());
        out.extend_from_slice(&run.len.to_le_bytes());
    }
    put_number(&mut out, cells.fields.len());
    for field in &cells.fields {
        put_number(&mut out, field.len);
        put_bytes(&mut out, &field.values);
        put_number(&mut out, usize::from(field.starts.is_some()));
        if let Some(starts) = &field.starts {
            put_numbers(&mut out, starts);
        }
        put_number(&mut out, usize::from(field.validity.is_some()));
        if let Some(validity) = &field.validity {
            put_bytes(&mut out, validity);
        }
    }
    out
}

fn put_number(out: &mut Vec<u8>, number: usize) {
    out.extend_from_slice(&(number as u64).to_le_bytes());
}

fn put_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    put_number(out, numbers.len());
    numbers
        .iter()
        .for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// The tile and the cells of a record.
///
/// # Errors
/// The record is cut off.
pub(super) fn decode(record: &[u8]) -> Result<(Vec<u64>, GivenCells)> {
    let mut rest = GivenRest(record);
    let tile = rest.numbers()?;
    let runs = (0..rest.number()?)
        .map(|_| {
            Ok(GivenRun {
                place: u64::from_le_bytes(rest.array()?),
                cell: u32::from_le_bytes(rest.array()?),
                len: u32::from_le_bytes(rest.array()?),
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let fields = (0..rest.number()?)
        .map(|_| {
            Ok(StoredCells {
                len: rest.number()?,
                values: rest.bytes()?.to_vec(),
                starts: match rest.number()? {
                    0 => None,
                    _ => Some(rest.numbers()?),
                },
                validity: match rest.number()? {
                    0 => None,
                    _ => Some(rest.bytes()?.to_vec()),
                },
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let count = runs.iter().map(|run| u64::from(run.len)).sum();
    let cells = GivenCells {
        fields,
        runs,
        count,
    };
    Ok((tile, cells))
}

/// The rest of a record.
struct GivenRest<'a>(&'a [u8]);

impl<'a> GivenRest<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk().ok_or_else(cut_off)?;
        self.0 = rest;
        Ok(*first)
    }

    fn number(&mut self) -> Result<usize> {
        Ok(usize::try_from(u64::from_le_bytes(self.array()?))?)
    }

    fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.number()?;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or_else(cut_off)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn numbers(&mut self) -> Result<Vec<u64>> {
        let len = self
            .number()?
            .checked_mul(size_of::<u64>())
            .ok_or_else(cut_off)?;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or_else(cut_off)?;
        self.0 = rest;
        let (numbers, _) = bytes.as_chunks();
        Ok(numbers
            .iter()
            .map(|number| u64::from_le_bytes(*number))
            .collect())
    }
}

fn too_many_cells() -> Error {
    Error::unsupported("a tile has more than 2³² cells")
}

fn cut_off() -> Error {
    Error::corrupt("a temporary file of the statement ends too early")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back() {
        let fixed = StoredCells {
            len: 3,
            values: vec![1, 2, 3],
            starts: None,
            validity: Some(vec![1, 0, 1]),
        };
        let var = StoredCells {
            len: 3,
            values: b"abc".to_vec(),
            starts: Some(vec![0, 0, 2]),
            validity: None,
        };
        let run = GivenRun {
            place: u64::MAX - 3,
            cell: 0,
            len: 3,
        };
        let cells = GivenCells {
            fields: vec![fixed.clone(), var.clone()],
            runs: vec![run],
            count: 3,
        };
        let record = encode(&[7, u64::MAX], &cells);
        let (tile, back) = decode(&record).unwrap();
        assert_eq!(tile, [7, u64::MAX]);
        assert_eq!(back.runs, [run]);
        assert_eq!(back.count(), 3);
        assert_eq!(format!("{:?}", back.fields), format!("{:?}", [fixed, var]));
        for end in 0..record.len() {
            assert!(decode(&record[..end]).is_err(), "{end}");
        }
    }
}
