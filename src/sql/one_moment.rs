//! The analyzer rule that makes all scans of a statement share one [`StatementSnapshots`].
//!
//! The rule runs each time a statement is planned, so a prepared statement, a view or a repeated statement sees the present
//! array. A statement with a single scan of arrays doesn't need it.

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

use super::moment::StatementSnapshots;
use super::provider::TileDbTable;

const NAME: &str = "tiledb_one_moment";

/// The analyzer rule.
#[derive(Debug)]
struct OneMoment;

/// Adds the rule to a session that is being built.
pub(super) fn install(builder: &mut SessionStateBuilder) {
    let rules = &mut builder.analyzer().get_or_insert_default().rules;
    if rules.iter().all(|rule| rule.name() != NAME) {
        // The rule must come after the rules that create scans.
        rules.push(Arc::new(OneMoment));
    }
}

/// Whether a session has the rule.
pub(super) fn is_installed(state: &SessionState) -> bool {
    let rules = &state.analyzer().rules;
    rules.iter().any(|rule| rule.name() == NAME)
}

impl AnalyzerRule for OneMoment {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut scans = 0;
        plan.apply_with_subqueries(|node| {
            scans += usize::from(array_of(node).is_some());
            Ok(match scans {
                0 | 1 => TreeNodeRecursion::Continue,
                _ => TreeNodeRecursion::Stop,
            })
        })?;
        if scans < 2 {
            return Ok(plan);
        }
        let moment = Arc::new(StatementSnapshots::default());
        let shared = plan.transform_down_with_subqueries(|node| {
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

/// The array that a node scans, if it scans one.
fn array_of(node: &LogicalPlan) -> Option<&TileDbTable> {
    let LogicalPlan::TableScan(scan) = node else {
        return None;
    };
    let source = scan.source.downcast_ref::<DefaultTableSource>()?;
    source.table_provider.downcast_ref::<TileDbTable>()
}
