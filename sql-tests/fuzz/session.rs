//! Sessions of many shapes: partitions, batches, memory, and every switch that sends a query another way.
//!
//! A shape is what differs from the usual session, so that it shrinks by leaving things out.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::catalog::MemoryCatalogProviderList;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::{FairSpillPool, GreedyMemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::optimizer;
use datafusion_tiledb::options::settings::TileDbSettings;

use crate::fuzz::forget::Forget;
use crate::support::cluster_workers;
use crate::support::rng::Rng;

const BATCHES: [usize; 8] = [1, 2, 7, 64, 1_000, 4_096, 8_192, 16_384];

/// No session takes more, whatever its shape.
const MOST_BYTES: usize = 4 << 30;

/// Settings with the values they take besides the usual one, and how often they do, in a hundred.
/// `enable_piecewise_merge_join` is left out: it is off unless asked for, and an outer join with an empty table loses rows.
const SETTINGS: [(&str, &[&str], usize); 39] = [
    ("tiledb.enable_metadata_aggregates", &["false"], 8),
    ("tiledb.enable_enumerated_groups", &["false"], 8),
    ("tiledb.enable_first_cells", &["false"], 8),
    ("tiledb.enable_range_partitions", &["false"], 8),
    ("tiledb.enable_ordered_scans", &["false"], 8),
    ("tiledb.enable_best_tiles_first", &["false"], 8),
    ("tiledb.enable_run_groups", &["false"], 8),
    ("tiledb.enable_elements_in_place", &["false"], 8),
    ("tiledb.enable_text_search", &["false"], 8),
    ("tiledb.enable_cell_search", &["false"], 8),
    ("datafusion.optimizer.prefer_hash_join", &["false"], 20),
    (
        "datafusion.optimizer.repartition_aggregations",
        &["false"],
        10,
    ),
    ("datafusion.optimizer.repartition_joins", &["false"], 10),
    ("datafusion.optimizer.repartition_windows", &["false"], 10),
    ("datafusion.optimizer.repartition_sorts", &["false"], 10),
    (
        "datafusion.optimizer.repartition_file_scans",
        &["false"],
        10,
    ),
    (
        "datafusion.optimizer.repartition_file_min_size",
        &["0", "1000"],
        20,
    ),
    (
        "datafusion.optimizer.enable_round_robin_repartition",
        &["false"],
        15,
    ),
    (
        "datafusion.optimizer.enable_topk_aggregation",
        &["false"],
        10,
    ),
    ("datafusion.optimizer.enable_window_limits", &["false"], 10),
    ("datafusion.optimizer.enable_window_topn", &["true"], 15),
    (
        "datafusion.optimizer.enable_topk_repartition",
        &["false"],
        10,
    ),
    (
        "datafusion.optimizer.enable_topk_dynamic_filter_pushdown",
        &["false"],
        10,
    ),
    (
        "datafusion.optimizer.enable_join_dynamic_filter_pushdown",
        &["false"],
        10,
    ),
    (
        "datafusion.optimizer.enable_aggregate_dynamic_filter_pushdown",
        &["false"],
        10,
    ),
    (
        "datafusion.optimizer.enable_dynamic_filter_pushdown",
        &["false"],
        6,
    ),
    (
        "datafusion.optimizer.enable_physical_uncorrelated_scalar_subquery",
        &["false"],
        10,
    ),
    (
        "datafusion.optimizer.enable_distinct_aggregation_soft_limit",
        &["false"],
        8,
    ),
    ("datafusion.optimizer.filter_null_join_keys", &["true"], 10),
    ("datafusion.optimizer.prefer_existing_sort", &["true"], 15),
    ("datafusion.optimizer.prefer_existing_union", &["true"], 8),
    ("datafusion.optimizer.enable_sort_pushdown", &["false"], 8),
    (
        "datafusion.optimizer.subset_repartition_threshold",
        &["1", "100"],
        8,
    ),
    ("datafusion.optimizer.join_reordering", &["false"], 8),
    (
        "datafusion.optimizer.hash_join_single_partition_threshold",
        &["0"],
        15,
    ),
    (
        "datafusion.optimizer.hash_join_single_partition_threshold_rows",
        &["0", "100"],
        15,
    ),
    (
        "datafusion.optimizer.hash_join_inlist_pushdown_max_distinct_values",
        &["0", "3"],
        12,
    ),
    (
        "datafusion.execution.enable_file_stream_work_stealing",
        &["false"],
        15,
    ),
    ("datafusion.execution.collect_statistics", &["false"], 8),
];

/// What DataFusion can do without, and the answers that are expected do without it: a mistake in one of them would be
/// expected of everybody else.
const SHORT_CUTS: [&str; 10] = [
    "datafusion.optimizer.enable_dynamic_filter_pushdown",
    "datafusion.optimizer.enable_topk_dynamic_filter_pushdown",
    "datafusion.optimizer.enable_join_dynamic_filter_pushdown",
    "datafusion.optimizer.enable_aggregate_dynamic_filter_pushdown",
    "datafusion.optimizer.enable_topk_aggregation",
    "datafusion.optimizer.enable_topk_repartition",
    "datafusion.optimizer.enable_window_limits",
    "datafusion.optimizer.enable_distinct_aggregation_soft_limit",
    "datafusion.optimizer.enable_sort_pushdown",
    "datafusion.optimizer.enable_round_robin_repartition",
];

/// How a session differs from the usual one.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    pub partitions: usize,
    pub batch_size: usize,
    pub settings: Vec<(&'static str, &'static str)>,
    /// Memory for all operators together.
    pub pool_bytes: Option<usize>,
    /// Whether every plan is run a second time.
    pub twice: bool,
}

/// The session that shapes shrink to.
pub const USUAL: Shape = Shape {
    partitions: 2,
    batch_size: 8_192,
    settings: Vec::new(),
    pool_bytes: None,
    twice: false,
};

impl Shape {
    /// Any shape for tables of so many rows. Of many rows a batch is not tiny: joins of them take gigabytes.
    pub fn random(rng: &mut Rng, rows: usize) -> Self {
        let from = match rows {
            0..=200 => 0,
            201..=2_000 => 3,
            _ => 4,
        };
        let mut settings = Vec::new();
        for (key, values, percent) in SETTINGS {
            if rng.chance(percent) {
                settings.push((key, *rng.pick(values)));
            }
        }
        Self {
            partitions: rng.between(1, 8),
            batch_size: *rng.pick(&BATCHES[from..]),
            settings,
            pool_bytes: rng.chance(10).then(|| rng.between(16, 64) << 20),
            twice: rng.chance(10),
        }
    }

    /// Each shape that is one step nearer to the usual one.
    pub fn smaller(&self) -> Vec<Self> {
        let mut shapes = Vec::new();
        let mut add = |change: &dyn Fn(&mut Self)| {
            let mut shape = self.clone();
            change(&mut shape);
            if shape != *self {
                shapes.push(shape);
            }
        };
        add(&|shape| *shape = USUAL);
        add(&|shape| shape.settings.clear());
        for i in 0..self.settings.len() {
            add(&|shape| {
                shape.settings.remove(i);
            });
        }
        add(&|shape| shape.pool_bytes = None);
        add(&|shape| shape.twice = false);
        add(&|shape| shape.batch_size = USUAL.batch_size);
        add(&|shape| shape.partitions = USUAL.partitions);
        shapes
    }

    /// A session of this shape. `arrays` brings in what this project adds to DataFusion.
    pub fn context(&self, parts: &Parts, arrays: bool) -> Result<SessionContext> {
        let mut config = SessionConfig::new()
            .with_option_extension(TileDbSettings::default())
            .with_target_partitions(self.partitions)
            .with_batch_size(self.batch_size);
        for (key, value) in &self.settings {
            config = config.set_str(key, value);
        }
        let ctx = parts.context(config, self.pool_bytes, arrays)?;
        if arrays && parts.workers > 0 {
            cluster_workers::coordinate(&ctx, parts.workers)?;
        }
        Ok(ctx)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "SET datafusion.execution.target_partitions = {};",
            self.partitions
        )?;
        writeln!(
            f,
            "SET datafusion.execution.batch_size = {};",
            self.batch_size
        )?;
        for (key, value) in &self.settings {
            writeln!(f, "SET {key} = {value};")?;
        }
        if let Some(bytes) = self.pool_bytes {
            writeln!(f, "-- a memory pool of {} MiB", bytes >> 20)?;
        }
        if self.twice {
            writeln!(f, "-- the plan is run twice")?;
        }
        Ok(())
    }
}

/// The rules of this project that [`TimesCastAside`] replaces.
const OWN_GUARDS: [&str; 2] = ["tiledb_exact_literals", "tiledb_shown_casts"];

/// Evaluates casts of times for each row, as they are written.
#[derive(Debug)]
struct TimesCastAside;

impl AnalyzerRule for TimesCastAside {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let aside = |expr: Expr| {
            Ok(match expr {
                Expr::Cast(cast) if matches!(cast.field.data_type(), DataType::Timestamp(..)) => {
                    let inner = matches!(cast.expr.as_ref(), Expr::Literal(..));
                    let cast = Expr::Cast(cast);
                    if inner {
                        Transformed::no(cast)
                    } else {
                        Transformed::yes(ScalarUDF::from(AsItIs::new()).call(vec![cast]))
                    }
                }
                expr => Transformed::no(expr),
            })
        };
        let in_node = |plan: LogicalPlan| {
            let names = NamePreserver::new(&plan);
            plan.map_expressions(|expr| {
                let name = names.save(&expr);
                let changed = expr.transform_up(aside)?;
                Ok(changed.update_data(|expr| name.restore(expr)))
            })
        };
        plan.transform_up_with_subqueries(in_node).data()
    }

    fn name(&self) -> &'static str {
        "times_cast_aside"
    }
}

/// Returns a value unchanged, and hides it from the optimizer's rules.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AsItIs {
    signature: Signature,
}

impl AsItIs {
    fn new() -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for AsItIs {
    fn name(&self) -> &'static str {
        "as_it_is"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::clone(&args.arg_fields[0]))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args[0].clone())
    }
}

/// What all sessions share: functions and rules, made once.
#[derive(Debug)]
pub struct Parts {
    plain: SessionState,
    arrays: SessionState,
    reference: SessionState,
    /// The number of workers of the sessions with arrays.
    workers: usize,
}

impl Parts {
    /// The parts of sessions with so many workers.
    pub fn with_workers(workers: usize) -> Result<Self> {
        let parts = Self::new()?;
        Ok(Self { workers, ..parts })
    }

    pub fn new() -> Result<Self> {
        let arrays = SessionContext::new();
        datafusion_tiledb::register(&arrays).map_err(|e| DataFusionError::External(e.into()))?;
        // NULL among `IN (SELECT …)` below OR and NOT is a mistake of DataFusion that every other statement would meet.
        let plain = SessionContext::new().state();
        let rules = optimizer::optimizer_rules(plain.optimizers().to_vec()).into_iter();
        // DataFusion rounds literals before it compares them with a time. These sessions have their own guard against it.
        let rules = rules.filter(|rule| !OWN_GUARDS.contains(&rule.name()));
        let mut analyzers = plain.analyzer().rules.clone();
        analyzers.push(Arc::new(TimesCastAside));
        // A scalar subquery without a row is NULL, which DataFusion doesn't expect if the column is NOT NULL.
        let known = arrays.state().analyzer().rules.clone().into_iter();
        let nullable = known.filter(|rule| rule.name() == "tiledb_nullable_subqueries");
        analyzers.splice(0..0, nullable);
        let plain = SessionStateBuilder::new_from_existing(plain)
            .with_optimizer_rules(rules.collect())
            .with_analyzer_rules(analyzers)
            .build();
        // Filters are handed down by the names of columns, of which a join may have two: one more mistake of DataFusion.
        let mut kept: Vec<_> = plain
            .physical_optimizers()
            .iter()
            .filter(|rule| !rule.name().starts_with("FilterPushdown"))
            .cloned()
            .collect();
        // Where sorts are added, and taken out.
        let sorts = kept
            .iter()
            .position(|rule| rule.name() == "EnsureRequirements");
        kept.insert(sorts.expect("DataFusion has this rule"), Arc::new(Forget));
        let reference = SessionStateBuilder::new_from_existing(plain.clone())
            .with_physical_optimizer_rules(kept);
        Ok(Self {
            reference: reference.build(),
            arrays: arrays.state(),
            plain,
            workers: 0,
        })
    }

    /// A plain session of DataFusion, but for that, in which a query goes the simplest way.
    pub fn reference(&self) -> Result<SessionContext> {
        let mut config = SessionConfig::new().with_target_partitions(1);
        for key in SHORT_CUTS {
            config = config.set_bool(key, false);
        }
        Self::context_of(&self.reference, config, None)
    }

    fn context(
        &self,
        config: SessionConfig,
        pool_bytes: Option<usize>,
        arrays: bool,
    ) -> Result<SessionContext> {
        let state = if arrays { &self.arrays } else { &self.plain };
        Self::context_of(state, config, pool_bytes)
    }

    fn context_of(
        state: &SessionState,
        config: SessionConfig,
        pool_bytes: Option<usize>,
    ) -> Result<SessionContext> {
        let runtime = RuntimeEnvBuilder::new();
        let runtime = match pool_bytes {
            Some(bytes) => runtime.with_memory_pool(Arc::new(FairSpillPool::new(bytes))),
            None => runtime.with_memory_pool(Arc::new(GreedyMemoryPool::new(MOST_BYTES))),
        };
        // The tables of one session are not those of another.
        let state = SessionStateBuilder::new_from_existing(state.clone())
            .with_config(config)
            .with_runtime_env(runtime.build_arc()?)
            .with_catalog_list(Arc::new(MemoryCatalogProviderList::new()))
            .build();
        Ok(SessionContext::new_with_state(state))
    }
}
