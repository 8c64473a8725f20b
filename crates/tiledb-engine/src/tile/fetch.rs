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
struct FetchTicket {
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
#[derive(Debug, Default)]
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
        let range = file.tile(tile)?;
        let index = match self.by_path.get(&file.path) {
            Some(index) => *index,
            None => {
                self.files.push((file.path.clone(), Vec::new()));
                self.by_path.insert(file.path.clone(), self.files.len() - 1);
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

    /// Reads all requested ranges.
    pub async fn fetch(self, storage: &Storage) -> Result<FetchedBytes> {
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
