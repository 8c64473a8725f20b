//! The filter pipeline as stored in schemas and generic-tile headers (specification: "Filter Pipeline").
//!
//! `u32 max chunk size, u32 count`, then per filter `u8 type, u32 option bytes, options`. The compressor byte
//! inside compression options is a *different* enumeration (dictionary 7, delta 8) and wins over the type.

use std::fmt;

use super::cursor::Cursor;
use super::datatype::Datatype;
use super::version::FormatVersion;
use crate::error::Result;

/// One stage of a pipeline, with its options.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// Passes everything.
    None,
    /// zlib streams (RFC 1950).
    Gzip,
    /// Zstandard frames.
    Zstd,
    /// LZ4 raw blocks.
    Lz4,
    /// bzip2 streams.
    Bzip2,
    /// Run lengths; strings have a form of their own.
    Rle,
    /// A dictionary of strings.
    Dictionary,
    /// Differences, in the field's type or the one given.
    Delta(Option<Datatype>),
    /// Differences of differences, in the field's type or the one given.
    DoubleDelta(Option<Datatype>),
    /// Differences to the first value of a window of non-decreasing values.
    PositiveDelta,
    /// The fewest bytes per value of a window.
    BitWidthReduction,
    /// Bits transposed.
    BitShuffle,
    /// Bytes transposed.
    ByteShuffle,
    /// Each value XOR the one before.
    Xor,
    /// Floats as scaled integers of `byte_width` bytes: `value = scale * integer + offset`.
    ScaleFloat {
        /// Multiplier.
        scale: f64,
        /// Added after scaling.
        offset: f64,
        /// Bytes of the stored integer: 1, 2, 4 or 8.
        byte_width: u64,
    },
    /// MD5 digests.
    Md5,
    /// SHA-256 digests.
    Sha256,
    /// AES-256-GCM (only in generic-tile headers; appended at run time for encrypted arrays).
    Aes256Gcm,
    /// A WebP image per tile, of pixels in this form, if it is a known one.
    WebP(Option<PixelFormat>),
    /// Cells sorted by the bits of an attribute, coordinates moved along; of one release alone, and since withdrawn.
    Bitsort,
    /// A filter or compressor that this release does not know, by its code.
    Unknown(u8),
}

/// The bytes of a pixel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PixelFormat {
    /// Red, green, blue.
    Rgb,
    /// Blue, green, red.
    Bgr,
    /// Red, green, blue, opacity.
    Rgba,
    /// Blue, green, red, opacity.
    Bgra,
}

impl Filter {
    /// The name used in options and messages, as `bit_width_reduction`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
            Self::Bzip2 => "bzip2",
            Self::Rle => "rle",
            Self::Dictionary => "dictionary",
            Self::Delta(_) => "delta",
            Self::DoubleDelta(_) => "double_delta",
            Self::PositiveDelta => "positive_delta",
            Self::BitWidthReduction => "bit_width_reduction",
            Self::BitShuffle => "bitshuffle",
            Self::ByteShuffle => "byteshuffle",
            Self::Xor => "xor",
            Self::ScaleFloat { .. } => "float_scale",
            Self::Md5 => "checksum_md5",
            Self::Sha256 => "checksum_sha256",
            Self::Aes256Gcm => "aes_256_gcm",
            Self::WebP(_) => "webp",
            Self::Bitsort => "bitsort",
            Self::Unknown(_) => "unknown",
        }
    }

    /// Reads a stage and what its writer was told.
    fn decode(cursor: &mut Cursor<'_>, version: FormatVersion) -> Result<(Self, Setting)> {
        let code = cursor.u8("filter type")?;
        let option_bytes = cursor.u32("filter option bytes")?;
        let stored = cursor.bytes_u64(u64::from(option_bytes), "filter options")?;
        let mut options = Cursor::new(stored, "filter options");
        let mut setting = Setting::None;
        let filter = match code {
            0 => Self::None,
            1..=6 | 14 | 19 => {
                let (filter, level) = Self::decode_compressor(&mut options, version)?;
                setting = Setting::Level(level);
                filter
            }
            7 => {
                setting = Setting::window(&mut options);
                Self::BitWidthReduction
            }
            8 => Self::BitShuffle,
            9 => Self::ByteShuffle,
            10 => {
                setting = Setting::window(&mut options);
                Self::PositiveDelta
            }
            11 => Self::Aes256Gcm,
            12 => Self::Md5,
            13 => Self::Sha256,
            15 => Self::ScaleFloat {
                scale: options.f64("scale")?,
                offset: options.f64("offset")?,
                byte_width: options.u64("byte width")?,
            },
            16 => Self::Xor,
            17 => Self::Bitsort,
            18 => Self::WebP(pixel_format(&mut options)?),
            // What stands behind is readable all the same: columns that do not use the filter are.
            other => Self::Unknown(other),
        };
        if matches!(filter, Self::WebP(_) | Self::Unknown(_)) {
            let options = stored.to_vec();
            setting = Setting::Stored { code, options };
        }
        Ok((filter, setting))
    }

    fn decode_compressor(options: &mut Cursor<'_>, version: FormatVersion) -> Result<(Self, i32)> {
        let compressor = options.u8("compressor")?;
        let level = options.i32("compression level")?;
        let filter = match compressor {
            0 => Self::None,
            1 => Self::Gzip,
            2 => Self::Zstd,
            3 => Self::Lz4,
            4 => Self::Rle,
            5 => Self::Bzip2,
            6 => Self::DoubleDelta(reinterpret(options, version.since(20))?),
            7 => Self::Dictionary,
            8 => Self::Delta(reinterpret(options, version.since(19))?),
            other => Self::Unknown(other),
        };
        Ok((filter, level))
    }

    /// Writes the stage as creation options spell it: `zstd(5)`, or the bare name where the writer's default is meant.
    fn write(&self, setting: &Setting, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        match (self, setting) {
            (Self::Gzip | Self::Zstd | Self::Bzip2, Setting::Level(level))
                if *level != DEFAULT_LEVEL =>
            {
                write!(f, "({level})")
            }
            (Self::BitWidthReduction, Setting::Window(bytes)) if *bytes != BIT_WIDTH_WINDOW => {
                write!(f, "({bytes})")
            }
            (Self::PositiveDelta, Setting::Window(bytes)) if *bytes != POSITIVE_DELTA_WINDOW => {
                write!(f, "({bytes})")
            }
            (Self::Delta(Some(datatype)) | Self::DoubleDelta(Some(datatype)), _) => {
                write!(f, "({datatype})")
            }
            (
                Self::ScaleFloat {
                    scale,
                    offset,
                    byte_width,
                },
                _,
            ) => write!(f, "({scale:?}, {offset:?}, {byte_width})"),
            _ => Ok(()),
        }
    }
}

/// The level that says: the compressor's own default.
const DEFAULT_LEVEL: i32 = -1;
/// Window bytes of bit-width reduction unless the writer was told otherwise.
const BIT_WIDTH_WINDOW: u32 = 256;
/// Window bytes of positive delta unless the writer was told otherwise.
const POSITIVE_DELTA_WINDOW: u32 = 1024;

/// The options of a stage that only its writer needs. Stage and setting together hold everything that is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Setting {
    /// Nothing.
    #[default]
    None,
    /// The level of a compressor.
    Level(i32),
    /// The bytes of a window.
    Window(u32),
    /// The stage as it is stored, where this release does not know all that its options say.
    Stored {
        /// The type of the filter; that of a compressor may differ from it.
        code: u8,
        /// The bytes of its options.
        options: Vec<u8>,
    },
}

impl Setting {
    /// A window that is not there is no obstacle: the tiles say their own.
    fn window(options: &mut Cursor<'_>) -> Self {
        options.u32("window").map_or(Self::None, Self::Window)
    }
}

/// Behind the quality; whether it was lossless, and the tile's extents, the image itself tells.
fn pixel_format(options: &mut Cursor<'_>) -> Result<Option<PixelFormat>> {
    let _quality = options.f32("quality")?;
    Ok(match options.u8("pixel format")? {
        1 => Some(PixelFormat::Rgb),
        2 => Some(PixelFormat::Bgr),
        3 => Some(PixelFormat::Rgba),
        4 => Some(PixelFormat::Bgra),
        _ => None,
    })
}

/// The type the input is read as; `ANY` (17) says: the field's own.
fn reinterpret(options: &mut Cursor<'_>, present: bool) -> Result<Option<Datatype>> {
    if !present {
        return Ok(None);
    }
    let datatype = Datatype::from_code(options.u8("reinterpret datatype")?)?;
    Ok((datatype != Datatype::Any).then_some(datatype))
}

/// The filters a tile went through when it was written, first to last.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FilterList {
    /// The writer's limit for chunks; readers take the chunks they find.
    pub max_chunk_bytes: u32,
    /// The stages in the order of writing.
    pub filters: Vec<Filter>,
    /// What the writer of each stage was told.
    pub settings: Vec<Setting>,
}

impl FilterList {
    /// Reads a pipeline; `version` is that of the schema or generic-tile header around it.
    pub fn decode(cursor: &mut Cursor<'_>, version: FormatVersion) -> Result<Self> {
        let max_chunk_bytes = cursor.u32("max chunk size")?;
        let count = cursor.count_u32(5, "number of filters")?;
        let stages = (0..count)
            .map(|_| Filter::decode(cursor, version))
            .collect::<Result<Vec<_>>>()?;
        let (filters, settings) = stages.into_iter().unzip();
        Ok(Self {
            max_chunk_bytes,
            filters,
            settings,
        })
    }

    /// No filters at all (an explicit `none` counts as a filter).
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// Whether `wanted` is one of the stages.
    pub fn contains(&self, wanted: impl Fn(&Filter) -> bool) -> bool {
        self.filters.iter().any(wanted)
    }

    /// Whether what is read need not be what was written.
    pub fn is_lossy(&self) -> bool {
        self.contains(|f| matches!(f, Filter::ScaleFloat { .. } | Filter::WebP(_)))
    }
}

impl fmt::Display for FilterList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, filter) in self.filters.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            filter.write(self.settings.get(i).unwrap_or(&Setting::None), f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(code) => write!(f, "unknown ({code})"),
            _ => f.write_str(self.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_coords_pipeline_is_zstd() {
        let bytes = [
            0x00, 0x00, 0x01, 0x00, 1, 0, 0, 0, 2, 5, 0, 0, 0, 2, 0xff, 0xff, 0xff, 0xff,
        ];
        let mut cursor = Cursor::new(&bytes, "pipeline");
        let list = FilterList::decode(&mut cursor, FormatVersion::known(22)).unwrap();
        assert_eq!(list.max_chunk_bytes, 65536);
        assert_eq!(list.filters, [Filter::Zstd]);
        assert_eq!(cursor.remaining(), 0);
    }

    fn decode(bytes: &[u8]) -> Result<FilterList> {
        FilterList::decode(&mut Cursor::new(bytes, "p"), FormatVersion::known(22))
    }

    #[test]
    fn stages_are_shown_as_creation_options_spell_them() {
        let stage = |code: u8, options: &[u8]| {
            let mut bytes = vec![code];
            bytes.extend((options.len() as u32).to_le_bytes());
            bytes.extend(options);
            bytes
        };
        let mut floats = 0.5_f64.to_le_bytes().to_vec();
        floats.extend(1.0_f64.to_le_bytes());
        floats.extend(2_u64.to_le_bytes());
        let stages = [
            stage(15, &floats),
            stage(19, &[8, 0xff, 0xff, 0xff, 0xff, 0]),
            stage(6, &[6, 0xff, 0xff, 0xff, 0xff, 17]),
            stage(7, &256_u32.to_le_bytes()),
            stage(10, &64_u32.to_le_bytes()),
            stage(9, &[]),
            stage(2, &[2, 5, 0, 0, 0]),
            stage(1, &[1, 0xff, 0xff, 0xff, 0xff]),
            stage(3, &[3, 5, 0, 0, 0]),
        ];
        let mut bytes = vec![0, 0, 1, 0];
        bytes.extend((stages.len() as u32).to_le_bytes());
        bytes.extend(stages.concat());
        let list =
            FilterList::decode(&mut Cursor::new(&bytes, "p"), FormatVersion::known(22)).unwrap();
        assert_eq!(
            list.to_string(),
            "float_scale(0.5, 1.0, 2), delta(INT32), double_delta, bit_width_reduction, positive_delta(64), \
             byteshuffle, zstd(5), gzip, lz4"
        );
    }

    #[test]
    fn filters_nobody_knows_are_kept_by_their_code() {
        // Bitsort, type 42 with two bytes of options, gzip's type with compressor 99, and one that is known.
        let bytes = [
            &[0, 0, 1, 0, 4, 0, 0, 0][..],
            &[17, 0, 0, 0, 0],
            &[42, 2, 0, 0, 0, 7, 7],
            &[1, 5, 0, 0, 0, 99, 0, 0, 0, 0],
            &[9, 0, 0, 0, 0],
        ]
        .concat();
        let list = decode(&bytes).unwrap();
        assert_eq!(
            list.filters,
            [
                Filter::Bitsort,
                Filter::Unknown(42),
                Filter::Unknown(99),
                Filter::ByteShuffle
            ]
        );
        assert_eq!(
            list.to_string(),
            "bitsort, unknown (42), unknown (99), byteshuffle"
        );
        let stored = |code, options: &[u8]| Setting::Stored {
            code,
            options: options.to_vec(),
        };
        let gzip = stored(1, &[99, 0, 0, 0, 0]);
        let settings = [Setting::None, stored(42, &[7, 7]), gzip, Setting::None];
        assert_eq!(list.settings, settings);
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_err());
        }
    }

    #[test]
    fn webp_says_how_its_pixels_are_stored() {
        // As libtiledb 2.30 writes it: quality 80, BGRA, lossless, extents 4 and 24.
        let filter = |format: u8| {
            [
                &[0, 0, 1, 0, 1, 0, 0, 0, 18, 10, 0, 0, 0][..],
                &80_f32.to_le_bytes(),
                &[format, 1, 4, 0, 24, 0],
            ]
            .concat()
        };
        let list = decode(&filter(4)).unwrap();
        assert_eq!(list.filters, [Filter::WebP(Some(PixelFormat::Bgra))]);
        let options = filter(4).split_off(13);
        assert_eq!(list.settings, [Setting::Stored { code: 18, options }]);
        for unknown in [0, 5, 255] {
            let list = decode(&filter(unknown)).unwrap();
            assert_eq!(list.filters, [Filter::WebP(None)]);
        }
    }
}
