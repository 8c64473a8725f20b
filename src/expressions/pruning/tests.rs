//! Random conditions on random tiles: every verdict must agree with evaluating the rows.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, DictionaryArray, Float64Array, Int8Array,
    RecordBatch, StringArray, StringViewArray, TimestampSecondArray, UInt64Array, new_null_array,
};
use datafusion::arrow::compute::{SortOptions, concat, sort};
use datafusion::arrow::datatypes::{DataType, Field, Int8Type, Schema, TimeUnit};
use datafusion::common::ScalarValue as S;
use datafusion::logical_expr::Operator as Op;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, LikeExpr, is_not_null, is_null, lit, not,
};
use proptest::prelude::*;
use tiledb_engine::stats::outer_zeros;

use super::*;

type Expr = Arc<dyn PhysicalExpr>;

const INT: usize = 0;
const FLOAT: usize = 1;
const TEXT: usize = 2;
const BOOL: usize = 3;
const TIME: usize = 4;
const DATE: usize = 5;
const ENUM: usize = 6;
const LABELS: [&str; 5] = ["m", "a", "z", "b", "k"];

fn dictionary_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8))
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("int", DataType::Int8, true),
        Field::new("float", DataType::Float64, true),
        Field::new("text", DataType::Utf8View, true),
        Field::new("bool", DataType::Boolean, true),
        Field::new("time", DataType::Timestamp(TimeUnit::Second, None), false),
        Field::new("date", DataType::Date32, true),
        Field::new("enum", dictionary_type(), true),
    ]))
}

fn labels() -> ArrayRef {
    Arc::new(StringArray::from(LABELS.to_vec()))
}

/// One cell of each column, from small sets of values, so that many tiles have a single value.
type Row = (
    Option<i8>,
    Option<f64>,
    Option<String>,
    Option<bool>,
    i64,
    Option<i32>,
    Option<i8>,
);

fn row() -> impl Strategy<Value = Row> {
    (
        prop::option::weighted(0.8, -3i8..4),
        prop::option::weighted(
            0.9,
            prop_oneof![
                -2.0..2.0f64,
                Just(0.0),
                Just(-0.0),
                Just(f64::NAN),
                Just(1.5)
            ],
        ),
        prop::option::weighted(0.9, "[ab]{0,2}"),
        prop::option::weighted(0.9, any::<bool>()),
        (0i64..6).prop_map(|t| t * 40_000),
        prop::option::weighted(0.9, 0i32..4),
        prop::option::weighted(0.9, 0i8..5),
    )
}

fn batch(rows: &[Row]) -> RecordBatch {
    let column = |f: &dyn Fn() -> ArrayRef| f();
    let keys: Int8Array = rows.iter().map(|r| r.6).collect();
    let columns = vec![
        column(&|| Arc::new(rows.iter().map(|r| r.0).collect::<Int8Array>())),
        column(&|| Arc::new(rows.iter().map(|r| r.1).collect::<Float64Array>())),
        column(&|| {
            Arc::new(
                rows.iter()
                    .map(|r| r.2.clone())
                    .collect::<StringViewArray>(),
            )
        }),
        column(&|| Arc::new(rows.iter().map(|r| r.3).collect::<BooleanArray>())),
        column(&|| {
            Arc::new(
                rows.iter()
                    .map(|r| Some(r.4))
                    .collect::<TimestampSecondArray>(),
            )
        }),
        column(&|| Arc::new(rows.iter().map(|r| r.5).collect::<Date32Array>())),
        Arc::new(DictionaryArray::<Int8Type>::try_new(keys, labels()).unwrap()) as ArrayRef,
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// The statistics of a column in some tiles; unknown for a tile with a NaN.
fn statistics(column: usize, tiles: &[RecordBatch], known: &[bool]) -> ColumnStatistics {
    let ty = match schema().field(column).data_type() {
        DataType::Dictionary(_, values) => values.as_ref().clone(),
        other => other.clone(),
    };
    let (mut mins, mut maxes, mut nulls, mut codes) = (vec![], vec![], vec![], vec![]);
    for (tile, known) in tiles.iter().zip(known) {
        let values = tile.column(column);
        let plain = datafusion::arrow::compute::cast(values, &ty).unwrap();
        let options = SortOptions {
            descending: false,
            nulls_first: false,
        };
        let sorted = sort(&plain, Some(options)).unwrap();
        let valid = plain.len() - plain.null_count();
        let nan = column == FLOAT
            && plain
                .as_primitive::<datafusion::arrow::datatypes::Float64Type>()
                .iter()
                .flatten()
                .any(f64::is_nan);
        let bounded = *known && valid > 0 && !nan;
        let nothing = new_null_array(&ty, 1);
        mins.push(if bounded {
            sorted.slice(0, 1)
        } else {
            Arc::clone(&nothing)
        });
        maxes.push(if bounded {
            sorted.slice(valid - 1, 1)
        } else {
            nothing
        });
        nulls.push(known.then_some(plain.null_count() as u64));
        if column == ENUM {
            let keys = values
                .as_dictionary::<Int8Type>()
                .keys()
                .iter()
                .flatten()
                .map(|k| k as u64);
            codes.push(keys.clone().min().zip(keys.max()).filter(|_| bounded));
        }
    }
    let together = |arrays: &[ArrayRef]| {
        concat(&arrays.iter().map(AsRef::as_ref).collect::<Vec<_>>()).unwrap()
    };
    ColumnStatistics {
        column,
        min: outer_zeros(&together(&mins), false),
        max: outer_zeros(&together(&maxes), true),
        null_counts: nulls.into_iter().collect(),
        codes: (column == ENUM).then_some(codes),
    }
}

fn col(index: usize) -> Expr {
    Arc::new(Column::new(schema().field(index).name(), index))
}

fn binary(left: Expr, op: Op, right: Expr) -> Expr {
    Arc::new(BinaryExpr::new(left, op, right))
}

fn comparison() -> impl Strategy<Value = Op> {
    prop::sample::select(vec![
        Op::Eq,
        Op::NotEq,
        Op::Lt,
        Op::LtEq,
        Op::Gt,
        Op::GtEq,
        Op::IsDistinctFrom,
        Op::IsNotDistinctFrom,
    ])
}

fn literal(column: usize) -> BoxedStrategy<S> {
    match column {
        INT => prop::option::weighted(0.9, -4i8..5)
            .prop_map(S::Int8)
            .boxed(),
        FLOAT => prop_oneof![
            -2.0..2.0f64,
            Just(0.0),
            Just(-0.0),
            Just(f64::NAN),
            Just(1.5)
        ]
        .prop_map(|v| S::Float64(Some(v)))
        .boxed(),
        TEXT => "[abc]{0,2}".prop_map(|v| S::Utf8View(Some(v))).boxed(),
        BOOL => any::<bool>().prop_map(|v| S::Boolean(Some(v))).boxed(),
        TIME => (0i64..6)
            .prop_map(|t| S::TimestampSecond(Some(t * 40_000), None))
            .boxed(),
        DATE => (0i32..4).prop_map(|v| S::Date32(Some(v))).boxed(),
        _ => prop::sample::select(vec!["m", "a", "z", "b", "k", "?"])
            .prop_map(|v| {
                let value = Box::new(S::Utf8(Some(v.to_owned())));
                S::Dictionary(Box::new(DataType::Int8), value)
            })
            .boxed(),
    }
}

fn atom() -> impl Strategy<Value = Expr> {
    let compared = (0usize..7).prop_flat_map(|c| {
        (comparison(), literal(c), any::<bool>()).prop_map(move |(op, v, swap)| {
            if swap {
                binary(lit(v), op, col(c))
            } else {
                binary(col(c), op, lit(v))
            }
        })
    });
    let listed = (0usize..7).prop_flat_map(|c| {
        (prop::collection::vec(literal(c), 1..25), any::<bool>()).prop_map(
            move |(list, negated)| {
                let list = list.into_iter().map(lit).collect();
                Arc::new(InListExpr::try_new(col(c), list, negated, &schema()).unwrap()) as Expr
            },
        )
    });
    let cast = |c: usize, to: DataType| Arc::new(CastExpr::new(col(c), to, None)) as Expr;
    let through_cast = prop_oneof![
        (comparison(), -4i64..5).prop_map(move |(op, v)| binary(
            cast(INT, DataType::Int64),
            op,
            lit(v)
        )),
        (comparison(), -2.0..2.0f64).prop_map(move |(op, v)| binary(
            cast(INT, DataType::Float64),
            op,
            lit(v)
        )),
        (comparison(), any::<bool>()).prop_map(move |(op, v)| binary(
            cast(INT, DataType::Boolean),
            op,
            lit(v)
        )),
        (comparison(), 0i32..4).prop_map(move |(op, v)| binary(
            cast(TIME, DataType::Date32),
            op,
            lit(S::Date32(Some(v)))
        )),
        (comparison(), 0i64..86_400).prop_map(move |(op, v)| {
            let time = S::Time64Nanosecond(Some(v * 1_000_000_000));
            binary(
                cast(TIME, DataType::Time64(TimeUnit::Nanosecond)),
                op,
                lit(time),
            )
        }),
    ];
    let like = ("[ab]{0,2}[%_]?", any::<bool>()).prop_map(|(pattern, negated)| {
        let pattern = lit(S::Utf8View(Some(pattern)));
        Arc::new(LikeExpr::new(negated, false, col(TEXT), pattern)) as Expr
    });
    let null = (0usize..7, any::<bool>()).prop_map(|(c, is)| {
        if is {
            is_null(col(c)).unwrap()
        } else {
            is_not_null(col(c)).unwrap()
        }
    });
    let constant = prop::option::of(any::<bool>()).prop_map(|v| lit(S::Boolean(v)));
    prop_oneof![
        6 => compared,
        3 => listed,
        3 => through_cast,
        2 => like,
        2 => null,
        1 => Just(col(BOOL)),
        1 => constant,
    ]
}

fn condition() -> impl Strategy<Value = Expr> {
    atom().prop_recursive(4, 12, 2, |inner| {
        prop_oneof![
            3 => (inner.clone(), inner.clone()).prop_map(|(a, b)| binary(a, Op::And, b)),
            3 => (inner.clone(), inner.clone()).prop_map(|(a, b)| binary(a, Op::Or, b)),
            1 => inner.prop_map(|a| not(a).unwrap()),
        ]
    })
}

fn evaluate(expr: &Expr, tiles: &[RecordBatch], known: &[bool]) -> Option<Vec<Verdict>> {
    let enumeration = |column| (column == ENUM).then(labels);
    let pruner = ExprPruner::over(expr, &schema(), &enumeration)?;
    let columns = pruner.columns().iter();
    let statistics = PrunedTileStatistics {
        tiles: tiles.len(),
        cells: tiles
            .iter()
            .map(|t| t.num_rows() as u64)
            .collect::<Vec<_>>()
            .into(),
        columns: columns.map(|c| statistics(*c, tiles, known)).collect(),
    };
    Some(pruner.evaluate(&statistics))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn verdicts_are_what_evaluating_the_rows_gives(
        tiles in prop::collection::vec(prop::collection::vec(row(), 1..4), 1..5),
        known in prop::collection::vec(prop::bool::weighted(0.9), 5),
        expr in condition(),
    ) {
        let tiles = tiles.iter().map(|rows| batch(rows)).collect::<Vec<_>>();
        if let Some(verdicts) = evaluate(&expr, &tiles, &known) {
            for (tile, verdict) in tiles.iter().zip(verdicts) {
                let Ok(value) = expr.evaluate(tile) else { continue };
                let value = value.into_array(tile.num_rows()).unwrap();
                let matches = value.as_boolean().iter().filter(|v| *v == Some(true)).count();
                match verdict {
                    Verdict::Nothing => prop_assert_eq!(matches, 0, "{} on {:?}", expr, tile),
                    Verdict::Everything => prop_assert_eq!(matches, tile.num_rows(), "{} on {:?}", expr, tile),
                    Verdict::Something => {}
                }
            }
        }
    }
}

/// Tiles with the numbers 0, 1, 2 and so on, ten in each.
fn runs(tiles: usize) -> PrunedTileStatistics {
    let ends = |first: i64| {
        let values = (0..tiles as i64).map(|t| t * 10 + first);
        Arc::new(datafusion::arrow::array::Int64Array::from_iter_values(
            values,
        )) as ArrayRef
    };
    PrunedTileStatistics {
        tiles,
        cells: UInt64Array::from(vec![10; tiles]),
        columns: vec![ColumnStatistics {
            column: 0,
            min: ends(0),
            max: ends(9),
            null_counts: UInt64Array::from(vec![0; tiles]),
            codes: None,
        }],
    }
}

fn long_column() -> (SchemaRef, Expr) {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    (schema, Arc::new(Column::new("n", 0)))
}

#[test]
fn a_list_of_100_000_values_keeps_the_tiles_that_hold_one() {
    let (schema, column) = long_column();
    let list = (0..100_000i64).map(|v| lit(v * 25)).collect();
    let list: Expr = Arc::new(InListExpr::try_new(column, list, false, &schema).unwrap());
    let pruner = ExprPruner::over(&list, &schema, &|_| None).unwrap();
    let verdicts = pruner.evaluate(&runs(1000));
    for (tile, verdict) in verdicts.iter().enumerate() {
        let held = (0..10).any(|i| (tile * 10 + i).is_multiple_of(25));
        assert_eq!(*verdict != Verdict::Nothing, held, "tile {tile}");
    }
}

#[test]
fn a_thousand_ranges_keep_the_tiles_they_touch() {
    let (schema, column) = long_column();
    let range = |i: i64| {
        let from = binary(Arc::clone(&column), Op::GtEq, lit(i * 100));
        binary(
            from,
            Op::And,
            binary(Arc::clone(&column), Op::LtEq, lit(i * 100 + 4)),
        )
    };
    let any = (0..1000)
        .map(range)
        .reduce(|a, b| binary(a, Op::Or, b))
        .unwrap();
    let pruner = ExprPruner::over(&any, &schema, &|_| None).unwrap();
    let verdicts = pruner.evaluate(&runs(200));
    for (tile, verdict) in verdicts.iter().enumerate() {
        assert_eq!(
            *verdict != Verdict::Nothing,
            tile.is_multiple_of(10),
            "tile {tile}"
        );
    }
}
