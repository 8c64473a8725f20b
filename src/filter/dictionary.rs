//! Dictionary encoding of strings (specification: "Dictionary Encoding Filter").
//!
//! Behind the metadata that both string forms share ([`super::strings`]): `u8 id width, u8 length width, u32
//! dictionary bytes` and the dictionary, `length, bytes` per entry in order of first appearance. There is **no count**
//! of entries: they go on until the dictionary's bytes are used up. Data: one id per cell. Ids and lengths are
//! big-endian, of the stored widths.

use super::strings::{Cells, big_endian, integer_width};
use crate::error::{Error, Result};
use crate::format::cursor::Cursor;

/// Restores the strings of one chunk.
pub(super) fn decode(metadata: &mut Cursor<'_>, ids: &[u8], cells: &mut Cells<'_>) -> Result<()> {
    let id_width = integer_width(metadata, "id width")?;
    let length_width = integer_width(metadata, "length width")?;
    let dictionary_bytes = metadata.u32("dictionary bytes")?;
    let dictionary = metadata.bytes_u64(u64::from(dictionary_bytes), "dictionary")?;
    let entries = entries(dictionary, length_width)?;
    for id in ids.chunks(id_width) {
        let id = big_endian(id);
        let value = usize::try_from(id).ok().and_then(|id| entries.get(id));
        cells.push(value.ok_or_else(|| unknown(id, entries.len()))?, 1)?;
    }
    Ok(())
}

fn entries(dictionary: &[u8], length_width: usize) -> Result<Vec<&[u8]>> {
    let mut cursor = Cursor::new(dictionary, "dictionary of strings");
    let mut entries = Vec::new();
    while cursor.remaining() > 0 {
        let length = big_endian(cursor.bytes(length_width, "entry length")?);
        entries.push(cursor.bytes_u64(length, "entry")?);
    }
    Ok(entries)
}

fn unknown(id: u64, entries: usize) -> Error {
    Error::corrupt(format!(
        "dictionary of strings: a cell refers to entry {id} but there are {entries}"
    ))
}
