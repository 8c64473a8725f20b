//! How a scan goes about its rows: in any order, in a promised one, in ranges, or only what metadata leave to read.
//!
//! A [`ScanMode`] is a value, from which the plan of its units and what they share are derived wherever the scan runs.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::common::{ScalarValue, SplitPoint};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr, RangePartitioning,
};
use serde::{Deserialize, Serialize};
use tiledb_engine::scan::ScanPlan;
use tiledb_engine::scan::order::RowOrder;
use tiledb_engine::scan::plan::range_cuts::RangeCuts;
use tiledb_engine::scan::plan::whole::WholeTile;
use tiledb_engine::scan::summary::{self, TilesSummary};
use tiledb_engine::scan::unit_order::{UnitOrder, WantedFirst};
use tiledb_engine::stats::trust::{RequestedAggregates, SumRounding};
use tiledb_engine::{Error, Result};
use tokio::sync::OnceCell;

use super::runs::CurrentScan;
use super::{PlannedScan, TileDbSource};
use crate::expressions::runtime::PushedFilters;
use crate::scan::query::ScanRequest;

/// How a scan goes about its rows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ScanMode {
    /// Rows come in no order, and a partition that is done takes over units of others.
    #[default]
    Plain,
    /// Rows come in no order, but the units that promise these rows are read first.
    BestFirst(Vec<WantedFirst>),
    /// The rows of each partition come in an order.
    Ordered {
        /// The order.
        order: Arc<RowOrder>,
        /// The largest number of rows that the query wants.
        rows: Option<usize>,
        /// The largest number of partitions.
        partitions: usize,
    },
    /// Partitions are ranges of the leading dimension.
    Ranges {
        /// The coordinates at which the leading dimension is cut.
        cuts: RangeCuts,
        /// The order of the rows of each partition, if one is promised.
        order: Option<Arc<RowOrder>>,
    },
    /// Metadata answer part of an aggregate, and the scan reads the remaining tiles.
    Remaining {
        /// The aggregates that are requested of whole tiles.
        asked: Arc<Vec<RequestedAggregates>>,
        /// The sums of tiles that may replace the sums of their cells.
        rounding: SumRounding,
    },
}

/// A scan in a mode: its units and their shared state.
#[derive(Debug, Clone)]
pub(super) struct ScanArrangement {
    pub(super) mode: ScanMode,
    /// The units, in the order that the mode takes.
    pub(super) plan: Arc<ScanPlan>,
    /// The units that each partition begins with.
    pub(super) partitions: Vec<Range<u64>>,
    pub(super) shared: UnitsState,
    /// Which scan the partitions read.
    pub(super) current_scan: Arc<CurrentScan<RenewedScan>>,
}

/// A scan that was planned again, in the mode that it had.
#[derive(Debug, Clone)]
pub(super) struct RenewedScan {
    pub(super) planned: PlannedScan,
    pub(super) arrangement: ScanArrangement,
}

/// The shared state of the units of a scan, which depends on its mode.
#[derive(Debug, Clone)]
pub(super) enum UnitsState {
    Nothing,
    Order(Arc<UnitOrder>),
    Ranges(Arc<RangePartitions>),
    Remaining(Arc<RemainingScan>),
}

impl ScanMode {
    /// The scan of `plan` in this mode, in at most `partitions` partitions unless the mode sets their number; `None`
    /// if the mode does not suit the plan.
    pub(super) fn arrange(
        self,
        plan: &Arc<ScanPlan>,
        partitions: usize,
    ) -> Result<Option<ScanArrangement>> {
        let mut arrangement = ScanArrangement {
            plan: Arc::clone(plan),
            partitions: Vec::new(),
            shared: UnitsState::Nothing,
            mode: ScanMode::Plain,
            current_scan: Arc::default(),
        };
        match &self {
            Self::Plain => {}
            Self::BestFirst(wanted) => {
                let order = UnitOrder::new(wanted.clone(), plan.partitions(partitions));
                arrangement.shared = UnitsState::Order(Arc::new(order));
            }
            Self::Ordered { order, rows, .. } => {
                let Some(ordered) = plan.in_order(order, *rows) else {
                    return Ok(None);
                };
                arrangement.plan = Arc::new(ordered);
            }
            Self::Ranges { cuts, order } => {
                let Some(ranges) = RangePartitions::new(cuts, plan) else {
                    return Ok(None);
                };
                arrangement.shared = UnitsState::Ranges(Arc::new(ranges));
                if let Some(order) = order {
                    let ordered = plan.in_order(order, None);
                    // A range of overlapping tiles may have to be cut elsewhere.
                    let ordered = ordered.filter(|plan| plan.counts.tiles_overlapping == 0);
                    let Some(ordered) = ordered else {
                        return Ok(None);
                    };
                    arrangement.plan = Arc::new(ordered);
                }
            }
            Self::Remaining { asked, rounding } => {
                let Some(remaining) =
                    RemainingScan::new(Arc::clone(plan), Arc::clone(asked), *rounding)?
                else {
                    return Ok(None);
                };
                arrangement.shared = UnitsState::Remaining(Arc::new(remaining));
            }
        }
        let partitions = match &self {
            Self::Ordered { partitions, .. } => *partitions,
            _ => partitions,
        };
        arrangement.partitions = arrangement.plan.partitions(partitions);
        arrangement.mode = self;
        Ok(Some(arrangement))
    }
}

impl ScanArrangement {
    /// The number of partitions.
    pub(super) fn partition_count(&self) -> usize {
        match &self.shared {
            UnitsState::Ranges(ranges) => ranges.count(),
            _ => self.partitions.len(),
        }
    }

    /// The order of the rows of each partition, if one is promised.
    pub(super) fn row_order(&self) -> Option<&Arc<RowOrder>> {
        match &self.mode {
            ScanMode::Ordered { order, .. } => Some(order),
            ScanMode::Ranges { order, .. } => order.as_ref(),
            ScanMode::Plain | ScanMode::BestFirst(_) | ScanMode::Remaining { .. } => None,
        }
    }

    /// The ranges of the leading dimension that are its partitions, in a mode that has them.
    pub(super) fn ranges(&self) -> Option<&Arc<RangePartitions>> {
        match &self.shared {
            UnitsState::Ranges(ranges) => Some(ranges),
            _ => None,
        }
    }

    /// The part that metadata answer and the part that is left to read, if metadata answer some of an aggregate.
    pub(super) fn remaining(&self) -> Option<&Arc<RemainingScan>> {
        match &self.shared {
            UnitsState::Remaining(remaining) => Some(remaining),
            _ => None,
        }
    }

    /// The order in which units are read, in a mode that has one.
    pub(super) fn unit_order(&self) -> Option<&Arc<UnitOrder>> {
        match &self.shared {
            UnitsState::Order(order) => Some(order),
            _ => None,
        }
    }
}

/// A scan cut at coordinates of its leading dimension.
#[derive(Debug)]
pub(super) struct RangePartitions {
    keys: Vec<u64>,
    /// The number of the first range, if only some are read.
    first: usize,
    /// How many ranges are read. Partitions after them are empty.
    count: usize,
    values: Vec<ScalarValue>,
    /// The scan of each partition, planned when it is opened.
    parts: Vec<OnceCell<Arc<ScanPlan>>>,
}

impl RangePartitions {
    /// The ranges between cuts; `None` if the column cannot show the cuts.
    pub(super) fn new(cuts: &RangeCuts, plan: &ScanPlan) -> Option<Self> {
        let values = cuts.values(plan)?;
        let values = (0..values.len()).map(|i| ScalarValue::try_from_array(&values, i));
        Some(Self {
            values: values.collect::<datafusion::common::Result<_>>().ok()?,
            parts: (0..=cuts.keys.len()).map(|_| OnceCell::new()).collect(),
            first: 0,
            count: cuts.keys.len() + 1,
            keys: cuts.keys.clone(),
        })
    }

    /// Only `count` of the ranges, as the first of so many partitions.
    #[cfg(feature = "distributed")]
    pub(super) fn some(self, first: usize, count: usize, partitions: usize) -> Self {
        let all = self.keys.len() + 1;
        Self {
            first: first.min(all),
            count: count.min(all - first.min(all)),
            parts: (0..partitions).map(|_| OnceCell::new()).collect(),
            ..self
        }
    }

    /// The number of partitions.
    pub(super) fn count(&self) -> usize {
        self.parts.len()
    }

    /// The part of the scan that a partition reads.
    pub(super) async fn part(&self, plan: &ScanPlan, partition: usize) -> Result<Arc<ScanPlan>> {
        let cut = |number: Option<usize>| self.keys.get(number?).copied();
        let range = partition.saturating_add(self.first);
        let (from, to) = (cut(range.checked_sub(1)), cut(Some(range)));
        let planned = async || {
            if partition >= self.count {
                return Ok(Arc::new(plan.without_units()));
            }
            plan.range_part(from, to).await.map(Arc::new)
        };
        let part = match self.parts.get(partition) {
            Some(part) => part.get_or_try_init(planned).await?,
            None => return Err(Error::internal("there is no such partition")),
        };
        Ok(Arc::clone(part))
    }

    /// How many units all partitions read; those of a partition that is not open yet are taken for an even share.
    pub(super) fn unit_count(&self, plan: &ScanPlan) -> u64 {
        let share = plan.unit_count().div_ceil((self.parts.len() as u64).max(1));
        let units = |part: &OnceCell<Arc<ScanPlan>>| part.get().map_or(share, |p| p.unit_count());
        let parts = self.parts.iter().take(self.count);
        parts.map(units).fold(0, u64::saturating_add)
    }

    /// The declared partitioning, if the leading dimension is `column` of the output.
    pub(super) fn partitioning(&self, column: Column) -> Option<Partitioning> {
        if self.parts.len() != self.keys.len() + 1 || self.first > 0 {
            // The ranges of a task, which are some of all.
            return None;
        }
        let ordering = LexOrdering::new([PhysicalSortExpr::new_default(Arc::new(column) as _)])?;
        let points = self
            .values
            .iter()
            .map(|value| SplitPoint::new(vec![value.clone()]));
        let ranges = RangePartitioning::try_new(ordering, points.collect());
        Some(Partitioning::Range(ranges.ok()?))
    }
}

/// The partition that answers from metadata, after its own rows.
pub(crate) const ANSWERING_PARTITION: usize = 0;

/// A scan, with the tiles that metadata may answer.
#[derive(Debug)]
pub struct RemainingScan {
    plan: Arc<ScanPlan>,
    whole: Vec<WholeTile>,
    asked: Arc<Vec<RequestedAggregates>>,
    rounding: SumRounding,
    split: OnceCell<SplitScan>,
}

/// A scan, split into answered tiles and the rest.
#[derive(Debug)]
pub struct SplitScan {
    /// The aggregates of the tiles that metadata answer.
    pub answered: Vec<TilesSummary>,
    /// The scan of the other tiles.
    pub left: Arc<ScanPlan>,
}

impl RemainingScan {
    /// `None` if metadata cannot answer any part of the request.
    pub fn new(
        plan: Arc<ScanPlan>,
        asked: Arc<Vec<RequestedAggregates>>,
        rounding: SumRounding,
    ) -> Result<Option<Self>> {
        let whole = plan.whole_tiles();
        let some = summary::may_know(&plan, &whole, &asked, rounding)?;
        Ok(some.then(|| Self::of(plan, whole, asked, rounding)))
    }

    pub(super) fn of(
        plan: Arc<ScanPlan>,
        whole: Vec<WholeTile>,
        asked: Arc<Vec<RequestedAggregates>>,
        rounding: SumRounding,
    ) -> Self {
        Self {
            plan,
            whole,
            asked,
            rounding,
            split: OnceCell::new(),
        }
    }

    /// The arrangement of a scan that takes the place of this one. Metadata need not answer any part of it.
    pub(super) fn arrange_anew(
        &self,
        mode: ScanMode,
        plan: &Arc<ScanPlan>,
        partitions: usize,
    ) -> Option<ScanArrangement> {
        let arranged = mode.clone().arrange(plan, partitions).ok()?;
        arranged.or_else(|| {
            let asked = Arc::clone(&self.asked);
            let all_left = Self::of(Arc::clone(plan), Vec::new(), asked, self.rounding);
            Some(ScanArrangement {
                plan: Arc::clone(plan),
                partitions: plan.partitions(partitions),
                shared: UnitsState::Remaining(Arc::new(all_left)),
                current_scan: Arc::default(),
                mode,
            })
        })
    }

    /// The number of tiles that may be answered.
    pub fn candidates(&self) -> usize {
        self.whole.len()
    }

    /// Splits the scan; the first caller loads the statistics.
    pub async fn split(&self) -> Result<&SplitScan> {
        self.split.get_or_try_init(|| self.part()).await
    }

    /// How many units are to be read, as far as that is known.
    pub fn unit_count(&self) -> u64 {
        let left = self.split.get().map_or(&self.plan, |split| &split.left);
        left.unit_count()
    }

    async fn part(&self) -> Result<SplitScan> {
        let snapshot = &self.plan.spec.table.snapshot;
        let answered = summary::summarize(&self.plan, &self.whole, &self.asked, self.rounding);
        let answered = match answered.await {
            Ok(answered) => answered,
            Err(error) => {
                let error = snapshot.explain_missing(error).await;
                return Err(error.with("array", snapshot.storage.uri()));
            }
        };
        let mut ordinals = answered
            .iter()
            .flat_map(|summary| summary.ordinals.iter().copied())
            .collect::<Vec<_>>();
        ordinals.sort_unstable();
        Ok(SplitScan {
            left: Arc::new(self.plan.without(&ordinals)),
            answered,
        })
    }
}

/// A scan as a value: it holds no storage, no lock and no plan. [`open`](Self::open) makes a scan of it.
#[derive(Debug, Clone)]
pub struct ScanValue {
    /// What is read.
    pub request: ScanRequest,
    /// How the scan goes about its rows.
    pub mode: ScanMode,
    /// The conditions that came while the plan was optimized, and that every row meets.
    pub filters: Vec<Arc<dyn PhysicalExpr>>,
    /// The largest number of rows of each partition.
    pub fetch: Option<usize>,
    /// Partitions keep to their own units, in order.
    pub preserve_order: bool,
    /// Whether statistics hold the bounds of columns.
    pub tells_bounds: bool,
}

impl TileDbSource {
    /// The scan as a value. Filters that learn while a query runs are not part of it: the operators that make them evaluate
    /// every row, and stay where they are.
    pub fn value(&self) -> ScanValue {
        ScanValue {
            request: self.request(),
            mode: self.mode().clone(),
            filters: self.filters.exact().to_vec(),
            fetch: self.fetch,
            preserve_order: self.preserve_order,
            tells_bounds: self.tells_bounds.load(Ordering::Relaxed),
        }
    }

    /// This plain scan of a value's request in the mode and with the filters and limits of the value.
    pub(crate) fn with_mode_of(self, value: ScanValue) -> Result<Self> {
        let Some(arranged) = self.in_mode(value.mode)? else {
            return Err(Error::internal(
                "a scan that is opened anew cannot go the way it was planned for",
            ));
        };
        Ok(Self {
            filters: PushedFilters::of_exact(value.filters),
            fetch: value.fetch,
            preserve_order: value.preserve_order,
            tells_bounds: Arc::new(value.tells_bounds.into()),
            ..arranged
        })
    }
}
