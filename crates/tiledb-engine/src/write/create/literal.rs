//! Values in settings, as text ↔ stored bytes: `5`, `-0.5`, `2024-05-01T12:00`, `[1, 2]`, `x'00ff'`.
//!
//! Values become text that can be parsed to the same bytes: where the plain form would lose anything (the payload of a NaN,
//! bytes that aren't text), the bytes are given in hexadecimal. The subtle thing: a plain number for a date or time is the
//! stored count since 1970; only for DATETIME_YEAR, four digits are a year of the calendar.

#[cfg(test)]
mod tests;

use super::calendar;
use super::tokens::{ListElement, elements};
use crate::error::{Error, Result};
use crate::format::datatype::Datatype;
use crate::format::schema::CellValNum;
use crate::geometry::key;

/// Not a time: the smallest integer.
const NAT: i64 = i64::MIN;

/// A value given to an [`ArrayBuilder`](super::ArrayBuilder).
#[derive(Debug, Clone, PartialEq)]
pub enum LiteralValue {
    /// As text, in the form that the type of the column demands: `2024-05-01`, `[1, 2]`, `x'00ff'`.
    Text(String),
    /// The bytes of a cell as they are stored, little-endian.
    Bytes(Vec<u8>),
}

macro_rules! from_numbers {
    ($($t:ty),*) => {$(
        impl From<$t> for LiteralValue {
            fn from(value: $t) -> Self {
                // The shortest text that gives the same number.
                Self::Text(format!("{value:?}"))
            }
        }
    )*};
}

from_numbers!(
    i8, i16, i32, i64, i128, u8, u16, u32, u64, usize, f32, f64, bool
);

impl From<&str> for LiteralValue {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for LiteralValue {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl LiteralValue {
    /// The bytes of one element.
    pub(crate) fn element(&self, datatype: Datatype) -> Result<Vec<u8>> {
        match self {
            Self::Text(text) => parse_element(datatype, text),
            Self::Bytes(bytes) => sized(datatype, CellValNum::Fixed(1), bytes.clone()),
        }
    }

    /// The bytes of a cell.
    pub(in crate::write) fn cell(&self, datatype: Datatype, count: CellValNum) -> Result<Vec<u8>> {
        match self {
            Self::Text(text) => parse_cell(datatype, count, text),
            Self::Bytes(bytes) => sized(datatype, count, bytes.clone()),
        }
    }
}

impl LiteralValue {
    /// The bytes of a cell that shows this value: text stands for itself, whatever it looks like.
    pub(crate) fn shown_cell(&self, datatype: Datatype, count: CellValNum) -> Result<Vec<u8>> {
        match self {
            Self::Text(text) if datatype.is_string() => {
                let bytes = padded(datatype, count, encode_text(datatype, text))?;
                sized(datatype, count, bytes)
            }
            value => value.cell(datatype, count),
        }
    }
}

/// The bytes of one element.
pub fn parse_element(datatype: Datatype, text: &str) -> Result<Vec<u8>> {
    let text = text.trim();
    if let Some(bytes) = hexadecimal(text)? {
        return sized(datatype, CellValNum::Fixed(1), bytes);
    }
    if datatype == Datatype::Bool {
        return match text.to_ascii_lowercase().as_str() {
            "true" | "1" => Ok(vec![1]),
            "false" | "0" => Ok(vec![0]),
            _ => Err(wrong(datatype, text, "expected true or false")),
        };
    }
    if datatype.is_datetime() || datatype.is_time() {
        let value = parse_time(datatype, text)?;
        return Ok(value.to_le_bytes().to_vec());
    }
    macro_rules! number {
        ($t:ty) => {
            match text.parse::<$t>() {
                Ok(number) => Ok(number.to_le_bytes().to_vec()),
                Err(_) => Err(wrong(
                    datatype,
                    text,
                    &format!("expected a number from {} to {}", <$t>::MIN, <$t>::MAX),
                )),
            }
        };
    }
    match datatype {
        Datatype::Int8 => number!(i8),
        Datatype::Int16 => number!(i16),
        Datatype::Int32 => number!(i32),
        Datatype::Int64 => number!(i64),
        Datatype::UInt8 => number!(u8),
        Datatype::UInt16 => number!(u16),
        Datatype::UInt32 => number!(u32),
        Datatype::UInt64 => number!(u64),
        Datatype::Float32 => number!(f32),
        Datatype::Float64 => number!(f64),
        _ => Err(wrong(datatype, text, "expected bytes such as x'00ff'")),
    }
}

fn parse_time(datatype: Datatype, text: &str) -> Result<i64> {
    if text.eq_ignore_ascii_case("nat") {
        return Ok(NAT);
    }
    let calendar_year = datatype == Datatype::DateTimeYear && text.len() == 4;
    if let (false, Ok(count)) = (calendar_year, text.parse()) {
        return Ok(count);
    }
    calendar::parse(datatype, text).map_err(|why| wrong(datatype, text, &why))
}

/// The bytes of a cell: the characters of text, an element, or several in brackets.
pub fn parse_cell(datatype: Datatype, count: CellValNum, text: &str) -> Result<Vec<u8>> {
    if let Some(bytes) = hexadecimal(text.trim())? {
        return sized(datatype, count, bytes);
    }
    let bytes = if datatype.is_string() {
        let inside = unquoted(text).unwrap_or_else(|| text.to_owned());
        padded(datatype, count, encode_text(datatype, &inside))?
    } else if count == CellValNum::Fixed(1) || datatype.is_binary() {
        parse_element(datatype, text)?
    } else {
        let mut bytes = Vec::new();
        for element in elements(text)? {
            bytes.extend(parse_element(datatype, element.text())?);
        }
        bytes
    };
    sized(datatype, count, bytes)
}

/// The bytes of text in the encoding of a type.
pub fn encode_text(datatype: Datatype, text: &str) -> Vec<u8> {
    match datatype {
        Datatype::StringUtf16 | Datatype::StringUcs2 => {
            text.encode_utf16().flat_map(u16::to_le_bytes).collect()
        }
        Datatype::StringUtf32 | Datatype::StringUcs4 => text
            .chars()
            .flat_map(|c| u32::from(c).to_le_bytes())
            .collect(),
        _ => text.as_bytes().to_vec(),
    }
}

/// Text padded with NUL bytes to fill a cell of a fixed size.
fn padded(datatype: Datatype, count: CellValNum, mut bytes: Vec<u8>) -> Result<Vec<u8>> {
    if let Some(size) = count.cell_size(datatype)? {
        bytes.resize(size.max(bytes.len()), 0);
    }
    Ok(bytes)
}

/// The text of bytes in the encoding of a type; `None` if they aren't text.
fn decode_text(datatype: Datatype, bytes: &[u8]) -> Option<String> {
    match datatype {
        Datatype::StringUtf16 | Datatype::StringUcs2 => {
            let (units, _) = bytes.as_chunks::<2>();
            String::from_utf16(
                &units
                    .iter()
                    .map(|u| u16::from_le_bytes(*u))
                    .collect::<Vec<_>>(),
            )
            .ok()
        }
        Datatype::StringUtf32 | Datatype::StringUcs4 => {
            let (units, _) = bytes.as_chunks::<4>();
            let mut units = units.iter().map(|u| char::from_u32(u32::from_le_bytes(*u)));
            units.by_ref().collect()
        }
        _ => String::from_utf8(bytes.to_vec()).ok(),
    }
}

/// An element as text that [`parse_element`] takes.
pub fn show_element(datatype: Datatype, bytes: &[u8]) -> String {
    let text = match datatype {
        Datatype::Bool => (bytes == [1]).to_string(),
        Datatype::Float32 => match bytes.try_into() {
            Ok(bits) => format!("{:?}", f32::from_le_bytes(bits)),
            Err(_) => String::new(),
        },
        Datatype::Float64 => match bytes.try_into() {
            Ok(bits) => format!("{:?}", f64::from_le_bytes(bits)),
            Err(_) => String::new(),
        },
        other if (other.is_datetime() || other.is_time()) && bytes == NAT.to_le_bytes() => {
            "NaT".to_owned()
        }
        _ => key::key(datatype, bytes)
            .map(|key| key::show(datatype, key))
            .unwrap_or_default(),
    };
    match parse_element(datatype, &text) {
        Ok(again) if again == bytes => text,
        _ => show_bytes(bytes),
    }
}

/// A cell as text that [`parse_cell`] takes.
pub fn show_cell(datatype: Datatype, count: CellValNum, bytes: &[u8]) -> String {
    let text = if datatype.is_string() {
        let printable = |text: &String| !text.contains(char::is_control);
        let text = decode_text(datatype, bytes).map(|mut text| {
            if count != CellValNum::Var {
                text.truncate(text.trim_end_matches('\0').len());
            }
            text
        });
        text.filter(printable).map(|text| {
            let plain = parse_cell(datatype, count, &text).is_ok_and(|again| again == bytes);
            // White space at an end is easily lost.
            let seen = text.trim() == text && !text.is_empty();
            if plain && seen { text } else { quoted(&text) }
        })
    } else if count == CellValNum::Fixed(1) {
        Some(show_element(datatype, bytes))
    } else if datatype.is_binary() {
        None
    } else {
        let size = datatype.size().max(1);
        let elements = bytes.chunks(size).map(|e| show_element(datatype, e));
        Some(format!("[{}]", elements.collect::<Vec<_>>().join(", ")))
    };
    let exact = |text: &String| {
        let again = parse_cell(datatype, count, text);
        again.is_ok_and(|again| again == bytes)
    };
    text.filter(exact).unwrap_or_else(|| show_bytes(bytes))
}

/// Text in double quotes, which are doubled inside it.
pub fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// The text between double quotes, if they enclose all of it.
fn unquoted(text: &str) -> Option<String> {
    match elements(&format!("[{text}]")).ok()?.as_slice() {
        [ListElement::Quoted(inside)] => Some(inside.clone()),
        _ => None,
    }
}

/// Bytes in hexadecimal.
pub fn show_bytes(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("x'{digits}'")
}

/// The bytes of `x'00ff'`; `None` for text of another form.
fn hexadecimal(text: &str) -> Result<Option<Vec<u8>>> {
    let digits = text
        .strip_prefix(['x', 'X'])
        .and_then(|t| t.strip_prefix('\''));
    let Some(digits) = digits.and_then(|digits| digits.strip_suffix('\'')) else {
        return Ok(None);
    };
    let wrong = || {
        Error::invalid(format!(
            "{text}: expected two hexadecimal digits for each byte"
        ))
    };
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return Err(wrong());
    }
    let byte = |pair: &[u8; 2]| {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        let value = digit(pair[0])? * 16 + digit(pair[1])?;
        u8::try_from(value).ok()
    };
    let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    bytes.map(Some).ok_or_else(wrong)
}

/// Fails unless the bytes are those of a cell.
fn sized(datatype: Datatype, count: CellValNum, bytes: Vec<u8>) -> Result<Vec<u8>> {
    let found = bytes.len();
    match count.cell_size(datatype)? {
        Some(size) if found != size => Err(Error::invalid(format!(
            "the value has {found} bytes, expected the {size} of {}",
            super::types::show(datatype, count)
        ))),
        None if found.checked_rem(datatype.size()) != Some(0) => Err(Error::invalid(format!(
            "the value has {found} bytes, expected whole elements of {} bytes",
            datatype.size()
        ))),
        _ => Ok(bytes),
    }
}

fn wrong(datatype: Datatype, text: &str, why: &str) -> Error {
    Error::invalid(format!("'{text}' isn't a value of {datatype}: {why}"))
}
