//! Stored values as text.
//!
//! Numbers are shown as numbers, dates and times in ISO 8601 (`NaT` for the invalid one), text unchanged, opaque bytes
//! in hexadecimal, several numbers in brackets. The subtle thing: different invalid texts must be shown differently, so
//! invalid bytes are shown as `\x80`.

use std::fmt::Write;

use tiledb_engine::format::datatype::Datatype;
use tiledb_engine::geometry::key;

/// One cell with any number of elements.
pub(super) fn cell(datatype: Datatype, bytes: &[u8]) -> String {
    if datatype.is_string() {
        return text(datatype, bytes);
    }
    if datatype.is_binary() {
        return hex(bytes);
    }
    let mut elements = elements(datatype, bytes);
    match (elements.pop(), elements.is_empty()) {
        (Some(only), true) => only,
        (last, _) => {
            elements.extend(last);
            format!("[{}]", elements.join(", "))
        }
    }
}

/// The elements of a cell of numbers, dates or times.
pub(super) fn elements(datatype: Datatype, bytes: &[u8]) -> Vec<String> {
    bytes
        .chunks(datatype.size().max(1))
        .map(|bytes| element(datatype, bytes))
        .collect()
}

fn element(datatype: Datatype, bytes: &[u8]) -> String {
    if datatype == Datatype::Bool {
        return bytes.iter().any(|b| *b != 0).to_string();
    }
    if let (Datatype::Float32, Ok(bits)) = (datatype, bytes.try_into()) {
        return format!("{:?}", f32::from_le_bytes(bits));
    }
    if let (Datatype::Float64, Ok(bits)) = (datatype, bytes.try_into()) {
        return format!("{:?}", f64::from_le_bytes(bits));
    }
    if (datatype.is_datetime() || datatype.is_time()) && bytes == i64::MIN.to_le_bytes() {
        return "NaT".to_owned();
    }
    match key::key(datatype, bytes) {
        Ok(key) => key::show(datatype, key),
        // There are fewer bytes than an element has.
        Err(_) => hex(bytes),
    }
}

/// Bytes that should be UTF-8; invalid ones are escaped.
pub(crate) fn utf8(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        escape(&mut text, chunk.invalid());
    }
    text
}

fn text(datatype: Datatype, bytes: &[u8]) -> String {
    match datatype {
        Datatype::StringUtf16 | Datatype::StringUcs2 => utf16(bytes),
        Datatype::StringUtf32 | Datatype::StringUcs4 => utf32(bytes),
        _ => utf8(bytes),
    }
}

fn utf16(bytes: &[u8]) -> String {
    let (units, rest) = bytes.as_chunks::<2>();
    let mut text = String::with_capacity(bytes.len());
    for unit in char::decode_utf16(units.iter().map(|u| u16::from_le_bytes(*u))) {
        match unit {
            Ok(c) => text.push(c),
            Err(e) => escape(&mut text, &e.unpaired_surrogate().to_le_bytes()),
        }
    }
    escape(&mut text, rest);
    text
}

fn utf32(bytes: &[u8]) -> String {
    let (units, rest) = bytes.as_chunks::<4>();
    let mut text = String::with_capacity(bytes.len());
    for unit in units {
        match char::from_u32(u32::from_le_bytes(*unit)) {
            Some(c) => text.push(c),
            None => escape(&mut text, unit),
        }
    }
    escape(&mut text, rest);
    text
}

fn escape(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "\\x{byte:02x}");
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_value() {
        let cases: [(Datatype, &[u8], &str); 16] = [
            (Datatype::Int8, &[0xff], "-1"),
            (Datatype::Int16, &[1, 0, 2, 0], "[1, 2]"),
            (Datatype::Int16, &[], "[]"),
            (Datatype::UInt64, &[0xff; 8], "18446744073709551615"),
            (Datatype::Float32, &[0, 0, 0xc0, 0x7f], "NaN"),
            (Datatype::Float64, &(-0.0_f64).to_le_bytes(), "-0.0"),
            (Datatype::Float64, &1e300_f64.to_le_bytes(), "1e300"),
            (Datatype::Float64, &f64::INFINITY.to_le_bytes(), "inf"),
            (Datatype::Bool, &[1, 0], "[true, false]"),
            (
                Datatype::DateTimeDay,
                &19_782_i64.to_le_bytes(),
                "2024-02-29",
            ),
            (Datatype::DateTimeNs, &i64::MIN.to_le_bytes(), "NaT"),
            (Datatype::StringUtf8, b"a\0\xc3\xa9\xff", "a\0é\\xff"),
            (Datatype::Char, &[0x80], "\\x80"),
            (
                Datatype::StringUtf16,
                &[0x61, 0, 0x3d, 0xd8, 0, 0xde, 0, 0xd8],
                "a😀\\x00\\xd8",
            ),
            (
                Datatype::StringUcs4,
                &[0x61, 0, 0, 0, 0, 0, 0x11, 0],
                "a\\x00\\x00\\x11\\x00",
            ),
            (Datatype::Blob, &[0, 0xab], "00ab"),
        ];
        for (datatype, bytes, expected) in cases {
            assert_eq!(cell(datatype, bytes), expected, "{datatype}");
        }
    }
}
