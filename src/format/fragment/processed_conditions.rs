//! The delete conditions that a consolidated fragment has processed (specification: "Fragment Metadata File", Processed
//! Conditions).
//!
//! `u64 count`, then `u64 length` and text each: the path of the delete file relative to the array, as
//! `__commits/__20_20_<uuid>_22.del`. The subtle thing: the `dci` values of cells index this list.

use crate::error::Result;
use crate::format::cursor::Cursor;
use crate::format::encoder::Encoder;

/// Reads the paths of the delete files, relative to the array.
pub fn decode_processed_conditions(tile: &[u8]) -> Result<Vec<String>> {
    let mut cursor = Cursor::new(tile, "processed conditions");
    let count = cursor.count_u64(size_of::<u64>(), "count")?;
    let paths = (0..count)
        .map(|_| cursor.string_u64("delete file"))
        .collect::<Result<_>>()?;
    match cursor.remaining() {
        0 => Ok(paths),
        bytes => Err(cursor.invalid("bytes after the end", bytes, "none")),
    }
}

/// Writes the paths of the delete files, relative to the array.
pub fn encode_processed_conditions(paths: &[String]) -> Vec<u8> {
    let mut to = Encoder::new();
    to.count_u64(paths.len());
    paths.iter().for_each(|path| to.bytes_u64(path.as_bytes()));
    to.finish()
}
