//! How a scan goes about its rows: in any order, in a promised one, in ranges, or only what metadata leave to read.
//!
//! A [`ScanMode`] is a value, from which the plan of its units and what they share are derived wherever the scan runs.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::range_partitions::RangePartitions;
use super::remaining::RemainingScan;
use crate::error::Result;
use crate::scan::ScanPlan;
use crate::scan::order::RowOrder;
use crate::scan::plan::range_cuts::RangeCuts;
use crate::scan::unit_order::{UnitOrder, WantedFirst};
use crate::stats::trust::{Asked, Rounding};

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
        asked: Arc<Vec<Asked>>,
        /// The sums of tiles that may replace the sums of their cells.
        rounding: Rounding,
    },
}

/// A scan in a mode: its units and their shared state.
#[derive(Debug, Clone)]
pub(super) struct Arrangement {
    pub(super) mode: ScanMode,
    /// The units, in the order that the mode takes.
    pub(super) plan: Arc<ScanPlan>,
    /// The units that each partition begins with.
    pub(super) partitions: Vec<Range<u64>>,
    pub(super) shared: Shared,
}

/// The shared state of the units of a scan, which depends on its mode.
#[derive(Debug, Clone)]
pub(super) enum Shared {
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
    ) -> Result<Option<Arrangement>> {
        let mut arrangement = Arrangement {
            plan: Arc::clone(plan),
            partitions: Vec::new(),
            shared: Shared::Nothing,
            mode: ScanMode::Plain,
        };
        match &self {
            Self::Plain => {}
            Self::BestFirst(wanted) => {
                let order = UnitOrder::new(wanted.clone(), plan.partitions(partitions));
                arrangement.shared = Shared::Order(Arc::new(order));
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
                arrangement.shared = Shared::Ranges(Arc::new(ranges));
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
                arrangement.shared = Shared::Remaining(Arc::new(remaining));
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

impl Arrangement {
    /// The number of partitions.
    pub(super) fn partition_count(&self) -> usize {
        match &self.shared {
            Shared::Ranges(ranges) => ranges.count(),
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
            Shared::Ranges(ranges) => Some(ranges),
            _ => None,
        }
    }

    /// The part that metadata answer and the part that is left to read, if metadata answer some of an aggregate.
    pub(super) fn remaining(&self) -> Option<&Arc<RemainingScan>> {
        match &self.shared {
            Shared::Remaining(remaining) => Some(remaining),
            _ => None,
        }
    }

    /// The order in which units are read, in a mode that has one.
    pub(super) fn unit_order(&self) -> Option<&Arc<UnitOrder>> {
        match &self.shared {
            Shared::Order(order) => Some(order),
            _ => None,
        }
    }
}
