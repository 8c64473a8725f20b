//! Sessions that write nothing.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, plan_err};
use datafusion::datasource::{MemTable, source_as_provider};
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionConfig;

/// Makes a session read-only, as an extension of its configuration
/// ([`SessionConfig::with_extension`](datafusion::prelude::SessionConfig::with_extension)). [`execute`](crate::execute) then refuses
/// every statement that would write to an array, a group or a file. DataFusion's `SessionContext::sql` refuses those that would write
/// to an array or a group. Views, tables in memory, settings and tables of existing arrays stay allowed, because they only change the
/// session.
///
/// ```
/// use std::sync::Arc;
/// use datafusion::prelude::{SessionConfig, SessionContext};
/// use datafusion_tiledb::session::ReadOnly;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let config = SessionConfig::new().with_extension(Arc::new(ReadOnly));
/// let ctx = SessionContext::new_with_config(config);
/// datafusion_tiledb::register(&ctx)?;
/// let copy = "COPY (SELECT 1 AS n) TO 'n.parquet'";
/// let refused = datafusion_tiledb::execute(&ctx, copy).await.unwrap_err();
/// assert!(refused.to_string().contains("read-only"));
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadOnly;

impl ReadOnly {
    /// Why a read-only session refuses something that would write; `None` if the session isn't read-only.
    pub(crate) fn refusal(config: &SessionConfig, what: &str) -> Option<String> {
        let is_on = config.get_extension::<Self>().is_some();
        is_on.then(|| format!("{what} is refused, because the session is read-only"))
    }

    /// Fails if a session is read-only; `what` would write.
    pub(crate) fn check(config: &SessionConfig, what: &str) -> Result<()> {
        match Self::refusal(config, what) {
            Some(refusal) => plan_err!("{refusal}"),
            None => Ok(()),
        }
    }

    /// Fails if a session is read-only and a plan would write.
    pub(crate) fn check_plan(config: &SessionConfig, plan: &LogicalPlan) -> Result<()> {
        // EXPLAIN runs nothing; EXPLAIN ANALYZE does.
        if config.get_extension::<Self>().is_none() || matches!(plan, LogicalPlan::Explain(_)) {
            return Ok(());
        }
        let mut writes = None;
        plan.apply_with_subqueries(|node| {
            writes = writes_of(node);
            Ok(if writes.is_some() {
                TreeNodeRecursion::Stop
            } else {
                TreeNodeRecursion::Continue
            })
        })?;
        writes.map_or(Ok(()), |what| Self::check(config, &what))
    }
}

/// The statement that a node of a plan stands for, if it writes.
fn writes_of(node: &LogicalPlan) -> Option<String> {
    match node {
        LogicalPlan::Dml(dml) => {
            let in_memory = source_as_provider(&dml.target)
                .is_ok_and(|table| table.downcast_ref::<MemTable>().is_some());
            (!in_memory).then(|| dml.op.to_string().to_uppercase())
        }
        LogicalPlan::Copy(_) => Some("COPY".to_owned()),
        _ => None,
    }
}
