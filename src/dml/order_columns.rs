//! The numbers that rows are sorted by before they are written, as expressions.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use tiledb_engine::Error;
use tiledb_engine::geometry::order_key::KeyPart;
use tiledb_engine::write::order_numbers::OrderNumbers;

use crate::error::to_datafusion_error;

/// One of the numbers that rows are sorted by; its children are the columns of all dimensions.
#[derive(Debug)]
pub(super) struct OrderNumber {
    dimensions: Vec<Arc<dyn PhysicalExpr>>,
    parts: Vec<KeyPart>,
    of: Arc<OrderNumbers>,
}

impl OrderNumber {
    pub(super) fn new(
        dimensions: Vec<Arc<dyn PhysicalExpr>>,
        parts: Vec<KeyPart>,
        of: &Arc<OrderNumbers>,
    ) -> Self {
        Self {
            dimensions,
            parts,
            of: Arc::clone(of),
        }
    }

    fn numbers(&self, batch: &RecordBatch) -> Result<Vec<u64>> {
        let columns = self
            .dimensions
            .iter()
            .map(|dimension| dimension.evaluate(batch)?.into_array(batch.num_rows()))
            .collect::<Result<Vec<_>>>()?;
        let numbers = self.of.of_rows(&self.parts, &columns, batch.num_rows());
        numbers.map_err(to_datafusion_error)
    }
}

impl PhysicalExpr for OrderNumber {
    fn return_field(&self, _input: &Schema) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(
            "order_number",
            DataType::UInt64,
            false,
        )))
    }

    fn data_type(&self, _input: &Schema) -> Result<DataType> {
        Ok(DataType::UInt64)
    }

    fn nullable(&self, _input: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let numbers = UInt64Array::from(self.numbers(batch)?);
        Ok(ColumnarValue::Array(Arc::new(numbers)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.dimensions.iter().collect()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        if children.len() != self.dimensions.len() {
            return internal_err!("an order number needs all dimensions");
        }
        Ok(Arc::new(Self::new(children, self.parts.clone(), &self.of)))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for OrderNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dimensions = self.dimensions.iter().map(ToString::to_string);
        write!(
            f,
            "global_order({})",
            dimensions.collect::<Vec<_>>().join(", ")
        )
    }
}

impl PartialEq for OrderNumber {
    fn eq(&self, other: &Self) -> bool {
        let same_dimensions = self.dimensions.len() == other.dimensions.len()
            && self
                .dimensions
                .iter()
                .zip(&other.dimensions)
                .all(|(a, b)| a.eq(b));
        same_dimensions && self.parts == other.parts && Arc::ptr_eq(&self.of, &other.of)
    }
}

impl Eq for OrderNumber {}

impl Hash for OrderNumber {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.dimensions
            .iter()
            .for_each(|dimension| dimension.hash(state));
    }
}

/// The error for a table whose dimensions are not its first columns.
pub(super) fn no_dimensions() -> Error {
    Error::internal("the first columns of a table are the dimensions")
}
