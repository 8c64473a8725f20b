//! Zstandard (specification: "Compression Filters").
//!
//! Each part is a standard frame with its content size, without a dictionary. The level in the filter's options does
//! not matter for reading. If the output size is known, the frame is decoded in one call straight into the destination;
//! otherwise it is streamed, so that memory grows as bytes are decompressed.

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

/// A reusable compression context.
#[derive(Default)]
pub(super) struct Compressor(Option<CCtx<'static>>);

impl Compressor {
    /// Appends a frame of `part`.
    pub(super) fn encode(&mut self, part: &[u8], level: i32, out: &mut Vec<u8>) -> Result<()> {
        if self.0.is_none() {
            self.0 = CCtx::try_create();
        }
        let context = self
            .0
            .as_mut()
            .ok_or_else(|| Error::out_of_memory("zstd: no memory for a compression context"))?;
        let level = if level < 0 { OWN_LEVEL } else { level };
        let (start, bound) = (out.len(), compress_bound(part.len()));
        out.resize(start.saturating_add(bound), 0);
        let target = out.get_mut(start..).unwrap_or_default();
        let written = context
            .compress(target, part, level)
            .map_err(|code| Error::internal(format!("zstd: {}", get_error_name(code))))?;
        out.truncate(start.saturating_add(written));
        Ok(())
    }
}
