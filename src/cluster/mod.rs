//! Queries over many machines.
//!
//! A session with [workers](coordinate) plans like one without. Then [`datafusion-distributed`](datafusion_distributed) cuts the
//! plan into stages at the nodes that exchange rows, and each stage runs as several tasks, each on a worker of its own. Ours is what
//! the engine can't know:
//!
//! - how many tasks a scan is worth, and which of its units each of them reads ([`tasks`]);
//! - how the nodes that we put into plans travel ([`codec`]), and what doesn't ([`stages`]);
//! - the way to workers: time limits, the token, and errors that name the worker ([`channels`]);
//! - the [worker] itself.
//!
//! A task of a scan holds its units and the files of their fragments, so a worker lists nothing and decides nothing anew. A worker
//! opens an array when the first partition is polled: decoding a plan does no I/O.

mod benefit;
pub mod channels;
mod cluster_exec;
mod codec;
mod cutting;
mod explain;
mod orders;
mod pauses;
mod planner;
mod replanning;
mod stages;
mod task_counter;
mod tasks;
pub mod tls;
pub mod trust;
pub mod worker;
pub mod worker_facts;
pub mod worker_urls;
mod workers_function;

use std::sync::Arc;

use datafusion::catalog::TableFunction;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use datafusion_distributed::{DistributedExt, SessionStateBuilderExt};

use self::channels::WorkerChannels;
use self::codec::TileDbCodec;
use self::planner::ClusterPlanner;
use self::tasks::{TaskCounts, TaskScans};
use self::trust::ClusterTrust;
use self::worker_urls::WorkerUrls;
use self::workers_function::WorkersFunction;
use crate::table::session::rebuild;
use crate::{Error, Result};

/// What a task's worker and its coordinator have to agree on.
pub(crate) const RELEASE: &str = concat!("datafusion-tiledb ", env!("CARGO_PKG_VERSION"));

/// The engine's option for the bytes of rows that wait in each connection to a worker. The memory pool doesn't know of them, so all of
/// them together are few.
const BUFFER_OPTION: &str = "distributed.worker_connection_buffer_budget_bytes";
/// The engine's option for the compression of rows between machines.
const COMPRESSION_OPTION: &str = "distributed.compression";
/// The bytes of rows that wait in all connections of a stage.
const BUFFERED_BYTES: usize = 16 << 20;
/// The bytes of rows that wait in a connection, however many there are.
const FEWEST_BUFFERED_BYTES: usize = 1 << 20;

/// Makes a session that is being built run its queries on workers.
///
/// Call it when the builder has its configuration, catalogs and rules. Queries on arrays whose scans decode fewer bytes than the
/// setting `tiledb.bytes_per_task`, queries that return rows as they are stored, and what can't be sent run in the process as before.
/// So do statements that change arrays; what they read may be read by workers.
///
/// ```no_run
/// use datafusion::execution::SessionStateBuilder;
/// use datafusion::prelude::SessionContext;
/// use datafusion_tiledb::cluster::{self, trust::ClusterTrust};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let workers = "http://10.0.0.1:7071,http://10.0.0.2:7071".parse()?;
/// let builder = SessionStateBuilder::new_with_default_features();
/// let builder = cluster::coordinate(builder, workers, ClusterTrust::default())?;
/// let ctx = SessionContext::new_with_state(builder.build());
/// let rows = ctx.sql("SELECT count(*) FROM 's3://bucket/array'").await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Fails as [`equip`](crate::equip) does.
pub fn coordinate(
    mut builder: SessionStateBuilder,
    workers: WorkerUrls,
    trust: ClusterTrust,
) -> Result<SessionStateBuilder> {
    fill(&mut builder, workers, trust)?;
    Ok(builder)
}

/// Makes an existing session run its queries on workers, as [`coordinate`] does for one that is being built. Prepared statements are
/// lost.
///
/// # Errors
/// Fails as [`register`](crate::register) does.
pub fn coordinate_session(
    ctx: &SessionContext,
    workers: WorkerUrls,
    trust: ClusterTrust,
) -> Result<()> {
    crate::register(ctx)?;
    let state = ctx.state_ref();
    let mut state = state.write();
    rebuild(&mut state, |builder| fill(builder, workers, trust))
}

fn fill(builder: &mut SessionStateBuilder, workers: WorkerUrls, trust: ClusterTrust) -> Result<()> {
    let mut equipped = crate::equip(std::mem::take(builder))?;
    let plain = equipped.query_planner().clone();
    let plain = plain.ok_or_else(|| Error::internal("the session has no planner for arrays"))?;
    let channels = WorkerChannels::of_coordinator(trust);
    let engine_options = engine_options(&workers);
    let function = WorkersFunction {
        workers: workers.clone(),
        channels: channels.clone(),
    };
    let function = TableFunction::new(workers_function::NAME.to_owned(), Arc::new(function));
    let functions = equipped.table_functions().get_or_insert_default();
    functions.insert(workers_function::NAME.to_owned(), Arc::new(function));
    let mut equipped = equipped
        .with_distributed_worker_resolver(workers)
        .with_distributed_channel_resolver(channels)
        .with_distributed_user_codec(TileDbCodec)
        .with_distributed_desired_task_count_handler(TaskCounts)
        .with_distributed_scale_up_leaf_node_handler(TaskScans)
        .with_distributed_option_extension(tasks::TaskSettings::default())
        // This also sets options of the planner, which is replaced by one that uses it.
        .with_distributed_planner();
    *equipped.query_planner() = Some(Arc::new(ClusterPlanner::new(plain)));
    let options = equipped.config().get_or_insert_default().options_mut();
    for (option, value) in engine_options {
        let unknown = || Error::internal(format!("the engine has no option {option}"));
        options
            .set(option, &value)
            .map_err(|e| unknown().with_source(e))?;
    }
    *builder = equipped;
    Ok(())
}

/// The options of the engine that depend on the workers.
fn engine_options(workers: &WorkerUrls) -> Vec<(&'static str, String)> {
    let each = BUFFERED_BYTES / workers.urls().len().max(1);
    let mut options = vec![(BUFFER_OPTION, each.max(FEWEST_BUFFERED_BYTES).to_string())];
    if workers.are_local() {
        // There is no network to save.
        options.push((COMPRESSION_OPTION, "none".to_owned()));
    }
    options
}
