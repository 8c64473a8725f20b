//! Evaluation of DataFusion expressions on the statistics of tiles.
//!
//! [`PruningPredicate`] turns a condition on rows into one on minima and maxima, and evaluates it on all tiles at once.
//! It only gets what it evaluates correctly (see [`rewrite`]): a condition that decides *inclusively* (may a row
//! match?), and its negation, by which the same code decides *strictly* (no row fails, so every row matches). Lists of
//! values of any length are searched by [`sets`].

mod rewrite;
mod sets;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use tiledb_engine::array::table::ArrayTable;
use tiledb_engine::stats::pruner::{ColumnStatistics, PrunedTileStatistics, TilePruner, Verdict};

use self::sets::ValueSet;

pub(crate) use self::rewrite::{fold_constants, keep_cheap, relaxed};

/// Prunes tiles by a condition over the table's columns.
#[derive(Debug)]
pub(crate) struct ExprPruner {
    schema: SchemaRef,
    columns: Vec<usize>,
    /// False where no row can match.
    inclusive: Option<PruningPredicate>,
    /// False where every row matches.
    strict: Option<PruningPredicate>,
    /// For each guarantee of the inclusive predicate, the values, one of which a column must have.
    sets: Vec<Option<ValueSet>>,
}

impl ExprPruner {
    /// The pruner for `expr` over the columns of a table; `None` if statistics cannot decide it.
    pub(crate) fn new(expr: &Arc<dyn PhysicalExpr>, table: &ArrayTable) -> Option<Self> {
        let values = |column: usize| table.types.get(column)?.enumeration_values().cloned();
        Self::over(expr, &table.schema, &values)
    }

    /// The pruner over the columns of a schema; `enumeration` gives the values of an enumerated column.
    fn over(
        expr: &Arc<dyn PhysicalExpr>,
        schema: &SchemaRef,
        enumeration: &dyn Fn(usize) -> Option<ArrayRef>,
    ) -> Option<Self> {
        let schema = Arc::clone(schema);
        let understood = rewrite::matching(expr, &schema);
        let opposite = rewrite::failing(expr, &schema);
        let mut columns = collect_columns(&understood)
            .iter()
            .chain(&collect_columns(&opposite))
            .map(|c| c.index())
            .collect::<Vec<_>>();
        columns.sort_unstable();
        columns.dedup();
        let build = |expr| {
            let builder = PruningPredicateBuilder::new().with_file_schema(Arc::clone(&schema));
            let predicate = builder.try_build(expr).ok();
            predicate.filter(|p| !p.always_true())
        };
        let inclusive = build(understood);
        let strict = build(opposite);
        if columns.is_empty() || (inclusive.is_none() && strict.is_none()) {
            return None;
        }
        let guarantees = inclusive.iter().flat_map(|p| p.literal_guarantees());
        let sets = guarantees
            .map(|g| ValueSet::new(g, &schema, enumeration))
            .collect();
        Some(Self {
            schema,
            columns,
            inclusive,
            strict,
            sets,
        })
    }

    /// The tiles that a predicate does not rule out; all of them if it cannot be evaluated.
    fn kept(
        &self,
        predicate: Option<&PruningPredicate>,
        tiles: &PrunedTileStatistics,
    ) -> Vec<bool> {
        let all = || vec![true; tiles.tiles];
        let statistics = PruningTiles {
            pruner: self,
            tiles,
        };
        let kept = predicate.and_then(|p| p.prune(&statistics).ok());
        kept.filter(|k| k.len() == tiles.tiles).unwrap_or_else(all)
    }
}

impl TilePruner for ExprPruner {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn evaluate(&self, tiles: &PrunedTileStatistics) -> Vec<Verdict> {
        let matching = self.kept(self.inclusive.as_ref(), tiles);
        // The best rows so far rule out tile after tile, one by one.
        if !matching.contains(&true) {
            return vec![Verdict::Nothing; matching.len()];
        }
        let failing = self.kept(self.strict.as_ref(), tiles);
        let verdict = |(matching, failing)| match (matching, failing) {
            (false, _) => Verdict::Nothing,
            (true, false) => Verdict::Everything,
            (true, true) => Verdict::Something,
        };
        matching.into_iter().zip(failing).map(verdict).collect()
    }
}

/// Statistics of tiles in the form that DataFusion needs.
struct PruningTiles<'a> {
    pruner: &'a ExprPruner,
    tiles: &'a PrunedTileStatistics,
}

impl PruningTiles<'_> {
    fn column(&self, column: &Column) -> Option<&ColumnStatistics> {
        let index = self.pruner.schema.index_of(column.name()).ok()?;
        self.tiles.columns.iter().find(|c| c.column == index)
    }
}

impl PruningStatistics for PruningTiles<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.column(column).map(|c| Arc::clone(&c.min))
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.column(column).map(|c| Arc::clone(&c.max))
    }

    fn num_containers(&self) -> usize {
        self.tiles.tiles
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let counts = &self.column(column)?.null_counts;
        Some(Arc::new(counts.clone()))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(self.tiles.cells.clone()))
    }

    fn contained(&self, column: &Column, values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        let guarantees = self.pruner.inclusive.as_ref()?.literal_guarantees();
        let mut sets = guarantees.iter().zip(&self.pruner.sets);
        let (_, set) = sets.find(|(g, _)| std::ptr::eq(&g.literals, values))?;
        set.as_ref()?.touched(self.column(column)?)
    }
}
