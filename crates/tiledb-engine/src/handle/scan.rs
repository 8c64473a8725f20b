//! The builder of a scan of an array.

use std::num::NonZero;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::thread::available_parallelism;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::stream::select_all;
use futures::{StreamExt, TryStreamExt};

use super::batches::ArrayBatches;
use super::boxes::DenseBox;
use super::ranges::CoordinateRange;
use super::{Array, at_least_one, quoted, renewal};
use crate::error::{Error, Result};
use crate::geometry::subarray::{DimRanges, Subarray};
use crate::memory::budget::{MemoryBudget, UnlimitedBudget};
use crate::scan::coalesce::coalesce;
use crate::scan::context::ScanContext;
use crate::scan::metrics::ScanMetrics;
use crate::scan::stream::read_units;
use crate::scan::units::UnitPool;
use crate::scan::{EmptyCells, ScanPlan, ScanSpec, ScanWays};
use crate::write::create::LiteralValue;

/// The number of rows of a batch, unless another one is chosen.
const BATCH_ROWS: usize = 8192;
/// Room for all rows of a batch is taken at once.
const MOST_BATCH_ROWS: usize = 1 << 24;

/// Selects the columns and cells of an [`Array`] to read. Nothing is read or checked before [`stream`](Self::stream),
/// [`streams`](Self::streams) or [`collect`](Self::collect). Rows come in no particular order.
#[derive(Debug, Clone)]
#[must_use = "a scan reads nothing before it is streamed or collected"]
pub struct ArrayScan {
    array: Array,
    columns: Option<Vec<String>>,
    ranges: Vec<CoordinateRange>,
    at: Option<u64>,
    limit: Option<usize>,
    batch_size: usize,
    partitions: Option<usize>,
    memory: Arc<dyn MemoryBudget>,
}

impl ArrayScan {
    pub(super) fn new(array: Array) -> Self {
        Self {
            array,
            columns: None,
            ranges: Vec::new(),
            at: None,
            limit: None,
            batch_size: BATCH_ROWS,
            partitions: None,
            memory: Arc::new(UnlimitedBudget),
        }
    }

    /// Reads only these columns, in this order. Without any, rows have no columns.
    pub fn columns(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.columns = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Reads only cells whose coordinate lies in this range. Several ranges of one dimension are alternatives; ranges of
    /// different dimensions must all hold.
    ///
    /// The ends are numbers or text, which must be values of the dimension's type: 300 and 0.5 aren't, for a dimension of
    /// bytes. For a dimension of `Float32`, they are rounded to the nearest one. Dates and times are given as text, or as the stored number of units since 1970. NaN lies above all numbers.
    ///
    /// ```
    /// # async fn example() -> tiledb_engine::Result<()> {
    /// # use tiledb_engine::Array;
    /// let weather = Array::open("../../examples/data/weather_stations").await?;
    /// let scan = weather
    ///     .scan()
    ///     .range("station", "Bergen"..="Bergen")
    ///     .range("station", "Nuuk"..="Oslo")
    ///     .range("time", "2024-01-15".."2024-02-01");
    /// assert!(!scan.collect().await?.is_empty());
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn range<T: Clone + Into<LiteralValue>>(
        mut self,
        dimension: impl Into<String>,
        range: impl RangeBounds<T>,
    ) -> Self {
        let range = CoordinateRange::new(dimension.into(), &range);
        self.ranges.push(range);
        self
    }

    /// Reads the array as of another time, in milliseconds since 1970. The array is listed again for it.
    pub fn at(mut self, timestamp_ms: u64) -> Self {
        self.at = Some(timestamp_ms);
        self
    }

    /// Reads at most this many rows, whichever come first.
    pub fn limit(mut self, rows: usize) -> Self {
        self.limit = Some(rows);
        self
    }

    /// Sets the number of rows in a batch; the last batches may have fewer. The default is 8192.
    pub fn batch_size(mut self, rows: usize) -> Self {
        self.batch_size = rows;
        self
    }

    /// Sets the most partitions that are read at the same time. The default is the number of processors.
    pub fn partitions(mut self, partitions: usize) -> Self {
        self.partitions = Some(partitions);
        self
    }

    /// Reserves memory from this budget. By default, there is no limit.
    pub fn memory(mut self, budget: Arc<dyn MemoryBudget>) -> Self {
        self.memory = budget;
        self
    }

    /// Reads all partitions into one stream. If fragments are vacuumed before its first rows come, they come from the fragments
    /// that took over the cells.
    ///
    /// # Errors
    /// A column doesn't exist or can't be read, a range isn't of a dimension or doesn't fit it, or the array can't be read
    /// as of the requested time.
    pub async fn stream(self) -> Result<ArrayBatches> {
        let plan = self.plan().await?;
        let shown = self.array.options.shown;
        Ok(renewal::rows(move |plan| self.merged(plan), plan, shown))
    }

    /// Reads each partition as its own stream. The streams may be polled on different threads, and balance work between each
    /// other. With a [limit](Self::limit), there is one stream.
    ///
    /// # Errors
    /// Those of [`stream`](Self::stream).
    pub async fn streams(self) -> Result<Vec<ArrayBatches>> {
        let plan = self.plan().await?;
        if self.limit.is_some() {
            let shown = self.array.options.shown;
            return Ok(vec![renewal::rows(
                move |plan| self.merged(plan),
                plan,
                shown,
            )]);
        }
        Ok(self.divided(&plan))
    }

    /// Reads a box of a dense array tile by tile, without coordinates. The box holds the cells within the ranges. Each dimension
    /// takes at most one range. Cells that were never written have the fill value, even outside the box around the written ones.
    /// The [limit](Self::limit) and the [batch size](Self::batch_size) have no effect.
    ///
    /// ```
    /// use futures::TryStreamExt;
    /// use tiledb_engine::OpenOptions;
    ///
    /// # async fn example() -> tiledb_engine::Result<()> {
    /// let elevation = OpenOptions::new()
    ///     .stored_values()
    ///     .open("../../examples/data/elevation")
    ///     .await?;
    /// let corner = elevation.scan().columns(["height"]).range("y", 0..2).range("x", 0..3);
    /// let corner = corner.dense_box().await?;
    /// assert_eq!(corner.shape(), [2, 3]);
    /// let mut heights = vec![0_u8; 2 * 3 * size_of::<i16>()];
    /// for mut tiles in corner.streams() {
    ///     while let Some(tile) = tiles.try_next().await? {
    ///         tile.for_each_run(0, |cell, values| {
    ///             let at = cell * size_of::<i16>();
    ///             heights[at..at + values.len()].copy_from_slice(values);
    ///         })?;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    /// Those of [`stream`](Self::stream); the array is sparse, or a dimension has several ranges.
    pub async fn dense_box(mut self) -> Result<DenseBox> {
        if !self.array.is_dense() {
            let error = Error::invalid(
                "boxes can only be read from dense arrays, and this one is sparse: scan its rows",
            );
            return Err(error.with("array", self.array.uri()));
        }
        self.array.options.shown.empty_cells = EmptyCells::Domain;
        let plan = self.plan().await?;
        let partitions = self.most_partitions();
        DenseBox::new(plan, self.memory, partitions)
    }

    /// Reads all rows into memory.
    ///
    /// # Errors
    /// Those of [`stream`](Self::stream), and errors while cells are read.
    pub async fn collect(self) -> Result<Vec<RecordBatch>> {
        self.stream().await?.try_collect().await
    }

    fn merged(&self, plan: &Arc<ScanPlan>) -> ArrayBatches {
        let schema = plan.spec.output_schema();
        // Tiles are decoded on threads of the engine, so one task can poll all partitions.
        let rows = select_all(self.divided(plan));
        let failed = |e| Error::internal("batches can't be combined").with_source(e);
        let batches = coalesce(
            rows,
            Arc::clone(&schema),
            self.batch_size,
            self.limit,
            failed,
        );
        let batches = batches.boxed();
        ArrayBatches::new(schema, batches)
    }

    fn divided(&self, plan: &Arc<ScanPlan>) -> Vec<ArrayBatches> {
        let schema = plan.spec.output_schema();
        let pool = Arc::<UnitPool>::default();
        let run = Arc::new(self.clone());
        let partitions = plan.partitions(self.most_partitions()).into_iter();
        let streams = partitions.enumerate().map(|(partition, units)| {
            let units = pool.join(Arc::clone(&run) as _, partition, units);
            let metrics = Arc::<ScanMetrics>::default();
            let context = ScanContext::new(Arc::clone(plan), Arc::clone(&self.memory), metrics);
            let failed = |e| Error::internal("batches can't be combined").with_source(e);
            let (rows, schema) = (read_units(context, units), Arc::clone(&schema));
            let batches = coalesce(rows, Arc::clone(&schema), self.batch_size, None, failed);
            let batches = batches.boxed();
            ArrayBatches::new(schema, batches)
        });
        streams.collect()
    }

    /// The most partitions that are read at the same time.
    fn most_partitions(&self) -> usize {
        let processors = || available_parallelism().map_or(1, NonZero::get);
        self.partitions.unwrap_or_else(processors)
    }

    async fn plan(&self) -> Result<Arc<ScanPlan>> {
        let array = match self.at {
            Some(end) => self.array.reopened(end).await?,
            None => self.array.clone(),
        };
        let located = |e: Error| e.with("array", array.uri());
        at_least_one("batch_size", self.batch_size).map_err(located)?;
        if self.batch_size > MOST_BATCH_ROWS {
            let size = self.batch_size;
            let message = format!("batch_size is {size}, expected at most {MOST_BATCH_ROWS}");
            return Err(located(Error::invalid(message)));
        }
        at_least_one("partitions", self.partitions.unwrap_or(1)).map_err(located)?;
        let shown = &array.options.shown;
        let spec = ScanSpec {
            projection: self.projection(&array).map_err(located)?,
            subarray: Arc::new(self.subarray(&array).map_err(located)?),
            table: Arc::clone(&array.table),
            predicate: None,
            empty_cells: shown.empty_cells,
            all_versions: shown.all_versions,
            ways: ScanWays::default(),
        };
        renewal::plan(spec, shown).await
    }

    fn projection(&self, array: &Array) -> Result<Vec<usize>> {
        let schema = &array.table.schema;
        let projection = match &self.columns {
            None => (0..schema.fields().len()).collect(),
            Some(names) => {
                let columns = names.iter().enumerate().map(|(at, name)| {
                    if names.iter().take(at).any(|earlier| earlier == name) {
                        let message =
                            format!("the column \"{name}\" is requested twice, expected once");
                        return Err(Error::invalid(message));
                    }
                    column(name, schema)
                });
                columns.collect::<Result<Vec<_>>>()?
            }
        };
        // If a column can't be read, the scan fails even if the array has no tiles.
        for number in &projection {
            let column = array.table.types.get(*number);
            column
                .map_or(Ok(()), |ty| ty.check_readable())
                .map_err(|why| {
                    let name = schema.field(*number).name();
                    let message =
                        format!("\"{name}\" cannot be read; name other columns, which can");
                    Error::new(why.kind(), message).with_source(why)
                })?;
        }
        Ok(projection)
    }

    fn subarray(&self, array: &Array) -> Result<Subarray> {
        let dimensions = array.dimensions();
        let mut selected = vec![None::<DimRanges>; dimensions.len()];
        for range in &self.ranges {
            let name = &range.dimension;
            let schema = &array.snapshot().schema;
            let number = dimensions.iter().position(|dimension| dimension == name);
            let found = number.and_then(|number| {
                let slot = selected.get_mut(number)?;
                Some((slot, schema.dimensions.get(number)?))
            });
            let Some((slot, dimension)) = found else {
                column(name, &array.table.schema)?;
                return Err(Error::invalid(format!(
                    "\"{name}\" isn't a dimension, expected one of {}",
                    quoted(dimensions.iter())
                )));
            };
            let more = range.selected(dimension)?;
            *slot = Some(match slot.take() {
                Some(others) => others.union(&more),
                None => more,
            });
        }
        let mut subarray = Subarray::all(dimensions.len());
        for (dimension, ranges) in selected.into_iter().enumerate() {
            subarray.set_dim(dimension, ranges.unwrap_or(DimRanges::All));
        }
        Ok(subarray)
    }
}

/// The number of a column.
fn column(name: &str, schema: &SchemaRef) -> Result<usize> {
    schema.index_of(name).map_err(|_| {
        let known = schema.fields().iter().map(|field| field.name());
        Error::invalid(format!(
            "there is no column \"{name}\", expected one of {}",
            quoted(known)
        ))
    })
}
