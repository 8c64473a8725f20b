//! Tests that split predicates on an array of five dimensions and an attribute.

mod random;
mod table;

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::common::ScalarValue as S;
use datafusion::logical_expr::Operator as Op;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, DynamicFilterPhysicalExpr, LikeExpr, in_list, is_not_null,
    is_null, lit, not,
};
use tiledb_engine::format::datatype::Datatype;
use tiledb_engine::geometry::key::NativeKey;
use tiledb_engine::geometry::subarray::KeyRange;

use super::*;

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
    // Dropping a chain this long would overflow the stack in DataFusion's own recursion.
    std::mem::forget(chain);
    let deep = (0..200).fold(cmp(I, Op::Eq, S::Int8(Some(1))), |e, _| not(e).unwrap());
    assert_eq!(describe(&deep), "all + residual");
}
