//! Zstandard (specification: "Compression Filters").
//!
//! Each part is a standard frame with its content size, without a dictionary. The level in the filter's options does
//! not matter for reading. If the output size is known, the frame is decoded in one call straight into the destination;
//! otherwise it is streamed, so that memory grows as bytes are decompressed.

use std::io::Cursor;

use zstd::zstd_safe::{
    CCtx, DCtx, InBuffer, OutBuffer, ResetDirective, compress_bound, get_error_name,
};

use crate::error::{Error, Result};
use crate::filter::streaming::{Step, Streaming};

/// A reusable decompression context.
#[derive(Default)]
pub(super) struct Decompressor(Option<DCtx<'static>>);

impl Decompressor {
    fn context(&mut self) -> Result<&mut DCtx<'static>> {
        if self.0.is_none() {
            self.0 = DCtx::try_create();
        }
        self.0
            .as_mut()
            .ok_or_else(|| Error::out_of_memory("zstd: no memory for a decompression context"))
    }

    /// Decompresses into exactly `out`.
    pub(super) fn decode_into(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        let written = self.context()?.decompress(out, input).map_err(corrupt)?;
        if written == out.len() {
            return Ok(());
        }
        Err(Error::corrupt(format!(
            "zstd: {written} bytes come out where {} are expected",
            out.len()
        )))
    }
}

impl Streaming for Decompressor {
    fn begin(&mut self) -> Result<()> {
        self.context()?
            .reset(ResetDirective::SessionOnly)
            .map(drop)
            .map_err(corrupt)
    }

    fn step(&mut self, input: &[u8], out: &mut [u8]) -> Result<Step> {
        let mut source = InBuffer::around(input);
        let mut target = OutBuffer::around(out);
        let hint = self
            .context()?
            .decompress_stream(&mut target, &mut source)
            .map_err(corrupt)?;
        Ok(Step {
            consumed: source.pos(),
            produced: target.pos(),
            finished: hint == 0,
        })
    }
}

fn corrupt(code: usize) -> Error {
    Error::corrupt(format!("zstd: {}", get_error_name(code)))
}

/// The level for which the filter's options say: the compressor's own.
const OWN_LEVEL: i32 = 3;
/// A level that looks for matches in two tables, and the one below it, which looks in one and skips more.
const TWO_TABLES: (i32, i32) = (3, 2);
/// Parts of fewer bytes are no measure of a level.
const TRIED_BYTES: usize = 32 << 10;
/// A trial holds for so many parts.
const TRIED_PARTS: u32 = 64;

/// A reusable compression context.
///
/// The values of arrays are small numbers of few bytes rather than text, and often a level that searches less finds as
/// much. What searches longer is then only slower, so that now and then a part is compressed both ways, and the smaller
/// form tells the level of those after it.
#[derive(Default)]
pub(super) struct Compressor {
    context: Option<CCtx<'static>>,
    /// The level that came out of the last trial, and the parts for which it holds still.
    tried: (i32, u32),
}

impl Compressor {
    /// Appends a frame of `part`, which is not larger than that of the level as far as trials tell.
    pub(super) fn encode(&mut self, part: &[u8], level: i32, out: &mut Vec<u8>) -> Result<()> {
        let level = if level < 0 { OWN_LEVEL } else { level };
        let (level_of_two, level_of_one) = TWO_TABLES;
        if level != level_of_two || part.len() < TRIED_BYTES {
            return self.append(part, level, out);
        }
        let (tried, left) = self.tried;
        if let Some(left) = left.checked_sub(1) {
            self.tried = (tried, left);
            return self.append(part, tried, out);
        }
        let start = out.len();
        self.append(part, level_of_two, out)?;
        let of_two = out.len();
        self.append(part, level_of_one, out)?;
        let is_no_larger = out.len() - of_two <= of_two - start;
        let (best, other) = match is_no_larger {
            true => (level_of_one, start..of_two),
            false => (level_of_two, of_two..out.len()),
        };
        out.drain(other);
        self.tried = (best, TRIED_PARTS);
        Ok(())
    }

    /// Swaps the context for that of another. What trials have shown stays.
    pub(super) fn swap_context(&mut self, other: &mut Self) {
        std::mem::swap(&mut self.context, &mut other.context);
    }

    /// Appends a frame of `part` at a level.
    fn append(&mut self, part: &[u8], level: i32, out: &mut Vec<u8>) -> Result<()> {
        if self.context.is_none() {
            self.context = CCtx::try_create();
        }
        let context = self
            .context
            .as_mut()
            .ok_or_else(|| Error::out_of_memory("zstd: no memory for a compression context"))?;
        out.reserve(compress_bound(part.len()));
        let mut end = Cursor::new(&mut *out);
        end.set_position(end.get_ref().len() as u64);
        context
            .compress(&mut end, part, level)
            .map_err(|code| Error::internal(format!("zstd: {}", get_error_name(code))))?;
        Ok(())
    }
}
