//! The request that a scan answers.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::{Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use crate::array::table::ArrayTable;
use crate::error::Result;
use crate::geometry::subarray::Subarray;
use crate::stats::pruner::TilePruner;
use crate::tile::needles::Needles;

/// What a dense array shows for cells that were never written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum EmptyCells {
    /// The fill value of each attribute, as libtiledb does.
    #[default]
    Fill,
    /// NULL in every attribute.
    Null,
    /// No row.
    Skip,
}

/// A condition on rows, evaluated by the scan.
pub trait Predicate: fmt::Debug + Send + Sync {
    /// The table columns that it reads, in the order in which [`Self::evaluate`] expects them.
    fn columns(&self) -> &[usize];

    /// Which of `rows` rows satisfy it; NULL counts as no.
    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<BooleanArray>;

    /// What prunes whole tiles by the predicate, if their statistics can decide it.
    fn pruner(&self) -> Option<Arc<dyn TilePruner>> {
        None
    }

    /// The same predicate as a conjunction, if some of its conjuncts are conditions on text.
    fn conjunction(&self) -> Option<&Conjunction> {
        None
    }
}

/// A condition on one column of text. It never fails, whatever the string, and NULL does not satisfy it.
#[derive(Debug, Clone)]
pub struct TextCondition {
    /// The condition.
    pub predicate: Arc<dyn Predicate>,
    /// Every string that satisfies it contains one of these, none of which is empty; `None` if no such strings are
    /// known.
    pub needles: Option<Needles>,
}

/// A predicate as a conjunction of conditions.
#[derive(Debug)]
pub struct Conjunction {
    /// Conditions on text.
    pub texts: Vec<TextCondition>,
    /// The other conjuncts.
    pub rest: Option<Arc<dyn Predicate>>,
}

/// Which special ways of reading a scan may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanWays {
    /// Conditions on text are asked of stored bytes.
    pub text_search: bool,
    /// Sparse tiles are searched by the order of their cells.
    pub cell_search: bool,
}

impl Default for ScanWays {
    fn default() -> Self {
        Self {
            text_search: true,
            cell_search: true,
        }
    }
}

/// A read of an array: which columns of which cells.
#[derive(Debug, Clone)]
pub struct ScanSpec {
    /// The array as a table.
    pub table: Arc<ArrayTable>,
    /// The table columns to return, in order; empty returns row counts only.
    pub projection: Vec<usize>,
    /// The ranges of coordinates to return.
    pub subarray: Arc<Subarray>,
    /// The predicate that rows must also satisfy.
    pub predicate: Option<Arc<dyn Predicate>>,
    /// The values of cells that were never written.
    pub empty_cells: EmptyCells,
    /// Whether every version of a cell of a sparse array is a row, instead of the newest one.
    pub all_versions: bool,
    /// Which special ways may be used.
    pub ways: ScanWays,
}

impl ScanSpec {
    /// The schema of the returned batches.
    pub fn output_schema(&self) -> SchemaRef {
        let fields = self
            .projection
            .iter()
            .filter_map(|i| self.table.schema.fields().get(*i).cloned())
            .collect::<Vec<_>>();
        Arc::new(Schema::new_with_metadata(
            fields,
            self.table.schema.metadata().clone(),
        ))
    }

    /// Whether only the newest of several cells with the same coordinates is a row.
    pub fn hides_older_versions(&self) -> bool {
        !self.table.snapshot.schema.allows_duplicates && !self.all_versions
    }

    /// The table columns that the predicate reads.
    pub fn predicate_columns(&self) -> &[usize] {
        self.predicate.as_ref().map_or(&[], |p| p.columns())
    }
}
