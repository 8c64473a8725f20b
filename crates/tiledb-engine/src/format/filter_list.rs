//! The filter pipeline as stored in schemas and generic-tile headers (specification: "Filter Pipeline").
//!
//! `u32 max chunk size, u32 count`, then per filter `u8 type, u32 option bytes, options`. The compressor byte
//! inside compression options is a *different* enumeration (dictionary 7, delta 8) and wins over the type.

mod parse;
mod stage;

use std::fmt;

pub use parse::MAX_CHUNK_BYTES;
pub use stage::{ImageSetting, PixelFormat};

use super::cursor::Cursor;
use super::datatype::Datatype;
use super::encoder::Encoder;
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

    /// Writes the stage as creation options spell it: `zstd(5)`, or the bare name where the writer's default is meant.
    fn write(&self, setting: &FilterSetting, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        match (self, setting) {
            (Self::Delta(datatype) | Self::DoubleDelta(datatype), _) => {
                let level = match setting {
                    FilterSetting::Level(level) if *level != DEFAULT_LEVEL => {
                        Some(level.to_string())
                    }
                    _ => None,
                };
                let datatype = datatype.map(|datatype| datatype.to_string());
                let arguments: Vec<_> = datatype.into_iter().chain(level).collect();
                match arguments.is_empty() {
                    true => Ok(()),
                    false => write!(f, "({})", arguments.join(", ")),
                }
            }
            // Some compressors have no use for a level, and yet it is stored.
            (_, FilterSetting::Level(level)) if *level != DEFAULT_LEVEL => write!(f, "({level})"),
            (Self::BitWidthReduction, FilterSetting::Window(bytes))
                if *bytes != FilterSetting::BIT_WIDTH_WINDOW =>
            {
                write!(f, "({bytes})")
            }
            (Self::PositiveDelta, FilterSetting::Window(bytes))
                if *bytes != FilterSetting::POSITIVE_DELTA_WINDOW =>
            {
                write!(f, "({bytes})")
            }
            (
                Self::ScaleFloat {
                    scale,
                    offset,
                    byte_width,
                },
                _,
            ) => write!(f, "({scale:?}, {offset:?}, {byte_width})"),
            (Self::WebP(Some(format)), FilterSetting::Image(image)) => image.write(*format, f),
            _ => Ok(()),
        }
    }
}

/// The level that says: the compressor's own default.
const DEFAULT_LEVEL: i32 = -1;
/// The options of a stage that only its writer needs. Stage and setting together hold everything that is stored.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum FilterSetting {
    /// Nothing.
    #[default]
    None,
    /// The level of a compressor.
    Level(i32),
    /// The bytes of a window.
    Window(u32),
    /// The quality and the size of images.
    Image(ImageSetting),
    /// The stage as it is stored, where this release does not know all that its options say.
    Stored {
        /// The type of the filter; that of a compressor may differ from it.
        code: u8,
        /// The bytes of its options.
        options: Vec<u8>,
    },
}

/// No pipeline needs more filters. Each of them costs time and memory for every chunk.
pub const MOST_FILTERS: usize = 32;

/// The filters a tile went through when it was written, first to last.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FilterList {
    /// The writer's limit for chunks; readers take the chunks they find.
    pub max_chunk_bytes: u32,
    /// The stages in the order of writing.
    pub filters: Vec<Filter>,
    /// The writer's settings of each stage.
    pub settings: Vec<FilterSetting>,
}

impl FilterList {
    /// Reads a pipeline; `version` is that of the schema or generic-tile header around it.
    pub fn decode(cursor: &mut Cursor<'_>, version: FormatVersion) -> Result<Self> {
        let max_chunk_bytes = cursor.u32("max chunk size")?;
        let count = cursor.count_u32(5, "number of filters")?;
        if count > MOST_FILTERS {
            let expected = format!("{MOST_FILTERS} at most");
            return Err(cursor.invalid("number of filters", count, &expected));
        }
        let stages = (0..count).map(|_| Filter::decode(cursor, version));
        let (filters, settings) = stages.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        Ok(Self {
            max_chunk_bytes,
            filters,
            settings,
        })
    }

    /// Writes the pipeline, in the version [`FormatVersion::WRITTEN`].
    ///
    /// # Errors
    /// There are too many filters to count.
    pub fn encode(&self, to: &mut Encoder) -> Result<()> {
        to.u32(self.max_chunk_bytes);
        to.count_u32(self.filters.len(), "number of filters")?;
        for (filter, setting) in self.stages() {
            let (code, options) = filter.stored(setting, FormatVersion::WRITTEN);
            to.u8(code);
            to.bytes_u32(&options, "filter option bytes")?;
        }
        Ok(())
    }

    /// No filters at all (an explicit `none` counts as a filter).
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// Whether `wanted` is one of the stages.
    pub fn contains(&self, wanted: impl Fn(&Filter) -> bool) -> bool {
        self.filters.iter().any(wanted)
    }

    /// The filters, each with its writer's settings.
    pub fn stages(&self) -> impl Iterator<Item = (&Filter, &FilterSetting)> {
        let rest = std::iter::repeat(&FilterSetting::None);
        let settings = self.settings.iter().chain(rest);
        self.filters.iter().zip(settings)
    }

    /// Whether the filters may change values. Even in lossless images, libtiledb changes the colours of invisible pixels.
    pub fn is_lossy(&self) -> bool {
        self.stages().any(|(filter, setting)| match filter {
            Filter::ScaleFloat { .. } => true,
            Filter::WebP(Some(PixelFormat::Rgb | PixelFormat::Bgr)) => {
                !matches!(setting, FilterSetting::Image(image) if image.lossless)
            }
            Filter::WebP(_) => true,
            _ => false,
        })
    }

    /// Returns these filters for tiles whose images have `size`: lines, and bytes of a line.
    #[must_use]
    pub fn for_images_of(mut self, size: Option<(u16, u16)>) -> Self {
        for setting in &mut self.settings {
            if let (FilterSetting::Image(image), Some(size)) = (setting, size) {
                (image.lines, image.line_bytes) = size;
            }
        }
        self
    }
}

impl fmt::Display for FilterList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, filter) in self.filters.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            filter.write(self.settings.get(i).unwrap_or(&FilterSetting::None), f)?;
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

    fn encode(list: &FilterList) -> Vec<u8> {
        let mut encoder = Encoder::new();
        list.encode(&mut encoder).unwrap();
        encoder.finish()
    }

    #[test]
    fn options_that_are_stored_in_an_unusual_way_are_kept() {
        // Byteshuffle with an option, bit width reduction without its window, the type of zstd with the compressor of
        // gzip, float scaling.
        let bytes = [
            &[0, 0, 1, 0, 4, 0, 0, 0][..],
            &[9, 1, 0, 0, 0, 5],
            &[7, 0, 0, 0, 0],
            &[2, 5, 0, 0, 0, 1, 3, 0, 0, 0],
            &[15, 24, 0, 0, 0],
            &[0; 24],
        ]
        .concat();
        let list = decode(&bytes).unwrap();
        assert_eq!(list.filters[2], Filter::Gzip);
        assert_eq!(encode(&list), bytes);
    }

    #[test]
    fn a_pipeline_of_an_older_version_is_written_in_today_s() {
        // Double delta and delta do not say yet what type their input is read as.
        let bytes = [
            &[0, 0, 1, 0, 2, 0, 0, 0][..],
            &[6, 5, 0, 0, 0, 6, 1, 0, 0, 0],
            &[19, 5, 0, 0, 0, 8, 1, 0, 0, 0],
        ]
        .concat();
        let read = |bytes: &[u8], version| {
            FilterList::decode(&mut Cursor::new(bytes, "p"), FormatVersion::known(version))
        };
        let old = read(&bytes, 18).unwrap();
        assert_eq!(
            old.settings,
            [FilterSetting::Level(1), FilterSetting::Level(1)]
        );
        let new = encode(&old);
        assert_eq!(new.len(), bytes.len() + 2);
        assert_eq!(read(&new, 22).unwrap(), old);
    }

    /// Found by fuzzing: bytes that an old version ignores became a type, and a stage became too short to be read.
    #[test]
    fn what_an_older_version_ignores_means_nothing_in_today_s() {
        for stage in [
            &[6, 6, 0, 0, 0, 6, 1, 0, 0, 0, 8][..],
            &[19, 7, 0, 0, 0, 8, 1, 0, 0, 0, 8, 8],
            &[2, 5, 0, 0, 0, 6, 1, 0, 0, 0],
            &[2, 6, 0, 0, 0, 8, 1, 0, 0, 0, 8],
        ] {
            let bytes = [&[0, 0, 1, 0, 1, 0, 0, 0], stage].concat();
            let version = FormatVersion::known(18);
            let old = FilterList::decode(&mut Cursor::new(&bytes, "p"), version).unwrap();
            assert!(matches!(
                old.filters[..],
                [Filter::DoubleDelta(None) | Filter::Delta(None)]
            ));
            assert_eq!(decode(&encode(&old)).unwrap(), old, "{stage:?}");
        }
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
        assert_eq!(encode(&list), bytes);
        assert_eq!(
            list.to_string(),
            "float_scale(0.5, 1.0, 2), delta(INT32), double_delta, bit_width_reduction, positive_delta(64), \
             byteshuffle, zstd(5), gzip, lz4(5)"
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
        let stored = |code, options: &[u8]| FilterSetting::Stored {
            code,
            options: options.to_vec(),
        };
        let gzip = stored(1, &[99, 0, 0, 0, 0]);
        let settings = [
            FilterSetting::None,
            stored(42, &[7, 7]),
            gzip,
            FilterSetting::None,
        ];
        assert_eq!(list.settings, settings);
        assert_eq!(encode(&list), bytes);
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_err());
        }
    }

    #[test]
    fn webp_says_how_its_pixels_are_stored() {
        // As libtiledb 2.30 writes it: quality 80, BGRA, lossless, extents 4 and 24.
        let filter = |format: u8| {
            [
                &[0, 0, 1, 0, 1, 0, 0, 0, 18, 12, 0, 0, 0][..],
                &80_f32.to_le_bytes(),
                &[format, 1, 4, 0, 24, 0, 0, 0],
            ]
            .concat()
        };
        let list = decode(&filter(4)).unwrap();
        assert_eq!(list.filters, [Filter::WebP(Some(PixelFormat::Bgra))]);
        let image = ImageSetting {
            quality: 80.0,
            lossless: true,
            lines: 4,
            line_bytes: 24,
        };
        assert_eq!(list.settings, [FilterSetting::Image(image)]);
        assert_eq!(list.to_string(), "webp(bgra, lossless, quality 80)");
        for format in 0..=255 {
            let list = decode(&filter(format)).unwrap();
            assert_eq!(encode(&list), filter(format));
            let known = matches!(list.filters[..], [Filter::WebP(Some(_))]);
            assert_eq!(known, (1..=4).contains(&format), "{format}");
        }
    }

    #[test]
    fn unusual_options_of_images_are_kept() {
        let usual = [&80_f32.to_le_bytes()[..], &[2, 1, 4, 0, 24, 0, 0, 0]].concat();
        let mut flag = usual.clone();
        flag[5] = 2;
        let mut no_number = usual.clone();
        no_number[..4].copy_from_slice(&f32::NAN.to_le_bytes());
        let longer = [&usual[..], &[0, 0]].concat();
        let unpadded = usual[..10].to_vec();
        let shorter = usual[..5].to_vec();
        for options in [flag, no_number, longer, unpadded, shorter] {
            let mut bytes = vec![0, 0, 1, 0, 1, 0, 0, 0, 18];
            bytes.extend((options.len() as u32).to_le_bytes());
            bytes.extend(&options);
            let list = decode(&bytes).unwrap();
            assert_eq!(list.filters, [Filter::WebP(Some(PixelFormat::Bgr))]);
            assert_eq!(list.settings, [FilterSetting::Stored { code: 18, options }]);
            assert_eq!(encode(&list), bytes);
            assert!(list.is_lossy());
        }
        // What stands in the padding is whatever was in the memory of the writer.
        let mut bytes = [&[0, 0, 1, 0, 1, 0, 0, 0, 18, 12, 0, 0, 0][..], &usual].concat();
        let expected = bytes.clone();
        bytes[24] = 0xA5;
        let list = decode(&bytes).unwrap();
        assert!(!list.is_lossy());
        assert_eq!(encode(&list), expected);
    }
}
