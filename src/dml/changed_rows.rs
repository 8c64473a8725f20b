//! Changed rows, sorted by their coordinates: written cells, and removed ones.
//!
//! The last column of a statement's rows holds the kind of each row. Rows of the same coordinates follow each other, written
//! ones first. The subtle thing: a cell that is removed at coordinates to which another row moves needs no removal, because the
//! newer cell hides it; and a row may move only to coordinates where no row stays.

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, UInt8Array};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::kernels::cmp::not_distinct;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use tiledb_engine::arrow::with_one_zero;
use tiledb_engine::{Error, Result};

/// A cell that replaces one that was read, or that is written where no cell was.
pub(super) const WRITTEN: u8 = 0;
/// A cell at coordinates where another cell was, which must be removed.
pub(super) const WRITTEN_OVER: u8 = 1;
/// A cell that is removed.
pub(super) const REMOVED: u8 = 2;

/// The rows of a statement, batch by batch.
#[derive(Debug, Default)]
pub(super) struct ChangedRows {
    last: Option<LastRow>,
    /// The coordinates of a written cell whose old cell hasn't been removed yet.
    awaited: Option<String>,
}

#[derive(Debug)]
struct LastRow {
    coordinates: Vec<ArrayRef>,
    kind: u8,
}

impl ChangedRows {
    /// Returns which rows to write, and which of these are removed.
    ///
    /// # Errors
    /// A row takes the place of one that stays, or one row is changed twice.
    pub(super) fn settle(
        &mut self,
        coordinates: &[ArrayRef],
        kinds: &UInt8Array,
    ) -> Result<(BooleanArray, BooleanArray)> {
        let rows = kinds.len();
        // A removed cell keeps the sign of its zeros, and Arrow compares bits.
        let coordinates = coordinates.iter().map(with_one_zero).collect::<Vec<_>>();
        let coordinates = coordinates.as_slice();
        let same = self.same_as_before(coordinates, rows)?;
        let (mut kept, mut removed) = (vec![true; rows], vec![false; rows]);
        let mut before = self.last.as_ref().map(|last| last.kind);
        let flags = kept.iter_mut().zip(&mut removed);
        for (row, ((kept, removed), kind)) in flags.zip(kinds.values()).enumerate() {
            let before = before.replace(*kind).filter(|_| same.value(row));
            if before.is_none() {
                self.check_nothing_awaited()?;
            }
            match (*kind, before) {
                (REMOVED, None) => *removed = true,
                (REMOVED, Some(WRITTEN_OVER)) => {
                    self.awaited = None;
                    *kept = false;
                }
                (WRITTEN_OVER, None) => self.awaited = Some(shown(coordinates, row)),
                (WRITTEN, None) => {}
                _ => {
                    return Err(Error::invalid(format!(
                        "the statement changes the row {} more than once, or gives two rows the same coordinates",
                        shown(coordinates, row)
                    )));
                }
            }
        }
        if let Some(last) = rows.checked_sub(1) {
            let coordinates = coordinates.iter().map(|column| column.slice(last, 1));
            self.last = Some(LastRow {
                coordinates: coordinates.collect(),
                kind: kinds.value(last),
            });
        }
        Ok((BooleanArray::from(kept), BooleanArray::from(removed)))
    }

    /// Ends the rows.
    ///
    /// # Errors
    /// The last row takes the place of one that stays.
    pub(super) fn finish(&self) -> Result<()> {
        self.check_nothing_awaited()
    }

    fn check_nothing_awaited(&self) -> Result<()> {
        match &self.awaited {
            None => Ok(()),
            Some(cell) => Err(Error::invalid(format!(
                "a row would take the coordinates {cell}, where another one is that the statement does not change"
            ))),
        }
    }

    /// For each row, whether it has the coordinates of the row before it.
    fn same_as_before(&self, coordinates: &[ArrayRef], rows: usize) -> Result<BooleanBuffer> {
        let mut same = BooleanBuffer::new_set(rows);
        for (dim, column) in coordinates.iter().enumerate() {
            let last = self
                .last
                .as_ref()
                .and_then(|last| last.coordinates.get(dim));
            let first = match last {
                Some(last) if rows > 0 => equal(last, &column.slice(0, 1))?.value(0),
                _ => false,
            };
            let rest = match rows {
                0 | 1 => BooleanBuffer::new_unset(0),
                _ => equal(&column.slice(0, rows - 1), &column.slice(1, rows - 1))?,
            };
            let equal = std::iter::once(first).chain(rest.iter()).take(rows);
            same = &same & &BooleanBuffer::from_iter(equal);
        }
        Ok(same)
    }
}

fn equal(a: &ArrayRef, b: &ArrayRef) -> Result<BooleanBuffer> {
    let equal = not_distinct(a, b);
    let equal =
        equal.map_err(|e| Error::internal("coordinates cannot be compared").with_source(e))?;
    Ok(equal.values().clone())
}

/// Coordinates for messages: `(3, a)`.
fn shown(coordinates: &[ArrayRef], row: usize) -> String {
    let options = FormatOptions::default();
    let parts = coordinates.iter().map(|column| {
        let formatter = ArrayFormatter::try_new(column.as_ref(), &options);
        formatter.map_or_else(|_| "?".to_owned(), |f| f.value(row).to_string())
    });
    format!("({})", parts.collect::<Vec<_>>().join(", "))
}
