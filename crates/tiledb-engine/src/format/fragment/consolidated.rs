//! Consolidated fragment metadata, `.meta` files (specification: "Consolidated Fragment Metadata File").
//!
//! `u32 count`, per fragment `u64 length, name, u64 offset`, then the footers one after the other. The subtle thing:
//! offsets count from the start of this tile, but those *inside* a footer refer to the fragment's own metadata file.

use std::ops::Range;

use crate::error::Result;
use crate::format::cursor::Cursor;
use crate::format::encoder::Encoder;
use crate::format::names::{check_component, last_component};

/// Reads the fragments' names (last path component) and the range of each one's footer in `tile`.
pub fn decode(tile: &[u8]) -> Result<Vec<(String, Range<usize>)>> {
    let mut cursor = Cursor::new(tile, "consolidated fragment metadata");
    let count = cursor.count_u32(16, "number of fragments")?;
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let path = cursor.string_u64("fragment name")?;
        let name = last_component(&path);
        check_component(name, "a fragment in consolidated metadata")?;
        let offset = cursor.u64("footer offset")?;
        entries.push((name.to_owned(), offset));
    }
    let footers = cursor.position();
    let mut starts = Vec::with_capacity(entries.len());
    for (_, offset) in &entries {
        let start = usize::try_from(*offset)
            .ok()
            .filter(|start| (footers..tile.len()).contains(start))
            .ok_or_else(|| {
                cursor.invalid(
                    "footer offset",
                    offset,
                    format_args!("{footers} to {}", tile.len()),
                )
            })?;
        starts.push(start);
    }
    // A footer ends where the next one begins, whatever the order of the names.
    let mut ends = starts.clone();
    ends.push(tile.len());
    ends.sort_unstable();
    Ok(entries
        .into_iter()
        .zip(starts)
        .map(|((name, _), start)| {
            let next = ends.partition_point(|end| *end <= start);
            (name, start..ends.get(next).copied().unwrap_or(tile.len()))
        })
        .collect())
}

/// Writes the names of fragments and their footers, in this order.
///
/// # Errors
/// There are too many fragments to count.
pub fn encode(fragments: &[(String, &[u8])]) -> Result<Vec<u8>> {
    // Of each fragment the length of its name, the name and the offset of its footer.
    let entries = fragments.iter().map(|(name, _)| 8 + name.len() + 8);
    let mut offset = 4 + entries.sum::<usize>();
    let mut to = Encoder::new();
    to.count_u32(fragments.len(), "number of fragments")?;
    for (name, footer) in fragments {
        to.bytes_u64(name.as_bytes());
        to.count_u64(offset);
        offset = offset.saturating_add(footer.len());
    }
    fragments.iter().for_each(|(_, footer)| to.bytes(footer));
    Ok(to.finish())
}
