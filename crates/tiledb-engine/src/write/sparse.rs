//! Cells in global order become the tiles of a sparse fragment: every tile but the last holds as many as the schema's
//! capacity, wherever space tiles end (specification: "Sparse fragments").

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};

use super::checks::{BatchCoordinates, CellChecker, coordinates};
use super::encode::RawTile;
use super::fields::WrittenFields;
use crate::array::window::TimestampMs;
use crate::arrow::{CellWriter, StoredCells};
use crate::error::{Error, Result};
use crate::format::schema::Attribute;

/// The value of a cell that was not deleted, in place of the time and the number of a delete.
const NOT_DELETED: u64 = u64::MAX;

/// Collects cells in global order until they fill a tile.
#[derive(Debug)]
pub struct SparseTiler {
    fields: Arc<WrittenFields>,
    writers: Vec<CellWriter>,
    checker: CellChecker,
    capacity: usize,
    /// The time of the cells, if the fragment records times.
    time: TimestampMs,
    tile: Vec<StoredCells>,
    cells: usize,
}

impl SparseTiler {
    /// A tiler for columns that `writers` convert, one for each dimension and attribute. If the fragment records when its cells
    /// were written and deleted, both times are `time`.
    ///
    /// # Errors
    /// The schema is damaged, or its capacity exceeds this machine's memory.
    pub fn new(
        fields: Arc<WrittenFields>,
        writers: Vec<CellWriter>,
        time: TimestampMs,
    ) -> Result<Self> {
        let schema = &fields.schema;
        Ok(Self {
            checker: CellChecker::new(schema)?,
            capacity: usize::try_from(schema.capacity)?,
            time,
            tile: no_cells(&fields, &writers),
            cells: 0,
            writers,
            fields,
        })
    }

    /// The number of dimensions, whose columns come first.
    pub fn dimensions(&self) -> usize {
        self.fields.schema.dimensions.len()
    }

    /// Adds rows, one column for each dimension and attribute, which follow in global order those before them; returns the
    /// tiles that they fill. Of the rows that are `removed`, only the coordinates matter: they become deleted cells, which hide
    /// older ones. If cells have `numbers` by which all are sorted, the numbers prove their order.
    ///
    /// # Errors
    /// A row cannot be stored; the error names its coordinates.
    pub fn push(
        &mut self,
        columns: &[ArrayRef],
        removed: Option<&BooleanArray>,
        numbers: Option<&[u64]>,
        full: &mut Vec<RawTile>,
    ) -> Result<()> {
        let rows = columns.first().map_or(0, |column| column.len());
        if removed.is_some() && self.fields.recorded.deletes.is_none() {
            return Err(Error::internal("the fragment records no deletes"));
        }
        let coordinates = self.check(columns, numbers)?;
        let mut start = 0;
        while start < rows {
            let room = (rows - start).min(self.capacity - self.cells);
            let is_removed = |row: usize| removed.is_some_and(|removed| removed.value(row));
            let dead = is_removed(start);
            let alike = (start..start + room).take_while(|row| is_removed(*row) == dead);
            let alike = start..start + alike.count();
            if dead {
                self.append_removed(columns, alike.clone())?
            } else {
                self.append(columns, alike.clone(), &coordinates)?
            }
            self.append_times(alike.len(), dead);
            start = alike.end;
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
        let fields = std::mem::replace(&mut self.tile, no_cells(&self.fields, &self.writers));
        let real = std::iter::once(0..cells).collect();
        Some(RawTile { fields, real })
    }

    fn check(
        &mut self,
        columns: &[ArrayRef],
        numbers: Option<&[u64]>,
    ) -> Result<Vec<BatchCoordinates>> {
        let dimensions = &self.fields.schema.dimensions;
        let coordinates = coordinates(dimensions, &self.writers, columns)?;
        self.checker.check(&coordinates, numbers)?;
        Ok(coordinates)
    }

    fn append(
        &mut self,
        columns: &[ArrayRef],
        rows: Range<usize>,
        coordinates: &[BatchCoordinates],
    ) -> Result<()> {
        let sources = self.writers.iter().zip(columns).zip(&mut self.tile);
        for (i, ((writer, column), cells)) in sources.enumerate() {
            let part = column.slice(rows.start, rows.len());
            if let Err(refused) = writer.append(&part, cells) {
                let row = rows.start.saturating_add(refused.row);
                let field = self.fields.fields.get(i);
                let field = field.map_or_else(String::new, |field| field.name.clone());
                let cell = self.checker.describe(coordinates, row);
                return Err(refused.why.with("attribute", field).with("cell", cell));
            }
        }
        self.count(rows.len())
    }

    /// Appends the coordinates of deleted cells; their attributes are never read.
    fn append_removed(&mut self, columns: &[ArrayRef], rows: Range<usize>) -> Result<()> {
        let schema = Arc::clone(&self.fields.schema);
        let dimensions = schema.dimensions.len();
        let sources = self.writers.iter().zip(columns).zip(&mut self.tile);
        for ((writer, column), cells) in sources.take(dimensions) {
            let part = column.slice(rows.start, rows.len());
            writer.append(&part, cells).map_err(|refused| refused.why)?;
        }
        let attributes = schema.attributes.iter();
        for (attribute, cells) in attributes.zip(self.tile.iter_mut().skip(dimensions)) {
            append_fill(attribute, rows.len(), cells);
        }
        self.count(rows.len())
    }

    /// Appends the times at which cells were written and deleted, and by which delete, as far as the fragment records them.
    fn append_times(&mut self, cells: usize, removed: bool) {
        let deleted = if removed {
            [self.time.0, 0]
        } else {
            [NOT_DELETED; 2]
        };
        let written = self.fields.recorded.times.then_some(self.time.0);
        let numbers = written.into_iter().chain(deleted);
        let times = self.tile.iter_mut().skip(self.writers.len());
        for (field, number) in times.zip(numbers) {
            let bytes = number.to_le_bytes();
            field
                .values
                .extend(std::iter::repeat_n(bytes, cells).flatten());
            field.len = field.len.saturating_add(cells);
        }
    }

    fn count(&mut self, cells: usize) -> Result<()> {
        self.cells = self.cells.saturating_add(cells);
        if self.cells > self.capacity {
            return Err(Error::internal("a tile has more cells than its capacity"));
        }
        Ok(())
    }
}

fn no_cells(fields: &WrittenFields, writers: &[CellWriter]) -> Vec<StoredCells> {
    let of_writers = writers.iter().map(CellWriter::no_cells);
    let others = fields.fields.len().saturating_sub(writers.len());
    let times = std::iter::repeat_with(|| StoredCells::none(false, false)).take(others);
    of_writers.chain(times).collect()
}

/// Appends the fill value of an attribute a number of times, as NULL if the attribute allows that.
fn append_fill(attribute: &Attribute, count: usize, cells: &mut StoredCells) {
    for _ in 0..count {
        if let Some(starts) = &mut cells.starts {
            starts.push(cells.values.len() as u64);
        }
        cells.values.extend_from_slice(&attribute.fill_value);
    }
    if let Some(validity) = &mut cells.validity {
        validity.resize(validity.len().saturating_add(count), 0);
    }
    cells.len = cells.len.saturating_add(count);
}
