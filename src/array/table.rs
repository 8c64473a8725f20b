//! The table an array is: dimensions, then attributes, as Arrow columns.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};

use super::snapshot::Snapshot;
use crate::arrow::{ColumnType, TypeOptions, arrow_schema};
use crate::error::Result;

/// A snapshot and the columns it shows.
#[derive(Debug, Clone)]
pub struct ArrayTable {
    /// The array at a time.
    pub snapshot: Snapshot,
    /// The Arrow schema, one field a column.
    pub schema: SchemaRef,
    /// How each column's stored bytes become Arrow.
    pub types: Arc<Vec<ColumnType>>,
    /// The options the types were chosen by.
    pub options: TypeOptions,
}

impl ArrayTable {
    /// The table of `snapshot`.
    pub fn new(snapshot: Snapshot, options: &TypeOptions) -> Result<Self> {
        let (schema, types) = arrow_schema(&snapshot.schema, &snapshot.enumerations, options)
            .map_err(|e| e.with("array", snapshot.storage.uri()))?;
        Ok(Self {
            snapshot,
            schema,
            types: Arc::new(types),
            options: *options,
        })
    }

    /// The same table, every attribute nullable: for dense cells that were never written shown as NULL.
    #[must_use]
    pub fn with_nullable_attributes(self) -> Self {
        let dimensions = self.dimension_count();
        let fields = self.schema.fields().iter().enumerate().map(|(i, field)| {
            if i < dimensions {
                Arc::clone(field)
            } else {
                Arc::new(Field::clone(field).with_nullable(true))
            }
        });
        let fields = fields.collect::<Vec<_>>();
        let schema = Arc::new(Schema::new_with_metadata(
            fields,
            self.schema.metadata().clone(),
        ));
        Self { schema, ..self }
    }

    /// How many of the first columns are dimensions.
    pub fn dimension_count(&self) -> usize {
        self.snapshot.schema.dimensions.len()
    }
}
