//! The statistics of a scan for the optimizer, before it runs.
//!
//! They are derived from what planning has already loaded: nothing is read for them. The subtle thing: DataFusion
//! answers queries from `Exact` statistics without running the scan. So bounds are exact only if the number of rows is:
//! then every cell of every tile is a row, and the box around a tile touches some of them on each side.

use std::cmp::Ordering;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use tiledb_engine::scan::ScanPlan;

/// The assumed size of a string or list.
const VAR_BYTES: usize = 32;

/// The statistics that the plan proves. `schema` is that of the scan; columns that it adds to those of the plan are
/// unknown.
pub(crate) fn statistics(plan: &ScanPlan, schema: &SchemaRef) -> Statistics {
    let mut statistics = Statistics::new_unknown(schema);
    statistics.num_rows = row_count(plan);
    let mut row_bytes = 0_usize;
    for (i, (column, field)) in statistics
        .column_statistics
        .iter_mut()
        .zip(schema.fields())
        .enumerate()
    {
        if !field.is_nullable() {
            column.null_count = Precision::Exact(0);
        }
        row_bytes = row_bytes.saturating_add(bytes_of(field.data_type()));
        let own = plan
            .spec
            .projection
            .get(i)
            .filter(|c| plan.spec.table.schema.fields().get(**c) == Some(field));
        if let Some(dimension) = own.filter(|c| **c < plan.spec.table.dimension_count()) {
            bound(plan, *dimension, column);
        }
    }
    let rows = statistics.num_rows.to_inexact();
    statistics.total_byte_size = rows.multiply(&Precision::Exact(row_bytes));
    statistics
}

/// The statistics without the bounds of columns.
pub(crate) fn without_bounds(statistics: &Statistics) -> Statistics {
    let mut statistics = statistics.clone();
    for column in &mut statistics.column_statistics {
        (column.min_value, column.max_value) = (Precision::Absent, Precision::Absent);
    }
    statistics
}

/// Whether earlier statistics hold for the rows with the statistics `now`.
pub(crate) fn remain_true(told: &Statistics, now: &Statistics) -> bool {
    let exact = |told: &Precision<usize>, now: &Precision<usize>| {
        !matches!(told, Precision::Exact(_)) || told == now
    };
    let within = |told: &Precision<ScalarValue>, now: &Precision<ScalarValue>, inward| {
        let Some(told) = told.get_value() else {
            return true;
        };
        let order = now.get_value().and_then(|now| now.partial_cmp(told));
        order.is_some_and(|order| order == inward || order == Ordering::Equal)
    };
    // Any statement about values is true without rows.
    let none = now.num_rows == Precision::Exact(0);
    let nulls = |now: &ColumnStatistics| {
        if none {
            Precision::Exact(0)
        } else {
            now.null_count
        }
    };
    let told_columns = told.column_statistics.iter();
    let mut columns = told_columns.zip(&now.column_statistics);
    exact(&told.num_rows, &now.num_rows)
        && columns.all(|(told, now)| {
            let within_bounds = || {
                within(&told.min_value, &now.min_value, Ordering::Greater)
                    && within(&told.max_value, &now.max_value, Ordering::Less)
            };
            exact(&told.null_count, &nulls(now)) && (none || within_bounds())
        })
}

/// The statistics under a limit of `fetch` rows in each of `partitions`.
pub(crate) fn limited(statistics: Statistics, fetch: usize, partitions: usize) -> Statistics {
    let most = fetch.saturating_mul(partitions);
    match statistics.num_rows {
        // No partition can have too many rows, however they are distributed.
        Precision::Exact(rows) if rows <= fetch => statistics,
        Precision::Exact(_) if partitions == 1 => Statistics {
            num_rows: Precision::Exact(fetch),
            ..statistics.to_inexact()
        },
        rows => Statistics {
            num_rows: rows.min(&Precision::Exact(most)).to_inexact(),
            ..statistics.to_inexact()
        },
    }
}

/// The number of rows by the metadata: exact, or an upper bound.
fn row_count(plan: &ScanPlan) -> Precision<usize> {
    match (
        plan.exact_rows.map(usize::try_from),
        usize::try_from(plan.max_rows),
    ) {
        (Some(Ok(rows)), _) => Precision::Exact(rows),
        (_, Ok(rows)) => Precision::Inexact(rows),
        _ => Precision::Absent,
    }
}

/// The bounds of a dimension.
fn bound(plan: &ScanPlan, dimension: usize, column: &mut ColumnStatistics) {
    let Some(bounds) = plan.dimension_bounds(dimension) else {
        return;
    };
    let value = |i| ScalarValue::try_from_array(&bounds.values, i);
    if let (Ok(lo), Ok(hi)) = (value(0), value(1)) {
        let precise = |value| {
            if bounds.exact {
                Precision::Exact(value)
            } else {
                Precision::Inexact(value)
            }
        };
        (column.min_value, column.max_value) = (precise(lo), precise(hi));
    }
}

fn bytes_of(ty: &DataType) -> usize {
    match ty {
        DataType::Boolean => 1,
        DataType::FixedSizeBinary(size) => usize::try_from(*size).unwrap_or(0),
        DataType::FixedSizeList(item, size) => {
            let size = usize::try_from(*size).unwrap_or(0);
            bytes_of(item.data_type()).saturating_mul(size)
        }
        DataType::Dictionary(codes, _) => bytes_of(codes),
        other => other.primitive_width().unwrap_or(VAR_BYTES),
    }
}
