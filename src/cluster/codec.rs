//! The nodes that we put into plans, as bytes.
//!
//! The bytes begin with the release, so that a worker refuses those of another one. Conditions and filters that operators share are
//! written with the converter that writes the plan: only so do they share them again on the worker.

use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::{Result, exec_datafusion_err, not_impl_err};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::{self, PhysicalPlanNode};
use prost::Message as _;
use serde::{Deserialize, Serialize};

use super::RELEASE;
use crate::error::to_datafusion_error;
use crate::optimizer::aggregate::TileDbAggregateExec;
use crate::optimizer::group_by::{GroupSpans, TileDbGroupsExec};
use crate::optimizer::{HiddenClaims, HidingExec, scan_of, with_child};
use crate::scan::source::task::ScanTask;
use crate::scan::task_scan::TaskScanExec;

/// Writes and reads our nodes.
#[derive(Debug)]
pub(super) struct TileDbCodec;

/// A node, without its inputs.
#[derive(Debug, Serialize, Deserialize)]
enum WireNode {
    Scan {
        /// The schema of the rows, as protocol buffers.
        schema: Vec<u8>,
        /// The columns of the order: index, descending, NULL first.
        order: Vec<(usize, bool, bool)>,
        task: Vec<u8>,
    },
    Aggregate,
    Groups {
        spans: GroupSpans,
        /// The partial aggregate over an empty input of the same columns, as protocol buffers.
        partial: Vec<u8>,
    },
    Hiding(HiddenClaims),
}

impl TileDbCodec {
    fn node(
        &self,
        node: &Arc<dyn ExecutionPlan>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<WireNode> {
        if let Some(scan) = node.downcast_ref::<TaskScanExec>() {
            return self.scan(scan, converter);
        }
        if let Some(source) = scan_of(node) {
            let mut whole = TaskScanExec::of_source(source, 1)?;
            let whole = whole
                .pop()
                .ok_or_else(|| exec_datafusion_err!("a scan of no task"))?;
            return self.scan(&whole, converter);
        }
        if node.is::<TileDbAggregateExec>() {
            return Ok(WireNode::Aggregate);
        }
        if let Some(groups) = node.downcast_ref::<TileDbGroupsExec>() {
            let partial = Arc::clone(groups.partial()) as Arc<dyn ExecutionPlan>;
            let empty = Arc::new(EmptyExec::new(groups.partial().input().schema()));
            let partial = with_child(&partial, empty)?;
            let partial = converter.execution_plan_to_proto(&partial, self)?;
            return Ok(WireNode::Groups {
                spans: groups.spans(),
                partial: partial.encode_to_vec(),
            });
        }
        if let Some(hiding) = node.downcast_ref::<HidingExec>() {
            return Ok(WireNode::Hiding(hiding.hidden().clone()));
        }
        not_impl_err!("{} can't be sent to a worker", node.name())
    }

    fn scan(
        &self,
        scan: &TaskScanExec,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<WireNode> {
        let schema = protobuf::Schema::try_from(scan.schema().as_ref())?;
        let order = scan.order().iter();
        let order = order.map(|(column, by)| (*column, by.descending, by.nulls_first));
        let task = scan.task().to_bytes(self, converter);
        Ok(WireNode::Scan {
            schema: schema.encode_to_vec(),
            order: order.collect(),
            task: task.map_err(to_datafusion_error)?,
        })
    }
}

impl PhysicalExtensionCodec for TileDbCodec {
    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        proto_converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let node = self.node(&node, proto_converter)?;
        let written = postcard::to_stdvec(&(RELEASE, node));
        let written = written.map_err(|e| exec_datafusion_err!("a node can't be written: {e}"))?;
        buf.extend(written);
        Ok(())
    }

    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        ctx: &TaskContext,
        proto_converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let wrong =
            |what: &str| exec_datafusion_err!("a plan from another machine is damaged: {what}");
        let (release, rest) =
            postcard::take_from_bytes::<&str>(buf).map_err(|_| wrong("it has no release"))?;
        if release != RELEASE {
            return Err(exec_datafusion_err!(
                "a plan was written by {release:?} and is read by {RELEASE:?}: run the same release on all machines"
            ));
        }
        let node = postcard::from_bytes(rest).map_err(|e| wrong(&e.to_string()))?;
        let context = PhysicalPlanDecodeContext::new(ctx, self);
        let only_input = || match inputs {
            [input] => Ok(Arc::clone(input)),
            _ => Err(wrong("a node has another number of inputs")),
        };
        Ok(match node {
            WireNode::Scan {
                schema,
                order,
                task,
            } => {
                let schema = protobuf::Schema::decode(schema.as_slice())
                    .map_err(|e| wrong(&e.to_string()))?;
                let schema = Schema::try_from(&schema)?;
                let order = order.into_iter().map(|(column, descending, nulls_first)| {
                    let by = SortOptions {
                        descending,
                        nulls_first,
                    };
                    (column, by)
                });
                let task = ScanTask::from_bytes(&task, &context, proto_converter);
                let task = task.map_err(to_datafusion_error)?;
                Arc::new(TaskScanExec::new(task, Arc::new(schema), order.collect())?)
            }
            WireNode::Aggregate => {
                let node = TileDbAggregateExec::of_task(only_input()?);
                Arc::new(node.ok_or_else(|| wrong("an aggregate has no scan below"))?)
            }
            WireNode::Groups { spans, partial } => {
                let partial = PhysicalPlanNode::decode(partial.as_slice())
                    .map_err(|e| wrong(&e.to_string()))?;
                let partial = proto_converter.proto_to_execution_plan(&partial, &context)?;
                let partial = with_child(&partial, only_input()?)?;
                let node = TileDbGroupsExec::of_parts(partial, &spans);
                Arc::new(node.ok_or_else(|| wrong("it groups without an aggregate"))?)
            }
            WireNode::Hiding(hidden) => Arc::new(HidingExec::new(only_input()?, hidden)),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use datafusion::execution::SessionState;
    use datafusion::physical_plan::ExecutionPlanProperties;
    use datafusion::prelude::SessionContext;
    use datafusion_proto::physical_plan::DefaultPhysicalProtoConverter;
    use futures::TryStreamExt;
    use tiledb_engine::fuzzed::{Limits, Outcome, fuzz};

    use super::*;

    async fn plan_of(ctx: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
        let frame = crate::execute(ctx, sql).await.unwrap();
        frame.create_physical_plan().await.unwrap()
    }

    /// A node of ours as bytes, and the children it is read with.
    type WrittenNode = (Vec<u8>, Vec<Arc<dyn ExecutionPlan>>);

    /// Collects the nodes of a plan that are ours.
    fn written(plan: &Arc<dyn ExecutionPlan>, all: &mut Vec<WrittenNode>) {
        let mut bytes = Vec::new();
        let converter = DefaultPhysicalProtoConverter {};
        if TileDbCodec
            .try_encode(Arc::clone(plan), &mut bytes, &converter)
            .is_ok()
        {
            let children = plan.children().into_iter().map(Arc::clone);
            all.push((bytes, children.collect()));
        }
        plan.children()
            .into_iter()
            .for_each(|child| written(child, all));
    }

    fn read(
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        state: &SessionState,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let converter = DefaultPhysicalProtoConverter {};
        TileDbCodec.try_decode(bytes, inputs, &state.task_ctx(), &converter)
    }

    /// Reads the rows of some partitions, within a time.
    async fn run(plan: &Arc<dyn ExecutionPlan>, state: &SessionState) -> Result<()> {
        let partitions = plan.output_partitioning().partition_count().min(4);
        let all = async {
            for partition in 0..partitions {
                let mut rows = plan.execute(partition, state.task_ctx())?;
                while rows.try_next().await?.is_some() {}
            }
            Ok(())
        };
        let ended = tokio::time::timeout(Duration::from_secs(10), all).await;
        ended.expect("a damaged plan ends in time")
    }

    /// Nodes of the plans of some queries.
    async fn nodes(ctx: &SessionContext) -> Vec<WrittenNode> {
        let mut all = Vec::new();
        for sql in [
            "SELECT station, time FROM './examples/data/weather_stations' WHERE temperature > 3 AND time < '2024-03-01'",
            "SELECT * FROM './examples/data/elevation'",
            "SELECT time, count(*) FROM './examples/data/weather_stations' GROUP BY time",
            "SELECT avg(temperature) FROM './examples/data/weather_stations'",
        ] {
            written(&plan_of(ctx, sql).await, &mut all);
        }
        assert!(all.len() >= 3, "{}", all.len());
        all
    }

    #[tokio::test]
    async fn any_bytes_are_read_or_refused() {
        let ctx = SessionContext::new();
        crate::register(&ctx).unwrap();
        let (nodes, state) = (nodes(&ctx).await, ctx.state());
        let seeds = nodes.iter().map(|(bytes, _)| bytes.clone());
        fuzz("nodes of plans", seeds, Limits::USUAL, |bytes| {
            let mut refused = String::new();
            for (_, inputs) in &nodes {
                match read(bytes, inputs, &state) {
                    Ok(plan) if plan.output_partitioning().partition_count() > 1 << 16 => {
                        return Outcome::Wrong("a node has too many partitions".to_owned());
                    }
                    Ok(_) => return Outcome::Decoded,
                    Err(error) => refused = error.strip_backtrace(),
                }
            }
            Outcome::Refused(refused)
        });
    }

    #[tokio::test]
    async fn bytes_that_are_no_plan_are_refused() {
        let ctx = SessionContext::new();
        crate::register(&ctx).unwrap();
        let all = nodes(&ctx).await;
        let state = ctx.state();
        let mut random = 88_172_645_463_325_252_u64;
        let mut next = move |below: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            usize::try_from(random % below.max(1) as u64).unwrap()
        };
        let mut refused = 0;
        for (bytes, inputs) in &all {
            assert_eq!(
                read(bytes, inputs, &state).unwrap().schema(),
                read(bytes, inputs, &state).unwrap().schema()
            );
            for _ in 0..1000 {
                let mut damaged = bytes.clone();
                match next(3) {
                    0 => damaged.truncate(next(bytes.len())),
                    1 => {
                        let at = next(bytes.len());
                        damaged[at] ^= 1 << next(8);
                    }
                    _ => {
                        let at = next(bytes.len());
                        damaged.splice(at..at, std::iter::repeat_n(0xff, next(20)));
                    }
                }
                // Some damage is another plan, which reads something else, or finds that its units aren't those of the array.
                refused += usize::from(match read(&damaged, inputs, &state) {
                    Ok(plan) => run(&plan, &state).await.is_err(),
                    Err(_) => true,
                });
            }
        }
        assert!(refused > 500, "{refused}");
        let other = postcard::to_stdvec(&("datafusion-tiledb 9.9.9", 0_u8)).unwrap();
        let error = read(&other, &[], &state).unwrap_err().to_string();
        assert!(
            error.contains("9.9.9") && error.contains(RELEASE),
            "{error}"
        );
    }
}
