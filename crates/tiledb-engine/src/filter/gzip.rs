//! "Gzip" (specification: "Compression Filters").
//!
//! Each part is a **zlib** stream (RFC 1950: two header bytes, Adler-32 at the end), not a gzip file (RFC 1952). Bytes
//! after the end of the stream are ignored.

use std::io::Write;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Decompress, FlushDecompress, Status};

use crate::error::{Error, Result};
use crate::filter::streaming::{StreamingDecompressor, StreamingStep, stream_into};

/// No level is above this one.
const LARGEST_LEVEL: u32 = 9;

/// A reusable decompression context.
#[derive(Default)]
pub(super) struct Inflater(Option<Decompress>);

impl Inflater {
    fn context(&mut self) -> &mut Decompress {
        self.0.get_or_insert_with(|| Decompress::new(true))
    }

    /// Decompresses into exactly `out`.
    pub(super) fn decode_into(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        stream_into(self, input, out, "gzip")
    }
}

impl StreamingDecompressor for Inflater {
    fn begin(&mut self) -> Result<()> {
        self.context().reset(true);
        Ok(())
    }

    fn step(&mut self, input: &[u8], out: &mut [u8]) -> Result<StreamingStep> {
        let context = self.context();
        let (before_in, before_out) = (context.total_in(), context.total_out());
        let status = context
            .decompress(input, out, FlushDecompress::None)
            .map_err(|e| Error::corrupt("gzip: the stream is damaged").with_source(e))?;
        Ok(StreamingStep {
            consumed: usize::try_from(context.total_in().saturating_sub(before_in))?,
            produced: usize::try_from(context.total_out().saturating_sub(before_out))?,
            finished: status == Status::StreamEnd,
        })
    }
}

/// Appends a stream of `part`.
pub(super) fn encode(part: &[u8], level: i32, out: &mut Vec<u8>) -> Result<()> {
    let level = u32::try_from(level).map_or(Compression::default(), |level| {
        Compression::new(level.min(LARGEST_LEVEL))
    });
    let mut writer = ZlibEncoder::new(out, level);
    let written = writer.write_all(part).and_then(|()| writer.try_finish());
    written.map_err(|e| Error::internal("gzip: the stream cannot be written").with_source(e))
}
