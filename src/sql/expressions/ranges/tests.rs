//! A table of predicates with their ranges, and random predicates against DataFusion's own evaluation.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Float64Array, Int8Array, RecordBatch,
    StringViewArray, TimestampSecondArray, UInt8Array,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::common::ScalarValue as S;
use datafusion::logical_expr::Operator as Op;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, DynamicFilterPhysicalExpr, LikeExpr, TryCastExpr, in_list,
    is_not_null, is_null, lit, not,
};
use proptest::prelude::*;

use super::*;
use crate::format::datatype::Datatype;
use crate::geometry::key::Native;
use crate::geometry::subarray::KeyRange;

type Expr = Arc<dyn PhysicalExpr>;

const I: usize = 0;
const S_: usize = 1;
const W: usize = 2;
const H: usize = 3;
const F: usize = 4;
const A: usize = 5;

/// An `INT8`, a string, a `DATETIME_WEEK`, a `DATETIME_HR` and a `FLOAT64` dimension, and an attribute.
fn schema() -> Schema {
    Schema::new(vec![
        Field::new("i", DataType::Int8, false),
        Field::new("s", DataType::Utf8View, false),
        Field::new("w", DataType::Date32, false),
        Field::new("h", DataType::Timestamp(TimeUnit::Second, None), false),
        Field::new("f", DataType::Float64, false),
        Field::new("a", DataType::UInt8, true),
    ])
}

fn dimensions() -> Vec<DimensionColumn> {
    let types = [
        Datatype::Int8,
        Datatype::StringAscii,
        Datatype::DateTimeWeek,
        Datatype::DateTimeHr,
        Datatype::Float64,
    ];
    let fields = schema();
    let column = |(i, datatype)| {
        let column = DimensionColumn::new(i, datatype, fields.field(i).data_type().clone());
        if datatype.is_datetime() {
            column.with_domain(KeyRange {
                lo: (-100_000i64).to_key(),
                hi: 100_000i64.to_key(),
            })
        } else {
            column
        }
    };
    types.into_iter().enumerate().map(column).collect()
}

fn col(index: usize) -> Expr {
    Arc::new(Column::new(schema().field(index).name(), index))
}

fn binary(left: Expr, op: Op, right: Expr) -> Expr {
    Arc::new(BinaryExpr::new(left, op, right))
}

fn cmp(index: usize, op: Op, value: S) -> Expr {
    binary(col(index), op, lit(value))
}

fn cast(index: usize, to: DataType) -> Expr {
    Arc::new(CastExpr::new(col(index), to, None))
}

fn text(value: &str) -> S {
    S::Utf8View(Some(value.to_string()))
}

fn like(pattern: &str, negated: bool) -> Expr {
    Arc::new(LikeExpr::new(negated, false, col(S_), lit(text(pattern))))
}

fn one_of(index: usize, values: Vec<S>, negated: bool) -> Expr {
    in_list(
        col(index),
        values.into_iter().map(lit).collect(),
        &negated,
        &schema(),
    )
    .unwrap()
}

fn describe(expr: &Expr) -> String {
    let found = split(expr, &dimensions());
    let types = [
        Datatype::Int8,
        Datatype::StringAscii,
        Datatype::DateTimeWeek,
        Datatype::DateTimeHr,
        Datatype::Float64,
    ];
    let dims = found.subarray.dims().iter().zip(types).enumerate();
    let parts: Vec<String> = dims
        .filter(|(_, (ranges, _))| !ranges.is_all())
        .map(|(i, (ranges, datatype))| {
            format!("{} {}", schema().field(i).name(), ranges.describe(datatype))
        })
        .collect();
    let residual = if found.residual.is_some() {
        " + residual"
    } else {
        ""
    };
    format!(
        "{}{residual}",
        if parts.is_empty() {
            "all".to_string()
        } else {
            parts.join(", ")
        }
    )
}

#[test]
fn predicates_become_ranges() {
    let i8 = |v| S::Int8(Some(v));
    let f64 = |v| S::Float64(Some(v));
    let date = |v| S::Date32(Some(v));
    let second = |v| S::TimestampSecond(Some(v), None);
    let and = |a, b| binary(a, Op::And, b);
    let or = |a, b| binary(a, Op::Or, b);
    let unknown = || cmp(A, Op::Gt, S::UInt8(Some(3)));
    let dictionary = S::Dictionary(Box::new(DataType::Int8), Box::new(i8(5)));
    let millis = DataType::Timestamp(TimeUnit::Millisecond, None);
    let cases: Vec<(Expr, &str)> = vec![
        (cmp(I, Op::Eq, i8(5)), "i [5]"),
        (binary(lit(i8(5)), Op::Lt, col(I)), "i [6, inf)"),
        (cmp(I, Op::NotEq, i8(5)), "i (-inf, 4] or [6, inf)"),
        (cmp(I, Op::GtEq, i8(-128)), "all"),
        (cmp(I, Op::Gt, i8(127)), "i nothing"),
        (
            and(cmp(I, Op::GtEq, i8(-3)), cmp(I, Op::LtEq, i8(3))),
            "i [-3, 3]",
        ),
        (not(cmp(I, Op::Lt, i8(3))).unwrap(), "i [3, inf)"),
        (cmp(I, Op::Eq, dictionary), "i [5]"),
        (cmp(I, Op::Eq, S::Int8(None)), "i nothing"),
        (not(cmp(I, Op::Eq, S::Int8(None))).unwrap(), "i nothing"),
        (cmp(I, Op::IsDistinctFrom, S::Int8(None)), "all"),
        (cmp(I, Op::IsNotDistinctFrom, i8(1)), "i [1]"),
        (
            one_of(I, vec![i8(3), i8(1), i8(2), i8(9)], false),
            "i [1, 3] or [9]",
        ),
        (one_of(I, vec![i8(3), S::Int8(None)], false), "i [3]"),
        (
            one_of(I, vec![i8(3), i8(4)], true),
            "i (-inf, 2] or [5, inf)",
        ),
        (one_of(I, vec![i8(3), S::Int8(None)], true), "i nothing"),
        (is_null(col(I)).unwrap(), "i nothing"),
        (is_not_null(col(W)).unwrap(), "all"),
        (lit(S::Boolean(Some(true))), "all"),
        (lit(S::Boolean(None)), "i nothing"),
        // Casts.
        (
            binary(cast(I, DataType::Float64), Op::Gt, lit(f64(3.5))),
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
        // Strings.
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
        // Dates: weeks start on Thursdays, as 1970-01-01 is one.
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
        // Floats.
        (cmp(F, Op::Gt, f64(1.5)), "f [1.5000000000000002, inf)"),
        (cmp(F, Op::LtEq, f64(1.5)), "f (-inf, 1.5]"),
        (cmp(F, Op::Gt, f64(0.0)), "f [0, inf) + residual"),
        (cmp(F, Op::Eq, f64(-0.0)), "f [0] + residual"),
        (cmp(F, Op::Lt, f64(f64::NAN)), "all + residual"),
        // Combinations.
        (
            and(cmp(I, Op::Eq, i8(1)), cmp(S_, Op::Eq, text("x"))),
            r#"i [1], s ["x"]"#,
        ),
        (and(cmp(I, Op::Eq, i8(1)), unknown()), "i [1] + residual"),
        (or(cmp(I, Op::Eq, i8(1)), unknown()), "all + residual"),
        (
            or(cmp(I, Op::Eq, i8(1)), cmp(I, Op::Eq, i8(3))),
            "i [1] or [3]",
        ),
        (
            or(cmp(I, Op::Eq, i8(1)), cmp(S_, Op::Eq, text("x"))),
            "all + residual",
        ),
        (
            not(or(cmp(I, Op::Lt, i8(1)), cmp(S_, Op::Lt, text("x")))).unwrap(),
            r#"i [1, inf), s ["x", inf)"#,
        ),
        (
            or(
                and(cmp(I, Op::Eq, i8(1)), cmp(S_, Op::Eq, text("x"))),
                and(cmp(I, Op::Eq, i8(2)), cmp(S_, Op::Eq, text("y"))),
            ),
            r#"i [1, 2], s ["x"] or ["y"] + residual"#,
        ),
        (
            or(
                and(cmp(I, Op::Eq, i8(1)), cmp(S_, Op::Eq, text("x"))),
                and(cmp(I, Op::Eq, i8(2)), cmp(S_, Op::Eq, text("x"))),
            ),
            r#"i [1, 2], s ["x"]"#,
        ),
        (
            and(cmp(I, Op::Eq, i8(1)), and(unknown(), cmp(I, Op::Eq, i8(2)))),
            "i nothing",
        ),
    ];
    for (expr, expected) in cases {
        assert_eq!(describe(&expr), expected, "{expr}");
    }
}

#[test]
fn a_dynamic_filter_narrows_now_and_is_still_evaluated() {
    let filter = DynamicFilterPhysicalExpr::new(vec![col(I)], cmp(I, Op::Lt, S::Int8(Some(3))));
    let filter: Expr = Arc::new(filter);
    assert_eq!(describe(&filter), "i (-inf, 2] + residual");
    assert_eq!(describe(&not(filter).unwrap()), "all + residual");
}

#[test]
fn columns_that_do_not_show_what_is_stored_give_no_ranges() {
    let lossy = DimensionColumn::new(S_, Datatype::StringAscii, DataType::Utf8View).not_faithful();
    let found = split(&cmp(S_, Op::Eq, text("x")), &[lossy]);
    assert!(found.subarray.is_all() && found.residual.is_some());
}

#[test]
fn long_lists_and_long_chains_are_fast() {
    let date = |v: i32| S::Date32(Some(v * 7));
    let list = one_of(W, (0..50_000).map(|v| date(v * 2)).collect(), false);
    let found = split(&list, &dimensions());
    assert_eq!(
        (found.subarray.dim(W).len(), found.residual.is_none()),
        (50_000, true)
    );
    let chain = (1..20_000).fold(cmp(W, Op::Eq, date(0)), |chain, v| {
        binary(chain, Op::Or, cmp(W, Op::Eq, date(v)))
    });
    let found = split(&chain, &dimensions());
    assert_eq!(
        (found.subarray.dim(W).len(), found.residual.is_none()),
        (1, true)
    );
    // Freeing a chain this long is DataFusion's own recursion.
    std::mem::forget(chain);
    let deep = (0..200).fold(cmp(I, Op::Eq, S::Int8(Some(1))), |e, _| not(e).unwrap());
    assert_eq!(describe(&deep), "all + residual");
}

const INTS: [i8; 6] = [-128, -2, 0, 1, 3, 127];
const TEXTS: [&str; 7] = ["", "a", "a%", "ab", "ab\0", "b", "é"];
const WEEKS: [i64; 4] = [-2, -1, 0, 3];
const HOURS: [i64; 5] = [-25, -1, 0, 1, 24];
const FLOATS: [f64; 5] = [-1.5, -0.0, 0.0, 1.5, f64::INFINITY];

struct Cells {
    batch: RecordBatch,
    stored: Vec<(i8, &'static str, i64, i64, f64)>,
}

/// Every combination of the values.
fn cells() -> Cells {
    let mut stored = Vec::new();
    for i in INTS {
        for s in TEXTS {
            for w in WEEKS {
                for h in HOURS {
                    stored.extend(FLOATS.map(|f| (i, s, w, h, f)));
                }
            }
        }
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(stored.iter().map(|c| Some(c.0)).collect::<Int8Array>()),
        Arc::new(
            stored
                .iter()
                .map(|c| Some(c.1))
                .collect::<StringViewArray>(),
        ),
        Arc::new(
            stored
                .iter()
                .map(|c| Some(c.2 as i32 * 7))
                .collect::<Date32Array>(),
        ),
        Arc::new(
            stored
                .iter()
                .map(|c| Some(c.3 * 3600))
                .collect::<TimestampSecondArray>(),
        ),
        Arc::new(stored.iter().map(|c| Some(c.4)).collect::<Float64Array>()),
        Arc::new(
            (0..stored.len())
                .map(|n| (n % 3 > 0).then_some((n % 7) as u8))
                .collect::<UInt8Array>(),
        ),
    ];
    Cells {
        batch: RecordBatch::try_new(Arc::new(schema()), columns).unwrap(),
        stored,
    }
}

fn evaluate(expr: &Expr, batch: &RecordBatch) -> Option<BooleanArray> {
    let value = expr
        .evaluate(batch)
        .ok()?
        .into_array(batch.num_rows())
        .ok()?;
    value.as_boolean_opt().cloned()
}

fn scalar(index: usize) -> BoxedStrategy<S> {
    let null = |value: BoxedStrategy<S>, null: S| prop_oneof![12 => value, 1 => Just(null)].boxed();
    match index {
        I => null(
            prop_oneof![prop::sample::select(&INTS[..]), -4i8..5]
                .prop_map(|v| S::Int8(Some(v)))
                .boxed(),
            S::Int8(None),
        ),
        S_ => null(
            prop::sample::select(&TEXTS[..]).prop_map(text).boxed(),
            S::Utf8View(None),
        ),
        W => null(
            (-16i32..24).prop_map(|v| S::Date32(Some(v))).boxed(),
            S::Date32(None),
        ),
        H => null(
            prop_oneof![(-30i64..30).prop_map(|h| h * 3600), -4000i64..4000]
                .prop_map(|v| S::TimestampSecond(Some(v), None))
                .boxed(),
            S::TimestampSecond(None, None),
        ),
        F => {
            let values = [
                -1.5,
                -0.0,
                0.0,
                1.5,
                0.5,
                f64::INFINITY,
                f64::NEG_INFINITY,
                f64::NAN,
            ];
            null(
                prop::sample::select(values.to_vec())
                    .prop_map(|v| S::Float64(Some(v)))
                    .boxed(),
                S::Float64(None),
            )
        }
        _ => null(
            (0u8..7).prop_map(|v| S::UInt8(Some(v))).boxed(),
            S::UInt8(None),
        ),
    }
}

fn operator() -> impl Strategy<Value = Op> {
    use Op::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    prop::sample::select(vec![
        Eq,
        NotEq,
        Lt,
        LtEq,
        Gt,
        GtEq,
        IsDistinctFrom,
        IsNotDistinctFrom,
    ])
}

/// A cast of a dimension, and a literal of its type.
fn casts() -> impl Strategy<Value = (Expr, S)> {
    let nano = |zone: Option<Arc<str>>| DataType::Timestamp(TimeUnit::Nanosecond, zone);
    let hour = 3_600_000_000_000i64;
    let zero_or = |v: i32| f64::from(v) / 2.0;
    prop_oneof![
        (-300i64..300).prop_map(|v| (cast(I, DataType::Int64), S::Int64(Some(v)))),
        (-9i32..9).prop_map(move |v| (cast(I, DataType::Float64), S::Float64(Some(zero_or(v))))),
        (-9i32..9).prop_map(move |v| (
            cast(I, DataType::Float32),
            S::Float32(Some(zero_or(v) as f32))
        )),
        (-99i128..99).prop_map(|v| (
            cast(I, DataType::Decimal128(5, 1)),
            S::Decimal128(Some(v), 5, 1)
        )),
        (0u8..9).prop_map(|v| (
            Arc::new(TryCastExpr::new(col(I), DataType::UInt8)) as Expr,
            S::UInt8(Some(v))
        )),
        (-3i32..3).prop_map(|v| (cast(H, DataType::Date32), S::Date32(Some(v)))),
        (-30i64..30, -1i64..2).prop_map(move |(h, n)| (
            cast(H, nano(None)),
            S::TimestampNanosecond(Some(h * hour + n), None)
        )),
        (-30i64..30).prop_map(move |h| {
            let zone: Arc<str> = "+00:00".into();
            (
                cast(H, nano(Some(Arc::clone(&zone)))),
                S::TimestampNanosecond(Some(h * hour), Some(zone)),
            )
        }),
        (-16i64..24, -1i64..2).prop_map(|(d, s)| {
            let to = DataType::Timestamp(TimeUnit::Second, None);
            (cast(W, to), S::TimestampSecond(Some(d * 86_400 + s), None))
        }),
        (-4i32..5).prop_map(move |v| (
            cast(F, DataType::Float32),
            S::Float32(Some(zero_or(v) as f32))
        )),
        prop::sample::select(&TEXTS[..])
            .prop_map(|v| (cast(S_, DataType::Utf8), S::Utf8(Some(v.to_string())))),
        prop::sample::select(&TEXTS[..]).prop_map(|v| {
            (
                cast(S_, DataType::BinaryView),
                S::BinaryView(Some(v.as_bytes().to_vec())),
            )
        }),
    ]
}

fn pattern() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop::sample::select(vec!['a', 'b', '%', '_', '\\', 'é']),
        0..4,
    )
    .prop_map(String::from_iter)
}

fn atom() -> impl Strategy<Value = Expr> {
    let indexed = |index: usize| (Just(index), operator(), scalar(index), any::<bool>());
    prop_oneof![
        5 => (0usize..6).prop_flat_map(indexed).prop_map(|(index, op, value, swapped)| {
            match (swapped, op.swap()) {
                (true, Some(op)) => binary(lit(value), op, col(index)),
                _ => cmp(index, op, value),
            }
        }),
        3 => (casts(), operator()).prop_map(|((cast, value), op)| binary(cast, op, lit(value))),
        2 => (0usize..6, any::<bool>())
            .prop_flat_map(|(index, negated)| (Just(index), Just(negated), prop::collection::vec(scalar(index), 1..5)))
            .prop_map(|(index, negated, values)| one_of(index, values, negated)),
        1 => (casts(), any::<bool>()).prop_map(|((cast, value), negated)| {
            in_list(cast, vec![lit(value)], &negated, &schema()).unwrap()
        }),
        2 => (pattern(), any::<bool>()).prop_map(|(p, negated)| like(&p, negated)),
        1 => (0usize..6).prop_map(|index| is_null(col(index)).unwrap()),
        1 => casts().prop_map(|(cast, _)| is_not_null(cast).unwrap()),
        1 => prop::option::of(any::<bool>()).prop_map(|v| lit(S::Boolean(v))),
    ]
}

fn predicate() -> impl Strategy<Value = Expr> {
    atom().prop_recursive(4, 16, 2, |inner| {
        prop_oneof![
            2 => (inner.clone(), inner.clone()).prop_map(|(a, b)| binary(a, Op::And, b)),
            2 => (inner.clone(), inner.clone()).prop_map(|(a, b)| binary(a, Op::Or, b)),
            1 => inner.prop_map(|e| not(e).unwrap()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn ranges_and_residual_select_what_the_predicate_selects(expr in predicate()) {
        thread_local!(static CELLS: Cells = cells());
        CELLS.with(|cells| {
            let Some(expected) = evaluate(&expr, &cells.batch) else { return Ok(()) };
            let found = split(&expr, &dimensions());
            let left = found.residual.as_ref().map(|e| evaluate(e, &cells.batch).unwrap());
            let dim = |d| found.subarray.dim(d);
            for (n, (i, s, w, h, f)) in cells.stored.iter().enumerate() {
                let inside = dim(I).contains_key(i.to_key())
                    && dim(S_).contains_bytes(s.as_bytes())
                    && dim(W).contains_key(w.to_key())
                    && dim(H).contains_key(h.to_key())
                    && dim(F).contains_key(f.to_key());
                let is_true = |array: &BooleanArray| array.is_valid(n) && array.value(n);
                let selected = inside && left.as_ref().is_none_or(is_true);
                prop_assert_eq!(
                    selected, is_true(&expected),
                    "{} on {:?}: subarray {:?}, residual {:?}", expr, cells.stored[n], found.subarray, found.residual
                );
            }
            Ok(())
        })?;
    }
}
