//! Dictionary encoding of strings (specification: "Dictionary Encoding Filter").
//!
//! After the metadata that both string encodings share ([`super::strings`]): `u8 id width, u8 length width, u32
//! dictionary bytes` and the dictionary, `length, bytes` per entry in order of first occurrence. There is **no count**
//! of entries: they end with the dictionary's bytes. Data: one id per cell. Ids and lengths are big-endian, of the
//! stored widths.

use hashbrown::HashMap;

use crate::error::{Error, Result};
use crate::filter::encoded_strings::{
    EncodedStrings, StringChunkSize, big_endian, integer_width, put_big_endian, width_of,
};
use crate::format::cursor::Cursor;
use crate::format::encoder::Encoder;

/// Restores the strings of one chunk.
pub(super) fn decode(
    metadata: &mut Cursor<'_>,
    ids: &[u8],
    claimed: StringChunkSize,
    strings: &mut EncodedStrings,
) -> Result<()> {
    let id_width = integer_width(metadata, "id width")?;
    let length_width = integer_width(metadata, "length width")?;
    let dictionary_bytes = metadata.u32("dictionary bytes")?;
    let dictionary = metadata.bytes_u64(u64::from(dictionary_bytes), "dictionary")?;
    if ids.len() != claimed.cells.saturating_mul(id_width) {
        return Err(Error::corrupt(format!(
            "dictionary of strings: {} bytes of ids where {} cells of {id_width} are expected",
            ids.len(),
            claimed.cells
        )));
    }
    let first = strings.strings();
    let lengths = add_entries(dictionary, length_width, strings)?;
    let bytes = match id_width {
        1 => add_cells::<1>(ids, first, &lengths, strings),
        2 => add_cells::<2>(ids, first, &lengths, strings),
        4 => add_cells::<4>(ids, first, &lengths, strings),
        _ => add_cells::<8>(ids, first, &lengths, strings),
    }?;
    if bytes == claimed.bytes {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "dictionary of strings: the cells have {bytes} bytes where {} are expected",
        claimed.bytes
    )))
}

/// Adds the entries, and returns their lengths.
fn add_entries(
    dictionary: &[u8],
    length_width: usize,
    strings: &mut EncodedStrings,
) -> Result<Vec<usize>> {
    let mut cursor = Cursor::new(dictionary, "dictionary of strings");
    let mut lengths = Vec::new();
    while cursor.remaining() > 0 {
        let length = big_endian(cursor.bytes(length_width, "entry length")?);
        let entry = cursor.bytes_u64(length, "entry")?;
        strings.add_string(entry)?;
        lengths.push(entry.len());
    }
    Ok(lengths)
}

/// Adds the cells with these ids of `N` bytes, and returns the total size of their strings. `first` is the number of
/// the dictionary's first entry.
fn add_cells<const N: usize>(
    ids: &[u8],
    first: usize,
    lengths: &[usize],
    strings: &mut EncodedStrings,
) -> Result<usize> {
    let ids = ids.as_chunks::<N>().0;
    let largest = ids.iter().map(|id| big_endian(id)).fold(0, u64::max);
    if largest >= lengths.len() as u64 && !ids.is_empty() {
        return Err(unknown(largest, lengths.len()));
    }
    let first = u32::try_from(first)?;
    // An id that does not fit in 32 bits is larger than any number of a string.
    let id = |bytes: &[u8; N]| u32::try_from(big_endian(bytes)).unwrap_or(u32::MAX);
    strings.add_cells(ids.iter().map(|bytes| first.wrapping_add(id(bytes))));
    if let [length, others @ ..] = lengths
        && others.iter().all(|other| other == length)
    {
        return Ok(ids.len().saturating_mul(*length));
    }
    let length = |bytes| lengths.get(id(bytes) as usize).copied().unwrap_or(0);
    // Each length is one of the dictionary's, which has less than 2^32 bytes, so that no sum of theirs passes 2^64.
    Ok(ids
        .iter()
        .fold(0, |sum, bytes| sum.wrapping_add(length(bytes))))
}

fn unknown(id: u64, entries: usize) -> Error {
    Error::corrupt(format!(
        "dictionary of strings: a cell refers to entry {id} but there are {entries}"
    ))
}

/// Encodes the strings of a tile: ids go to `out`; the metadata after those that both string encodings share are returned.
pub(super) fn encode<'a>(
    strings: impl ExactSizeIterator<Item = &'a [u8]> + Clone,
    out: &mut Vec<u8>,
) -> Result<Vec<u8>> {
    // By the number of cells and not of entries, as libtiledb does, so that one pass is enough.
    let id_width = width_of(strings.len());
    let longest = strings.clone().map(<[u8]>::len).max();
    let length_width = width_of(longest.unwrap_or_default());
    let mut ids = HashMap::new();
    let mut dictionary = Vec::new();
    for string in strings {
        let next = ids.len();
        let id = *ids.entry(string).or_insert_with(|| {
            put_big_endian(string.len(), length_width, &mut dictionary);
            dictionary.extend_from_slice(string);
            next
        });
        put_big_endian(id, id_width, out);
    }
    let mut own = Encoder::new();
    own.u8(id_width.code());
    own.u8(length_width.code());
    own.bytes_u32(&dictionary, "dictionary bytes")?;
    Ok(own.finish())
}
