//! The chunks of a tile (specification: "Tile", "Chunk").
//!
//! `u64 number of chunks`, then per chunk `u32 original bytes, u32 filtered bytes, u32 metadata bytes`, the metadata
//! and the filtered data. Writers cut at about 64 KiB, but a reader takes what it finds: chunks of any size, of none
//! (writers leave one behind when the last cell ends exactly at a boundary), and tiles without chunks.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::format::cursor::Cursor;

/// Bytes of the three sizes in front of a chunk.
const CHUNK_HEADER_BYTES: usize = 12;

/// One chunk as stored.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk<'a> {
    /// Bytes once unfiltered, as claimed.
    pub(super) original_bytes: usize,
    pub(super) metadata: &'a [u8],
    pub(super) data: &'a [u8],
}

/// Chooses chunks of a tile to be decoded, each by what those before it turned out to hold.
pub trait ChunkChoice {
    /// Where the bytes of each chunk lie in the tile; told before anything is asked.
    fn begin(&mut self, chunks: &[Range<usize>]);

    /// The number of the next chunk to decode; `None`: no more.
    fn next(&mut self) -> Option<usize>;

    /// The bytes of the chunk asked for last.
    fn decoded(&mut self, chunk: usize, bytes: &[u8]);
}

impl Chunk<'_> {
    /// Whether it stands for nothing: no filter has run over it.
    pub(super) fn is_empty(&self) -> bool {
        self.original_bytes == 0 && self.metadata.is_empty() && self.data.is_empty()
    }
}

/// The chunks of a filtered tile, first to last.
#[derive(Debug)]
pub(super) struct Chunks<'a> {
    cursor: Cursor<'a>,
    left: usize,
}

impl<'a> Chunks<'a> {
    pub(super) fn new(filtered: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(filtered, "tile");
        let left = cursor.count_u64(CHUNK_HEADER_BYTES, "number of chunks")?;
        Ok(Self { cursor, left })
    }

    /// Chunks not yet taken.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    fn read(&mut self) -> Result<Chunk<'a>> {
        let original_bytes = usize::try_from(self.cursor.u32("original size of a chunk")?)?;
        let data_bytes = self.cursor.u32("filtered size of a chunk")?;
        let metadata_bytes = self.cursor.u32("metadata size of a chunk")?;
        let metadata = self
            .cursor
            .bytes_u64(u64::from(metadata_bytes), "chunk metadata")?;
        let data = self.cursor.bytes_u64(u64::from(data_bytes), "chunk data")?;
        Ok(Chunk {
            original_bytes,
            metadata,
            data,
        })
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Result<Chunk<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some(self.read())
    }
}

/// Checks that the chunks of a tile add up to the size it is expected to have: before memory of that size is asked
/// for, since the size may be a lie.
pub fn expect_unfiltered_bytes(filtered: &[u8], expected: usize) -> Result<()> {
    let mut found = 0_usize;
    for chunk in Chunks::new(filtered)? {
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
/// An offsets tile without chunks although the tile has cells means that the offsets travel with the data (strings
/// under run lengths or a dictionary), whatever the versions say.
pub fn is_empty_tile(filtered: &[u8]) -> Result<bool> {
    Ok(Cursor::new(filtered, "tile").u64("number of chunks")? == 0)
}
