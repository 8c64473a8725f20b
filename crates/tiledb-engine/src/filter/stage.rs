//! One compiled filter of a pipeline, for a given kind of tile, datatypes and versions.
//!
//! A filter works on the output datatype of the filter before it (in the order of writing): delta and double delta may
//! reinterpret their input, float scaling and XOR output integers, all others keep the type. Filters that did nothing
//! when the tile was written left no metadata and are not stages.

use std::sync::Arc;

use super::checksum::Digest;
use super::compression::Codec;
use super::encryption_key::EncryptionKey;
use super::float_scale::ScaleParameters;
use super::word::{WordWidth, with_number, with_word};
use super::{bit_width_reduction, bitshuffle, byteshuffle, positive_delta, webp, xor};
use crate::error::{Error, Result};
use crate::format::cursor::Cursor;
use crate::format::datatype::Datatype;
use crate::format::filter_list::{Filter, PixelFormat};
use crate::format::version::FormatVersion;

/// Since this fragment version, positive delta and bit-width reduction are applied to dates and times.
const DATES_ARE_REDUCED_SINCE: u32 = 20;

/// The message for encrypted data without a key.
pub(super) const NO_KEY: &str = "the array is encrypted (AES-256-GCM) and no key was given: set the option \
     tiledb.encryption_key_file, tiledb.encryption_key_env or tiledb.encryption_key, or the environment variable \
     TILEDB_ENCRYPTION_KEY";

/// The message for images that are made of anything but cells.
pub(super) const IMAGES_FIRST: &str =
    "filter webp behind another filter: it takes the cells of a tile, as the first filter";

/// A filter to reverse.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Stage {
    /// Replaces data and metadata.
    Compressed(Codec),
    /// Replaces data and metadata.
    Encrypted(Arc<EncryptionKey>),
    /// Replaces the data and takes its own metadata off the front.
    Transformed(TransformStage),
    /// Restores the given order of the data, and takes its own metadata off the front.
    Sorted(WordWidth),
    /// Keeps the data, and takes its own metadata off the front.
    Checked(ChecksumStage),
}

/// A filter that rearranges the data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum TransformStage {
    ByteShuffle(WordWidth),
    BitShuffle(WordWidth),
    Xor(WordWidth),
    PositiveDelta(WordWidth),
    BitWidthReduction { width: WordWidth, signed: bool },
    ScaleFloat(ScaleParameters),
    WebP(PixelFormat),
}

/// A filter that keeps the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChecksumStage {
    Checksum(Digest),
    /// A byte shuffle of one-byte elements.
    Parts,
}

impl Stage {
    /// Compiles `filter` for input of type `datatype`; `None` if it does nothing. `datatype` is set to the output type.
    pub(super) fn compile(
        filter: &Filter,
        datatype: &mut Datatype,
        context: &TileContext,
        key: Option<&Arc<EncryptionKey>>,
    ) -> Result<Option<Self>> {
        let transform = |transform| Ok(Some(Self::Transformed(transform)));
        let width = WordWidth::from_bytes(datatype.size())?;
        let codec = match *filter {
            Filter::None => return Ok(None),
            Filter::Gzip => Codec::Gzip,
            Filter::Zstd => Codec::Zstd,
            Filter::Lz4 => Codec::Lz4,
            Filter::Bzip2 => Codec::Bzip2,
            Filter::Rle => Codec::Rle {
                cell_bytes: context.cell_bytes,
            },
            Filter::Delta(reinterpret) => {
                *datatype = reinterpret.unwrap_or(*datatype);
                Codec::Delta(delta_width(*datatype, filter)?)
            }
            Filter::DoubleDelta(reinterpret) => {
                *datatype = reinterpret.unwrap_or(*datatype);
                Codec::DoubleDelta(delta_width(*datatype, filter)?)
            }
            Filter::ByteShuffle if width == WordWidth::One => {
                return Ok(Some(Self::Checked(ChecksumStage::Parts)));
            }
            Filter::ByteShuffle => return transform(TransformStage::ByteShuffle(width)),
            Filter::BitShuffle => return transform(TransformStage::BitShuffle(width)),
            Filter::Xor => {
                *datatype = signed_integer(width);
                return transform(TransformStage::Xor(width));
            }
            Filter::PositiveDelta => {
                return Ok(takes_differences(*datatype, context)
                    .then_some(Self::Transformed(TransformStage::PositiveDelta(width))));
            }
            Filter::BitWidthReduction => {
                let signed = datatype.is_signed();
                let reduced = width != WordWidth::One && takes_differences(*datatype, context);
                return Ok(reduced.then_some(Self::Transformed(
                    TransformStage::BitWidthReduction { width, signed },
                )));
            }
            Filter::ScaleFloat {
                scale,
                offset,
                byte_width,
            } => {
                let scale = compile_scale(scale, offset, byte_width, width)?;
                *datatype = signed_integer(scale.integer);
                return transform(TransformStage::ScaleFloat(scale));
            }
            Filter::Md5 => return Ok(Some(Self::Checked(ChecksumStage::Checksum(Digest::Md5)))),
            Filter::Sha256 => {
                return Ok(Some(Self::Checked(ChecksumStage::Checksum(Digest::Sha256))));
            }
            Filter::Dictionary => {
                return Err(Error::unsupported(format!(
                    "filter dictionary on {datatype} or behind another filter: it encodes variable-length strings, as the first filter"
                )));
            }
            Filter::Aes256Gcm => {
                *datatype = Datatype::Blob;
                let key = key.ok_or_else(|| Error::encryption(NO_KEY))?;
                return Ok(Some(Self::Encrypted(Arc::clone(key))));
            }
            Filter::Bitsort => return Ok(Some(Self::Sorted(width))),
            // Its output is BLOB, which the filters behind it take as they take UINT8.
            Filter::WebP(Some(format)) => return transform(TransformStage::WebP(format)),
            Filter::WebP(None) | Filter::Unknown(_) => {
                return Err(Error::unsupported(format!(
                    "filter {filter} cannot be read by this release"
                )));
            }
        };
        Ok(Some(Self::Compressed(codec)))
    }
}

impl Stage {
    /// Whether it makes an image of a whole tile.
    pub(super) fn makes_images(&self) -> bool {
        matches!(self, Self::Transformed(TransformStage::WebP(_)))
    }
}

/// The word size of the delta filters; strings are processed as bytes, whatever their characters' width.
fn delta_width(datatype: Datatype, filter: &Filter) -> Result<WordWidth> {
    if datatype.is_float() {
        return Err(Error::unsupported(format!(
            "filter {} on {datatype}: it takes integers, or floats reinterpreted as integers",
            filter.name()
        )));
    }
    if datatype.is_string() {
        return Ok(WordWidth::One);
    }
    WordWidth::from_bytes(datatype.size())
}

/// Whether positive delta and bit-width reduction apply to this type.
fn takes_differences(datatype: Datatype, context: &TileContext) -> bool {
    if datatype.is_datetime() || datatype.is_time() {
        return context.fragment_version.since(DATES_ARE_REDUCED_SINCE);
    }
    datatype.is_integer()
        || matches!(
            datatype,
            Datatype::Blob | Datatype::Bool | Datatype::GeomWkb | Datatype::GeomWkt
        )
}

fn compile_scale(
    scale: f64,
    offset: f64,
    byte_width: u64,
    float: WordWidth,
) -> Result<ScaleParameters> {
    let double = match float {
        WordWidth::Four => false,
        WordWidth::Eight => true,
        other => {
            return Err(Error::unsupported(format!(
                "filter float_scale on elements of {} bytes, expected 4 or 8",
                other.bytes()
            )));
        }
    };
    let integer = WordWidth::from_bytes(usize::try_from(byte_width)?)
        .map_err(|e| e.with("filter", "float_scale"))?;
    Ok(ScaleParameters {
        scale,
        offset,
        integer,
        double,
    })
}

fn signed_integer(width: WordWidth) -> Datatype {
    match width {
        WordWidth::One => Datatype::Int8,
        WordWidth::Two => Datatype::Int16,
        WordWidth::Four => Datatype::Int32,
        WordWidth::Eight => Datatype::Int64,
    }
}

impl TransformStage {
    /// Size of the output for `input`; for images only the decoder knows it.
    pub(super) fn output_bytes(&self, metadata: &Cursor<'_>, input: &[u8]) -> Result<usize> {
        match self {
            Self::BitWidthReduction { .. } => bit_width_reduction::original_bytes(metadata, input),
            Self::ScaleFloat(scale) => scale.output_bytes(input.len()),
            // The claimed size of an image is unbounded: it can only be compared with the tile's own size.
            Self::WebP(_) => Err(Error::unsupported(IMAGES_FIRST)),
            _ => Ok(input.len()),
        }
    }

    /// Decodes into exactly `out`.
    pub(super) fn decode_into(
        &self,
        metadata: &mut Cursor<'_>,
        input: &[u8],
        out: &mut [u8],
    ) -> Result<()> {
        if let Self::WebP(format) = *self {
            return webp::decode_into(format, metadata, input, out);
        }
        let output_bytes = self.output_bytes(metadata, input)?;
        if output_bytes != out.len() {
            return Err(Error::corrupt(format!(
                "{output_bytes} bytes come out of a filter where {} are expected",
                out.len()
            )));
        }
        match *self {
            Self::ByteShuffle(width) => byteshuffle::decode_into(width, metadata, input, out),
            Self::BitShuffle(width) => bitshuffle::decode_into(width, metadata, input, out),
            Self::Xor(width) => with_word!(width, unxor(metadata, input, out)),
            Self::PositiveDelta(width) => with_word!(width, undelta(metadata, input, out)),
            Self::BitWidthReduction { width, signed } => {
                with_number!(
                    width,
                    signed,
                    bit_width_reduction::decode_into(metadata, input, out)
                )
            }
            Self::ScaleFloat(scale) => scale.decode_into(metadata, input, out),
            Self::WebP(_) => Err(Error::internal("an image isn't an array of words")),
        }
    }
}

use positive_delta::decode_into as undelta;
use xor::decode_into as unxor;

impl ChecksumStage {
    /// Verifies `data` and takes the filter's metadata.
    pub(super) fn verify(self, metadata: &mut Cursor<'_>, data: &[u8]) -> Result<()> {
        match self {
            Self::Checksum(digest) => digest.verify(metadata, data),
            Self::Parts => byteshuffle::check(metadata, data),
        }
    }
}

/// The properties of tiles that a pipeline depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileContext {
    /// The field's type; `UINT64` for offsets, `UINT8` for validity.
    pub datatype: Datatype,
    /// Size of a cell for run-length encoding: values per cell times the type's size; for variable-sized data the
    /// type's size; 8 for offsets; 1 for validity.
    pub cell_bytes: usize,
    /// The version of the array schema the fragment was written with.
    pub schema_version: FormatVersion,
    /// The version of the fragment.
    pub fragment_version: FormatVersion,
    /// Whether this is the data tile of a variable-sized field.
    pub var_data: bool,
}
