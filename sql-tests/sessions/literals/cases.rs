//! Columns and literals that are compared with each other.

/// A kind of column: its name, its SQL type, its type in the array, and its values as texts.
pub type ColumnCase = (
    &'static str,
    &'static str,
    Option<&'static str>,
    &'static [&'static str],
);

pub const TIMES: [ColumnCase; 8] = [
    (
        "hours",
        "TIMESTAMP(0)",
        Some("DATETIME_HR"),
        &[
            "1969-12-31T23:00:00",
            "1970-01-01T00:00:00",
            "2024-02-29T00:00:00",
            "2024-02-29T08:00:00",
        ],
    ),
    (
        "seconds",
        "TIMESTAMP(0)",
        None,
        &[
            "1960-02-29T23:59:58",
            "1969-12-31T23:59:59",
            "1970-01-01T00:00:00",
            "2024-02-28T23:00:00",
            "2024-02-29T00:00:00",
            "2024-02-29T00:00:01",
        ],
    ),
    (
        "milliseconds",
        "TIMESTAMP(3)",
        None,
        &[
            "1969-12-31T23:59:59.5",
            "1969-12-31T23:59:59.499",
            "2024-02-29T00:00:00.25",
            "2024-02-29T00:00:00.5",
        ],
    ),
    (
        "microseconds",
        "TIMESTAMP(6)",
        None,
        &[
            "1969-12-31T23:59:59.999999",
            "2024-02-29T00:00:00",
            "2024-02-29T00:00:00.5",
        ],
    ),
    (
        "nanoseconds",
        "TIMESTAMP",
        None,
        &[
            "1969-12-31T23:59:59.5",
            "2024-02-29T00:00:00.000000001",
            "2024-02-29T00:00:00.5",
        ],
    ),
    (
        "days",
        "DATE",
        None,
        &[
            "1960-02-29",
            "1969-12-31",
            "1970-01-01",
            "2024-02-28",
            "2024-02-29",
        ],
    ),
    (
        "months",
        "DATE",
        Some("DATETIME_MONTH"),
        &["1969-12-01", "2024-02-01", "2024-03-01"],
    ),
    (
        "of_day",
        "TIME",
        None,
        &["00:00:00", "12:00:00", "12:00:00.000000001"],
    ),
];

pub const TIME_LITERALS: [&str; 13] = [
    "TIMESTAMP '2024-02-29T00:00:00.5'",
    "TIMESTAMP '2024-02-29T00:00:00'",
    "TIMESTAMP '1969-12-31T23:59:59.5'",
    "TIMESTAMP '1969-12-31T23:59:59.999999999'",
    "'2024-02-29T00:00:00.000000001'",
    "'1969-12-31T23:59:59.5'",
    "CAST('2024-02-29T00:00:00.5' AS TIMESTAMP(3))",
    "to_timestamp('2024-02-29T00:00:00.25')",
    "TIMESTAMP '2024-02-29' + INTERVAL '0.5 seconds'",
    "DATE '2024-02-29'",
    "CAST(NULL AS TIMESTAMP)",
    "TIME '12:00:00.000000001'",
    "arrow_cast('12:00:00', 'Time32(Second)')",
];

pub const ZONED_LITERALS: [&str; 5] = [
    "TIMESTAMPTZ '2024-02-29T00:00:00Z'",
    "TIMESTAMPTZ '2024-02-29T00:00:00.5'",
    "TIMESTAMPTZ '1970-01-01T00:59:59.5+01:00'",
    "arrow_cast('2024-02-29T00:00:00', 'Timestamp(Microsecond, Some(\"Europe/Oslo\"))')",
    "arrow_cast('2024-02-29T05:30:00.5', 'Timestamp(Millisecond, Some(\"+05:30\"))')",
];

pub const NUMBERS: [ColumnCase; 10] = [
    ("i8", "TINYINT", None, &["-128", "-7", "5", "100", "126"]),
    ("i16", "SMALLINT", None, &["-32768", "-7", "5", "256"]),
    ("i32", "INT", None, &["-2147483648", "5", "70000"]),
    (
        "i64",
        "BIGINT",
        None,
        &["-9223372036854775807", "5", "9007199254740993"],
    ),
    ("u8", "TINYINT UNSIGNED", None, &["0", "5", "254"]),
    ("u16", "SMALLINT UNSIGNED", None, &["0", "5", "256"]),
    ("u32", "INT UNSIGNED", None, &["0", "5", "3000000000"]),
    (
        "u64",
        "BIGINT UNSIGNED",
        None,
        &["0", "5", "9223372036854775808"],
    ),
    ("f32", "REAL", None, &["-0.5", "2.5", "16777216", "0.1"]),
    (
        "f64",
        "DOUBLE",
        None,
        &["-0.5", "2.5", "0.1", "9007199254740992"],
    ),
];

pub const NUMBER_LITERALS: [&str; 17] = [
    "5",
    "-7",
    "-1",
    "128",
    "256",
    "70000",
    "3000000000",
    "9223372036854775807",
    "9223372036854775808",
    "2.5",
    "-0.5",
    "0.1",
    "arrow_cast('2.50', 'Decimal128(5, 2)')",
    "arrow_cast('5.00', 'Decimal128(20, 2)')",
    "arrow_cast(5, 'UInt64')",
    "arrow_cast(-7, 'Int8')",
    "'5'",
];

pub const TEXTS: [ColumnCase; 3] = [
    ("text", "VARCHAR", None, &["", "ab", "abc", "b", "ä"]),
    ("bytes", "BYTEA", None, &["ab", "abc", "b"]),
    ("truth", "BOOLEAN", None, &["false", "true"]),
];

pub const TEXT_LITERALS: [&str; 6] = [
    "'ab'",
    "'ab '",
    "'abcabcabcabcabcabcabcabcabc'",
    "arrow_cast('b', 'LargeUtf8')",
    "arrow_cast('b', 'Dictionary(Int8, Utf8)')",
    "''",
];

pub const YEARS: &[&str] = &["1500-01-01", "2024-02-29", "2300-01-01", "3000-01-01"];

pub const OPERATORS: [&str; 8] = [
    "=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "IS DISTINCT FROM",
    "IS NOT DISTINCT FROM",
];
