//! Run-length encoding, fixed form (specification: "Compression Filters").
//!
//! Each part is a sequence of `value, u16 run length`. The value has the **tile's cell size** whatever the earlier
//! filters, and also for metadata parts; the run length is **big-endian**, unlike everything else. The form for strings
//! with their offsets is in [`super::strings`].
#![expect(clippy::big_endian_bytes, reason = "run lengths are stored big-endian")]

use super::parts::{expect_full, take_front};
use crate::error::{Error, Result};

const FILTER: &str = "rle";
/// Size of a run length.
const LENGTH_BYTES: usize = 2;

/// The runs of `input`: value and length.
fn runs(input: &[u8], cell_bytes: usize) -> Result<impl Iterator<Item = (&[u8], usize)>> {
    let run_bytes = cell_bytes
        .checked_add(LENGTH_BYTES)
        .filter(|_| cell_bytes > 0)
        .ok_or_else(|| {
            Error::corrupt(format!(
                "rle: the cell size is {cell_bytes}, expected at least 1"
            ))
        })?;
    if !input.len().is_multiple_of(run_bytes) {
        return Err(Error::corrupt(format!(
            "rle: {} bytes of runs, expected a multiple of {run_bytes}",
            input.len()
        )));
    }
    Ok(input.chunks_exact(run_bytes).filter_map(|run| {
        let (value, length) = run.split_last_chunk::<LENGTH_BYTES>()?;
        Some((value, usize::from(u16::from_be_bytes(*length))))
    }))
}

/// Size that `input` decodes to.
pub(super) fn decoded_len(input: &[u8], cell_bytes: usize) -> Result<usize> {
    let cells = runs(input, cell_bytes)?.fold(0_usize, |sum, (_, run)| sum.saturating_add(run));
    Ok(cells.saturating_mul(cell_bytes))
}

/// Decodes into exactly `out`.
pub(super) fn decode_into(input: &[u8], cell_bytes: usize, out: &mut [u8]) -> Result<()> {
    let mut rest = out;
    for (value, run) in runs(input, cell_bytes)? {
        let cells = take_front(&mut rest, run.saturating_mul(cell_bytes), FILTER)?;
        repeat(value, cells);
    }
    expect_full(rest, FILTER)
}

/// Fills `cells` with copies of `value`.
pub(super) fn repeat(value: &[u8], cells: &mut [u8]) {
    match *value {
        [] => {}
        [a] => cells.fill(a),
        [a, b] => cells.as_chunks_mut().0.fill([a, b]),
        [a, b, c, d] => cells.as_chunks_mut().0.fill([a, b, c, d]),
        [a, b, c, d, e, f, g, h] => cells.as_chunks_mut().0.fill([a, b, c, d, e, f, g, h]),
        _ => cells
            .chunks_exact_mut(value.len())
            .for_each(|cell| cell.copy_from_slice(value)),
    }
}

/// Encodes one part of whole cells.
///
/// # Errors
/// The part ends within a cell, as behind a filter whose output is not one cell for one cell.
pub(super) fn encode(part: &[u8], cell_bytes: usize, out: &mut Vec<u8>) -> Result<()> {
    if cell_bytes == 0 || !part.len().is_multiple_of(cell_bytes) {
        return Err(Error::unsupported(format!(
            "filter rle on {} bytes, which aren't a whole number of cells of {cell_bytes}: put rle first",
            part.len()
        )));
    }
    let mut cells = part.chunks_exact(cell_bytes).peekable();
    while let Some(value) = cells.next() {
        let mut run = 1_u16;
        while run < u16::MAX && cells.next_if_eq(&value).is_some() {
            run += 1;
        }
        out.extend_from_slice(value);
        out.extend_from_slice(&run.to_be_bytes());
    }
    Ok(())
}
