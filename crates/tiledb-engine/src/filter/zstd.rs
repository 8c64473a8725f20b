//! Zstandard (specification: "Compression Filters").
//!
//! Each part is a standard frame with its content size, without a dictionary. The level in the filter's options does
//! not matter for reading. If the output size is known, the frame is decoded in one call straight into the destination;
//! otherwise it is streamed, so that memory grows as bytes are decompressed.

use std::io::Cursor;

use zstd::zstd_safe::{
    CCtx, DCtx, InBuffer, OutBuffer, ResetDirective, compress_bound, get_error_name,
};

use super::buffer::DecodeWork;
use crate::error::{Error, Result};
use crate::filter::streaming::{StreamingDecompressor, StreamingStep};

/// A reusable decompression context.
#[derive(Default)]
pub(super) struct ZstdDecompressor(Option<DCtx<'static>>);

impl ZstdDecompressor {
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

impl StreamingDecompressor for ZstdDecompressor {
    fn begin(&mut self) -> Result<()> {
        self.context()?
            .reset(ResetDirective::SessionOnly)
            .map(drop)
            .map_err(corrupt)
    }

    fn step(&mut self, input: &[u8], out: &mut [u8]) -> Result<StreamingStep> {
        let mut source = InBuffer::around(input);
        let mut target = OutBuffer::around(out);
        let hint = self
            .context()?
            .decompress_stream(&mut target, &mut source)
            .map_err(corrupt)?;
        Ok(StreamingStep {
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
/// Parts of fewer bytes aren't a measure of a level.
const TRIED_BYTES: usize = 32 << 10;
/// The number of parts that a trial holds for.
const TRIED_PARTS: u32 = 64;

/// A reusable compression context.
///
/// The values of arrays are small numbers of few bytes rather than text, and often a level that searches less finds as
/// much. What searches longer is then only slower. So now and then a part is compressed at both levels, and the level of
/// the smaller form is that of the parts after it.
#[derive(Default)]
pub(super) struct Compressor {
    context: Option<CCtx<'static>>,
    /// The level that came out of the last trial, and the parts for which it holds still.
    tried: (i32, u32),
}

impl Compressor {
    /// Appends a frame of `part`, which isn't larger than that of the level as far as trials show.
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
        let (best, other) = if is_no_larger {
            (level_of_one, start..of_two)
        } else {
            (level_of_two, of_two..out.len())
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

/// The work of decoding a frame of a [`Compressor`], according to its headers (RFC 8878, 3.1.1).
pub(super) fn work(frame: &[u8]) -> DecodeWork {
    let mut work = DecodeWork::default();
    // The work of a frame that can't be read is unknown.
    let _: Option<()> = add_work(frame, &mut work);
    work
}

fn add_work(frame: &[u8], work: &mut DecodeWork) -> Option<()> {
    let (_magic, rest) = frame.split_at_checked(4)?;
    let (descriptor, rest) = rest.split_first()?;
    let is_one_segment = descriptor >> 5 & 1 == 1;
    let size_bytes = match (descriptor >> 6, is_one_segment) {
        (0, false) => 0,
        (flag, _) => 1 << flag,
    };
    let window_bytes = usize::from(!is_one_segment);
    let mut rest = rest.get(window_bytes + size_bytes..)?;
    loop {
        let (header, blocks) = rest.split_first_chunk::<3>()?;
        let header = little_endian(header);
        let (is_last, kind, size) = (header & 1 == 1, header >> 1 & 3, header >> 3);
        let stored = if kind == RUN_BLOCK { 1 } else { size };
        let (block, behind) = blocks.split_at_checked(stored)?;
        if kind == COMPRESSED_BLOCK {
            add_work_of_block(block, work)?;
        }
        if is_last {
            return Some(());
        }
        rest = behind;
    }
}

/// The types of a block that aren't copies of its bytes.
const RUN_BLOCK: usize = 1;
const COMPRESSED_BLOCK: usize = 2;

fn add_work_of_block(block: &[u8], work: &mut DecodeWork) -> Option<()> {
    let first = usize::from(*block.first()?);
    let (kind, format) = (first & 3, first >> 2 & 3);
    let is_coded = kind >= 2;
    // The bytes of the header, and the bits of each size in it.
    let (header, bits) = match (is_coded, format) {
        (false, 0 | 2) => (1, 5),
        (false, 1) => (2, 12),
        (false, _) => (3, 20),
        (true, 0 | 1) => (3, 10),
        (true, 2) => (4, 14),
        (true, _) => (5, 18),
    };
    let sizes = little_endian(block.get(..header)?);
    let sizes = if bits == 5 { sizes >> 3 } else { sizes >> 4 };
    let literals = sizes & ((1 << bits) - 1);
    let stored = match (is_coded, kind) {
        (true, _) => sizes >> bits,
        (false, RUN_BLOCK) => 1,
        (false, _) => literals,
    };
    if is_coded {
        work.literals += literals as u64;
    }
    let sequences = block.get(header + stored..)?;
    let byte = |i: usize| sequences.get(i).map(|byte| usize::from(*byte));
    let count = match byte(0)? {
        few @ ..128 => few,
        some @ ..255 => ((some - 128) << 8) + byte(1)?,
        _ => byte(1)? + (byte(2)? << 8) + 0x7F00,
    };
    work.sequences += count as u64;
    Some(())
}

fn little_endian(bytes: &[u8]) -> usize {
    let bytes = bytes.iter().rev();
    bytes.fold(0, |number, byte| number << 8 | usize::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers below 2^16, which repeat seldom.
    fn numbers(count: u64, bits: u32) -> Vec<u8> {
        let mixed = |i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - bits);
        (0..count).flat_map(|i| mixed(i).to_le_bytes()).collect()
    }

    fn frame(part: &[u8], level: i32) -> Vec<u8> {
        let mut out = Vec::new();
        Compressor::default().append(part, level, &mut out).unwrap();
        out
    }

    #[test]
    fn frames_are_not_larger_than_those_of_the_level() {
        let text = "In the beginning of the year the sea was calm, and the ships were many. ";
        for part in [
            numbers(8192, 16),
            numbers(8192, 40),
            text.repeat(900).into_bytes(),
            vec![7; 65_536],
        ] {
            let mut compressor = Compressor::default();
            let [of_two, of_one] = [3, 2].map(|level| frame(&part, level).len());
            for _ in 0..TRIED_PARTS * 2 + 3 {
                let mut out = b"before".to_vec();
                compressor.encode(&part, 3, &mut out).unwrap();
                let (before, frame) = out.split_at(6);
                assert_eq!(before, b"before");
                assert_eq!(frame.len(), of_two.min(of_one));
                let mut back = vec![0; part.len()];
                ZstdDecompressor::default()
                    .decode_into(frame, &mut back)
                    .unwrap();
                assert_eq!(back, part);
            }
            let expected = if of_one <= of_two { 2 } else { 3 };
            assert_eq!(compressor.tried.0, expected);
        }
    }

    #[test]
    fn other_levels_and_small_parts_are_not_tried() {
        let part = numbers(8192, 16);
        let mut compressor = Compressor::default();
        for (part, level) in [(&part[..], 1), (&part, 9), (&part[..TRIED_BYTES - 8], 3)] {
            let mut out = Vec::new();
            compressor.encode(part, level, &mut out).unwrap();
            assert_eq!(out, frame(part, level));
        }
        assert_eq!(compressor.tried, (0, 0));
    }

    #[test]
    fn headers_tell_the_work_of_a_frame() {
        // Bytes that nothing is known of are moved only, and one that repeats is copied once.
        assert!(work(&frame(&[7; 60_000], 3)).sequences <= 1);
        let noise = numbers(8192, 64);
        assert_eq!(work(&frame(&noise, 3)), DecodeWork::default());
        // Bytes with few values are coded, each by itself.
        let coded = noise.iter().map(|byte| byte & 7).collect::<Vec<_>>();
        let of_coded = work(&frame(&coded, 1));
        assert!(of_coded.literals > 40_000, "{of_coded:?}");
        // What comes again is copied: twice the sequences for twice the repetitions.
        let again = |times: usize| {
            let pieces = (0..times).flat_map(|i| [&noise[..64], &noise[64 + i * 16..80 + i * 16]]);
            work(&frame(&pieces.flatten().copied().collect::<Vec<_>>(), 3)).sequences
        };
        assert!((190..=210).contains(&again(200)), "{}", again(200));
        assert!((390..=410).contains(&again(400)), "{}", again(400));
        // Several blocks, and frames that are cut off.
        let long = [&coded[..], &coded].concat();
        let long = frame(&[&long[..], &long].concat(), 3);
        assert!(work(&long).literals + work(&long).sequences > 0);
        for end in 0..long.len().min(200) {
            assert!(work(&long[..end]).literals <= work(&long).literals);
        }
    }
}
