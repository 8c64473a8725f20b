//! The conversion of a column as an expression of a plan.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::{Result, exec_err, internal_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
#[cfg(feature = "cluster")]
use datafusion::physical_expr_common::physical_expr::proto_encode::PhysicalExprEncodeCtx;
#[cfg(feature = "cluster")]
use datafusion_proto::protobuf::PhysicalExprNode;

use super::conversion::EnumerationConversion;
#[cfg(feature = "cluster")]
use super::sent::as_call;

/// Converts a column with the help of an enumeration.
#[derive(Debug)]
pub(super) struct EnumerationExpr {
    pub(super) conversion: EnumerationConversion,
    pub(super) of: Arc<dyn PhysicalExpr>,
    /// The values of the enumeration.
    pub(super) values: ArrayRef,
    /// The field of the converted column.
    field: FieldRef,
}

impl EnumerationExpr {
    /// The codes of `of`, a column of a plan with this schema, in the enumeration with these values.
    ///
    /// Fails if the column isn't an enumeration.
    pub(super) fn codes(
        of: Arc<dyn PhysicalExpr>,
        values: ArrayRef,
        input: &Schema,
    ) -> Result<Self> {
        let field = of.return_field(input)?;
        let DataType::Dictionary(codes, _) = field.data_type() else {
            return exec_err!("{of} isn't an enumeration");
        };
        let field = Field::new(field.name(), codes.as_ref().clone(), field.is_nullable());
        Ok(Self {
            conversion: EnumerationConversion::ToCodes,
            of,
            values,
            field: Arc::new(field),
        })
    }

    /// The values whose codes `of` has, as the field was before they became codes.
    pub(super) fn values(of: Arc<dyn PhysicalExpr>, values: ArrayRef, field: FieldRef) -> Self {
        Self {
            conversion: EnumerationConversion::ToValues,
            of,
            values,
            field,
        }
    }
}

impl PhysicalExpr for EnumerationExpr {
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
        let column = self.of.evaluate(batch)?.into_array(batch.num_rows())?;
        let converted = self.conversion.convert(&column, &self.values)?;
        Ok(ColumnarValue::Array(converted))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.of]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let Ok([of]) = <[_; 1]>::try_from(children) else {
            return internal_err!("{self} has one argument");
        };
        Ok(Arc::new(Self {
            conversion: self.conversion,
            of,
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
        as_call(
            self.conversion,
            &self.of,
            &self.values,
            &self.field,
            context,
        )
        .map(Some)
    }
}

impl fmt::Display for EnumerationExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.conversion {
            EnumerationConversion::ToCodes => write!(f, "codes({})", self.of),
            EnumerationConversion::ToValues => write!(f, "values({})", self.of),
        }
    }
}

impl PartialEq for EnumerationExpr {
    fn eq(&self, other: &Self) -> bool {
        self.conversion == other.conversion
            && self.of.eq(&other.of)
            && self.values.as_ref() == other.values.as_ref()
            && self.field == other.field
    }
}

impl Eq for EnumerationExpr {}

impl Hash for EnumerationExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.conversion.hash(state);
        self.of.hash(state);
        self.field.hash(state);
    }
}
