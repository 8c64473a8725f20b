//! The optimizer rules for arrays, and their registration in sessions.
//!
//! Most rules traverse a physical plan from the top and rewrite nodes that can be answered faster over an array:
//! [`aggregate`]s from metadata, groups by the codes of an enumeration (`enumerated`), the first cells of an order by
//! dimensions (`first_cells`), partitions by ranges of the leading dimension (`range_partitions`), rows in its order
//! (`ordered_scans`), groups that need no hash table ([`group_by`]). [Settings](crate::options::settings) switch each of them
//! off. The other rules, the `guards` against defects of DataFusion's own rules, are always on.

pub mod aggregate;
mod below;
mod elements;
pub(crate) mod enumerated;
mod first_cells;
pub mod group_by;
mod guards;
mod ordered_scans;
mod plan_search;
mod range_partitions;

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, plan_err};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::session_state::SessionState;
use datafusion::optimizer::{Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;

use self::guards::casts::{self, PlainNumbers};
use self::guards::fields::{self, UnionFields};
use self::guards::literals::{ExactLiterals, SIMPLIFIER, ShownCasts};
use self::guards::misplaced::{FunctionsInPlace, PlannedSubqueries};
use self::guards::nullable_in::NullableIn;
use self::guards::one_nan::OneNan;
use self::guards::{
    empty_subqueries, join_claims, limits, orders, run_time_filters, table_factors,
    values_subqueries,
};
use crate::options::settings::TileDbSettings;
use crate::statements::stored_bits::StoredBits;
use crate::table::session::rebuild;

#[cfg(feature = "cluster")]
pub(crate) use self::below::{scan as scan_of, with_child, with_children};
#[cfg(feature = "cluster")]
pub(crate) use self::guards::hiding::{HiddenClaims, HidingExec};

type RuleRef = Arc<dyn PhysicalOptimizerRule + Send + Sync>;
type LogicalRule = Arc<dyn OptimizerRule + Send + Sync>;
pub(crate) type PlanRef = Arc<dyn ExecutionPlan>;

/// One of our rules.
#[derive(Debug)]
struct ArrayRule {
    name: &'static str,
    /// Its position among the rules of DataFusion.
    anchor: RulePosition,
    /// Whether the session's settings enable it; guards are always enabled.
    wanted: fn(&TileDbSettings) -> bool,
    rewrite: PlanRewrite,
}

#[derive(Debug)]
enum PlanRewrite {
    /// Replaces a node, if there is something better.
    Node(fn(&PlanRef) -> Result<Option<PlanRef>>),
    /// Replaces a whole plan.
    Whole(fn(&PlanRef) -> Result<PlanRef>),
}

#[derive(Debug, Clone, Copy)]
enum RulePosition {
    After(&'static str),
    Before(&'static str),
}

/// The rule that repartitions rows.
const PARTITIONS: RulePosition = RulePosition::Before("EnsureRequirements");

/// Guards against defects of DataFusion are enabled whatever the settings.
const ALWAYS: fn(&TileDbSettings) -> bool = |_| true;

const RULES: [ArrayRule; 17] = [
    ArrayRule {
        name: "tiledb_statistics_of_casts",
        anchor: RulePosition::Before("aggregate_statistics"),
        wanted: ALWAYS,
        rewrite: PlanRewrite::Whole(casts::with_bounds_below),
    },
    ArrayRule {
        name: "tiledb_metadata_aggregates",
        // That rule answers from exact statistics, so that ours need not load any.
        anchor: RulePosition::After("aggregate_statistics"),
        wanted: |settings| settings.enable_metadata_aggregates,
        rewrite: PlanRewrite::Node(aggregate::from_metadata),
    },
    ArrayRule {
        name: "tiledb_enumerated_groups",
        anchor: PARTITIONS,
        wanted: |settings| settings.enable_enumerated_groups,
        rewrite: PlanRewrite::Node(enumerated::by_codes),
    },
    ArrayRule {
        name: "tiledb_first_cells",
        anchor: PARTITIONS,
        wanted: |settings| settings.enable_first_cells,
        rewrite: PlanRewrite::Node(first_cells::narrowed),
    },
    ArrayRule {
        name: "tiledb_range_partitions",
        anchor: PARTITIONS,
        wanted: |settings| settings.enable_range_partitions,
        rewrite: PlanRewrite::Node(range_partitions::over_ranges),
    },
    ArrayRule {
        name: "tiledb_ordered_scans",
        anchor: PARTITIONS,
        wanted: |settings| settings.enable_ordered_scans,
        rewrite: PlanRewrite::Node(ordered_scans::in_sequence),
    },
    ArrayRule {
        name: "tiledb_names_told_apart",
        // Before filters are pushed down.
        anchor: RulePosition::Before("FilterPushdown"),
        wanted: ALWAYS,
        rewrite: PlanRewrite::Whole(fields::told_apart),
    },
    ArrayRule {
        name: "tiledb_names_let_through",
        anchor: RulePosition::After("FilterPushdown"),
        wanted: ALWAYS,
        rewrite: PlanRewrite::Whole(fields::let_through),
    },
    ArrayRule {
        name: "tiledb_no_false_keys",
        anchor: PARTITIONS,
        wanted: ALWAYS,
        rewrite: PlanRewrite::Whole(orders::without_false_keys),
    },
    ArrayRule {
        name: "tiledb_offsets",
        anchor: PARTITIONS,
        wanted: ALWAYS,
        rewrite: PlanRewrite::Whole(orders::above_skipped),
    },
    ArrayRule {
        name: "tiledb_grouping_sets",
        anchor: PARTITIONS,
        wanted: ALWAYS,
        rewrite: PlanRewrite::Whole(orders::without_claims),
    },
    ArrayRule {
        name: "tiledb_join_claims",
        anchor: PARTITIONS,
        wanted: ALWAYS,
        rewrite: PlanRewrite::Whole(join_claims::without_false_claims),
    },
    ArrayRule {
        name: "tiledb_trusted_filters",
        // After all filters have been pushed down.
        anchor: RulePosition::After("FilterPushdown(Post)"),
        wanted: ALWAYS,
        rewrite: PlanRewrite::Whole(run_time_filters::only_trusted),
    },
    ArrayRule {
        name: "tiledb_limited_distinct",
        // No rule after these changes the order of rows.
        anchor: RulePosition::Before("SanityCheckPlan"),
        wanted: ALWAYS,
        rewrite: PlanRewrite::Node(limits::without_limit),
    },
    ArrayRule {
        name: "tiledb_partition_limits",
        anchor: RulePosition::Before("SanityCheckPlan"),
        wanted: ALWAYS,
        rewrite: PlanRewrite::Node(limits::of_each_partition),
    },
    ArrayRule {
        name: "tiledb_groups",
        // After filters have been pushed through the aggregate.
        anchor: RulePosition::Before("SanityCheckPlan"),
        wanted: |settings| settings.enable_run_groups,
        rewrite: PlanRewrite::Node(group_by::without_hashing),
    },
    ArrayRule {
        name: "tiledb_lost_orders",
        // A replaced node may have weaker properties: a constant column is an order, too.
        anchor: RulePosition::Before("SanityCheckPlan"),
        wanted: ALWAYS,
        rewrite: PlanRewrite::Node(orders::sorted_again),
    },
];

impl PhysicalOptimizerRule for ArrayRule {
    fn optimize(&self, plan: PlanRef, config: &ConfigOptions) -> Result<PlanRef> {
        if !(self.wanted)(&TileDbSettings::of(config)) {
            return Ok(plan);
        }
        let rewrite = match self.rewrite {
            PlanRewrite::Node(rewrite) => rewrite,
            PlanRewrite::Whole(rewrite) => return rewrite(&plan),
        };
        plan.transform_down(|plan| {
            Ok(match rewrite(&plan)? {
                Some(plan) => Transformed::yes(plan),
                None => Transformed::no(plan),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        self.name
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Adds the rules for arrays to the physical optimizer rules of a session, for building a session by hand.
/// [`equip`](crate::equip) and [`register`](crate::register) include this.
///
/// ```
/// # use datafusion::execution::SessionStateBuilder;
/// # use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
/// # use datafusion::prelude::SessionContext;
/// let rules = datafusion_tiledb::optimizer::physical_optimizer_rules(PhysicalOptimizer::new().rules)?;
/// let state = SessionStateBuilder::new()
///     .with_default_features()
///     .with_physical_optimizer_rules(rules)
///     .build();
/// let ctx = SessionContext::new_with_state(state);
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
///
/// It fails if a rule of DataFusion is missing next to which one of ours must be inserted.
pub fn physical_optimizer_rules(mut rules: Vec<RuleRef>) -> Result<Vec<RuleRef>> {
    for ours in RULES {
        if rules.iter().any(|rule| rule.name() == ours.name) {
            continue;
        }
        let (RulePosition::After(anchor) | RulePosition::Before(anchor)) = ours.anchor;
        let Some(at) = rules.iter().position(|rule| rule.name() == anchor) else {
            return plan_err!(
                "the optimizer rule {anchor} of DataFusion is not among those of the session, and {} must stand next to it",
                ours.name
            );
        };
        let behind = matches!(ours.anchor, RulePosition::After(_));
        rules.insert(at + usize::from(behind), Arc::new(ours));
    }
    Ok(rules)
}

/// Adds the rules for arrays to the logical optimizer rules of a session, as [`physical_optimizer_rules`] does.
pub fn optimizer_rules(mut rules: Vec<LogicalRule>) -> Vec<LogicalRule> {
    if !has_logical(&rules) {
        // Before all others, which rewrite `IN (SELECT …)`.
        rules.insert(0, Arc::new(NullableIn));
        let pushes = rules.iter().position(|rule| rule.name() == OneNan::BEFORE);
        rules.insert(pushes.unwrap_or(rules.len()), Arc::new(OneNan));
        // This rule determines what a statement reads, so it must run before filters and projections reach the scans.
        rules.insert(0, Arc::new(StoredBits));
        let simplifies = |rule: &LogicalRule| rule.name() == SIMPLIFIER;
        if let Some(at) = rules.iter().position(simplifies) {
            rules.insert(at + 1, Arc::new(ShownCasts));
            rules.insert(at, Arc::new(ExactLiterals));
        }
        // After all others, which may change the inputs of a UNION.
        rules.push(Arc::new(UnionFields));
        rules.push(Arc::new(PlannedSubqueries));
    }
    rules
}

/// Adds the rules to a session that is being built.
pub(crate) fn equip(builder: &mut SessionStateBuilder) -> Result<()> {
    let options = builder.config().get_or_insert_default().options_mut();
    if options.extensions.get::<TileDbSettings>().is_none() {
        options.extensions.insert(TileDbSettings::default());
    }
    let known = builder.physical_optimizers().take().unwrap_or_default();
    let rules = physical_optimizer_rules(known.rules)?;
    *builder.physical_optimizers() = Some(PhysicalOptimizer::with_rules(rules));
    let known = builder.optimizer().take().unwrap_or_default().rules;
    let guarded = has_logical(&known);
    *builder.optimizer() = Some(Optimizer::with_rules(optimizer_rules(known)));
    if !guarded {
        table_factors::install(builder);
        let analyzer = builder.analyzer().get_or_insert_default();
        // Before all others, one of which resolves the types.
        analyzer.rules.insert(0, Arc::new(PlainNumbers));
        empty_subqueries::install(builder);
        values_subqueries::install(builder);
        let rules = &mut builder.analyzer().get_or_insert_default().rules;
        // This rule runs after the rules that rewrite statements, and before types are derived, where errors are less clear.
        let types = rules.iter().position(|rule| rule.name() == "type_coercion");
        let at = types.unwrap_or(rules.len());
        rules.insert(at, Arc::new(FunctionsInPlace));
    }
    elements::install(builder);
    Ok(())
}

/// Adds the rules to an existing session.
pub(crate) fn install(ctx: &SessionContext) -> Result<()> {
    let state = ctx.state_ref();
    let mut state = state.write();
    if is_equipped(&state) {
        Ok(())
    } else {
        rebuild(&mut state, equip)
    }
}

/// Whether a session has all the rules.
pub(crate) fn is_equipped(state: &SessionState) -> bool {
    let rules = state.physical_optimizers();
    let has = |ours: &ArrayRule| rules.iter().any(|rule| rule.name() == ours.name);
    RULES.iter().all(has)
        && has_logical(state.optimizers())
        && elements::is_among(&state.analyzer().rules)
}

fn has_logical(rules: &[LogicalRule]) -> bool {
    rules.iter().any(|rule| rule.name() == NullableIn::NAME)
}
