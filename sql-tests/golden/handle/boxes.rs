//! Boxes of dense arrays: each cell is the row with its coordinates.

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::{cast, concat_batches};
use datafusion::arrow::datatypes::{DataType, Int64Type, UInt64Type};
use datafusion_tiledb::{Array, ErrorKind};
use futures::TryStreamExt;
use libtest_mimic::Failed;
use tiledb_engine::ArrayScan;

use super::{expect, path};

/// The box around all cells of a dense array, and each half of it along each dimension, against the rows of the array.
pub(super) async fn check(array: &Array, rows: &[RecordBatch]) -> Result<(), Failed> {
    let dimensions = array.dimensions().len();
    let integers = (0..dimensions).all(|d| array.schema().field(d).data_type().is_integer());
    let Some(first) = rows.first().filter(|_| integers && array.is_dense()) else {
        return Ok(());
    };
    let rows = concat_batches(&first.schema(), rows)?;
    let coordinates = (0..dimensions).map(|d| integers_of(rows.column(d)));
    let coordinates = coordinates.collect::<Result<Vec<_>, _>>()?;
    let bounds = coordinates.iter().map(|values| {
        let (low, high) = (values.iter().min(), values.iter().max());
        low.copied().zip(high.copied())
    });
    let Some(bounds) = bounds.collect::<Option<Vec<_>>>() else {
        return Ok(());
    };
    let mut boxes = vec![bounds.clone()];
    for (d, (low, high)) in bounds.iter().enumerate() {
        let middle = low + (high - low) / 2;
        let mut half = bounds.clone();
        half[d] = (middle, *high);
        boxes.push(half.clone());
        half[d] = (*low, middle);
        boxes.push(half);
    }
    for ranges in boxes {
        check_box(array, &rows, &coordinates, &ranges).await?;
    }
    Ok(())
}

fn integers_of(column: &ArrayRef) -> Result<Vec<i128>, Failed> {
    Ok(match column.data_type() {
        DataType::UInt64 => column
            .as_primitive::<UInt64Type>()
            .values()
            .iter()
            .map(|v| i128::from(*v))
            .collect(),
        _ => {
            let column = cast(column, &DataType::Int64)?;
            column
                .as_primitive::<Int64Type>()
                .values()
                .iter()
                .map(|v| i128::from(*v))
                .collect()
        }
    })
}

async fn check_box(
    array: &Array,
    rows: &RecordBatch,
    coordinates: &[Vec<i128>],
    ranges: &[(i128, i128)],
) -> Result<(), Failed> {
    let sides = ranges
        .iter()
        .map(|(low, high)| usize::try_from(high - low + 1));
    let sides = sides.collect::<Result<Vec<_>, _>>()?;
    // The row of each cell of the box, in row-major order.
    let mut row_of = vec![None; sides.iter().product()];
    for row in 0..rows.num_rows() {
        let mut cell = Some(0);
        for ((values, (low, high)), side) in coordinates.iter().zip(ranges).zip(&sides) {
            let value = values[row];
            cell = match cell {
                Some(cell) if (*low..=*high).contains(&value) => {
                    Some(cell * side + usize::try_from(value - low)?)
                }
                _ => None,
            };
        }
        if let Some(cell) = cell {
            expect("the rows of a cell", row_of[cell].replace(row), None)?;
        }
    }
    let schema = array.schema();
    for (column, field) in schema.fields().iter().enumerate().take(rows.num_columns()) {
        let values = rows.column(column);
        let Some(width) = field
            .data_type()
            .primitive_width()
            .filter(|_| values.null_count() == 0)
        else {
            continue;
        };
        let data = values.to_data();
        let bytes = &data.buffers()[0].as_slice()[data.offset() * width..];
        let mut wanted: Vec<u8> = Vec::with_capacity(row_of.len() * width);
        for row in &row_of {
            let row = row.ok_or("a cell of the box has no row")?;
            wanted.extend(&bytes[row * width..(row + 1) * width]);
        }
        let found = read(within(array, ranges).columns([field.name()]), &sides, width).await?;
        if found != wanted {
            return Err(format!(
                "the box {ranges:?} of \"{}\" has other values than the rows",
                field.name()
            )
            .into());
        }
    }
    Ok(())
}

fn within(array: &Array, ranges: &[(i128, i128)]) -> ArrayScan {
    let dimensions = array.dimensions();
    let named = dimensions.iter().zip(ranges);
    named.fold(array.scan(), |scan, (dimension, (low, high))| {
        scan.range(
            dimension,
            low.to_string().as_str()..=high.to_string().as_str(),
        )
    })
}

/// The bytes of a box; each cell is given once.
async fn read(scan: ArrayScan, sides: &[usize], width: usize) -> Result<Vec<u8>, Failed> {
    let cells = scan.dense_box().await?;
    let shape = cells.shape().iter().map(|side| usize::try_from(*side));
    expect(
        "the shape",
        shape.collect::<Result<Vec<_>, _>>()?.as_slice(),
        sides,
    )?;
    let count = sides.iter().product::<usize>();
    let (mut values, mut given) = (vec![0; count * width], vec![0; count]);
    for mut tiles in cells.streams() {
        while let Some(tile) = tiles.try_next().await? {
            tile.for_each_run(0, |cell, run| {
                values[cell * width..][..run.len()].copy_from_slice(run);
                given[cell..][..run.len() / width]
                    .iter_mut()
                    .for_each(|times| *times += 1);
            })?;
        }
    }
    expect(
        "each cell is given once",
        given.iter().all(|times| *times == 1),
        true,
    )?;
    Ok(values)
}

trial!(refused);
/// Sparse arrays, several ranges of a dimension, and columns without a width.
async fn refused() -> Result<(), Failed> {
    let sparse = Array::open(path("quickstart_sparse"))
        .await?
        .scan()
        .dense_box()
        .await;
    let error = sparse.err().ok_or("a sparse array has a box")?;
    expect("kind", error.kind(), ErrorKind::InvalidInput)?;
    let dense = Array::open(path("quickstart_dense")).await?;
    let dimension = dense.dimensions().remove(0);
    let two = dense
        .scan()
        .range(&dimension, 1..=1)
        .range(&dimension, 3..=3);
    let error = two.dense_box().await.err().ok_or("two ranges are a box")?;
    if !error.to_string().contains("more than one range") {
        return Err(error.to_string().into());
    }
    let none = dense.scan().range(&dimension, 900..=999);
    let none = none.dense_box().await?;
    expect("the empty box", none.shape().contains(&0), true)?;
    expect("its tiles", none.streams().len(), 0)
}
