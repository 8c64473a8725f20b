//! The output batches of a scan: with labels, and of the session's batch size.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::BatchCoalescer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt};

use crate::memory::budget::MemoryBudget;
use crate::sql::labels::LabelProjection;

/// Adds the selected labels to the batches of a scan.
pub(super) fn with_labels(
    batches: impl Stream<Item = crate::Result<RecordBatch>> + Send + 'static,
    labels: Option<Arc<LabelProjection>>,
    memory: Arc<dyn MemoryBudget>,
) -> BoxStream<'static, Result<RecordBatch>> {
    let Some(labels) = labels else {
        return batches.map_err(DataFusionError::from).boxed();
    };
    let labelled = batches.and_then(move |batch| {
        let (labels, memory) = (Arc::clone(&labels), Arc::clone(&memory));
        async move { labels.apply(batch, &memory).await }
    });
    labelled.map_err(DataFusionError::from).boxed()
}

/// Combines small batches; large ones are passed on. Ends after `fetch` rows.
pub(super) fn coalesce(
    batches: impl Stream<Item = Result<RecordBatch>> + Send + 'static,
    schema: SchemaRef,
    batch_size: usize,
    fetch: Option<usize>,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    // Batches need not be larger than the limit.
    let batch_size = fetch.map_or(batch_size, |fetch| batch_size.min(fetch.max(1)));
    let coalescer = BatchCoalescer::new(schema, batch_size)
        .with_biggest_coalesce_batch_size(Some(batch_size / 2));
    let state = (
        Box::pin(batches),
        coalescer,
        fetch.unwrap_or(usize::MAX),
        false,
    );
    futures::stream::try_unfold(
        state,
        |(mut batches, mut coalescer, mut left, mut ended)| async move {
            loop {
                if left == 0 {
                    return Ok(None);
                }
                if let Some(batch) = coalescer.next_completed_batch() {
                    let batch = if batch.num_rows() > left {
                        batch.slice(0, left)
                    } else {
                        batch
                    };
                    left -= batch.num_rows();
                    return Ok(Some((batch, (batches, coalescer, left, ended))));
                }
                if ended {
                    return Ok(None);
                }
                match batches.next().await {
                    Some(batch) => coalescer.push_batch(batch?)?,
                    None => {
                        coalescer.finish_buffered_batch()?;
                        ended = true;
                    }
                }
            }
        },
    )
}
