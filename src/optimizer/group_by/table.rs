//! The groups found so far, and their states.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowNumericType, AsArray, BooleanArray, Int64Array, PrimitiveArray,
    RecordBatch, UInt32Array, UInt64Array,
};
use datafusion::arrow::compute::{self, partition, prep_null_mask_filter, take_record_batch};
use datafusion::arrow::datatypes::{
    DataType, Float64Type, Int64Type, Schema, SchemaRef, UInt64Type,
};
use datafusion::common::{Result, internal_datafusion_err, internal_err};
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::count::Count;
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::{ColumnarValue, EmitTo, GroupsAccumulator};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;

use super::numbers::{KeySpan, NumberTable};
use crate::expressions::shape::PhysicalExprRef;

/// With shorter runs than this, the group of each row is looked up.
const ROWS_PER_RUN: usize = 2;
/// With runs as long as this, the state of each run is computed before it is merged into its group.
const LONG_RUN: usize = 24;

/// The groups found so far, and their states.
pub(super) struct GroupTable {
    keys: GroupKeys,
    functions: Vec<GroupFunction>,
    /// The schema of states.
    schema: SchemaRef,
    values: Box<dyn GroupValues>,
    /// The table of integers, if the keys are integers within spans.
    numbers: Option<NumberTable>,
    /// The group of each run, and of each row.
    of_runs: Vec<usize>,
    of_rows: Vec<usize>,
}

/// Ranges of consecutive rows of a batch with equal keys.
type KeyRuns = Vec<Range<usize>>;

/// The keys that rows are grouped by.
struct GroupKeys {
    /// The columns of the input that the expressions read.
    columns: Vec<usize>,
    /// The expressions over only those columns.
    exprs: Vec<PhysicalExprRef>,
    /// The keys as columns of the states.
    schema: SchemaRef,
}

/// An aggregate function.
struct GroupFunction {
    function: Arc<AggregateFunctionExpr>,
    arguments: Vec<PhysicalExprRef>,
    filter: Option<PhysicalExprRef>,
    accumulator: Box<dyn GroupsAccumulator>,
    run_state: Option<RunState>,
}

impl GroupTable {
    /// An empty table for a partial aggregate; `spans` are the ranges of integer keys, or empty.
    pub(super) fn new(
        partial: &AggregateExec,
        spans: &[KeySpan],
        schema: SchemaRef,
    ) -> Result<Self> {
        let by = partial.group_expr().input_exprs();
        let input = partial.input().schema();
        let keys = GroupKeys::new(&by, &input, &schema)?;
        let functions =
            partial
                .aggr_expr()
                .iter()
                .zip(partial.filter_expr())
                .map(|(function, filter)| {
                    Ok(GroupFunction {
                        run_state: RunState::of(function, &input)?.filter(|_| filter.is_none()),
                        arguments: function.expressions(),
                        filter: filter.clone(),
                        accumulator: function.create_groups_accumulator()?,
                        function: Arc::clone(function),
                    })
                });
        Ok(Self {
            values: new_group_values(Arc::clone(&keys.schema), &GroupOrdering::None)?,
            functions: functions.collect::<Result<_>>()?,
            numbers: match spans {
                [] => None,
                spans => NumberTable::new(spans),
            },
            keys,
            schema,
            of_runs: Vec::new(),
            of_rows: Vec::new(),
        })
    }

    /// Whether groups are found in a table of integers.
    pub(super) fn is_by_number(&self) -> bool {
        self.numbers.is_some()
    }

    /// The number of groups.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Size in memory.
    pub(super) fn size(&self) -> usize {
        let functions = self.functions.iter().map(|f| f.accumulator.size());
        let scratch = self.of_rows.capacity() + self.of_runs.capacity();
        let numbers = self.numbers.as_ref().map_or(0, NumberTable::size);
        self.values.size() + functions.sum::<usize>() + numbers + scratch * size_of::<usize>()
    }

    /// Adds the rows of a batch to their groups, and returns the number of runs.
    pub(super) fn add(&mut self, batch: &RecordBatch) -> Result<usize> {
        let runs = match &mut self.numbers {
            Some(numbers) => {
                let keys = self.keys.evaluate(&batch.project(&self.keys.columns)?)?;
                numbers.intern(&keys, self.values.as_mut(), &mut self.of_rows)?;
                KeyRuns::new()
            }
            None => self.find_runs(batch)?,
        };
        let per_run = batch.num_rows().checked_div(runs.len()).unwrap_or(1);
        let groups = self.values.len();
        for function in &mut self.functions {
            if let Some(state) = function.run_state.filter(|_| per_run >= LONG_RUN) {
                function.add_runs(batch, state, &runs, &self.of_runs, groups)?;
                continue;
            }
            if self.of_rows.is_empty() {
                for (run, group) in runs.iter().zip(&self.of_runs) {
                    self.of_rows.resize(run.end, *group);
                }
            }
            function.add_rows(batch, &self.of_rows, groups)?;
        }
        Ok(match runs.len() {
            0 => batch.num_rows(),
            runs => runs,
        })
    }

    /// Finds the runs of a batch, and the group of each; the group of each row if runs are short.
    fn find_runs(&mut self, batch: &RecordBatch) -> Result<KeyRuns> {
        let rows = batch.num_rows();
        let keys = batch.project(&self.keys.columns)?;
        let runs: KeyRuns = match keys.columns() {
            [] => std::iter::once(0..rows).collect(),
            columns => partition(columns)?.ranges(),
        };
        self.of_rows.clear();
        if rows / runs.len().max(1) < ROWS_PER_RUN {
            let keys = self.keys.evaluate(&keys)?;
            self.values.intern(&keys, &mut self.of_rows)?;
        } else {
            let firsts = take_record_batch(&keys, &starts(&runs)?)?;
            let keys = self.keys.evaluate(&firsts)?;
            self.values.intern(&keys, &mut self.of_runs)?;
        }
        Ok(runs)
    }

    /// Returns the states of all groups, and removes the groups.
    pub(super) fn take_states(&mut self) -> Result<RecordBatch> {
        let mut columns = self.values.emit(EmitTo::All)?;
        self.values = new_group_values(Arc::clone(&self.keys.schema), &GroupOrdering::None)?;
        if let Some(numbers) = &mut self.numbers {
            numbers.clear();
        }
        for function in &mut self.functions {
            columns.extend(function.accumulator.state(EmitTo::All)?);
            function.accumulator = function.function.create_groups_accumulator()?;
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

impl GroupKeys {
    fn new(by: &[PhysicalExprRef], input: &Schema, states: &Schema) -> Result<Self> {
        let mut columns = by
            .iter()
            .flat_map(collect_columns)
            .map(|column| Column::index(&column))
            .collect::<Vec<_>>();
        columns.sort_unstable();
        columns.dedup();
        let looked_at = input.project(&columns)?;
        let exprs = by.iter().map(|expr| {
            let expr = Arc::clone(expr);
            reassign_expr_columns(expr, &looked_at)
        });
        let fields = states.fields().iter().take(by.len()).cloned();
        Ok(Self {
            exprs: exprs.collect::<Result<_>>()?,
            schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
            columns,
        })
    }

    fn evaluate(&self, columns: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let rows = columns.num_rows();
        let exprs = self.exprs.iter();
        exprs
            .map(|expr| expr.evaluate(columns)?.into_array(rows))
            .collect()
    }
}

impl GroupFunction {
    fn add_runs(
        &mut self,
        batch: &RecordBatch,
        state: RunState,
        runs: &[Range<usize>],
        groups: &[usize],
        total: usize,
    ) -> Result<()> {
        let [argument] = self.arguments.as_slice() else {
            return internal_err!("{} has not got one argument", self.function.name());
        };
        let states = state.of_runs(argument.evaluate(batch)?, runs)?;
        self.accumulator.merge_batch(&states, groups, total)
    }

    fn add_rows(&mut self, batch: &RecordBatch, groups: &[usize], total: usize) -> Result<()> {
        let evaluate = |expr: &PhysicalExprRef| expr.evaluate(batch)?.into_array(batch.num_rows());
        let arguments = self
            .arguments
            .iter()
            .map(evaluate)
            .collect::<Result<Vec<_>>>()?;
        let filter = self.filter.as_ref().map(evaluate).transpose()?;
        let filter = filter.map(|filter| only_true(filter.as_boolean()));
        self.accumulator
            .update_batch(&arguments, groups, filter.as_ref(), total)
    }
}

/// The first row of each run.
fn starts(runs: &[Range<usize>]) -> Result<UInt32Array> {
    let starts = runs
        .iter()
        .map(|run| u32::try_from(run.start))
        .collect::<std::result::Result<Vec<_>, _>>()
        .map_err(|_| internal_datafusion_err!("a batch of more than 2^32 rows"))?;
    Ok(UInt32Array::from(starts))
}

/// A filter that is never NULL.
fn only_true(filter: &BooleanArray) -> BooleanArray {
    match filter.null_count() {
        0 => filter.clone(),
        _ => prep_null_mask_filter(filter),
    }
}

/// The state of a function.
///
/// An accumulator adds values to a group one by one, each depending on the one before. A run belongs to one group, so
/// its values can be combined first, without that dependency: then one state per run is merged into the accumulator,
/// like the state of another partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunState {
    /// The number of values.
    Count,
    /// The sum of the values.
    Sum,
    /// The number of values and their sum.
    Avg,
}

impl RunState {
    /// `None` if the accumulator should process the values itself.
    pub(super) fn of(function: &AggregateFunctionExpr, input: &Schema) -> Result<Option<Self>> {
        let arguments = function.expressions();
        let ([argument], false) = (arguments.as_slice(), function.is_distinct()) else {
            return Ok(None);
        };
        let argument = argument.data_type(input)?;
        let added = matches!(
            argument,
            DataType::Int64 | DataType::UInt64 | DataType::Float64
        );
        let inner = function.fun().inner();
        let (state, types) = if inner.is::<Count>() {
            (Self::Count, vec![DataType::Int64])
        } else if inner.is::<Sum>() && added {
            (Self::Sum, vec![argument])
        } else if inner.is::<Avg>() && argument == DataType::Float64 {
            (Self::Avg, vec![DataType::UInt64, argument])
        } else {
            return Ok(None);
        };
        // The types of the state as computed here.
        let fields = function.state_fields()?;
        let same = fields.iter().map(|field| field.data_type()).eq(&types);
        Ok(same.then_some(state))
    }

    /// Computes the states of runs of values.
    pub(super) fn of_runs(
        self,
        values: ColumnarValue,
        runs: &[Range<usize>],
    ) -> Result<Vec<ArrayRef>> {
        let values = match values {
            // The argument of count(*).
            ColumnarValue::Scalar(value) if self == Self::Count && !value.is_null() => {
                let counts = runs.iter().map(|run| run.len() as i64);
                return Ok(vec![Arc::new(Int64Array::from_iter_values(counts))]);
            }
            values => values.into_array(runs.last().map_or(0, |run| run.end))?,
        };
        let nulls = values.logical_nulls();
        let counts = runs.iter().map(|run| match &nulls {
            Some(nulls) => run.len() - nulls.slice(run.start, run.len()).null_count(),
            None => run.len(),
        });
        Ok(match self {
            Self::Count => {
                let counts = counts.map(|count| count as i64);
                vec![Arc::new(Int64Array::from_iter_values(counts))]
            }
            Self::Sum => vec![sums(&values, runs)?],
            Self::Avg => {
                // A group without values has no count either.
                let counts = counts.map(|count| (count > 0).then_some(count as u64));
                let counts = Arc::new(counts.collect::<UInt64Array>());
                vec![counts, sums(&values, runs)?]
            }
        })
    }
}

/// The sum of each run; NULL if it has no values.
fn sums(values: &ArrayRef, runs: &[Range<usize>]) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        DataType::Int64 => Arc::new(sums_of::<Int64Type>(values, runs)),
        DataType::UInt64 => Arc::new(sums_of::<UInt64Type>(values, runs)),
        DataType::Float64 => Arc::new(sums_of::<Float64Type>(values, runs)),
        other => return internal_err!("{other} has no sum of its own type"),
    })
}

fn sums_of<T: ArrowNumericType>(values: &ArrayRef, runs: &[Range<usize>]) -> PrimitiveArray<T> {
    let values = values.as_primitive::<T>();
    let sum = |run: &Range<usize>| compute::sum(&values.slice(run.start, run.len()));
    runs.iter().map(sum).collect()
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Float64Array;
    use datafusion::common::ScalarValue;

    use super::*;

    #[test]
    fn runs_without_values_have_no_sum_and_no_average_but_a_count() {
        let values: ArrayRef = Arc::new(Float64Array::from(vec![
            Some(1.5),
            None,
            None,
            Some(f64::NAN),
            Some(2.0),
        ]));
        let runs = [0..2, 2..3, 3..5];
        let states = |state: RunState| {
            let values = ColumnarValue::Array(Arc::clone(&values));
            state.of_runs(values, &runs).unwrap()
        };
        let counts = &states(RunState::Count)[0];
        assert_eq!(counts.as_primitive::<Int64Type>().values()[..], [1, 0, 2]);
        let average = states(RunState::Avg);
        let counts = average[0].as_primitive::<UInt64Type>();
        assert_eq!(counts.iter().collect::<Vec<_>>(), [Some(1), None, Some(2)]);
        let sums = average[1].as_primitive::<Float64Type>();
        assert_eq!((sums.value(0), sums.is_null(1)), (1.5, true));
        assert!(sums.value(2).is_nan());
    }

    #[test]
    fn rows_are_counted_by_a_constant() {
        let one = ColumnarValue::Scalar(ScalarValue::Int64(Some(1)));
        let counts = RunState::Count.of_runs(one, &[0..7, 7..8]).unwrap();
        assert_eq!(counts[0].as_primitive::<Int64Type>().values()[..], [7, 1]);
        let null = ColumnarValue::Scalar(ScalarValue::Int64(None));
        let counts = RunState::Count.of_runs(null, &[0..7, 7..8]).unwrap();
        assert_eq!(counts[0].as_primitive::<Int64Type>().values()[..], [0, 0]);
    }
}
