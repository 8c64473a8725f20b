//! Adding the rule to sessions.

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::prelude::SessionContext;

use super::MetadataAggregates;

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// The rule before which ours has no say: where all is known already, nothing is left to look up.
const AFTER: &str = "aggregate_statistics";

/// The physical optimizer rules of a session with those that arrays bring along: for those who build a session from
/// parts. [`register`](crate::register) does the same for a session that exists.
///
/// ```
/// # use datafusion::execution::SessionStateBuilder;
/// # use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
/// # use datafusion::prelude::SessionContext;
/// let rules = datafusion_tiledb::sql::aggregate::physical_optimizer_rules(PhysicalOptimizer::new().rules);
/// let state = SessionStateBuilder::new()
///     .with_default_features()
///     .with_physical_optimizer_rules(rules)
///     .build();
/// let ctx = SessionContext::new_with_state(state);
/// ```
pub fn physical_optimizer_rules(rules: Vec<Rule>) -> Vec<Rule> {
    let mut rules = rules;
    if !rules.iter().any(is_ours) {
        let after = rules.iter().position(|rule| rule.name() == AFTER);
        let at = after.map_or(0, |at| at + 1);
        rules.insert(at, Arc::new(MetadataAggregates));
    }
    rules
}

fn is_ours(rule: &Rule) -> bool {
    rule.name() == MetadataAggregates::NAME
}

/// Adds the rule to a session. DataFusion offers no way to add one to a state that exists, so the state is built anew from
/// its parts, in place, and everybody who holds it sees the new one. Only prepared statements do not come along.
pub(in crate::sql) fn install(ctx: &SessionContext) {
    let state = ctx.state_ref();
    let mut state = state.write();
    if state.physical_optimizers().iter().any(is_ours) {
        return;
    }
    let rules = physical_optimizer_rules(state.physical_optimizers().to_vec());
    let options = state.config().options();
    let creates_catalog = options.catalog.create_default_catalog_and_schema;
    let mut changed = SessionStateBuilder::new_from_existing(state.clone())
        .with_session_id(state.session_id().to_owned())
        .with_physical_optimizer_rules(rules)
        .build();
    // The builder takes the setting back so as not to put an empty catalog in place of the one that exists.
    let options = changed.config_mut().options_mut();
    options.catalog.create_default_catalog_and_schema = creates_catalog;
    *state = changed;
}
