//! `DEFAULT` of a column: the value of cells that were never written.
//!
//! The subtle thing: the value is stored once, when the array is created, so an expression like `now()` would not mean what it
//! says.

use std::collections::HashMap;

use arrow::array::RecordBatch;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatchOptions};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{Expr, Volatility};
use tiledb_engine::array::snapshot::Snapshot;
use tiledb_engine::arrow::{TypeOptions, arrow_schema, chosen_fill};
use tiledb_engine::write::create::{LiteralValue, sql_name};
use tiledb_engine::{Error, Result};

/// The value of a default, as a column of this type shows it; `None` for NULL.
pub(crate) fn value(
    session: &dyn Session,
    expr: &Expr,
    data_type: &DataType,
) -> Result<Option<LiteralValue>> {
    let column = constant(session, expr)?;
    let column = cast(&column, shown_as(data_type)).map_err(|e| {
        Error::invalid(format!(
            "DEFAULT {expr} isn't a value of {}",
            sql_name(data_type)
        ))
        .with_source(e)
    })?;
    if is_null(&column) {
        return if is_null(&constant(session, expr)?) {
            Ok(None)
        } else {
            Err(Error::invalid(format!(
                "DEFAULT {expr} isn't a value of {}",
                sql_name(data_type)
            )))
        };
    }
    if let Some(text) = column.as_string_view_opt() {
        return Ok(Some(LiteralValue::from(text.value(0))));
    }
    if let Some(bytes) = column.as_binary_view_opt() {
        return Ok(Some(LiteralValue::Bytes(bytes.value(0).to_vec())));
    }
    let options = FormatOptions::new();
    let text = ArrayFormatter::try_new(&column, &options)
        .and_then(|formatter| formatter.value(0).try_to_string())
        .map_err(|e| Error::invalid(format!("DEFAULT {expr} cannot be stored")).with_source(e))?;
    Ok(Some(LiteralValue::from(text)))
}

/// The defaults of an array's columns: the fill values of its attributes, except the usual fill values.
pub(crate) fn of_columns(array: &Snapshot, options: &TypeOptions) -> HashMap<String, Expr> {
    let columns = arrow_schema(&array.schema, &array.enumerations, options);
    let Ok((schema, types)) = columns else {
        return HashMap::new();
    };
    let columns = schema
        .fields()
        .iter()
        .zip(&types)
        .skip(array.schema.dimensions.len());
    let defaults = columns.zip(&array.schema.attributes);
    let defaults = defaults.filter_map(|((field, ty), attribute)| {
        let shown = chosen_fill(attribute, ty)?;
        let value = ScalarValue::try_from_array(&shown, 0).ok()?;
        Some((field.name().clone(), Expr::Literal(value, None)))
    });
    defaults.collect()
}

/// Whether the one value is NULL.
fn is_null(column: &ArrayRef) -> bool {
    column.logical_null_count() > 0
}

/// All text is shown alike, and so are all bytes.
fn shown_as(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => shown_as(values),
        other if other.is_string() => &DataType::Utf8View,
        other if other.is_binary() => &DataType::BinaryView,
        other => other,
    }
}

/// A column with the one value of an expression without columns.
fn constant(session: &dyn Session, expr: &Expr) -> Result<ArrayRef> {
    let varies = expr.exists(|part| {
        Ok(match part {
            Expr::ScalarFunction(call) => call.func.signature().volatility != Volatility::Immutable,
            _ => false,
        })
    });
    let wrong = |why| {
        Error::invalid(format!(
            "DEFAULT {expr}: expected a constant, because it is stored once as the value of cells that were never written{why}"
        ))
    };
    if varies.unwrap_or(true) {
        return Err(wrong(", and this one varies"));
    }
    let batch = RecordBatch::try_new_with_options(
        Schema::empty().into(),
        Vec::new(),
        &RecordBatchOptions::new().with_row_count(Some(1)),
    );
    let batch = batch.map_err(|e| Error::internal("a batch without columns").with_source(e))?;
    let evaluated = session
        .create_physical_expr(expr.clone(), &DFSchema::empty())
        .and_then(|expr| expr.evaluate(&batch))
        .and_then(|value| value.into_array(1));
    evaluated.map_err(|e| wrong("").with_source(e))
}
