//! The values of a field: validity bytes, text, and codes of an enumeration.

use super::context::Audited;
use super::reader::FieldReader;
use super::{Problem, of_field};
use crate::array::fragment::FragmentField;
use crate::format::datatype::Datatype;
use crate::geometry::box_runs::Run;
use crate::maintain::check::rule::Rule;
use crate::maintain::column::Column;

/// The cells of a tile that count: all, or those of a dense tile that were written.
pub fn cells(runs: &[Run]) -> impl Iterator<Item = usize> {
    let runs = runs.iter();
    runs.flat_map(|run| run.start..run.start.saturating_add(run.len))
}

/// Validity is 0 or 1.
pub fn validity(bytes: &[u8], field: usize, tile: u64, runs: &[Run], problems: &mut Vec<Problem>) {
    let odd = |cell: &usize| bytes.get(*cell).is_some_and(|byte| *byte > 1);
    let mut odd = cells(runs).filter(odd);
    if let Some(first) = odd.next() {
        let count = odd.count().saturating_add(1);
        let byte = bytes.get(first).copied().unwrap_or_default();
        let found = format!("{count} other bytes, the first of them {byte} of cell {first}");
        problems.push(of_field(
            Rule::ValidityBytes,
            field,
            tile,
            found,
            "bytes 0 and 1",
        ));
    }
}

/// Text is valid in its encoding.
pub fn text(
    reader: &FieldReader,
    column: &Column,
    field: usize,
    tile: u64,
    runs: &[Run],
    problems: &mut Vec<Problem>,
) {
    let Some(is_valid) = validator(reader.field.datatype) else {
        return;
    };
    let invalid = |cell: &usize| !column.is_null(*cell) && !is_valid(column.cell(*cell));
    let mut invalid = cells(runs).filter(invalid);
    if let Some(first) = invalid.next() {
        let count = invalid.count().saturating_add(1);
        let found = format!("{count} cells of other bytes, the first of them {first}");
        let expected = format!("valid {}", reader.field.datatype);
        problems.push(of_field(Rule::InvalidText, field, tile, found, expected));
    }
}

fn validator(datatype: Datatype) -> Option<fn(&[u8]) -> bool> {
    match datatype {
        Datatype::Char | Datatype::StringAscii | Datatype::StringUtf8 | Datatype::GeomWkt => {
            Some(|bytes| std::str::from_utf8(bytes).is_ok())
        }
        Datatype::StringUtf16 | Datatype::StringUcs2 => Some(|bytes| {
            let (units, rest) = bytes.as_chunks::<2>();
            let units = units.iter().map(|unit| u16::from_le_bytes(*unit));
            rest.is_empty() && char::decode_utf16(units).all(|c| c.is_ok())
        }),
        Datatype::StringUtf32 | Datatype::StringUcs4 => Some(|bytes| {
            let (units, rest) = bytes.as_chunks::<4>();
            let is_char = |unit: &[u8; 4]| char::from_u32(u32::from_le_bytes(*unit)).is_some();
            rest.is_empty() && units.iter().all(is_char)
        }),
        _ => None,
    }
}

/// Codes are indexes of values; that of a cell which was never written need not be one.
pub fn codes(
    audited: &Audited,
    reader: &FieldReader,
    column: &Column,
    field: usize,
    tile: u64,
    runs: &[Run],
    problems: &mut Vec<Problem>,
) {
    let enumeration = audited.enumerations.get(field).and_then(Option::as_ref);
    let Some(values) = enumeration.map(|enumeration| enumeration.len()) else {
        return;
    };
    let fill = match reader.field.field {
        FragmentField::Attribute(a) => audited.sound.fragment.schema.attributes.get(a),
        _ => None,
    };
    let fill = fill.map_or(&[][..], |attribute| &attribute.fill_value);
    let signed = reader.field.datatype.is_signed();
    let unknown = |cell: &usize| {
        let bytes = column.cell(*cell);
        !column.is_null(*cell) && bytes != fill && code(bytes, signed).is_none_or(|c| c >= values)
    };
    let mut unknown = cells(runs).filter(unknown);
    if let Some(first) = unknown.next() {
        let count = unknown.count().saturating_add(1);
        let found = format!("{count} other codes, the first of them in cell {first}");
        let expected = format!("codes below {values}, the number of values");
        problems.push(of_field(Rule::UnknownCode, field, tile, found, expected));
    }
}

/// A stored code; `None` if it is negative.
fn code(bytes: &[u8], signed: bool) -> Option<usize> {
    let negative = signed && bytes.last().is_some_and(|byte| *byte >= 0x80);
    let mut wide = [0; 8];
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    let code = usize::try_from(u64::from_le_bytes(wide)).ok()?;
    (!negative).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_every_width() {
        assert_eq!(code(&[7], false), Some(7));
        assert_eq!(code(&[0xff], false), Some(255));
        assert_eq!(code(&[0xff], true), None);
        assert_eq!(code(&[1, 2], true), Some(513));
        assert_eq!(code(&[0, 0, 0, 0x80], true), None);
        assert_eq!(code(&[1; 9], false), None);
    }

    #[test]
    fn text_in_each_encoding() {
        let valid = |datatype, bytes: &[u8]| validator(datatype).is_some_and(|v| v(bytes));
        assert!(valid(Datatype::StringUtf8, "é".as_bytes()));
        assert!(!valid(Datatype::StringAscii, &[0x80]));
        assert!(valid(Datatype::StringUtf16, &[0xe9, 0]));
        assert!(!valid(Datatype::StringUtf16, &[0, 0xd8]));
        assert!(!valid(Datatype::StringUcs2, &[1]));
        assert!(valid(Datatype::StringUtf32, &[0xe9, 0, 0, 0]));
        assert!(!valid(Datatype::StringUcs4, &[0, 0xd8, 0, 0]));
        assert!(validator(Datatype::Blob).is_none());
    }
}
