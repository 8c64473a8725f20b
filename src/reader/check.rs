//! The check of an array without SQL.

use std::sync::Arc;

use super::Array;
use crate::error::Result;
use crate::maintain::check::{Check, CheckOptions, check};
use crate::sql::TileDbTableBuilder;
use crate::sql::budget::PoolBudget;

impl Array {
    /// Reads everything of the array or the group at a local path or `file://` URL, and gives a stream of what is wrong
    /// with it and what is left over. Damaged arrays that cannot be opened can be checked.
    ///
    /// ```
    /// use datafusion_tiledb::{Array, Severity};
    /// use futures::TryStreamExt;
    ///
    /// # async fn example() -> datafusion_tiledb::Result<()> {
    /// let findings: Vec<_> = Array::check("./examples/data/weather_stations")?.try_collect().await?;
    /// assert!(findings.iter().all(|finding| finding.severity() != Severity::Error));
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    /// The path is no path of this machine.
    pub fn check(uri: impl Into<String>) -> Result<Check> {
        Self::builder(uri).check(CheckOptions::default())
    }
}

impl TileDbTableBuilder {
    /// Checks the array or the group instead of opening it; see [`Array::check`].
    ///
    /// The key is the only option of a table that counts: a check looks at all times. Of a [given](Self::session) session it
    /// uses the object stores and the memory pool.
    ///
    /// # Errors
    /// There is no object store for the URL.
    pub fn check(self, options: CheckOptions) -> Result<Check> {
        let (storage, _, runtime) = self.into_parts()?;
        let options = match runtime {
            Some(runtime) => {
                let budget = PoolBudget::named("TileDbCheck", &runtime.memory_pool);
                options.with_budget(Arc::new(budget))
            }
            None => options,
        };
        Ok(check(storage, options))
    }
}
