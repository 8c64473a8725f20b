//! Decompressors that are fed and drained in pieces.

use super::buffer::FilterBuffer;
use crate::error::{Error, Result};

/// The first step of a growing output.
const FIRST_STEP_BYTES: usize = 64 << 10;
/// The largest step of a growing output.
const LARGEST_STEP_BYTES: usize = 16 << 20;

/// Progress of a streaming decompressor.
pub(super) struct StreamingStep {
    pub(super) consumed: usize,
    pub(super) produced: usize,
    pub(super) finished: bool,
}

/// A decompressor that is fed and drained in pieces.
pub(super) trait StreamingDecompressor {
    fn begin(&mut self) -> Result<()>;
    fn step(&mut self, input: &[u8], out: &mut [u8]) -> Result<StreamingStep>;
}

/// Appends the output of a stream to `buffer`, which grows only as bytes are decompressed.
pub(super) fn grow(
    stream: &mut impl StreamingDecompressor,
    mut input: &[u8],
    original: usize,
    buffer: &mut FilterBuffer,
    name: &'static str,
) -> Result<()> {
    stream.begin()?;
    let mut left = original;
    let mut room = FIRST_STEP_BYTES;
    loop {
        let start = buffer.len();
        let step = stream.step(input, buffer.extend(left.min(room))?)?;
        buffer.truncate(start.saturating_add(step.produced));
        left = left.saturating_sub(step.produced);
        input = input.get(step.consumed..).unwrap_or_default();
        if step.finished {
            return check_finished(name, original, left);
        }
        if step.produced == 0 && step.consumed == 0 {
            return Err(stalled(name, left));
        }
        room = room.saturating_mul(2).min(LARGEST_STEP_BYTES);
    }
}

/// Writes the output of a stream into exactly `out`.
pub(super) fn stream_into(
    stream: &mut impl StreamingDecompressor,
    mut input: &[u8],
    out: &mut [u8],
    name: &'static str,
) -> Result<()> {
    stream.begin()?;
    let original = out.len();
    let mut rest = out;
    loop {
        let step = stream.step(input, rest)?;
        rest = rest.get_mut(step.produced..).unwrap_or_default();
        input = input.get(step.consumed..).unwrap_or_default();
        if step.finished {
            return check_finished(name, original, rest.len());
        }
        if step.produced == 0 && step.consumed == 0 {
            return Err(stalled(name, rest.len()));
        }
    }
}

fn check_finished(name: &str, original: usize, left: usize) -> Result<()> {
    if left == 0 {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "{name}: the stream ends after {} bytes, expected {original}",
        original.saturating_sub(left)
    )))
}

fn stalled(name: &str, left: usize) -> Error {
    Error::corrupt(if left == 0 {
        format!("{name}: the stream holds more bytes than expected")
    } else {
        format!("{name}: the stream is truncated, {left} bytes are missing")
    })
}
