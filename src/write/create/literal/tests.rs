//! What is shown is parsed to the same bytes, and what is wrong says what is expected.

use proptest::prelude::*;

use super::*;

#[test]
fn values_are_what_they_say() {
    let one = CellValNum::Fixed(1);
    let cases: [(Datatype, CellValNum, &str, Vec<u8>); 21] = [
        (Datatype::Int8, one, "-1", vec![0xff]),
        (Datatype::UInt16, one, "65535", vec![0xff, 0xff]),
        (
            Datatype::Float64,
            one,
            "-0.0",
            (-0.0_f64).to_le_bytes().to_vec(),
        ),
        (
            Datatype::Float32,
            one,
            "inf",
            f32::INFINITY.to_le_bytes().to_vec(),
        ),
        (
            Datatype::Float32,
            one,
            "x'0100c07f'",
            vec![1, 0, 0xc0, 0x7f],
        ),
        (Datatype::Bool, one, "TRUE", vec![1]),
        (
            Datatype::Int16,
            CellValNum::Fixed(2),
            "[1, -1]",
            vec![1, 0, 0xff, 0xff],
        ),
        (Datatype::Int16, CellValNum::Var, "[]", vec![]),
        (
            Datatype::DateTimeDay,
            one,
            "2024-02-29",
            19_782_i64.to_le_bytes().to_vec(),
        ),
        (
            Datatype::DateTimeDay,
            one,
            "19782",
            19_782_i64.to_le_bytes().to_vec(),
        ),
        (
            Datatype::DateTimeYear,
            one,
            "2024",
            54_i64.to_le_bytes().to_vec(),
        ),
        (
            Datatype::DateTimeYear,
            one,
            "54",
            54_i64.to_le_bytes().to_vec(),
        ),
        (
            Datatype::DateTimeMonth,
            one,
            "1969-12",
            (-1_i64).to_le_bytes().to_vec(),
        ),
        (
            Datatype::DateTimeMs,
            one,
            "1970-01-01T00:00:01.5",
            1500_i64.to_le_bytes().to_vec(),
        ),
        (
            Datatype::TimeSec,
            one,
            "00:01:01",
            61_i64.to_le_bytes().to_vec(),
        ),
        (
            Datatype::DateTimeNs,
            one,
            "NaT",
            i64::MIN.to_le_bytes().to_vec(),
        ),
        (
            Datatype::StringUtf8,
            CellValNum::Var,
            "é",
            "é".as_bytes().to_vec(),
        ),
        (
            Datatype::StringUtf8,
            CellValNum::Var,
            "\"a\"\"b\"",
            b"a\"b".to_vec(),
        ),
        (
            Datatype::StringUtf16,
            CellValNum::Fixed(1),
            "é",
            vec![0xe9, 0],
        ),
        (
            Datatype::StringUcs4,
            CellValNum::Var,
            "a",
            vec![0x61, 0, 0, 0],
        ),
        (
            Datatype::Blob,
            CellValNum::Fixed(2),
            "x'00ff'",
            vec![0, 0xff],
        ),
    ];
    for (datatype, count, text, bytes) in cases {
        assert_eq!(
            parse_cell(datatype, count, text).unwrap(),
            bytes,
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
            "ab",
            "2 bytes, expected the 3",
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
    let bytes = |value: Value| value.element(Datatype::Float64).unwrap();
    assert_eq!(bytes(0.1_f64.into()), 0.1_f64.to_le_bytes());
    assert_eq!(bytes(7_i32.into()), 7_f64.to_le_bytes());
    let raw = Value::Bytes(vec![1, 2]);
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
