//! The values of an enumeration whose codes a column has.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, DictionaryArray, RecordBatch, downcast_integer_array};
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
#[cfg(feature = "cluster")]
use datafusion::physical_expr_common::physical_expr::proto_encode::PhysicalExprEncodeCtx;
#[cfg(feature = "cluster")]
use datafusion_proto::protobuf::PhysicalExprNode;

use super::only;
#[cfg(feature = "cluster")]
use super::sent::{VALUES_FUNCTION, as_function};

/// Converts codes of an enumeration to values.
#[derive(Debug)]
pub(super) struct EnumerationValues {
    pub(super) of: Arc<dyn PhysicalExpr>,
    pub(super) values: ArrayRef,
    /// The field of the column before it was converted to codes.
    pub(super) field: FieldRef,
}

/// A dictionary of these values with the codes as its keys.
///
/// Fails if a code has no value, or isn't an integer.
pub(super) fn values_of(codes: &ArrayRef, values: &ArrayRef) -> Result<ArrayRef> {
    let codes = codes.as_ref();
    downcast_integer_array! {
        codes => {
            let shown = DictionaryArray::try_new(codes.clone(), Arc::clone(values))?;
            Ok(Arc::new(shown))
        }
        other => exec_err!("{other} cannot key a dictionary")
    }
}

impl PhysicalExpr for EnumerationValues {
    fn return_field(&self, _input: &Schema) -> Result<FieldRef> {
        Ok(Arc::clone(&self.field))
    }

    fn data_type(&self, _input: &Schema) -> Result<DataType> {
        Ok(self.field.data_type().clone())
    }

    fn nullable(&self, _input: &Schema) -> Result<bool> {
        Ok(self.field.is_nullable())
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let codes = self.of.evaluate(batch)?.into_array(batch.num_rows())?;
        Ok(ColumnarValue::Array(values_of(&codes, &self.values)?))
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
        as_function(
            VALUES_FUNCTION,
            &self.of,
            &self.values,
            &self.field,
            context,
        )
        .map(Some)
    }
}

impl fmt::Display for EnumerationValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "values({})", self.of)
    }
}

impl PartialEq for EnumerationValues {
    fn eq(&self, other: &Self) -> bool {
        self.of.eq(&other.of)
            && self.values.as_ref() == other.values.as_ref()
            && self.field == other.field
    }
}

impl Eq for EnumerationValues {}

impl Hash for EnumerationValues {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.of.hash(state);
        self.field.hash(state);
    }
}
