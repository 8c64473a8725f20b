//! Two statements at once: some serial order explains what they report and which rows they leave.
//!
//! Two sessions each run a statement on one array whose store answers each request after a random time. Some order of the
//! completed statements must explain the row counts that they report, the rows that they read, and the rows that remain. The
//! tests try the orders on rows in memory. A statement that fails must have changed nothing. With a single rival, no statement
//! may give up because of conflicts.
//!
//! `RIVALS_RACES=5000` runs 5000 races for each kind of array, starting from `RIVALS_SEED`.

mod row_model;

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

use self::row_model::{RandomStatement, RowModel, first_rows};
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
    let past = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_err(|e| e.to_string())?
        .as_millis();
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
    let after = judge
        .run(&after)
        .await
        .map_err(said)?
        .iter()
        .map(|row| (row[0], row[1]))
        .collect::<Vec<_>>();
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
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n").into())
    }
}
