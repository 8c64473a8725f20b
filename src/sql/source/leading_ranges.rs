//! A scan whose partitions are ranges of the leading dimension.

use std::sync::Arc;

use datafusion::common::{Result, ScalarValue, SplitPoint};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, Partitioning, PhysicalSortExpr, RangePartitioning};
use tokio::sync::OnceCell;

use crate::scan::ScanPlan;
use crate::scan::plan::leading::LeadingCuts;

/// A scan cut at coordinates of its leading dimension.
#[derive(Debug)]
pub(in crate::sql) struct LeadingRanges {
    pub(in crate::sql) cuts: LeadingCuts,
    values: Vec<ScalarValue>,
    /// The scan of each partition, once somebody opens it.
    parts: Vec<OnceCell<Arc<ScanPlan>>>,
}

impl LeadingRanges {
    /// Cuts into at most `parts`; `None` if the scan cannot be cut well.
    pub(in crate::sql) fn new(plan: &ScanPlan, parts: usize) -> Option<Self> {
        let cuts = plan.leading_cuts(parts)?;
        let values = cuts.values(plan)?;
        let values = (0..values.len()).map(|i| ScalarValue::try_from_array(&values, i));
        Some(Self {
            values: values.collect::<Result<_>>().ok()?,
            parts: (0..=cuts.keys.len()).map(|_| OnceCell::new()).collect(),
            cuts,
        })
    }

    /// How many partitions there are.
    pub(in crate::sql) fn count(&self) -> usize {
        self.parts.len()
    }

    /// What a partition reads of the scan.
    pub(in crate::sql) async fn part(
        &self,
        plan: &ScanPlan,
        partition: usize,
    ) -> crate::Result<Arc<ScanPlan>> {
        let cut = |number: Option<usize>| self.cuts.keys.get(number?).copied();
        let (from, to) = (cut(partition.checked_sub(1)), cut(Some(partition)));
        let planned = async || plan.leading_part(from, to).await.map(Arc::new);
        let part = match self.parts.get(partition) {
            Some(part) => part.get_or_try_init(planned).await?,
            None => return Err(crate::Error::internal("there is no such partition")),
        };
        Ok(Arc::clone(part))
    }

    /// What is promised of the partitions, where the leading dimension is the output's column `column`.
    pub(in crate::sql) fn partitioning(&self, column: Column) -> Option<Partitioning> {
        let ordering = LexOrdering::new([PhysicalSortExpr::new_default(Arc::new(column) as _)])?;
        let points = self.values.iter();
        let points = points.map(|value| SplitPoint::new(vec![value.clone()]));
        let ranges = RangePartitioning::try_new(ordering, points.collect());
        Some(Partitioning::Range(ranges.ok()?))
    }
}
