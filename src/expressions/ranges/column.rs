//! The properties of a dimension's column that the conversion to ranges needs, and the functions of a stored value
//! that never decrease, as sequences of steps.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use tiledb_engine::Result;
use tiledb_engine::arrow::{ColumnType, InvalidUtf8, TypeOptions};
use tiledb_engine::format::datatype::Datatype;
use tiledb_engine::format::schema::ArraySchema;
use tiledb_engine::geometry::key::{self, NativeKey};
use tiledb_engine::geometry::subarray::KeyRange;

/// A dimension as a column of the table: its index, its stored type and its Arrow type. It is never NULL.
#[derive(Debug, Clone, PartialEq)]
pub struct DimensionColumn {
    column: usize,
    datatype: Datatype,
    data_type: DataType,
    /// The keys that occur; only needed for casts that could fail.
    domain: KeyRange,
    faithful: bool,
}

impl DimensionColumn {
    /// The dimension at index `column` of the predicate's schema, stored as `datatype` and shown as `data_type`.
    pub fn new(column: usize, datatype: Datatype, data_type: DataType) -> Self {
        let domain = KeyRange {
            lo: key::min_key(datatype),
            hi: key::max_key(datatype),
        };
        Self {
            column,
            datatype,
            data_type,
            domain,
            faithful: true,
        }
    }

    /// Sets the keys of the dimension's domain.
    #[must_use]
    pub fn with_domain(mut self, domain: KeyRange) -> Self {
        self.domain = domain;
        self
    }

    /// Marks a column that does not show every value as it is stored (invalid bytes of text are replaced): predicates
    /// on it give no ranges.
    #[cfg(test)]
    #[must_use]
    pub fn not_faithful(mut self) -> Self {
        self.faithful = false;
        self
    }

    /// All dimensions of an array, which are the first columns of its table; `types` are the columns' types.
    pub fn of_array(
        schema: &ArraySchema,
        types: &[ColumnType],
        options: &TypeOptions,
    ) -> Result<Vec<Self>> {
        let dimensions = schema.dimensions.iter().zip(types).enumerate();
        dimensions
            .map(|(index, (dimension, ty))| {
                let mut column = Self::new(index, dimension.datatype, ty.data_type().clone());
                if let Some((lo, hi)) = &dimension.domain {
                    let (lo, hi) = (
                        key::key(dimension.datatype, lo)?,
                        key::key(dimension.datatype, hi)?,
                    );
                    column = column.with_domain(KeyRange { lo, hi });
                }
                column.faithful = options.invalid_utf8 != InvalidUtf8::Lossy;
                Ok(column)
            })
            .collect()
    }

    /// Index in the predicate's schema.
    pub(super) fn column(&self) -> usize {
        self.column
    }

    pub(super) fn datatype(&self) -> Datatype {
        self.datatype
    }

    pub(super) fn data_type(&self) -> &DataType {
        &self.data_type
    }

    pub(super) fn domain(&self) -> KeyRange {
        self.domain
    }

    /// The conversion of a stored value to the column's value; `None` if predicates on the column give no ranges of
    /// keys.
    pub(super) fn kind(&self) -> Option<ComparedAs> {
        use DataType as A;
        use Datatype as D;
        if self.datatype == D::StringAscii {
            let shown = matches!(self.data_type, A::Utf8View | A::BinaryView) && self.faithful;
            return shown.then_some(ComparedAs::Bytes);
        }
        let step = match (self.datatype, &self.data_type) {
            (D::DateTimeDay, A::Date32) => None,
            (D::DateTimeWeek, A::Date32) => Some(MonotonicStep::Scale(7)),
            (D::DateTimeMonth, A::Date32) => Some(MonotonicStep::FirstDayOfMonth),
            (D::DateTimeYear, A::Date32) => Some(MonotonicStep::FirstDayOfYear),
            (_, A::Timestamp(unit, None)) if self.datatype.is_datetime() => self.scale(*unit)?,
            (_, A::Time64(unit) | A::Duration(unit)) if self.datatype.is_time() => {
                self.scale(*unit)?
            }
            (
                D::DateTimePs | D::DateTimeFs | D::DateTimeAs | D::TimePs | D::TimeFs | D::TimeAs,
                A::Int64,
            ) => None,
            (stored, shown) if number(stored).as_ref() == Some(shown) => None,
            _ => return None,
        };
        Some(ComparedAs::Ordered(step.into_iter().collect()))
    }

    /// The conversion of the stored unit to Arrow's; the outer `None` if Arrow's is coarser.
    fn scale(&self, unit: TimeUnit) -> Option<Option<MonotonicStep>> {
        use Datatype as D;
        let stored: i128 = match self.datatype {
            D::DateTimeHr | D::TimeHr => 3_600_000_000_000,
            D::DateTimeMin | D::TimeMin => 60_000_000_000,
            D::DateTimeSec | D::TimeSec => 1_000_000_000,
            D::DateTimeMs | D::TimeMs => 1_000_000,
            D::DateTimeUs | D::TimeUs => 1_000,
            D::DateTimeNs | D::TimeNs => 1,
            _ => return None,
        };
        let shown = nanoseconds(unit);
        (stored % shown == 0)
            .then(|| (stored > shown).then(|| MonotonicStep::Scale(stored / shown)))
    }
}

/// The Arrow type of numbers, which are shown as they are stored.
fn number(datatype: Datatype) -> Option<DataType> {
    Some(match datatype {
        Datatype::Int8 => DataType::Int8,
        Datatype::Int16 => DataType::Int16,
        Datatype::Int32 => DataType::Int32,
        Datatype::Int64 => DataType::Int64,
        Datatype::UInt8 => DataType::UInt8,
        Datatype::UInt16 => DataType::UInt16,
        Datatype::UInt32 => DataType::UInt32,
        Datatype::UInt64 => DataType::UInt64,
        Datatype::Float32 => DataType::Float32,
        Datatype::Float64 => DataType::Float64,
        _ => return None,
    })
}

/// How values are compared.
#[derive(Debug, Clone)]
pub(super) enum ComparedAs {
    /// By number, computed from the stored value by these steps.
    Ordered(Vec<MonotonicStep>),
    /// By bytes.
    Bytes,
}

/// One step of a function that never decreases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MonotonicStep {
    /// Multiply by a positive number.
    Scale(i128),
    /// Divide by a positive number, rounding towards zero.
    Truncate(i128),
    /// Divide by a positive number, rounding down.
    Floor(i128),
    /// Convert months since 1970 to days.
    FirstDayOfMonth,
    /// Convert years since 1970 to days.
    FirstDayOfYear,
    /// Convert an integer to the bits of a float.
    IntegerToF32,
    IntegerToF64,
    F32ToF64,
    F64ToF32,
}

impl MonotonicStep {
    pub(super) fn apply(self, value: i128) -> i128 {
        match self {
            Self::Scale(factor) => value.saturating_mul(factor),
            Self::Truncate(divisor) => value / divisor,
            Self::Floor(divisor) => value.div_euclid(divisor),
            Self::FirstDayOfMonth => first_day(value),
            Self::FirstDayOfYear => first_day(value.saturating_mul(12)),
            #[expect(clippy::cast_precision_loss, reason = "Arrow's cast rounds likewise")]
            Self::IntegerToF32 => bits(value as f32),
            #[expect(clippy::cast_precision_loss, reason = "Arrow's cast rounds likewise")]
            Self::IntegerToF64 => bits(value as f64),
            Self::F32ToF64 => bits(f64::from(float::<f32>(value))),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "Arrow's cast rounds likewise"
            )]
            Self::F64ToF32 => bits(float::<f64>(value) as f32),
        }
    }
}

pub(super) fn bits<T: NativeKey>(value: T) -> i128 {
    i128::from(value.to_key())
}

fn float<T: NativeKey>(bits: i128) -> T {
    T::from_key(u64::try_from(bits).unwrap_or(0))
}

/// Days from 1970-01-01 to the first of the month that is `months` after 1970-01.
fn first_day(months: i128) -> i128 {
    // Years start in March here, so that the leap day is the last day of its year.
    let since_march = months.saturating_sub(2);
    let (year, month) = (
        since_march.div_euclid(12) + 1970,
        since_march.rem_euclid(12),
    );
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year.saturating_mul(365) + leap_days + (153 * month + 2) / 5 - 719_468
}

/// The number of nanoseconds in a unit.
pub(super) fn nanoseconds(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_days_are_those_of_the_calendar() {
        // From numpy's datetime64.
        for (month, day) in [
            (0, 0),
            (1, 31),
            (-1, -31),
            (12, 365),
            (362, 11_017),
            (-838, -25_508),
            (-1970 * 12, -719_528),
        ] {
            assert_eq!(first_day(month), day, "month {month}");
        }
        assert_eq!(MonotonicStep::FirstDayOfYear.apply(30), 10_957);
    }
}
