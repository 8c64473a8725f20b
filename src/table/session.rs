//! Sessions: methods to open arrays, and modification of existing ones in ways that DataFusion only allows for those
//! that are being built.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::session_state::SessionState;
use datafusion::prelude::{DataFrame, SessionContext};
use tiledb_engine::Location;
use tiledb_engine::memory::budget::MemoryBudget;

use crate::error::to_datafusion_error;
use crate::stores::budget::PoolBudget;
use crate::stores::location::locate;
use crate::stores::runtime::ArrayRuntime;
use crate::table::provider::TileDbTable;

/// Opens arrays in a session, as `read_parquet` and `register_parquet` do with files. URLs are read through the object
/// stores of the session. For options, see [`TileDbTable::builder`].
///
/// ```
/// use datafusion::prelude::*;
/// use datafusion_tiledb::TileDbSessionExt;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let ctx = SessionContext::new();
/// datafusion_tiledb::register(&ctx)?;
/// let weather = ctx.read_tiledb("./examples/data/weather_stations").await?;
/// let cold = weather.filter(col("temperature").lt(lit(-10)))?;
/// assert!(cold.count().await? > 0);
///
/// ctx.register_tiledb("weather", "./examples/data/weather_stations").await?;
/// let stations = ctx.sql("SELECT DISTINCT station FROM weather").await?;
/// assert_eq!(stations.count().await?, 8);
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
pub trait TileDbSessionExt {
    /// The array at a path or URL, in its current state, as a [`DataFrame`].
    ///
    /// Fails if there is no array, or if the session has no object store for the URL.
    fn read_tiledb(&self, uri: &str) -> impl Future<Output = Result<DataFrame>> + Send;

    /// The location of a path or URL, with the object store of the session that holds it. Builders that create or change
    /// an array or a group take it, and so do [`Array::open`](crate::Array::open) and [`TileDbTable::open`].
    ///
    /// Fails if the session has no object store for the URL.
    ///
    /// ```
    /// use datafusion::arrow::datatypes::{DataType, Field, Schema};
    /// use datafusion::prelude::SessionContext;
    /// use datafusion_tiledb::{ArrayBuilder, MetadataEdit, TileDbSessionExt};
    /// use object_store::memory::InMemory;
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let ctx = SessionContext::new();
    /// let bucket = url::Url::parse("s3://bucket")?;
    /// ctx.register_object_store(&bucket, std::sync::Arc::new(InMemory::new()));
    /// let readings = ctx.tiledb_location("s3://bucket/readings")?;
    /// let columns = Schema::new(vec![Field::new("id", DataType::Int64, false)]);
    /// ArrayBuilder::new(&columns, ["id"])?.create(readings.clone()).await?;
    /// MetadataEdit::new().set("title", "readings of the harbour")?.apply(readings).await?;
    /// assert_eq!(ctx.read_tiledb("s3://bucket/readings").await?.count().await?, 0);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
    /// ```
    fn tiledb_location(&self, uri: &str) -> Result<Location>;

    /// The memory pool of the session, as a budget for scans, inserts, checks and consolidations without SQL. `consumer` is the
    /// name under which the pool shows what they have reserved.
    ///
    /// ```
    /// use datafusion::prelude::SessionContext;
    /// use datafusion_tiledb::{Array, TileDbSessionExt};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let ctx = SessionContext::new();
    /// let weather = Array::open(ctx.tiledb_location("./examples/data/weather_stations")?).await?;
    /// let rows = weather.scan().memory(ctx.tiledb_budget("weather")).collect().await?;
    /// assert!(!rows.is_empty());
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
    /// ```
    fn tiledb_budget(&self, consumer: &str) -> Arc<dyn MemoryBudget>;

    /// Registers the array at a path or URL as the table `name`. Each query reads its current state.
    ///
    /// Fails if there is no array, if the session has no object store for the URL, or if the table exists already.
    fn register_tiledb(&self, name: &str, uri: &str) -> impl Future<Output = Result<()>> + Send;
}

impl TileDbSessionExt for SessionContext {
    async fn read_tiledb(&self, uri: &str) -> Result<DataFrame> {
        let table = TileDbTable::builder(uri)
            .session(self)
            .open()
            .await
            .map_err(to_datafusion_error)?;
        self.read_table(Arc::new(table))
    }

    fn tiledb_location(&self, uri: &str) -> Result<Location> {
        locate(uri, &ArrayRuntime::of_context(self)).map_err(to_datafusion_error)
    }

    fn tiledb_budget(&self, consumer: &str) -> Arc<dyn MemoryBudget> {
        let runtime = ArrayRuntime::of_context(self);
        Arc::new(PoolBudget::named(
            consumer,
            &runtime.memory_pool,
            runtime.engine(),
        ))
    }

    async fn register_tiledb(&self, name: &str, uri: &str) -> Result<()> {
        let table = TileDbTable::builder(uri)
            .session(self)
            .open()
            .await
            .map_err(to_datafusion_error)?;
        self.register_table(name, Arc::new(table))?;
        Ok(())
    }
}

/// Rebuilds a state from its parts, in place, so that all holders see the new one. Prepared statements are lost. If
/// building fails, the state is unchanged.
pub(crate) fn rebuild<E>(
    state: &mut SessionState,
    change: impl FnOnce(&mut SessionStateBuilder) -> Result<(), E>,
) -> Result<(), E> {
    let options = state.config().options();
    let creates_catalog = options.catalog.create_default_catalog_and_schema;
    let mut builder = SessionStateBuilder::new_from_existing(state.clone())
        .with_session_id(state.session_id().to_owned());
    change(&mut builder)?;
    let mut changed = builder.build();
    // This setting keeps the builder from replacing the existing catalog by an empty one.
    let options = changed.config_mut().options_mut();
    options.catalog.create_default_catalog_and_schema = creates_catalog;
    *state = changed;
    Ok(())
}
