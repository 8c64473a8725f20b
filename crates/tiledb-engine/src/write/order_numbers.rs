//! The numbers that rows are sorted by before they are written.

use std::sync::Arc;

use arrow::array::ArrayRef;

use super::checks::coordinates;
use crate::arrow::{CellWriter, ColumnType, TypeOptions};
use crate::error::Result;
use crate::format::schema::ArraySchema;
use crate::geometry::key::Coordinate;
use crate::geometry::order_key::{KeyPart, OrderKeys};

/// Computes the numbers of all rows of an array.
#[derive(Debug)]
pub struct OrderNumbers {
    schema: Arc<ArraySchema>,
    keys: OrderKeys,
    writers: Vec<CellWriter>,
}

impl OrderNumbers {
    /// Prepares for the numbers of cells whose coordinates lie between `known` keys.
    ///
    /// # Errors
    /// The domain is damaged, or a dimension has no column.
    pub fn new(
        schema: &Arc<ArraySchema>,
        types: &TypeOptions,
        known: &[Option<(u64, u64)>],
    ) -> Result<Self> {
        let dimensions = schema.dimensions.iter();
        let writers = dimensions
            .map(|dimension| CellWriter::new(ColumnType::of_dimension(dimension, types)?, false));
        Ok(Self {
            keys: OrderKeys::within(schema, known)?,
            writers: writers.collect::<Result<_>>()?,
            schema: Arc::clone(schema),
        })
    }

    /// The columns to sort by.
    pub fn keys(&self) -> &OrderKeys {
        &self.keys
    }

    /// The numbers of one of these columns for rows whose first columns are the dimensions.
    ///
    /// # Errors
    /// A coordinate can't be stored.
    pub fn of_rows(
        &self,
        parts: &[KeyPart],
        columns: &[ArrayRef],
        rows: usize,
    ) -> Result<Vec<u64>> {
        let coordinates = coordinates(&self.schema.dimensions, &self.writers, columns)?;
        let of = |dim: usize| coordinates.get(dim);
        let at = |dim: usize, cell: usize| of(dim).map_or(Coordinate::Key(0), |of| of.at(cell));
        let keys_of = |dim: usize| of(dim)?.keys();
        Ok(self.keys.numbers(parts, rows, keys_of, at))
    }
}
