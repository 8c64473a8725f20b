//! The chunks of a tile (specification: "Tile", "Chunk").
//!
//! `u64 number of chunks`, then per chunk `u32 original bytes, u32 filtered bytes, u32 metadata bytes`, the metadata
//! and the filtered data. Writers cut at about 64 KiB, but a reader must accept chunks of any size, empty chunks
//! (writers leave one if the last cell ends exactly at a boundary), and tiles without chunks.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::format::cursor::Cursor;

/// Size of the three sizes before a chunk.
const CHUNK_HEADER_BYTES: usize = 12;

/// A chunk as stored.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoredChunk<'a> {
    /// The claimed size of the unfiltered chunk.
    pub(super) original_bytes: usize,
    pub(super) metadata: &'a [u8],
    pub(super) data: &'a [u8],
}

/// Chooses the chunks of a tile to decode, each depending on the contents of those before.
pub trait ChunkChoice {
    /// Gets the byte range of each chunk in the tile, before any is chosen.
    fn begin(&mut self, chunks: &[Range<usize>]);

    /// The number of the next chunk to decode; `None` if there are no more.
    fn next(&mut self) -> Option<usize>;

    /// Gets the bytes of the chunk chosen last.
    fn decoded(&mut self, chunk: usize, bytes: &[u8]);
}

impl StoredChunk<'_> {
    /// Whether it is empty: no filter has run on it.
    pub(super) fn is_empty(&self) -> bool {
        self.original_bytes == 0 && self.metadata.is_empty() && self.data.is_empty()
    }
}

/// The chunks of a filtered tile, first to last.
#[derive(Debug)]
pub(super) struct TileChunks<'a> {
    cursor: Cursor<'a>,
    left: usize,
}

impl<'a> TileChunks<'a> {
    pub(super) fn new(filtered: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(filtered, "tile");
        let left = cursor.count_u64(CHUNK_HEADER_BYTES, "number of chunks")?;
        Ok(Self { cursor, left })
    }

    /// The number of chunks not yet taken.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    fn read(&mut self) -> Result<StoredChunk<'a>> {
        let original_bytes = usize::try_from(self.cursor.u32("original size of a chunk")?)?;
        let data_bytes = self.cursor.u32("filtered size of a chunk")?;
        let metadata_bytes = self.cursor.u32("metadata size of a chunk")?;
        let metadata = self
            .cursor
            .bytes_u64(u64::from(metadata_bytes), "chunk metadata")?;
        let data = self.cursor.bytes_u64(u64::from(data_bytes), "chunk data")?;
        Ok(StoredChunk {
            original_bytes,
            metadata,
            data,
        })
    }
}

impl<'a> Iterator for TileChunks<'a> {
    type Item = Result<StoredChunk<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some(self.read())
    }
}

/// Checks that the sizes of a tile's chunks add up to its expected size. This is done before memory of that size is
/// allocated, because the expected size may be wrong.
pub fn expect_unfiltered_bytes(filtered: &[u8], expected: usize) -> Result<()> {
    let mut found = 0_usize;
    for chunk in TileChunks::new(filtered)? {
        found = found.saturating_add(chunk?.original_bytes);
    }
    if found == expected {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "the chunks hold {found} bytes where {expected} are expected"
    )))
}

/// Whether a filtered tile says that it has no chunks.
///
/// If an offsets tile has no chunks although the tile has cells, the offsets are stored with the data (strings under
/// run-length or dictionary encoding), whatever the versions say.
pub fn is_empty_tile(filtered: &[u8]) -> Result<bool> {
    Ok(Cursor::new(filtered, "tile").u64("number of chunks")? == 0)
}
