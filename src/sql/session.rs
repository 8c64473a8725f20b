//! Methods to open arrays on a session.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::prelude::{DataFrame, SessionContext};

use super::provider::TileDbTable;

/// Opens arrays in a session, as `read_parquet` and `register_parquet` do with files. URLs are read through the object
/// stores of the session. For options, see [`TileDbTable::builder`].
///
/// ```
/// use datafusion::prelude::*;
/// use datafusion_tiledb::TileDbSessionExt;
///
/// # async fn example() -> datafusion::error::Result<()> {
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

    /// Registers the array at a path or URL as the table `name`. Each query reads its current state.
    ///
    /// Fails if there is no array, if the session has no object store for the URL, or if the table exists already.
    fn register_tiledb(&self, name: &str, uri: &str) -> impl Future<Output = Result<()>> + Send;
}

impl TileDbSessionExt for SessionContext {
    async fn read_tiledb(&self, uri: &str) -> Result<DataFrame> {
        let table = TileDbTable::builder(uri).session(self).open().await?;
        self.read_table(Arc::new(table))
    }

    async fn register_tiledb(&self, name: &str, uri: &str) -> Result<()> {
        let table = TileDbTable::builder(uri).session(self).open().await?;
        self.register_table(name, Arc::new(table))?;
        Ok(())
    }
}
