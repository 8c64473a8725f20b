//! The checks of one field of a tile, which are the same in sparse and in dense fragments, and of its values: validity
//! bytes, text, and codes of an enumeration.

use super::context::{CheckedFragment, CheckedReader, TileSource};
use super::{TileFindings, TileProblem, of_field};
use crate::array::fragment::FragmentField;
use crate::error::Result;
use crate::format::datatype::Datatype;
use crate::geometry::box_runs::CellRun;
use crate::maintain::check::directory::folders::about_stored;
use crate::maintain::check::rule::Rule;
use crate::maintain::check::statistics::{self, CheckedValues, TileContents};
use crate::maintain::column::DecodedColumn;
use crate::tile::decode::CellOrder;
use crate::tile::tile_memory::DecodeScratch;

impl CheckedValues for DecodedColumn {
    fn cell(&self, index: usize) -> &[u8] {
        DecodedColumn::cell(self, index)
    }

    fn is_null(&self, index: usize) -> bool {
        DecodedColumn::is_null(self, index)
    }
}

/// Decodes a field of a tile; `None` if it is reported as unreadable.
pub fn decode(
    source: &TileSource<'_>,
    field: usize,
    order: Option<&CellOrder>,
    scratch: &mut DecodeScratch,
    findings: &mut TileFindings,
) -> Result<Option<DecodedColumn>> {
    let audited = source.audited;
    let requested = source.requested.get(field).copied().flatten();
    let (Some(reader), Some(requested)) = (audited.fields.get(field), requested) else {
        return Ok(None);
    };
    let bytes = source.fetched.tile(requested.ticket)?;
    match reader.decode(&requested, &bytes, source.cells, order, scratch) {
        Ok(column) => {
            findings.fields = findings.fields.saturating_add(1);
            Ok(Some(column))
        }
        Err(e) => {
            let found = about_stored(e)?.to_string();
            let expected = format!("{} cells", source.cells);
            let rule = Rule::UnreadableTile;
            let problem = of_field(rule, field, source.tile, found, expected);
            findings.problems.push(problem);
            Ok(None)
        }
    }
}

/// Checks the values of a field, and its statistics. `runs` are the cells that hold data.
pub fn check(
    source: &TileSource<'_>,
    field: usize,
    column: &DecodedColumn,
    runs: &[CellRun],
    scratch: &mut DecodeScratch,
    findings: &mut TileFindings,
) -> Result<()> {
    let audited = source.audited;
    let tile = source.tile;
    let requested = source.requested.get(field).copied().flatten();
    let (Some(reader), Some(requested)) = (audited.fields.get(field), requested) else {
        return Ok(());
    };
    let problems = &mut findings.problems;
    if reader.field.nullable && !reader.field.validity_lost {
        let bytes = source.fetched.tile(requested.ticket)?;
        // A failure needs no report: the validity was decoded once already.
        if let Ok(Some(validity)) = reader.stored.validity(&bytes, source.cells, scratch) {
            check_validity(validity.as_slice(), field, tile, runs, problems);
        }
    }
    check_text(audited, reader, column, field, tile, runs, problems);
    check_codes(audited, reader, column, field, tile, runs, problems);
    let counted: usize = runs.iter().map(|run| run.len).sum();
    let seen = TileContents {
        visible: statistics::compute(&reader.field, column, counted_cells(runs)),
        whole: (counted < column.len)
            .then(|| statistics::compute(&reader.field, column, 0..column.len)),
    };
    let context = statistics::StatisticsContext {
        version: audited.sound.fragment.footer.version,
        dense: audited.sound.fragment.footer.dense,
        exact: audited.exact,
    };
    let index = usize::try_from(tile)?;
    for mismatch in
        statistics::compare_tile(&reader.field, &reader.statistics, index, &seen, &context)
    {
        problems.push(TileProblem {
            rule: mismatch.rule,
            field: Some(field),
            tile,
            found: mismatch.found,
            expected: mismatch.expected,
        });
    }
    if let Some(total) = findings.totals.get_mut(field) {
        *total = Some(seen);
    }
    Ok(())
}

/// The cells of a tile that hold data: all cells, or the written ones of a dense tile.
fn counted_cells(runs: &[CellRun]) -> impl Iterator<Item = usize> {
    let runs = runs.iter();
    runs.flat_map(|run| run.start..run.start.saturating_add(run.len))
}

/// Validity is 0 or 1.
fn check_validity(
    bytes: &[u8],
    field: usize,
    tile: u64,
    runs: &[CellRun],
    problems: &mut Vec<TileProblem>,
) {
    let odd = |cell: &usize| bytes.get(*cell).is_some_and(|byte| *byte > 1);
    let mut odd = counted_cells(runs).filter(odd);
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

/// Checks that text is valid in its encoding or is the usual fill value of CHAR.
fn check_text(
    audited: &CheckedFragment,
    reader: &CheckedReader,
    column: &DecodedColumn,
    field: usize,
    tile: u64,
    runs: &[CellRun],
    problems: &mut Vec<TileProblem>,
) {
    let Some(is_valid) = validator(reader.field.datatype) else {
        return;
    };
    let fill = match reader.field.field {
        FragmentField::Attribute(a) => audited.sound.fragment.schema.attributes.get(a),
        _ => None,
    };
    let fill = fill
        .filter(|attribute| attribute.fills_with_no_text())
        .map(|attribute| attribute.fill_value.as_slice());
    let invalid = |cell: &usize| {
        let bytes = column.cell(*cell);
        !column.is_null(*cell) && Some(bytes) != fill && !is_valid(bytes)
    };
    let mut invalid = counted_cells(runs).filter(invalid);
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

/// Checks that codes are indexes of values. The fill value may be another number, but it occurs only in unwritten cells, which
/// dense fragments may have, and in deleted cells.
fn check_codes(
    audited: &CheckedFragment,
    reader: &CheckedReader,
    column: &DecodedColumn,
    field: usize,
    tile: u64,
    runs: &[CellRun],
    problems: &mut Vec<TileProblem>,
) {
    let enumeration = audited.enumerations.get(field).and_then(Option::as_ref);
    let Some(values) = enumeration.map(|enumeration| enumeration.len()) else {
        return;
    };
    let fill = match reader.field.field {
        FragmentField::Attribute(a) => audited.sound.fragment.schema.attributes.get(a),
        _ => None,
    };
    let may_be_fill = audited.sound.fragment.footer.dense
        || audited.system(FragmentField::DeleteTimestamps).is_some();
    let fill = fill
        .filter(|_| may_be_fill)
        .map_or(&[][..], |attribute| &attribute.fill_value);
    let signed = reader.field.datatype.is_signed();
    let unknown = |cell: &usize| {
        let bytes = column.cell(*cell);
        !column.is_null(*cell) && bytes != fill && code(bytes, signed).is_none_or(|c| c >= values)
    };
    let mut unknown = counted_cells(runs).filter(unknown);
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
