//! The arrays that statements ask: golden ones, and some of the fuzzer's own that are richer.
//!
//! An array is opened with options, read once, and kept in memory too, for the answers that are expected.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, UInt64Array};
use datafusion::arrow::compute::{concat_batches, take_record_batch};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use datafusion_tiledb::{ArrayPlace, TileDbTable};
use tiledb_engine::storage::Location;

use super::columns::Column;
use crate::support::array_files::Files;
use crate::support::rng::Rng;
use crate::support::{fixtures, golden};

/// Golden arrays of more rows are left to other tests.
const MOST_ROWS: u64 = 5_000;
/// Richer ones, most of them the fuzzer's own, with a weight. Large ones come seldom.
const OWN: [(usize, &str); 21] = [
    (6, "fuzz/arrays/line"),
    (6, "fuzz/arrays/plane"),
    (5, "fuzz/arrays/curve"),
    (6, "fuzz/arrays/grid"),
    (6, "fuzz/arrays/hours"),
    (5, "fuzz/arrays/names"),
    (6, "fuzz/arrays/events"),
    (4, "fuzz/arrays/reals"),
    (5, "fuzz/arrays/evolved"),
    (6, "fuzz/arrays/small"),
    (6, "fuzz/arrays/codes"),
    (5, "fuzz/arrays/tags"),
    (3, "large/line"),
    (2, "large/matrix"),
    (3, "large/slope"),
    (2, "fuzz/arrays/many"),
    // NaNs of many bits, and zero coordinates of both signs.
    (2, "arrays/types_floats_single_sparse"),
    (1, "arrays/nan_fragments"),
    (1, "arrays/nan_plane"),
    (1, "arrays/dim_sparse_floats"),
    (1, "arrays/sparse_floats"),
];

/// An array, and the options it is opened with.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// Below the folder of unpacked files.
    pub path: String,
    pub options: Vec<(String, String)>,
}

/// Those to choose from.
#[derive(Debug)]
pub struct Shelf {
    golden: Vec<Golden>,
}

#[derive(Debug)]
struct Golden {
    path: String,
    dense: bool,
    options: Vec<(String, String)>,
    /// Times at which it is read.
    windows: Vec<(u64, u64)>,
}

impl Shelf {
    /// Every golden array that is read and not large.
    pub fn new() -> Self {
        let mut golden = Vec::new();
        for (folder, entry) in golden::arrays() {
            let rows = entry["rows"].as_u64().unwrap_or(0);
            if !golden::is_read(&entry) || rows == 0 || rows > MOST_ROWS {
                continue;
            }
            let folder = folder.strip_prefix(fixtures::root());
            let folder = folder.expect("it is unpacked");
            let name = entry["name"].as_str().unwrap_or_default();
            let windows = entry["windows"].as_array().into_iter().flatten();
            golden.push(Golden {
                path: folder.join(name).display().to_string(),
                dense: entry["dense"].as_bool().unwrap_or(false),
                options: golden::options(&entry),
                windows: windows
                    .filter_map(|w| Some((w[0].as_u64()?, w[1].as_u64()?)))
                    .collect(),
            });
        }
        Self { golden }
    }

    /// An array and options.
    pub fn choose(&self, rng: &mut Rng) -> Source {
        let (path, mut options, dense, sparse) = if rng.chance(60) {
            let path = rng.weighted(&OWN).to_owned();
            let mut options = Vec::new();
            if rng.chance(15) {
                let end = 1000 * rng.between(1, 5) + rng.below(40);
                options.push(("timestamp".to_owned(), end.to_string()));
            }
            let dense = ["grid", "small", "tags"]
                .iter()
                .any(|name| path.ends_with(name));
            (path, options, dense, false)
        } else {
            let golden = rng.pick(&self.golden);
            let mut options = golden.options.clone();
            if let Some((start, end)) = rng.pick_any(&golden.windows)
                && rng.chance(25)
            {
                options.push(("timestamp_start".to_owned(), start.to_string()));
                options.push(("timestamp_end".to_owned(), end.to_string()));
            }
            let path = golden.path.clone();
            (path, options, golden.dense, !golden.dense)
        };
        if dense && rng.chance(30) {
            let cells = *rng.pick(&["null", "skip"]);
            options.push(("empty_cells".to_owned(), cells.to_owned()));
        }
        if rng.chance(20) {
            let from = *rng.pick(&["exact_metadata", "cells"]);
            options.push(("aggregate_from".to_owned(), from.to_owned()));
        }
        if rng.chance(15) {
            options.push(("system_columns".to_owned(), "true".to_owned()));
        }
        if sparse && rng.chance(10) {
            options.push(("all_versions".to_owned(), "true".to_owned()));
        }
        Source { path, options }
    }
}

impl Source {
    /// Where it lies.
    pub fn folder(&self) -> PathBuf {
        fixtures::root().join(&self.path)
    }

    /// The statement that makes it a table, as an `.slt` file has it.
    pub fn create(&self, name: &str) -> String {
        let options = self.options.iter();
        let options: Vec<String> = options
            .map(|(k, v)| format!("'tiledb.{k}' '{v}'"))
            .collect();
        let options = match options.as_slice() {
            [] => String::new(),
            options => format!(" OPTIONS ({})", options.join(", ")),
        };
        let places = [
            ("fuzz/arrays/", "$FUZZ"),
            ("arrays/", "$ARRAYS"),
            ("large/", "$LARGE"),
        ];
        let mut places = places.into_iter();
        let place = places.find_map(|(place, variable)| {
            let array = self.path.strip_prefix(place)?;
            Some(format!("{variable}/{array}"))
        });
        let place = place.as_ref().unwrap_or(&self.path);
        format!("CREATE EXTERNAL TABLE {name} STORED AS TILEDB LOCATION '{place}'{options};")
    }

    /// Opens and reads it.
    pub async fn load(&self) -> Result<Loaded, String> {
        let table = self.open(None).await?;
        Loaded::read(self.clone(), Arc::new(table), &self.path).await
    }

    /// Opens and reads what is left of it.
    pub async fn load_files(&self, files: &Files) -> Result<Loaded, String> {
        let table = self.open(Some(files.in_memory().await)).await?;
        Loaded::read(self.clone(), Arc::new(table), &self.path).await
    }

    async fn open(&self, location: Option<Location>) -> Result<TileDbTable, String> {
        let folder = || ArrayPlace::from(self.folder().display().to_string());
        let mut builder = TileDbTable::builder(location.map_or_else(folder, ArrayPlace::from));
        for (key, value) in &self.options {
            builder = builder.option(key, value).map_err(|e| e.to_string())?;
        }
        builder.open().await.map_err(|e| e.to_string())
    }
}

/// An array that is open, and its rows.
#[derive(Debug)]
pub struct Loaded {
    pub source: Source,
    /// What is tested.
    pub table: Arc<dyn TableProvider>,
    pub rows: RecordBatch,
    pub columns: Vec<Column>,
    /// Its dimensions, if no two rows agree in all of them.
    pub key: Option<Vec<String>>,
}

impl Loaded {
    /// Reads a table whole.
    pub async fn read(
        source: Source,
        table: Arc<dyn TableProvider>,
        name: &str,
    ) -> Result<Self, String> {
        let failed = |e: datafusion::error::DataFusionError| format!("{name}: {e}");
        let frame = SessionContext::new()
            .read_table(Arc::clone(&table))
            .map_err(failed)?;
        let schema = Arc::clone(frame.schema().inner());
        let batches = frame.collect().await.map_err(failed)?;
        let rows = concat_batches(&schema, &batches).map_err(|e| format!("{name}: {e}"))?;
        // What the generator knows of an array depends on nothing else.
        let mut rng = Rng::new(rows.num_rows() as u64, 0);
        let columns = (0..rows.num_columns()).map(|i| Column::of(&rows, i, &mut rng));
        let columns = columns.collect();
        let dimensions: Vec<usize> = (0..rows.num_columns())
            .filter(|i| {
                let role = schema.field(*i).metadata().get("tiledb.role");
                role.is_some_and(|role| role == "dimension")
            })
            .collect();
        let named = |i: &usize| schema.field(*i).name().clone();
        let key = (!dimensions.is_empty() && distinct(&rows, &dimensions)?)
            .then(|| dimensions.iter().map(named).collect());
        Ok(Self {
            source,
            table,
            columns,
            key,
            rows,
        })
    }

    /// The table's rows in memory, in one partition of one batch.
    pub fn memory(&self) -> Arc<dyn TableProvider> {
        let batches = vec![vec![self.rows.clone()]];
        Arc::new(MemTable::try_new(self.rows.schema(), batches).expect("rows of one schema"))
    }

    /// The table's rows in memory, in `parts` partitions, in batches of at most `batch` rows, maybe the last row first.
    pub fn scattered(&self, parts: usize, batch: usize, backwards: bool) -> Arc<dyn TableProvider> {
        let mut rows = self.rows.clone();
        if backwards {
            let order = UInt64Array::from_iter_values((0..rows.num_rows() as u64).rev());
            rows = take_record_batch(&rows, &order).expect("rows of the batch");
        }
        let mut batches = vec![Vec::new(); parts.max(1)];
        let mut from = 0;
        while from < rows.num_rows() {
            let len = batch.max(1).min(rows.num_rows() - from);
            let part = from / batch.max(1) % parts.max(1);
            batches[part].push(rows.slice(from, len));
            from += len;
        }
        Arc::new(MemTable::try_new(self.rows.schema(), batches).expect("rows of one schema"))
    }
}

/// Whether no two rows agree in these columns.
fn distinct(rows: &RecordBatch, columns: &[usize]) -> Result<bool, String> {
    let columns: Vec<ArrayRef> = columns
        .iter()
        .map(|i| Arc::clone(rows.column(*i)))
        .collect();
    let fields = columns
        .iter()
        .map(|c| SortField::new(c.data_type().clone()));
    let converter = RowConverter::new(fields.collect()).map_err(|e| e.to_string())?;
    let keys = converter
        .convert_columns(&columns)
        .map_err(|e| e.to_string())?;
    let mut seen = HashSet::new();
    Ok(keys.iter().all(|key| seen.insert(key.as_ref().to_vec())))
}
