//! Values that statements store in columns: they arrive unchanged, or the statement fails.
//!
//! DataFusion puts a CAST around each value of INSERT and UPDATE whose type isn't its column's type. A CAST may change a value:
//! 78.5 becomes 78, and as a coordinate it replaces the cell there. So these casts become calls of a function that fails over a
//! value that changes. Whoever wants the changed value writes the CAST, which is distinguished from DataFusion's casts [by its
//! type](crate::statements::written).
//!
//! Floats are approximations. A float column stores the nearest float for a DOUBLE or a DECIMAL, but integers must be exact,
//! and only infinity may become infinity.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray};
use datafusion::arrow::compute::kernels::cmp::distinct;
use datafusion::arrow::compute::{CastOptions, can_cast_types, cast, cast_with_options};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, Int64Type, TimeUnit,
};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{ExprSchema, Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use tiledb_engine::Error;
use tiledb_engine::write::create::sql_name;

use super::lists;
use crate::error::to_datafusion_error;
use crate::statements::written::is_written;

/// The name of the exact cast.
pub(super) const EXACT: &str = "tiledb_exact";

/// Replaces a cast that DataFusion has put around a value by the exact cast. Everything else stays.
pub(super) fn unwrapped(value: Expr, column: &str) -> Result<Expr> {
    match value {
        Expr::Alias(mut alias) => {
            *alias.expr = unwrapped(*alias.expr, column)?;
            Ok(Expr::Alias(alias))
        }
        Expr::Cast(Cast { expr, field }) if !is_written(&field) => {
            match may_lose_any(&expr, field.data_type()) {
                true => exact(*expr, field.data_type(), column),
                false => Ok(Expr::Cast(Cast { expr, field })),
            }
        }
        other => Ok(other),
    }
}

/// Whether a cast of a value could lose something, as far as the type is known without the value's columns.
fn may_lose_any(value: &Expr, to: &DataType) -> bool {
    match value {
        Expr::Literal(value, _) => may_lose(&value.data_type(), to),
        _ => true,
    }
}

/// The value of an expression, cast exactly to the type of a column.
pub(super) fn converted(
    value: Expr,
    to: &DataType,
    column: &str,
    schema: &dyn ExprSchema,
) -> Result<Expr> {
    match value.get_type(schema) {
        Ok(from) if from == *to => Ok(value),
        Ok(from) if !may_lose(&from, to) => Ok(Expr::Cast(Cast::new(Box::new(value), to.clone()))),
        _ => exact(value, to, column),
    }
}

/// The error of a value, with the number of its row in the list.
pub(super) fn with_row(error: DataFusionError, row: usize) -> DataFusionError {
    match error {
        DataFusionError::External(cause) => match cause.downcast::<Error>() {
            Ok(error) => to_datafusion_error(error.with("row", row)),
            Err(cause) => DataFusionError::External(cause),
        },
        other => other,
    }
}

fn exact(value: Expr, to: &DataType, column: &str) -> Result<Expr> {
    if let Some(loose) = lists::with_nulls(to) {
        let list = exact(value, &loose, column)?;
        return Ok(lists::whole(list, to, ("column", column)));
    }
    if let Some(text) = beyond_nanoseconds(&value, to) {
        return exact(text, to, column);
    }
    let function = ExactCast {
        to: to.clone(),
        column: column.to_owned(),
        signature: Signature::any(1, Volatility::Immutable),
    };
    if let Expr::Literal(value, metadata) = value {
        let value = function.scalar(&value)?;
        return Ok(Expr::Literal(value, metadata));
    }
    Ok(ScalarUDF::from(function).call(vec![value]))
}

/// The text of `TIMESTAMP '1500-01-01'`, which nanoseconds can't express, for a column of another unit.
fn beyond_nanoseconds(value: &Expr, to: &DataType) -> Option<Expr> {
    let Expr::Cast(Cast { expr, field }) = value else {
        return None;
    };
    let Expr::Literal(text, _) = expr.as_ref() else {
        return None;
    };
    let nanoseconds = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let of_time = matches!(to, DataType::Timestamp(_, None) | DataType::Date32);
    let of_text = text.data_type().is_string() && *field.data_type() == nanoseconds;
    let is_beyond = of_time && of_text && text.cast_to(&nanoseconds).is_err();
    is_beyond.then(|| expr.as_ref().clone())
}

/// The checked value of a NOT NULL column whose type has values that show as NULL. Errors name the row by its `coordinates`.
pub(super) fn required(value: Expr, column: &str, coordinates: Vec<(String, Expr)>) -> Expr {
    let (dimensions, coordinates): (Vec<_>, Vec<_>) = coordinates.into_iter().unzip();
    let function = NotNullCheck {
        column: column.to_owned(),
        dimensions,
        signature: Signature::variadic_any(Volatility::Immutable),
    };
    let arguments = std::iter::once(value).chain(coordinates);
    ScalarUDF::from(function).call(arguments.collect())
}

/// A cast that fails over a value that it would change.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ExactCast {
    to: DataType,
    column: String,
    signature: Signature,
}

/// A value that a cast would change or can't convert.
struct LossyValue {
    row: usize,
    /// The value after the cast, if the cast can convert it.
    becomes: Option<String>,
}

impl ExactCast {
    fn array(&self, values: &ArrayRef) -> Result<ArrayRef> {
        if !may_lose(values.data_type(), &self.to) {
            return taken(values, &self.to);
        }
        let found = match taken(values, &self.to) {
            Ok(found) => found,
            Err(error) => return Err(self.not_taken(values, error)),
        };
        match first_lost(values, &found)? {
            None => Ok(found),
            Some(row) => Err(self.refused(
                values,
                &LossyValue {
                    row,
                    becomes: Some(shown(&found, row)),
                },
                None,
            )),
        }
    }

    fn scalar(&self, value: &ScalarValue) -> Result<ScalarValue> {
        let found = self.array(&value.to_array()?)?;
        ScalarValue::try_from_array(&found, 0)
    }

    /// The error of a cast, with the value that it failed over.
    fn not_taken(&self, values: &ArrayRef, error: DataFusionError) -> DataFusionError {
        let fails =
            |row: &usize| values.is_valid(*row) && taken(&values.slice(*row, 1), &self.to).is_err();
        match (0..values.len()).find(fails) {
            Some(row) => self.refused(values, &LossyValue { row, becomes: None }, Some(error)),
            None => error,
        }
    }

    fn refused(
        &self,
        values: &ArrayRef,
        lost: &LossyValue,
        cause: Option<DataFusionError>,
    ) -> DataFusionError {
        let (value, to) = (shown(values, lost.row), sql_name(plain(&self.to)));
        let error = match &lost.becomes {
            Some(becomes) => Error::invalid(format!(
                "the value {value} would become {becomes}, because the column is {to}: write CAST({value} AS {to}) if that is \
                 meant"
            )),
            None => Error::invalid(format!("{value} isn't a value of {to}")),
        };
        let error = error.with("column", &self.column);
        to_datafusion_error(match cause {
            Some(cause) => error.with_source(cause),
            None => error,
        })
    }
}

impl ScalarUDFImpl for ExactCast {
    fn name(&self) -> &'static str {
        EXACT
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Array(values)] => Ok(ColumnarValue::Array(self.array(values)?)),
            [ColumnarValue::Scalar(value)] => Ok(ColumnarValue::Scalar(self.scalar(value)?)),
            other => datafusion::common::internal_err!("one value is cast, not {}", other.len()),
        }
    }
}

/// A function that returns its value, and fails if the value is NULL.
#[derive(Debug, PartialEq, Eq, Hash)]
struct NotNullCheck {
    column: String,
    dimensions: Vec<String>,
    signature: Signature,
}

impl ScalarUDFImpl for NotNullCheck {
    fn name(&self) -> &'static str {
        "tiledb_required"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types.first().cloned().unwrap_or(DataType::Null))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let mut values = args.args.into_iter();
        let Some(value) = values.next() else {
            return datafusion::common::internal_err!("a value is required");
        };
        let row = match &value {
            ColumnarValue::Array(array) => {
                let nulls = array.logical_nulls();
                nulls.and_then(|nulls| nulls.iter().position(|valid| !valid))
            }
            // There may be no rows.
            ColumnarValue::Scalar(scalar) => {
                (scalar.is_null() && args.number_rows > 0).then_some(0)
            }
        };
        let Some(row) = row else {
            return Ok(value);
        };
        let coordinates = values
            .zip(&self.dimensions)
            .map(|(coordinates, dimension)| {
                let coordinates = coordinates.into_array(args.number_rows)?;
                Ok(format!("{dimension} = {}", shown(&coordinates, row)))
            });
        let coordinates = coordinates.collect::<Result<Vec<_>>>()?;
        let error = Error::invalid("the value is NULL, and the field is not nullable");
        let error = error
            .with("attribute", &self.column)
            .with("cell", format!("({})", coordinates.join(", ")));
        Err(to_datafusion_error(error))
    }
}

/// The type of a dictionary's values; any other type unchanged.
fn plain(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// Whether a cast may change or refuse a value.
fn may_lose(from: &DataType, to: &DataType) -> bool {
    use DataType as T;
    let (from, to) = (plain(from), plain(to));
    if from == to || to.is_string() || to.is_binary() || *from == T::Null {
        return false;
    }
    match (items(from), items(to)) {
        (Some(from), Some(to)) => return may_lose(from, to),
        (None, None) => {}
        _ => return true,
    }
    match (from, to) {
        (T::Boolean, to) if to.is_numeric() => false,
        (T::Float32, T::Float64) => false,
        (from, to) if from.is_integer() && to.is_integer() => {
            let bits = |ty: &DataType| ty.primitive_width().unwrap_or(0);
            match (from.is_signed_integer(), to.is_signed_integer()) {
                (true, false) => true,
                (false, true) => bits(from) >= bits(to),
                _ => bits(from) > bits(to),
            }
        }
        (T::Int8 | T::UInt8 | T::Int16 | T::UInt16, T::Float32) => false,
        (T::Int8 | T::UInt8 | T::Int16 | T::UInt16 | T::Int32 | T::UInt32, T::Float64) => false,
        _ => true,
    }
}

/// The type of the items of a list.
fn items(list: &DataType) -> Option<&DataType> {
    match list {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Some(item.data_type())
        }
        _ => None,
    }
}

/// The values as DataFusion casts them.
fn taken(values: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let found = ColumnarValue::Array(lists::from_their_start(values)?).cast_to(to, None)?;
    found.into_array(values.len())
}

/// The row of the first value that a cast has changed.
fn first_lost(from: &ArrayRef, to: &ArrayRef) -> Result<Option<usize>> {
    use DataType as T;
    let (from, to) = (&of_dictionary(from)?, &of_dictionary(to)?);
    if items(from.data_type()).is_some() {
        return first_lost_list(from, to);
    }
    match (from.data_type(), to.data_type()) {
        (from, to) if !may_lose(from, to) => Ok(None),
        (text, _) if text.is_string() => first_lost_text(&cast(from, &T::Utf8View)?, to),
        (number, float) if float.is_floating() && !number.is_integer() && number.is_numeric() => {
            let (from, to) = (cast(from, &T::Float64)?, cast(to, &T::Float64)?);
            let (from, to) = (
                from.as_primitive::<Float64Type>(),
                to.as_primitive::<Float64Type>(),
            );
            let mut rows = (0..from.len()).filter(|row| from.is_valid(*row));
            Ok(rows.find(|row| from.value(*row).is_finite() && to.value(*row).is_infinite()))
        }
        (T::Timestamp(fine, _), T::Timestamp(coarse, _)) => {
            let (fine, coarse) = (per_second(*fine), per_second(*coarse));
            Ok(first_remainder(from, fine / coarse.min(fine)))
        }
        (T::Timestamp(unit, None), T::Date32) => {
            Ok(first_remainder(from, per_second(*unit).saturating_mul(DAY)))
        }
        (back, there) if can_cast_types(there, back) => first_changed(from, to),
        // The result keeps nothing of the value.
        _ => Ok((0..from.len()).find(|row| from.is_valid(*row))),
    }
}

/// The seconds of a day.
const DAY: i64 = 86_400;

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// The row of the first time that isn't a multiple of `step`.
fn first_remainder(times: &ArrayRef, step: i64) -> Option<usize> {
    let numbers = cast(times, &DataType::Int64).ok()?;
    let numbers = numbers.as_primitive::<Int64Type>();
    let mut rows = (0..numbers.len()).filter(|row| numbers.is_valid(*row));
    rows.find(|row| numbers.value(*row).checked_rem(step).unwrap_or(0) != 0)
}

/// The row of the first value that differs when it is cast back.
fn first_changed(from: &ArrayRef, to: &ArrayRef) -> Result<Option<usize>> {
    let back = cast_with_options(to, from.data_type(), &CastOptions::default())?;
    let changed = match from.data_type() {
        DataType::Float32 => unequal::<Float32Type>(from, &back, |a, b| a == b),
        DataType::Float64 => unequal::<Float64Type>(from, &back, |a, b| a == b),
        _ => distinct(from, &back)?,
    };
    Ok(changed.iter().position(|changed| changed == Some(true)))
}

/// Which floats differ. Zeros of different sign are equal.
fn unequal<T: ArrowPrimitiveType>(
    a: &ArrayRef,
    b: &ArrayRef,
    equal: impl Fn(T::Native, T::Native) -> bool,
) -> BooleanArray {
    let pairs = a.as_primitive::<T>().iter().zip(b.as_primitive::<T>());
    let unequal = pairs.map(|pair| match pair {
        (Some(a), Some(b)) => Some(!equal(a, b)),
        (a, b) => Some(a.is_some() != b.is_some()),
    });
    unequal.collect()
}

/// The row of the first list with a value that a cast has changed.
fn first_lost_list(from: &ArrayRef, to: &ArrayRef) -> Result<Option<usize>> {
    for row in 0..from.len() {
        let (Some(a), Some(b)) = (lists::elements(from, row), lists::elements(to, row)) else {
            continue;
        };
        if a.len() != b.len() || first_lost(&a, &b)?.is_some() {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

/// The row of the first text that holds more than the value read from it.
fn first_lost_text(texts: &ArrayRef, values: &ArrayRef) -> Result<Option<usize>> {
    let times = match values.data_type() {
        DataType::Date32 => {
            let seconds = DataType::Timestamp(TimeUnit::Second, None);
            let seconds = cast_with_options(texts, &seconds, &CastOptions::default())?;
            Some(cast(&seconds, &DataType::Int64)?)
        }
        _ => None,
    };
    let is_lost = |text: &str, row: usize| match values.data_type() {
        DataType::Timestamp(unit, _) | DataType::Time64(unit) | DataType::Time32(unit) => {
            says_more(text, per_second(*unit))
        }
        DataType::Date32 => {
            let times = times
                .as_ref()
                .and_then(|times| times.as_primitive_opt::<Int64Type>());
            let days = values.as_primitive::<Date32Type>().value(row);
            // A text with an offset may name another day.
            let seconds = times
                .filter(|times| times.is_valid(row))
                .map(|times| times.value(row));
            let midnight = i64::from(days).saturating_mul(DAY);
            says_more(text, 1) || seconds.is_some_and(|seconds| seconds != midnight)
        }
        DataType::Float32 | DataType::Float64 => {
            let infinite = cast(values, &DataType::Float64).is_ok_and(|floats| {
                floats
                    .as_primitive::<Float64Type>()
                    .value(row)
                    .is_infinite()
            });
            infinite && !text.to_ascii_lowercase().contains("inf")
        }
        _ => false,
    };
    let mut texts = texts.as_string_view().iter().enumerate();
    let lost = texts.find(|(row, text)| text.is_some_and(|text| is_lost(text, *row)));
    Ok(lost.map(|(row, _)| row))
}

/// Whether a time has nonzero digits beyond its unit.
fn says_more(text: &str, per_second: i64) -> bool {
    let Some((_, fraction)) = text.rsplit_once('.') else {
        return false;
    };
    let known = usize::try_from(per_second.ilog10()).unwrap_or(usize::MAX);
    let digits = fraction.chars().take_while(char::is_ascii_digit);
    digits.skip(known).any(|digit| digit != '0')
}

fn of_dictionary(values: &ArrayRef) -> Result<ArrayRef> {
    match values.data_type() {
        DataType::Dictionary(_, plain) => Ok(cast(values, plain)?),
        _ => Ok(Arc::clone(values)),
    }
}

/// A value as SQL shows it.
fn shown(values: &ArrayRef, row: usize) -> String {
    let options = FormatOptions::default().with_null("NULL");
    let text = ArrayFormatter::try_new(values.as_ref(), &options)
        .and_then(|formatter| formatter.value(row).try_to_string());
    let text = text.unwrap_or_else(|_| "?".to_owned());
    let quoted = match plain(values.data_type()) {
        ty if ty.is_string() => true,
        ty => ty.is_temporal(),
    };
    if quoted {
        format!("'{}'", text.replace('\'', "''"))
    } else {
        text
    }
}
