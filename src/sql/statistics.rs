//! What a scan tells the optimizer of its rows before it runs.
//!
//! Only what planning has at hand anyway: nothing is read for it. The subtle thing: `Exact` is a promise from which
//! DataFusion answers queries without running the scan.

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;

use crate::read::ScanPlan;

/// What the plan alone proves of its rows.
pub(super) fn statistics(plan: &ScanPlan, schema: &SchemaRef) -> Statistics {
    let mut statistics = Statistics::new_unknown(schema);
    statistics.num_rows = row_count(plan);
    for (column, field) in statistics.column_statistics.iter_mut().zip(schema.fields()) {
        if !field.is_nullable() {
            column.null_count = Precision::Exact(0);
        }
    }
    statistics
}

/// Rows as the metadata has them: exact, or at most so many.
fn row_count(plan: &ScanPlan) -> Precision<usize> {
    match (
        plan.exact_rows.map(usize::try_from),
        usize::try_from(plan.max_rows),
    ) {
        (Some(Ok(rows)), _) => Precision::Exact(rows),
        (_, Ok(rows)) => Precision::Inexact(rows),
        _ => Precision::Absent,
    }
}
