//! One stage of a pipeline ↔ bytes, and the settings of the stage that makes images.

use std::fmt;

use super::{DEFAULT_LEVEL, Filter, FilterSetting};
use crate::error::{Error, Result};
use crate::format::cursor::Cursor;
use crate::format::datatype::Datatype;
use crate::format::encoder::Encoder;
use crate::format::version::FormatVersion;

/// Since this version, the options of double delta say what type its input is read as.
const REINTERPRETS_DOUBLE_DELTA: u32 = 20;
/// As for double delta.
const REINTERPRETS_DELTA: u32 = 19;

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

impl PixelFormat {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Rgb, Self::Bgr, Self::Rgba, Self::Bgra];

    /// The name used in options and messages, as `rgb`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rgb => "rgb",
            Self::Bgr => "bgr",
            Self::Rgba => "rgba",
            Self::Bgra => "bgra",
        }
    }

    const fn code(self) -> u8 {
        match self {
            Self::Rgb => 1,
            Self::Bgr => 2,
            Self::Rgba => 3,
            Self::Bgra => 4,
        }
    }

    /// The bytes of a pixel.
    pub const fn bytes(self) -> u8 {
        match self {
            Self::Rgb | Self::Bgr => 3,
            Self::Rgba | Self::Bgra => 4,
        }
    }
}

/// The settings of the writer of images besides the form of their pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ImageSetting {
    /// From 0 to 100; of lossless images it says nothing.
    pub quality: f32,
    /// Whether the pixels come back as they were.
    pub lossless: bool,
    /// The lines of an image: the tile extent of the first dimension.
    pub lines: u16,
    /// The bytes of a line: the tile extent of the second dimension.
    pub line_bytes: u16,
}

impl ImageSetting {
    /// The default quality.
    pub const QUALITY: f32 = 100.0;

    pub(super) fn write(&self, format: PixelFormat, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quality = self.quality;
        write!(f, "({}", format.name())?;
        if self.lossless {
            f.write_str(", lossless")?;
        }
        if !self.lossless || quality.to_bits() != Self::QUALITY.to_bits() {
            write!(f, ", quality {quality}")?;
        }
        f.write_str(")")
    }
}

impl Filter {
    /// Reads a stage and its writer's settings.
    pub(super) fn decode(
        cursor: &mut Cursor<'_>,
        version: FormatVersion,
    ) -> Result<(Self, FilterSetting)> {
        let code = cursor.u8("filter type")?;
        let option_bytes = cursor.u32("filter option bytes")?;
        let stored = cursor.bytes_u64(u64::from(option_bytes), "filter options")?;
        let mut options = Cursor::new(stored, "filter options");
        let mut setting = FilterSetting::None;
        let filter = match code {
            0 => Self::None,
            1..=6 | 14 | 19 => {
                let (filter, level) = Self::decode_compressor(&mut options, version)?;
                setting = FilterSetting::Level(level);
                filter
            }
            7 => {
                setting = FilterSetting::window(&mut options);
                Self::BitWidthReduction
            }
            8 => Self::BitShuffle,
            9 => Self::ByteShuffle,
            10 => {
                setting = FilterSetting::window(&mut options);
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
            18 => {
                let (format, image) = decode_image(&mut options)?;
                setting = image.map_or(FilterSetting::None, FilterSetting::Image);
                Self::WebP(format)
            }
            // What stands behind is readable all the same: columns that do not use the filter are.
            other => Self::Unknown(other),
        };
        // Whatever would be written in another way is kept as it is, but for the end of a structure of C++.
        let mut meant = stored.to_vec();
        if let (FilterSetting::Image(_), Some(padding)) = (&setting, meant.get_mut(IMAGE_BYTES..)) {
            padding.fill(0);
        }
        let known = filter.stored(&setting, version);
        let (_, today) = filter.stored(&setting, FormatVersion::WRITTEN);
        // Where a later version has an option more, this one ignores what stands there.
        let added = today.get(known.1.len()..).unwrap_or_default();
        if !added.is_empty() {
            meant.truncate(known.1.len());
        }
        if known != (code, meant.clone()) {
            let options = match added {
                [] => stored.to_vec(),
                added => [&meant, added].concat(),
            };
            setting = FilterSetting::Stored { code, options };
        }
        Ok((filter, setting))
    }

    fn decode_compressor(options: &mut Cursor<'_>, version: FormatVersion) -> Result<(Self, i32)> {
        let compressor = options.u8("compressor")?;
        let level = options.i32("compression level")?;
        let mut reads_as = |since| reinterpret(options, version.since(since));
        let filter = match compressor {
            0 => Self::None,
            1 => Self::Gzip,
            2 => Self::Zstd,
            3 => Self::Lz4,
            4 => Self::Rle,
            5 => Self::Bzip2,
            6 => Self::DoubleDelta(reads_as(REINTERPRETS_DOUBLE_DELTA)?),
            7 => Self::Dictionary,
            8 => Self::Delta(reads_as(REINTERPRETS_DELTA)?),
            other => Self::Unknown(other),
        };
        Ok((filter, level))
    }

    /// The type and the options of a stage, as a version stores them.
    pub(super) fn stored(&self, setting: &FilterSetting, version: FormatVersion) -> (u8, Vec<u8>) {
        if let FilterSetting::Stored { code, options } = setting {
            return (*code, options.clone());
        }
        let mut options = Encoder::new();
        if let Some(compressor) = self.compressor() {
            options.u8(compressor);
            options.i32(match setting {
                FilterSetting::Level(level) => *level,
                _ => DEFAULT_LEVEL,
            });
        }
        let own = |datatype: &Option<Datatype>| datatype.unwrap_or(Datatype::Any).code();
        match self {
            Self::DoubleDelta(datatype) if version.since(REINTERPRETS_DOUBLE_DELTA) => {
                options.u8(own(datatype));
            }
            Self::Delta(datatype) if version.since(REINTERPRETS_DELTA) => {
                options.u8(own(datatype));
            }
            Self::BitWidthReduction => {
                options.u32(setting.window_bytes(FilterSetting::BIT_WIDTH_WINDOW))
            }
            Self::PositiveDelta => {
                options.u32(setting.window_bytes(FilterSetting::POSITIVE_DELTA_WINDOW))
            }
            Self::ScaleFloat {
                scale,
                offset,
                byte_width,
            } => {
                options.f64(*scale);
                options.f64(*offset);
                options.u64(*byte_width);
            }
            Self::WebP(format) => {
                if let FilterSetting::Image(image) = setting {
                    options.f32(image.quality);
                    options.u8(format.map_or(NO_PIXEL_FORMAT, PixelFormat::code));
                    options.bool(image.lossless);
                    options.u16(image.lines);
                    options.u16(image.line_bytes);
                    options.bytes(&IMAGE_PADDING);
                }
            }
            _ => {}
        }
        (self.code(), options.finish())
    }

    const fn code(&self) -> u8 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Zstd => 2,
            Self::Lz4 => 3,
            Self::Rle => 4,
            Self::Bzip2 => 5,
            Self::DoubleDelta(_) => 6,
            Self::BitWidthReduction => 7,
            Self::BitShuffle => 8,
            Self::ByteShuffle => 9,
            Self::PositiveDelta => 10,
            Self::Aes256Gcm => 11,
            Self::Md5 => 12,
            Self::Sha256 => 13,
            Self::Dictionary => 14,
            Self::ScaleFloat { .. } => 15,
            Self::Xor => 16,
            Self::Bitsort => 17,
            Self::WebP(_) => 18,
            Self::Delta(_) => 19,
            Self::Unknown(code) => *code,
        }
    }

    /// The code of a compressor in its options.
    const fn compressor(&self) -> Option<u8> {
        Some(match self {
            Self::Gzip => 1,
            Self::Zstd => 2,
            Self::Lz4 => 3,
            Self::Rle => 4,
            Self::Bzip2 => 5,
            Self::DoubleDelta(_) => 6,
            Self::Dictionary => 7,
            Self::Delta(_) => 8,
            _ => return None,
        })
    }
}

impl FilterSetting {
    /// The default window of bit-width reduction in bytes.
    pub const BIT_WIDTH_WINDOW: u32 = 256;
    /// The default window of positive delta in bytes.
    pub const POSITIVE_DELTA_WINDOW: u32 = 1024;

    /// A missing window is no problem: the tiles record their own.
    fn window(options: &mut Cursor<'_>) -> Self {
        options.u32("window").map_or(Self::None, Self::Window)
    }

    /// The bytes of the window that the setting states, or those that are usual.
    pub fn window_bytes(&self, usual: u32) -> u32 {
        match self {
            Self::Window(bytes) => *bytes,
            _ => usual,
        }
    }
}

/// Bytes of the options of images that mean something; padding follows, which libtiledb reads, too.
const IMAGE_BYTES: usize = 10;
const IMAGE_PADDING: [u8; 2] = [0; 2];
/// The code that says that nobody chose a format.
const NO_PIXEL_FORMAT: u8 = 0;

/// The format of pixels, without which nothing can be read, and what only the writer needs, if all of it is there.
fn decode_image(options: &mut Cursor<'_>) -> Result<(Option<PixelFormat>, Option<ImageSetting>)> {
    let quality = options.f32("quality")?;
    let code = options.u8("pixel format")?;
    let format = PixelFormat::ALL.into_iter().find(|f| f.code() == code);
    let mut rest = || {
        Ok::<_, Error>(ImageSetting {
            quality,
            lossless: options.u8("lossless")? == 1,
            lines: options.u16("extent of the first dimension")?,
            line_bytes: options.u16("extent of the second dimension")?,
        })
    };
    // A NaN as quality would make a schema differ from itself.
    let image = rest().ok().filter(|image| !image.quality.is_nan());
    Ok((format, image))
}

/// The type the input is read as; `ANY` (17) says: the field's own.
fn reinterpret(options: &mut Cursor<'_>, present: bool) -> Result<Option<Datatype>> {
    if !present {
        return Ok(None);
    }
    let datatype = Datatype::from_code(options.u8("reinterpret datatype")?)?;
    Ok((datatype != Datatype::Any).then_some(datatype))
}
