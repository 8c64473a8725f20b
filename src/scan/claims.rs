//! Checks that the rows of our plan nodes have the properties that the nodes declare.
//!
//! DataFusion trusts what a node declares about its rows: their schema and nullability, their order, the range of keys
//! in each partition, their number, and the bounds of columns. A false declaration leads to wrong answers without an
//! error. In debug builds, and after a call of [`check_always`], each stream of our nodes is checked row by row, and a
//! false declaration is an error.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, make_comparator};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::{Result, ScalarValue, Statistics, internal_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
use datafusion::logical_expr::Accumulator;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, Partitioning};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::TryStreamExt;

/// Whether declarations are checked: a choice of the test program for all its sessions.
static ALWAYS: AtomicBool = AtomicBool::new(cfg!(debug_assertions));

/// From now on declarations are checked in this process, also in a release build.
pub fn check_always() {
    ALWAYS.store(true, Relaxed);
}

/// What a node declares about the rows of one partition.
#[derive(Debug)]
pub(crate) struct ScanClaims {
    /// The name of the node.
    pub node: String,
    pub partition: usize,
    pub schema: SchemaRef,
    pub orderings: Vec<LexOrdering>,
    pub partitioning: Partitioning,
    /// The most rows of the partition.
    pub fetch: Option<usize>,
    /// The statistics of all partitions together, and the totals counted so far.
    pub totals: Option<(Arc<Statistics>, Arc<PartitionTotals>)>,
}

impl ScanClaims {
    /// The declarations of a plan node, without statistics.
    pub(crate) fn of_plan(plan: &dyn ExecutionPlan, partition: usize) -> Self {
        let properties = plan.properties();
        let partitioning = properties.output_partitioning().clone();
        Self {
            fetch: plan.fetch(),
            ..Self::new(
                plan.name(),
                partition,
                properties.equivalence_properties(),
                partitioning,
            )
        }
    }

    /// The declarations in the properties of a node.
    pub(crate) fn new(
        node: &str,
        partition: usize,
        properties: &EquivalenceProperties,
        partitioning: Partitioning,
    ) -> Self {
        Self {
            node: node.to_owned(),
            partition,
            schema: Arc::clone(properties.schema()),
            orderings: properties.oeq_class().iter().cloned().collect(),
            partitioning,
            fetch: None,
            totals: None,
        }
    }

    /// Wraps a stream, which then fails if a declaration is false.
    pub(crate) fn check(self, stream: SendableRecordBatchStream) -> SendableRecordBatchStream {
        let schema = stream.schema();
        let checked = CheckedStream::new(self);
        let batches =
            futures::stream::try_unfold((stream, checked), async |(mut stream, mut checked)| {
                match stream.try_next().await? {
                    Some(batch) => {
                        checked.see(&batch)?;
                        Ok(Some((batch, (stream, checked))))
                    }
                    None => checked.end().map(|()| None),
                }
            });
        Box::pin(RecordBatchStreamAdapter::new(schema, batches))
    }
}

/// Wraps a stream if declarations are checked; `claims` computes them.
pub(crate) fn checked(
    stream: SendableRecordBatchStream,
    claims: impl FnOnce() -> ScanClaims,
) -> SendableRecordBatchStream {
    if ALWAYS.load(Relaxed) {
        claims().check(stream)
    } else {
        stream
    }
}

/// A stream with the state of its checks.
struct CheckedStream {
    claims: ScanClaims,
    rows: usize,
    /// The keys of the last row, for each ordering.
    last: Vec<Option<Vec<ArrayRef>>>,
    columns: Vec<ColumnTotals>,
}

impl CheckedStream {
    fn new(claims: ScanClaims) -> Self {
        if let Some((_, totals)) = &claims.totals {
            totals.begin(claims.partition);
        }
        Self {
            rows: 0,
            last: vec![None; claims.orderings.len()],
            columns: claims
                .schema
                .fields()
                .iter()
                .map(|_| ColumnTotals::default())
                .collect(),
            claims,
        }
    }

    fn see(&mut self, batch: &RecordBatch) -> Result<()> {
        let node = self.claims.node.as_str();
        if batch.schema() != self.claims.schema {
            return internal_err!(
                "{node} promised the schema {:?} and gave {:?}",
                self.claims.schema,
                batch.schema()
            );
        }
        for (field, column) in self.claims.schema.fields().iter().zip(batch.columns()) {
            if !field.is_nullable() && column.null_count() > 0 {
                return internal_err!("{node} promised that {} is never NULL", field.name());
            }
        }
        self.rows = self.rows.saturating_add(batch.num_rows());
        if let Some(fetch) = self.claims.fetch.filter(|fetch| self.rows > *fetch) {
            return internal_err!(
                "{node} promised at most {fetch} rows and gave {}",
                self.rows
            );
        }
        if batch.num_rows() == 0 {
            return Ok(());
        }
        for (ordering, last) in self.claims.orderings.iter().zip(&mut self.last) {
            let keys = keys(ordering, batch)?;
            if !follows(ordering, last.as_deref(), &keys)? {
                return internal_err!("{node} promised the order {ordering} and broke it");
            }
            let end = batch.num_rows().saturating_sub(1);
            *last = Some(keys.iter().map(|key| key.slice(end, 1)).collect());
        }
        self.in_range(batch)?;
        if let Some((statistics, _)) = &self.claims.totals {
            for (i, column) in self.columns.iter_mut().enumerate() {
                let told = statistics.column_statistics.get(i);
                let bounds = told.is_some_and(|c| is_exact(&c.min_value) || is_exact(&c.max_value));
                column.see(batch.column(i), bounds)?;
            }
        }
        Ok(())
    }

    /// Checks that keys are in the partition's range: from the split point before it, inclusive, to the one after it,
    /// exclusive.
    fn in_range(&self, batch: &RecordBatch) -> Result<()> {
        let Partitioning::Range(ranges) = &self.claims.partitioning else {
            return Ok(());
        };
        let (ordering, partition) = (ranges.ordering(), self.claims.partition);
        let keys = keys(ordering, batch)?;
        let against = |split: Option<usize>, wrong: fn(Ordering) -> bool| -> Result<()> {
            let Some(point) = split.and_then(|split| ranges.split_points().get(split)) else {
                return Ok(());
            };
            for row in 0..batch.num_rows() {
                let order = compare_with(ordering, &keys, row, point.values())?;
                if wrong(order) {
                    return internal_err!(
                        "{} promised partition {partition} in a range of keys that a row is outside of",
                        self.claims.node
                    );
                }
            }
            Ok(())
        };
        against(partition.checked_sub(1), Ordering::is_lt)?;
        against(Some(partition), Ordering::is_ge)
    }

    fn end(self) -> Result<()> {
        let Some((statistics, totals)) = self.claims.totals else {
            return Ok(());
        };
        let partitions = self.claims.partitioning.partition_count();
        let part = PartTotals {
            rows: self.rows,
            columns: self.columns,
        };
        match totals.end(self.claims.partition, part, partitions) {
            Some(parts) => agree(&self.claims.node, &statistics, parts),
            None => Ok(()),
        }
    }
}

fn keys(ordering: &LexOrdering, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
    let keys = ordering
        .iter()
        .map(|by| by.expr.evaluate(batch)?.into_array(batch.num_rows()));
    keys.collect()
}

/// Whether rows are in order, also after the last row of the batch before.
fn follows(ordering: &LexOrdering, last: Option<&[ArrayRef]>, keys: &[ArrayRef]) -> Result<bool> {
    let rows = keys.first().map_or(0, |key| key.len());
    let comparators = |left: &[ArrayRef]| {
        let by_key = left.iter().zip(keys).zip(ordering);
        let compare = by_key.map(|((l, r), by)| Ok(make_comparator(l, r, by.options)?));
        compare.collect::<Result<Vec<_>>>()
    };
    let compare = comparators(keys)?;
    let order = |compare: &[_], left, right| {
        let mut orders = compare
            .iter()
            .map(|c: &datafusion::arrow::array::DynComparator| c(left, right));
        orders
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    };
    let among = (1..rows).all(|row| order(&compare, row - 1, row).is_le());
    let behind = match last {
        Some(last) => order(&comparators(last)?, 0, 0).is_le(),
        None => true,
    };
    Ok(among && behind)
}

/// Compares the keys of a row with a split point.
fn compare_with(
    ordering: &LexOrdering,
    keys: &[ArrayRef],
    row: usize,
    point: &[ScalarValue],
) -> Result<Ordering> {
    for ((key, value), by) in keys.iter().zip(point).zip(ordering) {
        let value = value.to_array()?;
        let order = make_comparator(key, &value, by.options)?(row, 0);
        if order.is_ne() {
            return Ok(order);
        }
    }
    Ok(Ordering::Equal)
}

/// The totals of the partitions of one plan that have ended.
#[derive(Debug, Default)]
pub(crate) struct PartitionTotals(Mutex<ClaimedParts>);

#[derive(Debug, Default)]
struct ClaimedParts {
    begun: HashSet<usize>,
    ended: HashMap<usize, PartTotals>,
    /// Whether a partition was opened twice, so that totals may mix two runs.
    mixed: bool,
}

#[derive(Debug)]
struct PartTotals {
    rows: usize,
    columns: Vec<ColumnTotals>,
}

#[derive(Debug, Default)]
struct ColumnTotals {
    nulls: usize,
    bounds: Option<(MinAccumulator, MaxAccumulator)>,
}

impl ColumnTotals {
    fn see(&mut self, column: &ArrayRef, bounds: bool) -> Result<()> {
        self.nulls = self.nulls.saturating_add(column.null_count());
        if !bounds {
            return Ok(());
        }
        let (min, max) = match &mut self.bounds {
            Some(bounds) => bounds,
            None => {
                let ty = column.data_type();
                let new = (MinAccumulator::try_new(ty)?, MaxAccumulator::try_new(ty)?);
                self.bounds.insert(new)
            }
        };
        min.update_batch(&[Arc::clone(column)])?;
        max.update_batch(&[Arc::clone(column)])
    }
}

impl PartitionTotals {
    fn begin(&self, partition: usize) {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts.mixed |= !parts.begun.insert(partition);
    }

    /// The totals of all partitions, if this was the last one.
    fn end(&self, partition: usize, part: PartTotals, of: usize) -> Option<Vec<PartTotals>> {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts.ended.insert(partition, part);
        let complete = parts.ended.len() == of && !parts.mixed;
        complete.then(|| parts.ended.drain().map(|(_, part)| part).collect())
    }
}

fn is_exact<T: std::fmt::Debug + Clone + PartialEq + Eq + PartialOrd>(
    value: &Precision<T>,
) -> bool {
    matches!(value, Precision::Exact(_))
}

/// Checks that exact statistics match the rows.
fn agree(node: &str, statistics: &Statistics, parts: Vec<PartTotals>) -> Result<()> {
    let rows = parts.iter().map(|part| part.rows).sum::<usize>();
    if let Precision::Exact(told) = statistics.num_rows
        && told != rows
    {
        return internal_err!("{node} promised exactly {told} rows and gave {rows}");
    }
    let mut of_columns = parts
        .into_iter()
        .map(|part| part.columns.into_iter())
        .collect::<Vec<_>>();
    for (i, told) in statistics.column_statistics.iter().enumerate() {
        let mut nulls = 0_usize;
        let (mut min, mut max) = (None, None);
        for column in of_columns.iter_mut().filter_map(Iterator::next) {
            nulls = nulls.saturating_add(column.nulls);
            if let Some((mut low, mut high)) = column.bounds {
                min = lower(min, low.evaluate()?, Ordering::is_lt);
                max = lower(max, high.evaluate()?, Ordering::is_gt);
            }
        }
        if let Precision::Exact(told) = told.null_count
            && told != nulls
        {
            return internal_err!("{node} promised {told} NULLs in column {i} and gave {nulls}");
        }
        for (told, found) in [(&told.min_value, min), (&told.max_value, max)] {
            if let (Precision::Exact(told), Some(found)) = (told, found)
                && *told != found
            {
                return internal_err!(
                    "{node} promised the bound {told} of column {i} and gave {found}"
                );
            }
        }
    }
    Ok(())
}

/// The better of two values; `before` is the comparison by which it differs from the other.
fn lower(
    known: Option<ScalarValue>,
    value: ScalarValue,
    before: fn(Ordering) -> bool,
) -> Option<ScalarValue> {
    match known {
        Some(known) if value.is_null() => Some(known),
        Some(known) if !known.is_null() => {
            if value.partial_cmp(&known).is_some_and(before) {
                Some(value)
            } else {
                Some(known)
            }
        }
        _ => Some(value),
    }
}

#[cfg(test)]
mod tests;
