//! A filter pipeline, compiled for one kind of tile, and the decoding of its chunks.
//!
//! A chunk has data and metadata. Decoding goes from the last filter to the first: each takes its own metadata from the
//! front and passes on the rest; a compressor restores all metadata (specification: "Filter Pipeline", "Chunk"). The
//! filter that is decoded last writes into the caller's memory, those before it into reusable buffers. Checksums are
//! verified in place.

mod state;

use std::ops::Range;
use std::sync::Arc;

use self::state::ChunkState;
use super::bounds::ChunkLimits;
use super::chunk::{ChunkChoice, TileChunks};
use super::encryption_key::EncryptionKey;
use super::parts::take_front;
use super::scratch::FilterScratch;
use super::stage::{Stage, TileContext};
use super::strings::{StringForm, decode_chunk};
use crate::error::{Error, Result, ResultExt};
use crate::filter::encoded_strings::{EncodedStrings, StringChunkSize};
use crate::format::datatype::Datatype;
use crate::format::filter_list::{Filter, FilterList};

/// Since this schema version, `STRING_ASCII` under run-length encoding has no separate offsets.
const ASCII_RLE_SINCE: u32 = 12;
/// Since this schema version, `STRING_ASCII` under dictionary encoding has no separate offsets.
const ASCII_DICTIONARY_SINCE: u32 = 13;
/// Since this schema version, the same holds for `STRING_UTF8` under either encoding.
const UTF8_SINCE: u32 = 17;

/// A filter pipeline compiled for one kind of tile.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    /// The stages in the order of writing.
    stages: Vec<Stage>,
    /// The filter before all stages, if it encodes strings and offsets together.
    strings: Option<StringForm>,
}

/// The contents of chunks that are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkippedContents {
    /// Zeros.
    Zeros,
    /// Undefined.
    Anything,
}

impl SkippedContents {
    fn leave(self, out: &mut [u8]) {
        match self {
            Self::Zeros => out.fill(0),
            // Tests should find code that reads these bytes nevertheless.
            Self::Anything if cfg!(debug_assertions) => out.fill(0xA5),
            Self::Anything => {}
        }
    }
}

impl Pipeline {
    /// Compiles `list` for data tiles that `context` describes. If there is a `key`, the tiles are encrypted after all
    /// filters of the list, which does not include the encryption.
    pub fn new(
        list: &FilterList,
        context: &TileContext,
        key: Option<&Arc<EncryptionKey>>,
    ) -> Result<Self> {
        let pipeline = Self::compile(list, context, string_form(list, context), key)?;
        Ok(pipeline.encrypted_with(key))
    }

    /// Compiles the `list` of a generic tile's header, which includes the encryption.
    pub(super) fn of_generic_tile(
        list: &FilterList,
        context: &TileContext,
        key: Option<&Arc<EncryptionKey>>,
    ) -> Result<Self> {
        Self::compile(list, context, None, key)
    }

    /// As [`Pipeline::new`], but strings under run-length or dictionary encoding are decoded with their offsets
    /// whatever the schema's version: for a tile with cells whose offsets tile has no chunks. `None` for other
    /// pipelines.
    pub fn with_offsets_in_data(
        list: &FilterList,
        context: &TileContext,
        key: Option<&Arc<EncryptionKey>>,
    ) -> Result<Option<Self>> {
        let Some(form) = leading_form(list).filter(|_| context.var_data) else {
            return Ok(None);
        };
        let pipeline = Self::compile(list, context, Some(form), key)?;
        Ok(Some(pipeline.encrypted_with(key)))
    }

    fn encrypted_with(mut self, key: Option<&Arc<EncryptionKey>>) -> Self {
        self.stages
            .extend(key.map(|key| Stage::Encrypted(Arc::clone(key))));
        self
    }

    fn compile(
        list: &FilterList,
        context: &TileContext,
        strings: Option<StringForm>,
        key: Option<&Arc<EncryptionKey>>,
    ) -> Result<Self> {
        let mut datatype = context.datatype;
        let mut stages = Vec::new();
        let filters = list.filters.iter().skip(usize::from(strings.is_some()));
        for filter in filters {
            let stage = Stage::compile(filter, &mut datatype, context, key)
                .context("filter pipeline", || list.to_string())?;
            stages.extend(stage);
        }
        Ok(Self { stages, strings })
    }

    /// Whether the data tile contains the offsets (strings under run-length or dictionary encoding).
    pub fn produces_offsets(&self) -> bool {
        self.strings.is_some()
    }

    /// Unfilters one tile into exactly `out`, whose length is the size the tile is expected to have.
    pub fn decode(
        &self,
        filtered: &[u8],
        out: &mut [u8],
        scratch: &mut FilterScratch,
    ) -> Result<()> {
        self.decode_wanted(filtered, out, |_| true, SkippedContents::Zeros, scratch)
    }

    /// As [`Pipeline::decode`], but skips chunks that are not wanted, by their byte range in the tile.
    pub fn decode_wanted(
        &self,
        filtered: &[u8],
        out: &mut [u8],
        wanted: impl Fn(Range<usize>) -> bool,
        unwanted: SkippedContents,
        scratch: &mut FilterScratch,
    ) -> Result<()> {
        if self.strings.is_some() {
            return Err(Error::internal(
                "strings encoded with their offsets are to be decoded with them",
            ));
        }
        let expected = out.len();
        let mut rest = out;
        let chunks = TileChunks::new(filtered)?;
        if chunks.left() == 0 && expected > 0 {
            return Err(Error::corrupt(format!(
                "the tile has no chunks where {expected} bytes are expected"
            )));
        }
        for (index, chunk) in chunks.enumerate() {
            let chunk = chunk?;
            let start = expected - rest.len();
            let out = take_front(&mut rest, chunk.original_bytes, "chunks")?;
            if wanted(start..start + out.len()) {
                self.decode_chunk(ChunkState::new(&chunk), out, scratch)
                    .context("chunk", || index)?;
            } else {
                scratch.skip_chunk();
                unwanted.leave(out);
            }
        }
        expect_complete(expected, rest.len())
    }

    /// As [`Pipeline::decode`], but only for chosen chunks, in the order in which they are chosen.
    pub fn decode_chosen(
        &self,
        filtered: &[u8],
        out: &mut [u8],
        choice: &mut dyn ChunkChoice,
        unwanted: SkippedContents,
        scratch: &mut FilterScratch,
    ) -> Result<()> {
        if self.strings.is_some() {
            return Err(Error::internal("strings are not decoded by the chunk"));
        }
        let chunks = TileChunks::new(filtered)?.collect::<Result<Vec<_>>>()?;
        let mut end = 0_usize;
        let ranges = chunks
            .iter()
            .map(|chunk| {
                let start = end;
                end = end.saturating_add(chunk.original_bytes);
                start..end
            })
            .collect::<Vec<_>>();
        if end != out.len() {
            return Err(Error::corrupt(format!(
                "the chunks of the tile have {end} bytes where {} are expected",
                out.len()
            )));
        }
        let mut left = (0..chunks.len()).map(Some).collect::<Vec<_>>();
        choice.begin(&ranges);
        while let Some(number) = choice.next() {
            let taken = left.get_mut(number).and_then(Option::take);
            let chunk = taken.and_then(|number| chunks.get(number).zip(ranges.get(number)));
            let Some((chunk, range)) = chunk else {
                return Err(Error::internal("a chunk was chosen twice, or is none"));
            };
            let out = out.get_mut(range.clone()).unwrap_or_default();
            self.decode_chunk(ChunkState::new(chunk), out, scratch)
                .context("chunk", || number)?;
            choice.decoded(number, out);
        }
        for number in left.into_iter().flatten() {
            scratch.skip_chunk();
            let range = ranges.get(number).cloned().unwrap_or_default();
            unwanted.leave(out.get_mut(range).unwrap_or_default());
        }
        Ok(())
    }

    /// As [`Pipeline::decode`] with bitsort among the filters: `order` has the stored position of each cell's value.
    pub fn decode_in_order(
        &self,
        filtered: &[u8],
        order: &[u32],
        out: &mut [u8],
        scratch: &mut FilterScratch,
    ) -> Result<()> {
        let mut chunks = TileChunks::new(filtered)?;
        let count = chunks.left();
        let (Some(chunk), 1) = (chunks.next(), count) else {
            return Err(Error::corrupt(format!(
                "bitsort: the tile has {count} chunks, expected 1"
            )));
        };
        let chunk = chunk?;
        let state = ChunkState::new(&chunk).with_order(order);
        self.decode_chunk(state, out, scratch)
    }

    /// Unfilters only the chunks with the `out.len()` bytes after the first `skip` bytes of a tile. These bytes must be
    /// whole chunks.
    pub fn decode_part(
        &self,
        filtered: &[u8],
        skip: usize,
        out: &mut [u8],
        scratch: &mut FilterScratch,
    ) -> Result<()> {
        let expected = out.len();
        let (mut skip, mut rest) = (skip, out);
        for (index, chunk) in TileChunks::new(filtered)?.enumerate() {
            let chunk = chunk?;
            if skip > 0 {
                skip = skip.checked_sub(chunk.original_bytes).ok_or_else(|| {
                    Error::corrupt("the chunk begins in one part of the tile and ends in another")
                        .with("chunk", index)
                })?;
                continue;
            }
            if rest.is_empty() {
                break;
            }
            let out = take_front(&mut rest, chunk.original_bytes, "chunks")?;
            self.decode_chunk(ChunkState::new(&chunk), out, scratch)
                .context("chunk", || index)?;
        }
        expect_complete(expected, rest.len())
    }

    /// Unfilters a tile of strings encoded with their offsets: `cells` cells of `bytes` bytes in total are expected.
    pub fn decode_strings(
        &self,
        filtered: &[u8],
        cells: usize,
        bytes: usize,
        scratch: &mut FilterScratch,
    ) -> Result<EncodedStrings> {
        let form = self
            .strings
            .ok_or_else(|| Error::internal("the offsets of these strings are in their own tile"))?;
        let chunks = TileChunks::new(filtered)?;
        let mut left = StringChunkSize { cells, bytes };
        let bounds = ChunkLimits::of_strings(form, left, &self.stages);
        let mut strings = EncodedStrings::with_room(cells)?;
        for (index, chunk) in chunks.enumerate() {
            let chunk = chunk?;
            if chunk.is_empty() {
                continue;
            }
            let original = chunk.original_bytes;
            let mut state = ChunkState::new(&chunk);
            self.undo_all(&mut state, &bounds, scratch)
                .and_then(|()| {
                    let mut metadata = state.metadata();
                    let input = state.data.bytes();
                    decode_chunk(
                        form,
                        &mut metadata,
                        input,
                        original,
                        &mut left,
                        &mut strings,
                    )
                })
                .context("chunk", || index)?;
            state.release(scratch);
        }
        // Nothing is stored for strings that are all empty.
        if left == (StringChunkSize { cells, bytes: 0 }) {
            return EncodedStrings::of_empty_cells(cells);
        }
        left.expect_none()?;
        Ok(strings)
    }

    /// Unfilters a tile of unknown size, at most `limit`: memory grows as bytes are decompressed.
    pub(super) fn decode_growing(
        &self,
        filtered: &[u8],
        limit: usize,
        scratch: &mut FilterScratch,
    ) -> Result<Vec<u8>> {
        let mut data = Vec::new();
        for (index, chunk) in TileChunks::new(filtered)?.enumerate() {
            let chunk = chunk?;
            if chunk.original_bytes > limit.saturating_sub(data.len()) {
                return Err(Error::corrupt(format!(
                    "the chunks hold more than the {limit} bytes of the tile"
                )));
            }
            if chunk.original_bytes == 0 {
                continue;
            }
            let mut state = ChunkState::new(&chunk);
            let bounds = ChunkLimits::of_unproven_chunk(chunk.original_bytes, &self.stages);
            self.undo_all(&mut state, &bounds, scratch)
                .and_then(|()| expect_size(chunk.original_bytes, state.data.bytes().len()))
                .context("chunk", || index)?;
            let bytes = state.data.bytes();
            data.try_reserve(bytes.len()).map_err(|e| {
                Error::out_of_memory(format!("the {limit} bytes of the tile were refused"))
                    .with_source(e)
            })?;
            data.extend_from_slice(bytes);
            state.release(scratch);
        }
        expect_complete(limit, limit.saturating_sub(data.len()))?;
        Ok(data)
    }

    fn undo_all(
        &self,
        state: &mut ChunkState<'_>,
        bounds: &ChunkLimits,
        scratch: &mut FilterScratch,
    ) -> Result<()> {
        scratch.reserve(bounds.working_bytes(0, false))?;
        let mut stages = self.stages.iter().enumerate().rev();
        stages.try_for_each(|(number, stage)| state.undo(stage, bounds.before(number), scratch))
    }

    fn decode_chunk(
        &self,
        mut state: ChunkState<'_>,
        out: &mut [u8],
        scratch: &mut FilterScratch,
    ) -> Result<()> {
        // Writers run filters on empty chunks whose output these filters cannot read back.
        if out.is_empty() {
            return Ok(());
        }
        let bounds = ChunkLimits::of_chunk(out.len(), &self.stages);
        let changes_data = |stage: &Stage| !matches!(stage, Stage::Checked(_));
        let last = self.stages.iter().position(changes_data);
        let (checks, stages) = self.stages.split_at(last.unwrap_or(self.stages.len()));
        if let Some((last, before)) = stages.split_first() {
            let first = checks.len();
            scratch.reserve(bounds.working_bytes(first, true))?;
            for (number, stage) in before.iter().enumerate().rev() {
                state.undo(stage, bounds.before(first + 1 + number), scratch)?;
            }
            state.undo_into(last, out, bounds.before(first), scratch)?;
        } else {
            expect_size(out.len(), state.data.bytes().len())?;
            out.copy_from_slice(state.data.bytes());
        }
        for stage in checks.iter().rev() {
            if let Stage::Checked(check) = stage {
                let mut metadata = state.metadata();
                check.verify(&mut metadata, out)?;
                state.taken += metadata.position();
            }
        }
        state.release(scratch);
        Ok(())
    }
}

/// The string encoding of a pipeline that begins with one.
fn leading_form(list: &FilterList) -> Option<StringForm> {
    match list.filters.first()? {
        Filter::Rle => Some(StringForm::Rle),
        Filter::Dictionary => Some(StringForm::Dictionary),
        _ => None,
    }
}

/// The string encoding of a pipeline, if the schema's version uses it.
pub(super) fn string_form(list: &FilterList, context: &TileContext) -> Option<StringForm> {
    let form = leading_form(list).filter(|_| context.var_data)?;
    let since = match (context.datatype, form) {
        (Datatype::StringAscii, StringForm::Rle) => ASCII_RLE_SINCE,
        (Datatype::StringAscii, StringForm::Dictionary) => ASCII_DICTIONARY_SINCE,
        (Datatype::StringUtf8, _) => UTF8_SINCE,
        _ => return None,
    };
    context.schema_version.since(since).then_some(form)
}

fn expect_size(expected: usize, found: usize) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "the chunk holds {found} bytes, its header says {expected}"
    )))
}

fn expect_complete(expected: usize, missing: usize) -> Result<()> {
    if missing == 0 {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "the chunks hold {} bytes where {expected} are expected",
        expected.saturating_sub(missing)
    )))
}
