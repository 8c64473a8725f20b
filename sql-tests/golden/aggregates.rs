//! Aggregates that metadata answer are those of the cells.
//!
//! Every golden array, whole and in a box of its dimensions: counts, bounds, sums and averages of every column, with each
//! way of answering them. Exact answers must be the same to the bit; sums of floats may differ in their last digits where
//! tiles are summed, and a zero in its sign. One array of eight is tried; `GOLDEN=each` tries each, and `AGGREGATES=all`
//! every window of time, more boxes, and each aggregate alone, too, for minutes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::functions_aggregate::expr_fn::{avg, count, max, min, sum};
use datafusion::logical_expr::{Expr, ident, lit};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::TileDbTable;
use libtest_mimic::Failed;
use serde_json::Value;

use crate::support::{allocations, golden};

/// An aggregate of a column.
type Aggregate = fn(Expr) -> Expr;

trials!(golden::on_one_of(16, 0, |array, entry| async move {
    check(array, &entry).await
}));

/// The ways of answering, the first of which is what the others must agree with.
const CELLS: &str = "cells";
const EXACT: &str = "exact_metadata";
const METADATA: &str = "metadata";

async fn check(array: PathBuf, entry: &Value) -> Result<(), Failed> {
    let always = golden::options(entry);
    let thorough = std::env::var("AGGREGATES").is_ok_and(|v| v == "all");
    let mut windows = vec![always.clone()];
    for window in entry["windows"].as_array().into_iter().flatten() {
        let mut options = always.clone();
        options.push(("timestamp_start".to_owned(), window[0].to_string()));
        options.push(("timestamp_end".to_owned(), window[1].to_string()));
        windows.push(options);
    }
    if !thorough {
        windows.truncate(1);
    }
    for options in windows {
        let tables = Tables::open(&array, &options, thorough).await?;
        let mut boxes = tables.boxes().await?;
        if !thorough && boxes.len() > 2 {
            boxes.drain(1..boxes.len() - 1);
        }
        for cells in boxes {
            tables.compare(cells.as_ref(), thorough).await?;
        }
    }
    Ok(())
}

/// One array, opened in every way.
struct Tables {
    ctx: SessionContext,
    ways: Vec<(&'static str, Arc<TileDbTable>)>,
    array: String,
    columns: Vec<String>,
    dimensions: Vec<String>,
}

impl Tables {
    async fn open(
        array: &Path,
        options: &[(String, String)],
        thorough: bool,
    ) -> Result<Self, Failed> {
        let config = SessionConfig::new().with_target_partitions(2);
        let ctx = SessionContext::new_with_config_rt(config, allocations::runtime());
        datafusion_tiledb::register(&ctx)?;
        let mut ways = Vec::new();
        for way in [CELLS, EXACT, METADATA] {
            if way == EXACT && !thorough {
                continue;
            }
            let mut builder = TileDbTable::builder(array.display().to_string());
            for (key, value) in options {
                builder = builder.option(key, value)?;
            }
            let table = builder.option("aggregate_from", way)?.open().await?;
            ways.push((way, Arc::new(table)));
        }
        let schema = ctx.read_table(ways[0].1.clone())?;
        let fields = schema.schema().fields();
        let is_dimension = |role: Option<&String>| role.is_some_and(|r| r == "dimension");
        Ok(Self {
            columns: fields.iter().map(|f| f.name().clone()).collect(),
            dimensions: fields
                .iter()
                .filter(|f| is_dimension(f.metadata().get("tiledb.role")))
                .map(|f| f.name().clone())
                .collect(),
            array: format!("{} with {options:?}", array.display()),
            ctx,
            ways,
        })
    }

    /// The whole array, the middle of each dimension, and the middle of all.
    async fn boxes(&self) -> Result<Vec<Option<Expr>>, Failed> {
        let mut boxes = vec![None];
        let mut all: Option<Expr> = None;
        for dimension in &self.dimensions {
            let rows = self
                .ctx
                .read_table(self.ways[0].1.clone())?
                .select(vec![ident(dimension)])?
                .distinct()?
                .sort(vec![ident(dimension).sort(true, true)])?;
            let mut values = Vec::new();
            for batch in rows.collect().await? {
                for row in 0..batch.num_rows() {
                    values.push(ScalarValue::try_from_array(batch.column(0), row)?);
                }
            }
            let at = |i: usize| values.get(i).cloned();
            let (Some(lo), Some(hi)) = (at(values.len() / 5), at(values.len() * 4 / 5)) else {
                continue;
            };
            let middle = ident(dimension).between(lit(lo), lit(hi));
            all = Some(match all {
                Some(all) => all.and(middle.clone()),
                None => middle.clone(),
            });
            boxes.push(Some(middle));
        }
        boxes.extend(all.map(Some));
        Ok(boxes)
    }

    async fn compare(&self, cells: Option<&Expr>, alone: bool) -> Result<(), Failed> {
        self.compare_aggregates(cells, vec![count(lit(1))]).await?;
        for column in &self.columns {
            let of = |functions: &[fn(Expr) -> Expr]| {
                let aggregates = functions.iter().map(|function| function(ident(column)));
                aggregates.collect::<Vec<_>>()
            };
            // Text has no sum, lists have no bounds.
            let all: [&[Aggregate]; 3] =
                [&[count, min, max, sum, avg], &[count, min, max], &[count]];
            for functions in all {
                if !self.compare_aggregates(cells, of(functions)).await? {
                    continue;
                }
                for function in functions.iter().filter(|_| alone) {
                    self.compare_aggregates(cells, of(&[*function])).await?;
                }
                break;
            }
        }
        Ok(())
    }

    /// `false` if there is no such aggregate.
    async fn compare_aggregates(
        &self,
        cells: Option<&Expr>,
        aggregates: Vec<Expr>,
    ) -> Result<bool, Failed> {
        let mut expected: Option<Vec<ScalarValue>> = None;
        for (way, table) in &self.ways {
            let found = match self.aggregate(table, cells, &aggregates).await {
                Ok(found) => found,
                // Of cells that cannot be shown metadata need not tell.
                Err(_) if expected.is_none() => return Ok(false),
                Err(e) => {
                    return Err(
                        format!("{aggregates:?} from {way} of {}: {e:?}", self.array).into(),
                    );
                }
            };
            let expected = expected.get_or_insert_with(|| found.clone());
            let digits = magnitude(expected);
            let agree = expected
                .iter()
                .zip(&found)
                .into_iter()
                .all(|(e, f)| same(e, f, way, digits));
            if !agree || expected.len() != found.len() {
                return Err(format!(
                    "{aggregates:?} where {cells:?} of {}: cells say {expected:?}, {way} {found:?}",
                    self.array
                )
                .into());
            }
        }
        Ok(true)
    }

    async fn aggregate(
        &self,
        table: &Arc<TileDbTable>,
        cells: Option<&Expr>,
        aggregates: &[Expr],
    ) -> Result<Vec<ScalarValue>, Failed> {
        let mut rows = self.ctx.read_table(Arc::clone(table) as _)?;
        if let Some(cells) = cells {
            rows = rows.filter(cells.clone())?;
        }
        let batches = rows
            .aggregate(vec![], aggregates.to_vec())?
            .collect()
            .await?;
        let batch = batches
            .iter()
            .find(|batch| batch.num_rows() == 1)
            .ok_or("an aggregate has no row")?;
        let values = batch.columns().iter();
        Ok(values
            .map(|column| ScalarValue::try_from_array(column, 0))
            .collect::<Result<_, _>>()?)
    }
}

/// The largest of some numbers, by which the digits that a sum may lose are measured: large values may cancel out.
fn magnitude(values: &[ScalarValue]) -> f64 {
    let float = |value: &ScalarValue| match value.cast_to(&DataType::Float64) {
        Ok(ScalarValue::Float64(Some(value))) => value.abs(),
        _ => 0.0,
    };
    values.iter().map(float).fold(0.0, f64::max)
}

fn same(expected: &ScalarValue, found: &ScalarValue, way: &str, magnitude: f64) -> bool {
    if way == METADATA && expected.data_type().is_floating() && !expected.is_null() {
        let float = |value: &ScalarValue| match value.cast_to(&DataType::Float64) {
            Ok(ScalarValue::Float64(value)) => value,
            _ => None,
        };
        return match (float(expected), float(found)) {
            (Some(e), Some(f)) => {
                e == f || (e.is_nan() && f.is_nan()) || (e - f).abs() <= 1e-9 * magnitude
            }
            _ => false,
        };
    }
    expected == found
}
