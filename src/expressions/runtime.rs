//! Filters that reach a scan after it was planned.
//!
//! Ordinary filters, from a FilterExec above, are evaluated on every row. Dynamic ones come from operators that learn
//! while the query runs which rows they can still use: the best rows so far of ORDER BY … LIMIT, the keys of a join, a
//! running minimum. They are read again before each unit, never waited for, and used where they help: as ranges of
//! coordinates, to prune tiles, and on rows where that skips reading other columns. The operator that made them checks
//! every row itself.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::Array;
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::{conjunction_opt, reassign_expr_columns, split_conjunction};
use datafusion::physical_expr::{DynamicFilterTracking, conjunction};
use datafusion::physical_expr_common::physical_expr::{is_volatile, snapshot_physical_expr};
use datafusion::physical_plan::filter_pushdown::PushedDown;
use tiledb_engine::arrow::{CellData, TileBuffer, UnfilteredCells};
use tiledb_engine::geometry::key;
use tiledb_engine::geometry::subarray::DimRanges;
use tiledb_engine::scan::spec::{CoordinateTest, RuntimeCondition, RuntimeFilter};
use tiledb_engine::scan::{Predicate, ScanPlan};
use tiledb_engine::stats::pruner::TilePruner;

use crate::error::to_datafusion_error;
use crate::expressions::predicate::ExprPredicate;
use crate::expressions::pruning::{ExprPruner, fold_constants, keep_cheap, relaxed};
use crate::expressions::ranges::{self, DimensionColumn};
use crate::expressions::shape::PhysicalExprRef;

/// The filters pushed into a scan, over the table's columns.
#[derive(Debug, Clone, Default)]
pub(crate) struct PushedFilters {
    /// Filters that are evaluated on every row.
    exact: Vec<PhysicalExprRef>,
    /// Filters that the operators that sent them evaluate.
    dynamic: Vec<PhysicalExprRef>,
}

impl PushedFilters {
    /// Takes a filter over the scan's output, if it can be evaluated there.
    pub(crate) fn accept(
        &mut self,
        filter: PhysicalExprRef,
        plan: &ScanPlan,
        predicate: Option<&PhysicalExprRef>,
    ) -> Result<PushedDown> {
        let schema = &plan.spec.table.schema;
        let unknown = filter.exists(|e| {
            let column = e.downcast_ref::<Column>();
            Ok(column.is_some_and(|c| schema.index_of(c.name()).is_err()))
        })?;
        if unknown || is_volatile(&filter) {
            return Ok(PushedDown::No);
        }
        let dynamic = DynamicFilterTracking::classify(&filter).contains_dynamic_filter();
        let filter = reassign_expr_columns(filter, schema)?;
        if dynamic {
            if !self.dynamic.contains(&filter) {
                self.dynamic.push(filter);
            }
            return Ok(PushedDown::No);
        }
        let same = |conjunct: &PhysicalExprRef| conjunct.as_ref().eq(filter.as_ref());
        let evaluated = predicate.is_some_and(|p| split_conjunction(p).into_iter().any(same));
        if !evaluated && !self.exact.iter().any(same) {
            self.exact.push(filter);
        }
        Ok(PushedDown::Yes)
    }

    /// Filters that are evaluated on every row.
    pub(crate) fn of_exact(exact: Vec<PhysicalExprRef>) -> Self {
        Self {
            exact,
            dynamic: Vec::new(),
        }
    }

    /// Filters of a task of a scan.
    #[cfg(feature = "distributed")]
    pub(crate) fn of_task(exact: Vec<PhysicalExprRef>, dynamic: Vec<PhysicalExprRef>) -> Self {
        Self { exact, dynamic }
    }

    /// Those of operators that learn while the query runs.
    #[cfg(feature = "distributed")]
    pub(crate) fn dynamic(&self) -> &[PhysicalExprRef] {
        &self.dynamic
    }

    /// Those that are evaluated on every row.
    pub(crate) fn exact(&self) -> &[PhysicalExprRef] {
        &self.exact
    }

    /// Removes dynamic filters with parts that are not in `trusted`; returns whether there were any.
    pub(crate) fn keep_trusted(&mut self, trusted: &HashSet<u64>) -> bool {
        let known = self.dynamic.len();
        self.dynamic
            .retain(|filter| dynamic_parts(filter).is_subset(trusted));
        self.dynamic.len() < known
    }

    /// The number of filters.
    pub(crate) fn len(&self) -> usize {
        self.exact.len() + self.dynamic.len()
    }

    /// Whether they remove rows in any case.
    pub(crate) fn removes_rows(&self) -> bool {
        self.len() > 0
    }

    /// Whether some of them may tighten while the scan runs.
    pub(crate) fn tighten(&self) -> bool {
        !self.dynamic.is_empty()
    }

    /// All filters.
    pub(crate) fn all(&self) -> impl Iterator<Item = &PhysicalExprRef> {
        self.exact.iter().chain(&self.dynamic)
    }

    /// The filters for EXPLAIN.
    pub(crate) fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        if let Some(exact) = conjunction_opt(self.exact.iter().cloned()) {
            lines.push(("filter", exact.to_string()));
        }
        if let Some(dynamic) = conjunction_opt(self.dynamic.iter().cloned()) {
            lines.push(("runtime", dynamic.to_string()));
        }
        lines
    }

    /// The run-time filter of one partition of a scan whose own condition is `predicate`.
    pub(crate) fn at_run_time(
        &self,
        plan: &Arc<ScanPlan>,
        predicate: Option<&PhysicalExprRef>,
    ) -> Result<Option<Arc<dyn RuntimeFilter>>> {
        if self.len() == 0 {
            return Ok(None);
        }
        let table = &plan.spec.table;
        let dimensions =
            DimensionColumn::of_array(&table.snapshot.schema, &table.types, &table.options)
                .map_err(to_datafusion_error)?;
        let everything = conjunction(self.all().cloned());
        Ok(Some(Arc::new(LiveFilters {
            plan: Arc::clone(plan),
            predicate: predicate.cloned(),
            filters: self.clone(),
            dimensions,
            state: Mutex::new(ConditionState {
                tracking: DynamicFilterTracking::classify(&everything),
                seen: false,
                current: None,
            }),
        })))
    }
}

/// The identities of the dynamic parts of a filter.
fn dynamic_parts(filter: &PhysicalExprRef) -> HashSet<u64> {
    let mut parts = HashSet::new();
    // The traversal itself never fails.
    let _ = filter.apply(|part| {
        parts.extend(part.expression_id());
        Ok(TreeNodeRecursion::Continue)
    });
    parts
}

/// The filters of one partition while it runs.
#[derive(Debug)]
struct LiveFilters {
    plan: Arc<ScanPlan>,
    predicate: Option<PhysicalExprRef>,
    filters: PushedFilters,
    dimensions: Vec<DimensionColumn>,
    state: Mutex<ConditionState>,
}

#[derive(Debug)]
struct ConditionState {
    tracking: DynamicFilterTracking,
    seen: bool,
    current: Option<Arc<RuntimeCondition>>,
}

impl RuntimeFilter for LiveFilters {
    fn current(&self) -> tiledb_engine::Result<Option<Arc<RuntimeCondition>>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = state.tracking.watcher().is_some_and(|w| w.changed());
        if changed || !state.seen {
            state.seen = true;
            let condition = self.condition();
            state.current = condition.map_err(|e| {
                tiledb_engine::Error::internal("a filter cannot be evaluated by the scan")
                    .with_source(e)
            })?;
        }
        Ok(state.current.clone())
    }
}

impl LiveFilters {
    /// The current condition of the filters.
    fn condition(&self) -> Result<Option<Arc<RuntimeCondition>>> {
        let spec = &self.plan.spec;
        let now = |filter: &PhysicalExprRef| snapshot_physical_expr(Arc::clone(filter)).ok();
        let dynamic = conjunction_opt(self.filters.dynamic.iter().filter_map(now))
            .and_then(|filter| fold_constants(&filter));
        // A filter that cannot be evaluated yet is an error where rows are evaluated, and does not affect ranges and
        // tiles.
        let exact = conjunction_opt(self.filters.exact.iter().cloned());
        let folded = exact.as_ref().and_then(fold_constants);

        let mut subarray = spec.subarray.as_ref().clone();
        let mut tests = Vec::new();
        let mut split = |filter: &PhysicalExprRef| {
            let split = ranges::split(filter, &self.dimensions);
            subarray = subarray.intersect(&split.subarray);
            let residual = split.residual.iter().flat_map(split_conjunction);
            tests.extend(residual.filter_map(|c| DimensionTest::new(c, &self.plan)));
            split.residual
        };
        let on_rows = match &folded {
            Some(folded) => split(folded),
            None => exact,
        };
        let helpful = dynamic
            .as_ref()
            .and_then(&mut split)
            .as_ref()
            .and_then(keep_cheap)
            .and_then(|filter| self.skipping_columns(filter));

        let stricter = on_rows.is_some() || helpful.is_some();
        let certain = conjunction_opt(self.predicate.clone().into_iter().chain(on_rows));
        let schema = &spec.table.schema;
        let predicate = match (&certain, &helpful) {
            _ if !stricter => None,
            (certain, Some(helpful)) => {
                Some(ExprPredicate::helped(certain.as_ref(), helpful, schema)?)
            }
            (Some(certain), None) => Some(ExprPredicate::new(certain, schema)?),
            (None, None) => None,
        };
        let predicate = match predicate {
            Some(predicate) => Some(Arc::new(predicate) as _),
            None => spec.predicate.clone(),
        };
        let conditions = conjunction_opt(folded.into_iter().chain(dynamic));
        let pruner = conditions.and_then(|filter| ExprPruner::new(&filter, &spec.table));
        let unchanged = subarray == *spec.subarray;
        if unchanged && !stricter && pruner.is_none() && tests.is_empty() {
            return Ok(None);
        }
        Ok(Some(Arc::new(RuntimeCondition {
            subarray: if unchanged {
                Arc::clone(&spec.subarray)
            } else {
                Arc::new(subarray)
            },
            predicate,
            stricter,
            tests: tests.into_iter().map(|test| Arc::new(test) as _).collect(),
            pruner: pruner.map(|pruner| Arc::new(pruner) as Arc<dyn TilePruner>),
        })))
    }

    /// The part of a filter that skips reading columns for the rows it rejects: all of it, or its condition on the
    /// first of its columns for which that holds. (ORDER BY a, b … LIMIT filters by `a` first of all.)
    fn skipping_columns(&self, filter: PhysicalExprRef) -> Option<PhysicalExprRef> {
        if self.skips_columns(&filter) {
            return Some(filter);
        }
        let mut columns = Vec::new();
        filter
            .apply(|e| {
                columns.extend(e.downcast_ref::<Column>().map(Column::index));
                Ok(TreeNodeRecursion::Continue)
            })
            .ok()?;
        let mut relaxed = columns.into_iter().filter_map(|c| relaxed(&filter, c));
        relaxed.next().filter(|filter| self.skips_columns(filter))
    }

    /// Whether there are columns that need not be read for rows that a filter rejects.
    fn skips_columns(&self, filter: &PhysicalExprRef) -> bool {
        let spec = &self.plan.spec;
        let Ok(filter) = ExprPredicate::new(filter, &spec.table.schema) else {
            return false;
        };
        let read = |c: &usize| filter.columns().contains(c) || spec.predicate_columns().contains(c);
        !spec.projection.iter().all(read)
    }
}

/// A condition on one dimension, evaluated value by value.
#[derive(Debug)]
struct DimensionTest {
    dimension: usize,
    predicate: ExprPredicate,
    plan: Arc<ScanPlan>,
}

impl DimensionTest {
    /// `None` unless the condition depends only on one dimension of integers.
    fn new(condition: &PhysicalExprRef, plan: &Arc<ScanPlan>) -> Option<Self> {
        let predicate = ExprPredicate::new(condition, &plan.spec.table.schema).ok()?;
        let [dimension] = *predicate.columns() else {
            return None;
        };
        let schema = &plan.spec.table.snapshot.schema;
        let datatype = schema.dimensions.get(dimension)?.datatype;
        let whole = datatype.is_integer() || datatype.is_datetime() || datatype.is_time();
        whole.then(|| Self {
            dimension,
            predicate,
            plan: Arc::clone(plan),
        })
    }
}

impl CoordinateTest for DimensionTest {
    fn dimension(&self) -> usize {
        self.dimension
    }

    fn passing(&self, lo: u64, hi: u64) -> tiledb_engine::Result<DimRanges> {
        let table = &self.plan.spec.table;
        let dimension = table.snapshot.schema.dimensions.get(self.dimension);
        let Some((dimension, ty)) = dimension.zip(table.types.get(self.dimension)) else {
            return Ok(DimRanges::all());
        };
        let keys = || lo..=hi;
        let mut values = Vec::new();
        for key in keys() {
            values.extend_from_slice(&key::from_key(dimension.datatype, key));
        }
        let cells = UnfilteredCells {
            len: keys().count(),
            data: CellData::Fixed(TileBuffer::copy_of(&values)?),
            nulls: None,
        };
        // Values that cannot be converted may pass.
        let Ok(values) = ty.to_array(cells) else {
            return Ok(DimRanges::all());
        };
        let rows = values.len();
        let Ok(passing) = self.predicate.evaluate(&[values], rows) else {
            return Ok(DimRanges::all());
        };
        let passing = keys().zip(&passing).filter(|(_, p)| *p == Some(true));
        Ok(DimRanges::from_points(passing.map(|(key, _)| key)))
    }
}
