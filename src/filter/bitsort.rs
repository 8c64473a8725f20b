//! Bitsort, which libtiledb 2.13 and 2.14 had (type 17; no page of the specification).
//!
//! Writing sorted the values of a tile as unsigned numbers of their width, and moved the coordinates of the cells
//! along: these alone tell where a value came from. Metadata: the part list of [`super::parts`]. The subtle thing: only
//! who has the coordinates knows the order, so it comes from outside, as the place where the value of each cell is
//! stored.
//!
//! This is the only way to read such tiles, and no special way beside a plain one: nothing searches the values by their
//! order. So there is no setting that switches it off, and no benchmark that compares it.

use super::parts::for_each_part;
use super::word::Width;
use crate::error::{Error, Result};
use crate::format::cursor::Cursor;

const FILTER: &str = "bitsort";

/// Decodes into `out`, which is as long as `input`.
pub(super) fn decode_into(
    width: Width,
    order: &[u32],
    metadata: &mut Cursor<'_>,
    input: &[u8],
    out: &mut [u8],
) -> Result<()> {
    // Whatever the parts, they were sorted as one.
    for_each_part(metadata, input, FILTER, |_| Ok(()))?;
    restore_order(width.bytes(), order, input, out)
}

/// Puts elements of `width` bytes back where they belong: the first is the one stored at the first place of `order`.
pub fn restore_order(width: usize, order: &[u32], stored: &[u8], out: &mut [u8]) -> Result<()> {
    match width {
        1 => gather::<1>(order, stored, out),
        2 => gather::<2>(order, stored, out),
        4 => gather::<4>(order, stored, out),
        8 => gather::<8>(order, stored, out),
        other => Err(Error::unsupported(format!(
            "filter bitsort on elements of {other} bytes, expected 1, 2, 4 or 8"
        ))),
    }
}

fn gather<const N: usize>(order: &[u32], stored: &[u8], out: &mut [u8]) -> Result<()> {
    let (elements, rest) = stored.as_chunks::<N>();
    let (slots, left) = out.as_chunks_mut::<N>();
    let fits = elements.len() == order.len() && slots.len() == order.len();
    if !fits || !rest.is_empty() || !left.is_empty() {
        return Err(Error::corrupt(format!(
            "{FILTER}: {} bytes for {} elements of {N} bytes",
            stored.len(),
            order.len()
        )));
    }
    for (slot, from) in slots.iter_mut().zip(order) {
        let element = usize::try_from(*from).ok().and_then(|i| elements.get(i));
        *slot = *element.ok_or_else(|| Error::internal("an order points past its tile"))?;
    }
    Ok(())
}
