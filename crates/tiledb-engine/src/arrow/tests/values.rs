//! Numbers, dates and times: one value per cell.

use std::sync::Arc;

use arrow::array::{
    Array, AsArray, BooleanArray, Date32Array, DurationSecondArray, Float32Array, Float64Array,
    Int8Array, Int64Array, Time64NanosecondArray, TimestampMillisecondArray, TimestampSecondArray,
    UInt8Array, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Int64Type, TimeUnit, TimestampMillisecondType};

use super::*;
use crate::arrow::FloatBits;

#[test]
fn every_single_value_type_is_that_of_the_table() {
    use DataType as A;
    use Datatype as D;
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    let timestamp = |unit| A::Timestamp(unit, None);
    let table = [
        (D::Int8, A::Int8),
        (D::Int16, A::Int16),
        (D::Int32, A::Int32),
        (D::Int64, A::Int64),
        (D::UInt8, A::UInt8),
        (D::UInt16, A::UInt16),
        (D::UInt32, A::UInt32),
        (D::UInt64, A::UInt64),
        (D::Float32, A::Float32),
        (D::Float64, A::Float64),
        (D::Bool, A::Boolean),
        (D::Char, A::Utf8View),
        (D::StringAscii, A::Utf8View),
        (D::StringUtf8, A::Utf8View),
        (D::StringUtf16, A::Utf8View),
        (D::StringUtf32, A::Utf8View),
        (D::StringUcs2, A::Utf8View),
        (D::StringUcs4, A::Utf8View),
        (D::GeomWkt, A::Utf8View),
        (D::Blob, A::FixedSizeBinary(1)),
        (D::GeomWkb, A::FixedSizeBinary(1)),
        (D::DateTimeYear, A::Date32),
        (D::DateTimeMonth, A::Date32),
        (D::DateTimeWeek, A::Date32),
        (D::DateTimeDay, A::Date32),
        (D::DateTimeHr, timestamp(Second)),
        (D::DateTimeMin, timestamp(Second)),
        (D::DateTimeSec, timestamp(Second)),
        (D::DateTimeMs, timestamp(Millisecond)),
        (D::DateTimeUs, timestamp(Microsecond)),
        (D::DateTimeNs, timestamp(Nanosecond)),
        (D::DateTimePs, A::Int64),
        (D::DateTimeFs, A::Int64),
        (D::DateTimeAs, A::Int64),
        (D::TimeHr, A::Time64(Nanosecond)),
        (D::TimeMin, A::Time64(Nanosecond)),
        (D::TimeSec, A::Time64(Nanosecond)),
        (D::TimeMs, A::Time64(Nanosecond)),
        (D::TimeUs, A::Time64(Nanosecond)),
        (D::TimeNs, A::Time64(Nanosecond)),
        (D::TimePs, A::Int64),
        (D::TimeFs, A::Int64),
        (D::TimeAs, A::Int64),
    ];
    for (datatype, expected) in &table {
        let ty = ty(*datatype, ONE);
        assert_eq!(ty.data_type(), expected, "{datatype}");
        let is_time = datatype.is_datetime() || datatype.is_time();
        assert_eq!(ty.nullable(), is_time || *datatype == D::Char);
        assert_eq!(ty.cell_bytes(), Some(datatype.size()));
        // The default fill value of every type, repeated, makes an array of it.
        let data = datatype.default_fill().repeat(3);
        let array = fixed(&ty, &data, Some(vec![true, false, true])).unwrap();
        assert_eq!(array.data_type(), expected);
        let nulls = if ty.nullable() { 3 } else { 1 };
        assert_eq!((array.len(), array.null_count()), (3, nulls), "{datatype}");
    }
}

#[test]
fn times_may_be_durations() {
    use DataType as A;
    use Datatype as D;
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    let duration = TypeOptions {
        time_as: TimeAs::Duration,
        ..TypeOptions::default()
    };
    let durations = [
        (D::TimeHr, Second),
        (D::TimeMin, Second),
        (D::TimeSec, Second),
        (D::TimeMs, Millisecond),
        (D::TimeUs, Microsecond),
        (D::TimeNs, Nanosecond),
    ];
    for (datatype, unit) in durations {
        assert_eq!(
            with(duration, datatype, ONE).data_type(),
            &A::Duration(unit)
        );
    }
    assert_eq!(with(duration, D::TimeAs, ONE).data_type(), &A::Int64);
}

#[test]
fn shapes_make_lists_and_views() {
    let item = |ty, nullable| Arc::new(Field::new("item", ty, nullable));
    let three = CellValNum::Fixed(3);
    let expected = [
        (
            Datatype::Int16,
            three,
            DataType::FixedSizeList(item(DataType::Int16, false), 3),
        ),
        (
            Datatype::Bool,
            CellValNum::Var,
            DataType::List(item(DataType::Boolean, false)),
        ),
        (
            Datatype::DateTimeDay,
            CellValNum::Var,
            DataType::List(item(DataType::Date32, true)),
        ),
        (Datatype::StringUtf8, three, DataType::Utf8View),
        (Datatype::Char, CellValNum::Var, DataType::Utf8View),
        (Datatype::Blob, three, DataType::FixedSizeBinary(3)),
        (Datatype::Blob, CellValNum::Var, DataType::BinaryView),
        (Datatype::Any, CellValNum::Var, DataType::BinaryView),
        (Datatype::GeomWkb, CellValNum::Var, DataType::BinaryView),
        (Datatype::GeomWkt, CellValNum::Var, DataType::Utf8View),
    ];
    for (datatype, cell_val_num, expected) in expected {
        let ty = ty(datatype, cell_val_num);
        assert_eq!(ty.data_type(), &expected, "{datatype}");
        // The usual fill value of CHAR isn't text, and shows as NULL.
        assert_eq!(ty.nullable(), datatype == Datatype::Char);
        assert!(ty.reads(datatype, cell_val_num));
        assert!(!ty.reads(datatype, CellValNum::Fixed(2)));
    }
    let binary = TypeOptions {
        invalid_utf8: InvalidUtf8::Binary,
        ..TypeOptions::default()
    };
    for cell_val_num in [ONE, three, CellValNum::Var] {
        let ty = with(binary, Datatype::StringUtf16, cell_val_num);
        assert_eq!(ty.data_type(), &DataType::BinaryView);
    }
    let huge = attribute(Datatype::Blob, CellValNum::Fixed(u32::MAX - 1));
    assert!(ColumnType::of_attribute(&huge, None, &TypeOptions::default()).is_err());
    let none = attribute(Datatype::Int8, CellValNum::Fixed(0));
    assert!(ColumnType::of_attribute(&none, None, &TypeOptions::default()).is_err());
}

#[test]
fn numbers_keep_their_bits_and_their_buffer() {
    let data = bytes(&i64s(&[i64::MIN, -1, i64::MAX]));
    let address = data.as_slice().as_ptr();
    let array = ty(Datatype::Int64, ONE)
        .to_array(UnfilteredCells {
            len: 3,
            data: CellData::Fixed(data),
            nulls: None,
        })
        .unwrap();
    let array = array.as_primitive::<Int64Type>();
    assert_eq!(array.values().as_ptr().cast::<u8>(), address);
    assert_eq!(array, &Int64Array::from(vec![i64::MIN, -1, i64::MAX]));
    assert!(array.nulls().is_none());

    let payload = 0xFFF8_0000_DEAD_BEEF_u64;
    let data: Vec<u8> = [payload, (-0.0f64).to_bits()]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    let stored = TypeOptions {
        float_bits: FloatBits::Stored,
        ..TypeOptions::default()
    };
    let array = fixed(&with(stored, Datatype::Float64, ONE), &data, None).unwrap();
    let bits: Vec<u64> = array
        .as_any()
        .downcast_ref::<Float64Array>()
        .unwrap()
        .values()
        .iter()
        .map(|v| v.to_bits())
        .collect();
    assert_eq!(bits, [payload, (-0.0f64).to_bits()]);
    let array = fixed(
        &with(stored, Datatype::Float32, ONE),
        &0x7FC0_1234_u32.to_le_bytes(),
        None,
    )
    .unwrap();
    let array = array.as_any().downcast_ref::<Float32Array>().unwrap();
    assert_eq!(array.value(0).to_bits(), 0x7FC0_1234);

    let array = fixed(&ty(Datatype::UInt64, ONE), &[0xFF; 8], None).unwrap();
    assert_eq!(array.as_ref(), &UInt64Array::from(vec![u64::MAX]));
    let array = fixed(
        &ty(Datatype::UInt8, ONE),
        &[0, 255],
        Some(vec![true, false]),
    )
    .unwrap();
    assert_eq!(array.as_ref(), &UInt8Array::from(vec![Some(0), None]));
    let array = fixed(&ty(Datatype::Int8, ONE), &[0x80, 0x7F], None).unwrap();
    assert_eq!(array.as_ref(), &Int8Array::from(vec![-128, 127]));
    assert_eq!(
        fixed(&ty(Datatype::Int32, ONE), &[], None).unwrap().len(),
        0
    );
}

#[test]
fn any_byte_but_zero_is_true() {
    let array = fixed(
        &ty(Datatype::Bool, ONE),
        &[0, 1, 2, 1],
        Some(vec![true, true, true, false]),
    );
    let expected = BooleanArray::from(vec![Some(false), Some(true), Some(true), None]);
    assert_eq!(array.unwrap().as_ref(), &expected);
}

#[test]
fn timestamps_are_as_stored_with_nat_as_null() {
    let values = i64s(&[i64::MIN + 1, 0, i64::MIN, i64::MAX]);
    let array = fixed(&ty(Datatype::DateTimeMs, ONE), &values, None).unwrap();
    let expected =
        TimestampMillisecondArray::from(vec![Some(i64::MIN + 1), Some(0), None, Some(i64::MAX)]);
    assert_eq!(array.as_ref(), &expected);
    let array = fixed(
        &ty(Datatype::DateTimeMs, ONE),
        &values,
        Some(vec![false, true, true, true]),
    );
    let valid: Vec<bool> = array.unwrap().nulls().unwrap().iter().collect();
    assert_eq!(valid, [false, true, false, true]);
    let array = fixed(&ty(Datatype::DateTimePs, ONE), &values, None).unwrap();
    assert_eq!(
        array.as_ref(),
        &Int64Array::from(vec![Some(i64::MIN + 1), Some(0), None, Some(i64::MAX)])
    );
    let ty = ColumnType::of_dimension(
        &dimension(Datatype::DateTimeMs, ONE),
        &TypeOptions::default(),
    )
    .unwrap();
    let array = fixed(&ty, &values, None).unwrap();
    assert!(!ty.nullable() && array.null_count() == 0);
    assert_eq!(
        array.as_primitive::<TimestampMillisecondType>().value(2),
        i64::MIN
    );
}

#[test]
fn coarse_units_are_scaled_or_refused() {
    let hours = ty(Datatype::DateTimeHr, ONE);
    let array = fixed(&hours, &i64s(&[-1, i64::MIN, 24]), None).unwrap();
    assert_eq!(
        array.as_ref(),
        &TimestampSecondArray::from(vec![Some(-3600), None, Some(86400)])
    );
    let most = i64::MAX / 3600;
    assert!(fixed(&hours, &i64s(&[most, -most]), None).is_ok());
    let error = fixed(&hours, &i64s(&[0, most + 1]), None).unwrap_err();
    let message = error.message();
    assert!(
        message.contains("DATETIME_HR value 2562047788015216 in cell 1"),
        "{error}"
    );
    // A NULL cell may store a value that does not fit.
    let array = fixed(&hours, &i64s(&[i64::MAX, 1]), Some(vec![false, true])).unwrap();
    assert_eq!(
        array.as_ref(),
        &TimestampSecondArray::from(vec![None, Some(3600)])
    );
    let minutes = fixed(&ty(Datatype::DateTimeMin, ONE), &i64s(&[-2]), None).unwrap();
    assert_eq!(minutes.as_ref(), &TimestampSecondArray::from(vec![-120]));

    let weeks = fixed(
        &ty(Datatype::DateTimeWeek, ONE),
        &i64s(&[-1, i64::MIN]),
        None,
    )
    .unwrap();
    assert_eq!(weeks.as_ref(), &Date32Array::from(vec![Some(-7), None]));
    let years = ty(Datatype::DateTimeYear, ONE);
    let array = fixed(&years, &i64s(&[30, -370]), None).unwrap();
    assert_eq!(array.as_ref(), &Date32Array::from(vec![10957, -135_140]));
    let error = fixed(&years, &i64s(&[1, 2, 9_000_000]), None).unwrap_err();
    assert!(
        error
            .message()
            .contains("DATETIME_YEAR value 9000000 in cell 2"),
        "{error}"
    );
}

#[test]
fn times_are_times_of_day_or_durations() {
    let seconds = ty(Datatype::TimeSec, ONE);
    let array = fixed(&seconds, &i64s(&[0, 86_399, i64::MIN]), None).unwrap();
    let expected = Time64NanosecondArray::from(vec![Some(0), Some(86_399_000_000_000), None]);
    assert_eq!(array.as_ref(), &expected);
    for outside in [-1, 86_400] {
        let error = fixed(&seconds, &i64s(&[outside]), None).unwrap_err();
        let message = error.message();
        assert!(
            message.contains("'tiledb.time_as'") && message.contains("'duration'"),
            "{error}"
        );
    }
    assert!(
        fixed(
            &ty(Datatype::TimeNs, ONE),
            &i64s(&[86_400_000_000_000]),
            None
        )
        .is_err()
    );
    assert!(
        fixed(
            &ty(Datatype::TimeNs, ONE),
            &i64s(&[86_399_999_999_999]),
            None
        )
        .is_ok()
    );
    let duration = TypeOptions {
        time_as: TimeAs::Duration,
        ..TypeOptions::default()
    };
    let hours = with(duration, Datatype::TimeHr, ONE);
    let array = fixed(&hours, &i64s(&[-30, i64::MIN]), None).unwrap();
    assert_eq!(
        array.as_ref(),
        &DurationSecondArray::from(vec![Some(-108_000), None])
    );
    assert!(fixed(&hours, &i64s(&[i64::MAX]), None).is_err());
}
