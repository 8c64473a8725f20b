//! Scans whose rows come in an order, or with the best rows first.
//!
//! Rows are ordered only if the query needs it: without an order, partitions share their work. An order that begins
//! with the leading dimension is often cheap ([`RowOrder`]); then nothing is sorted above, and LIMIT stops reading. For
//! any other order the scan reads the units that promise the best rows first, and a top-k keeps the best rows.

use std::sync::Arc;

use datafusion::datasource::source::DataSource;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::SortOrderPushdownResult;
use tiledb_engine::scan::context::ReadAhead;
use tiledb_engine::scan::order::{OrderTerm, RowOrder};
use tiledb_engine::scan::unit_order::{UnitOrder, WantedFirst};

use super::{ScanMode, TileDbSource};

impl TileDbSource {
    /// The scan in one partition, with its rows in an order, if that takes little sorting; at most `rows` are needed.
    pub(crate) fn in_one_sequence(
        &self,
        order: &[PhysicalSortExpr],
        rows: Option<usize>,
    ) -> Option<Self> {
        match self.arrangement.ranges() {
            Some(_) => None,
            None => self.in_order(order, rows, 1),
        }
    }

    /// The scan with the rows of each partition in an order, if that takes little sorting.
    fn in_order(
        &self,
        order: &[PhysicalSortExpr],
        rows: Option<usize>,
        partitions: usize,
    ) -> Option<Self> {
        // The declared number of rows would be that of other partitions.
        let counted = self.fetch.is_some() && self.arrangement.partitions.len() > 1;
        if counted || self.planned.labels.is_some() {
            return None;
        }
        let order = Arc::new(self.row_order(order)?);
        let mode = match self.mode() {
            ScanMode::Plain | ScanMode::BestFirst(_) => ScanMode::Ordered {
                order,
                rows,
                partitions,
            },
            ScanMode::Ranges { cuts, order: None } => ScanMode::Ranges {
                cuts: cuts.clone(),
                order: Some(order),
            },
            ScanMode::Ordered { .. } | ScanMode::Ranges { .. } | ScanMode::Remaining { .. } => {
                return None;
            }
        };
        self.in_mode(mode).ok()?
    }

    /// The scan with the rows of each partition ascending by the first `dimensions` dimensions, if they are stored in
    /// that order.
    pub(crate) fn in_stored_order(self, dimensions: usize) -> Self {
        let columns = (0..dimensions).map(|dimension| {
            let mut shown = self.plan().spec.projection.iter();
            let index = shown.position(|column| *column == dimension)?;
            let column = Column::new(self.planned.schema.field(index).name(), index);
            Some(PhysicalSortExpr::new_default(Arc::new(column) as _))
        });
        let order = columns.collect::<Option<Vec<_>>>();
        let ordered =
            order.and_then(|order| self.in_order(&order, None, self.arrangement.partitions.len()));
        let stored = |ordered: &Self| ordered.plan().is_stored_in_order(dimensions);
        ordered.filter(stored).unwrap_or(self)
    }

    /// An order that begins with the leading dimension, over columns that can be sorted.
    fn row_order(&self, order: &[PhysicalSortExpr]) -> Option<RowOrder> {
        let terms = order.iter().map(|sort| {
            let shown = sort.expr.downcast_ref::<Column>()?.index();
            let sorts = RowOrder::sorts(self.planned.schema.field(shown).data_type());
            sorts.then_some(OrderTerm {
                column: *self.plan().spec.projection.get(shown)?,
                shown,
                options: sort.options,
            })
        });
        RowOrder::new(terms.collect::<Option<_>>()?)
    }

    /// How far a partition reads ahead: one that replaces several reads as far as these would together.
    pub(super) fn pace(&self) -> ReadAhead {
        let partitions = self.arrangement.partition_count().max(1);
        match self.arrangement.row_order() {
            Some(_) => ReadAhead {
                partitions: (self.query.partitions / partitions).max(1),
                gradual: self.fetch.is_some(),
            },
            // Behind a network, what LIMIT doesn't need costs time.
            None => ReadAhead {
                gradual: self.fetch.is_some()
                    && self.plan().spec.table.snapshot.storage.is_remote(),
                ..ReadAhead::default()
            },
        }
    }

    /// The declared order of rows.
    pub(super) fn orderings(&self) -> EquivalenceProperties {
        let schema = Arc::clone(&self.planned.schema);
        let order = self.arrangement.row_order().into_iter();
        let terms = order
            .flat_map(|order| order.terms())
            .map(|term| PhysicalSortExpr {
                expr: Arc::new(Column::new(schema.field(term.shown).name(), term.shown)),
                options: term.options,
            });
        let orders = LexOrdering::new(terms);
        EquivalenceProperties::new_with_orderings(schema, orders)
    }

    /// The scan with rows in the requested order, in the same partitions; or else with the best rows first.
    pub(super) fn sorted(
        &self,
        order: &[PhysicalSortExpr],
    ) -> SortOrderPushdownResult<Arc<dyn DataSource>> {
        // Merging several partitions would take more memory than sorting the rows that a top-k keeps of them.
        let partitions = self.arrangement.partitions.len();
        let apart = self.arrangement.ranges().is_some() || partitions == 1;
        let apart = apart && self.query.settings.enable_ordered_scans;
        if let Some(ordered) = self.in_order(order, None, partitions).filter(|_| apart) {
            let inner = Arc::new(ordered);
            return SortOrderPushdownResult::Exact { inner };
        }
        let wanted = self.wanted_first(order);
        let free = matches!(self.mode(), ScanMode::Plain | ScanMode::BestFirst(_));
        if wanted.is_empty() || !free || !self.query.settings.enable_best_tiles_first {
            return SortOrderPushdownResult::Unsupported;
        }
        match self.in_mode(ScanMode::BestFirst(wanted)) {
            Ok(Some(inner)) => SortOrderPushdownResult::Inexact {
                inner: Arc::new(inner),
            },
            Ok(None) | Err(_) => SortOrderPushdownResult::Unsupported,
        }
    }

    /// The first columns of an order, up to the first that is not a column of the array.
    fn wanted_first(&self, order: &[PhysicalSortExpr]) -> Vec<WantedFirst> {
        let schema = &self.plan().spec.table.schema;
        let wanted = order.iter().map_while(|sort| {
            let column = sort.expr.downcast_ref::<Column>()?;
            let column = schema.index_of(column.name()).ok()?;
            let nested = schema.field(column).data_type().is_nested();
            (self.planned.labels.is_none() && !nested).then_some(WantedFirst {
                column,
                descending: sort.options.descending,
            })
        });
        wanted.collect()
    }

    /// The order of units, if reading the best first may prune others.
    pub(super) fn worthwhile_order(&self) -> Option<Arc<UnitOrder>> {
        let order = self.arrangement.unit_order();
        order.filter(|_| self.filters.tighten()).cloned()
    }
}
