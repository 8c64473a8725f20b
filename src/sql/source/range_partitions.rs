//! A scan whose partitions are ranges of the leading dimension.

use std::sync::Arc;

use datafusion::common::{Result, ScalarValue, SplitPoint};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, Partitioning, PhysicalSortExpr, RangePartitioning};
use tokio::sync::OnceCell;

use crate::scan::ScanPlan;
use crate::scan::plan::range_cuts::RangeCuts;

/// A scan cut at coordinates of its leading dimension.
#[derive(Debug)]
pub(super) struct RangePartitions {
    keys: Vec<u64>,
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
            values: values.collect::<Result<_>>().ok()?,
            parts: (0..=cuts.keys.len()).map(|_| OnceCell::new()).collect(),
            keys: cuts.keys.clone(),
        })
    }

    /// The number of partitions.
    pub(super) fn count(&self) -> usize {
        self.parts.len()
    }

    /// The part of the scan that a partition reads.
    pub(super) async fn part(
        &self,
        plan: &ScanPlan,
        partition: usize,
    ) -> crate::Result<Arc<ScanPlan>> {
        let cut = |number: Option<usize>| self.keys.get(number?).copied();
        let (from, to) = (cut(partition.checked_sub(1)), cut(Some(partition)));
        let planned = async || plan.range_part(from, to).await.map(Arc::new);
        let part = match self.parts.get(partition) {
            Some(part) => part.get_or_try_init(planned).await?,
            None => return Err(crate::Error::internal("there is no such partition")),
        };
        Ok(Arc::clone(part))
    }

    /// How many units all partitions read; those of a partition that is not open yet are taken for an even share.
    pub(super) fn unit_count(&self, plan: &ScanPlan) -> u64 {
        let share = plan.unit_count().div_ceil((self.parts.len() as u64).max(1));
        let units = |part: &OnceCell<Arc<ScanPlan>>| part.get().map_or(share, |p| p.unit_count());
        self.parts.iter().map(units).fold(0, u64::saturating_add)
    }

    /// The declared partitioning, if the leading dimension is `column` of the output.
    pub(super) fn partitioning(&self, column: Column) -> Option<Partitioning> {
        let ordering = LexOrdering::new([PhysicalSortExpr::new_default(Arc::new(column) as _)])?;
        let points = self.values.iter();
        let points = points.map(|value| SplitPoint::new(vec![value.clone()]));
        let ranges = RangePartitioning::try_new(ordering, points.collect());
        Some(Partitioning::Range(ranges.ok()?))
    }
}
