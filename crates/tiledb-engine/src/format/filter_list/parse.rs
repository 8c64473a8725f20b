//! The spelling of pipelines in options ↔ [`FilterList`]: `byteshuffle, zstd(5)`.
//!
//! What `Display` prints can be parsed; a level that its compressor ignores may be given as well, because libtiledb stores it.
//! The subtle thing: no text at all is an empty pipeline, which for a dimension means the filters of all coordinates, while
//! `none` is a filter that passes everything.

use super::{Filter, FilterList, FilterSetting, ImageSetting, MOST_FILTERS, PixelFormat};
use crate::error::{Error, Result};
use crate::format::datatype::Datatype;

/// The limit for chunks that libtiledb states in every pipeline.
pub const MAX_CHUNK_BYTES: u32 = 64 << 10;

/// Every filter that an array can be created with, and how it is spelled.
const KNOWN: &str = "none, gzip(level), zstd(level), lz4, rle, bzip2(level), dictionary, delta(TYPE), double_delta(TYPE), \
     positive_delta(bytes), bit_width_reduction(bytes), bitshuffle, byteshuffle, xor, float_scale(scale, offset, byte width), \
     checksum_md5, checksum_sha256, webp(rgb|bgr|rgba|bgra, lossless)";

impl FilterList {
    /// A pipeline of these filters, for a new array.
    pub fn of(stages: impl IntoIterator<Item = (Filter, FilterSetting)>) -> Self {
        let (filters, settings) = stages.into_iter().unzip();
        Self {
            max_chunk_bytes: MAX_CHUNK_BYTES,
            filters,
            settings,
        }
    }

    /// Parses filters, first to last, separated by commas: `byteshuffle, zstd(5)`.
    ///
    /// # Errors
    /// A filter is unknown, cannot be chosen, or has arguments that do not fit.
    pub fn parse(text: &str) -> Result<Self> {
        let mut stages = Vec::new();
        let mut max_chunk_bytes = MAX_CHUNK_BYTES;
        let mut rest = text.trim();
        while !rest.is_empty() {
            let end = stage_end(rest);
            let (stage, after) = rest.split_at(end);
            match chunk_limit(stage.trim()) {
                Some(limit) if after.is_empty() => max_chunk_bytes = limit?,
                Some(_) => {
                    return Err(Error::invalid(format!(
                        "{CHUNK_LIMIT} comes last in '{text}'"
                    )));
                }
                None => stages.push(parse_stage(stage.trim())?),
            }
            rest = match after.strip_prefix(',').map(str::trim_start) {
                Some("") => return Err(Error::invalid(format!("'{text}' ends with a comma"))),
                Some(after) => after,
                None => "",
            };
        }
        if stages.len() > MOST_FILTERS {
            return Err(Error::invalid(format!(
                "'{text}' has {} filters, expected {MOST_FILTERS} at most",
                stages.len()
            )));
        }
        Ok(Self {
            max_chunk_bytes,
            ..Self::of(stages)
        })
    }

    /// What [`Self::parse`] takes for the same pipeline: the filters, and the limit for chunks unless it is the usual one.
    pub fn spelling(&self) -> String {
        let mut spelling = self.to_string();
        if self.max_chunk_bytes != MAX_CHUNK_BYTES {
            if !spelling.is_empty() {
                spelling.push_str(", ");
            }
            spelling.push_str(&format!("{CHUNK_LIMIT}({})", self.max_chunk_bytes));
        }
        spelling
    }
}

/// The word for the limit of chunks, which no writer obeys and every pipeline states.
const CHUNK_LIMIT: &str = "max_chunk_bytes";

/// The limit for chunks, if that is what a stage states.
fn chunk_limit(stage: &str) -> Option<Result<u32>> {
    let arguments = stage.strip_prefix(CHUNK_LIMIT)?.trim_start();
    let bytes = arguments
        .strip_prefix('(')
        .and_then(|a| a.strip_suffix(')'));
    let bytes = bytes.and_then(|bytes| bytes.trim().parse().ok());
    Some(bytes.ok_or_else(|| {
        Error::invalid(format!(
            "'{stage}': expected a number of bytes, such as {CHUNK_LIMIT}(65536)"
        ))
    }))
}

/// Where the first stage of `text` ends: at a comma outside parentheses.
fn stage_end(text: &str) -> usize {
    let mut depth = 0_u32;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

fn parse_stage(stage: &str) -> Result<(Filter, FilterSetting)> {
    let (name, arguments) = match stage.split_once('(') {
        None => (stage, Vec::new()),
        Some((name, arguments)) => {
            let inside = arguments.strip_suffix(')').ok_or_else(|| {
                Error::invalid(format!("'{stage}' lacks its closing parenthesis"))
            })?;
            (name.trim_end(), inside.split(',').map(str::trim).collect())
        }
    };
    let arguments = StageArguments { stage, arguments };
    let plain = |filter| arguments.none().map(|()| (filter, FilterSetting::None));
    match name.to_ascii_lowercase().as_str() {
        "none" => plain(Filter::None),
        "gzip" => arguments.level(Filter::Gzip, 0, 9),
        "zstd" => arguments.level(Filter::Zstd, -7, 22),
        "bzip2" => arguments.level(Filter::Bzip2, 1, 9),
        "lz4" => arguments.level(Filter::Lz4, i32::MIN, i32::MAX),
        "rle" => arguments.level(Filter::Rle, i32::MIN, i32::MAX),
        "dictionary" => arguments.level(Filter::Dictionary, i32::MIN, i32::MAX),
        "delta" => arguments.delta(Filter::Delta),
        "double_delta" => arguments.delta(Filter::DoubleDelta),
        "positive_delta" => {
            arguments.window(Filter::PositiveDelta, FilterSetting::POSITIVE_DELTA_WINDOW)
        }
        "bit_width_reduction" => {
            arguments.window(Filter::BitWidthReduction, FilterSetting::BIT_WIDTH_WINDOW)
        }
        "bitshuffle" => plain(Filter::BitShuffle),
        "byteshuffle" => plain(Filter::ByteShuffle),
        "xor" => plain(Filter::Xor),
        "float_scale" => arguments.float_scale(),
        "checksum_md5" => plain(Filter::Md5),
        "checksum_sha256" => plain(Filter::Sha256),
        "webp" => arguments.image(),
        "bitsort" => Err(Error::unsupported(
            "filter bitsort: libtiledb had it in one release and has withdrawn it, so nobody could read the array",
        )),
        "aes_256_gcm" => Err(Error::invalid(
            "filter aes_256_gcm: an encryption key encrypts all that is stored, and no filter does",
        )),
        _ => Err(Error::invalid(format!(
            "there is no filter '{stage}'; the filters are {KNOWN}"
        ))),
    }
}

/// What stands in the parentheses of a stage.
struct StageArguments<'a> {
    stage: &'a str,
    arguments: Vec<&'a str>,
}

impl StageArguments<'_> {
    fn wrong(&self, expected: &str) -> Error {
        Error::invalid(format!("filter '{}': expected {expected}", self.stage))
    }

    fn none(&self) -> Result<()> {
        match self.arguments.as_slice() {
            [] => Ok(()),
            _ => Err(self.wrong("no argument")),
        }
    }

    fn level(&self, filter: Filter, least: i32, most: i32) -> Result<(Filter, FilterSetting)> {
        let level = self.level_of(self.arguments.first().copied(), least, most)?;
        match self.arguments.len() {
            0 | 1 => Ok((filter, FilterSetting::Level(level))),
            _ => Err(self.wrong("a level alone")),
        }
    }

    fn level_of(&self, text: Option<&str>, least: i32, most: i32) -> Result<i32> {
        let Some(text) = text else {
            return Ok(super::DEFAULT_LEVEL);
        };
        let level = text.parse().ok();
        level
            .filter(|level| (least..=most).contains(level) || *level == super::DEFAULT_LEVEL)
            .ok_or_else(|| {
                self.wrong(&format!(
                    "a level from {least} to {most}, or -1 for the one libtiledb takes"
                ))
            })
    }

    /// Nothing, a type, a level, or both.
    fn delta(&self, filter: fn(Option<Datatype>) -> Filter) -> Result<(Filter, FilterSetting)> {
        let as_type = |text: &str| {
            let mut all = Datatype::ALL.iter();
            let found = all.find(|datatype| datatype.name().eq_ignore_ascii_case(text));
            found.copied().filter(|found| *found != Datatype::Any)
        };
        let expected = || self.wrong("the type of integers to read the values as, such as INT32");
        let (datatype, level) = match self.arguments.as_slice() {
            [] => (None, None),
            [only] => match as_type(only) {
                Some(datatype) => (Some(datatype), None),
                None if only.parse::<i32>().is_ok() => (None, Some(*only)),
                None => return Err(expected()),
            },
            [datatype, level] => {
                let datatype = as_type(datatype).ok_or_else(expected)?;
                (Some(datatype), Some(*level))
            }
            _ => return Err(expected()),
        };
        let level = self.level_of(level, i32::MIN, i32::MAX)?;
        Ok((filter(datatype), FilterSetting::Level(level)))
    }

    fn window(&self, filter: Filter, usual: u32) -> Result<(Filter, FilterSetting)> {
        let bytes = match self.arguments.as_slice() {
            [] => Some(usual),
            // A window holds at least one value of the widest type.
            [bytes] => bytes.parse().ok().filter(|bytes| *bytes >= 8),
            _ => None,
        };
        let bytes = bytes.ok_or_else(|| self.wrong("the bytes of a window, 8 or more"))?;
        Ok((filter, FilterSetting::Window(bytes)))
    }

    /// The form of pixels, and whether the images are lossless or of what quality. Their size follows from the array.
    fn image(&self) -> Result<(Filter, FilterSetting)> {
        let expected =
            || self.wrong("the form of pixels and lossless, such as webp(rgb, lossless)");
        let (form, rest) = self.arguments.split_first().ok_or_else(expected)?;
        let mut all = PixelFormat::ALL.into_iter();
        let format = all
            .find(|format| format.name().eq_ignore_ascii_case(form))
            .ok_or_else(expected)?;
        let quality = |text: &str| {
            let number = text.split_once(char::is_whitespace)?;
            let is_quality = number.0.eq_ignore_ascii_case("quality");
            let number = number.1.trim().parse().ok().filter(|_| is_quality)?;
            (0.0..=100.0).contains(&number).then_some(number)
        };
        let (lossless, quality) = match rest {
            [] => (false, Some(ImageSetting::QUALITY)),
            [word] if word.eq_ignore_ascii_case("lossless") => (true, Some(ImageSetting::QUALITY)),
            [word, number] if word.eq_ignore_ascii_case("lossless") => (true, quality(number)),
            [number] => (false, quality(number)),
            _ => (false, None),
        };
        let image = ImageSetting {
            quality: quality.ok_or_else(expected)?,
            lossless,
            lines: 0,
            line_bytes: 0,
        };
        Ok((Filter::WebP(Some(format)), FilterSetting::Image(image)))
    }

    fn float_scale(&self) -> Result<(Filter, FilterSetting)> {
        let parsed = match self.arguments.as_slice() {
            [scale, offset, byte_width] => {
                let numbers = (scale.parse(), offset.parse(), byte_width.parse());
                match numbers {
                    (Ok(scale), Ok(offset), Ok(byte_width)) => Some((scale, offset, byte_width)),
                    _ => None,
                }
            }
            _ => None,
        };
        let sound = |scale: f64, offset: f64, byte_width: u64| {
            scale.is_finite()
                && scale != 0.0
                && offset.is_finite()
                && [1, 2, 4, 8].contains(&byte_width)
        };
        match parsed {
            Some((scale, offset, byte_width)) if sound(scale, offset, byte_width) => {
                let filter = Filter::ScaleFloat {
                    scale,
                    offset,
                    byte_width,
                };
                Ok((filter, FilterSetting::None))
            }
            _ => Err(self.wrong(
                "a scale other than 0, an offset, and the bytes of the stored integer: 1, 2, 4 or 8",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::ErrorKind;
    use crate::format::cursor::Cursor;
    use crate::format::encoder::Encoder;
    use crate::format::version::FormatVersion;

    #[test]
    fn a_spelling_says_what_is_stored() {
        // As libtiledb 2.30 stores byteshuffle and zstd of level 5.
        let stored = [
            &[0, 0, 1, 0, 2, 0, 0, 0][..],
            &[9, 0, 0, 0, 0],
            &[2, 5, 0, 0, 0, 2, 5, 0, 0, 0],
        ]
        .concat();
        let mut encoder = Encoder::new();
        let parsed = FilterList::parse(" ByteShuffle ,zstd( 5 )").unwrap();
        parsed.encode(&mut encoder).unwrap();
        assert_eq!(encoder.finish(), stored);
        assert_eq!(parsed.to_string(), "byteshuffle, zstd(5)");
        assert!(FilterList::parse("  ").unwrap().is_empty());
        assert_eq!(FilterList::parse("none").unwrap().filters, [Filter::None]);
    }

    #[test]
    fn what_cannot_be_chosen_is_refused_by_name() {
        for (text, kind, why) in [
            ("Bitsort", ErrorKind::Unsupported, "bitsort"),
            ("aes_256_gcm", ErrorKind::InvalidInput, "encryption key"),
            (
                "snappy",
                ErrorKind::InvalidInput,
                "there is no filter 'snappy'; the filters are none, gzip",
            ),
            ("unknown (42)", ErrorKind::InvalidInput, "no filter"),
            (
                "max_chunk_bytes(9), zstd",
                ErrorKind::InvalidInput,
                "comes last",
            ),
            (
                "max_chunk_bytes(x)",
                ErrorKind::InvalidInput,
                "a number of bytes",
            ),
            ("zstd,", ErrorKind::InvalidInput, "ends with a comma"),
            (
                ", zstd",
                ErrorKind::InvalidInput,
                "no filter ''; the filters",
            ),
            ("zstd(5", ErrorKind::InvalidInput, "closing parenthesis"),
            ("zstd(23)", ErrorKind::InvalidInput, "from -7 to 22"),
            ("gzip(ten)", ErrorKind::InvalidInput, "from 0 to 9"),
            ("bzip2(0)", ErrorKind::InvalidInput, "from 1 to 9"),
            ("zstd(1, 2)", ErrorKind::InvalidInput, "a level alone"),
            ("byteshuffle(1)", ErrorKind::InvalidInput, "no argument"),
            ("delta(ANY)", ErrorKind::InvalidInput, "such as INT32"),
            ("delta(INT32, x)", ErrorKind::InvalidInput, "a level"),
            ("delta(a, b, c)", ErrorKind::InvalidInput, "such as INT32"),
            (
                "positive_delta(4)",
                ErrorKind::InvalidInput,
                "bytes of a window",
            ),
            (
                "float_scale(0, 0, 4)",
                ErrorKind::InvalidInput,
                "other than 0",
            ),
            (
                "float_scale(1, 0, 3)",
                ErrorKind::InvalidInput,
                "1, 2, 4 or 8",
            ),
            (
                "float_scale(nan, 0, 4)",
                ErrorKind::InvalidInput,
                "other than 0",
            ),
            ("float_scale(1)", ErrorKind::InvalidInput, "an offset"),
        ] {
            let error = FilterList::parse(text).unwrap_err();
            assert_eq!(error.kind(), kind, "{text}: {error}");
            assert!(error.message().contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn images_need_the_form_of_their_pixels() {
        for text in [
            "webp",
            "webp()",
            "webp(lossless)",
            "webp(hsv, lossless)",
            "webp(rgb, best)",
            "webp(rgb, quality 101)",
            "webp(rgb, quality NaN)",
            "webp(rgb, quality)",
            "webp(rgb, lossless, 9)",
            "webp(rgb, lossless, quality 9, quality 9)",
        ] {
            let error = FilterList::parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            let expected = "expected the form of pixels and lossless, such as webp(rgb, lossless)";
            assert!(error.message().contains(expected), "{text}: {error}");
        }
        let list = FilterList::parse("WebP( BGRA ,Lossless), zstd").unwrap();
        assert_eq!(list.to_string(), "webp(bgra, lossless), zstd");
        assert!(FilterList::parse("webp(rgb)").unwrap().is_lossy());
    }

    fn stage() -> impl Strategy<Value = (Filter, FilterSetting)> {
        let datatype = || {
            let known = Datatype::ALL.iter().filter(|d| **d != Datatype::Any);
            proptest::option::of(proptest::sample::select(known.copied().collect::<Vec<_>>()))
        };
        let level = || (-1..=9).prop_map(FilterSetting::Level);
        let window = || (8_u32..5000).prop_map(FilterSetting::Window);
        let plain = [
            Filter::None,
            Filter::BitShuffle,
            Filter::ByteShuffle,
            Filter::Xor,
            Filter::Md5,
            Filter::Sha256,
        ];
        let finite = || {
            (any::<f64>()).prop_filter("a filter needs finite numbers", |n| {
                n.is_finite() && *n != 0.0
            })
        };
        let image = (
            proptest::sample::select(&PixelFormat::ALL[..]),
            any::<bool>(),
            prop_oneof![Just(ImageSetting::QUALITY), 0.0_f32..=100.0],
        );
        let image = image.prop_map(|(format, lossless, quality)| {
            let image = ImageSetting {
                quality,
                lossless,
                lines: 0,
                line_bytes: 0,
            };
            (Filter::WebP(Some(format)), FilterSetting::Image(image))
        });
        prop_oneof![
            image,
            proptest::sample::select(plain.to_vec()).prop_map(|f| (f, FilterSetting::None)),
            level().prop_map(|l| (Filter::Gzip, l)),
            level().prop_map(|l| (Filter::Zstd, l)),
            level().prop_map(|l| (Filter::Lz4, l)),
            level().prop_map(|l| (Filter::Rle, l)),
            level().prop_map(|l| (Filter::Dictionary, l)),
            (datatype(), level()).prop_map(|(d, l)| (Filter::Delta(d), l)),
            (datatype(), level()).prop_map(|(d, l)| (Filter::DoubleDelta(d), l)),
            window().prop_map(|w| (Filter::PositiveDelta, w)),
            window().prop_map(|w| (Filter::BitWidthReduction, w)),
            (
                finite(),
                finite(),
                proptest::sample::select(vec![1_u64, 2, 4, 8])
            )
                .prop_map(|(scale, offset, byte_width)| (
                    Filter::ScaleFloat {
                        scale,
                        offset,
                        byte_width
                    },
                    FilterSetting::None
                )),
        ]
    }

    proptest! {
        #[test]
        fn what_is_printed_is_parsed(stages in proptest::collection::vec(stage(), 0..5), limit: Option<u32>) {
            let mut list = FilterList::of(stages);
            list.max_chunk_bytes = limit.unwrap_or(MAX_CHUNK_BYTES);
            let again = FilterList::parse(&list.spelling()).unwrap();
            prop_assert_eq!(&again, &list);
            let mut encoder = Encoder::new();
            list.encode(&mut encoder).unwrap();
            let bytes = encoder.finish();
            let stored = FilterList::decode(&mut Cursor::new(&bytes, "p"), FormatVersion::known(22)).unwrap();
            prop_assert_eq!(stored.to_string(), list.to_string());
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "[a-z_(), 0-9]{0,40}") {
            let _ = FilterList::parse(&text);
        }
    }
}
