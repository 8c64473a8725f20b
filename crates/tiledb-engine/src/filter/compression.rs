//! The framing that all compressors share (specification: "Compression Filters").
//!
//! Chunk metadata: `u32 metadata parts, u32 data parts`, then `u32 original bytes, u32 compressed bytes` for each
//! metadata part and each data part. Chunk data: the compressed parts in that order. A compressor also compresses all
//! metadata of the earlier filters (in the order of writing): the restored metadata replace its own.
//!
//! An original size is a claim. If the caller has already allocated the output, the claim must match its size;
//! otherwise the output grows in steps as bytes are decompressed.

use super::buffer::{BufferLimit, DecodeWork, FilterBuffer, FilteredChunk, StepLimits};
use super::scratch::{DecompressionContexts, EncodeWorkspace};
use super::streaming::grow;
use super::word::{WordWidth, with_number, with_word};
use super::{bzip2, delta, double_delta, gzip, lz4, parts, rle, zstd};
use crate::error::{Error, Result};
use crate::format::cursor::Cursor;
use crate::format::encoder::Encoder;

/// The codec of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    Gzip,
    Zstd,
    Lz4,
    Bzip2,
    Rle { cell_bytes: usize },
    Delta(WordWidth),
    DoubleDelta(WordWidth),
}

/// The destination of the decompressed data.
pub(super) enum DecompressTarget<'a> {
    Exact(&'a mut [u8]),
    Growing(&'a mut FilterBuffer),
}

/// Reverses a compressor: data go to `target`, restored metadata to `restored`.
pub(super) fn decode(
    codec: Codec,
    metadata: &mut Cursor<'_>,
    input: &[u8],
    target: DecompressTarget<'_>,
    restored: &mut FilterBuffer,
    limits: StepLimits,
    contexts: &mut DecompressionContexts,
) -> Result<()> {
    let metadata_parts = metadata.count_u32(8, "number of metadata parts")?;
    let data_parts = metadata.count_u32(8, "number of data parts")?;
    let mut parts = PartReader { metadata, input };
    for _ in 0..metadata_parts {
        let (part, original) = parts.next()?;
        codec.append(part, original, restored, limits.metadata, contexts)?;
    }
    match target {
        DecompressTarget::Growing(buffer) => {
            for _ in 0..data_parts {
                let (part, original) = parts.next()?;
                codec.append(part, original, buffer, limits.data, contexts)?;
            }
            Ok(())
        }
        DecompressTarget::Exact(mut out) => {
            for _ in 0..data_parts {
                let (part, original) = parts.next()?;
                let out = parts::take_front(&mut out, original, codec.name())?;
                codec.decode_into(part, out, contexts)?;
            }
            parts::expect_full(out, codec.name())
        }
    }
}

struct PartReader<'c, 'm, 'i> {
    metadata: &'c mut Cursor<'m>,
    input: &'i [u8],
}

impl<'i> PartReader<'_, '_, 'i> {
    /// The next compressed part and its claimed original size.
    fn next(&mut self) -> Result<(&'i [u8], usize)> {
        let original = usize::try_from(self.metadata.u32("original part size")?)?;
        let compressed = usize::try_from(self.metadata.u32("compressed part size")?)?;
        let (part, rest) = self.input.split_at_checked(compressed).ok_or_else(|| {
            Error::corrupt(format!(
                "a compressed part claims {compressed} bytes but {} remain in the chunk",
                self.input.len()
            ))
        })?;
        self.input = rest;
        Ok((part, original))
    }
}

impl Codec {
    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
            Self::Bzip2 => "bzip2",
            Self::Rle { .. } => "rle",
            Self::Delta(_) => "delta",
            Self::DoubleDelta(_) => "double_delta",
        }
    }

    /// Decodes one part into exactly `out`.
    fn decode_into(
        self,
        input: &[u8],
        out: &mut [u8],
        contexts: &mut DecompressionContexts,
    ) -> Result<()> {
        // Some writers store a header without values for an empty part: there is nothing to decode.
        if out.is_empty() {
            return Ok(());
        }
        match self {
            Self::Gzip => contexts.gzip.decode_into(input, out),
            Self::Zstd => contexts.zstd.decode_into(input, out),
            Self::Lz4 => lz4::decode_into(input, out),
            Self::Bzip2 => bzip2::decode_into(input, out),
            Self::Rle { cell_bytes } => rle::decode_into(input, cell_bytes, out),
            Self::Delta(width) => with_word!(width, decode_delta(input, out)),
            Self::DoubleDelta(width) => with_word!(width, decode_double_delta(input, out)),
        }
    }

    /// Decodes one part to the end of `buffer`.
    fn append(
        self,
        input: &[u8],
        original: usize,
        buffer: &mut FilterBuffer,
        bound: BufferLimit,
        contexts: &mut DecompressionContexts,
    ) -> Result<()> {
        let total = buffer.len().saturating_add(original);
        if total > bound.limit_bytes {
            return Err(Error::corrupt(format!(
                "{}: a part claims {original} bytes, more than a chunk of this size can need",
                self.name()
            )));
        }
        if total <= bound.trusted_bytes {
            return self.decode_into(input, buffer.extend(original)?, contexts);
        }
        let name = self.name();
        let provable = match self {
            Self::Gzip => return grow(&mut contexts.gzip, input, original, buffer, name),
            Self::Zstd => return grow(&mut contexts.zstd, input, original, buffer, name),
            Self::Bzip2 => {
                let mut context = bzip2::BzipStream::default();
                return grow(&mut context, input, original, buffer, name);
            }
            Self::Lz4 => lz4::largest_output(input),
            Self::Rle { cell_bytes } => rle::decoded_len(input, cell_bytes)?,
            Self::Delta(_) => input.len(),
            Self::DoubleDelta(width) => double_delta::largest_output(input, width),
        };
        if original > provable {
            return Err(Error::corrupt(format!(
                "{name}: a part claims {original} bytes but {} compressed bytes cannot hold more than {provable}",
                input.len()
            )));
        }
        self.decode_into(input, buffer.extend(original)?, contexts)
    }
}

use delta::decode_into as decode_delta;
use double_delta::decode_into as decode_double_delta;

/// Applies a compressor to data and metadata, and returns what it makes of them.
pub(super) fn encode(
    codec: Codec,
    level: i32,
    chunk: &FilteredChunk<'_>,
    signed: bool,
    workspace: &mut EncodeWorkspace,
) -> Result<FilteredChunk<'static>> {
    let mut data = workspace.take();
    data.clear();
    let mut own = Encoder::new();
    own.count_u32(chunk.metadata.len(), "number of metadata parts")?;
    own.u32(1);
    for part in chunk.parts() {
        let start = data.len();
        match codec {
            Codec::Gzip => gzip::encode(part, level, &mut data)?,
            Codec::Zstd => workspace.zstd.encode(part, level, &mut data)?,
            Codec::Lz4 => lz4::encode(part, &mut data),
            Codec::Bzip2 => bzip2::encode(part, level, &mut data)?,
            Codec::Rle { cell_bytes } => rle::encode(part, cell_bytes, &mut data)?,
            Codec::Delta(width) => with_word!(width, encode_delta(part, &mut data))?,
            Codec::DoubleDelta(width) => {
                with_number!(width, signed, double_delta::encode(part, &mut data))?;
            }
        }
        if let Some(work) = &mut workspace.work {
            let encoded = data.get(start..).unwrap_or_default();
            let more = match codec {
                Codec::Zstd => zstd::work(encoded),
                Codec::Lz4 => lz4::work(encoded),
                _ => DecodeWork::default(),
            };
            work.literals += more.literals;
            work.sequences += more.sequences;
        }
        own.count_u32(part.len(), "original part size")?;
        own.count_u32(data.len() - start, "compressed part size")?;
    }
    Ok(FilteredChunk {
        metadata: vec![own.finish()],
        data: data.into(),
    })
}

use delta::encode as encode_delta;
