//! New values of enumerations: of those that COPY made, and of all in tables whose option `tiledb.new_values` is `extend`.
//!
//! A fragment names the schema whose enumerations its codes belong to, so an enumeration is extended before the fragment is
//! begun, by a commit of its own that changes no cell. Few statements bring new values. So a statement first runs as if it
//! brought none. If it meets one, its rows are read again to find all new values, and then it is planned again.

use std::sync::Arc;

use datafusion::arrow::array::Array;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::execute_stream;
use futures::TryStreamExt;
use tiledb_engine::Error;
use tiledb_engine::arrow::{CellWriter, UnknownValue, UnknownValues};
use tiledb_engine::write::create::{LiteralValue, is_suggested_enumeration};
use tiledb_engine::write::evolve::SchemaEvolution;
use tiledb_engine::write::fields::cell_writers;

use super::again::ReplannedStatement;
use super::target::PlannedTarget;
use crate::error::to_datafusion_error;
use crate::options::NewValues;

/// The most values that a statement adds to an enumeration. A column with more should be plain text.
const MOST_NEW_VALUES: usize = 1_000_000;

/// Returns the error of a statement, or a conflict if an enumeration was extended because of it.
pub(super) async fn settled_values(
    target: &PlannedTarget,
    context: &Arc<TaskContext>,
    refused: DataFusionError,
) -> DataFusionError {
    let Some(again) = &target.again else {
        return refused;
    };
    if target.options.new_values == NewValues::Error || !is_unknown_value(&refused) {
        return refused;
    }
    match Box::pin(extend(target, again, context)).await {
        Ok(true) => to_datafusion_error(
            Error::conflict("the statement brought new values of enumerations: run it again")
                .with("array", target.storage.uri()),
        ),
        Ok(false) => refused,
        Err(error) => error,
    }
}

fn is_unknown_value(error: &DataFusionError) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<UnknownValue>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Extends the enumerations by all new values of the statement; `false` if it has none, or if its rows cannot be read again.
async fn extend(
    target: &PlannedTarget,
    again: &ReplannedStatement,
    context: &Arc<TaskContext>,
) -> Result<bool> {
    let Some(plan) = again.plan().await? else {
        return Ok(false);
    };
    let Some(rows) = plan.children().into_iter().next().map(Arc::clone) else {
        return Ok(false);
    };
    let opened = target.open(context).await.map_err(to_datafusion_error)?;
    let writers =
        cell_writers(&opened.snapshot, &opened.types, opened.nulls).map_err(to_datafusion_error)?;
    let schema = &opened.snapshot.schema;
    // Attributes may share an enumeration.
    let mut enumerations: Vec<NewEnumerationValues<'_>> = Vec::new();
    let columns = (schema.dimensions.len()..).zip(&schema.attributes);
    for (column, attribute) in columns {
        let writer = writers.get(column).and_then(CellWriter::unknown_values);
        let (Some(name), Some(unknown)) = (&attribute.enumeration, writer) else {
            continue;
        };
        let is_extended =
            target.options.new_values == NewValues::Extend || is_suggested_enumeration(name);
        if !is_extended {
            continue;
        }
        match enumerations.iter_mut().find(|known| known.name == name) {
            Some(known) => known.columns.push(column),
            None => enumerations.push(NewEnumerationValues {
                name,
                attribute: &attribute.name,
                columns: vec![column],
                unknown,
            }),
        }
    }
    if enumerations.is_empty() {
        return Ok(false);
    }
    let mut rows = execute_stream(rows, Arc::clone(context))?;
    while let Some(batch) = rows.try_next().await? {
        for brought in &mut enumerations {
            let columns = brought.columns.iter();
            for values in columns.filter_map(|column| batch.columns().get(*column)) {
                brought
                    .unknown
                    .look_at(values)
                    .map_err(to_datafusion_error)?;
            }
            brought.check_number()?;
        }
    }
    enumerations.retain(|brought| !brought.unknown.is_empty());
    if enumerations.is_empty() {
        return Ok(false);
    }
    let mut evolution = SchemaEvolution::new()
        .clock(target.clock())
        .timestamp_if_given(target.options.write_timestamp);
    for brought in enumerations {
        let attribute = brought.attribute;
        evolution = evolution.extend_enumeration(attribute, brought.values()?);
    }
    evolution
        .apply(&target.storage)
        .await
        .map_err(to_datafusion_error)?;
    Ok(true)
}

/// The new values of a statement for an enumeration.
struct NewEnumerationValues<'a> {
    name: &'a str,
    /// One of the attributes that show it.
    attribute: &'a str,
    columns: Vec<usize>,
    unknown: UnknownValues<'a>,
}

impl NewEnumerationValues<'_> {
    fn check_number(&self) -> Result<()> {
        match self.unknown.len() {
            0..=MOST_NEW_VALUES => Ok(()),
            _ => Err(to_datafusion_error(Error::invalid(format!(
                "the rows bring more than {MOST_NEW_VALUES} new values to the enumeration \"{}\" of the attribute \"{}\", and a \
                 statement extends one by at most so many: a column without enumeration holds them",
                self.name, self.attribute
            )))),
        }
    }

    fn values(self) -> Result<Vec<LiteralValue>> {
        let values = self.unknown.into_values().map_err(to_datafusion_error)?;
        let values = (0..values.len()).map(|row| {
            let scalar = ScalarValue::try_from_array(&values, row)?;
            value_of(&scalar).ok_or_else(|| {
                to_datafusion_error(Error::invalid(format!(
                    "the rows bring the value {scalar} to the enumeration \"{}\" of the attribute \"{}\", and an enumeration \
                     cannot hold it",
                    self.name, self.attribute
                )))
            })
        });
        values.collect()
    }
}

/// A value of a column as a value of an enumeration; `None` for NULL, and for types that no enumeration holds.
pub(crate) fn value_of(scalar: &ScalarValue) -> Option<LiteralValue> {
    match scalar {
        ScalarValue::Binary(Some(bytes))
        | ScalarValue::LargeBinary(Some(bytes))
        | ScalarValue::BinaryView(Some(bytes)) => Some(LiteralValue::Bytes(bytes.clone())),
        other => match other.cast_to(&DataType::Utf8) {
            Ok(ScalarValue::Utf8(Some(text))) => Some(LiteralValue::Text(text)),
            _ => None,
        },
    }
}
