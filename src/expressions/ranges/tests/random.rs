//! Random predicates: ranges and residual must select the same cells as DataFusion's own evaluation.

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Float64Array, Int8Array, RecordBatch,
    StringViewArray, TimestampSecondArray, UInt8Array,
};
use datafusion::physical_expr::expressions::TryCastExpr;
use proptest::prelude::*;

use super::*;

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
