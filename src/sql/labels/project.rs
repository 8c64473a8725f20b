//! Addition of label columns to the rows of a scan, by the values of dimensions.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;

use super::index;
use super::reader::LabelReader;
use crate::error::{Error, Result};
use crate::format::datatype::Datatype;
use crate::memory::budget::MemoryBudget;

/// The source of a column of the result.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// A column of the scan.
    Scan(usize),
    /// A label.
    Label {
        /// Reads the label.
        reader: Arc<LabelReader>,
        /// The column of the scan with the labelled dimension.
        index: usize,
        /// The dimension's type.
        datatype: Datatype,
    },
}

/// Adds labels to the batches of a scan, and drops dimensions that were read only for them.
#[derive(Debug, Clone)]
pub(crate) struct LabelProjection {
    pub(super) schema: SchemaRef,
    pub(super) columns: Vec<Source>,
}

impl LabelProjection {
    /// The schema of the result.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Adds labels to a batch of the scan.
    pub(crate) async fn apply(
        &self,
        batch: RecordBatch,
        memory: &Arc<dyn MemoryBudget>,
    ) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(self.columns.len());
        let column = |index: usize| {
            let missing = || Error::internal(format!("the scan has no column {index}"));
            batch.columns().get(index).ok_or_else(missing)
        };
        for source in &self.columns {
            columns.push(match source {
                Source::Scan(index) => Arc::clone(column(*index)?),
                Source::Label {
                    reader,
                    index,
                    datatype,
                } => {
                    let keys = index::keys(column(*index)?, *datatype)?;
                    reader.values(&keys, memory).await?
                }
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|e| Error::internal("labels do not fit the table's schema").with_source(e))
    }
}
