//! Cells are stored as they were read, and what cannot be stored is refused.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryViewArray, Date32Array, DictionaryArray, Int32Array, StringViewArray,
    TimestampSecondArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::Int8Type;
use proptest::prelude::*;

use super::*;
use crate::arrow::tile_buffer::TileBuffer;
use crate::arrow::{CellData, FloatBits, TimeAs, TypeOptions, UnfilteredCells};
use crate::format::datatype::Datatype;
use crate::format::enumeration::Enumeration;
use crate::format::schema::{Attribute, CellValNum, DataOrder};

fn attribute(datatype: Datatype, cell_val_num: CellValNum, nullable: bool) -> Attribute {
    Attribute {
        name: "a".to_owned(),
        datatype,
        cell_val_num,
        filters: Default::default(),
        fill_value: datatype.default_fill(),
        nullable,
        fill_valid: false,
        order: DataOrder::Unordered,
        enumeration: None,
        problem: None,
    }
}

/// One stored element that every option can show.
fn element(datatype: Datatype, random: u64) -> Vec<u8> {
    let number = random.cast_signed();
    match datatype {
        Datatype::Bool => vec![u8::from(random.is_multiple_of(2))],
        _ if datatype.is_time() => (number.rem_euclid(24)).to_le_bytes().to_vec(),
        Datatype::DateTimeYear | Datatype::DateTimeMonth | Datatype::DateTimeWeek => {
            (number % 60_000).to_le_bytes().to_vec()
        }
        Datatype::DateTimeDay => (number % (1 << 31)).to_le_bytes().to_vec(),
        Datatype::DateTimeHr | Datatype::DateTimeMin => (number / 4000).to_le_bytes().to_vec(),
        _ if datatype.is_datetime() => number.max(i64::MIN + 1).to_le_bytes().to_vec(),
        Datatype::StringUtf16 | Datatype::StringUcs2 => vec![b'a' + (random % 26) as u8, 1],
        Datatype::StringUtf32 | Datatype::StringUcs4 => vec![(random % 26) as u8, 0xF6, 1, 0],
        _ if datatype.is_string() => vec![b'a' + (random % 26) as u8],
        _ => random.to_le_bytes()[..datatype.size()].to_vec(),
    }
}

/// Cells as they lie on storage; those of NULLs are zeros or empty.
fn stored(ty: &Attribute, random: &[(u64, bool, u8)]) -> StoredCells {
    let mut cells = StoredCells::none(ty.is_var(), ty.nullable);
    for (seed, valid, len) in random {
        let is_null = ty.nullable && !valid;
        let count = match ty.cell_val_num {
            CellValNum::Fixed(count) => count as u8,
            CellValNum::Var => *len,
        };
        if let Some(starts) = &mut cells.starts {
            starts.push(cells.values.len() as u64);
        }
        cells.len += 1;
        if let Some(validity) = &mut cells.validity {
            validity.push(u8::from(!is_null));
        }
        for i in 0..u64::from(count) {
            match (is_null, ty.is_var()) {
                (true, true) => {}
                (true, false) => cells.values.extend(vec![0; ty.datatype.size()]),
                _ => cells
                    .values
                    .extend(element(ty.datatype, seed.wrapping_mul(i * 2 + 1))),
            }
        }
    }
    cells
}

fn shown(ty: &ColumnType, cells: &StoredCells) -> ArrayRef {
    let nulls = cells
        .validity
        .as_ref()
        .map(|v| v.iter().map(|v| *v != 0).collect::<NullBuffer>());
    let data = TileBuffer::copy_of(&cells.values).unwrap();
    let data = match &cells.starts {
        None => CellData::Fixed(data),
        Some(starts) => {
            let mut offsets = TileBuffer::zeroed((starts.len() + 1) * 8).unwrap();
            let slots = offsets.typed_data_mut::<u64>().iter_mut();
            slots.zip(starts).for_each(|(slot, start)| *slot = *start);
            CellData::Var { offsets, data }
        }
    };
    let len = cells.len;
    ty.to_array(UnfilteredCells { len, data, nulls }).unwrap()
}

/// Values and validity of cells, and elements in each.
type RandomCells = [(u64, bool, u8)];

fn are_stored_as_they_were_read(
    attribute: &Attribute,
    time_as: TimeAs,
    random: &RandomCells,
    cut: usize,
) {
    // As statements read what they write again: the default shows all NaN with the same bits.
    let options = TypeOptions {
        time_as,
        float_bits: FloatBits::Stored,
        ..TypeOptions::default()
    };
    let ty = ColumnType::of_attribute(attribute, None, &options).unwrap();
    let expected = stored(attribute, random);
    let column = shown(&ty, &expected);
    let writer = CellWriter::new(ty, attribute.nullable).unwrap();
    let mut found = writer.no_cells();
    // In two parts, of which the second does not begin at the start of its buffers.
    let cut = cut.min(column.len());
    writer.append(&column.slice(0, cut), &mut found).unwrap();
    writer
        .append(&column.slice(cut, column.len() - cut), &mut found)
        .unwrap();
    assert_eq!(found, expected);
}

proptest! {
    #[test]
    fn cells_are_stored_as_they_were_read(
        datatype in (0..44u8).prop_map(|code| Datatype::from_code(code).unwrap()),
        shape in prop_oneof![Just(CellValNum::Fixed(1)), Just(CellValNum::Fixed(3)), Just(CellValNum::Var)],
        nullable: bool,
        durations: bool,
        random in prop::collection::vec((any::<u64>(), any::<bool>(), 0..4u8), 0..20),
        cut in 0..20_usize,
    ) {
        let time_as = if durations { TimeAs::Duration } else { TimeAs::TimeOfDay };
        are_stored_as_they_were_read(&attribute(datatype, shape, nullable), time_as, &random, cut);
    }
}

/// Found by the test above.
#[test]
fn a_null_list_of_years_is_stored_as_it_was_read() {
    let years = attribute(Datatype::DateTimeYear, CellValNum::Fixed(3), true);
    are_stored_as_they_were_read(&years, TimeAs::TimeOfDay, &[(0, false, 0)], 0);
}

fn refused(attribute: &Attribute, column: ArrayRef) -> (usize, String) {
    let ty = ColumnType::of_attribute(attribute, None, &TypeOptions::default()).unwrap();
    let writer = CellWriter::new(ty, attribute.nullable).unwrap();
    let refused = writer.append(&column, &mut writer.no_cells()).unwrap_err();
    (refused.row, refused.why.message().to_owned())
}

#[test]
fn what_a_field_cannot_hold_is_refused() {
    let one = CellValNum::Fixed(1);
    let int = attribute(Datatype::Int32, one, false);
    let (row, why) = refused(&int, Arc::new(Int32Array::from(vec![Some(1), None])));
    assert_eq!(row, 1);
    assert_eq!(why, "the value is NULL, and the field is not nullable");
    let text = attribute(Datatype::StringUtf8, CellValNum::Var, false);
    let column = StringViewArray::from(vec![Some("a"), Some("b"), None]);
    assert_eq!(refused(&text, Arc::new(column)).0, 2);
    let months = attribute(Datatype::DateTimeMonth, one, false);
    let (row, why) = refused(&months, Arc::new(Date32Array::from(vec![0, 31, 32])));
    assert_eq!(row, 2);
    assert!(why.contains("1970-02-02 is not the first day"), "{why}");
    let hours = attribute(Datatype::DateTimeHr, one, false);
    let (row, why) = refused(
        &hours,
        Arc::new(TimestampSecondArray::from(vec![3600, 3601])),
    );
    assert_eq!(row, 1);
    assert!(
        why.contains("1970-01-01T01:00:01 isn't a whole number"),
        "{why}"
    );
    let seconds = attribute(Datatype::DateTimeSec, one, false);
    let (_, why) = refused(
        &seconds,
        Arc::new(TimestampSecondArray::from(vec![i64::MIN])),
    );
    assert!(why.contains("give NULL"), "{why}");
    let codes = attribute(Datatype::Char, CellValNum::Fixed(2), false);
    let (row, why) = refused(&codes, Arc::new(StringViewArray::from(vec!["ab", "abc"])));
    assert_eq!(row, 1);
    assert!(
        why.contains("has 3 bytes, and a cell of the field holds 2 at most"),
        "{why}"
    );
    let (row, why) = refused(
        &codes,
        Arc::new(StringViewArray::from(vec!["a", "", "a\0"])),
    );
    assert_eq!(row, 2);
    assert!(why.contains("ends in a NUL character"), "{why}");
    let blob = attribute(Datatype::Blob, CellValNum::Var, false);
    assert_eq!(
        refused(&blob, Arc::new(BinaryViewArray::from(vec![None]))).0,
        0
    );
}

#[test]
fn a_null_time_is_not_a_time() {
    let attribute = attribute(Datatype::DateTimeSec, CellValNum::Fixed(1), false);
    let ty = ColumnType::of_attribute(&attribute, None, &TypeOptions::default()).unwrap();
    let column: ArrayRef = Arc::new(TimestampSecondArray::from(vec![Some(7), None]));
    let strict = CellWriter::new(ty.clone(), false).unwrap();
    let refused = strict.append(&column, &mut strict.no_cells());
    assert_eq!(refused.unwrap_err().row, 1);
    // A value that was read as NULL is stored unchanged.
    let writer = CellWriter::of_attribute(ty, &attribute, NullPolicy::Kept).unwrap();
    let mut cells = writer.no_cells();
    writer.append(&column, &mut cells).unwrap();
    assert_eq!(cells.cell(0, 8), 7_i64.to_le_bytes());
    assert_eq!(cells.cell(1, 8), i64::MIN.to_le_bytes());
    assert_eq!(cells.validity, None);
}

#[test]
fn values_of_an_enumeration_become_codes() {
    let enumeration = Enumeration {
        name: "colour".to_owned(),
        file: "__1_0".to_owned(),
        datatype: Datatype::StringUtf8,
        cell_val_num: CellValNum::Var,
        ordered: false,
        data: b"redgreen".to_vec(),
        offsets: Some(vec![0, 3]),
    };
    for nullable in [false, true] {
        let mut attribute = attribute(Datatype::Int8, CellValNum::Fixed(1), nullable);
        attribute.enumeration = Some("colour".to_owned());
        let options = TypeOptions::default();
        let ty = ColumnType::of_attribute(&attribute, Some(&enumeration), &options).unwrap();
        let writer = CellWriter::new(ty, nullable).unwrap();
        // The dictionary of the column has its own order, and values that no row has.
        let column = |rows: Vec<Option<&str>>| -> ArrayRef {
            let own = DictionaryArray::<Int8Type>::from_iter([Some("blue"), Some("green")]);
            let rows = DictionaryArray::<Int8Type>::from_iter(rows);
            let both = arrow::compute::concat(&[&own, &rows]).unwrap();
            both.slice(2, rows.len())
        };
        let mut cells = writer.no_cells();
        let rows = vec![Some("green"), Some("red"), Some("green")];
        writer.append(&column(rows), &mut cells).unwrap();
        assert_eq!(cells.values, [1, 0, 1]);
        let refused = writer
            .append(&column(vec![Some("red"), Some("blue")]), &mut cells)
            .unwrap_err();
        assert_eq!(refused.row, 1);
        assert!(
            refused
                .why
                .message()
                .contains("'blue' is not a value of the enumeration")
        );
        let mut cells = writer.no_cells();
        let appended = writer.append(&column(vec![None, Some("green")]), &mut cells);
        assert_eq!(appended.is_ok(), nullable);
        if !nullable {
            // A kept NULL is stored as the fill value, -128, unless that is a code of the enumeration.
            let kept = [(0x80, Some(0x80)), (1, Some(0xff)), (2, Some(2))]
                .map(|(fill, null)| (NullPolicy::Kept, fill, null));
            for (nulls, fill, null) in kept.into_iter().chain([(NullPolicy::Refused, 0x80, None)]) {
                attribute.fill_value = vec![fill];
                let ty = writer.column_type().clone();
                let writer = CellWriter::of_attribute(ty, &attribute, nulls).unwrap();
                let mut cells = writer.no_cells();
                let appended = writer.append(&column(vec![None, Some("green")]), &mut cells);
                assert_eq!(appended.is_ok().then(|| cells.values[0]), null, "{fill}");
            }
        }
        if nullable {
            assert_eq!(cells.values, [0, 1]);
            assert_eq!(cells.validity, Some(vec![0, 1]));
        }
    }
}
