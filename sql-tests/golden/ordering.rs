//! Orders that begin with the leading dimension, on every golden array: a scan that says its rows come in an order gives
//! them in that order, and gives the same rows.
//!
//! Twice: as SQL, where whatever the scan says decides what is sorted, and below SQL with units of few cells, so that
//! small arrays have many. What is expected is the unordered scan, sorted here.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::compute::{
    SortColumn, SortOptions, concat_batches, lexsort_to_indices, take_record_batch,
};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::catalog::TableProvider;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::displayable;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::TileDbTable;
use datafusion_tiledb::scan::source::TileDbSource;
use futures::TryStreamExt;
use libtest_mimic::Failed;
use serde_json::Value;
use tiledb_engine::memory::budget::UnlimitedBudget;
use tiledb_engine::scan::ScanPlan;
use tiledb_engine::scan::context::{ReadAhead, ScanContext};
use tiledb_engine::scan::order::{OrderTerm, RowOrder};
use tiledb_engine::scan::stream::read_units;
use tiledb_engine::scan::units::UnitQueue;

use crate::golden::pruning;
use crate::support::{golden, neutral_rows};

/// Partitions and rows of a batch.
const SESSIONS: [(usize, usize); 3] = [(2, 8192), (1, 7), (5, 100)];

/// A frame for values of every type.
const ROWS: &str = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW";

/// Orders by so many of the last columns besides.
const MOST_COLUMNS: usize = 3;

/// Arrays of every kind that can be read in order: up and down, by the leading dimension, by all, and by another column.
const READ_IN_ORDER: [&str; 13] = [
    // Dense: of one dimension and several, in either cell order, and of several fragments.
    "order_dense_1d_tile_row_cell_row",
    "order_dense_2d_tile_row_cell_row",
    "order_dense_3d_tile_row_cell_col",
    "dense_overlapping",
    "elevation",
    // Sparse: in either cell order and on the curve, of few cells; strings; of several fragments, and resolved.
    "order_sparse_1d_tile_row_cell_row",
    "order_sparse_1d_tile_row_cell_hilbert",
    "order_sparse_2d_tile_row_cell_row",
    "order_sparse_2d_tile_col_cell_col",
    "order_sparse_3d_tile_row_cell_row",
    "rtree_strings",
    "sparse_nullable",
    "sparse_value_gone",
];

trials!(golden::on_oldest_or_newest(0, |array, entry| async move {
    check(&array, &entry).await
}));

async fn check(array: &Path, entry: &Value) -> Result<(), Failed> {
    let name = entry["name"].as_str().unwrap_or_default();
    let Some((table, _, rows)) = pruning::copied(array, entry).await? else {
        return Ok(());
    };
    let plan = plan(&table).await?;
    let orders = orders(&rows, plan.spec.table.dimension_count());
    for (number, order) in orders.iter().enumerate() {
        if plan.spec.output_schema() == rows.schema() {
            below_sql(&plan, order, &rows).await?;
        }
        by_sql(&table, order, &rows, number + name.len()).await?;
    }
    if READ_IN_ORDER.contains(&name) {
        for order in &orders {
            let query = format!("SELECT * FROM t ORDER BY {}", sql(order, &rows));
            let shown = explain(&table, &query).await?;
            if shown.contains("Sort") {
                return Err(format!("{query} sorts:\n{shown}").into());
            }
        }
    }
    Ok(())
}

/// Orders by the leading dimension, up and down; by all dimensions; by it and each other column.
fn orders(rows: &RecordBatch, dimensions: usize) -> Vec<Vec<OrderTerm>> {
    let term = |column: usize, descending: bool, nulls_first: bool| OrderTerm {
        column,
        shown: column,
        options: SortOptions::new(descending, nulls_first),
    };
    let sorts = |column: &usize| RowOrder::sorts(rows.schema().field(*column).data_type());
    let mut orders = vec![vec![term(0, false, false)], vec![term(0, true, true)]];
    let all = |descending| {
        (0..dimensions)
            .map(|d| term(d, descending, false))
            .collect()
    };
    orders.extend([all(false), all(true)]);
    for column in (1..rows.num_columns())
        .rev()
        .filter(sorts)
        .take(MOST_COLUMNS)
    {
        let (down, first) = (column % 2 == 0, column % 3 == 0);
        orders.push(vec![term(0, false, false), term(column, down, first)]);
        orders.push(vec![term(0, true, false), term(column, down, !first)]);
    }
    orders.retain(|order| order.iter().all(|term| sorts(&term.column)));
    orders
}

fn sql(order: &[OrderTerm], rows: &RecordBatch) -> String {
    let schema = rows.schema();
    let terms = order.iter().map(|term| {
        let name = schema.field(term.column).name().replace('"', "\"\"");
        format!("\"{name}\" {}", term.options)
    });
    terms.collect::<Vec<_>>().join(", ")
}

fn keys(order: &[OrderTerm], rows: &RecordBatch) -> Vec<ArrayRef> {
    let column = |term: &OrderTerm| Arc::clone(rows.column(term.column));
    order.iter().map(column).collect()
}

fn sorted(order: &[OrderTerm], rows: &RecordBatch) -> Result<RecordBatch, Failed> {
    let columns = order.iter().map(|term| SortColumn {
        values: Arc::clone(rows.column(term.column)),
        options: Some(term.options),
    });
    let indices = lexsort_to_indices(&columns.collect::<Vec<_>>(), None)?;
    Ok(take_record_batch(rows, &indices)?)
}

/// Compares the keys in their order, and the rows in any.
fn compare(
    what: &str,
    order: &[OrderTerm],
    found: &RecordBatch,
    expected: &RecordBatch,
) -> Result<(), Failed> {
    let shown = |rows: &RecordBatch| {
        let rows = (0..rows.num_rows()).map(|i| neutral_rows::rows(&[rows.slice(i, 1)]).concat());
        rows.collect::<Vec<_>>()
    };
    let same = found.num_rows() == expected.num_rows();
    if !same || keys(order, found) != keys(order, expected) {
        let (found, expected) = (shown(found), shown(expected));
        return Err(format!("{what}\nexpected {expected:#?}\nfound {found:#?}").into());
    }
    if counted(found)? != counted(expected)? {
        return Err(format!("{what}: other rows").into());
    }
    Ok(())
}

/// The rows as bytes, sorted.
fn counted(rows: &RecordBatch) -> Result<Vec<Vec<u8>>, Failed> {
    let fields = rows.schema();
    let fields = fields
        .fields()
        .iter()
        .map(|field| SortField::new(field.data_type().clone()))
        .collect::<Vec<_>>();
    let mut bytes = RowConverter::new(fields)?
        .convert_columns(rows.columns())?
        .iter()
        .map(|row| row.as_ref().to_vec())
        .collect::<Vec<_>>();
    bytes.sort_unstable();
    Ok(bytes)
}

async fn plan(table: &Arc<TileDbTable>) -> Result<Arc<ScanPlan>, Failed> {
    let ctx = SessionContext::new();
    let scan = table.scan(&ctx.state(), None, &[], None).await?;
    let scan = scan.downcast_ref::<DataSourceExec>().expect("a scan");
    let source = scan.data_source().downcast_ref::<TileDbSource>();
    Ok(Arc::clone(source.expect("a scan of an array").plan()))
}

/// Reads in units of one cell, and of some.
async fn below_sql(
    plan: &Arc<ScanPlan>,
    order: &[OrderTerm],
    rows: &RecordBatch,
) -> Result<(), Failed> {
    let row_order = Arc::new(RowOrder::new(order.to_vec()).expect("it begins with dimension 0"));
    for cells in [1, 40] {
        let Some(plan) = plan.in_order(&row_order, Some(cells)).map(Arc::new) else {
            continue;
        };
        let units = 0..plan.unit_count();
        let context =
            ScanContext::new(Arc::clone(&plan), Arc::new(UnlimitedBudget), Arc::default());
        let context = context.with_row_order(Some(Arc::clone(&row_order)), ReadAhead::default());
        let batches = read_units(context, UnitQueue::alone(units))
            .try_collect::<Vec<_>>()
            .await;
        let what = format!("{order:?} in units of {cells}");
        let batches = batches.map_err(|e| format!("{what}: {e}"))?;
        let found = concat_batches(&rows.schema(), &batches)?;
        compare(&what, order, &found, &sorted(order, rows)?)?;
    }
    Ok(())
}

fn session(partitions: usize, batch_size: usize) -> Result<SessionContext, Failed> {
    let config = SessionConfig::new()
        .with_target_partitions(partitions)
        .with_batch_size(batch_size);
    let ctx = SessionContext::new_with_config(config);
    datafusion_tiledb::register(&ctx)?;
    Ok(ctx)
}

/// One query for each order; which one differs from array to array.
async fn by_sql(
    table: &Arc<TileDbTable>,
    order: &[OrderTerm],
    rows: &RecordBatch,
    number: usize,
) -> Result<(), Failed> {
    let (partitions, batch_size) = SESSIONS[number % SESSIONS.len()];
    let ctx = session(partitions, batch_size)?;
    ctx.register_table("t", Arc::clone(table) as _)?;
    let by = sql(order, rows);
    let all = sorted(order, rows)?;
    let (query, expected) = match number % 4 {
        0 => (format!("SELECT * FROM t ORDER BY {by}"), all),
        1 => {
            let (skipped, few) = (2.min(all.num_rows()), 1 + number % 9);
            let first = all.slice(skipped, few.min(all.num_rows() - skipped));
            (
                format!("SELECT * FROM t ORDER BY {by} LIMIT {few} OFFSET {skipped}"),
                first,
            )
        }
        2 => {
            let row = format!("row_number() OVER (ORDER BY {by} {ROWS}) AS \"the row\"");
            (format!("SELECT *, {row} FROM t ORDER BY \"the row\""), all)
        }
        _ => return ranks_agree(&ctx, order, rows).await,
    };
    let what = format!("{query} in {partitions} partitions");
    let batches = ctx
        .sql(&query)
        .await?
        .collect()
        .await
        .map_err(|e| format!("{what}: {e}"))?;
    let columns = (0..rows.num_columns()).collect::<Vec<_>>();
    let batches = batches
        .iter()
        .map(|batch| batch.project(&columns))
        .collect::<Result<Vec<_>, _>>()?;
    let found = concat_batches(&rows.schema(), &batches)?;
    if number % 4 != 1 {
        return compare(&what, order, &found, &expected);
    }
    // Rows with equal keys are any of them.
    if keys(order, &found) == keys(order, &expected) {
        Ok(())
    } else {
        Err(what.into())
    }
}

/// A row's rank among those of its coordinate follows from its ranks among all, whatever is partitioned and sorted.
async fn ranks_agree(
    ctx: &SessionContext,
    order: &[OrderTerm],
    rows: &RecordBatch,
) -> Result<(), Failed> {
    let Some((first, others @ [_, ..])) = order.split_first() else {
        return Ok(());
    };
    let (by, others) = (sql(order, rows), sql(others, rows));
    let leading = sql(std::slice::from_ref(first), rows);
    let name = rows.schema().field(0).name().replace('"', "\"\"");
    let query = format!(
        "SELECT * FROM (SELECT rank() OVER (ORDER BY {by} {ROWS}) - rank() OVER (ORDER BY {leading} {ROWS}) + 1 AS a, \
         rank() OVER (PARTITION BY \"{name}\" ORDER BY {others} {ROWS}) AS b FROM t) WHERE a <> b"
    );
    let batches = ctx.sql(&query).await?.collect().await?;
    if batches.iter().all(|batch| batch.num_rows() == 0) {
        Ok(())
    } else {
        Err(format!("{query}: {batches:?}").into())
    }
}

async fn explain(table: &Arc<TileDbTable>, query: &str) -> Result<String, Failed> {
    let ctx = session(2, 8192)?;
    ctx.register_table("t", Arc::clone(table) as _)?;
    let plan = ctx.sql(query).await?.create_physical_plan().await?;
    Ok(displayable(plan.as_ref()).indent(false).to_string())
}
