//! What a query asks of an array: values, from which the plan of a scan is made wherever it runs.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::physical_expr::PhysicalExpr;
use tiledb_engine::array::snapshot::{Snapshot, SnapshotContents};
use tiledb_engine::scan::plan::first_cells::DimensionOrder;
use tiledb_engine::storage::ExternalMembers;

use crate::options::TableOptions;
use crate::options::settings::TileDbSettings;

/// A scan of an array as a value: it holds no storage, and can be opened by anyone who can read the array.
#[derive(Debug, Clone)]
pub struct ScanRequest {
    /// The URI of the array.
    pub uri: String,
    /// The URI of what the user opened: the array, or a group above it.
    pub root: String,
    /// The fragments and deletes that the scan sees.
    pub seen: SnapshotContents,
    /// What the query asks of the array.
    pub query: ScanQuery,
}

/// What a query asks of an array, whatever is in it.
#[derive(Debug, Clone)]
pub struct ScanQuery {
    /// The options of the table. The key of an encrypted array is one of them, and is not sent to other processes.
    pub options: TableOptions,
    /// The columns of the table, labels among them, to which projection and filters refer.
    pub schema: SchemaRef,
    /// The indexes of the requested columns, in order.
    pub projection: Vec<usize>,
    /// The conditions that every row satisfies.
    pub filters: ScanFilters,
    /// The number of rows after which a partition may stop.
    pub limit: Option<usize>,
    /// An order by dimensions and a number of rows: a scan of a dense array then reads only the cells that hold the first
    /// rows in this order.
    pub first_cells: Option<(Vec<DimensionOrder>, u64)>,
    /// The largest number of partitions.
    pub partitions: usize,
    /// The special ways that the session allows.
    pub settings: TileDbSettings,
}

/// The filters of a scan over the columns of the table, divided by what can evaluate them.
#[derive(Debug, Clone, Default)]
pub struct ScanFilters {
    /// The conjunction of the filters on dimensions and attributes.
    pub of_array: Option<Arc<dyn PhysicalExpr>>,
    /// For each label with filters, its number and the conjunction of these filters.
    pub of_labels: Vec<(usize, Arc<dyn PhysicalExpr>)>,
}

impl ScanQuery {
    /// The arrays of labels that may be opened outside the folder that was opened.
    pub(crate) fn external_members(&self) -> &ExternalMembers {
        let of_table = self.options.external_members.as_ref();
        of_table.unwrap_or(&self.settings.external_members)
    }
}

impl ScanRequest {
    pub(crate) fn new(query: ScanQuery, snapshot: &Snapshot) -> Self {
        let key = snapshot.storage.encryption_key().cloned();
        Self {
            uri: snapshot.storage.uri().to_owned(),
            root: snapshot.storage.root().uri().to_owned(),
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
