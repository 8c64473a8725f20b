//! The stream of the rows of a scan.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};

use crate::error::Result;

/// The rows of a scan, or of a part of it, as they are read. It can be dropped at any time.
pub struct ArrayBatches {
    schema: SchemaRef,
    batches: BoxStream<'static, Result<RecordBatch>>,
}

impl ArrayBatches {
    pub(super) fn new(schema: SchemaRef, batches: BoxStream<'static, Result<RecordBatch>>) -> Self {
        Self { schema, batches }
    }

    /// The schema of the batches.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Stream for ArrayBatches {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.batches.poll_next_unpin(cx)
    }
}

impl fmt::Debug for ArrayBatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrayBatches")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}
