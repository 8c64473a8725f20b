//! Filtering of tiles: the opposite of a [`Pipeline`](super::Pipeline).
//!
//! A tile is cut into chunks where libtiledb cuts it, and each chunk goes through the filters, first to last. On its way it
//! has data and metadata: a filter puts its own metadata before those of the filters so far, and a compressor takes all of
//! them in (specification: "Filter Pipeline", "Chunk").

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::buffer::{DecodeWork, FilteredChunk};
use super::encryption_key::EncryptionKey;
use super::pipeline::string_form;
use super::scratch::EncodeWorkspace;
use super::stage::{ChecksumStage, IMAGES_FIRST, Stage, TileContext, TransformStage};
use super::strings::{self, StringForm};
use super::word::{with_number, with_word};
use super::{
    aes_256_gcm, bit_width_reduction, bitshuffle, byteshuffle, compression, positive_delta, webp,
    xor,
};
use crate::error::{Error, Result, ResultExt};
use crate::format::datatype::Datatype;
use crate::format::encoder::Encoder;
use crate::format::filter_list::{Filter, FilterList, FilterSetting};

/// Chunks have about this size, whatever limit a pipeline states.
const CHUNK_BYTES: usize = 64 << 10;
/// The level that says: the compressor's own.
const OWN_LEVEL: i32 = -1;

/// A filter pipeline, compiled for writing one kind of tile.
pub struct TileEncoder {
    /// The stages in the order of writing.
    stages: Vec<EncodedStage>,
    /// The filter before all stages, if it encodes strings and offsets together.
    strings: Option<StringForm>,
    cell_bytes: usize,
    work: EncodeWorkspace,
}

/// A filter to apply.
#[derive(Debug)]
struct EncodedStage {
    stage: Stage,
    /// The level of a compressor, or the bytes of a window.
    setting: FilterSetting,
    /// Whether the numbers it sees are signed.
    signed: bool,
}

impl TileEncoder {
    /// Compiles `list` for data tiles that `context` describes.
    ///
    /// # Errors
    /// A filter cannot be written, or does not fit the type.
    pub fn new(list: &FilterList, context: &TileContext) -> Result<Self> {
        Self::with_key(list, context, None)
    }

    /// As [`Self::new`]; with a key, the filters are followed by encryption.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn with_key(
        list: &FilterList,
        context: &TileContext,
        key: Option<&Arc<EncryptionKey>>,
    ) -> Result<Self> {
        let strings = string_form(list, context);
        let mut datatype = context.datatype;
        let mut stages = Vec::new();
        for (filter, setting) in list.stages().skip(usize::from(strings.is_some())) {
            let stage = match (filter, stages.is_empty()) {
                (Filter::WebP(_), false) => Err(Error::unsupported(IMAGES_FIRST)),
                _ => EncodedStage::compile(filter, setting, &mut datatype, context),
            };
            stages.extend(stage.context("filter pipeline", || list.to_string())?);
        }
        if let Some(key) = key {
            stages.push(EncodedStage {
                stage: Stage::Encrypted(Arc::clone(key)),
                setting: FilterSetting::None,
                signed: false,
            });
        }
        Ok(Self {
            stages,
            strings,
            cell_bytes: context.cell_bytes,
            work: EncodeWorkspace::default(),
        })
    }

    /// Measures from now on what decoding will take.
    #[must_use]
    pub fn measuring(mut self) -> Self {
        self.work.work = Some(DecodeWork::default());
        self
    }

    /// What decoding will take of what was encoded, if that is measured.
    pub fn work(&self) -> DecodeWork {
        self.work.work.unwrap_or_default()
    }

    /// Swaps the memory it works with for that of another. What it has learnt of its tiles stays.
    pub fn swap_workspace(&mut self, other: &mut EncodeWorkspace) {
        self.work.swap(other);
    }

    /// Whether the data tile contains the offsets (strings under run-length or dictionary encoding).
    pub fn takes_offsets(&self) -> bool {
        self.strings.is_some()
    }

    /// Filters a tile of cells of one size.
    pub fn encode(&mut self, tile: &[u8]) -> Result<Vec<u8>> {
        let makes_images = |stage: &EncodedStage| stage.stage.makes_images();
        if self.stages.iter().any(makes_images) {
            // A tile is one image.
            return self.encode_chunks(tile, std::iter::once(tile.len()));
        }
        let cell = self.cell_bytes.max(1);
        let whole_cells = CHUNK_BYTES.min(tile.len()) / cell * cell;
        let chunk_bytes = whole_cells.max(cell);
        let ends = (1..=tile.len().div_ceil(chunk_bytes))
            .map(|chunk| chunk.saturating_mul(chunk_bytes).min(tile.len()));
        self.encode_chunks(tile, ends)
    }

    /// Filters a data tile of cells that start at `starts`, none of which is cut in two.
    pub fn encode_var(&mut self, tile: &[u8], starts: &[u64]) -> Result<Vec<u8>> {
        let ends = var_chunk_ends(tile.len(), starts, self.cell_bytes)?;
        self.encode_chunks(tile, ends.into_iter())
    }

    /// Filters a data tile of strings together with their offsets, of which nothing is stored elsewhere.
    pub fn encode_strings(&mut self, tile: &[u8], starts: &[u64]) -> Result<Vec<u8>> {
        let form = self
            .strings
            .ok_or_else(|| Error::internal("the offsets of these strings have their own tile"))?;
        // Texts of nothing are runs as others are: without them, libtiledb never ends reading.
        if starts.is_empty() {
            return Ok(without_chunks());
        }
        let cells = cell_ranges(tile.len(), starts)?;
        let strings = cells
            .iter()
            .map(|cell| tile.get(cell.clone()).unwrap_or_default());
        let (data, metadata) = strings::encode(form, strings, tile.len())?;
        let mut out = Encoder::new();
        out.u64(1);
        let chunk = FilteredChunk {
            metadata: vec![metadata],
            data: data.into(),
        };
        self.encode_chunk(tile.len(), chunk, &mut out)?;
        Ok(out.finish())
    }

    /// Filters the chunks that end at `ends`. Filters cannot read back what they would make of nothing, so a tile without
    /// bytes has no chunks, and an empty chunk is left out.
    fn encode_chunks(
        &mut self,
        tile: &[u8],
        ends: impl Iterator<Item = usize> + Clone,
    ) -> Result<Vec<u8>> {
        let mut start = 0;
        let chunks = ends
            .filter_map(|end| {
                let chunk = tile.get(start..end).filter(|chunk| !chunk.is_empty());
                start = end;
                chunk
            })
            .collect::<Vec<_>>();
        let mut out = Encoder::new();
        out.count_u64(chunks.len());
        let begun = out.size();
        for (i, chunk) in chunks.iter().enumerate() {
            let filtered = FilteredChunk {
                metadata: Vec::new(),
                data: Cow::Borrowed(chunk),
            };
            self.encode_chunk(chunk.len(), filtered, &mut out)?;
            if i == 0 {
                // The others take about as much, or a little more.
                let rest = (out.size() - begun).saturating_mul(chunks.len() - 1);
                out.reserve(rest.saturating_add(rest / 16));
            }
        }
        Ok(out.finish())
    }

    fn encode_chunk(
        &mut self,
        original_bytes: usize,
        mut chunk: FilteredChunk<'_>,
        out: &mut Encoder,
    ) -> Result<()> {
        for stage in &self.stages {
            chunk = stage.apply(chunk, &mut self.work)?;
        }
        let metadata = chunk.metadata.concat();
        out.count_u32(original_bytes, "original size of a chunk")?;
        out.count_u32(chunk.data.len(), "filtered size of a chunk")?;
        out.count_u32(metadata.len(), "metadata size of a chunk")?;
        out.bytes(&metadata);
        out.bytes(&chunk.data);
        self.work.give(chunk.data);
        Ok(())
    }
}

/// A tile without chunks: nothing is stored, or something else has stored it.
pub fn without_chunks() -> Vec<u8> {
    vec![0; size_of::<u64>()]
}

impl EncodedStage {
    fn compile(
        filter: &Filter,
        setting: &FilterSetting,
        datatype: &mut Datatype,
        context: &TileContext,
    ) -> Result<Option<Self>> {
        let is_written = match (filter, setting) {
            (Filter::WebP(format), FilterSetting::Image(image)) => {
                format.is_some() && image.lossless
            }
            (Filter::Bitsort | Filter::WebP(_) | Filter::Aes256Gcm, _) => false,
            _ => true,
        };
        if !is_written {
            let lossy = match filter {
                Filter::WebP(Some(format)) => format!(
                    ": its images are lossy, which are only read; lossless ones, of webp({}, lossless), are written",
                    format.name()
                ),
                _ => String::new(),
            };
            return Err(Error::unsupported(format!(
                "filter {filter} cannot be written by this release{lossy}"
            )));
        }
        let stage = Stage::compile(filter, datatype, context, None)?;
        // Delta and double delta read their input as the type that they put out.
        let signed = datatype.is_signed() || *datatype == Datatype::Char;
        Ok(stage.map(|stage| Self {
            stage,
            setting: setting.clone(),
            signed,
        }))
    }

    fn apply<'a>(
        &self,
        mut chunk: FilteredChunk<'a>,
        work: &mut EncodeWorkspace,
    ) -> Result<FilteredChunk<'a>> {
        let own = match &self.stage {
            Stage::Compressed(codec) => {
                let level = match self.setting {
                    FilterSetting::Level(level) => level,
                    _ => OWN_LEVEL,
                };
                let done = compression::encode(*codec, level, &chunk, self.signed, work);
                work.give(chunk.data);
                return done;
            }
            Stage::Transformed(transform) => {
                let mut data = work.take();
                let own = self.transform(*transform, &chunk.data, &mut data)?;
                work.give(std::mem::replace(&mut chunk.data, data.into()));
                own
            }
            Stage::Checked(ChecksumStage::Parts) => part_list(&[chunk.data.len()])?,
            Stage::Checked(ChecksumStage::Checksum(digest)) => {
                let own = digest.encode(&chunk.metadata, &chunk.data)?;
                chunk.metadata.clear();
                own
            }
            Stage::Encrypted(key) => return aes_256_gcm::encode(key, chunk),
            Stage::Sorted(_) => {
                return Err(Error::internal("this filter was refused before"));
            }
        };
        chunk.metadata.insert(0, own);
        Ok(chunk)
    }

    /// Applies a filter that rearranges the data, puts its output in the place of what `out` holds, and returns its metadata.
    fn transform(
        &self,
        transform: TransformStage,
        part: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Vec<u8>> {
        if !matches!(
            transform,
            TransformStage::ByteShuffle(_) | TransformStage::BitShuffle(_)
        ) {
            out.clear();
            out.reserve(part.len());
        }
        match transform {
            TransformStage::ByteShuffle(width) => byteshuffle::encode(width, part, out),
            TransformStage::BitShuffle(width) => {
                return part_list(&bitshuffle::encode(width, part, out));
            }
            TransformStage::Xor(width) => with_word!(width, encode_xor(part, out)),
            TransformStage::ScaleFloat(scale) => scale.encode(part, out)?,
            TransformStage::PositiveDelta(width) => {
                let window = self
                    .setting
                    .window_bytes(FilterSetting::POSITIVE_DELTA_WINDOW);
                let mut own = Encoder::new();
                let signed = self.signed;
                with_number!(
                    width,
                    signed,
                    positive_delta::encode(part, window, &mut own, out)
                )?;
                return Ok(own.finish());
            }
            TransformStage::BitWidthReduction { width, signed } => {
                let window = self.setting.window_bytes(FilterSetting::BIT_WIDTH_WINDOW);
                let mut own = Encoder::new();
                with_number!(
                    width,
                    signed,
                    bit_width_reduction::encode(part, window, &mut own, out)
                )?;
                return Ok(own.finish());
            }
            TransformStage::WebP(format) => match self.setting {
                FilterSetting::Image(image) => webp::encode(format, image, part, out)?,
                _ => return Err(Error::internal("this filter was refused before")),
            },
        }
        part_list(&[out.len()])
    }
}

/// The part list of [`super::parts`].
fn part_list(sizes: &[usize]) -> Result<Vec<u8>> {
    let mut own = Encoder::new();
    own.count_u32(sizes.len(), "number of parts")?;
    for size in sizes {
        own.count_u32(*size, "part size")?;
    }
    Ok(own.finish())
}

use xor::encode as encode_xor;

/// The bytes of each cell of a tile.
fn cell_ranges(tile_bytes: usize, starts: &[u64]) -> Result<Vec<Range<usize>>> {
    let mut cells = Vec::with_capacity(starts.len());
    let ends = starts.iter().skip(1).copied().chain([tile_bytes as u64]);
    for (start, end) in starts.iter().zip(ends) {
        let cell = usize::try_from(*start)?..usize::try_from(end)?;
        if cell.start > cell.end || cell.end > tile_bytes {
            return Err(Error::internal(format!(
                "a cell takes bytes {cell:?} of a tile of {tile_bytes}"
            )));
        }
        cells.push(cell);
    }
    Ok(cells)
}

/// Where libtiledb cuts a data tile of variable-sized cells: never within a cell, so chunks differ in size.
fn var_chunk_ends(tile_bytes: usize, starts: &[u64], value_bytes: usize) -> Result<Vec<usize>> {
    let value_bytes = value_bytes.max(1);
    let whole_values = CHUNK_BYTES.min(tile_bytes) / value_bytes * value_bytes;
    let chunk = whole_values.max(value_bytes);
    let (smallest, largest) = (chunk / 2, chunk + chunk / 2);
    let (mut ends, mut filled) = (Vec::new(), 0);
    for cell in cell_ranges(tile_bytes, starts)? {
        let with_cell = filled + cell.len();
        if with_cell <= chunk {
            filled = with_cell;
        } else if filled <= smallest || with_cell <= largest {
            ends.push(cell.end);
            filled = 0;
        } else {
            ends.push(cell.start);
            filled = cell.len();
            if filled > chunk {
                ends.push(cell.end);
                filled = 0;
            }
        }
    }
    ends.push(tile_bytes);
    Ok(ends)
}
