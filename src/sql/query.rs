//! What a query asks of an array: values, from which the plan of a scan is made wherever it runs.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::physical_expr::PhysicalExpr;

use super::options::TableOptions;
use super::settings::TileDbSettings;
use crate::array::snapshot::{Seen, Snapshot};
use crate::scan::plan::first_cells::DimensionOrder;

/// A scan of an array as a value: it holds no storage, and can be opened by anyone who can read the array.
#[derive(Debug, Clone)]
pub struct ScanRequest {
    /// Where the array lies.
    pub uri: String,
    /// Which of its fragments and deletes the scan sees.
    pub seen: Seen,
    /// What is asked of it.
    pub query: ScanQuery,
}

/// What a query asks of an array, whatever is in it.
#[derive(Debug, Clone)]
pub struct ScanQuery {
    /// How the array is shown. The key of an encrypted array is among the options, and goes no further than this process.
    pub options: TableOptions,
    /// The columns of the table, labels among them, to which projection and filters refer.
    pub schema: SchemaRef,
    /// Which of these columns are asked for, in order.
    pub projection: Vec<usize>,
    /// The conditions that rows must meet.
    pub filters: ScanFilters,
    /// At most so many rows are wanted of each partition.
    pub limit: Option<usize>,
    /// Where it is known, the scan of a dense array reads only the cells that hold the first so many rows in an order by
    /// dimensions.
    pub first_cells: Option<(Vec<DimensionOrder>, u64)>,
    /// At most so many partitions.
    pub partitions: usize,
    /// Which special ways may be taken.
    pub settings: TileDbSettings,
}

/// The filters of a scan, by what can decide them; over the columns of the table.
#[derive(Debug, Clone, Default)]
pub struct ScanFilters {
    /// The conjunction of those on dimensions and attributes.
    pub of_array: Option<Arc<dyn PhysicalExpr>>,
    /// The conjunction of those on one label, by its number.
    pub of_labels: Vec<(usize, Arc<dyn PhysicalExpr>)>,
}

impl ScanRequest {
    pub(super) fn new(query: ScanQuery, snapshot: &Snapshot) -> Self {
        let key = snapshot.storage.encryption_key().cloned();
        Self {
            uri: snapshot.storage.uri().to_owned(),
            seen: snapshot.seen(),
            query: ScanQuery {
                options: TableOptions {
                    encryption_key: key,
                    ..query.options
                },
                ..query
            },
        }
    }
}
