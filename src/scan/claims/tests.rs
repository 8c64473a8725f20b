//! Tests that streams with false declarations fail.

use datafusion::arrow::array::Int64Array;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{ColumnStatistics, SplitPoint};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalSortExpr, RangePartitioning};
use futures::StreamExt;

use super::*;

fn batch(values: &[Option<i64>]) -> RecordBatch {
    let column = Int64Array::from(values.to_vec());
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
    RecordBatch::try_new(schema, vec![Arc::new(column)]).unwrap()
}

fn ascending() -> LexOrdering {
    let by = PhysicalSortExpr::new_default(Arc::new(Column::new("a", 0)));
    LexOrdering::new([by]).unwrap()
}

fn claims(schema: SchemaRef) -> ScanClaims {
    let properties = EquivalenceProperties::new(schema);
    ScanClaims::new(
        "a node",
        0,
        &properties,
        Partitioning::UnknownPartitioning(1),
    )
}

/// The outcome of a stream of some batches under some declarations.
async fn outcome(
    batches: &[&[Option<i64>]],
    claim: impl FnOnce(&mut ScanClaims),
) -> Result<usize, String> {
    let batches = batches
        .iter()
        .map(|values| batch(values))
        .collect::<Vec<_>>();
    let schema = batches[0].schema();
    let mut claims = claims(Arc::clone(&schema));
    claim(&mut claims);
    let rows = futures::stream::iter(batches.into_iter().map(Ok));
    let mut stream = claims.check(Box::pin(RecordBatchStreamAdapter::new(schema, rows)));
    let mut count = 0;
    while let Some(batch) = stream.next().await {
        count += batch.map_err(|e| e.to_string())?.num_rows();
    }
    Ok(count)
}

fn exactly(
    rows: usize,
    min: i64,
    max: i64,
    nulls: usize,
) -> Option<(Arc<Statistics>, Arc<PartitionTotals>)> {
    let column = ColumnStatistics {
        null_count: Precision::Exact(nulls),
        min_value: Precision::Exact(ScalarValue::from(min)),
        max_value: Precision::Exact(ScalarValue::from(max)),
        ..ColumnStatistics::new_unknown()
    };
    let statistics = Statistics {
        num_rows: Precision::Exact(rows),
        total_byte_size: Precision::Absent,
        column_statistics: vec![column],
    };
    Some((Arc::new(statistics), Arc::default()))
}

#[tokio::test]
async fn a_broken_promise_is_an_error() {
    let rows: &[&[Option<i64>]] = &[&[Some(1), Some(2)], &[Some(2), None]];
    let unordered: &[&[Option<i64>]] = &[&[Some(1), Some(3)], &[Some(2)]];
    let within: &[&[Option<i64>]] = &[&[Some(2), Some(1)]];
    assert_eq!(outcome(rows, |_| {}).await, Ok(4));
    assert_eq!(outcome(rows, |c| c.fetch = Some(4)).await, Ok(4));
    assert!(
        outcome(rows, |c| c.fetch = Some(3))
            .await
            .unwrap_err()
            .contains("at most 3 rows")
    );
    let ordered = |c: &mut ScanClaims| c.orderings = vec![ascending()];
    // NULL is first in this order.
    assert!(
        outcome(rows, ordered)
            .await
            .unwrap_err()
            .contains("the order")
    );
    assert!(
        outcome(unordered, ordered)
            .await
            .unwrap_err()
            .contains("the order")
    );
    assert!(
        outcome(within, ordered)
            .await
            .unwrap_err()
            .contains("the order")
    );
    assert_eq!(
        outcome(&[&[None, Some(1)], &[Some(1)]], ordered).await,
        Ok(3)
    );
    let other = Arc::new(Schema::new(vec![Field::new("b", DataType::Int64, true)]));
    assert!(
        outcome(rows, |c| c.schema = other)
            .await
            .unwrap_err()
            .contains("the schema")
    );
}

#[tokio::test]
async fn statistics_that_are_called_exact_are_counted() {
    let rows: &[&[Option<i64>]] = &[&[Some(1), Some(2)], &[Some(2), None]];
    let told =
        |rows, min, max, nulls| move |c: &mut ScanClaims| c.totals = exactly(rows, min, max, nulls);
    assert_eq!(outcome(rows, told(4, 1, 2, 1)).await, Ok(4));
    assert!(
        outcome(rows, told(5, 1, 2, 1))
            .await
            .unwrap_err()
            .contains("exactly 5 rows")
    );
    assert!(
        outcome(rows, told(4, 0, 2, 1))
            .await
            .unwrap_err()
            .contains("the bound 0")
    );
    assert!(
        outcome(rows, told(4, 1, 3, 1))
            .await
            .unwrap_err()
            .contains("the bound 3")
    );
    assert!(
        outcome(rows, told(4, 1, 2, 0))
            .await
            .unwrap_err()
            .contains("0 NULLs")
    );
}

#[tokio::test]
async fn rows_belong_into_the_range_of_their_partition() {
    let points = [2, 5].map(|value: i64| SplitPoint::new(vec![ScalarValue::from(value)]));
    let ranges = RangePartitioning::try_new(ascending(), points.to_vec()).unwrap();
    let partition = |number| {
        let ranges = ranges.clone();
        move |c: &mut ScanClaims| {
            c.partition = number;
            c.partitioning = Partitioning::Range(ranges);
        }
    };
    let rows: &[&[Option<i64>]] = &[&[Some(2), Some(4)]];
    assert_eq!(outcome(rows, partition(1)).await, Ok(2));
    assert!(outcome(rows, partition(0)).await.is_err());
    assert!(outcome(rows, partition(2)).await.is_err());
}
