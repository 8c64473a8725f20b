//! Small batches are combined, large ones are passed on.

use arrow::array::RecordBatch;
use arrow::compute::BatchCoalescer;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use futures::stream::{self, Stream, StreamExt};

/// Combines batches of fewer than half of `batch_size` rows. Ends after `fetch` rows.
///
/// # Errors
/// Those of the stream, and what `failed` makes of Arrow's.
pub fn coalesce<E: Send>(
    batches: impl Stream<Item = Result<RecordBatch, E>> + Send,
    schema: SchemaRef,
    batch_size: usize,
    fetch: Option<usize>,
    failed: impl Fn(ArrowError) -> E + Copy + Send,
) -> impl Stream<Item = Result<RecordBatch, E>> + Send {
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
    stream::try_unfold(
        state,
        move |(mut batches, mut coalescer, mut left, mut ended)| async move {
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
                    Some(batch) => coalescer.push_batch(batch?).map_err(failed)?,
                    None => {
                        coalescer.finish_buffered_batch().map_err(failed)?;
                        ended = true;
                    }
                }
            }
        },
    )
}
