//! Tests of strings, byte strings and lists, and of cells that must be rejected.

use arrow::array::{
    Array, AsArray, BinaryViewArray, BooleanArray, Date32Array, FixedSizeBinaryArray,
    StringViewArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{Date32Type, Int16Type};
use std::sync::Arc;

use super::*;
use crate::filter::EncodedStrings;

#[test]
fn fixed_strings_lose_only_their_padding() {
    let three = ty(Datatype::StringAscii, CellValNum::Fixed(3));
    let raw = TypeOptions {
        fixed_text: FixedText::Raw,
        ..TypeOptions::default()
    };
    let raw_three = with(raw, Datatype::StringAscii, CellValNum::Fixed(3));
    for (ty, middle) in [(three, ""), (raw_three, "\0\0\0")] {
        let array = fixed(&ty, b"abc\0\0\0x\0y", Some(vec![true, true, true])).unwrap();
        let expected = StringViewArray::from(vec!["abc", middle, "x\0y"]);
        assert_eq!(array.as_ref(), &expected);
    }
    let long = ty(Datatype::Char, CellValNum::Fixed(20));
    let array = fixed(&long, b"0123456789abcdefghijABCDEFGHIJ0123456789", None).unwrap();
    assert_eq!(array.as_string_view().value(1), "ABCDEFGHIJ0123456789");
    let utf16 = ty(Datatype::StringUtf16, CellValNum::Fixed(2));
    let array = fixed(&utf16, b"a\0b\0\xac\x20\0\0", None).unwrap();
    assert_eq!(array.as_ref(), &StringViewArray::from(vec!["ab", "€"]));
    // The usual fill value of CHAR isn't text.
    let chars = fixed(&ty(Datatype::Char, ONE), &[b'a', 0x80, 0], None).unwrap();
    let expected = StringViewArray::from(vec![Some("a"), None, Some("")]);
    assert_eq!(chars.as_ref(), &expected);
    assert!(fixed(&ty(Datatype::Char, ONE), &[0x81], None).is_err());
    let blob = fixed(&ty(Datatype::Blob, CellValNum::Fixed(2)), b"\xff\0ab", None).unwrap();
    let blob = blob
        .as_any()
        .downcast_ref::<FixedSizeBinaryArray>()
        .unwrap();
    assert_eq!((blob.value(0), blob.value(1)), (&b"\xff\0"[..], &b"ab"[..]));
}

#[test]
fn invalid_text_follows_the_option() {
    let data = b"ok\xff";
    let option = |invalid_utf8| TypeOptions {
        invalid_utf8,
        ..TypeOptions::default()
    };
    for datatype in [
        Datatype::Char,
        Datatype::StringAscii,
        Datatype::StringUtf8,
        Datatype::GeomWkt,
    ] {
        let error = with(option(InvalidUtf8::Error), datatype, CellValNum::Var);
        let error = var(&error, &[0, 2], data, None).unwrap_err();
        assert!(error.message().contains("cell 1"), "{error}");
        let lossy = with(option(InvalidUtf8::Lossy), datatype, CellValNum::Var);
        let array = var(&lossy, &[0, 2], data, None).unwrap();
        assert_eq!(
            array.as_ref(),
            &StringViewArray::from(vec!["ok", "\u{fffd}"])
        );
        let binary = with(option(InvalidUtf8::Binary), datatype, CellValNum::Var);
        let array = var(&binary, &[0, 2], data, None).unwrap();
        assert_eq!(
            array.as_ref(),
            &BinaryViewArray::from(vec![&b"ok"[..], b"\xff"])
        );
        let array = fixed(
            &with(option(InvalidUtf8::Binary), datatype, CellValNum::Fixed(3)),
            data,
            None,
        );
        assert_eq!(
            array.unwrap().as_ref(),
            &BinaryViewArray::from(vec![&data[..]])
        );
    }
}

#[test]
fn variable_cells_follow_their_offsets() {
    let text = ty(Datatype::StringUtf8, CellValNum::Var);
    let array = var(&text, &[0, 0, 7, 7], "żółw".as_bytes(), None).unwrap();
    assert_eq!(
        array.as_ref(),
        &StringViewArray::from(vec!["", "żółw", "", ""])
    );
    let array = var(&text, &[0, 3], b"abc", Some(vec![true, false])).unwrap();
    assert_eq!(
        array.as_ref(),
        &StringViewArray::from(vec![Some("abc"), None])
    );
    // Offsets of very old writers do not start at 0.
    let array = var(&text, &[100, 101, 103], b"abcd", None).unwrap();
    assert_eq!(array.as_ref(), &StringViewArray::from(vec!["a", "bc", "d"]));
    let array = var(&text, &[], b"", None).unwrap();
    assert_eq!(array.len(), 0);
    let blob = var(&ty(Datatype::Blob, CellValNum::Var), &[0, 1], b"\x80", None).unwrap();
    assert_eq!(
        blob.as_ref(),
        &BinaryViewArray::from(vec![&b"\x80"[..], b""])
    );
}

#[test]
fn hostile_offsets_are_errors() {
    for datatype in [
        Datatype::StringUtf8,
        Datatype::Blob,
        Datatype::UInt8,
        Datatype::StringUtf32,
    ] {
        let ty = ty(datatype, CellValNum::Var);
        let hostile: [&[u64]; 6] = [
            &[0, 4, 2],
            &[0, 5],
            &[0, u64::MAX],
            &[0, 1 << 63],
            &[4, 3, 4],
            &[0, u64::MAX, 1],
        ];
        for starts in hostile {
            let error = var(&ty, starts, b"abcd", None).unwrap_err();
            assert_eq!(error.kind(), crate::error::ErrorKind::Corrupt, "{starts:?}");
            assert!(error.message().contains("cell "), "{error}");
        }
    }
    let error = var(
        &ty(Datatype::Int32, CellValNum::Var),
        &[0, 4, 6],
        &[0; 8],
        None,
    )
    .unwrap_err();
    assert!(error.message().contains("cell 1 ends at byte 6"), "{error}");
    assert!(var(&ty(Datatype::Int32, CellValNum::Var), &[0], &[0; 7], None).is_err());
}

#[test]
fn wrong_sizes_are_refused() {
    let ty8 = ty(Datatype::Int64, ONE);
    let cells = |len, n, nulls| UnfilteredCells {
        len,
        data: CellData::Fixed(TileBuffer::zeroed(n).unwrap()),
        nulls,
    };
    assert!(ty8.to_array(cells(2, 8, None)).is_err());
    assert!(ty8.to_array(cells(1, 16, None)).is_err());
    assert!(
        ty8.to_array(cells(1, 8, Some(NullBuffer::new_null(2))))
            .is_err()
    );
    assert!(ty8.to_array(cells(usize::MAX, 8, None)).is_err());
    let data = CellData::Var {
        offsets: TileBuffer::zeroed(8).unwrap(),
        data: TileBuffer::zeroed(0).unwrap(),
    };
    assert!(
        ty(Datatype::Blob, CellValNum::Var)
            .to_array(UnfilteredCells {
                len: 1,
                data,
                nulls: None
            })
            .is_err()
    );
    assert!(TileBuffer::zeroed(usize::MAX).is_err());
    assert!(TileBuffer::zeroed(1 << 60).is_err());
}

#[test]
fn lists_of_numbers_and_dates() {
    let list = ty(Datatype::Int16, CellValNum::Var);
    let data: Vec<u8> = [1i16, -2, i16::MAX]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    let array = var(&list, &[0, 2, 2], &data, Some(vec![true, true, false])).unwrap();
    let array = array.as_list::<i32>();
    assert_eq!(array.value(0).as_primitive::<Int16Type>().values(), &[1]);
    assert_eq!(array.value(1).len(), 0);
    assert!(array.is_null(2));
    assert_eq!(array.values().len(), 3);

    // A value that does not fit is an error only in cells that are not NULL, and the error names the cell.
    let dates = ty(Datatype::DateTimeDay, CellValNum::Var);
    let data = i64s(&[1, i64::MAX, i64::MIN, 3]);
    let array = var(&dates, &[0, 8, 16], &data, Some(vec![true, false, true])).unwrap();
    let array = array.as_list::<i32>();
    let last = array.value(2);
    assert_eq!(
        last.as_primitive::<Date32Type>(),
        &Date32Array::from(vec![None, Some(3)])
    );
    let error = var(&dates, &[0, 8, 16], &data, None).unwrap_err();
    assert!(error.message().contains("cell 1"), "{error}");

    let pairs = ty(Datatype::DateTimeDay, CellValNum::Fixed(2));
    assert!(!pairs.nullable());
    let array = fixed(&pairs, &data, Some(vec![false, true])).unwrap();
    let array = array.as_fixed_size_list();
    assert!(array.is_null(0));
    assert_eq!(
        array.value(1).as_primitive::<Date32Type>(),
        &Date32Array::from(vec![None, Some(3)])
    );
    let error = fixed(&pairs, &i64s(&[0, 0, 0, 1 << 40]), None).unwrap_err();
    assert!(error.message().contains("cell 1"), "{error}");
    let bits = fixed(
        &ty(Datatype::Bool, CellValNum::Fixed(2)),
        &[0, 1, 1, 0],
        None,
    )
    .unwrap();
    let last = bits.as_fixed_size_list().value(1);
    assert_eq!(last.as_boolean(), &BooleanArray::from(vec![true, false]));
}

fn encoded(ty: &ColumnType, cells: &[&[u8]], nulls: Option<Vec<bool>>) -> Result<ArrayRef> {
    ty.to_array(UnfilteredCells {
        len: cells.len(),
        data: CellData::Encoded(Arc::new(EncodedStrings::of_cells(cells))),
        nulls: nulls.map(NullBuffer::from),
    })
}

#[test]
fn strings_stored_once_are_those_of_the_cells() {
    let text = ty(Datatype::StringUtf8, CellValNum::Var);
    let cells: [&[u8]; 6] = [
        b"",
        b"a rather long string",
        b"b",
        b"",
        b"b",
        b"a rather long string",
    ];
    let array = encoded(&text, &cells, None).unwrap();
    let expected = cells.map(|c| std::str::from_utf8(c).unwrap());
    assert_eq!(array.as_ref(), &StringViewArray::from(expected.to_vec()));
    let nulls = vec![true, false, true, true, false, true];
    let array = encoded(&text, &cells, Some(nulls.clone())).unwrap();
    let expected = expected
        .iter()
        .zip(nulls)
        .map(|(cell, valid)| valid.then_some(*cell));
    assert_eq!(array.as_ref(), &expected.collect::<StringViewArray>());
    assert_eq!(encoded(&text, &[], None).unwrap().len(), 0);
    let bytes = ty(Datatype::Blob, CellValNum::Var);
    let array = encoded(&bytes, &cells, None).unwrap();
    assert_eq!(array.as_binary_view().value(5), cells[5]);
    let lists = ty(Datatype::UInt8, CellValNum::Var);
    let array = encoded(&lists, &cells, None).unwrap();
    assert_eq!(array.as_list::<i32>().value_length(5), 20);
    let short = CellData::Encoded(Arc::new(EncodedStrings::of_cells(&cells)));
    let (len, nulls) = (7, None);
    assert!(
        text.to_array(UnfilteredCells {
            len,
            data: short,
            nulls
        })
        .is_err()
    );
}

#[test]
fn strings_stored_once_that_are_no_text() {
    let text = ty(Datatype::StringAscii, CellValNum::Var);
    let cells: [&[u8]; 4] = [b"fine", b"fine", b"a\xffb", b"fine"];
    let error = encoded(&text, &cells, None).unwrap_err();
    assert!(
        error.message().contains("cell 2 holds the bytes"),
        "{error}"
    );
    let array = encoded(&text, &cells, Some(vec![true, true, false, true])).unwrap();
    let fine = Some("fine");
    assert_eq!(
        array.as_ref(),
        &StringViewArray::from(vec![fine, fine, None, fine])
    );
    let lossy = TypeOptions {
        invalid_utf8: InvalidUtf8::Lossy,
        ..TypeOptions::default()
    };
    let lossy = with(lossy, Datatype::StringAscii, CellValNum::Var);
    let array = encoded(&lossy, &cells, None).unwrap();
    assert_eq!(array.as_string_view().value(2), "a\u{fffd}b");
}
