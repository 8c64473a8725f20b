//! The table of an array: dimensions, then attributes, as Arrow columns.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{Field, Schema, SchemaRef};

use super::fragment::{Fragment, FragmentField};
use super::snapshot::Snapshot;
use crate::arrow::{ColumnType, TypeOptions, arrow_schema, check_problem, fill_array};
use crate::error::{Error, Result};

/// A snapshot and the columns it shows.
#[derive(Debug, Clone)]
pub struct ArrayTable {
    /// The array at a time.
    pub snapshot: Snapshot,
    /// The Arrow schema, one field a column.
    pub schema: SchemaRef,
    /// The conversion of each column's stored bytes to Arrow.
    pub types: Arc<Vec<ColumnType>>,
    /// The options that the types depend on.
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

    /// The table of another snapshot of the array; `None` if its schema or its enumerations, from which the columns
    /// follow, are others.
    pub fn at(&self, snapshot: &Snapshot) -> Option<Self> {
        let same = Arc::ptr_eq(&self.snapshot.schema, &snapshot.schema)
            && Arc::ptr_eq(&self.snapshot.enumerations, &snapshot.enumerations);
        same.then(|| Self {
            snapshot: snapshot.clone(),
            schema: Arc::clone(&self.schema),
            types: Arc::clone(&self.types),
            options: self.options,
        })
    }

    /// Makes every attribute of the table nullable, for showing dense cells that were never written as NULL.
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

    /// The number of dimensions, which are the first columns.
    pub fn dimension_count(&self) -> usize {
        self.snapshot.schema.dimensions.len()
    }
}

/// The field of the fragment's own schema that supplies a table column; `None` if every cell has the fill value.
pub fn stored_field(
    table: &ArrayTable,
    fragment: &Fragment,
    column: usize,
) -> Result<Option<FragmentField>> {
    let missing = || Error::internal(format!("the table has no column {column}"));
    let Some(number) = column.checked_sub(table.dimension_count()) else {
        return Ok(Some(FragmentField::Dimension(column)));
    };
    let wanted = table.snapshot.schema.attributes.get(number);
    let wanted = wanted.ok_or_else(missing)?;
    let ty = table.types.get(column).ok_or_else(missing)?;
    ty.check_readable()?;
    let mut own = fragment.schema.attributes.iter().enumerate();
    let found = own.find(|(_, a)| a.name == wanted.name);
    if let Some((_, attribute)) = found {
        // Whether its type differs from the array's is not known.
        check_problem(attribute)?;
    }
    let readable = found.filter(|(_, a)| ty.reads(a.datatype, a.cell_val_num));
    Ok(readable.map(|(number, _)| FragmentField::Attribute(number)))
}

/// A column of cells that were never written.
pub fn fill_column(table: &ArrayTable, column: usize, cells: usize) -> Result<ArrayRef> {
    let missing = || Error::internal(format!("column {column} has no fill value"));
    let number = column
        .checked_sub(table.dimension_count())
        .ok_or_else(missing)?;
    let attribute = table
        .snapshot
        .schema
        .attributes
        .get(number)
        .ok_or_else(missing)?;
    let ty = table.types.get(column).ok_or_else(missing)?;
    fill_array(attribute, ty, cells)
}
