//! Columns from the stored codes of an enumeration.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, DictionaryArray, PrimitiveArray};
use arrow::buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::{
    ArrowDictionaryKeyType, ArrowNativeType, DataType, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

use crate::arrow::text::arrow_error;
use crate::arrow::tile_buffer::TileBuffer;
use crate::error::{Error, Result};

/// The type of a column of codes of type `key` over values of type `value`.
///
/// Lists stay in a dictionary: otherwise few stored bytes would become as many lists as there are cells.
pub(in crate::arrow) fn column_type(key: &DataType, value: &DataType) -> DataType {
    if value.is_primitive() || value == &DataType::Boolean {
        return value.clone();
    }
    DataType::Dictionary(Box::new(key.clone()), Box::new(value.clone()))
}

/// Stored codes, in native byte order.
pub(super) struct Codes {
    pub(super) codes: TileBuffer,
    pub(super) len: usize,
    pub(super) nulls: Option<NullBuffer>,
}

impl Codes {
    /// The codes, of type `key`, as a column of type `column` over `values`.
    pub(in crate::arrow) fn into_array(
        self,
        key: &DataType,
        column: &DataType,
        values: &ArrayRef,
    ) -> Result<ArrayRef> {
        match key {
            DataType::Int8 => self.keyed::<Int8Type>(column, values),
            DataType::Int16 => self.keyed::<Int16Type>(column, values),
            DataType::Int32 => self.keyed::<Int32Type>(column, values),
            DataType::Int64 => self.keyed::<Int64Type>(column, values),
            DataType::UInt8 => self.keyed::<UInt8Type>(column, values),
            DataType::UInt16 => self.keyed::<UInt16Type>(column, values),
            DataType::UInt32 => self.keyed::<UInt32Type>(column, values),
            DataType::UInt64 => self.keyed::<UInt64Type>(column, values),
            other => Err(Error::internal(format!("{other} cannot be codes"))),
        }
    }

    fn keyed<K: ArrowDictionaryKeyType>(
        mut self,
        column: &DataType,
        values: &ArrayRef,
    ) -> Result<ArrayRef> {
        let count = values.len();
        let keys = self.codes.typed_data_mut::<K::Native>();
        let nulls = outside_to_null::<K>(keys, count, self.nulls);
        if let Some(nulls) = &nulls {
            for (key, valid) in keys.iter_mut().zip(nulls) {
                if !valid {
                    *key = K::Native::default();
                }
            }
        }
        let keys = ScalarBuffer::new(self.codes.into(), 0, self.len);
        let keys = PrimitiveArray::<K>::try_new(keys, nulls).map_err(arrow_error)?;
        if !matches!(column, DataType::Dictionary(..)) {
            return take(values, &keys, None).map_err(arrow_error);
        }
        let array = DictionaryArray::try_new(keys, Arc::clone(values)).map_err(arrow_error)?;
        Ok(Arc::new(array))
    }
}

fn outside_to_null<K: ArrowPrimitiveType>(
    keys: &[K::Native],
    count: usize,
    nulls: Option<NullBuffer>,
) -> Option<NullBuffer> {
    let inside = |key: &K::Native| key.to_usize().is_some_and(|key| key < count);
    // This is not `all`: without an early exit the loop is vectorised, and codes outside the enumeration are rare.
    if keys.iter().fold(true, |all, key| all & inside(key)) {
        return nulls;
    }
    let mut keys = keys.iter();
    let valid = BooleanBuffer::collect_bool(keys.len(), |_| keys.next().is_some_and(inside));
    NullBuffer::union(nulls.as_ref(), Some(&NullBuffer::new(valid)))
}
