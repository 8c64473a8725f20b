//! Strings and byte strings: Arrow views into the buffer that a tile was decoded into.
//!
//! Text is validated once over the whole tile; with a check that cells start at character boundaries, this proves that
//! every cell is valid. Only if that fails are cells checked one by one, because the bytes of a NULL cell are
//! undefined.

use arrow::array::{
    BinaryViewArray, GenericByteViewArray, LargeBinaryArray, LargeStringArray, StringViewArray,
    make_view,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::ByteViewType;
use arrow::error::ArrowError;

use crate::error::{Error, Result};

/// The largest block of a view array; Arrow's other implementations read offsets into it as `i32`.
const LARGEST_BLOCK: usize = i32::MAX.unsigned_abs() as usize;
const SHOWN_BYTES: usize = 24;

/// The stored encoding of text, little-endian where that matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Utf8,
    Utf16,
    Utf32,
}

/// How text cells are stored and shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextForm<'a> {
    pub(super) encoding: Encoding,
    /// Whether invalid text is shown with replacement characters.
    pub(super) lossy: bool,
    /// Whether NUL characters at the end are padding.
    pub(super) padded: bool,
    /// The invalid bytes that stand for NULL.
    pub(super) null: Option<&'a [u8]>,
}

impl TextForm<'_> {
    /// Text that is shown exactly as stored.
    pub(super) fn plain(encoding: Encoding, lossy: bool) -> Self {
        Self {
            encoding,
            lossy,
            padded: false,
            null: None,
        }
    }
}

/// Calls the function with each character of a cell, or with `None` for an invalid unit.
type DecodeText = fn(&[u8], &mut dyn FnMut(Option<char>));

/// Concatenated cells.
pub(super) struct ByteCells {
    /// The start of each cell, then the length of the data.
    pub(super) offsets: OffsetBuffer<i64>,
    pub(super) data: Buffer,
    pub(super) nulls: Option<NullBuffer>,
}

impl ByteCells {
    /// The cells as byte strings.
    pub(super) fn into_binary(self) -> Result<BinaryViewArray> {
        let large = self.data.len() > LARGEST_BLOCK;
        let array =
            LargeBinaryArray::try_new(self.offsets, self.data, self.nulls).map_err(arrow_error)?;
        if large {
            let (offsets, data, nulls) = array.into_parts();
            return views_of_blocks(&offsets, &data, nulls, LARGEST_BLOCK, false);
        }
        Ok(BinaryViewArray::from(&array))
    }

    /// The cells as text; invalid text is an error, or replaced if `form` is lossy.
    pub(super) fn into_text(self, form: &TextForm<'_>) -> Result<StringViewArray> {
        match form.encoding {
            Encoding::Utf8 => self.utf8(form),
            Encoding::Utf16 => self.transcoded("UTF-16", form, 2, utf16_chars),
            Encoding::Utf32 => self.transcoded("UTF-32", form, 4, utf32_chars),
        }
    }

    fn utf8(self, form: &TextForm<'_>) -> Result<StringViewArray> {
        let large = self.data.len() > LARGEST_BLOCK;
        let Ok(array) =
            LargeStringArray::try_new(self.offsets.clone(), self.data.clone(), self.nulls.clone())
        else {
            return self.utf8_cell_by_cell(form);
        };
        if large || (form.padded && self.any_padding()) {
            let (offsets, data, nulls) = array.into_parts();
            return views_of_blocks(&offsets, &data, nulls, LARGEST_BLOCK, form.padded);
        }
        Ok(StringViewArray::from(&array))
    }

    /// Whether a cell ends in a NUL byte.
    fn any_padding(&self) -> bool {
        let ends = self.offsets.iter().skip(1);
        let mut lasts = ends.filter_map(|end| usize::try_from(*end).ok()?.checked_sub(1));
        lasts.any(|last| self.data.get(last) == Some(&0))
    }

    /// Converts cell by cell, for tiles with bytes that are not valid UTF-8.
    fn utf8_cell_by_cell(self, form: &TextForm<'_>) -> Result<StringViewArray> {
        let bytes = self.into_binary()?;
        let cells = bytes.iter().enumerate().map(|(cell, bytes)| {
            let Some(bytes) = bytes.filter(|bytes| form.null != Some(bytes)) else {
                return Ok(None);
            };
            let bytes = if form.padded { unpadded(bytes) } else { bytes };
            match std::str::from_utf8(bytes) {
                Ok(text) => Ok(Some(std::borrow::Cow::Borrowed(text))),
                Err(_) if form.lossy => Ok(Some(String::from_utf8_lossy(bytes))),
                Err(_) => Err(not_text(cell, bytes, "UTF-8")),
            }
        });
        cells.collect()
    }

    fn transcoded(
        self,
        name: &str,
        form: &TextForm<'_>,
        unit_bytes: usize,
        chars: DecodeText,
    ) -> Result<StringViewArray> {
        let mut text = String::with_capacity(self.data.len());
        let mut ends = Vec::with_capacity(self.offsets.len());
        ends.push(0i64);
        for (cell, range) in self.offsets.windows(2).enumerate() {
            let is_valid = self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(cell));
            if is_valid {
                let begun = text.len();
                let bytes = cell_bytes(&self.data, range)?;
                let mut valid = bytes.len().is_multiple_of(unit_bytes);
                chars(bytes, &mut |decoded| {
                    valid &= decoded.is_some();
                    text.push(decoded.unwrap_or(char::REPLACEMENT_CHARACTER));
                });
                if !valid && !form.lossy {
                    return Err(not_text(cell, bytes, name));
                }
                while form.padded && text.len() > begun && text.ends_with('\0') {
                    text.pop();
                }
            }
            ends.push(i64::try_from(text.len())?);
        }
        let cells = Self {
            offsets: OffsetBuffer::new(ends.into()),
            data: Buffer::from_vec(text.into_bytes()),
            nulls: self.nulls,
        };
        cells.utf8(&TextForm::plain(Encoding::Utf8, form.lossy))
    }
}

/// The bytes without NUL bytes at the end.
fn unpadded(bytes: &[u8]) -> &[u8] {
    let last = bytes.iter().rposition(|byte| *byte != 0);
    last.and_then(|last| bytes.get(..=last)).unwrap_or_default()
}

fn utf16_chars(bytes: &[u8], each: &mut dyn FnMut(Option<char>)) {
    let (units, rest) = bytes.as_chunks::<2>();
    let units = units.iter().map(|unit| u16::from_le_bytes(*unit));
    char::decode_utf16(units).for_each(|decoded| each(decoded.ok()));
    if !rest.is_empty() {
        each(None);
    }
}

fn utf32_chars(bytes: &[u8], each: &mut dyn FnMut(Option<char>)) {
    let (units, rest) = bytes.as_chunks::<4>();
    let units = units.iter().map(|unit| u32::from_le_bytes(*unit));
    units.for_each(|unit| each(char::from_u32(unit)));
    if !rest.is_empty() {
        each(None);
    }
}

/// Views over data that is too long for one block, or whose cells have padding to remove. Cells are distributed to blocks of at
/// most `largest` bytes.
fn views_of_blocks<V: ByteViewType + ?Sized>(
    offsets: &OffsetBuffer<i64>,
    data: &Buffer,
    nulls: Option<NullBuffer>,
    largest: usize,
    padded: bool,
) -> Result<GenericByteViewArray<V>> {
    let mut views = Vec::with_capacity(offsets.len());
    let mut blocks = Vec::new();
    let mut start_of_block = 0usize;
    let mut end_of_block = 0usize;
    for (cell, range) in offsets.windows(2).enumerate() {
        let bytes = cell_bytes(data, range)?;
        if bytes.len() > largest {
            return Err(Error::unsupported(format!(
                "the value in cell {cell} has {} bytes, more than the {largest} Arrow can hold",
                bytes.len()
            )));
        }
        if end_of_block + bytes.len() - start_of_block > largest {
            blocks.push(data.slice_with_length(start_of_block, end_of_block - start_of_block));
            start_of_block = end_of_block;
        }
        let in_block = u32::try_from(end_of_block - start_of_block)?;
        let shown = if padded { unpadded(bytes) } else { bytes };
        views.push(make_view(shown, u32::try_from(blocks.len())?, in_block));
        end_of_block += bytes.len();
    }
    blocks.push(data.slice_with_length(start_of_block, end_of_block - start_of_block));
    GenericByteViewArray::try_new(ScalarBuffer::from(views), blocks, nulls).map_err(arrow_error)
}

/// The bytes between two neighbouring offsets.
fn cell_bytes<'a>(data: &'a [u8], range: &[i64]) -> Result<&'a [u8]> {
    let bytes = match range {
        [start, end] => data.get(usize::try_from(*start)?..usize::try_from(*end)?),
        _ => None,
    };
    bytes.ok_or_else(|| Error::internal("offsets were not checked"))
}

fn not_text(cell: usize, bytes: &[u8], encoding: &str) -> Error {
    let shown = bytes.get(..SHOWN_BYTES).unwrap_or(bytes);
    let more = if shown.len() < bytes.len() { "…" } else { "" };
    Error::corrupt(format!(
        "cell {cell} holds the bytes \"{}{more}\", which are not {encoding}: \
         set the option 'tiledb.invalid_utf8' to 'lossy' or 'binary'",
        shown.escape_ascii()
    ))
}

/// An error of Arrow's own checks, which should never fail after ours.
pub(super) fn arrow_error(error: ArrowError) -> Error {
    Error::internal("decoded cells do not form an Arrow array").with_source(error)
}

#[cfg(test)]
mod tests {
    use arrow::array::Array;

    use super::*;

    fn cells(values: &[&[u8]], nulls: Option<Vec<bool>>) -> ByteCells {
        ByteCells {
            offsets: OffsetBuffer::from_lengths(values.iter().map(|v| v.len()))
                .iter()
                .map(|o: &i32| i64::from(*o))
                .collect::<Vec<_>>()
                .into_offsets(),
            data: Buffer::from_vec(values.concat()),
            nulls: nulls.map(NullBuffer::from),
        }
    }

    trait IntoOffsets {
        fn into_offsets(self) -> OffsetBuffer<i64>;
    }
    impl IntoOffsets for Vec<i64> {
        fn into_offsets(self) -> OffsetBuffer<i64> {
            OffsetBuffer::new(self.into())
        }
    }

    fn texts(array: &StringViewArray) -> Vec<Option<&str>> {
        array.iter().collect()
    }

    #[test]
    fn views_point_into_the_data() {
        let values: [&[u8]; 5] = [
            b"",
            b"a\0b",
            "żółw, a rather long one".as_bytes(),
            b"123456789012",
            b"",
        ];
        let cells = cells(&values, None);
        let data = cells.data.as_ptr();
        let array = cells
            .into_text(&TextForm::plain(Encoding::Utf8, false))
            .unwrap();
        assert_eq!(array.data_buffers()[0].as_ptr(), data);
        assert_eq!(
            texts(&array),
            [
                Some(""),
                Some("a\0b"),
                Some("żółw, a rather long one"),
                Some("123456789012"),
                Some("")
            ]
        );
    }

    #[test]
    fn invalid_text_is_an_error_naming_the_cell_or_replaced() {
        let values: [&[u8]; 3] = [b"fine", b"a\xffb", b""];
        let error = cells(&values, None)
            .into_text(&TextForm::plain(Encoding::Utf8, false))
            .unwrap_err();
        assert!(
            error
                .message()
                .contains("cell 1 holds the bytes \"a\\xffb\""),
            "{error}"
        );
        assert!(error.message().contains("tiledb.invalid_utf8"), "{error}");
        let array = cells(&values, None)
            .into_text(&TextForm::plain(Encoding::Utf8, true))
            .unwrap();
        assert_eq!(texts(&array), [Some("fine"), Some("a\u{fffd}b"), Some("")]);
        let array = cells(&values, None).into_binary().unwrap();
        assert_eq!(array.value(1), b"a\xffb");
    }

    #[test]
    fn a_character_split_between_two_cells_is_invalid() {
        // "é" is C3 A9: the concatenated data is valid UTF-8, but neither cell is.
        let values: [&[u8]; 2] = [b"x\xc3", b"\xa9y"];
        let error = cells(&values, None)
            .into_text(&TextForm::plain(Encoding::Utf8, false))
            .unwrap_err();
        assert!(error.message().contains("cell 0"), "{error}");
        let array = cells(&values, None)
            .into_text(&TextForm::plain(Encoding::Utf8, true))
            .unwrap();
        assert_eq!(texts(&array), [Some("x\u{fffd}"), Some("\u{fffd}y")]);
    }

    #[test]
    fn bytes_of_null_cells_may_be_anything() {
        let values: [&[u8]; 3] = [b"ok", b"\xff\xfe", "ü".as_bytes()];
        let nulls = Some(vec![true, false, true]);
        let array = cells(&values, nulls)
            .into_text(&TextForm::plain(Encoding::Utf8, false))
            .unwrap();
        assert_eq!(texts(&array), [Some("ok"), None, Some("ü")]);
    }

    #[test]
    fn padding_is_not_shown() {
        let form = TextForm {
            padded: true,
            ..TextForm::plain(Encoding::Utf8, false)
        };
        let values: [&[u8]; 5] = [
            b"ab\0\0",
            b"\0\0\0\0",
            b"abcd",
            b"a\0b\0",
            "ż\0\0".as_bytes(),
        ];
        let shown = [Some("ab"), Some(""), Some("abcd"), Some("a\0b"), Some("ż")];
        let array = cells(&values, None).into_text(&form).unwrap();
        assert_eq!(texts(&array), shown);
        // The other cells are invalid text or NULL.
        let invalid: &[u8] = b"\xff\0\0\0";
        let beside = [&values[..], &[invalid, invalid]].concat();
        let nulls = Some([vec![true; 6], vec![false]].concat());
        let lossy = TextForm {
            lossy: true,
            ..form
        };
        let array = cells(&beside, nulls).into_text(&lossy).unwrap();
        assert_eq!(
            texts(&array),
            [&shown[..], &[Some("\u{fffd}"), None]].concat()
        );
        for (encoding, value) in [
            (Encoding::Utf16, b"\x7a\x01\0\0\0\0\0\0"),
            (Encoding::Utf32, b"\x7a\x01\0\0\0\0\0\0"),
        ] {
            let form = TextForm { encoding, ..form };
            let array = cells(&[value, &[0; 8]], None).into_text(&form).unwrap();
            assert_eq!(texts(&array), [Some("ź"), Some("")]);
            let plain = TextForm::plain(encoding, false);
            let array = cells(&[value], None).into_text(&plain).unwrap();
            assert!(texts(&array)[0].unwrap().ends_with('\0'));
        }
    }

    #[test]
    fn some_bytes_that_are_no_text_are_null() {
        let form = TextForm {
            null: Some(b"\x80"),
            ..TextForm::plain(Encoding::Utf8, false)
        };
        let values: [&[u8]; 4] = [b"a", b"\x80", b"", "é".as_bytes()];
        let array = cells(&values, None).into_text(&form).unwrap();
        assert_eq!(texts(&array), [Some("a"), None, Some(""), Some("é")]);
        let error = cells(&[b"\x80\x80"], None).into_text(&form).unwrap_err();
        assert!(error.message().contains("cell 0"), "{error}");
    }

    #[test]
    fn utf16_and_utf32_are_transcoded() {
        let utf16: Vec<u8> = "aü€𝄞".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let values: [&[u8]; 3] = [&utf16, b"", b"z\0"];
        let array = cells(&values, None)
            .into_text(&TextForm::plain(Encoding::Utf16, false))
            .unwrap();
        assert_eq!(texts(&array), [Some("aü€𝄞"), Some(""), Some("z")]);
        let utf32: Vec<u8> = "aü€𝄞"
            .chars()
            .flat_map(|c| u32::from(c).to_le_bytes())
            .collect();
        let values: [&[u8]; 2] = [&utf32, b"z\0\0\0"];
        let array = cells(&values, None)
            .into_text(&TextForm::plain(Encoding::Utf32, false))
            .unwrap();
        assert_eq!(texts(&array), [Some("aü€𝄞"), Some("z")]);
    }

    #[test]
    fn units_that_are_no_characters_are_invalid() {
        // A lone high surrogate, then an odd byte; a surrogate as UTF-32, and a number beyond Unicode.
        let utf16: [&[u8]; 2] = [b"a\0", b"\x00\xd8b\0c"];
        let error = cells(&utf16, None)
            .into_text(&TextForm::plain(Encoding::Utf16, false))
            .unwrap_err();
        assert!(
            error.message().contains("cell 1") && error.message().contains("UTF-16"),
            "{error}"
        );
        let array = cells(&utf16, None)
            .into_text(&TextForm::plain(Encoding::Utf16, true))
            .unwrap();
        assert_eq!(texts(&array), [Some("a"), Some("\u{fffd}b\u{fffd}")]);
        for bad in [0xd800u32, 0x11_0000, u32::MAX] {
            let bytes = bad.to_le_bytes();
            let values: [&[u8]; 1] = [&bytes];
            assert!(
                cells(&values, None)
                    .into_text(&TextForm::plain(Encoding::Utf32, false))
                    .is_err()
            );
            let array = cells(&values, None)
                .into_text(&TextForm::plain(Encoding::Utf32, true))
                .unwrap();
            assert_eq!(texts(&array), [Some("\u{fffd}")]);
            let array = cells(&values, Some(vec![false]))
                .into_text(&TextForm::plain(Encoding::Utf32, false))
                .unwrap();
            assert_eq!(texts(&array), [None]);
        }
    }

    #[test]
    fn long_data_is_cut_into_blocks() {
        let values: [&[u8]; 4] = [
            b"0123456789abcd",
            b"",
            b"ABCDEFGHIJKLMN",
            b"zzzzzzzzzzzzzzz",
        ];
        let cells = cells(&values, None);
        let array: StringViewArray =
            views_of_blocks(&cells.offsets, &cells.data, None, 30, false).unwrap();
        assert_eq!(array.data_buffers().len(), 2);
        let expected = ["0123456789abcd", "", "ABCDEFGHIJKLMN", "zzzzzzzzzzzzzzz"];
        assert_eq!(texts(&array), expected.map(Some));
        let error = views_of_blocks::<arrow::datatypes::StringViewType>(
            &cells.offsets,
            &cells.data,
            None,
            14,
            false,
        );
        assert!(error.unwrap_err().message().contains("cell 3"));
        let empty = ByteCells {
            offsets: OffsetBuffer::new_empty(),
            data: Buffer::from_vec(Vec::<u8>::new()),
            nulls: None,
        };
        let array: BinaryViewArray =
            views_of_blocks(&empty.offsets, &empty.data, None, 30, false).unwrap();
        assert_eq!(array.len(), 0);
    }
}
