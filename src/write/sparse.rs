//! Cells in global order become the tiles of a sparse fragment: every tile but the last holds as many as the schema's
//! capacity, wherever space tiles end (specification: "Sparse fragments").

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;

use super::checks::{CellChecker, Coordinates};
use super::encode::RawTile;
use super::fields::WrittenFields;
use crate::arrow::{CellWriter, StoredCells};
use crate::error::{Error, Result};

/// Collects cells in global order until they fill a tile.
#[derive(Debug)]
pub struct SparseTiler {
    fields: Arc<WrittenFields>,
    writers: Vec<CellWriter>,
    checker: CellChecker,
    capacity: usize,
    tile: Vec<StoredCells>,
    cells: usize,
}

impl SparseTiler {
    /// A tiler for columns that `writers` convert, one for each field.
    ///
    /// # Errors
    /// The schema is damaged, or its capacity exceeds this machine's memory.
    pub fn new(fields: Arc<WrittenFields>, writers: Vec<CellWriter>) -> Result<Self> {
        let schema = &fields.schema;
        Ok(Self {
            checker: CellChecker::new(schema)?,
            capacity: usize::try_from(schema.capacity)?,
            tile: no_cells(&writers),
            cells: 0,
            writers,
            fields,
        })
    }

    /// Adds rows, one column for each field, which follow in global order those before them; returns the tiles that they
    /// fill.
    ///
    /// # Errors
    /// A row cannot be stored; it is named by its coordinates.
    pub fn push(&mut self, columns: &[ArrayRef], full: &mut Vec<RawTile>) -> Result<()> {
        let rows = columns.first().map_or(0, |column| column.len());
        let dimensions = self.check(columns)?;
        let mut start = 0;
        while start < rows {
            let count = (rows - start).min(self.capacity - self.cells);
            self.append(columns, start..start + count, &dimensions)?;
            start += count;
            if self.cells == self.capacity {
                full.extend(self.take());
            }
        }
        Ok(())
    }

    /// The cells that fill no tile; `None` if there are none.
    pub fn take(&mut self) -> Option<RawTile> {
        let cells = std::mem::take(&mut self.cells);
        if cells == 0 {
            return None;
        }
        let fields = std::mem::replace(&mut self.tile, no_cells(&self.writers));
        let real = std::iter::once(0..cells).collect();
        Some(RawTile { fields, real })
    }

    fn check(&mut self, columns: &[ArrayRef]) -> Result<Vec<StoredCells>> {
        let dimensions = &self.fields.schema.dimensions;
        let mut stored = Vec::with_capacity(dimensions.len());
        let sources = self.writers.iter().zip(columns).zip(dimensions);
        for ((writer, column), dimension) in sources {
            let mut cells = writer.no_cells();
            let appended = writer.append(column, &mut cells);
            appended.map_err(|refused| {
                let row = refused.row;
                refused
                    .why
                    .with("row", row)
                    .with("dimension", &dimension.name)
            })?;
            stored.push(cells);
        }
        let coordinates = dimensions.iter().zip(&stored);
        let coordinates = coordinates.map(|(d, cells)| Coordinates::new(d.datatype, cells));
        let coordinates = coordinates.collect::<Result<Vec<_>>>()?;
        self.checker.check(&coordinates)?;
        drop(coordinates);
        Ok(stored)
    }

    fn append(
        &mut self,
        columns: &[ArrayRef],
        rows: Range<usize>,
        dimensions: &[StoredCells],
    ) -> Result<()> {
        let sources = self.writers.iter().zip(columns).zip(&mut self.tile);
        for (i, ((writer, column), cells)) in sources.enumerate() {
            let part = column.slice(rows.start, rows.len());
            if let Err(refused) = writer.append(&part, cells) {
                let named = self.fields.schema.dimensions.iter().zip(dimensions);
                let coordinates = named.map(|(d, cells)| Coordinates::new(d.datatype, cells));
                let coordinates = coordinates.collect::<Result<Vec<_>>>()?;
                let row = rows.start.saturating_add(refused.row);
                let field = self.fields.fields.get(i);
                let field = field.map_or_else(String::new, |field| field.name.clone());
                let cell = self.checker.describe(&coordinates, row);
                return Err(refused.why.with("attribute", field).with("cell", cell));
            }
        }
        self.cells = self.cells.saturating_add(rows.len());
        if self.cells > self.capacity {
            return Err(Error::internal("a tile has more cells than its capacity"));
        }
        Ok(())
    }
}

fn no_cells(writers: &[CellWriter]) -> Vec<StoredCells> {
    writers.iter().map(CellWriter::no_cells).collect()
}
