//! The builder of a scan of an array.

use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, ident};
use datafusion::scalar::ScalarValue;
use tiledb_engine::Error;

use super::Array;
use super::range::{CoordinateRange, condition};
use super::session::SessionChoices;
use crate::error::to_datafusion_error;
use crate::expressions::evaluable::looks_beyond_row;

/// Selects the columns and cells of an [`Array`] to read. Nothing is read or checked before [`stream`](Self::stream),
/// [`streams`](Self::streams) or [`collect`](Self::collect).
///
/// Rows come in no particular order. A scan fails where a query for the same rows would fail; errors are DataFusion's,
/// with those of this crate as [`DataFusionError::External`](datafusion::error::DataFusionError::External).
#[derive(Debug, Clone)]
#[must_use = "a scan reads nothing before it is streamed or collected"]
pub struct ArrayScan {
    array: Array,
    columns: Option<Vec<String>>,
    ranges: Vec<CoordinateRange>,
    filters: Vec<Expr>,
    at: Option<u64>,
    limit: Option<usize>,
    session: SessionChoices,
}

impl ArrayScan {
    pub(super) fn new(array: Array) -> Self {
        Self {
            array,
            columns: None,
            ranges: Vec::new(),
            filters: Vec::new(),
            at: None,
            limit: None,
            session: SessionChoices::default(),
        }
    }

    /// Reads only these columns, in this order. Without any, rows have no columns.
    pub fn columns(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.columns = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Reads only cells whose coordinate lies in this range. Several ranges of one dimension are alternatives; ranges
    /// of different dimensions must all hold.
    ///
    /// The ends are numbers, text, or any [`ScalarValue`]. They are cast to the type of the dimension's column, and it
    /// is an error if that changes them: 300 or 0.5 for a dimension of bytes. Dates and times can be given as text. NaN
    /// lies above all numbers, as everywhere in DataFusion.
    ///
    /// ```
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # use datafusion_tiledb::Array;
    /// let weather = Array::open("./examples/data/weather_stations").await?;
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
    pub fn range<T: Clone + Into<ScalarValue>>(
        mut self,
        dimension: impl Into<String>,
        range: impl RangeBounds<T>,
    ) -> Self {
        let range = CoordinateRange::new(dimension.into(), &range);
        self.ranges.push(range);
        self
    }

    /// Reads only cells that satisfy this condition. It may use any columns, also those that are not read; several
    /// filters must all hold. Conditions on dimensions become ranges, and tiles are pruned by others, as in a query.
    ///
    /// In names, [`col`](datafusion::prelude::col) interprets dots and capital letters as SQL does, and [`ident`] does
    /// not.
    pub fn filter(mut self, filter: Expr) -> Self {
        self.filters.push(filter);
        self
    }

    /// Reads the array at another time, in milliseconds since 1970. The array is listed again for it.
    pub fn at(mut self, timestamp_ms: u64) -> Self {
        self.at = Some(timestamp_ms);
        self
    }

    /// Reads at most this many rows, in no particular order.
    pub fn limit(mut self, rows: usize) -> Self {
        self.limit = Some(rows);
        self
    }

    /// Sets the number of rows in a batch; the last batches may have fewer. The default is 8192.
    pub fn batch_size(mut self, rows: usize) -> Self {
        self.session.batch_size = Some(rows);
        self
    }

    /// Sets the most partitions that are read at the same time. The default is the number of processors.
    pub fn partitions(mut self, partitions: usize) -> Self {
        self.session.partitions = Some(partitions);
        self
    }

    /// Reserves memory from this pool. The default is the pool of the session with which the array was opened; without
    /// a session there is no limit.
    pub fn memory_pool(mut self, pool: Arc<dyn MemoryPool>) -> Self {
        self.session.memory_pool = Some(pool);
        self
    }

    /// Reads all partitions into one stream. It can be dropped at any time.
    ///
    /// # Errors
    /// A column does not exist or cannot be read, a range is not of a dimension or does not fit it, a filter is not a
    /// condition or depends on more than one row (subqueries, aggregates), or the array cannot be read at the requested
    /// time.
    pub async fn stream(self) -> Result<SendableRecordBatchStream> {
        self.frame().await?.execute_stream().await
    }

    /// Reads each partition as its own stream; they may be polled on different threads, and balance work between each
    /// other.
    ///
    /// # Errors
    /// Those of [`stream`](Self::stream).
    pub async fn streams(self) -> Result<Vec<SendableRecordBatchStream>> {
        self.frame().await?.execute_stream_partitioned().await
    }

    /// Reads all rows into memory.
    ///
    /// # Errors
    /// Those of [`stream`](Self::stream), and errors while cells are read.
    pub async fn collect(self) -> Result<Vec<RecordBatch>> {
        self.frame().await?.collect().await
    }

    /// The plan of the scan, in a session of its own.
    async fn frame(&self) -> Result<DataFrame> {
        let table = self
            .array
            .table_at(self.at)
            .await
            .map_err(to_datafusion_error)?;
        let schema = table.schema();
        let located = |e: Error| to_datafusion_error(e.with("array", self.array.uri()));
        let columns = self.projection(&schema).map_err(located)?;
        let ranges = self.conditions(&schema).map_err(located)?;
        for filter in &self.filters {
            check_filter(filter, &schema).map_err(located)?;
        }
        let mut frame = self
            .session
            .context(&self.array.runtime)?
            .read_table(table)?;
        for condition in ranges.into_iter().chain(self.filters.iter().cloned()) {
            frame = frame.filter(condition)?;
        }
        if let Some(columns) = columns {
            frame = frame.select(columns)?;
        }
        frame.limit(0, self.limit)
    }

    fn projection(&self, schema: &SchemaRef) -> tiledb_engine::Result<Option<Vec<Expr>>> {
        let Some(names) = &self.columns else {
            return Ok(None);
        };
        for (at, name) in names.iter().enumerate() {
            check_column(name, schema)?;
            if names.iter().take(at).any(|earlier| earlier == name) {
                let message = format!("the column \"{name}\" is asked for twice, expected once");
                return Err(Error::invalid(message));
            }
        }
        Ok(Some(names.iter().map(ident).collect()))
    }

    /// A condition for each dimension with ranges.
    fn conditions(&self, schema: &SchemaRef) -> tiledb_engine::Result<Vec<Expr>> {
        let dimensions = self.array.dimensions();
        let mut ranges: BTreeMap<usize, Vec<&CoordinateRange>> = BTreeMap::new();
        for range in &self.ranges {
            let name = &range.dimension;
            let Some(number) = dimensions.iter().position(|d| d == name) else {
                check_column(name, schema)?;
                return Err(Error::invalid(format!(
                    "\"{name}\" is no dimension, and ranges are of dimensions, which are {}: give a filter instead",
                    quoted(dimensions.iter())
                )));
            };
            ranges.entry(number).or_default().push(range);
        }
        let conditions = ranges.into_iter().map(|(number, ranges)| {
            let field = schema.fields().get(number);
            let ty = field.map_or(&DataType::Null, |field| field.data_type());
            let name = dimensions.get(number).map_or("", String::as_str);
            condition(&ident(name), ty, ranges.into_iter())
        });
        conditions.collect()
    }
}

/// Fails unless the filter can be evaluated on the columns of a row.
fn check_filter(filter: &Expr, schema: &SchemaRef) -> tiledb_engine::Result<()> {
    if looks_beyond_row(filter).unwrap_or(true) {
        return Err(Error::invalid(format!(
            "the filter {filter} looks beyond a row: there are no subqueries, aggregates, window functions or \
             placeholders in the filter of a scan"
        )));
    }
    let columns = filter.column_refs();
    let mut names: Vec<_> = columns.iter().map(|column| column.flat_name()).collect();
    names.sort_unstable();
    names.iter().try_for_each(|name| check_column(name, schema))
}

/// Fails with the existing columns in the message, unless this is one of them.
fn check_column(name: &str, schema: &SchemaRef) -> tiledb_engine::Result<()> {
    let mut known = schema.fields().iter().map(|field| field.name());
    if known.any(|known| known == name) {
        return Ok(());
    }
    let known = || schema.fields().iter().map(|field| field.name());
    let hint = if known().any(|known| known.eq_ignore_ascii_case(name)) {
        "; ident() takes capital letters as they are, col() does not"
    } else {
        ""
    };
    Err(Error::invalid(format!(
        "there is no column \"{name}\", expected one of {}{hint}",
        quoted(known())
    )))
}

fn quoted<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<_> = names.map(|name| format!("\"{name}\"")).collect();
    names.join(", ")
}
