//! The physical optimizer rules that arrays bring along, and adding them to sessions.

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::prelude::SessionContext;

use super::aggregate::MetadataAggregates;
use super::enumerated::EnumeratedGroups;
use super::first_cells::FirstCells;
use super::leading::LeadingPartitions;

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// Answers what is known already, so that ours has nothing to look up.
const BEFORE_AGGREGATES: &str = "aggregate_statistics";
/// Deals rows out anew where they do not meet.
const AFTER_PARTITIONS: &str = "EnsureRequirements";

/// The physical optimizer rules of a session with those that arrays bring along: for those who build a session from
/// parts. [`register`](crate::register) does the same for a session that exists.
///
/// ```
/// # use datafusion::execution::SessionStateBuilder;
/// # use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
/// # use datafusion::prelude::SessionContext;
/// let rules = datafusion_tiledb::sql::rules::physical_optimizer_rules(PhysicalOptimizer::new().rules);
/// let state = SessionStateBuilder::new()
///     .with_default_features()
///     .with_physical_optimizer_rules(rules)
///     .build();
/// let ctx = SessionContext::new_with_state(state);
/// ```
pub fn physical_optimizer_rules(rules: Vec<Rule>) -> Vec<Rule> {
    let mut rules = rules;
    if !has(&rules, MetadataAggregates::NAME) {
        let before = rules.iter().position(|r| r.name() == BEFORE_AGGREGATES);
        let at = before.map_or(0, |at| at + 1);
        rules.insert(at, Arc::new(MetadataAggregates));
    }
    let ours: [Rule; 3] = [
        Arc::new(EnumeratedGroups),
        Arc::new(FirstCells),
        Arc::new(LeadingPartitions),
    ];
    for rule in ours {
        if !has(&rules, rule.name()) {
            let after = rules.iter().position(|r| r.name() == AFTER_PARTITIONS);
            rules.insert(after.unwrap_or(0), rule);
        }
    }
    rules
}

fn has(rules: &[Rule], name: &str) -> bool {
    rules.iter().any(|rule| rule.name() == name)
}

/// Adds the rules to a session. DataFusion offers no way to add any to a state that exists, so the state is built anew from
/// its parts, in place, and everybody who holds it sees the new one. Only prepared statements do not come along.
pub(super) fn install(ctx: &SessionContext) {
    let state = ctx.state_ref();
    let mut state = state.write();
    let known = state.physical_optimizers();
    let rules = physical_optimizer_rules(known.to_vec());
    if rules.len() == known.len() {
        return;
    }
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
