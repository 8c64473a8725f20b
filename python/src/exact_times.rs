//! Times in another unit, or an error that names the time that would lose something.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, TimeUnit};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use crate::literals::parts_of_second;

/// The type with another unit, if values of the type have one.
pub fn with_unit(ty: &DataType, unit: TimeUnit) -> Option<DataType> {
    match ty {
        DataType::Timestamp(_, zone) => Some(DataType::Timestamp(unit, zone.clone())),
        DataType::Duration(_) => Some(DataType::Duration(unit)),
        // Arrow has no longer units for these.
        DataType::Time64(_) if matches!(unit, TimeUnit::Microsecond | TimeUnit::Nanosecond) => {
            Some(DataType::Time64(unit))
        }
        _ => None,
    }
}

fn unit_of(ty: &DataType) -> Option<TimeUnit> {
    match ty {
        DataType::Timestamp(unit, _) | DataType::Duration(unit) | DataType::Time64(unit) => {
            Some(*unit)
        }
        _ => None,
    }
}

/// The times of a column in another unit.
pub fn in_unit(times: Expr, column: &str, wanted: DataType) -> Expr {
    let function = ExactTimes {
        column: column.to_owned(),
        wanted,
        signature: Signature::any(1, Volatility::Immutable),
    };
    ScalarUDF::from(function).call(vec![times])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ExactTimes {
    column: String,
    wanted: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for ExactTimes {
    fn name(&self) -> &str {
        "exact_times"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.wanted.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let [times] = args.arg_fields else {
            return exec_err!("exact_times takes one argument");
        };
        let field = Field::new(self.name(), self.wanted.clone(), times.is_nullable());
        Ok(Arc::new(field.with_metadata(times.metadata().clone())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [times] = args.args.as_slice() else {
            return exec_err!("exact_times takes one argument");
        };
        match times {
            ColumnarValue::Array(times) => Ok(ColumnarValue::Array(self.converted(times)?)),
            ColumnarValue::Scalar(time) => {
                let converted = self.converted(&time.to_array()?)?;
                let time = ScalarValue::try_from_array(&converted, 0)?;
                Ok(ColumnarValue::Scalar(time))
            }
        }
    }
}

impl ExactTimes {
    fn converted(&self, times: &ArrayRef) -> Result<ArrayRef> {
        let units = (unit_of(times.data_type()), unit_of(&self.wanted));
        let (Some(from), Some(to)) = units else {
            return exec_err!("the column '{}' has no times", self.column);
        };
        let counts = cast(times, &DataType::Int64)?;
        let counts = counts.as_primitive::<Int64Type>();
        let (from, to) = (parts_of_second(from), parts_of_second(to));
        let convert = |count: i64| match to >= from {
            true => count.checked_mul(to / from),
            false => (count % (from / to) == 0).then(|| count / (from / to)),
        };
        let converted: Result<Int64Array, ()> = counts.try_unary(|count| convert(count).ok_or(()));
        match converted {
            Ok(converted) => Ok(cast(&converted, &self.wanted)?),
            Err(()) => {
                let lost = (0..counts.len())
                    .find(|row| counts.is_valid(*row) && convert(counts.value(*row)).is_none());
                self.refused(times, lost.unwrap_or_default())
            }
        }
    }

    fn refused(&self, times: &ArrayRef, row: usize) -> Result<ArrayRef> {
        let time = arrow::util::display::array_value_to_string(times, row)?;
        let unit = match unit_of(&self.wanted) {
            Some(TimeUnit::Second) => "seconds",
            Some(TimeUnit::Millisecond) => "milliseconds",
            Some(TimeUnit::Microsecond) => "microseconds",
            _ => "nanoseconds of 64 bits",
        };
        exec_err!(
            "the column '{}' holds {time}, which can't be written in whole {unit}: read it without time_unit, or leave the column or \
             the row out",
            self.column
        )
    }
}
