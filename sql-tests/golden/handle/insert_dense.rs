//! Inserts of many cells into dense arrays, in little memory.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::logical_expr::dml::InsertOp;
use datafusion_tiledb::{ArrayBuilder, Location, TileDbTable};
use libtest_mimic::Failed;

use super::expect;
use super::insert::{batch, rows, session};
use crate::support::neutral_rows;

/// The side of a dense array of 16 tiles, and of its tiles.
const SIDE: i32 = 64;

/// The cells of some lines of a dense array: batches of one line each.
fn lines(lines: std::ops::Range<i32>) -> impl Iterator<Item = RecordBatch> {
    lines.map(|y| cells((0..SIDE).map(|x| (y, x)).collect()))
}

fn cells(places: Vec<(i32, i32)>) -> RecordBatch {
    let column = |of: fn(&(i32, i32)) -> i32| -> ArrayRef {
        Arc::new(Int32Array::from_iter_values(places.iter().map(of)))
    };
    let texts = places.iter().map(|(y, x)| format!("{y:020}/{x}"));
    batch(vec![
        ("y", column(|(y, _)| *y)),
        ("x", column(|(_, x)| *x)),
        ("v", column(|(y, x)| y * SIDE + x)),
        ("s", Arc::new(StringArray::from_iter_values(texts))),
    ])
}

trial!(dense_tiles);
/// Tiles that have all their cells are filtered while others come, and however little memory there is, all are written.
async fn dense_tiles() -> Result<(), Failed> {
    let columns = Schema::new(vec![
        Field::new("y", DataType::Int32, false),
        Field::new("x", DataType::Int32, false),
        Field::new("v", DataType::Int32, false),
        Field::new("s", DataType::Utf8, false),
    ]);
    let all = neutral_rows::rows(&lines(0..SIDE).collect::<Vec<_>>());
    for kilobytes in [1 << 20, 800, 400, 200, 120] {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("array").display().to_string();
        let mut builder = ArrayBuilder::new(&columns, ["y", "x"])?.dense();
        for dimension in ["y", "x"] {
            builder = builder
                .domain(dimension, "0", "63")?
                .tile(dimension, "16")?;
        }
        builder.create(Location::local(&path)?).await?;
        let table = TileDbTable::open(&path).await?;
        let insert = async |batches: Vec<RecordBatch>| {
            let ctx = session(1, Arc::new(FairSpillPool::new(kilobytes << 10)));
            table
                .insert_rows(ctx.read_batches(batches)?, InsertOp::Append)
                .await
        };
        for (again, which) in [
            (vec![cells(vec![(3, 5)])], "(y = 3, x = 5)"),
            (lines(0..SIDE).collect(), "(y = "),
        ] {
            let twice = lines(0..SIDE).chain(again);
            let why = format!("two rows have the coordinates {which}");
            let twice = insert(twice.collect()).await;
            match twice.map_err(|e| e.to_string()) {
                Err(e) if e.contains(&why) => {}
                other => return Err(format!("{kilobytes} KB, {why}: {other:?}").into()),
            }
        }
        expect("rows of what failed", rows(&path).await?.len(), 0)?;
        // A part, with holes between its cells, and then the rest.
        let some = lines(0..40).chain([cells(vec![(50, 1), (63, 63)])]);
        let written = insert(some.collect()).await?;
        expect("rows of a part", written, 40 * SIDE as u64 + 2)?;
        let written = insert(lines(40..SIDE).collect()).await?;
        expect("rows of the rest", written, 24 * SIDE as u64)?;
        let mut found = rows(&path).await?;
        let mut expected = all.clone();
        found.sort_unstable();
        expected.sort_unstable();
        expect("rows", found, expected)?;
    }
    Ok(())
}
