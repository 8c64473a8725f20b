//! The types of columns that don't come from a field of the schema.

use arrow::datatypes::{DataType, TimeUnit};

use super::{CellShape, ColumnType, ElementConversion};
use crate::arrow::floats::FloatForm;
use crate::arrow::text::Encoding;
use crate::arrow::time::TimeConversion;
use crate::format::datatype::Datatype;

impl ColumnType {
    /// The type of times at which cells were written: milliseconds since 1970, stored as `u64`.
    pub fn write_times(nullable: bool) -> Self {
        let data_type = DataType::Timestamp(TimeUnit::Millisecond, None);
        let element = ElementConversion::Time(TimeConversion::Unsigned);
        Self::of_system(
            Datatype::UInt64,
            element,
            CellShape::One,
            data_type,
            nullable,
        )
    }

    /// The type of the names of fragments.
    pub fn fragment_names(nullable: bool) -> Self {
        let element = ElementConversion::Text(Encoding::Utf8);
        let data_type = DataType::Utf8View;
        Self::of_system(
            Datatype::StringUtf8,
            element,
            CellShape::Var,
            data_type,
            nullable,
        )
    }

    fn of_system(
        datatype: Datatype,
        element: ElementConversion,
        shape: CellShape,
        data_type: DataType,
        nullable: bool,
    ) -> Self {
        Self {
            datatype,
            element,
            element_type: data_type.clone(),
            shape,
            nat_is_null: false,
            lossy: false,
            floats: FloatForm::AsStored,
            padded: false,
            null_text: None,
            enumeration: None,
            nullable,
            data_type,
            unreadable: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, TimestampMillisecondArray};

    use super::*;
    use crate::arrow::{CellData, TileBuffer, UnfilteredCells};
    use crate::error::Result;

    fn shown(times: &[u64]) -> Result<ArrayRef> {
        let bytes: Vec<u8> = times.iter().flat_map(|time| time.to_le_bytes()).collect();
        ColumnType::write_times(false).to_array(UnfilteredCells {
            len: times.len(),
            data: CellData::Fixed(TileBuffer::copy_of(&bytes).unwrap()),
            nulls: None,
        })
    }

    #[test]
    fn times_are_milliseconds_as_far_as_timestamps_reach() {
        let last = u64::try_from(i64::MAX).unwrap();
        let expected = TimestampMillisecondArray::from(vec![0, 1_714_521_600_000, i64::MAX]);
        let times = shown(&[0, 1_714_521_600_000, last]).unwrap();
        assert_eq!(times.as_ref(), &expected as &dyn arrow::array::Array);
        let error = shown(&[7, u64::MAX]).unwrap_err();
        assert!(
            error.message().contains("18446744073709551615 in cell 1"),
            "{error}"
        );
    }
}
