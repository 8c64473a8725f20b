//! Boxes of dense arrays, read tile by tile.
//!
//! A scan makes rows of cells, with their coordinates as columns. A program that wants a box of a dense array as one block of
//! memory needs neither: it takes the cells of each tile with their place in the box, and copies them there.

use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::{Array as _, RecordBatch};
use arrow::buffer::Buffer;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt};

use crate::error::{Error, Result};
use crate::format::schema::Layout;
use crate::geometry::box_runs::BoxRuns;
use crate::geometry::domain::KeyBox;
use crate::geometry::tile_grid::strides;
use crate::memory::budget::MemoryBudget;
use crate::scan::ScanPlan;
use crate::scan::context::ScanContext;
use crate::scan::metrics::ScanMetrics;
use crate::scan::plan::PlanUnits;
use crate::scan::stream::read_placed;
use crate::scan::units::UnitPool;

/// A box of cells of a dense array; see [`ArrayScan::dense_box`](super::ArrayScan::dense_box).
#[derive(Debug)]
pub struct DenseBox {
    plan: Arc<ScanPlan>,
    memory: Arc<dyn MemoryBudget>,
    /// The most streams that are read at the same time.
    partitions: usize,
    place: Arc<PlaceOfBox>,
    is_empty: bool,
}

/// Where a box lies, and how its cells are numbered.
#[derive(Debug)]
struct PlaceOfBox {
    /// The keys of its first cell.
    lo: Vec<u64>,
    /// The number of cells of each side.
    shape: Vec<u64>,
    /// The order of cells in tiles.
    cell_order: Layout,
}

impl DenseBox {
    pub(super) fn new(
        plan: Arc<ScanPlan>,
        memory: Arc<dyn MemoryBudget>,
        partitions: usize,
    ) -> Result<Self> {
        let PlanUnits::Dense(dense) = &plan.units else {
            return Err(Error::internal("a box of a plan that isn't dense"));
        };
        let (mut lo, mut shape) = (Vec::new(), Vec::new());
        for (dimension, (first, last)) in dense.bounds.ranges().enumerate() {
            let ranges = plan.spec.subarray.dim(dimension).clip_keys(first, last);
            let mut ranges = ranges.into_iter();
            let range = ranges.next();
            if ranges.next().is_some() {
                let name = plan.spec.table.schema.field(dimension).name();
                return Err(Error::invalid(format!(
                    "the dimension \"{name}\" has more than one range, and a box takes one"
                )));
            }
            lo.push(range.as_ref().map_or(first, |range| range.lo));
            shape.push(range.map_or(0, |range| (range.hi - range.lo).saturating_add(1)));
        }
        let cell_order = dense.grid.cell_order();
        let is_empty = shape.contains(&0);
        let place = PlaceOfBox {
            lo,
            shape,
            cell_order,
        };
        Ok(Self {
            plan,
            memory,
            partitions,
            place: Arc::new(place),
            is_empty,
        })
    }

    /// The number of cells along each dimension.
    pub fn shape(&self) -> &[u64] {
        &self.place.shape
    }

    /// The tiles of the box, in streams that may be polled on different threads. Each tile comes once.
    pub fn streams(self) -> Vec<DenseBoxTiles> {
        if self.is_empty {
            return Vec::new();
        }
        let partitions = self.plan.partitions(self.partitions).into_iter();
        let (pool, run) = (Arc::<UnitPool>::default(), Arc::clone(&self.place));
        let streams = partitions.enumerate().map(|(partition, units)| {
            let units = pool.join(Arc::clone(&run) as _, partition, units);
            let metrics = Arc::<ScanMetrics>::default();
            let context =
                ScanContext::new(Arc::clone(&self.plan), Arc::clone(&self.memory), metrics);
            let place = Arc::clone(&self.place);
            let tiles = read_placed(context, units).map_ok(move |(cells, tile)| DenseBoxTile {
                cells,
                tile,
                place: Arc::clone(&place),
            });
            DenseBoxTiles {
                tiles: tiles.boxed(),
            }
        });
        streams.collect()
    }
}

/// The tiles of a [`DenseBox`], or of a part of it, as they are read. It can be dropped at any time.
pub struct DenseBoxTiles {
    tiles: BoxStream<'static, Result<DenseBoxTile>>,
}

impl Stream for DenseBoxTiles {
    type Item = Result<DenseBoxTile>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.tiles.poll_next_unpin(cx)
    }
}

impl fmt::Debug for DenseBoxTiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DenseBoxTiles").finish_non_exhaustive()
    }
}

/// The cells of a [`DenseBox`] that one tile holds, or a part of these.
#[derive(Debug)]
pub struct DenseBoxTile {
    cells: RecordBatch,
    tile: KeyBox,
    place: Arc<PlaceOfBox>,
}

impl DenseBoxTile {
    /// The cells, in the cell order of the array.
    pub fn cells(&self) -> &RecordBatch {
        &self.cells
    }

    /// The cells along each dimension, numbered within the box.
    pub fn place(&self) -> Vec<Range<u64>> {
        let sides = self.tile.ranges().zip(&self.place.lo);
        sides
            .map(|((lo, hi), first)| lo - first..(hi - first).saturating_add(1))
            .collect()
    }

    /// Gives the values of a column in runs that follow each other in a row-major array of the box: the number of the run's
    /// first cell there, and the bytes of its values in the machine's byte order. The value of a NULL cell is unspecified.
    ///
    /// # Errors
    /// The column doesn't hold numbers, or the box has more cells than this machine can address.
    pub fn for_each_run(&self, column: usize, write: impl FnMut(usize, &[u8])) -> Result<()> {
        let (values, width) = self.values(column)?;
        self.place_values(&values, width, write)
    }

    /// Gives a byte for each cell of a column, in the runs of [`for_each_run`](Self::for_each_run): 1 if the cell is NULL, otherwise
    /// 0. If no cell of the tile is NULL, it gives nothing.
    ///
    /// # Errors
    /// There is no such column, or the box has more cells than this machine can address.
    pub fn for_each_run_of_nulls(
        &self,
        column: usize,
        write: impl FnMut(usize, &[u8]),
    ) -> Result<()> {
        let array = self.cells.columns().get(column);
        let array = array.ok_or_else(|| self.not_numbers(column))?;
        let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) else {
            return Ok(());
        };
        let nulls = nulls.iter().map(|is_valid| u8::from(!is_valid));
        self.place_values(&nulls.collect::<Vec<_>>(), 1, write)
    }

    /// Gives values of cells, each `width` bytes, in runs.
    fn place_values(
        &self,
        values: &[u8],
        width: usize,
        mut write: impl FnMut(usize, &[u8]),
    ) -> Result<()> {
        let PlaceOfBox {
            lo,
            shape,
            cell_order,
        } = self.place.as_ref();
        // Cells along one dimension have only one order.
        if *cell_order == Layout::ColMajor && shape.len() > 1 {
            return match width {
                1 => self.for_each_row::<1>(values, &mut write),
                2 => self.for_each_row::<2>(values, &mut write),
                4 => self.for_each_row::<4>(values, &mut write),
                8 => self.for_each_row::<8>(values, &mut write),
                _ => Err(Error::internal(format!("a number of {width} bytes"))),
            };
        }
        let runs = BoxRuns::new(shape, Layout::RowMajor, lo, &self.tile)?;
        let run_bytes = runs.run_len().saturating_mul(width);
        for (run, values) in runs.zip(values.chunks(run_bytes.max(1))) {
            write(run.start, values);
        }
        Ok(())
    }

    /// Gives rows along the last dimension, whose values are picked from a column-major tile.
    fn for_each_row<const WIDTH: usize>(
        &self,
        values: &[u8],
        write: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<()> {
        let (values, _) = values.as_chunks::<WIDTH>();
        let place = self.place();
        let sides = place.iter().map(|side| side.end - side.start);
        let sides = sides.collect::<Vec<_>>();
        let stored = strides(&sides, Layout::ColMajor);
        let wanted = strides(&self.place.shape, Layout::RowMajor);
        // Checks that each number of a cell of the box fits into a `usize`.
        BoxRuns::new(
            &self.place.shape,
            Layout::RowMajor,
            &self.place.lo,
            &self.tile,
        )?;
        let (Some(length), Some(step)) = (sides.last(), stored.last()) else {
            return Ok(());
        };
        let (length, step) = (usize::try_from(*length)?, usize::try_from(*step)?);
        let first = place.iter().zip(&wanted).map(|(side, n)| side.start * n);
        let first = first.fold(0, u64::saturating_add);
        let mut row = Vec::with_capacity(length);
        let mut position = vec![0_u64; sides.len().saturating_sub(1)];
        loop {
            let offset = |strides: &[u64]| -> u64 {
                let steps = position.iter().zip(strides);
                steps.map(|(position, stride)| position * stride).sum()
            };
            let from = usize::try_from(offset(&stored))?;
            row.clear();
            row.extend(
                values
                    .iter()
                    .skip(from)
                    .step_by(step.max(1))
                    .take(length)
                    .copied(),
            );
            if row.len() != length {
                return Err(Error::internal("a tile has fewer cells than its box"));
            }
            write(
                usize::try_from(first + offset(&wanted))?,
                row.as_flattened(),
            );
            if !next_position(&mut position, &sides) {
                return Ok(());
            }
        }
    }

    /// The bytes of the values of a column, and of one of them.
    fn values(&self, column: usize) -> Result<(Buffer, usize)> {
        let data = self
            .cells
            .columns()
            .get(column)
            .map(|array| array.to_data());
        let width = data
            .as_ref()
            .and_then(|data| data.data_type().primitive_width());
        let (Some(data), Some(width)) = (data, width) else {
            return Err(self.not_numbers(column));
        };
        let buffer = data.buffers().first();
        let buffer = buffer.ok_or_else(|| Error::internal("a column of numbers has no values"))?;
        let values = buffer.slice_with_length(data.offset() * width, data.len() * width);
        Ok((values, width))
    }

    fn not_numbers(&self, column: usize) -> Error {
        let schema = self.cells.schema_ref();
        let found = schema
            .fields()
            .get(column)
            .map(|field| format!("\"{}\" is {}", field.name(), field.data_type()))
            .unwrap_or_else(|| format!("the batch has no column {column}"));
        Error::invalid(format!(
            "only columns of numbers can be copied as bytes, but {found}: take the cells as a batch"
        ))
    }
}

/// Moves on to the next position in row-major order; `false` after the last one.
fn next_position(position: &mut [u64], sides: &[u64]) -> bool {
    for (position, side) in position.iter_mut().zip(sides).rev() {
        *position += 1;
        if *position < *side {
            return true;
        }
        *position = 0;
    }
    false
}
