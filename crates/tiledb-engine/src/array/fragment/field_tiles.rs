//! The byte ranges of the tiles of a field.
//!
//! The subtle thing: only the starts of tiles are stored, so a tile ends where the next one starts, and the last one at
//! the file size in the footer.

use std::ops::Range;
use std::sync::Arc;

use super::TileIdx;
use crate::error::{Error, Result};

/// The smallest size of a chunk; it holds at most `u32::MAX` bytes.
const CHUNK_HEADER_BYTES: u64 = 12;

/// A field of a fragment's own schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FragmentField {
    /// The dimension with this index.
    Dimension(usize),
    /// The attribute with this index.
    Attribute(usize),
    /// The timestamp of each cell, in fragments consolidated with timestamps.
    Timestamps,
    /// The time at which each cell was deleted, in fragments consolidated with deletes.
    DeleteTimestamps,
    /// The index of the processed condition that deleted each cell, in the same fragments.
    DeleteConditionIndex,
}

/// The byte ranges of the tiles in one file.
#[derive(Debug, Clone)]
pub struct TileFile {
    /// The file, relative to the array.
    pub path: String,
    pub(super) bytes: u64,
    pub(super) offsets: Arc<Vec<u64>>,
}

impl TileFile {
    /// The byte range of one tile.
    pub fn tile(&self, tile: TileIdx) -> Result<Range<u64>> {
        let missing = || {
            Error::corrupt(format!(
                "tile {} is asked for but the metadata lists {} tiles",
                tile.0,
                self.offsets.len()
            ))
            .with("file", &self.path)
        };
        let start = *self.offsets.get(tile.get()).ok_or_else(missing)?;
        let end = self
            .offsets
            .get(tile.get().saturating_add(1))
            .copied()
            .unwrap_or(self.bytes);
        if start > end || end > self.bytes {
            return Err(Error::corrupt(format!(
                "tile {} spans bytes {start} to {end} but the file has {} bytes",
                tile.0, self.bytes
            ))
            .with("file", &self.path));
        }
        Ok(start..end)
    }
}

/// The byte ranges of the tiles of one field.
#[derive(Debug, Clone)]
pub struct FieldTiles {
    /// Fixed-size values, or the offsets of a variable-sized field.
    pub values: TileFile,
    /// The data of a variable-sized field, and the unfiltered size of each tile.
    pub var: Option<(TileFile, Arc<Vec<u64>>)>,
    /// The validity tiles of a nullable attribute.
    pub validity: Option<TileFile>,
}

impl FieldTiles {
    /// The unfiltered size of the tile's variable-sized data, 0 for a fixed-size field.
    pub fn var_bytes(&self, tile: TileIdx) -> Result<usize> {
        let Some((file, sizes)) = &self.var else {
            return Ok(0);
        };
        let size = sizes.get(tile.get()).copied().ok_or_else(|| {
            Error::corrupt(format!("the size of var tile {} is not recorded", tile.0))
                .with("file", &file.path)
        })?;
        let Range { start, end } = file.tile(tile)?;
        let most = ((end - start) / CHUNK_HEADER_BYTES).saturating_mul(u64::from(u32::MAX));
        if size > most {
            return Err(Error::corrupt(format!(
                "var tile {} is said to hold {size} bytes, more than its {} filtered bytes can stand for",
                tile.0,
                end - start
            ))
            .with("file", &file.path));
        }
        Ok(usize::try_from(size)?)
    }
}
