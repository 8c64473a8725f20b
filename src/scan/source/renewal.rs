//! Plans a scan again if its files go while it is open.
//!
//! Somebody may consolidate the fragments of a plan, and vacuum them, before the plan has run. Until one partition has given
//! rows, the partitions can go on with a scan that was planned again; afterwards none can. The [`CurrentScan`] that they share holds
//! them together. A partition that has ended without rows reads nothing of another scan; where partitions take over units of
//! each other, the one that has the scan planned again reads its part.

use std::sync::Arc;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use datafusion::datasource::source::OpenArgs;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::future::ready;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};

use super::mode::{ANSWERING_PARTITION, RemainingScan, RenewedScan, ScanMode};
use super::runs::{CurrentScan, ReplannedScan, SiblingPartitions};
use super::{PlannedScan, TileDbSource};
use crate::error::is_conflict;
use crate::scan::query::ScanQuery;
use crate::stores::runtime::ArrayRuntime;

/// How a scan is planned again if files of its fragments are gone before it has given rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScanRenewal {
    /// Whether it shows the array as it is at present, and not at a fixed time.
    pub(crate) shows_present: bool,
    /// Whether no other scan of the statement shows the array. Otherwise the others would show another state, so the scan is planned
    /// again only if other fragments hold the same cells.
    pub(crate) is_alone: bool,
}

impl ScanRenewal {
    /// Plans a scan again if some of its fragments are gone and a new plan helps.
    async fn plan(
        self,
        query: &ScanQuery,
        old: &PlannedScan,
        runtime: &ArrayRuntime,
    ) -> Option<PlannedScan> {
        let uri = old.plan.spec.table.snapshot.storage.uri();
        match query.anew(old, self, runtime).await {
            Ok(new) => {
                log::debug!("{uri}: files are gone: planned again: {}", new.is_some());
                new
            }
            Err(error) => {
                log::debug!("{uri}: files are gone, and it cannot be planned again: {error}");
                None
            }
        }
    }
}

impl TileDbSource {
    /// The scan, which may be planned again.
    pub(crate) fn with_renewal(mut self, renewal: ScanRenewal) -> Self {
        self.renewal = Some(renewal);
        self
    }

    /// The rows of one partition, of the scan as it is planned or as it is planned again.
    pub(super) fn open_renewable(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        let siblings = args
            .sibling_state
            .clone()
            .and_then(|state| state.downcast::<SiblingPartitions>().ok());
        let pool = siblings.as_ref().and_then(|siblings| siblings.units(0));
        let planned = self.open_planned(&args, pool, &[])?;
        let Some(siblings) = siblings.filter(|_| self.renewal.is_some()) else {
            return Ok(planned);
        };
        let opening = OpeningPartition {
            source: self.clone(),
            current_scan: Arc::clone(&self.arrangement.current_scan),
            is_first: siblings.opens_first(args.partition),
            args,
            siblings,
            times: 0,
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.planned.schema),
            stream::once(opening.begin(planned)).try_flatten(),
        )))
    }

    /// The part that metadata answer, and the part that is left to read, of the scan that is read once a partition has given
    /// rows; `None` in another mode.
    pub(crate) async fn settled_remaining(&self) -> Option<Arc<RemainingScan>> {
        match self.arrangement.current_scan.newer(0).await {
            Some(anew) => anew.scan.arrangement.remaining().cloned(),
            None => self.remaining().cloned(),
        }
    }

    /// The scan planned again before it has run; `None` if no file is gone or a new plan doesn't help.
    #[cfg(feature = "cluster")]
    pub(crate) async fn planned_again(&self, runtime: &ArrayRuntime) -> Option<Self> {
        let renewed = self.renewed(runtime).await?;
        Some(Self {
            planned: renewed.planned,
            arrangement: renewed.arrangement,
            statistics: Arc::default(),
            ..self.clone()
        })
    }

    /// The scan planned again, in the mode and with the partitions that it has.
    async fn renewed(&self, runtime: &ArrayRuntime) -> Option<RenewedScan> {
        let planned = self
            .renewal?
            .plan(&self.query, &self.planned, runtime)
            .await?;
        // The rows of more partitions than there are would be missing.
        let partitions = self.arrangement.partition_count();
        let mode = match self.mode().clone() {
            ScanMode::Ordered { order, rows, .. } => ScanMode::Ordered {
                order,
                rows,
                partitions,
            },
            mode => mode,
        };
        let arrangement = match self.remaining() {
            Some(remaining) => remaining.arrange_anew(mode, &planned.plan, partitions),
            None => mode.arrange(&planned.plan, partitions).ok()?,
        };
        Some(RenewedScan {
            planned,
            arrangement: arrangement?,
        })
    }
}

/// A partition that has given no rows yet.
struct OpeningPartition {
    source: TileDbSource,
    args: OpenArgs,
    siblings: Arc<SiblingPartitions>,
    current_scan: Arc<CurrentScan<RenewedScan>>,
    /// Whether this run opens the partition for the first time. Other partitions read for it only then, and so at most once.
    is_first: bool,
    /// How often the scan was planned again.
    times: usize,
}

impl OpeningPartition {
    /// The rows of the partition, from its first batch on. If files are gone before any partition has given rows, all of them
    /// go on with a scan that was planned again.
    async fn begin(
        mut self,
        mut batches: SendableRecordBatchStream,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        loop {
            let mut ended = Vec::new();
            let newer = match self.current_scan.newer(self.times).await {
                Some(newer) => Some(newer),
                None => match batches.next().await {
                    Some(Err(error)) if self.is_first && is_conflict(&error) => {
                        let Some((newer, others)) = self.renew().await else {
                            return Err(error);
                        };
                        ended = others;
                        Some(newer)
                    }
                    Some(Err(error)) => return Err(error),
                    Some(Ok(first)) => match self.current_scan.settle(self.times).await {
                        Some(newer) => Some(newer),
                        None => return Ok(stream::once(ready(Ok(first))).chain(batches).boxed()),
                    },
                    None => {
                        self.current_scan
                            .end(self.times, || self.leaves_rest())
                            .await
                    }
                },
            };
            let Some(newer) = newer else {
                return Ok(stream::empty().boxed());
            };
            // Its memory is released first.
            drop(batches);
            batches = self.reopen(newer, &ended)?;
        }
    }

    /// The scan planned again, and the partitions that have ended without rows and read nothing of it.
    async fn renew(&self) -> Option<(ReplannedScan<RenewedScan>, Vec<usize>)> {
        let context = &self.args.context;
        let runtime = ArrayRuntime::of_config(context.session_config(), context.runtime_env());
        let renewed = self.source.renewed(&runtime);
        let ended = || self.siblings.ended();
        self.current_scan.renew(self.times, renewed, ended).await
    }

    /// Notes that this partition ends without rows, and returns whether other partitions can read what another scan has for it.
    /// They can't where partitions keep to their units, nor if metadata now answer their part.
    fn leaves_rest(&self) -> bool {
        let is_answered =
            self.args.partition == ANSWERING_PARTITION && self.source.remaining().is_some();
        let leaves = self.is_first && self.siblings.share_units() && !is_answered;
        if leaves {
            self.siblings.end(self.args.partition);
        }
        leaves
    }

    /// The rows of the partition in the scan that was planned again, under the filters of this run. The rows of partitions that
    /// have `ended` come after its own.
    fn reopen(
        &mut self,
        renewed: ReplannedScan<RenewedScan>,
        ended: &[usize],
    ) -> Result<SendableRecordBatchStream> {
        self.times = renewed.times;
        self.source = TileDbSource {
            planned: renewed.scan.planned,
            arrangement: renewed.scan.arrangement,
            ..self.source.clone()
        };
        let units = self.siblings.units(self.times);
        self.source.open_planned(&self.args, units, ended)
    }
}
