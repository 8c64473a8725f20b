//! How many tasks a scan is worth, and which units each of them reads.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::common::{Result, config_err};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DesiredTaskCountHandler,
    DistributedLeafExec, ScaleUpLeafNodeEvent, ScaleUpLeafNodeEventResponse,
    ScaleUpLeafNodeHandler,
};

use super::stages::stays_here;
use crate::error::to_datafusion_error;
use crate::optimizer::scan_of;
use crate::options::settings::TileDbSettings;
use crate::scan::source::{ScanMode, TileDbSource};
use crate::scan::task_scan::TaskScanExec;

/// Counts the tasks of stages with scans.
#[derive(Debug)]
pub(super) struct TaskCounts;

#[async_trait]
impl DesiredTaskCountHandler for TaskCounts {
    async fn handle(
        &self,
        event: DesiredTaskCountEvent<'_>,
    ) -> Option<Result<DesiredTaskCountEventResponse>> {
        if let Some(source) = scan_of(event.plan) {
            let settings = TileDbSettings::of(event.session_config.options()).cluster;
            return Some(wanted(source, settings.bytes_per_task()).await);
        }
        let by_range = event
            .plan
            .downcast_ref::<RepartitionExec>()
            .is_some_and(|node| matches!(node.partitioning(), Partitioning::Range(_)));
        let here = by_range || stays_here(event.plan);
        here.then(|| Ok(DesiredTaskCountEventResponse::maximum(1)))
    }
}

/// The tasks that a scan is worth.
async fn wanted(
    source: &TileDbSource,
    bytes_per_task: u64,
) -> Result<DesiredTaskCountEventResponse> {
    // The nodes above a single partition may rely on seeing every row.
    if source.partition_count() <= 1 || source.check_cut().is_err() {
        return Ok(DesiredTaskCountEventResponse::maximum(1));
    }
    let bytes = source.bytes_left().await.map_err(to_datafusion_error)?;
    // A task without a unit would have nothing to read.
    let units = source.unit_count();
    let tasks = bytes.div_ceil(bytes_per_task.max(1)).min(units).max(1);
    Ok(DesiredTaskCountEventResponse::desired(
        usize::try_from(tasks).unwrap_or(usize::MAX),
    ))
}

/// Gives each task its share of a scan.
#[derive(Debug)]
pub(super) struct TaskScans;

impl ScaleUpLeafNodeHandler for TaskScans {
    fn handle(&self, event: ScaleUpLeafNodeEvent) -> Option<Result<ScaleUpLeafNodeEventResponse>> {
        let source = scan_of(event.plan)?;
        // The engine can't exchange ranges, not even those of one task, so tasks declare none.
        if event.task_count <= 1 && !matches!(source.mode(), ScanMode::Ranges { .. }) {
            return None;
        }
        let scaled = || {
            let scans = TaskScanExec::of_source(source, event.task_count)?;
            let scans = scans
                .into_iter()
                .map(|scan| Arc::new(scan) as Arc<dyn ExecutionPlan>);
            let leaf = DistributedLeafExec::try_new(Arc::clone(event.plan), scans)?;
            Ok(ScaleUpLeafNodeEventResponse::new(Arc::new(leaf)))
        };
        Some(scaled())
    }
}

/// What the sessions of tasks get from the coordinator's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TaskSettings {
    /// The number of rows of a batch; 0 if the worker's own counts.
    pub batch_size: usize,
}

impl TaskSettings {
    const BATCH_SIZE: &str = "batch_size";

    pub fn of(options: &ConfigOptions) -> Self {
        let settings = options.extensions.get::<Self>();
        settings.cloned().unwrap_or_default()
    }
}

impl ConfigExtension for TaskSettings {
    const PREFIX: &'static str = "tiledb_task";
}

impl ExtensionOptions for TaskSettings {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match (key, value.parse()) {
            (Self::BATCH_SIZE, Ok(rows)) => {
                self.batch_size = rows;
                Ok(())
            }
            _ => config_err!("'{}.{key}' can't be '{value}'", Self::PREFIX),
        }
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        vec![ConfigEntry {
            key: Self::BATCH_SIZE.to_owned(),
            value: Some(self.batch_size.to_string()),
            description: "The number of rows of a batch of a task, as of the coordinator's session.",
        }]
    }
}

#[cfg(test)]
mod tests;
