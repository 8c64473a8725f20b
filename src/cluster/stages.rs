//! What of a plan travels to workers, and what stays in the process.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::{DistributedCodec, DistributedLeafExec, NetworkBoundaryExt};
use datafusion_proto::bytes::physical_plan_to_bytes_with_proto_converter;
use datafusion_proto::physical_plan::DeduplicatingProtoConverter;
use datafusion_proto::protobuf::PhysicalPlanNode;
use prost::Message as _;

use crate::expressions::nesting::can_be_sent;
use crate::optimizer::scan_of;
use crate::scan::task_scan::TaskScanExec;

/// Whether a node can only run in the process of its session: it changes arrays, or reads what only this machine has.
pub(super) fn stays_here(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let Some(leaf) = plan.downcast_ref::<DataSourceExec>() else {
        return crate::dml::changes_arrays(plan.as_ref());
    };
    // Files of other formats may be on this machine alone.
    scan_of(plan).is_none() && !leaf.data_source().is::<MemorySourceConfig>()
}

/// Fails with the reason if a stage of a plan can't be sent to a worker.
pub(super) fn check_stages(plan: &Arc<dyn ExecutionPlan>, context: &TaskContext) -> Result<()> {
    let mut checked = Ok(());
    plan.apply(|node| {
        let Some(boundary) = node.as_network_boundary() else {
            return Ok(TreeNodeRecursion::Continue);
        };
        if let Some(stage) = boundary.input_stage().local_plan() {
            checked = check_stage(stage, context);
        }
        // The stages below are part of what was checked.
        Ok(if checked.is_ok() {
            TreeNodeRecursion::Jump
        } else {
            TreeNodeRecursion::Stop
        })
    })?;
    checked
}

fn check_stage(stage: &Arc<dyn ExecutionPlan>, context: &TaskContext) -> Result<()> {
    let mut local = None;
    let first_task = Arc::clone(stage)
        .transform_down(|node| {
            if let Some(leaf) = node.downcast_ref::<DistributedLeafExec>() {
                let first = leaf.variants().first().cloned();
                let first = first.ok_or_else(|| internal_datafusion_err!("a leaf of no task"))?;
                return Ok(Transformed::yes(first));
            }
            if stays_here(&node) {
                local = Some(node.name().to_owned());
            }
            Ok(Transformed::no(node))
        })
        .data()?;
    if let Some(name) = local {
        return Err(DataFusionError::NotImplemented(format!(
            "{name} runs in this process only"
        )));
    }
    check_nesting(&first_task)?;
    let codec = DistributedCodec::new_combined_with_user(context.session_config());
    let converter = DeduplicatingProtoConverter::default();
    let bytes = physical_plan_to_bytes_with_proto_converter(first_task, &codec, &converter)?;
    // Nodes and expressions together may be nested more deeply than a worker can read.
    match PhysicalPlanNode::decode(bytes.as_ref()) {
        Ok(_) => Ok(()),
        Err(_) => Err(too_deep()),
    }
}

/// Fails if an expression is nested so deeply that it can't be written, or read, on the stack of a thread.
fn check_nesting(stage: &Arc<dyn ExecutionPlan>) -> Result<()> {
    stage.apply(|node| {
        // Scans write their conditions flat.
        if scan_of(node).is_some() || node.is::<TaskScanExec>() {
            return Ok(TreeNodeRecursion::Continue);
        }
        node.apply_expressions(&mut |expr| match can_be_sent(expr) {
            true => Ok(TreeNodeRecursion::Continue),
            false => Err(too_deep()),
        })?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn too_deep() -> DataFusionError {
    DataFusionError::NotImplemented(
        "its nodes or expressions are nested too deeply to be sent".to_owned(),
    )
}
