//! The analyzer rule that makes all scans of a statement share one [`StatementSnapshots`].
//!
//! The rule runs each time a statement is planned, so a prepared statement, a view or a repeated statement sees the current
//! array. A query with a single scan of arrays doesn't need it. A statement that changes an array finds in the snapshots what
//! its scans have seen, even in subqueries for single values, which DataFusion plans beside it.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::datasource::DefaultTableSource;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::AnalyzerRule;

use crate::scan::moment::StatementSnapshots;
use crate::statements::changes::ChangeTarget;
use crate::table::provider::TileDbTable;

const NAME: &str = "tiledb_one_moment";

/// The analyzer rule.
#[derive(Debug)]
struct OneMoment;

/// Adds the rule to a session that is being built.
pub(crate) fn install(builder: &mut SessionStateBuilder) {
    let rules = &mut builder.analyzer().get_or_insert_default().rules;
    if rules.iter().all(|rule| rule.name() != NAME) {
        // The rule must come after the rules that create scans.
        rules.push(Arc::new(OneMoment));
    }
}

/// Whether a session has the rule.
pub(crate) fn is_installed(state: &SessionState) -> bool {
    let rules = &state.analyzer().rules;
    rules.iter().any(|rule| rule.name() == NAME)
}

impl AnalyzerRule for OneMoment {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let (mut scanned, mut changes) = (Vec::new(), false);
        plan.apply_with_subqueries(|node| {
            scanned.extend(array_of(node).map(|array| array.storage().uri().to_owned()));
            changes |= target_of(node).is_some();
            Ok(TreeNodeRecursion::Continue)
        })?;
        if scanned.is_empty() || (scanned.len() == 1 && !changes) {
            return Ok(plan);
        }
        let moment = Arc::new(StatementSnapshots::new(&scanned));
        let shared = plan.transform_down_with_subqueries(|node| {
            if let Some(target) = target_of(&node) {
                let uri = target.uri()?;
                if !scanned.iter().any(|scanned| scanned == uri) {
                    return Ok(Transformed::no(node));
                }
                let target: Arc<dyn TableProvider> = Arc::new(target.read_by(&moment));
                let LogicalPlan::Dml(mut statement) = node else {
                    return Ok(Transformed::no(node));
                };
                statement.target = Arc::new(DefaultTableSource::new(target));
                return Ok(Transformed::yes(LogicalPlan::Dml(statement)));
            }
            let Some(array) = array_of(&node) else {
                return Ok(Transformed::no(node));
            };
            let array: Arc<dyn TableProvider> = Arc::new(array.at_moment(&moment));
            let LogicalPlan::TableScan(mut scan) = node else {
                return Ok(Transformed::no(node));
            };
            scan.source = Arc::new(DefaultTableSource::new(array));
            Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
        });
        shared.data()
    }

    fn name(&self) -> &'static str {
        NAME
    }
}

/// The array that a node changes, if it changes one.
fn target_of(node: &LogicalPlan) -> Option<&ChangeTarget> {
    let LogicalPlan::Dml(statement) = node else {
        return None;
    };
    let source = statement.target.downcast_ref::<DefaultTableSource>()?;
    source.table_provider.downcast_ref::<ChangeTarget>()
}

/// The array that a node scans, if it scans one.
fn array_of(node: &LogicalPlan) -> Option<&TileDbTable> {
    let LogicalPlan::TableScan(scan) = node else {
        return None;
    };
    let source = scan.source.downcast_ref::<DefaultTableSource>()?;
    source.table_provider.downcast_ref::<TileDbTable>()
}
