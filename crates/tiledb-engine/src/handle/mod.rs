//! An array as one value: open it, inspect it, read its cells as record batches, insert rows.
//!
//! [`Array::open`] reads the state of the array at that moment: its schema, its fragments, the box around its cells. Later
//! writes don't change it, so descriptions and cells agree. [`Array::scan`] selects cells, and [`ArrayScan::stream`] reads them
//! as [`RecordBatch`](arrow::array::RecordBatch)es. Everything needs a tokio runtime, and nothing else.
//!
//! ```
//! use futures::TryStreamExt;
//! use tiledb_engine::Array;
//!
//! # async fn example() -> tiledb_engine::Result<()> {
//! let weather = Array::open("../../examples/data/weather_stations").await?;
//! let mut batches = weather
//!     .scan()
//!     .columns(["time", "temperature"])
//!     .range("station", "Bergen"..="Cairo")
//!     .stream()
//!     .await?;
//! while let Some(batch) = batches.try_next().await? {
//!     assert_eq!(batch.num_columns(), 2);
//! }
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
//! ```
//!
//! Dimension labels aren't columns here. For them, for conditions on attributes, and for inserts that are larger than memory,
//! see the crate `datafusion-tiledb`.

mod batches;
mod boxes;
mod casts;
mod description;
mod insert;
mod options;
mod ranges;
mod renewal;
mod scan;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;

pub use self::batches::ArrayBatches;
pub use self::boxes::{DenseBox, DenseBoxTile, DenseBoxTiles};
pub use self::description::{ArrowValue, DimensionRange, FragmentInfo};
pub use self::insert::ArrayInsert;
pub use self::options::OpenOptions;
pub use self::scan::ArrayScan;

use crate::array::metadata;
use crate::array::snapshot::Snapshot;
use crate::array::table::ArrayTable;
use crate::error::{Error, Result};
use crate::maintain::check::{Check, CheckOptions, check};
use crate::maintain::consolidate::{ConsolidateOptions, consolidate};
use crate::maintain::report::ReportRow;
use crate::maintain::vacuum::{VacuumOptions, vacuum};
use crate::storage::Storage;

/// An array at the time it was opened. Clones share everything.
///
/// ```
/// use tiledb_engine::Array;
///
/// # async fn example() -> tiledb_engine::Result<()> {
/// let weather = Array::open("../../examples/data/weather_stations").await?;
/// assert!(!weather.is_dense());
/// assert_eq!(weather.dimensions(), ["station", "time"]);
/// for fragment in weather.fragments()? {
///     println!("{} has {:?} cells in {:?}", fragment.name, fragment.cells, fragment.non_empty_domain);
/// }
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Array {
    table: Arc<ArrayTable>,
    options: OpenOptions,
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Array").field(&self.uri()).finish()
    }
}

impl Array {
    /// Opens an array in its current state. The location is a local path, a `file://` URL, a
    /// [`Location`](crate::Location) in an object store, or a [`Storage`]. For a time, a key or other options, see
    /// [`OpenOptions`].
    ///
    /// # Errors
    /// There is no array, it can't be read, or it is encrypted.
    pub async fn open(location: impl TryInto<Storage, Error: Into<Error>>) -> Result<Self> {
        OpenOptions::new().open(location).await
    }

    /// The location of the array as it was given, without secrets.
    pub fn uri(&self) -> &str {
        self.snapshot().storage.uri()
    }

    /// The columns: dimensions, then attributes. The metadata of their fields have the stored types.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.table.schema)
    }

    /// The names of the dimension columns, in order.
    pub fn dimensions(&self) -> Vec<String> {
        let columns = self.table.schema.fields().iter();
        let columns = columns.map(|field| field.name().clone());
        columns.take(self.table.dimension_count()).collect()
    }

    /// Whether every cell of the domain exists, instead of only the written ones.
    pub fn is_dense(&self) -> bool {
        self.snapshot().schema.is_dense()
    }

    /// The fragments that the array is read from, oldest first. Fragments that others replace, and those outside the
    /// window of time, are not included.
    ///
    /// # Errors
    /// A fragment's metadata contradict the schema.
    pub fn fragments(&self) -> Result<Vec<FragmentInfo>> {
        let fragments = self.snapshot().fragments.iter();
        let dimensions = self.dimensions();
        fragments
            .map(|fragment| FragmentInfo::of(fragment, &dimensions, &self.table.options))
            .collect()
    }

    /// The box around the cells of all fragments, one range for each dimension; `None` if nothing was written.
    ///
    /// It comes from the fragments' metadata, as in libtiledb. Cells that were later deleted or overwritten are
    /// included. For a float dimension it never includes NaN, and if there is a NaN coordinate, the box may also miss
    /// numbers: libtiledb loses some of those it compares with NaN. Of dates before 1970 that libtiledb 1.6 and 1.7
    /// wrote, some may lie outside. Scans do not rely on it in these cases and miss no cell.
    pub fn non_empty_domain(&self) -> Option<Vec<DimensionRange>> {
        description::non_empty_domain(self.snapshot(), &self.dimensions(), &self.table.options)
    }

    /// The key-value metadata of the array at the time at which it was opened.
    ///
    /// Text is `Utf8View`; a number, date or time has the type that a column would have; several of them are a `List`. Values
    /// that the type can't hold (text that isn't UTF-8, dates beyond Arrow's range) are the stored bytes as `BinaryView`.
    /// Bytes of a key that aren't UTF-8 show as `\x80`.
    ///
    /// ```
    /// use tiledb_engine::Array;
    ///
    /// # async fn example() -> tiledb_engine::Result<()> {
    /// let array = Array::open("../../examples/data/metadata").await?;
    /// let metadata = array.metadata().await?;
    /// assert_eq!(metadata["scale"].to_string(), "0.5");
    /// assert_eq!(metadata["title"].to_string(), "second title");
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    /// A file of metadata can't be read.
    pub async fn metadata(&self) -> Result<BTreeMap<String, ArrowValue>> {
        let Snapshot {
            storage, window, ..
        } = self.snapshot();
        let items = metadata::load(storage, window).await?.into_iter();
        Ok(items.map(description::key_and_value).collect())
    }

    /// Starts a scan: of all columns of all cells, unless the [`ArrayScan`] is restricted.
    pub fn scan(&self) -> ArrayScan {
        ArrayScan::new(self.clone())
    }

    /// Starts an insert. Whoever opens the array afterwards sees what it writes; this `Array` stays as it was opened.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
    /// use tiledb_engine::{Array, ArrayBuilder, Location};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("levels").display().to_string();
    /// let hours: ArrayRef = Arc::new(Int64Array::from(vec![2, 1]));
    /// let levels: ArrayRef = Arc::new(Float64Array::from(vec![Some(0.25), None]));
    /// let rows = RecordBatch::try_from_iter_with_nullable([("hour", hours, false), ("level", levels, true)])?;
    /// ArrayBuilder::new(&rows.schema(), ["hour"])?.create(Location::local(&path)?).await?;
    ///
    /// let written = Array::open(&*path).await?.insert().batches([rows]).await?;
    /// assert_eq!(written, 2);
    /// assert_eq!(Array::open(&*path).await?.fragments()?.len(), 1);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn insert(&self) -> ArrayInsert {
        ArrayInsert::new(self.clone())
    }

    /// Merges fragments, commits, footers or metadata files of an array or a group, without changing any result. Replaced
    /// files stay until they are [vacuumed](Self::vacuum). For an encrypted array, see [`OpenOptions::storage`].
    ///
    /// ```
    /// use tiledb_engine::{Array, ConsolidateMode, ConsolidateOptions};
    ///
    /// # async fn example() -> tiledb_engine::Result<()> {
    /// let mut options = ConsolidateOptions::new(ConsolidateMode::Fragments);
    /// options.dry_run = true;
    /// options.grouping.max_bytes = 64 << 20;
    /// for row in Array::consolidate("../../examples/data/weather_stations", options).await? {
    ///     println!("{} {}", row.gain, row.outcome);
    /// }
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    /// There is no array, it is damaged, another writer changed it meanwhile, or the store fails.
    pub async fn consolidate(
        location: impl TryInto<Storage, Error: Into<Error>>,
        options: ConsolidateOptions,
    ) -> Result<Vec<ReportRow>> {
        consolidate(location.try_into().map_err(Into::into)?, options).await
    }

    /// Removes replaced and left-over files from an array or a group.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tiledb_engine::{Array, VacuumMode, VacuumOptions};
    ///
    /// # async fn example() -> tiledb_engine::Result<()> {
    /// let mut options = VacuumOptions::new(VacuumMode::Leftovers);
    /// options.dry_run = true;
    /// options.min_age = Duration::from_secs(3600);
    /// assert!(Array::vacuum("../../examples/data/weather_stations", options).await?.is_empty());
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    /// There is no array, it is damaged, or the store fails.
    pub async fn vacuum(
        location: impl TryInto<Storage, Error: Into<Error>>,
        options: VacuumOptions,
    ) -> Result<Vec<ReportRow>> {
        vacuum(location.try_into().map_err(Into::into)?, options).await
    }

    /// Reads everything of an array or a group, and gives a stream of what is wrong with it and what is left over. Damaged
    /// arrays that can't be opened can be checked.
    ///
    /// ```
    /// use futures::TryStreamExt;
    /// use tiledb_engine::{Array, CheckOptions, Severity};
    ///
    /// # async fn example() -> tiledb_engine::Result<()> {
    /// let check = Array::check("../../examples/data/weather_stations", CheckOptions::default())?;
    /// let findings: Vec<_> = check.try_collect().await?;
    /// assert!(findings.iter().all(|finding| finding.severity() != Severity::Error));
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    /// The location isn't one of this machine.
    pub fn check(
        location: impl TryInto<Storage, Error: Into<Error>>,
        options: CheckOptions,
    ) -> Result<Check> {
        Ok(check(location.try_into().map_err(Into::into)?, options))
    }

    fn snapshot(&self) -> &Snapshot {
        &self.table.snapshot
    }
}

/// Names in quotes, for errors.
fn quoted<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names = names.map(|name| format!("\"{name}\""));
    names.collect::<Vec<_>>().join(", ")
}

fn at_least_one(what: &str, number: usize) -> Result<()> {
    match number {
        0 => Err(Error::invalid(format!("{what} is 0, expected at least 1"))),
        _ => Ok(()),
    }
}
