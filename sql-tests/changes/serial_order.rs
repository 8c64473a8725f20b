//! Two statements at once: some serial order explains what they report and which rows they leave.
//!
//! Two sessions each run a statement on one array whose store answers each request after a random time. Some order of the
//! completed statements must explain the row counts that they report, the rows that they read, and the rows that remain. The
//! tests try the orders on rows in memory. A statement that fails must have changed nothing. With a single rival, no statement
//! may give up because of conflicts.
//!
//! `RIVALS_RACES=5000` runs 5000 races for each kind of array, starting from `RIVALS_SEED`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{Int64Type, UInt64Type};
use datafusion::error::DataFusionError;
use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::register;
use libtest_mimic::Failed;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::throttle::{ThrottleConfig, ThrottledStore};
use url::Url;

use crate::support::rng::Rng;
use crate::{block_on, trial};

/// How many races run for each kind of array by default.
const RACES: u64 = 40;
/// The initial coordinates are `0..ROWS`.
const ROWS: i64 = 6;
/// The coordinates of a dense array are `0..CELLS`.
const CELLS: i64 = 12;
/// The value of unwritten cells of a dense array.
const FILL: i64 = i64::MIN;

/// A kind of array, which determines how its rows may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ArrayKind {
    Sparse,
    Duplicates,
    Dense,
}

trials!(
    [
        ("sparse", ArrayKind::Sparse),
        ("duplicates", ArrayKind::Duplicates),
        ("dense", ArrayKind::Dense),
    ]
    .map(|(name, kind)| trial(format!("{name}_races"), move || block_on(races(kind))))
);

/// A statement.
#[derive(Debug, Clone)]
enum RandomStatement {
    Insert(Vec<(i64, i64)>),
    /// Copies rows to other coordinates.
    Copy {
        from: i64,
        until: i64,
        by: i64,
    },
    Overwrite(Vec<(i64, i64)>),
    /// Adds to the values of rows.
    Raise {
        rows: RowCondition,
        by: i64,
    },
    /// Sets the values of rows.
    Set {
        rows: RowCondition,
        to: i64,
    },
    Move {
        rows: RowCondition,
        by: i64,
    },
    Delete {
        rows: RowCondition,
        by_coordinates: bool,
    },
    /// Adds to the values of existing rows, and inserts missing ones. With `deletes`, it deletes existing rows with an odd
    /// value instead.
    Merge {
        rows: Vec<(i64, i64)>,
        deletes: bool,
    },
    /// Sets rows to the sum of the values of others.
    SetToSum {
        rows: RowCondition,
        from: i64,
        until: i64,
    },
    DeleteGreatest,
    /// Inserts a row behind the last one.
    InsertNext,
    /// Inserts copies of rows as they were before the race.
    CopyPast {
        from: i64,
        until: i64,
        by: i64,
    },
    /// Adds the values of rows to those of rows elsewhere, which are inserted if they're missing.
    MergeOwn {
        from: i64,
        until: i64,
        by: i64,
    },
    Truncate,
    /// Counts the rows, counts the pairs of rows of a self-join, and sums up the values.
    Read,
}

/// The rows that satisfy a condition.
#[derive(Debug, Clone, Copy)]
enum RowCondition {
    At(i64),
    Between(i64, i64),
    AtWithValue(i64, i64),
    WithValue(i64),
    All,
}

impl RowCondition {
    fn has(self, k: i64, v: i64) -> bool {
        match self {
            Self::At(at) => k == at,
            Self::Between(lo, hi) => lo <= k && k <= hi,
            Self::AtWithValue(at, value) => k == at && v == value,
            Self::WithValue(value) => v == value,
            Self::All => true,
        }
    }

    /// The condition in SQL. With `plus`, it can't be stored in the array.
    fn sql(self, plus: &str) -> String {
        match self {
            Self::At(at) => format!("k{plus} = {at}"),
            Self::Between(lo, hi) => format!("k{plus} BETWEEN {lo} AND {hi}"),
            Self::AtWithValue(at, value) => format!("k = {at} AND v{plus} = {value}"),
            Self::WithValue(value) => format!("v{plus} = {value}"),
            Self::All => format!("k{plus} >= 0"),
        }
    }

    fn random(rng: &mut Rng) -> Self {
        let at = rng.below(4) as i64;
        match rng.below(10) {
            0..4 => Self::At(at),
            4 | 5 => Self::Between(at, at + 2),
            6 | 7 => Self::AtWithValue(at, rng.below(2) as i64),
            8 => Self::WithValue(rng.below(2) as i64),
            _ => Self::All,
        }
    }
}

/// The rows before a race.
fn first_rows() -> Vec<(i64, i64)> {
    (0..ROWS).map(|k| (k, k % 2)).collect()
}

/// Rows in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RowModel {
    kind: ArrayKind,
    rows: Vec<(i64, i64)>,
}

/// A statement was refused regardless of other statements, and changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StatementRefused;

impl RowModel {
    /// The rows in order. A dense array shows all cells between the first and the last row.
    fn shown(&self) -> Vec<(i64, i64)> {
        let mut rows = self.rows.clone();
        rows.sort_unstable();
        if let (ArrayKind::Dense, [(first, _), .., (last, _)]) = (self.kind, rows.as_slice()) {
            let there = rows.iter().copied().collect::<BTreeMap<_, _>>();
            let cells = *first..=*last;
            return cells
                .map(|k| (k, *there.get(&k).unwrap_or(&FILL)))
                .collect();
        }
        rows
    }

    fn put(&mut self, k: i64, v: i64) {
        if self.kind != ArrayKind::Duplicates {
            self.rows.retain(|(other, _)| *other != k);
        }
        self.rows.push((k, v));
    }

    /// Runs the statement and returns what it reports.
    fn run(&mut self, statement: &RandomStatement) -> Result<Vec<i64>, StatementRefused> {
        let before = self.shown();
        let all = |rows: &RowCondition| {
            let rows = before.iter().filter(|(k, v)| rows.has(*k, *v)).copied();
            rows.collect::<Vec<_>>()
        };
        let changed = match statement {
            RandomStatement::Insert(rows) => {
                rows.iter().for_each(|(k, v)| self.put(*k, *v));
                rows.len()
            }
            RandomStatement::Copy { from, until, by } => {
                let copied = all(&RowCondition::Between(*from, *until));
                copied.iter().for_each(|(k, v)| self.put(k + by, *v));
                copied.len()
            }
            RandomStatement::Overwrite(rows) => {
                let covered = before
                    .iter()
                    .all(|(k, _)| rows.iter().any(|row| row.0 == *k));
                if self.kind == ArrayKind::Dense && !covered {
                    return Err(StatementRefused);
                }
                self.rows.clone_from(rows);
                rows.len()
            }
            RandomStatement::Raise { rows, by } => {
                self.update(&all(rows), |k, v| (k, v.wrapping_add(*by)))?
            }
            RandomStatement::Set { rows, to } => self.update(&all(rows), |k, _| (k, *to))?,
            RandomStatement::Move { rows, by } => self.update(&all(rows), |k, v| (k + by, v))?,
            RandomStatement::Delete { rows, .. } => {
                self.rows.retain(|(k, v)| !rows.has(*k, *v));
                before.len() - self.rows.len()
            }
            RandomStatement::Merge { rows, deletes } => {
                for (k, v) in rows {
                    let there = before.iter().find(|row| row.0 == *k);
                    match there {
                        Some((_, old)) if *deletes && old % 2 != 0 => {
                            self.rows.retain(|row| row.0 != *k);
                        }
                        Some((_, old)) => self.put(*k, old.wrapping_add(*v)),
                        None => self.put(*k, *v),
                    }
                }
                rows.len()
            }
            RandomStatement::SetToSum { rows, from, until } => {
                let read = all(&RowCondition::Between(*from, *until));
                let sum = read.iter().fold(0_i64, |sum, (_, v)| sum.wrapping_add(*v));
                self.update(&all(rows), |k, _| (k, sum))?
            }
            RandomStatement::DeleteGreatest => {
                let greatest = before.iter().map(|(_, v)| *v).max();
                self.rows.retain(|(_, v)| Some(*v) != greatest);
                before.len() - self.rows.len()
            }
            RandomStatement::CopyPast { from, until, by } => {
                let copied = first_rows().into_iter();
                let copied = copied.filter(|(k, _)| (*from..=*until).contains(k));
                let copied = copied.collect::<Vec<_>>();
                copied.iter().for_each(|(k, v)| self.put(k + by, *v));
                copied.len()
            }
            RandomStatement::InsertNext => {
                let last = before.iter().map(|(k, _)| *k).max();
                self.put(last.unwrap_or(0) + 1, 5);
                1
            }
            RandomStatement::MergeOwn { from, until, by } => {
                let source = all(&RowCondition::Between(*from, *until));
                for (k, v) in &source {
                    let there = before.iter().find(|row| row.0 == k + by);
                    let old = there.map_or(0, |(_, old)| *old);
                    self.put(k + by, old.wrapping_add(*v));
                }
                source.len()
            }
            RandomStatement::Truncate => {
                self.rows.clear();
                before.len()
            }
            RandomStatement::Read => {
                let (mut pairs, mut sum) = (0, 0_i64);
                for (k, v) in &before {
                    sum = sum.wrapping_add(*v);
                    pairs += before.iter().filter(|(other, _)| other == k).count() as i64;
                }
                return Ok(vec![before.len() as i64, pairs, sum]);
            }
        };
        Ok(vec![changed as i64])
    }

    fn update(
        &mut self,
        old: &[(i64, i64)],
        new: impl Fn(i64, i64) -> (i64, i64),
    ) -> Result<usize, StatementRefused> {
        let mut left = self.rows.clone();
        left.retain(|row| !old.contains(row));
        let new = old.iter().map(|(k, v)| new(*k, *v)).collect::<Vec<_>>();
        let taken = |k: &i64| left.iter().any(|row| row.0 == *k);
        if self.kind != ArrayKind::Duplicates && new.iter().any(|(k, _)| taken(k)) {
            return Err(StatementRefused);
        }
        self.rows = left;
        self.rows.extend(new);
        Ok(old.len())
    }
}

impl RandomStatement {
    fn sql(&self, table: &str) -> String {
        let list = |rows: &[(i64, i64)]| {
            let rows = rows.iter().map(|(k, v)| format!("({k}, {v})"));
            rows.collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::Insert(rows) => format!("INSERT INTO {table} VALUES {}", list(rows)),
            Self::Copy { from, until, by } => format!(
                "INSERT INTO {table} SELECT k + {by}, v FROM {table} WHERE k BETWEEN {from} AND {until}"
            ),
            Self::Overwrite(rows) => format!("INSERT OVERWRITE {table} VALUES {}", list(rows)),
            Self::Raise { rows, by } => {
                format!("UPDATE {table} SET v = v + {by} WHERE {}", rows.sql(""))
            }
            Self::Set { rows, to } => format!("UPDATE {table} SET v = {to} WHERE {}", rows.sql("")),
            Self::Move { rows, by } => {
                format!("UPDATE {table} SET k = k + {by} WHERE {}", rows.sql(""))
            }
            Self::Delete {
                rows,
                by_coordinates,
            } => {
                let plus = if *by_coordinates { " + 0" } else { "" };
                format!("DELETE FROM {table} WHERE {}", rows.sql(plus))
            }
            Self::Merge { rows, deletes } => {
                let delete = match deletes {
                    true => format!("WHEN MATCHED AND {table}.v % 2 <> 0 THEN DELETE "),
                    false => String::new(),
                };
                format!(
                    "MERGE INTO {table} USING (VALUES {}) AS n(k, v) ON {table}.k = n.k {delete}\
                     WHEN MATCHED THEN UPDATE SET v = {table}.v + n.v \
                     WHEN NOT MATCHED THEN INSERT (k, v) VALUES (n.k, n.v)",
                    list(rows)
                )
            }
            Self::SetToSum { rows, from, until } => format!(
                "UPDATE {table} SET v = (SELECT coalesce(sum(v), 0) FROM {table} WHERE k BETWEEN {from} AND {until}) \
                 WHERE {}",
                rows.sql("")
            ),
            Self::DeleteGreatest => {
                format!("DELETE FROM {table} WHERE v = (SELECT max(v) FROM {table})")
            }
            Self::CopyPast { from, until, by } => format!(
                "INSERT INTO {table} SELECT k + {by}, v FROM past_{table} WHERE k BETWEEN {from} AND {until}"
            ),
            Self::InsertNext => format!(
                "INSERT INTO {table} SELECT (SELECT coalesce(max(k), 0) + 1 FROM {table}), 5"
            ),
            Self::MergeOwn { from, until, by } => format!(
                "MERGE INTO {table} USING (SELECT k + {by} AS k, v FROM {table} WHERE k BETWEEN {from} AND {until}) AS n \
                 ON {table}.k = n.k WHEN MATCHED THEN UPDATE SET v = {table}.v + n.v \
                 WHEN NOT MATCHED THEN INSERT (k, v) VALUES (n.k, n.v)"
            ),
            Self::Truncate => format!("TRUNCATE TABLE {table}"),
            Self::Read => format!(
                "SELECT (SELECT count(*) FROM {table}) AS n, (SELECT count(*) FROM {table} AS a JOIN {table} AS b ON a.k = b.k) AS pairs, \
                 (SELECT coalesce(sum(v), 0) FROM {table}) AS total"
            ),
        }
    }

    fn random(kind: ArrayKind, rng: &mut Rng) -> Self {
        let rows = RowCondition::random(rng);
        let first = rng.below(5) as i64;
        let some = |rng: &mut Rng| {
            let count = rng.between(1, 3) as i64;
            let rows = (first..first + count).map(|k| (k, 10 + rng.below(9) as i64));
            rows.collect::<Vec<_>>()
        };
        let dense = kind == ArrayKind::Dense;
        match rng.below(16) {
            0 | 1 => Self::Insert(some(rng)),
            2 if dense => Self::Overwrite((0..CELLS).map(|k| (k, 70 + k)).collect()),
            2 => Self::Overwrite(some(rng)),
            3 => Self::Raise { rows, by: 1 },
            4 => Self::Set {
                rows,
                to: rng.below(2) as i64,
            },
            5 if !dense => Self::Move {
                rows,
                by: rng.between(1, 4) as i64,
            },
            6 | 7 if !dense => Self::Delete {
                rows,
                by_coordinates: kind == ArrayKind::Sparse && rng.chance(40),
            },
            8 if kind != ArrayKind::Duplicates => Self::Merge {
                rows: some(rng),
                deletes: !dense && rng.chance(50),
            },
            9 => Self::Truncate,
            11 => Self::SetToSum {
                rows,
                from: first,
                until: first + 2,
            },
            12 if kind == ArrayKind::Sparse => Self::DeleteGreatest,
            15 => Self::CopyPast {
                from: first,
                until: first + 1,
                by: rng.between(0, 5) as i64,
            },
            14 if kind != ArrayKind::Dense => Self::InsertNext,
            13 if kind != ArrayKind::Duplicates => Self::MergeOwn {
                from: first,
                until: first + 1,
                by: rng.between(1, 5) as i64,
            },
            10 => Self::Copy {
                from: first,
                until: first + 1,
                by: rng.between(1, 5) as i64,
            },
            _ => Self::Read,
        }
    }
}

/// The outcome of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
enum StatementOutcome {
    Done(Vec<i64>),
    /// The statement gave up because of conflicts with the other one, and changed nothing.
    Conflict,
    Refused,
}

/// Whether some order explains the outcomes of two statements.
fn has_order(
    before: &RowModel,
    statements: [&RandomStatement; 2],
    outcomes: [&StatementOutcome; 2],
    after: &[(i64, i64)],
) -> bool {
    for order in [[0, 1], [1, 0]] {
        let mut model = before.clone();
        let explains = order.iter().all(|n| {
            let mut changed = model.clone();
            let ran = match outcomes[*n] {
                StatementOutcome::Conflict => return true,
                StatementOutcome::Refused => return changed.run(statements[*n]).is_err(),
                StatementOutcome::Done(reported) => {
                    changed.run(statements[*n]) == Ok(reported.clone())
                }
            };
            model = changed;
            ran
        });
        if explains && model.shown() == after {
            return true;
        }
    }
    false
}

type SlowStore = ThrottledStore<Arc<dyn ObjectStore>>;

/// A session, and its store, whose requests are slow.
struct RivalSession {
    ctx: SessionContext,
    store: Arc<SlowStore>,
}

impl RivalSession {
    fn new(inner: &Arc<dyn ObjectStore>) -> Result<Self, Failed> {
        let config = SessionConfig::new().with_target_partitions(2);
        let ctx = SessionContext::new_with_config(config);
        let store = ThrottledStore::new(Arc::clone(inner), ThrottleConfig::default());
        let store = Arc::new(store);
        ctx.register_object_store(&Url::parse("race://store")?, Arc::clone(&store) as _);
        register(&ctx)?;
        Ok(Self { ctx, store })
    }

    /// Makes requests take random times from now on.
    fn slow_down(&self, rng: &mut Rng) {
        let mut some = || Duration::from_micros(rng.below(4) as u64 * 700);
        let (get, list, put, delete) = (some(), some(), some(), some());
        self.store.config_mut(|config| {
            config.wait_get_per_call = get;
            config.wait_list_per_call = list;
            config.wait_list_with_delimiter_per_call = list;
            config.wait_put_per_call = put;
            config.wait_delete_per_call = delete;
        });
    }

    async fn run(&self, sql: &str) -> Result<Vec<Vec<i64>>, DataFusionError> {
        self.run_beside(sql, async {}).await
    }

    /// Runs a statement, and runs `beside` between its planning and its execution.
    async fn run_beside(
        &self,
        sql: &str,
        beside: impl Future<Output = ()>,
    ) -> Result<Vec<Vec<i64>>, DataFusionError> {
        let plan = self.ctx.sql(sql).await?.create_physical_plan().await?;
        beside.await;
        let batches = collect(plan, self.ctx.task_ctx()).await?;
        let mut rows = Vec::new();
        for batch in batches {
            for row in 0..batch.num_rows() {
                let values = batch.columns().iter().map(|column| {
                    let signed = column.as_primitive_opt::<Int64Type>();
                    let counts = column.as_primitive_opt::<UInt64Type>();
                    let count = counts.map(|counts| counts.value(row) as i64);
                    signed
                        .map(|signed| signed.value(row))
                        .or(count)
                        .unwrap_or(0)
                });
                rows.push(values.collect());
            }
        }
        Ok(rows)
    }

    async fn attempt(
        &self,
        sql: &str,
        beside: impl Future<Output = ()>,
    ) -> Result<StatementOutcome, String> {
        match self.run_beside(sql, beside).await {
            Ok(rows) => Ok(StatementOutcome::Done(
                rows.into_iter().next().unwrap_or_default(),
            )),
            Err(error) => {
                let text = error.to_string();
                let is = |what: &[&str]| what.iter().any(|what| text.contains(what));
                if is(&["run the statement again", "run it again"]) {
                    Ok(StatementOutcome::Conflict)
                } else if is(&["take the coordinates", "do not give every cell"]) {
                    Ok(StatementOutcome::Refused)
                } else {
                    Err(format!("{sql}: {text}"))
                }
            }
        }
    }
}

fn creation(kind: ArrayKind, number: u64) -> String {
    let options = match kind {
        ArrayKind::Sparse => "'tiledb.capacity' '4'".to_owned(),
        ArrayKind::Duplicates => {
            "'tiledb.capacity' '4', 'tiledb.allows_duplicates' 'true'".to_owned()
        }
        ArrayKind::Dense => format!(
            "'tiledb.array_type' 'dense', 'tiledb.dim.k.domain' '[0, {}]', 'tiledb.dim.k.tile' '4'",
            CELLS - 1
        ),
    };
    format!(
        "CREATE EXTERNAL TABLE t{number} (k BIGINT NOT NULL, v BIGINT NOT NULL, PRIMARY KEY (k)) STORED AS TILEDB LOCATION \
         'race://store/{kind:?}{number}' OPTIONS ({options})"
    )
}

/// Runs the race of a seed. The error describes a race that no order explains, or in which a statement gave up.
async fn race(
    kind: ArrayKind,
    seed: u64,
    number: u64,
    rivals: &[RivalSession; 3],
) -> Result<(), String> {
    let mut rng = Rng::new(seed, number);
    let [judge, others @ ..] = rivals;
    let table = format!("t{number}");
    let mut before = RowModel {
        kind,
        rows: Vec::new(),
    };
    let said = |error: DataFusionError| format!("race {number}: {error}");
    judge.run(&creation(kind, number)).await.map_err(said)?;
    let insert = RandomStatement::Insert(first_rows());
    judge.run(&insert.sql(&table)).await.map_err(said)?;
    before.run(&insert).map_err(|_| "an insert is refused")?;
    let past = SystemTime::now().duration_since(UNIX_EPOCH);
    let past = past.map_err(|e| e.to_string())?.as_millis();
    // The statements of the race come at a later time.
    tokio::time::sleep(Duration::from_millis(2)).await;
    for other in others {
        other.slow_down(&mut rng);
        let open = format!(
            "CREATE EXTERNAL TABLE {table} STORED AS TILEDB LOCATION 'race://store/{kind:?}{number}'"
        );
        other.run(&open).await.map_err(said)?;
        let past = format!(
            "CREATE EXTERNAL TABLE past_{table} STORED AS TILEDB LOCATION 'race://store/{kind:?}{number}' OPTIONS ('tiledb.timestamp' '{past}')"
        );
        other.run(&past).await.map_err(said)?;
    }
    let statements = [(); 2].map(|()| RandomStatement::random(kind, &mut rng));
    let sql = statements.each_ref().map(|statement| statement.sql(&table));
    let outcomes = if rng.chance(20) {
        // The second statement runs completely after the first one was planned.
        let mut second = None;
        let beside = async { second = Some(others[1].attempt(&sql[1], async {}).await) };
        let first = others[0].attempt(&sql[0], beside).await?;
        [first, second.ok_or("the second statement did not run")??]
    } else {
        let head_start = Duration::from_micros(rng.below(8) as u64 * 1000);
        let late = async {
            tokio::time::sleep(head_start).await;
            others[1].attempt(&sql[1], async {}).await
        };
        let (a, b) = tokio::join!(others[0].attempt(&sql[0], async {}), late);
        [a?, b?]
    };
    let after = format!("SELECT k, v FROM {table} ORDER BY k, v");
    let after = judge.run(&after).await.map_err(said)?;
    let after = after.iter().map(|row| (row[0], row[1])).collect::<Vec<_>>();
    for other in others {
        let drop = format!("DROP TABLE past_{table}");
        other.run(&drop).await.map_err(said)?;
    }
    for rival in rivals {
        let drop = format!("DROP TABLE {table}");
        rival.run(&drop).await.map_err(said)?;
    }
    let pair = statements.each_ref();
    let given_up = outcomes.contains(&StatementOutcome::Conflict);
    if !given_up && has_order(&before, pair, outcomes.each_ref(), &after) {
        return Ok(());
    }
    let mut told = format!("{kind:?}, seed {seed}, race {number}\n");
    for (sql, outcome) in sql.iter().zip(&outcomes) {
        let _ = writeln!(told, "  {sql}: {outcome:?}");
    }
    let _ = writeln!(told, "  {:?}\n  became {after:?}", before.shown());
    Err(told)
}

async fn races(kind: ArrayKind) -> Result<(), Failed> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let races = number("RIVALS_RACES").unwrap_or(RACES);
    let seed = number("RIVALS_SEED").unwrap_or(1);
    let mut wrong = Vec::new();
    let store = || -> Arc<dyn ObjectStore> { Arc::new(InMemory::new()) };
    let mut rivals = None;
    for number in 0..races {
        // A new store from time to time keeps memory small.
        if number % 100 == 0 {
            let inner = store();
            rivals = Some([
                RivalSession::new(&inner)?,
                RivalSession::new(&inner)?,
                RivalSession::new(&inner)?,
            ]);
        }
        let Some(rivals) = &rivals else { continue };
        wrong.extend(race(kind, seed, number, rivals).await.err());
        if wrong.len() > 20 {
            break;
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("\n").into()),
    }
}
