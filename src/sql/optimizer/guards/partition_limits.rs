//! A limit of each partition that DataFusion puts over all of them.
//!
//! Where a scan can give the order of a top-k of each partition (`PushdownSort`), DataFusion puts a limit in the place of the
//! sort, and always one that needs a single partition, whatever the sort was for: the query ends with the error "does not
//! satisfy distribution requirements". The merge above has the limit of the whole, so the [rule](crate::sql::optimizer) makes
//! the one below a limit of each partition, as the sort was.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::sql::optimizer::arrays::scans_array;

/// A limit of each partition in the place of one over all that has several partitions below it.
pub(in crate::sql) fn of_each_partition(
    plan: &Arc<dyn ExecutionPlan>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() else {
        return Ok(None);
    };
    let input = limit.input();
    let several = input.output_partitioning().partition_count() > 1;
    let Some(fetch) = limit.fetch().filter(|_| limit.skip() == 0) else {
        return Ok(None);
    };
    if !several || !scans_array(plan) {
        return Ok(None);
    }
    let limit = LocalLimitExec::new(Arc::clone(input), fetch);
    Ok(Some(Arc::new(limit)))
}
