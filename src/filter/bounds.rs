//! How large a chunk can be between its filters: no buffer grows beyond what a writer can have made of the chunk.
//!
//! A few stored bytes can claim to be, and with compressors even become, any number of bytes. But filters run forward when
//! a tile is written, where each adds little or nothing to the bytes it gets. So from the size of the unfiltered chunk, which
//! the metadata of the tile confirm, follows the most that it can have had before each filter.

use super::bit_width_reduction;
use super::buffer::Bound;
use super::compression::Codec;
use super::positive_delta;
use super::stage::{Stage, Transform};
use super::word::Width;
use crate::format::filter_list::MOST_FILTERS;

/// Memory that may be allocated on any claim.
const TRUSTED_BYTES: usize = 64 << 10;
/// What a filter may add to a chunk whatever its size: headers, and the sizes of parts.
const OVERHEAD_BYTES: usize = 4 << 10;
/// The filters of a list, the encryption behind them, and the end.
const STEPS: usize = MOST_FILTERS + 2;

/// The limits of a chunk at all steps of its pipeline.
#[derive(Debug)]
pub(super) struct Bounds {
    trusted_bytes: usize,
    before: [usize; STEPS],
    largest: usize,
}

impl Bounds {
    /// Bounds for a chunk whose unfiltered size is certain: its `bytes` are already allocated.
    pub(super) fn of_chunk(bytes: usize, stages: &[Stage]) -> Self {
        let trusted = bytes.saturating_mul(2).saturating_add(TRUSTED_BYTES);
        Self::new(bytes, trusted, stages)
    }

    /// Bounds for a chunk whose unfiltered size is only claimed.
    pub(super) fn of_unproven_chunk(bytes: usize, stages: &[Stage]) -> Self {
        Self::new(bytes, TRUSTED_BYTES, stages)
    }

    fn new(bytes: usize, trusted_bytes: usize, stages: &[Stage]) -> Self {
        let mut before = [0; STEPS];
        let mut size = bytes.saturating_add(OVERHEAD_BYTES);
        let mut largest = size;
        for (slot, stage) in before.iter_mut().zip(stages) {
            *slot = size;
            largest = size;
            size = written_bytes(stage, size);
        }
        Self {
            trusted_bytes,
            before,
            largest,
        }
    }

    /// The limit of what goes into the stage with this number when it is written, and comes out of it when it is read.
    pub(super) fn before(&self, stage: usize) -> Bound {
        let limit_bytes = self.before.get(stage).copied().unwrap_or(0);
        Bound {
            trusted_bytes: self.trusted_bytes.min(limit_bytes),
            limit_bytes,
        }
    }

    /// The most that reading one stage takes: what goes in, and what comes out.
    pub(super) fn working_bytes(&self) -> usize {
        self.largest.saturating_mul(2)
    }
}

/// The most bytes, data and metadata together, that a filter makes of so many when a tile is written.
fn written_bytes(stage: &Stage, bytes: usize) -> usize {
    let times = |numerator: usize, denominator: usize| {
        bytes
            .saturating_mul(numerator)
            .div_ceil(denominator.max(1))
            .saturating_add(OVERHEAD_BYTES)
    };
    match stage {
        // What does not compress is stored, a few hundred bytes longer, or a hundredth.
        Stage::Compressed(Codec::Zstd | Codec::Lz4 | Codec::Bzip2) => times(65, 64),
        // At its fastest level, gzip spends up to nine bits on a byte.
        Stage::Compressed(Codec::Gzip) => times(37, 32),
        // A run of one cell has a counter of two bytes.
        Stage::Compressed(Codec::Rle { cell_bytes }) => {
            times(cell_bytes.saturating_add(2), *cell_bytes)
        }
        // At worst, values are stored as they are behind a header.
        Stage::Compressed(Codec::Delta(_) | Codec::DoubleDelta(_))
        | Stage::Encrypted(_)
        | Stage::Sorted(_)
        | Stage::Checked(_)
        | Stage::Transformed(
            Transform::ByteShuffle(_) | Transform::BitShuffle(_) | Transform::Xor(_),
        ) => times(1, 1),
        // Windows may have one value each.
        Stage::Transformed(Transform::PositiveDelta(width)) => {
            with_header(*width, positive_delta::WINDOW_BYTES, times)
        }
        Stage::Transformed(Transform::BitWidthReduction { width, .. }) => {
            with_header(*width, bit_width_reduction::WINDOW_BYTES, times)
        }
        Stage::Transformed(Transform::ScaleFloat(scale)) => {
            let float = scale.float_bytes();
            times(scale.integer.bytes().max(float), float)
        }
        // A picture that does not compress is stored literally, with the lengths of its codes.
        Stage::Transformed(Transform::WebP(_)) => times(2, 1),
    }
}

/// What values become if each has a header of its own: one value, and `more` bytes.
fn with_header(width: Width, more: usize, times: impl Fn(usize, usize) -> usize) -> usize {
    let header = width.bytes().saturating_add(more);
    times(width.bytes().saturating_add(header), width.bytes())
}
