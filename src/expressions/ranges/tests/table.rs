//! A table of predicates with the ranges that each becomes.

use super::*;

fn int8(value: i8) -> S {
    S::Int8(Some(value))
}

fn float(value: f64) -> S {
    S::Float64(Some(value))
}

fn date(days: i32) -> S {
    S::Date32(Some(days))
}

fn second(value: i64) -> S {
    S::TimestampSecond(Some(value), None)
}

fn and(left: Expr, right: Expr) -> Expr {
    binary(left, Op::And, right)
}

fn or(left: Expr, right: Expr) -> Expr {
    binary(left, Op::Or, right)
}

/// A condition on an attribute, which gives no ranges.
fn unknown() -> Expr {
    cmp(A, Op::Gt, S::UInt8(Some(3)))
}

fn check(cases: Vec<(Expr, &str)>) {
    for (expr, expected) in cases {
        assert_eq!(describe(&expr), expected, "{expr}");
    }
}

#[test]
fn comparisons_become_ranges() {
    let dictionary = S::Dictionary(Box::new(DataType::Int8), Box::new(int8(5)));
    check(vec![
        (cmp(I, Op::Eq, int8(5)), "i [5]"),
        (binary(lit(int8(5)), Op::Lt, col(I)), "i [6, inf)"),
        (cmp(I, Op::NotEq, int8(5)), "i (-inf, 4] or [6, inf)"),
        (cmp(I, Op::GtEq, int8(-128)), "all"),
        (cmp(I, Op::Gt, int8(127)), "i nothing"),
        (
            and(cmp(I, Op::GtEq, int8(-3)), cmp(I, Op::LtEq, int8(3))),
            "i [-3, 3]",
        ),
        (not(cmp(I, Op::Lt, int8(3))).unwrap(), "i [3, inf)"),
        (cmp(I, Op::Eq, dictionary), "i [5]"),
        (cmp(I, Op::Eq, S::Int8(None)), "i nothing"),
        (not(cmp(I, Op::Eq, S::Int8(None))).unwrap(), "i nothing"),
        (cmp(I, Op::IsDistinctFrom, S::Int8(None)), "all"),
        (cmp(I, Op::IsNotDistinctFrom, int8(1)), "i [1]"),
        (
            one_of(I, vec![int8(3), int8(1), int8(2), int8(9)], false),
            "i [1, 3] or [9]",
        ),
        (one_of(I, vec![int8(3), S::Int8(None)], false), "i [3]"),
        (
            one_of(I, vec![int8(3), int8(4)], true),
            "i (-inf, 2] or [5, inf)",
        ),
        (one_of(I, vec![int8(3), S::Int8(None)], true), "i nothing"),
        (is_null(col(I)).unwrap(), "i nothing"),
        (is_not_null(col(W)).unwrap(), "all"),
        (lit(S::Boolean(Some(true))), "all"),
        (lit(S::Boolean(None)), "i nothing"),
    ]);
}

#[test]
fn casts_become_ranges() {
    check(vec![
        (
            binary(cast(I, DataType::Float64), Op::Gt, lit(float(3.5))),
            "i [4, inf)",
        ),
        (
            binary(cast(I, DataType::Int64), Op::Gt, lit(S::Int64(Some(300)))),
            "i nothing",
        ),
        (
            binary(cast(I, DataType::Int64), Op::Lt, lit(S::Int64(Some(300)))),
            "all",
        ),
        (
            binary(
                cast(I, DataType::Decimal128(5, 1)),
                Op::LtEq,
                lit(S::Decimal128(Some(35), 5, 1)),
            ),
            "i (-inf, 3]",
        ),
        (
            binary(cast(I, DataType::UInt8), Op::Lt, lit(S::UInt8(Some(3)))),
            "i (-inf, 2] + residual",
        ),
        (
            binary(cast(I, DataType::Utf8View), Op::Lt, lit(text("3"))),
            "all + residual",
        ),
        (cmp(I, Op::Lt, S::Int64(Some(3))), "all + residual"),
    ]);
}

#[test]
fn comparisons_of_strings_become_ranges() {
    check(vec![
        (cmp(S_, Op::Lt, text("b")), r#"s ["", "b")"#),
        (
            cmp(S_, Op::Gt, S::Utf8(Some("b".into()))),
            r#"s ["b\u{0}", inf)"#,
        ),
        (cmp(S_, Op::Eq, text("")), r#"s [""]"#),
        (like("ab%", false), r#"s ["ab", "ac")"#),
        (like(r"a\%%", false), r#"s ["a%", "a&")"#),
        (like("ab", true), r#"s ["", "ab") or ["ab\u{0}", inf)"#),
        (like("ab%c", false), r#"s ["ab", "ac") + residual"#),
        (like("ab_", true), "all + residual"),
        (like("%", false), "all"),
    ]);
}

/// Weeks start on Thursdays, as 1970-01-01 is one.
#[test]
fn comparisons_of_dates_become_ranges() {
    let millis = DataType::Timestamp(TimeUnit::Millisecond, None);
    check(vec![
        (cmp(W, Op::Gt, date(7)), "w [1970-01-15, inf)"),
        (cmp(W, Op::GtEq, date(8)), "w [1970-01-15, inf)"),
        (cmp(W, Op::Eq, date(8)), "w nothing"),
        (cmp(W, Op::LtEq, date(-1)), "w (-inf, 1969-12-25]"),
        (cmp(H, Op::Gt, second(3600)), "h [1970-01-01T02:00:00, inf)"),
        (
            cmp(H, Op::GtEq, second(3601)),
            "h [1970-01-01T02:00:00, inf)",
        ),
        (cmp(H, Op::Eq, second(1)), "h nothing"),
        (
            binary(cast(H, DataType::Date32), Op::Eq, lit(date(1))),
            "h [1970-01-02T00:00:00, 1970-01-02T23:00:00]",
        ),
        (
            binary(
                cast(H, millis),
                Op::Lt,
                lit(S::TimestampMillisecond(Some(1), None)),
            ),
            "h (-inf, 1970-01-01T00:00:00]",
        ),
    ]);
}

#[test]
fn comparisons_of_floats_become_ranges() {
    check(vec![
        (cmp(F, Op::Gt, float(1.5)), "f [1.5000000000000002, inf)"),
        (cmp(F, Op::LtEq, float(1.5)), "f (-inf, 1.5]"),
        (cmp(F, Op::Gt, float(0.0)), "f [0, inf) + residual"),
        (cmp(F, Op::Eq, float(-0.0)), "f [0] + residual"),
        (cmp(F, Op::Lt, float(f64::NAN)), "all + residual"),
    ]);
}

#[test]
fn combinations_become_ranges() {
    check(vec![
        (
            and(cmp(I, Op::Eq, int8(1)), cmp(S_, Op::Eq, text("x"))),
            r#"i [1], s ["x"]"#,
        ),
        (and(cmp(I, Op::Eq, int8(1)), unknown()), "i [1] + residual"),
        (or(cmp(I, Op::Eq, int8(1)), unknown()), "all + residual"),
        (
            or(cmp(I, Op::Eq, int8(1)), cmp(I, Op::Eq, int8(3))),
            "i [1] or [3]",
        ),
        (
            or(cmp(I, Op::Eq, int8(1)), cmp(S_, Op::Eq, text("x"))),
            "all + residual",
        ),
        (
            not(or(cmp(I, Op::Lt, int8(1)), cmp(S_, Op::Lt, text("x")))).unwrap(),
            r#"i [1, inf), s ["x", inf)"#,
        ),
        (
            or(
                and(cmp(I, Op::Eq, int8(1)), cmp(S_, Op::Eq, text("x"))),
                and(cmp(I, Op::Eq, int8(2)), cmp(S_, Op::Eq, text("y"))),
            ),
            r#"i [1, 2], s ["x"] or ["y"] + residual"#,
        ),
        (
            or(
                and(cmp(I, Op::Eq, int8(1)), cmp(S_, Op::Eq, text("x"))),
                and(cmp(I, Op::Eq, int8(2)), cmp(S_, Op::Eq, text("x"))),
            ),
            r#"i [1, 2], s ["x"]"#,
        ),
        (
            and(
                cmp(I, Op::Eq, int8(1)),
                and(unknown(), cmp(I, Op::Eq, int8(2))),
            ),
            "i nothing",
        ),
    ]);
}
