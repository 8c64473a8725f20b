//! Bitsort, a filter of libtiledb 2.13 and 2.14 (type 17; not in the specification).
//!
//! The writer sorted the values of a tile as unsigned numbers of their width, and moved the coordinates of the cells
//! along, so only these hold the original order. Metadata: the part list of [`super::parts`]. The subtle thing:
//! computing the order needs the coordinates, so the caller provides it, as the stored position of each cell's value.
//!
//! This is the only way to read such tiles, not an optimisation: nothing searches the values by their order. So no
//! setting switches it off, and no benchmark compares it.

use super::parts::for_each_part;
use super::word::WordWidth;
use crate::error::{Error, Result};
use crate::format::cursor::Cursor;

const FILTER: &str = "bitsort";

/// Decodes into `out`, which is as long as `input`.
pub(super) fn decode_into(
    width: WordWidth,
    order: &[u32],
    metadata: &mut Cursor<'_>,
    input: &[u8],
    out: &mut [u8],
) -> Result<()> {
    // The values were sorted as a whole, whatever the parts.
    for_each_part(metadata, input, FILTER, |_| Ok(()))?;
    restore_order(width.bytes(), order, input, out)
}

/// Restores the order of elements of `width` bytes: element `i` of the result is stored at position `order[i]`.
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
