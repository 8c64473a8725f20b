//! Scans that start again if files of the array are gone.
//!
//! A vacuum may remove fragments of an array that is open, after other fragments took over their cells. A scan that has given
//! no rows yet is then planned again, on the fragments that hold the same cells by now. It fails if nothing proves that they are
//! the same, and so does one that has given rows.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};

use super::batches::ArrayBatches;
use crate::array::snapshot::SnapshotSuccessor;
use crate::array::table::ArrayTable;
use crate::error::{Error, ErrorKind, Result};
use crate::scan::shown::ShownColumns;
use crate::scan::{ScanPlan, ScanSpec};

/// How often a scan is planned again.
const MOST_RENEWALS: usize = 3;

/// Plans a scan, again if files are gone since the array was opened.
pub(super) async fn plan(mut spec: ScanSpec, shown: &ShownColumns) -> Result<Arc<ScanPlan>> {
    let mut renewals = 0;
    loop {
        let error = match ScanPlan::new(spec.clone()).await {
            Err(error) if may_be_renewed(&error, renewals) => error,
            planned => return planned.map(Arc::new),
        };
        spec = renewed(spec, shown, error).await?;
        renewals += 1;
    }
}

/// The rows of a planned scan, as `read` gives them, from the fragments that hold them when the first one is read.
pub(super) fn rows(
    read: impl Fn(&Arc<ScanPlan>) -> ArrayBatches + Send + 'static,
    plan: Arc<ScanPlan>,
    shown: ShownColumns,
) -> ArrayBatches {
    let schema = plan.spec.output_schema();
    let started = async move {
        let (mut plan, mut renewals) = (plan, 0);
        loop {
            let mut rows = read(&plan);
            let first = match rows.next().await {
                Some(Err(error)) if may_be_renewed(&error, renewals) => error,
                first => return Ok::<_, Error>(stream::iter(first).chain(rows)),
            };
            let spec = renewed(plan.spec.clone(), &shown, first).await?;
            plan = self::plan(spec, &shown).await?;
            renewals += 1;
        }
    };
    let batches = stream::once(started).try_flatten().boxed();
    ArrayBatches::new(schema, batches)
}

fn may_be_renewed(error: &Error, renewals: usize) -> bool {
    error.kind() == ErrorKind::Conflict && renewals < MOST_RENEWALS
}

/// The scan of the same cells where they lie now; `error` if no file is gone, or if the columns are others.
async fn renewed(spec: ScanSpec, shown: &ShownColumns, error: Error) -> Result<ScanSpec> {
    let known = &spec.table.snapshot;
    let Some(successor) = known.successor(true).await? else {
        return Err(error);
    };
    // All scans of an array that was opened once show one state.
    let SnapshotSuccessor::SameCells(snapshot) = successor else {
        let storage = &known.storage;
        return Err(Error::conflict(
            "the array was consolidated and vacuumed, and nothing proves any longer what it held when it was opened: open it again",
        )
        .with("array", storage.uri())
        .with_source(error));
    };
    let table = ArrayTable::shown(snapshot, shown)?;
    if table.schema != spec.table.schema {
        return Err(error);
    }
    let table = Arc::new(table);
    Ok(ScanSpec { table, ..spec })
}
