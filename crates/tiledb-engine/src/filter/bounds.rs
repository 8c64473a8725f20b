//! How large a chunk can be between its filters: no buffer grows beyond what a writer can have made of the chunk.
//!
//! A few stored bytes can claim to be, and with compressors even become, any number of bytes. But filters run forward when
//! a tile is written, where each adds little or nothing to the bytes it gets. So from the size of the unfiltered chunk, which
//! the metadata of the tile confirm, follows the most that it can have had before each filter.

use super::bit_width_reduction;
use super::buffer::{BufferLimit, StepLimits};
use super::compression::Codec;
use super::encoded_strings::StringChunkSize;
use super::positive_delta;
use super::stage::{Stage, TransformStage};
use super::strings::StringForm;
use super::word::WordWidth;
use crate::format::filter_list::MOST_FILTERS;

/// Memory that may be allocated on any claim.
const TRUSTED_BYTES: usize = 64 << 10;
/// What a filter may add to a chunk whatever its size: headers, and the sizes of parts.
const OVERHEAD_BYTES: usize = 4 << 10;
/// The filters of a list, the encryption behind them, and the end.
const STEPS: usize = MOST_FILTERS + 2;

/// The size of a chunk at one step of its pipeline.
#[derive(Debug, Clone, Copy, Default)]
struct StepSize {
    data: usize,
    metadata: usize,
}

/// The limits of a chunk at all steps of its pipeline.
#[derive(Debug)]
pub(super) struct ChunkLimits {
    trusted_bytes: usize,
    /// The number of stages.
    stages: usize,
    /// What goes into each stage when it is written, and comes out of it when it is read.
    before: [StepSize; STEPS],
}

impl ChunkLimits {
    /// Bounds for a chunk whose unfiltered size is certain: its `bytes` are already allocated.
    pub(super) fn of_chunk(bytes: usize, stages: &[Stage]) -> Self {
        Self::new(StepSize::of_data(bytes), trusted_beside(bytes), stages)
    }

    /// Bounds for a chunk whose unfiltered size is only claimed.
    pub(super) fn of_unproven_chunk(bytes: usize, stages: &[Stage]) -> Self {
        Self::new(StepSize::of_data(bytes), TRUSTED_BYTES, stages)
    }

    /// Bounds for a chunk of strings that are encoded together with their offsets, for which there is memory.
    pub(super) fn of_strings(form: StringForm, strings: StringChunkSize, stages: &[Stage]) -> Self {
        let StringChunkSize { cells, bytes } = strings;
        let numbers = cells.saturating_mul(size_of::<u64>());
        let with_lengths = bytes.saturating_add(numbers);
        let size = match form {
            // Each run has its length, and its string with a length.
            StringForm::Rle => StepSize::of_data(with_lengths.saturating_add(numbers)),
            // The metadata have each string once with its length, and a cell has an id.
            StringForm::Dictionary => StepSize {
                metadata: with_lengths.saturating_add(OVERHEAD_BYTES),
                ..StepSize::of_data(numbers)
            },
        };
        Self::new(size, trusted_beside(with_lengths), stages)
    }

    fn new(mut size: StepSize, trusted_bytes: usize, stages: &[Stage]) -> Self {
        let mut before = [StepSize::default(); STEPS];
        for (slot, stage) in before.iter_mut().zip(stages) {
            *slot = size;
            size = size.written(stage);
        }
        Self {
            trusted_bytes,
            stages: stages.len(),
            before,
        }
    }

    /// The limit of what comes out of the stage with this number when it is read.
    pub(super) fn before(&self, stage: usize) -> StepLimits {
        let StepSize { data, metadata } = self.before.get(stage).copied().unwrap_or_default();
        let bound = |limit_bytes| BufferLimit {
            trusted_bytes: self.trusted_bytes,
            limit_bytes,
        };
        StepLimits {
            data: bound(data),
            metadata: bound(metadata),
        }
    }

    /// The most memory that is taken at once to read the stages from the last one to `first`. What goes into the last one
    /// is there already, and so is the place for the data of `first` if they are read `in_place`.
    pub(super) fn working_bytes(&self, first: usize, in_place: bool) -> usize {
        let read = self.before.get(first..self.stages).unwrap_or_default();
        let inputs = read.iter().skip(1).copied().chain([StepSize::default()]);
        let taken = read
            .iter()
            .zip(inputs)
            .enumerate()
            .map(|(number, (output, input))| {
                let data = match number {
                    0 if in_place => 0,
                    _ => output.data,
                };
                let output = data.saturating_add(output.metadata);
                output.saturating_add(input.data.saturating_add(input.metadata))
            });
        taken.max().unwrap_or(0)
    }
}

/// What may be allocated on a claim beside `bytes` bytes that are there.
fn trusted_beside(bytes: usize) -> usize {
    bytes.saturating_mul(2).saturating_add(TRUSTED_BYTES)
}

impl StepSize {
    /// Data that no filter has seen.
    fn of_data(bytes: usize) -> Self {
        Self {
            data: bytes.saturating_add(OVERHEAD_BYTES),
            metadata: OVERHEAD_BYTES,
        }
    }

    /// The most that a filter makes of it when a tile is written.
    fn written(self, stage: &Stage) -> Self {
        let Self { data, metadata } = self;
        let all = data.saturating_add(metadata);
        // A compressor compresses the metadata, too, and replaces them by the sizes of its parts.
        let compressed = |numerator, denominator| Self {
            data: times(all, numerator, denominator),
            metadata: OVERHEAD_BYTES,
        };
        let transformed = |data, more| Self {
            data,
            metadata: metadata.saturating_add(more).saturating_add(OVERHEAD_BYTES),
        };
        // At worst, each window has one value.
        let windows = |width: WordWidth, bytes: usize| {
            times(data, width.bytes().saturating_add(bytes), width.bytes())
        };
        match stage {
            // What does not compress is stored, a few hundred bytes longer, or a hundredth.
            Stage::Compressed(Codec::Zstd | Codec::Lz4 | Codec::Bzip2) => compressed(65, 64),
            // At its fastest level, gzip spends up to nine bits on a byte.
            Stage::Compressed(Codec::Gzip) => compressed(37, 32),
            // A run of one cell has a counter of two bytes.
            Stage::Compressed(Codec::Rle { cell_bytes }) => {
                compressed(cell_bytes.saturating_add(2), *cell_bytes)
            }
            // At worst, values are stored as they are behind a header.
            Stage::Compressed(Codec::Delta(_) | Codec::DoubleDelta(_)) | Stage::Encrypted(_) => {
                compressed(1, 1)
            }
            Stage::Sorted(_)
            | Stage::Checked(_)
            | Stage::Transformed(
                TransformStage::ByteShuffle(_)
                | TransformStage::BitShuffle(_)
                | TransformStage::Xor(_),
            ) => transformed(data, 0),
            Stage::Transformed(TransformStage::PositiveDelta(width)) => {
                transformed(data, windows(*width, positive_delta::WINDOW_BYTES))
            }
            Stage::Transformed(TransformStage::BitWidthReduction { width, .. }) => {
                transformed(data, windows(*width, bit_width_reduction::WINDOW_BYTES))
            }
            Stage::Transformed(TransformStage::ScaleFloat(scale)) => {
                transformed(times(data, scale.integer.bytes(), scale.float_bytes()), 0)
            }
            // A picture that does not compress is stored literally, with the lengths of its codes.
            Stage::Transformed(TransformStage::WebP(_)) => transformed(times(data, 2, 1), 0),
        }
    }
}

/// So many bytes times a fraction, and a header.
fn times(bytes: usize, numerator: usize, denominator: usize) -> usize {
    let bytes = bytes.saturating_mul(numerator).div_ceil(denominator.max(1));
    bytes.saturating_add(OVERHEAD_BYTES)
}
