//! Arrays without SQL: open one, inspect it, read some of its cells, write others.
//!
//! [`Array::open`] reads the state of the array at that moment: its schema, its fragments, the box around its cells.
//! Later writes do not change it, so that descriptions and cells agree. [`Array::scan`] selects cells, and
//! [`ArrayScan::stream`] reads them as [`RecordBatch`](arrow::array::RecordBatch)es. No session and no SQL are needed,
//! only a tokio runtime.
//!
//! Scans are planned and run like those of queries: the rows are those of `SELECT columns FROM array WHERE filters`,
//! and the same tiles and columns are skipped. [`Array::insert`] writes rows as INSERT does.
//!
//! ```
//! use datafusion::prelude::{ident, lit};
//! use datafusion_tiledb::Array;
//! use futures::TryStreamExt;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let weather = Array::open("./examples/data/weather_stations").await?;
//! let mut batches = weather
//!     .scan()
//!     .columns(["time", "temperature"])
//!     .range("station", "Bergen"..="Cairo")
//!     .filter(ident("temperature").lt(lit(0.0)))
//!     .stream()
//!     .await?;
//! while let Some(batch) = batches.try_next().await? {
//!     assert_eq!(batch.num_columns(), 2);
//! }
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
//! ```

mod facts;
mod insert;
mod maintenance;
mod range;
mod scan;
mod session;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::scalar::ScalarValue;

pub use self::facts::{DimensionRange, FragmentInfo};
pub use self::insert::ArrayInsert;
pub use self::scan::ArrayScan;
use tiledb_engine::Result;
use tiledb_engine::array::metadata;
use tiledb_engine::array::snapshot::Snapshot;

use crate::TileDbTable;
use crate::TileDbTableBuilder;
use crate::options::TableOptions;

/// An array at the time it was opened. Clones share everything.
///
/// ```
/// use datafusion_tiledb::Array;
///
/// # async fn example() -> datafusion_tiledb::Result<()> {
/// let weather = Array::open("./examples/data/weather_stations").await?;
/// assert!(!weather.is_dense());
/// assert_eq!(weather.dimensions(), ["station", "time"]);
/// assert_eq!(weather.schema().field(0).name(), "station");
/// for fragment in weather.fragments()? {
///     println!("{} has {:?} cells in {:?}", fragment.name, fragment.cells, fragment.non_empty_domain);
/// }
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Array {
    table: Arc<TileDbTable>,
    snapshot: Arc<Snapshot>,
    runtime: Arc<RuntimeEnv>,
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Array").field(&self.uri()).finish()
    }
}

impl TileDbTableBuilder {
    /// Opens the array for reading without SQL.
    ///
    /// Of a [given](Self::session) session, its scans use only the object stores, the memory pool and the engine.
    pub async fn open_array(self) -> Result<Array> {
        let (storage, options, runtime) = self.into_parts()?;
        let snapshot = Arc::new(Snapshot::open(&storage, options.window()?).await?);
        let table = TileDbTable::of_snapshot(storage, options, &snapshot)?;
        Ok(Array {
            table: Arc::new(table),
            snapshot,
            runtime: runtime.map_or_else(Arc::default, |runtime| Arc::clone(runtime.env())),
        })
    }
}

impl Array {
    /// Opens the array at a local path or `file://` URL in its current state.
    ///
    /// # Errors
    /// There is no array, it cannot be read, or it is encrypted and no key is known.
    pub async fn open(uri: impl Into<String>) -> Result<Self> {
        Self::builder(uri).open_array().await
    }

    /// Opens an array with options: in an object store, at a time, with a key. The builder is that of a table, and ends
    /// with [`open_array`](TileDbTableBuilder::open_array).
    ///
    /// ```
    /// # async fn example() -> datafusion_tiledb::Result<()> {
    /// use datafusion_tiledb::Array;
    ///
    /// let before_the_correction = Array::builder("./examples/data/weather_stations")
    ///     .timestamp_end(1000)
    ///     .open_array()
    ///     .await?;
    /// assert_eq!(before_the_correction.fragments()?.len(), 1);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn builder(uri: impl Into<String>) -> TileDbTableBuilder {
        TileDbTable::builder(uri)
    }

    /// The location of the array as it was given, without secrets.
    pub fn uri(&self) -> &str {
        self.snapshot.storage.uri()
    }

    /// The columns: dimensions, then attributes, then dimension labels. Their metadata have the stored types.
    pub fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    /// The names of the dimension columns, in order.
    pub fn dimensions(&self) -> Vec<String> {
        let schema = self.schema();
        let columns = schema.fields().iter().map(|field| field.name().clone());
        columns.take(self.dimension_count()).collect()
    }

    /// Whether every cell of the domain exists, instead of only the written ones.
    pub fn is_dense(&self) -> bool {
        self.snapshot.schema.is_dense()
    }

    /// The fragments that the array is read from, oldest first. Fragments that others replace, and those outside the
    /// window of time, are not included.
    ///
    /// # Errors
    /// A fragment's metadata contradict the schema.
    pub fn fragments(&self) -> Result<Vec<FragmentInfo>> {
        let fragments = self.snapshot.fragments.iter();
        let types = self.table.options().types();
        let dimensions = self.dimensions();
        fragments
            .map(|fragment| FragmentInfo::of(fragment, &dimensions, &types))
            .collect()
    }

    /// The box around the cells of all fragments, one range for each dimension; `None` if nothing was written.
    ///
    /// It comes from the fragments' metadata, as in libtiledb. Cells that were later deleted or overwritten are
    /// included. For a float dimension it never includes NaN, and if there is a NaN coordinate, the box may also miss
    /// numbers: libtiledb loses some of those it compares with NaN. Of dates before 1970 that libtiledb 1.6 and 1.7
    /// wrote, some may lie outside. Scans do not rely on it in these cases and miss no cell.
    pub fn non_empty_domain(&self) -> Option<Vec<DimensionRange>> {
        let types = self.table.options().types();
        facts::non_empty_domain(&self.snapshot, &self.dimensions(), &types)
    }

    /// The key-value metadata of the array at the time at which it was opened.
    ///
    /// Text is `Utf8View`; a number, date or time is a scalar of the type that a column would have; several of them are
    /// a `List`. Values that the type cannot hold (text that is not UTF-8, dates beyond Arrow's range) are the stored
    /// bytes as `BinaryView`. Bytes of a key that are not UTF-8 are shown as `\x80`.
    ///
    /// ```
    /// use datafusion::scalar::ScalarValue;
    /// use datafusion_tiledb::Array;
    ///
    /// # async fn example() -> datafusion_tiledb::Result<()> {
    /// let array = Array::open("./examples/data/metadata").await?;
    /// let metadata = array.metadata().await?;
    /// assert_eq!(metadata["scale"], ScalarValue::Float64(Some(0.5)));
    /// assert_eq!(metadata["title"].try_as_str(), Some(Some("second title")));
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    /// A file of metadata cannot be read.
    pub async fn metadata(&self) -> Result<BTreeMap<String, ScalarValue>> {
        let (storage, window) = (&self.snapshot.storage, &self.snapshot.window);
        let items = metadata::load(storage, window).await?.into_iter();
        items.map(facts::key_and_value).collect()
    }

    /// Starts a scan: of all columns of all cells, unless the [`ArrayScan`] is restricted.
    pub fn scan(&self) -> ArrayScan {
        ArrayScan::new(self.clone())
    }

    fn dimension_count(&self) -> usize {
        self.snapshot.schema.dimensions.len()
    }

    /// The array as a table, at another time if one is given.
    async fn table_at(&self, end: Option<u64>) -> Result<Arc<TileDbTable>> {
        if end.is_none() {
            return Ok(Arc::clone(&self.table));
        }
        let storage = self.table.storage();
        let options = TableOptions {
            timestamp_end: end,
            ..self.table.options().clone()
        };
        let snapshot = self.snapshot.reopen(storage, options.window()?).await?;
        let table = TileDbTable::of_snapshot(storage.clone(), options, &snapshot)?;
        Ok(Arc::new(table))
    }
}
