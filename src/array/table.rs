//! The table of an array: dimensions, then attributes, then system columns if they are asked for, as Arrow columns.

use std::sync::Arc;

use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::{Field, Schema, SchemaRef};

use super::fragment::{Fragment, FragmentField};
use super::snapshot::Snapshot;
use super::system_columns::{SystemColumn, SystemValues};
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

    /// Adds the system columns. In a dense array they can be NULL: where no fragment wrote the cell.
    pub fn with_system_columns(self) -> Result<Self> {
        let schema = &self.snapshot.schema;
        let mut fields = self.schema.fields().to_vec();
        let mut types = self.types.as_ref().clone();
        let names = fields.iter().map(|field| field.name().as_str());
        let labels = schema.labels.iter().map(|label| label.name.as_str());
        SystemColumn::check_names(names.chain(labels))
            .map_err(|e| e.with("array", self.snapshot.storage.uri()))?;
        for column in SystemColumn::ALL {
            let ty = column.column_type(schema.is_dense());
            fields.push(Arc::new(column.field(&ty)));
            types.push(ty);
        }
        let metadata = self.schema.metadata().clone();
        Ok(Self {
            schema: Arc::new(Schema::new_with_metadata(fields, metadata)),
            types: Arc::new(types),
            ..self
        })
    }

    /// The system column with this number among the columns of the table.
    pub fn system_column(&self, column: usize) -> Option<SystemColumn> {
        let first = self.dimension_count() + self.snapshot.schema.attributes.len();
        let number = column.checked_sub(first)?;
        let found = SystemColumn::ALL.get(number).copied();
        found.filter(|_| column < self.types.len())
    }

    /// The number of dimensions, which are the first columns.
    pub fn dimension_count(&self) -> usize {
        self.snapshot.schema.dimensions.len()
    }
}

/// What supplies a table column in a fragment.
#[derive(Debug)]
pub enum Supply {
    /// A field of the fragment.
    Field(FragmentField),
    /// The fill value of the table's schema: the fragment has no such attribute.
    Fill,
    /// This value, for all cells.
    Constant(ArrayRef),
}

/// Finds what supplies a table column in a fragment.
pub fn supply(table: &ArrayTable, fragment: &Fragment, column: usize) -> Result<Supply> {
    let missing = || Error::internal(format!("the table has no column {column}"));
    if let Some(system) = table.system_column(column) {
        return Ok(match system.in_fragment(fragment)? {
            SystemValues::Stored(field) => Supply::Field(field),
            SystemValues::Constant(value) => Supply::Constant(value),
        });
    }
    let Some(number) = column.checked_sub(table.dimension_count()) else {
        return Ok(Supply::Field(FragmentField::Dimension(column)));
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
    Ok(readable.map_or(Supply::Fill, |(number, _)| {
        Supply::Field(FragmentField::Attribute(number))
    }))
}

/// A column of cells that were never written.
pub fn fill_column(table: &ArrayTable, column: usize, cells: usize) -> Result<ArrayRef> {
    let missing = || Error::internal(format!("column {column} has no fill value"));
    if table.system_column(column).is_some() {
        let ty = table.types.get(column).ok_or_else(missing)?;
        return Ok(new_null_array(ty.data_type(), cells));
    }
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
