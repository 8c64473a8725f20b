//! bzip2 (specification: "Compression Filters").
//!
//! Each part is an ordinary bzip2 stream with its header. The library cannot reset a decoder, so each part gets its
//! own; the size of its tables depends on the stream's block size (100 to 900 kB).

use std::io::Write;

use bzip2::write::BzEncoder;
use bzip2::{Compression, Decompress, Status};

use crate::error::{Error, Result};
use crate::filter::streaming::{StreamingDecompressor, StreamingStep, stream_into};

/// The level for which the filter's options say: the compressor's own.
const OWN_LEVEL: u32 = 1;
/// No level is above this one.
const LARGEST_LEVEL: u32 = 9;

/// The decoder of one stream.
#[derive(Default)]
pub(super) struct BzipStream(Option<Decompress>);

/// Decompresses into exactly `out`.
pub(super) fn decode_into(input: &[u8], out: &mut [u8]) -> Result<()> {
    stream_into(&mut BzipStream::default(), input, out, "bzip2")
}

impl StreamingDecompressor for BzipStream {
    fn begin(&mut self) -> Result<()> {
        self.0 = Some(Decompress::new(false));
        Ok(())
    }

    fn step(&mut self, input: &[u8], out: &mut [u8]) -> Result<StreamingStep> {
        let context = self.0.get_or_insert_with(|| Decompress::new(false));
        let (before_in, before_out) = (context.total_in(), context.total_out());
        let status = context
            .decompress(input, out)
            .map_err(|e| Error::corrupt("bzip2: the stream is damaged").with_source(e))?;
        Ok(StreamingStep {
            consumed: usize::try_from(context.total_in().saturating_sub(before_in))?,
            produced: usize::try_from(context.total_out().saturating_sub(before_out))?,
            finished: status == Status::StreamEnd,
        })
    }
}

/// Appends a stream of `part`.
pub(super) fn encode(part: &[u8], level: i32, out: &mut Vec<u8>) -> Result<()> {
    let level = u32::try_from(level).map_or(OWN_LEVEL, |level| level.clamp(1, LARGEST_LEVEL));
    let mut writer = BzEncoder::new(out, Compression::new(level));
    let written = writer.write_all(part).and_then(|()| writer.try_finish());
    written.map_err(|e| Error::internal("bzip2: the stream cannot be written").with_source(e))
}
