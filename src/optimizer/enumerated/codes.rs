//! The codes of a column's values in an enumeration.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, RecordBatch, make_comparator,
};
use datafusion::arrow::compute::{SortOptions, cast, sort_to_indices, take};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
#[cfg(feature = "cluster")]
use datafusion::physical_expr_common::physical_expr::proto_encode::PhysicalExprEncodeCtx;
#[cfg(feature = "cluster")]
use datafusion_proto::protobuf::PhysicalExprNode;

use super::only;
#[cfg(feature = "cluster")]
use super::sent::{CODES_FUNCTION, as_function};

/// Converts the values of a column to their codes in an enumeration.
#[derive(Debug)]
pub(super) struct EnumerationCodes {
    of: Arc<dyn PhysicalExpr>,
    values: ArrayRef,
    /// The field of the codes.
    field: FieldRef,
}

impl EnumerationCodes {
    /// The codes of `of`, a column of a plan with this schema, in the enumeration with these values.
    ///
    /// Fails if the column isn't an enumeration.
    pub(super) fn new(of: Arc<dyn PhysicalExpr>, values: ArrayRef, input: &Schema) -> Result<Self> {
        let field = of.return_field(input)?;
        let DataType::Dictionary(codes, _) = field.data_type() else {
            return exec_err!("{of} isn't an enumeration");
        };
        let field = Field::new(field.name(), codes.as_ref().clone(), field.is_nullable());
        let field = Arc::new(field);
        Ok(Self { of, values, field })
    }
}

/// The codes of a dictionary in the enumeration with these values, which all differ.
///
/// Fails if a row has a value that isn't among them.
pub(super) fn codes_among(array: &ArrayRef, values: &ArrayRef) -> Result<ArrayRef> {
    let Some(dictionary) = array.as_any_dictionary_opt() else {
        return exec_err!("{} isn't an enumeration", array.data_type());
    };
    let shown = dictionary.values();
    if shown.to_data().ptr_eq(&values.to_data()) || shown == values {
        return Ok(dictionary.keys().slice(0, dictionary.keys().len()));
    }
    translated(array, values)
}

/// The codes of a dictionary with other values, or with the same values in another order.
fn translated(array: &ArrayRef, values: &ArrayRef) -> Result<ArrayRef> {
    let dictionary = array.as_any_dictionary();
    let order = sort_to_indices(values, None, None)?;
    let found = cast(dictionary.values(), values.data_type())?;
    let compare = make_comparator(values, &found, SortOptions::default())?;
    let order = order.values();
    let code = |value: usize| {
        let position = order.partition_point(|code| compare(*code as usize, value).is_lt());
        let code = order.get(position).map(|code| *code as usize);
        code.filter(|code| compare(*code, value).is_eq())
    };
    let used = used_values(array);
    let mut codes = Vec::with_capacity(found.len());
    for (value, used) in used.into_iter().enumerate() {
        let code = if found.is_valid(value) {
            code(value)
        } else {
            None
        };
        if used && code.is_none() && found.is_valid(value) {
            return exec_err!("a value is not one of the enumeration");
        }
        codes.push(code.map(|code| code as i64));
    }
    let codes = cast(&Int64Array::from(codes), dictionary.keys().data_type())?;
    Ok(take(&codes, dictionary.keys(), None)?)
}

/// Which values of a dictionary are used.
fn used_values(array: &ArrayRef) -> Vec<bool> {
    let dictionary = array.as_any_dictionary();
    let mut used = vec![false; dictionary.values().len()];
    if used.is_empty() {
        return used;
    }
    let keys = dictionary.normalized_keys().into_iter().enumerate();
    for (_, key) in keys.filter(|(row, _)| array.is_valid(*row)) {
        if let Some(used) = used.get_mut(key) {
            *used = true;
        }
    }
    used
}

impl PhysicalExpr for EnumerationCodes {
    fn return_field(&self, _: &Schema) -> Result<FieldRef> {
        Ok(Arc::clone(&self.field))
    }

    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(self.field.data_type().clone())
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(self.field.is_nullable())
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let array = self.of.evaluate(batch)?.into_array(batch.num_rows())?;
        Ok(ColumnarValue::Array(codes_among(&array, &self.values)?))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.of]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Self {
            of: only(children)?,
            values: Arc::clone(&self.values),
            field: Arc::clone(&self.field),
        }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }

    #[cfg(feature = "cluster")]
    fn try_to_proto(
        &self,
        context: &PhysicalExprEncodeCtx<'_>,
    ) -> Result<Option<PhysicalExprNode>> {
        as_function(CODES_FUNCTION, &self.of, &self.values, &self.field, context).map(Some)
    }
}

impl fmt::Display for EnumerationCodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "codes({})", self.of)
    }
}

impl PartialEq for EnumerationCodes {
    fn eq(&self, other: &Self) -> bool {
        self.of.eq(&other.of) && self.values.as_ref() == other.values.as_ref()
    }
}

impl Eq for EnumerationCodes {}

impl Hash for EnumerationCodes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.of.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{DictionaryArray, Int8Array, StringArray};
    use datafusion::arrow::datatypes::Int8Type;
    use datafusion::physical_expr::expressions::Column;

    use super::*;

    fn text(values: &[&str]) -> ArrayRef {
        Arc::new(StringArray::from(values.to_vec()))
    }

    fn codes(values: &[&str], keys: &[Option<i8>]) -> Result<Vec<Option<i8>>> {
        let keys = Int8Array::from(keys.to_vec());
        let column = DictionaryArray::<Int8Type>::try_new(keys, text(values))?;
        let batch = RecordBatch::try_from_iter([("e", Arc::new(column) as ArrayRef)])?;
        let column = Arc::new(Column::new("e", 0));
        let codes = EnumerationCodes::new(column, text(&["m", "a", "z"]), batch.schema_ref())?;
        let codes = codes.evaluate(&batch)?.into_array(batch.num_rows())?;
        Ok(codes.as_primitive::<Int8Type>().iter().collect())
    }

    #[test]
    fn codes_are_those_of_the_enumeration_whatever_the_dictionary() {
        let keys = [Some(0), None, Some(2), Some(1)];
        assert_eq!(codes(&["m", "a", "z"], &keys).unwrap(), keys);
        let other = codes(&["z", "m", "a"], &keys).unwrap();
        assert_eq!(other, [Some(2), None, Some(1), Some(0)]);
        assert_eq!(codes(&[], &[None, None]).unwrap(), [None, None]);
        // Values that no row uses are ignored.
        assert_eq!(codes(&["a", "?"], &[Some(0)]).unwrap(), [Some(1)]);
        assert!(codes(&["a", "?"], &[Some(1)]).is_err());
    }
}
