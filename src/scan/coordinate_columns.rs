//! Columns of coordinates that dense units share.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::ArrayRef;

use crate::geometry::box_runs::Coordinates;
use crate::memory::budget::Grant;

/// The most bytes of columns that are kept.
const MOST_KEPT_BYTES: usize = 24 << 20;

/// The columns that later clips may reuse, least recently used first.
#[derive(Debug, Default)]
pub struct CoordinateColumns(Mutex<VecDeque<Kept>>);

/// A column of coordinates.
#[derive(Debug)]
pub struct Kept {
    /// The dimension.
    pub dimension: usize,
    /// The cells that the column covers.
    pub coordinates: Coordinates,
    /// Its values.
    pub column: ArrayRef,
    /// The size of the column.
    pub bytes: usize,
    /// The memory reserved for the column.
    pub grant: Grant,
}

impl CoordinateColumns {
    /// Drops all columns.
    pub fn clear(&self) {
        self.kept().clear();
    }

    /// The column of a dimension over the same cells, if it is there.
    pub fn get(&self, dimension: usize, coordinates: &Coordinates) -> Option<ArrayRef> {
        let mut kept = self.kept();
        let found = kept
            .iter()
            .position(|k| k.dimension == dimension && k.coordinates == *coordinates)?;
        let found = kept.remove(found)?;
        let column = Arc::clone(&found.column);
        // The most recently used column is dropped last.
        kept.push_back(found);
        Some(column)
    }

    /// Keeps a column, and drops the least recently used ones beyond the limit.
    pub fn keep(&self, new: Kept) {
        let mut kept = self.kept();
        kept.push_back(new);
        let mut bytes = kept.iter().map(|k| k.bytes).sum::<usize>();
        while bytes > MOST_KEPT_BYTES
            && let Some(oldest) = kept.pop_front()
        {
            bytes = bytes.saturating_sub(oldest.bytes);
        }
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
