//! Random conditions on every golden array: what the scan prunes must make no difference.
//!
//! The array is read whole, which the golden answers vouch for, and kept in memory; then the same query runs on the
//! array, where statistics and run-time filters have a say, and on memory, where nothing has. Conditions are made of
//! values that occur, so that tiles are hit, missed and matched whole.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, ScalarValue};
use datafusion::datasource::MemTable;
use datafusion::functions_aggregate::expr_fn::{count, max, min};
use datafusion::logical_expr::{Expr, JoinType, lit, not};
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use datafusion_tiledb::TileDbTable;
use libtest_mimic::Failed;
use serde_json::Value;

use crate::support::{golden, neutral_rows};

/// Larger arrays are left to other tests.
const MOST_ROWS: usize = 5_000;
/// More of them by `PRUNING_QUERIES`.
const QUERIES: usize = 4;
/// Partitions and rows of a batch: answers must not depend on it.
const SESSIONS: [(usize, usize); 3] = [(2, 8192), (1, 7), (5, 100)];

trials!(golden::on_oldest_or_newest(0, |array, entry| async move {
    check(&array, &entry).await
}));

/// An array and the same rows in memory; `None` if there are no rows or many.
pub async fn copied(
    array: &Path,
    entry: &Value,
) -> Result<Option<(Arc<TileDbTable>, Arc<MemTable>, RecordBatch)>, Failed> {
    let mut builder = TileDbTable::builder(array.display().to_string());
    for (key, value) in entry["options"].as_object().into_iter().flatten() {
        builder = builder.option(key, value.as_str().unwrap_or_default())?;
    }
    let table = Arc::new(builder.open().await?);
    let all = SessionContext::new().read_table(Arc::clone(&table) as _)?;
    let schema = Arc::clone(all.schema().inner());
    let batches = all.collect().await?;
    let rows = batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    if rows == 0 || rows > MOST_ROWS {
        return Ok(None);
    }
    let whole = datafusion::arrow::compute::concat_batches(&schema, &batches)?;
    let memory = Arc::new(MemTable::try_new(schema, vec![vec![whole.clone()]])?);
    Ok(Some((table, memory, whole)))
}

async fn check(array: &Path, entry: &Value) -> Result<(), Failed> {
    let Some((table, memory, whole)) = copied(array, entry).await? else {
        return Ok(());
    };
    compare(array, &table, &memory, &whole, QUERIES).await
}

/// Asks random queries of an array and of its rows in memory; so many, or as many as `PRUNING_QUERIES` says.
pub async fn compare(
    array: &Path,
    table: &Arc<TileDbTable>,
    memory: &Arc<MemTable>,
    whole: &RecordBatch,
    queries: usize,
) -> Result<(), Failed> {
    let mut random = Random::new(array);
    let asked = std::env::var("PRUNING_QUERIES").ok();
    let queries = asked.and_then(|n| n.parse().ok()).unwrap_or(queries);
    for number in 0..queries {
        let query = random.query(whole);
        let (partitions, batch_size) = SESSIONS[number % SESSIONS.len()];
        let config = SessionConfig::new()
            .with_target_partitions(partitions)
            .with_batch_size(batch_size);
        let ctx = SessionContext::new_with_config(config);
        let pruned = query
            .run(&ctx, ctx.read_table(Arc::clone(table) as _)?)
            .await;
        let plain = query
            .run(&ctx, ctx.read_table(Arc::clone(memory) as _)?)
            .await;
        match (pruned, plain) {
            (Ok(pruned), Ok(plain)) if pruned == plain => {}
            // A condition that fails on some rows need not meet them.
            (_, Err(_)) => {}
            (Err(e), Ok(_)) => return Err(format!("{query:?}: {e}").into()),
            (Ok(pruned), Ok(plain)) => {
                let differ = format!("{query:?}\nexpected {plain:#?}\nfound    {pruned:#?}");
                return Err(differ.into());
            }
        }
    }
    Ok(())
}

/// What is asked of a table.
#[derive(Debug)]
enum Query {
    /// The rows that meet a condition.
    Filter(Expr),
    /// The first values of a column in an order.
    Top(String, bool, bool, usize, Option<Expr>),
    /// How many rows a join with some values of a column gives.
    Join(String, RecordBatch, Option<Expr>),
    /// The ends of a column.
    Ends(String, Option<Expr>),
}

impl Query {
    async fn run(
        &self,
        ctx: &SessionContext,
        table: DataFrame,
    ) -> datafusion::error::Result<Vec<String>> {
        let filtered = |table: DataFrame, condition: &Option<Expr>| match condition {
            Some(condition) => table.filter(condition.clone()),
            None => Ok(table),
        };
        let frame = match self {
            Self::Filter(condition) => table.filter(condition.clone())?,
            Self::Top(column, ascending, nulls_first, limit, condition) => {
                let by = named(column).sort(*ascending, *nulls_first);
                let rows = filtered(table, condition)?.sort(vec![by])?;
                // Rows with equal values are any of them.
                rows.limit(0, Some(*limit))?.select(vec![named(column)])?
            }
            Self::Join(column, keys, condition) => {
                let keys = ctx.read_batch(keys.clone())?;
                let rows = filtered(table, condition)?;
                let joined =
                    rows.join(keys, JoinType::Inner, &[column.as_str()], &["key"], None)?;
                joined.aggregate(vec![], vec![count(lit(1))])?
            }
            Self::Ends(column, condition) => {
                let ends = vec![min(named(column)), max(named(column))];
                filtered(table, condition)?.aggregate(vec![], ends)?
            }
        };
        Ok(neutral_rows::rows(&frame.collect().await?))
    }
}

fn named(column: &str) -> Expr {
    Expr::Column(Column::new_unqualified(column))
}

/// Always the same numbers for an array.
pub struct Random(u64);

impl Random {
    pub fn new(array: &Path) -> Self {
        let name = array.file_name().unwrap_or_default().to_string_lossy();
        let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(seed | 1)
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n.max(1)
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn query(&mut self, rows: &RecordBatch) -> Query {
        let condition = |random: &mut Self| {
            let wanted = random.chance(50);
            wanted.then(|| random.condition(rows, 1))
        };
        let column = self.column(rows);
        let name = rows.schema().field(column).name().clone();
        match self.below(7) {
            0 => {
                let (ascending, nulls_first) = (self.chance(50), self.chance(50));
                let limit = 1 + self.below(12);
                Query::Top(name, ascending, nulls_first, limit, condition(self))
            }
            1 => {
                let picked = (0..1 + self.below(20)).map(|_| self.below(rows.num_rows()) as u32);
                let picked = datafusion::arrow::array::UInt32Array::from_iter_values(picked);
                let keys = datafusion::arrow::compute::take(rows.column(column), &picked, None);
                let keys = RecordBatch::try_from_iter_with_nullable([("key", keys.unwrap(), true)]);
                Query::Join(name, keys.unwrap(), condition(self))
            }
            2 => Query::Ends(name, condition(self)),
            3 => Query::Filter(self.many_filters(rows)),
            _ => Query::Filter(self.condition(rows, 3)),
        }
    }

    /// A column whose values are compared.
    fn column(&mut self, rows: &RecordBatch) -> usize {
        let schema = rows.schema();
        let simple = |c: &usize| {
            let ty = schema.field(*c).data_type();
            !ty.is_nested() && !matches!(ty, DataType::FixedSizeBinary(_) | DataType::Duration(_))
        };
        let columns = (0..rows.num_columns()).filter(simple).collect::<Vec<_>>();
        // The first is always a dimension, which is.
        columns.get(self.below(columns.len())).copied().unwrap_or(0)
    }

    /// More filters than the 64 that a scan puts together as a chain. Each holds for most rows.
    fn many_filters(&mut self, rows: &RecordBatch) -> Expr {
        let filters = (0..65 + self.below(70)).map(|_| {
            let terms = (0..3).map(|_| {
                let column = self.column(rows);
                let value = lit(self.value(rows, column));
                let expr = named(rows.schema().field(column).name());
                match self.below(3) {
                    0 => expr.gt_eq(value),
                    _ => expr.not_eq(value),
                }
            });
            terms.reduce(Expr::or).unwrap_or_else(|| lit(true))
        });
        filters.reduce(Expr::and).unwrap_or_else(|| lit(true))
    }

    fn condition(&mut self, rows: &RecordBatch, depth: usize) -> Expr {
        if depth > 0 && self.chance(60) {
            let left = self.condition(rows, depth - 1);
            return match self.below(5) {
                0 | 1 => left.and(self.condition(rows, depth - 1)),
                2 | 3 => left.or(self.condition(rows, depth - 1)),
                _ => not(left),
            };
        }
        let column = self.column(rows);
        let expr = named(rows.schema().field(column).name());
        let value = self.value(rows, column);
        match self.below(12) {
            0 => expr.is_null(),
            1 => expr.is_not_null(),
            2 => {
                let more = (0..self.below(30)).map(|_| lit(self.value(rows, column)));
                let list = more.chain([lit(value.clone())]).collect::<Vec<_>>();
                expr.in_list(list, self.chance(30))
            }
            3 | 4 => expr.between(lit(value), lit(self.value(rows, column))),
            5 if value.try_as_str().is_some() => {
                let text = value.try_as_str().flatten().unwrap_or_default();
                let prefix: String = text.chars().take(self.below(4)).collect();
                expr.like(lit(format!("{prefix}%")))
            }
            6 => expr.not_eq(lit(value)),
            7 => expr.lt(lit(value)),
            8 => expr.gt(lit(value)),
            9 => expr.lt_eq(lit(value)),
            10 => expr.gt_eq(lit(value)),
            _ => expr.eq(lit(value)),
        }
    }

    /// A value that occurs in a column.
    pub fn value(&mut self, rows: &RecordBatch, column: usize) -> ScalarValue {
        let row = self.below(rows.num_rows());
        match ScalarValue::try_from_array(rows.column(column), row) {
            Ok(ScalarValue::Dictionary(_, value)) => *value,
            Ok(value) => value,
            Err(_) => ScalarValue::Null,
        }
    }
}
