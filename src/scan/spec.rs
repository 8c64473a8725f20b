//! What a scan is asked for.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::{Schema, SchemaRef};

use crate::array::table::ArrayTable;
use crate::error::Result;
use crate::geometry::subarray::Subarray;
use crate::stats::pruner::TilePruner;
use crate::tile::needles::Needles;

/// What a dense array shows for cells that were never written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
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
    /// The table columns it looks at, in the order in which [`Self::evaluate`] expects them.
    fn columns(&self) -> &[usize];

    /// Which of `rows` rows satisfy it; NULL counts as no.
    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<BooleanArray>;

    /// What judges whole tiles for it, if anything can.
    fn pruner(&self) -> Option<Arc<dyn TilePruner>> {
        None
    }

    /// The same condition taken apart, if there are conditions on text in it.
    fn conjunction(&self) -> Option<&Conjunction> {
        None
    }
}

/// A condition on one column of text. It never fails, whatever string it is asked of, and NULL does not meet it.
#[derive(Debug, Clone)]
pub struct TextCondition {
    /// The condition.
    pub predicate: Arc<dyn Predicate>,
    /// Every string that meets it contains one of these, none of which is empty; `None` if nothing is known.
    pub needles: Option<Needles>,
}

/// A condition taken apart: rows meet it that meet all of these.
#[derive(Debug)]
pub struct Conjunction {
    /// Conditions on text.
    pub texts: Vec<TextCondition>,
    /// What else there is.
    pub rest: Option<Arc<dyn Predicate>>,
}

/// Which special ways a scan may take to its rows.
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
    /// The condition that rows must meet besides.
    pub predicate: Option<Arc<dyn Predicate>>,
    /// How cells that were never written look.
    pub empty_cells: EmptyCells,
    /// Which special ways may be taken.
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

    /// The columns the predicate looks at.
    pub fn predicate_columns(&self) -> &[usize] {
        self.predicate.as_ref().map_or(&[], |p| p.columns())
    }
}
