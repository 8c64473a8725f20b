//! Conversion of aggregate functions to requests for metadata, and of the results to partial states.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{Result, internal_datafusion_err, plan_err};
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::count::Count;
use datafusion::functions_aggregate::min_max::{Max, Min};
use datafusion::functions_aggregate::sum::Sum as SumFunction;
use datafusion::logical_expr::Accumulator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
use tiledb_engine::array::fragment::statistics::TileSum;
use tiledb_engine::scan::ScanPlan;
use tiledb_engine::scan::summary::{ColumnSummary, TilesSummary};
use tiledb_engine::stats::trust::{RequestedAggregates, SumAs};

/// The aggregates, and the columns they are computed from.
#[derive(Debug, Clone)]
pub struct AnsweredAggregates {
    aggregates: Vec<(Arc<AggregateFunctionExpr>, AnswerRecipe)>,
    asked: Arc<Vec<RequestedAggregates>>,
}

/// How the state of an aggregate is computed from summaries; numbers are indexes of the requested columns.
#[derive(Debug, Clone, PartialEq)]
enum AnswerRecipe {
    CountRows,
    Count(usize),
    Min(usize),
    Max(usize),
    Sum(usize, DataType),
    Avg(usize),
}

/// The argument of an aggregate.
enum AggregateArgument {
    /// A constant that is not NULL.
    Constant,
    /// A column of the table, possibly cast without loss.
    Column {
        column: usize,
        cast: Option<DataType>,
    },
}

impl AnsweredAggregates {
    /// `None` if metadata cannot answer one of the aggregates.
    pub fn new(
        aggregates: &[Arc<AggregateFunctionExpr>],
        projections: &[Vec<Arc<dyn PhysicalExpr>>],
        plan: &ScanPlan,
    ) -> Result<Option<Self>> {
        let mut asked = Vec::new();
        let mut answered = Vec::with_capacity(aggregates.len());
        for aggregate in aggregates {
            let Some(recipe) = recipe(aggregate, projections, plan, &mut asked)? else {
                return Ok(None);
            };
            answered.push((Arc::clone(aggregate), recipe));
        }
        Ok(Some(Self {
            aggregates: answered,
            asked: Arc::new(asked),
        }))
    }

    /// The requested aggregates of columns.
    pub fn asked(&self) -> Arc<Vec<RequestedAggregates>> {
        Arc::clone(&self.asked)
    }

    /// The names of the aggregates.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.aggregates
            .iter()
            .map(|(aggregate, _)| aggregate.name())
    }

    /// One row of partial state for all tiles of these summaries.
    pub fn state(&self, summaries: &[TilesSummary], schema: SchemaRef) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(schema.fields().len());
        for (aggregate, recipe) in &self.aggregates {
            let mut accumulator = aggregate.create_accumulator()?;
            for summary in summaries {
                recipe.merge(summary, accumulator.as_mut())?;
            }
            for value in accumulator.state()? {
                columns.push(value.to_array()?);
            }
        }
        Ok(RecordBatch::try_new(schema, columns)?)
    }
}

impl AnswerRecipe {
    fn merge(&self, summary: &TilesSummary, accumulator: &mut dyn Accumulator) -> Result<()> {
        let column = |number: &usize| {
            let column = summary.columns.get(*number);
            column.ok_or_else(|| internal_datafusion_err!("column {number} was not asked for"))
        };
        let missing = || internal_datafusion_err!("a bound was not asked for");
        let states: Vec<ArrayRef> = match self {
            Self::CountRows => vec![counts(&summary.rows)],
            Self::Count(number) => vec![counts(&column(number)?.counts)],
            Self::Min(number) => vec![column(number)?.mins.clone().ok_or_else(missing)?],
            Self::Max(number) => vec![column(number)?.maxes.clone().ok_or_else(missing)?],
            Self::Sum(number, of) => vec![sums(column(number)?, of)?],
            Self::Avg(number) => {
                let column = column(number)?;
                let counts = UInt64Array::from(column.counts.clone());
                vec![Arc::new(counts), sums(column, &DataType::Float64)?]
            }
        };
        accumulator.merge_batch(&states)
    }

    /// The types of the state as computed here.
    fn state_types(&self, of: &AggregateFunctionExpr) -> Vec<DataType> {
        match self {
            Self::CountRows | Self::Count(_) => vec![DataType::Int64],
            Self::Min(_) | Self::Max(_) => vec![of.field().data_type().clone()],
            Self::Sum(_, of) => vec![of.clone()],
            Self::Avg(_) => vec![DataType::UInt64, DataType::Float64],
        }
    }
}

fn counts(counts: &[u64]) -> ArrayRef {
    let counts = counts.iter().map(|n| i64::try_from(*n).unwrap_or(i64::MAX));
    Arc::new(Int64Array::from_iter_values(counts))
}

/// The sum of each tile; NULL if it has no values.
fn sums(column: &ColumnSummary, of: &DataType) -> Result<ArrayRef> {
    let sums = column
        .sums
        .iter()
        .zip(&column.counts)
        .map(|(sum, count)| (*count > 0).then_some(*sum));
    let range = |e| internal_datafusion_err!("a sum of a tile is out of range: {e}");
    Ok(match of {
        DataType::Int64 => {
            let integer = |sum| match sum {
                TileSum::Int(sum) => Ok(sum),
                TileSum::UInt(sum) => i64::try_from(sum).map_err(range),
                TileSum::Float(_) => {
                    Err(internal_datafusion_err!("a sum of floats isn't an integer"))
                }
            };
            let sums = sums.map(|sum| sum.map(integer).transpose());
            Arc::new(sums.collect::<Result<Int64Array>>()?)
        }
        DataType::UInt64 => {
            let integer = |sum| match sum {
                TileSum::Int(sum) => u64::try_from(sum).map_err(range),
                TileSum::UInt(sum) => Ok(sum),
                TileSum::Float(_) => {
                    Err(internal_datafusion_err!("a sum of floats isn't an integer"))
                }
            };
            let sums = sums.map(|sum| sum.map(integer).transpose());
            Arc::new(sums.collect::<Result<UInt64Array>>()?)
        }
        _ => {
            #[expect(clippy::cast_precision_loss, reason = "floats round")]
            let float = |sum| match sum {
                TileSum::Int(sum) => sum as f64,
                TileSum::UInt(sum) => sum as f64,
                TileSum::Float(sum) => sum,
            };
            Arc::new(sums.map(|sum| sum.map(float)).collect::<Float64Array>())
        }
    })
}

fn recipe(
    aggregate: &AggregateFunctionExpr,
    projections: &[Vec<Arc<dyn PhysicalExpr>>],
    plan: &ScanPlan,
    asked: &mut Vec<RequestedAggregates>,
) -> Result<Option<AnswerRecipe>> {
    let arguments = aggregate.expressions();
    let [argument] = arguments.as_slice() else {
        return Ok(None);
    };
    if !aggregate.order_bys().is_empty() {
        return Ok(None);
    }
    let Some(argument) = resolve(argument, projections, plan) else {
        return Ok(None);
    };
    let function = aggregate.fun().inner();
    let extreme = function.is::<Min>() || function.is::<Max>();
    if aggregate.is_distinct() && !extreme {
        return Ok(None);
    }
    let result = aggregate.field().data_type().clone();
    let recipe = match argument {
        AggregateArgument::Constant if function.is::<Count>() => {
            check_countable(plan)?;
            AnswerRecipe::CountRows
        }
        AggregateArgument::Constant => return Ok(None),
        AggregateArgument::Column { column, .. } if function.is::<Count>() => {
            if plan.spec.table.schema.field(column).is_nullable() {
                AnswerRecipe::Count(slot(asked, column, |_| {}))
            } else {
                check_countable(plan)?;
                AnswerRecipe::CountRows
            }
        }
        AggregateArgument::Column { column, cast: None } if extreme => {
            if *plan.spec.table.schema.field(column).data_type() != result {
                return Ok(None);
            }
            if function.is::<Min>() {
                AnswerRecipe::Min(slot(asked, column, |asked| asked.min = true))
            } else {
                AnswerRecipe::Max(slot(asked, column, |asked| asked.max = true))
            }
        }
        AggregateArgument::Column { column, cast } => {
            let of = cast.unwrap_or_else(|| {
                let field = plan.spec.table.schema.field(column);
                field.data_type().clone()
            });
            let sum = match of {
                DataType::Int64 | DataType::UInt64 => SumAs::Integer,
                DataType::Float64 => SumAs::Float,
                _ => return Ok(None),
            };
            if function.is::<SumFunction>() && of == result {
                AnswerRecipe::Sum(slot(asked, column, |asked| add(asked, sum)), of)
            } else if function.is::<Avg>() && of == DataType::Float64 && result == of {
                AnswerRecipe::Avg(slot(asked, column, |asked| add(asked, sum)))
            } else {
                return Ok(None);
            }
        }
    };
    let fields = aggregate.state_fields()?;
    let types = fields.iter().map(|field| field.data_type().clone());
    let known = types.collect::<Vec<_>>() == recipe.state_types(aggregate);
    Ok(known.then_some(recipe))
}

/// Fails if the scan has more rows than COUNT can return, because counting them would never end.
fn check_countable(plan: &ScanPlan) -> Result<()> {
    match plan.exact_rows {
        Some(rows) if rows > i64::MAX.unsigned_abs().into() => plan_err!(
            "the scan has more rows than COUNT can return, which is at most {}: restrict the dimensions with a filter",
            i64::MAX
        ),
        _ => Ok(()),
    }
}

fn add(asked: &mut RequestedAggregates, sum: SumAs) {
    asked.sum = Some(match asked.sum {
        Some(other) if other != sum => SumAs::Both,
        _ => sum,
    });
}

/// The index of a column among the requested ones.
fn slot(
    asked: &mut Vec<RequestedAggregates>,
    column: usize,
    ask: impl FnOnce(&mut RequestedAggregates),
) -> usize {
    let slot = asked
        .iter()
        .position(|asked| asked.column == column)
        .unwrap_or_else(|| {
            asked.push(RequestedAggregates {
                column,
                min: false,
                max: false,
                sum: None,
            });
            asked.len() - 1
        });
    if let Some(asked) = asked.get_mut(slot) {
        ask(asked);
    }
    slot
}

/// An expression over the outermost projection, as an expression over the table.
fn resolve(
    expr: &Arc<dyn PhysicalExpr>,
    projections: &[Vec<Arc<dyn PhysicalExpr>>],
    plan: &ScanPlan,
) -> Option<AggregateArgument> {
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return (!literal.value().is_null()).then_some(AggregateArgument::Constant);
    }
    if let Some(column) = expr.downcast_ref::<Column>() {
        return match projections.split_first() {
            Some((outer, inner)) => resolve(outer.get(column.index())?, inner, plan),
            None => Some(AggregateArgument::Column {
                column: *plan.spec.projection.get(column.index())?,
                cast: None,
            }),
        };
    }
    let cast = expr.downcast_ref::<CastExpr>()?;
    let to = cast.cast_type();
    match resolve(cast.expr(), projections, plan)? {
        AggregateArgument::Column { column, cast: from } => {
            let stored = plan.spec.table.schema.fields().get(column)?.data_type();
            let lossless = widens(from.as_ref().unwrap_or(stored), to);
            lossless.then(|| AggregateArgument::Column {
                column,
                cast: (to != stored).then(|| to.clone()),
            })
        }
        AggregateArgument::Constant => None,
    }
}

/// Whether a cast keeps the sum: between integers without loss, or to `f64`.
fn widens(from: &DataType, to: &DataType) -> bool {
    use DataType::{Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    match to {
        _ if from == to => true,
        Int64 => matches!(from, Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32),
        UInt64 => matches!(from, UInt8 | UInt16 | UInt32),
        Float64 => from.is_integer() || *from == Float32,
        _ => false,
    }
}
