//! The byte ranges a unit needs, collected first and fetched together: one coalesced read per file.

use std::collections::HashMap;
use std::ops::Range;

use bytes::Bytes;

use crate::array::fragment::{FieldTiles, TileFile, TileIdx};
use crate::error::{Error, Result};
use crate::storage::Storage;
use crate::tile::decode::TileBytes;

/// Where the bytes of one range are once they are fetched.
#[derive(Debug, Clone, Copy)]
pub(super) struct FetchTicket {
    file: usize,
    range: usize,
}

/// Where the bytes of one tile of one field are once they are fetched.
#[derive(Debug, Clone, Copy)]
pub struct TileTicket {
    values: FetchTicket,
    var: Option<FetchTicket>,
    validity: Option<FetchTicket>,
}

/// Ranges to read, by file.
#[derive(Debug, Clone, Default)]
pub struct FetchList {
    files: Vec<(String, Vec<Range<u64>>)>,
    by_path: HashMap<String, usize>,
}

impl FetchList {
    /// Requests one tile of a field.
    pub fn tile(&mut self, field: &FieldTiles, tile: TileIdx) -> Result<TileTicket> {
        Ok(TileTicket {
            values: self.range(&field.values, tile)?,
            var: field
                .var
                .as_ref()
                .map(|(file, _)| self.range(file, tile))
                .transpose()?,
            validity: field
                .validity
                .as_ref()
                .map(|file| self.range(file, tile))
                .transpose()?,
        })
    }

    fn range(&mut self, file: &TileFile, tile: TileIdx) -> Result<FetchTicket> {
        self.add(&file.path, file.tile(tile)?)
    }

    /// Requests a range of a file.
    pub(super) fn add(&mut self, path: &str, range: Range<u64>) -> Result<FetchTicket> {
        let index = match self.by_path.get(path) {
            Some(index) => *index,
            None => {
                self.files.push((path.to_owned(), Vec::new()));
                self.by_path.insert(path.to_owned(), self.files.len() - 1);
                self.files.len() - 1
            }
        };
        let Some((_, ranges)) = self.files.get_mut(index) else {
            return Err(Error::internal("a file was dropped from the fetch list"));
        };
        // In old fragments, all dimensions share a tile.
        if ranges.last() != Some(&range) {
            ranges.push(range);
        }
        Ok(FetchTicket {
            file: index,
            range: ranges.len() - 1,
        })
    }

    /// The number of filtered bytes requested.
    pub fn bytes(&self) -> u64 {
        self.files
            .iter()
            .flat_map(|(_, ranges)| ranges)
            .fold(0, |sum, r| sum.saturating_add(r.end - r.start))
    }

    /// The number of files that are read.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// The ranges of each file.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (&str, &[Range<u64>])> {
        let files = self.files.iter();
        files.map(|(path, ranges)| (path.as_str(), ranges.as_slice()))
    }

    /// Reads all requested ranges.
    pub async fn fetch(&self, storage: &Storage) -> Result<FetchedBytes> {
        let files = storage.read_files(&self.files).await?;
        Ok(FetchedBytes { files })
    }
}

/// The bytes of a [`FetchList`].
#[derive(Debug)]
pub struct FetchedBytes {
    files: Vec<Vec<Bytes>>,
}

impl FetchedBytes {
    /// The bytes of each file of a list, in its order.
    pub(super) fn new(files: Vec<Vec<Bytes>>) -> Self {
        Self { files }
    }

    /// All bytes, in the order of the list.
    #[cfg(test)]
    pub(super) fn concatenated(&self) -> Vec<u8> {
        self.files.iter().flatten().flatten().copied().collect()
    }

    /// The bytes of one tile.
    pub fn tile(&self, ticket: TileTicket) -> Result<TileBytes> {
        Ok(TileBytes {
            values: self.get(ticket.values)?,
            var: ticket.var.map(|t| self.get(t)).transpose()?,
            validity: ticket.validity.map(|t| self.get(t)).transpose()?,
        })
    }

    fn get(&self, ticket: FetchTicket) -> Result<Bytes> {
        let file = self.files.get(ticket.file);
        file.and_then(|ranges| ranges.get(ticket.range))
            .cloned()
            .ok_or_else(|| Error::internal("a range that was asked for did not come back"))
    }
}

/// Fetched bytes by file and range, which serve other lists.
#[derive(Debug)]
pub struct FetchedRanges(HashMap<String, HashMap<Range<u64>, Bytes>>);

impl FetchedRanges {
    /// The bytes of a list.
    pub fn new(list: &FetchList, fetched: &FetchedBytes) -> Self {
        let files = list.files.iter().zip(&fetched.files);
        let files = files.map(|((path, ranges), bytes)| {
            let bytes = ranges.iter().cloned().zip(bytes.iter().cloned());
            (path.clone(), bytes.collect())
        });
        Self(files.collect())
    }

    /// The bytes of another list; `None` if some are missing.
    pub fn serve(&self, list: &FetchList) -> Option<FetchedBytes> {
        let files = list.files.iter().map(|(path, ranges)| {
            let file = self.0.get(path)?;
            let bytes = ranges.iter().map(|range| file.get(range).cloned());
            bytes.collect::<Option<Vec<_>>>()
        });
        let files = files.collect::<Option<Vec<_>>>()?;
        Some(FetchedBytes { files })
    }
}
