//! Sessions that make a query go another way to the same answer: few rows at a time, many partitions, little memory,
//! no pushdown.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{CreateExternalTable, Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::options::settings::TileDbSettings;
use datafusion_tiledb::{Engine, StoreRegistry};

use crate::support::{allocations, cluster_workers};

/// How a session differs from the usual one.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// What it is called in messages.
    pub name: &'static str,
    partitions: usize,
    pub batch_size: usize,
    pool_bytes: usize,
    work_stealing: bool,
    dynamic_filters: bool,
    /// Whether arrays are read in special ways where there are some.
    special_ways: bool,
    /// Whether scans are made anew of their requests and modes, as on another machine.
    pub anew: bool,
    /// Whether tables made by `CREATE EXTERNAL TABLE` are offered filters and limits.
    pushdown: bool,
    /// The number of workers that run everything that can travel.
    pub workers: usize,
}

/// The usual session of these tests.
pub const USUAL: Shape = Shape {
    name: "the usual session",
    partitions: 2,
    batch_size: 8192,
    pool_bytes: usize::MAX,
    work_stealing: true,
    dynamic_filters: true,
    special_ways: true,
    anew: false,
    pushdown: true,
    workers: 0,
};

const SMALL_POOL: usize = 64 << 20;

/// Others.
pub const SHAPES: [Shape; 5] = [
    Shape {
        name: "no special ways",
        special_ways: false,
        ..USUAL
    },
    Shape {
        name: "row by row on one core with 64 MB",
        partitions: 1,
        batch_size: 1,
        pool_bytes: SMALL_POOL,
        ..USUAL
    },
    Shape {
        name: "seven rows at a time on four cores, from scans opened anew",
        partitions: 4,
        batch_size: 7,
        dynamic_filters: false,
        anew: true,
        ..USUAL
    },
    Shape {
        name: "sixteen partitions that share no work with 64 MB",
        partitions: 16,
        pool_bytes: SMALL_POOL,
        work_stealing: false,
        ..USUAL
    },
    Shape {
        name: "no pushdown",
        partitions: 4,
        dynamic_filters: false,
        pushdown: false,
        ..USUAL
    },
];

impl Shape {
    /// The usual session, with so many workers.
    pub fn with_workers(workers: usize) -> Self {
        Self {
            name: "workers",
            workers,
            ..USUAL
        }
    }

    /// Whether its tables are other than those of the library.
    pub fn wraps_tables(&self) -> bool {
        !self.pushdown
    }

    /// A session of this shape, with arrays in it.
    pub fn context(&self) -> Result<SessionContext> {
        self.equipped(self.config(), self.runtime())
    }

    /// A session of this shape that opens stores in an engine of its own, for arrays and files alike.
    pub fn context_in(&self, engine: &Engine) -> Result<SessionContext> {
        let registry = Arc::new(StoreRegistry::new(engine));
        let config = self.config().with_extension(Arc::clone(&registry));
        let config = config.with_extension(Arc::new(engine.clone()));
        let runtime = self.runtime().with_object_store_registry(registry);
        self.equipped(config, runtime)
    }

    fn config(&self) -> SessionConfig {
        let mut config = SessionConfig::new()
            .with_option_extension(TileDbSettings::default())
            .with_information_schema(true)
            .with_target_partitions(self.partitions)
            .with_batch_size(self.batch_size)
            .set_bool(
                "datafusion.execution.enable_file_stream_work_stealing",
                self.work_stealing,
            )
            .set_bool(
                "datafusion.optimizer.enable_dynamic_filter_pushdown",
                self.dynamic_filters,
            )
            .set_str("datafusion.explain.physical_plan_only", "true")
            .set_str("datafusion.explain.format", "indent");
        if !self.special_ways {
            for name in TileDbSettings::NAMES {
                config = config.set_bool(&format!("tiledb.{name}"), false);
            }
        }
        config
    }

    fn runtime(&self) -> RuntimeEnvBuilder {
        match self.pool_bytes {
            usize::MAX => allocations::runtime_builder(),
            bytes => {
                RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(bytes)))
            }
        }
    }

    fn equipped(
        &self,
        config: SessionConfig,
        runtime: RuntimeEnvBuilder,
    ) -> Result<SessionContext> {
        let runtime = runtime.build_arc()?;
        let ctx = SessionContext::new_with_config_rt(config, runtime).enable_url_table();
        datafusion_tiledb::register(&ctx).map_err(|e| DataFusionError::External(e.into()))?;
        if self.workers > 0 {
            cluster_workers::coordinate(&ctx, self.workers)?;
        }
        if !self.pushdown {
            let state = ctx.state_ref();
            let mut state = state.write();
            let factories = state.table_factories_mut();
            if let Some(factory) = factories.remove("TILEDB") {
                factories.insert("TILEDB".to_owned(), Arc::new(Unpushed(factory)));
            }
        }
        Ok(ctx)
    }
}

/// Hides filters and limits from what it wraps.
#[derive(Debug)]
struct Unpushed<T>(T);

#[async_trait]
impl TableProviderFactory for Unpushed<Arc<dyn TableProviderFactory>> {
    async fn create(
        &self,
        state: &dyn Session,
        statement: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        let table = self.0.create(state, statement).await?;
        Ok(Arc::new(Unpushed(table)))
    }
}

#[async_trait]
impl TableProvider for Unpushed<Arc<dyn TableProvider>> {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn table_type(&self) -> TableType {
        self.0.table_type()
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.scan(state, projection, &[], None).await
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![
            TableProviderFilterPushDown::Unsupported;
            filters.len()
        ])
    }

    async fn insert_into(
        &self,
        state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.insert_into(state, input, op).await
    }

    async fn delete_from(
        &self,
        state: &dyn Session,
        filters: Vec<Expr>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.delete_from(state, filters).await
    }

    async fn update(
        &self,
        state: &dyn Session,
        assignments: Vec<(String, Expr)>,
        filters: Vec<Expr>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.update(state, assignments, filters).await
    }

    async fn truncate(&self, state: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.truncate(state).await
    }
}
