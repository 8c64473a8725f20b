//! Boxes of dense arrays, copied tile by tile into arrays of NumPy.

use std::sync::Arc;

use datafusion::prelude::SessionContext;
use datafusion_tiledb::tiledb_engine::{DenseBox, DenseBoxTile};
use datafusion_tiledb::{
    Error, ErrorKind, OpenOptions, TableOptions, TileDbSessionExt, TileDbTable, to_datafusion_error,
};
use futures::TryStreamExt;
use futures::future::try_join_all;
use pyo3::prelude::*;
use tokio::task::spawn_blocking;

use crate::capsules::NumpyCells;
use crate::errors::exception;
use crate::module_runtime::wait;
use crate::session::EngineSession;

/// How often a read is tried, if files of the array are vacuumed meanwhile.
const ATTEMPTS: usize = 3;

/// What to read of a dense array, and where to put it.
#[derive(Clone)]
struct BoxRequest {
    uri: String,
    timestamp: Option<String>,
    /// The first and the last coordinate of each dimension.
    ranges: Vec<(String, String, String)>,
    columns: Vec<String>,
    targets: Arc<Vec<ColumnTarget>>,
}

/// Where the values of a column go.
struct ColumnTarget {
    values: NumpyCells,
    /// Which cells are NULL, if there can be any.
    nulls: Option<NumpyCells>,
}

/// Reads a box of a dense array into arrays of NumPy, one for each column, whose types are those of the stored values. A column
/// that can be NULL has another one of zeros, which gets ones where it is.
#[pyfunction]
#[pyo3(signature = (session, uri, timestamp, ranges, columns))]
pub fn read_box(
    py: Python<'_>,
    session: &EngineSession,
    uri: &str,
    timestamp: Option<String>,
    ranges: Vec<(String, String, String)>,
    columns: Vec<(String, Bound<'_, PyAny>, Option<Bound<'_, PyAny>>)>,
) -> PyResult<()> {
    let ctx = session.context()?.clone();
    let (mut names, mut targets) = (Vec::new(), Vec::new());
    for (name, values, nulls) in columns {
        names.push(name);
        targets.push(ColumnTarget {
            values: NumpyCells::of(&values)?,
            nulls: nulls.as_ref().map(NumpyCells::of).transpose()?,
        });
    }
    let request = BoxRequest {
        uri: uri.to_owned(),
        timestamp,
        ranges,
        columns: names,
        targets: Arc::new(targets),
    };
    let read = wait(py, async move { read(&ctx, &request).await })?;
    read.map_err(|error| exception(py, &to_datafusion_error(error), ""))
}

async fn read(ctx: &SessionContext, request: &BoxRequest) -> Result<(), Error> {
    let mut partitions = None;
    for _ in 1..ATTEMPTS {
        match attempt(ctx, request, partitions).await {
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            // Streams that run side by side can take the memory from each other.
            Err(error) if error.kind() == ErrorKind::OutOfMemory => partitions = Some(1),
            done => return done,
        }
    }
    attempt(ctx, request, partitions).await
}

async fn attempt(
    ctx: &SessionContext,
    request: &BoxRequest,
    partitions: Option<usize>,
) -> Result<(), Error> {
    let mut options = TableOptions::default();
    if let Some(timestamp) = &request.timestamp {
        options.set("timestamp", timestamp)?;
    }
    let open = OpenOptions::from(&options).stored_values();
    let table = TileDbTable::builder(&request.uri)
        .session(ctx)
        .options(options);
    let array = open.open(table.storage()?).await?;
    let mut scan = array
        .scan()
        .columns(request.columns.iter().cloned())
        .memory(ctx.tiledb_budget("TileDbBox"));
    if let Some(partitions) = partitions {
        scan = scan.partitions(partitions);
    }
    for (dimension, first, last) in &request.ranges {
        scan = scan.range(dimension, first.as_str()..=last.as_str());
    }
    let cells = scan.dense_box().await?;
    check_size(&cells, request)?;
    let copies = cells.streams().into_iter().map(|mut tiles| {
        let targets = Arc::clone(&request.targets);
        // Each stream is a task of its own, so that they use all processors.
        let copied = tokio::spawn(async move {
            while let Some(tile) = tiles.try_next().await? {
                let targets = Arc::clone(&targets);
                let copied = spawn_blocking(move || copy(&tile, &targets)).await;
                copied.map_err(|e| Error::internal("a tile can't be copied").with_source(e))??;
            }
            Ok::<_, Error>(())
        });
        AbortOnDrop(copied)
    });
    try_join_all(copies.map(AbortOnDrop::joined)).await?;
    Ok(())
}

/// A task that ends when nobody waits for it any longer.
struct AbortOnDrop(tokio::task::JoinHandle<Result<(), Error>>);

impl AbortOnDrop {
    async fn joined(mut self) -> Result<(), Error> {
        let joined = (&mut self.0).await;
        joined.map_err(|e| Error::internal("reading a box ended").with_source(e))?
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Fails unless the arrays have as many cells as the box.
fn check_size(cells: &DenseBox, request: &BoxRequest) -> Result<(), Error> {
    let shape = cells.shape();
    let count = shape.iter().try_fold(1_u64, |n, side| n.checked_mul(*side));
    let fits = |target: &NumpyCells| Some(target.cells() as u64) == count;
    let targets = request.targets.iter();
    if targets
        .flat_map(|t| t.nulls.iter().chain([&t.values]))
        .all(fits)
    {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{} has a box of {shape:?} cells here by now: its domain has changed since it was opened, so open it again",
        request.uri
    )))
}

fn copy(tile: &DenseBoxTile, targets: &[ColumnTarget]) -> Result<(), Error> {
    for (column, target) in targets.iter().enumerate() {
        let mut fits = true;
        tile.for_each_run(column, |cell, run| fits &= target.values.write(cell, run))?;
        if let Some(nulls) = &target.nulls {
            tile.for_each_run_of_nulls(column, |cell, run| fits &= nulls.write(cell, run))?;
        }
        if !fits {
            let schema = tile.cells().schema();
            let field = schema.fields().get(column);
            let name = field.map_or("", |field| field.name());
            return Err(Error::invalid(format!(
                "the values of \"{name}\" have another size than {} bytes: the array has changed since it was opened, so open it again",
                target.values.cell_bytes()
            )));
        }
    }
    Ok(())
}
