//! Computation of the states of aggregate functions over runs of rows.
//!
//! An accumulator adds values to a group one by one, each depending on the one before. A run belongs to one group, so
//! its values can be combined first, without that dependency: then one state per run is merged into the accumulator,
//! like the state of another partition.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowNumericType, AsArray, Int64Array, PrimitiveArray, UInt64Array,
};
use datafusion::arrow::compute;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type, Schema, UInt64Type};
use datafusion::common::{Result, internal_err};
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::count::Count;
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

/// The state of a function.
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
