//! Shown values are parsed to the same bytes, and errors name the expected form.

use proptest::prelude::*;

use super::*;

/// A type, the number of values per cell, the text of a value, and the hexadecimal digits of its bytes.
const VALUES: [(Datatype, CellValNum, &str, &str); 21] = [
    (Datatype::Int8, ONE, "-1", "ff"),
    (Datatype::UInt16, ONE, "65535", "ffff"),
    (Datatype::Float64, ONE, "-0.0", "0000000000000080"),
    (Datatype::Float32, ONE, "inf", "0000807f"),
    (Datatype::Float32, ONE, "x'0100c07f'", "0100c07f"),
    (Datatype::Bool, ONE, "TRUE", "01"),
    (Datatype::Int16, CellValNum::Fixed(2), "[1, -1]", "0100ffff"),
    (Datatype::Int16, CellValNum::Var, "[]", ""),
    (Datatype::DateTimeDay, ONE, "2024-02-29", "464d000000000000"),
    (Datatype::DateTimeDay, ONE, "19782", "464d000000000000"),
    (Datatype::DateTimeYear, ONE, "2024", "3600000000000000"),
    (Datatype::DateTimeYear, ONE, "54", "3600000000000000"),
    (Datatype::DateTimeMonth, ONE, "1969-12", "ffffffffffffffff"),
    (
        Datatype::DateTimeMs,
        ONE,
        "1970-01-01T00:00:01.5",
        "dc05000000000000",
    ),
    (Datatype::TimeSec, ONE, "00:01:01", "3d00000000000000"),
    (Datatype::DateTimeNs, ONE, "NaT", "0000000000000080"),
    (Datatype::StringUtf8, CellValNum::Var, "é", "c3a9"),
    (
        Datatype::StringUtf8,
        CellValNum::Var,
        "\"a\"\"b\"",
        "612262",
    ),
    (Datatype::StringUtf16, ONE, "é", "e900"),
    (Datatype::StringUcs4, CellValNum::Var, "a", "61000000"),
    (Datatype::Blob, CellValNum::Fixed(2), "x'00ff'", "00ff"),
];
const ONE: CellValNum = CellValNum::Fixed(1);

#[test]
fn values_are_what_they_say() {
    for (datatype, count, text, digits) in VALUES {
        let bytes = parse_cell(datatype, count, text).unwrap();
        assert_eq!(
            show_bytes(&bytes),
            format!("x'{digits}'"),
            "{datatype} {text}"
        );
    }
}

#[test]
fn wrong_values_say_what_is_expected() {
    let one = CellValNum::Fixed(1);
    for (datatype, count, text, why) in [
        (Datatype::Int8, one, "128", "a number from -128 to 127"),
        (Datatype::UInt8, one, "-1", "a number from 0 to 255"),
        (Datatype::Int32, one, "1.5", "a number from"),
        (Datatype::Bool, one, "yes", "true or false"),
        (Datatype::DateTimeHr, one, "2024-05-01T12:30", "DATETIME_HR"),
        (Datatype::DateTimeDay, one, "2023-02-29", "28 days"),
        (
            Datatype::StringAscii,
            CellValNum::Fixed(3),
            "abcd",
            "4 bytes",
        ),
        (
            Datatype::Int32,
            CellValNum::Fixed(3),
            "[1, 2]",
            "8 bytes, expected the 12",
        ),
        (Datatype::Int32, CellValNum::Fixed(3), "1, 2, 3", "brackets"),
        (Datatype::Blob, CellValNum::Var, "ff", "x'00ff'"),
        (
            Datatype::Blob,
            CellValNum::Var,
            "x'f'",
            "two hexadecimal digits",
        ),
        (
            Datatype::Blob,
            CellValNum::Var,
            "x'zz'",
            "two hexadecimal digits",
        ),
        (
            Datatype::StringUtf16,
            CellValNum::Var,
            "x'00'",
            "whole elements of 2 bytes",
        ),
    ] {
        let error = parse_cell(datatype, count, text).unwrap_err();
        assert!(error.message().contains(why), "{datatype} {text}: {error}");
    }
}

#[test]
fn numbers_are_given_as_they_are() {
    let bytes = |value: LiteralValue| value.element(Datatype::Float64).unwrap();
    assert_eq!(bytes(0.1_f64.into()), 0.1_f64.to_le_bytes());
    assert_eq!(bytes(7_i32.into()), 7_f64.to_le_bytes());
    let raw = LiteralValue::Bytes(vec![1, 2]);
    assert_eq!(raw.element(Datatype::Int16).unwrap(), [1, 2]);
    assert!(raw.element(Datatype::Int32).is_err());
}

proptest! {
    #[test]
    fn what_is_shown_is_parsed_to_the_same_bytes(
        datatype in proptest::sample::select(Datatype::ALL.to_vec()),
        count in 0_u32..4,
        seed in proptest::collection::vec(any::<u8>(), 32),
        small: bool,
    ) {
        let mut seed = seed;
        if small {
            // Mostly ASCII, and small numbers.
            seed.iter_mut().for_each(|byte| *byte = match *byte % 3 {
                0 => 0,
                1 => b' ' + *byte % 64,
                _ => b'"',
            });
        }
        let (count, elements) = match count {
            0 => (CellValNum::Var, usize::from(seed[0] % 3)),
            n => (CellValNum::Fixed(n), n as usize),
        };
        let bytes = &seed[..elements * datatype.size()];
        let shown = show_cell(datatype, count, bytes);
        prop_assert_eq!(parse_cell(datatype, count, &shown).unwrap(), bytes, "{}", shown);
        let one = &seed[..datatype.size()];
        let shown = show_element(datatype, one);
        prop_assert_eq!(parse_element(datatype, &shown).unwrap(), one, "{}", shown);
    }
}
