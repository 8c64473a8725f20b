//! Lists of one number per tile (specification: "Fragment Metadata File", Tile Offsets, Tile Sizes, Tile Sums, Tile
//! Null Counts), all `u64 count, u64 × count`.
//!
//! The subtle thing: only starts are stored, so a tile ends where the next one starts, and the last one at the end of
//! the file. Damaged offsets may decrease, so [`TileExtents`] checks them.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::format::cursor::Cursor;
use crate::format::encoder::Encoder;

/// Reads a list of numbers; `what` names it in errors ("tile offsets").
pub fn decode_u64s(tile: &[u8], what: &'static str) -> Result<Vec<u64>> {
    let mut cursor = Cursor::new(tile, what);
    let count = cursor.count_u64(size_of::<u64>(), "count")?;
    let bytes = cursor.bytes(count.saturating_mul(size_of::<u64>()), "values")?;
    if cursor.remaining() != 0 {
        return Err(cursor.invalid(
            "count",
            count,
            format_args!(
                "as many values as follow ({} bytes are left over)",
                cursor.remaining()
            ),
        ));
    }
    let (values, _) = bytes.as_chunks::<8>();
    Ok(values.iter().map(|v| u64::from_le_bytes(*v)).collect())
}

/// Writes a list of numbers.
pub fn encode_u64s(values: &[u64]) -> Vec<u8> {
    let mut to = Encoder::new();
    to.count_u64(values.len());
    values.iter().for_each(|value| to.u64(*value));
    to.finish()
}

/// The byte ranges of the tiles in one data file, checked to ascend and to end inside the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TileExtents {
    offsets: Vec<u64>,
    file_bytes: u64,
}

impl TileExtents {
    /// Checks the starts of `tiles` tiles in a file of `file_bytes`; `file` names it in errors.
    pub fn new(offsets: Vec<u64>, file_bytes: u64, tiles: u64, file: &str) -> Result<Self> {
        if offsets.len() as u64 != tiles {
            return Err(Error::corrupt(format!(
                "there are {} tile offsets, but the fragment has {tiles} tiles",
                offsets.len()
            ))
            .with("file", file));
        }
        let mut previous = 0;
        for (tile, &offset) in offsets.iter().enumerate() {
            if offset < previous {
                return Err(Error::corrupt(format!(
                    "tile offsets go back from {previous} to {offset}, expected ascending ones"
                ))
                .with("tile", tile)
                .with("file", file));
            }
            previous = offset;
        }
        if previous > file_bytes {
            return Err(Error::corrupt(format!(
                "tile offsets end at {previous} but the file has {file_bytes} bytes: the fragment is truncated"
            ))
            .with("file", file));
        }
        Ok(Self {
            offsets,
            file_bytes,
        })
    }

    /// The number of tiles.
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Whether there are no tiles.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// The byte range of a tile in the file.
    pub fn range(&self, tile: usize) -> Result<Range<u64>> {
        let start = self.offsets.get(tile).ok_or_else(|| {
            Error::internal(format!(
                "tile {tile} of {} does not exist",
                self.offsets.len()
            ))
        })?;
        let next = tile.checked_add(1).and_then(|next| self.offsets.get(next));
        Ok(*start..*next.unwrap_or(&self.file_bytes))
    }

    /// Size in memory, for caches.
    pub fn memory_bytes(&self) -> usize {
        size_of::<u64>() * self.offsets.capacity()
    }
}
