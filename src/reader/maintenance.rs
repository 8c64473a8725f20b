//! Check, consolidation and vacuum without SQL.

use std::sync::Arc;

use tiledb_engine::Result;
use tiledb_engine::maintain::check::{Check, CheckOptions, check};
use tiledb_engine::maintain::consolidate::{ConsolidateOptions, consolidate};
use tiledb_engine::maintain::report::ReportRow;
use tiledb_engine::maintain::vacuum::{VacuumOptions, vacuum};

use super::Array;
use crate::TileDbTableBuilder;
use crate::stores::budget::PoolBudget;

impl Array {
    /// Merges fragments, commits, footers or metadata files of the array or the group at a local path or `file://` URL,
    /// without changing any result. Replaced files stay until they are [vacuumed](Self::vacuum).
    ///
    /// ```
    /// use datafusion_tiledb::{Array, ConsolidateMode, ConsolidateOptions};
    ///
    /// # async fn example() -> datafusion_tiledb::Result<()> {
    /// let mut options = ConsolidateOptions::new(ConsolidateMode::Fragments);
    /// options.dry_run = true;
    /// options.grouping.max_bytes = 64 << 20;
    /// for row in Array::consolidate("./examples/data/weather_stations", options).await? {
    ///     println!("{} {}", row.gain, row.outcome);
    /// }
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    /// There is no array, it is damaged, another writer changed it meanwhile, or the disk fails.
    pub async fn consolidate(
        uri: impl Into<String>,
        options: ConsolidateOptions,
    ) -> Result<Vec<ReportRow>> {
        Self::builder(uri).consolidate(options).await
    }

    /// Removes replaced and left-over files from the array or the group at a local path or `file://` URL.
    ///
    /// ```
    /// use std::time::Duration;
    /// use datafusion_tiledb::{Array, VacuumMode, VacuumOptions};
    ///
    /// # async fn example() -> datafusion_tiledb::Result<()> {
    /// let mut options = VacuumOptions::new(VacuumMode::Leftovers);
    /// options.dry_run = true;
    /// options.min_age = Duration::from_secs(3600);
    /// assert!(Array::vacuum("./examples/data/weather_stations", options).await?.is_empty());
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    /// There is no array, it is damaged, or the disk fails.
    pub async fn vacuum(uri: impl Into<String>, options: VacuumOptions) -> Result<Vec<ReportRow>> {
        Self::builder(uri).vacuum(options).await
    }
}

impl TileDbTableBuilder {
    /// Consolidates the array or the group instead of opening it; see [`Array::consolidate`].
    ///
    /// Only the encryption key is used of the options, and only the object stores, the memory pool and the engine of a
    /// [given](Self::session) session.
    ///
    /// # Errors
    /// There is no object store for the URL, or the consolidation fails.
    pub async fn consolidate(self, options: ConsolidateOptions) -> Result<Vec<ReportRow>> {
        let (storage, _, runtime) = self.into_parts()?;
        let mut options = options;
        if let Some(runtime) = runtime {
            let budget =
                PoolBudget::named("TileDbConsolidate", &runtime.memory_pool, storage.engine());
            options.budget = Arc::new(budget);
        }
        consolidate(storage, options).await
    }

    /// Vacuums the array or the group instead of opening it; see [`Array::vacuum`].
    ///
    /// # Errors
    /// There is no object store for the URL, or the vacuum fails.
    pub async fn vacuum(self, options: VacuumOptions) -> Result<Vec<ReportRow>> {
        let (storage, ..) = self.into_parts()?;
        vacuum(storage, options).await
    }
}

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
    /// The path isn't one of this machine.
    pub fn check(uri: impl Into<String>) -> Result<Check> {
        Self::builder(uri).check(CheckOptions::default())
    }
}

impl TileDbTableBuilder {
    /// Checks the array or the group instead of opening it; see [`Array::check`].
    ///
    /// The key is the only option of a table that counts: a check looks at all times. Of a [given](Self::session) session it
    /// uses the object stores, the memory pool and the engine.
    ///
    /// # Errors
    /// There is no object store for the URL.
    pub fn check(self, options: CheckOptions) -> Result<Check> {
        let (storage, _, runtime) = self.into_parts()?;
        let options = match runtime {
            Some(runtime) => {
                let budget =
                    PoolBudget::named("TileDbCheck", &runtime.memory_pool, storage.engine());
                options.with_budget(Arc::new(budget))
            }
            None => options,
        };
        Ok(check(storage, options))
    }
}
