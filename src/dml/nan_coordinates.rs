//! NaN coordinates. In IEEE, every comparison with a NaN is false, and a cell must satisfy one to survive, so a stored range
//! deletes NaN coordinates whatever the range is. SQL puts NaN above all numbers.
//!
//! Few arrays have any, but statistics don't record them, so the column is read before such a condition is committed.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::Operator;
use tiledb_engine::array::snapshot::Snapshot;
use tiledb_engine::format::datatype::Datatype;
use tiledb_engine::format::schema::Dimension;
use tiledb_engine::geometry::key::nan_key;
use tiledb_engine::geometry::subarray::DimRanges;
use tiledb_engine::{Error, Result};

use super::cell_scan::CellScan;
use crate::options::TableOptions;

/// The NaN coordinates that WHERE leaves and the stored condition deletes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RemovedNan {
    /// The index of the dimension.
    dimension: usize,
}

impl RemovedNan {
    /// The NaN coordinates of a dimension, unless they lie in the deleted `ranges`.
    pub(super) fn outside(index: usize, dimension: &Dimension, ranges: &DimRanges) -> Option<Self> {
        let nan = nan_key(dimension.datatype)?;
        (!ranges.contains_key(nan)).then_some(Self { dimension: index })
    }
}

/// Fails if the array has such a cell.
///
/// # Errors
/// There is one, or the cells cannot be read.
pub(super) async fn check_none(
    removed_nans: &[RemovedNan],
    snapshot: &Snapshot,
    context: &Arc<TaskContext>,
) -> Result<()> {
    for nan in removed_nans {
        let scan = CellScan::new(snapshot, TableOptions::default(), context)?;
        let dimensions = &scan.table.snapshot.schema.dimensions;
        let dimension = dimensions.get(nan.dimension);
        let dimension = dimension.ok_or_else(|| Error::internal("a dimension is there"))?;
        let infinity = match dimension.datatype {
            Datatype::Float32 => ScalarValue::from(f32::INFINITY),
            _ => ScalarValue::from(f64::INFINITY),
        };
        let condition = Some(scan.compare(nan.dimension, Operator::Gt, infinity));
        let found = scan.read(vec![nan.dimension], condition, Some(1)).await?;
        if found.iter().any(|batch| batch.num_rows() > 0) {
            let name = &dimension.name;
            return Err(Error::unsupported(format!(
                "the array has cells whose coordinate \"{name}\" is NaN, which the stored range of \"{name}\" would delete, too: \
                 write \"{name}\" + 0 in the comparison, and the rows are deleted one by one where the array allows no duplicates"
            ))
            .with("array", snapshot.storage.uri()));
        }
    }
    Ok(())
}
