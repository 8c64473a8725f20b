//! The shared state of a simulated world: the states of the array, the effects of statements, and the auditor that compares the
//! two.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::DataFusionError;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::future::{Either, select};
use tiledb_engine::simulated::World;
use tiledb_engine::{Engine, EngineOptions};
use tokio::sync::oneshot;

use crate::TileDbTable;
use crate::error::to_datafusion_error;

/// The process that prepares and, at the end, tidies the array.
pub(super) const STEWARD: usize = 0;

/// Rows of a batch.
pub(super) const BATCH: i64 = 3;
pub(super) const WRITERS: i64 = 3;
/// The writer of accounts.
pub(super) const ACCOUNT: i64 = -1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Sparse,
    Duplicates,
    Dense,
}

impl Kind {
    pub(super) fn options(self) -> &'static str {
        match self {
            Self::Sparse => "'tiledb.capacity' '4'",
            Self::Duplicates => "'tiledb.capacity' '4', 'tiledb.allows_duplicates' 'true'",
            Self::Dense => {
                "'tiledb.array_type' 'dense', 'tiledb.dim.x.domain' '[0, 99]', 'tiledb.dim.x.tile' '10'"
            }
        }
    }

    /// The cell of a row of a writer's batch. All batches of an array with duplicates have the same cells. In a dense array, a
    /// batch replaces the writer's last one, among the cells of the other writers.
    pub(super) fn cell(self, writer: i64, batch: i64, row: i64) -> i64 {
        match self {
            Self::Sparse => 1000 * (writer + 1) + batch * BATCH + row,
            Self::Duplicates => 50 + row,
            Self::Dense => 20 + row * WRITERS + writer,
        }
    }
}

/// The effect of a statement on the contents of the array.
#[derive(Debug, Clone)]
pub(super) enum Effect {
    Put { writer: i64, batch: i64 },
    Raise { writer: i64, batch: i64 },
    Drop { writer: i64, batch: i64 },
    Transfer { from: i64, to: i64, amount: i64 },
    AddColumn(String),
    DropColumn(String),
    Note(i64),
}

/// The contents of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    /// Cell, writer, batch and value of each row, in order.
    pub(super) rows: Vec<[i64; 4]>,
    /// The columns that evolutions have added.
    pub(super) columns: BTreeSet<String>,
    /// A value among the metadata.
    pub(super) note: Option<i64>,
}

impl Effect {
    pub(super) fn apply(&self, kind: Kind, state: &State) -> State {
        let mut state = state.clone();
        let rows = &mut state.rows;
        match self {
            Self::Put { writer, batch } => {
                for row in 0..BATCH {
                    let x = kind.cell(*writer, *batch, row);
                    if kind == Kind::Dense {
                        rows.retain(|there| there[0] != x);
                    }
                    rows.push([x, *writer, *batch, *batch]);
                }
            }
            Self::Raise { writer, batch } => {
                let there = rows.iter_mut();
                let batch = there.filter(|row| row[1] == *writer && row[2] == *batch);
                batch.for_each(|row| row[3] += 1000);
            }
            Self::Drop { writer, batch } => {
                rows.retain(|row| row[1] != *writer || row[2] != *batch);
            }
            Self::Transfer { from, to, amount } => {
                for row in rows.iter_mut().filter(|row| row[1] == ACCOUNT) {
                    let change = match row[0] {
                        x if x == *from => -amount,
                        x if x == *to => *amount,
                        _ => continue,
                    };
                    row[2] += 1;
                    row[3] += change;
                }
            }
            Self::AddColumn(name) => {
                state.columns.insert(name.clone());
            }
            Self::DropColumn(name) => {
                state.columns.remove(name);
            }
            Self::Note(value) => state.note = Some(*value),
        }
        state.rows.sort_unstable();
        state
    }

    pub(super) fn sql(&self, kind: Kind, uri: &str, random: usize) -> String {
        match self {
            Self::Put { writer, batch } => {
                let rows = (0..BATCH)
                    .map(|row| {
                        let x = kind.cell(*writer, *batch, row);
                        format!("({x}, {writer}, {batch}, {batch})")
                    })
                    .collect::<Vec<_>>()
                    .join(", ");
                format!("INSERT INTO t (x, w, s, v) VALUES {rows}")
            }
            Self::Raise { writer, batch } => {
                format!("UPDATE t SET v = v + 1000 WHERE w = {writer} AND s = {batch}")
            }
            Self::Drop { writer, batch } => {
                // A sum in WHERE can't be stored, so the DELETE removes row by row.
                let sum = if kind == Kind::Sparse && random.is_multiple_of(2) {
                    " + 0"
                } else {
                    ""
                };
                format!("DELETE FROM t WHERE w{sum} = {writer} AND s = {batch}")
            }
            Self::Transfer { from, to, amount }
                if kind == Kind::Sparse && random.is_multiple_of(2) =>
            {
                format!(
                    "MERGE INTO t USING (VALUES ({from}, -{amount}), ({to}, {amount})) AS n(k, d) ON t.x = n.k \
                     WHEN MATCHED THEN UPDATE SET v = v + n.d, s = s + 1"
                )
            }
            Self::Transfer { from, to, amount } => format!(
                "UPDATE t SET s = s + 1, v = CASE x WHEN {from} THEN v - {amount} ELSE v + {amount} END \
                 WHERE w = {ACCOUNT} AND x IN ({from}, {to})"
            ),
            Self::AddColumn(name) => {
                format!("SELECT * FROM tiledb_evolve('{uri}', add => '{name} INT')")
            }
            Self::DropColumn(name) => {
                format!("SELECT * FROM tiledb_evolve('{uri}', drop => '{name}')")
            }
            Self::Note(value) => {
                format!("SELECT * FROM tiledb_set_metadata('{uri}', 'note', {value})")
            }
        }
    }
}

/// The records of the auditor.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The states of the array, from the first to the last.
    pub(super) states: Vec<State>,
    /// The statement of each process, and whether it has happened.
    pub(super) told: HashMap<usize, (Effect, bool)>,
    /// The first problem.
    pub(super) wrong: Option<String>,
    pub(super) happened: usize,
    pub(super) met: usize,
    pub(super) unknown: usize,
    pub(super) killed: usize,
    pub(super) reads: usize,
    pub(super) lost_files: usize,
    pub(super) tended: usize,
}

/// The shared state of all processes of a world.
pub(super) struct Stage {
    pub(super) kind: Kind,
    pub(super) world: World,
    /// An engine of its own. What other worlds leave in a shared one would change the course of events.
    engine: Engine,
    /// Distinguishes the worlds of one process of this machine.
    pub(super) name: String,
    pub(super) ledger: Mutex<Ledger>,
    pub(super) processes: AtomicUsize,
    pub(super) writing: AtomicUsize,
}

pub(super) type Outcome<T> = Result<T, DataFusionError>;

impl Stage {
    pub(super) fn new(kind: Kind, world: World) -> Arc<Self> {
        static WORLDS: AtomicUsize = AtomicUsize::new(0);
        Arc::new(Self {
            kind,
            world,
            engine: Engine::new(EngineOptions::default()),
            name: format!("world{}", WORLDS.fetch_add(1, Ordering::Relaxed)),
            ledger: Mutex::default(),
            processes: AtomicUsize::new(STEWARD + 1),
            writing: AtomicUsize::new(WRITERS as usize),
        })
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap()
    }

    pub(super) fn wrong(&self, what: impl FnOnce() -> String) {
        let mut ledger = self.ledger();
        if ledger.wrong.is_none() {
            ledger.wrong = Some(what());
        }
    }

    /// Whether the writers are done, or a problem was found.
    pub(super) fn is_over(&self) -> bool {
        self.writing.load(Ordering::Relaxed) == 0 || self.ledger().wrong.is_some()
    }

    /// Gives each process its own name of the store, so that they share no cache.
    pub(super) fn session(&self, process: Option<usize>) -> (SessionContext, String) {
        let config = SessionConfig::new()
            .with_target_partitions(2)
            .with_extension(Arc::new(self.engine.clone()));
        let ctx = SessionContext::new_with_config(config);
        crate::register(&ctx).unwrap();
        let host = match process {
            Some(process) => format!("sim://{}.p{process}", self.name),
            None => format!("sim://{}", self.name),
        };
        let url = url::Url::parse(&host).unwrap();
        ctx.register_object_store(&url, self.world.store(process));
        (ctx, format!("{host}/array"))
    }

    /// A process that has opened the array, unless its requests fail.
    pub(super) async fn open(&self, process: usize) -> Outcome<(SessionContext, String)> {
        let (ctx, uri) = self.session(Some(process));
        let table = format!("CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{uri}'");
        run(&ctx, &table).await?;
        Ok((ctx, uri))
    }

    /// The contents of the array now, read without waiting.
    pub(super) async fn look(&self) -> Outcome<State> {
        let (ctx, uri) = self.session(None);
        let table = TileDbTable::builder(&uri)
            .session(&ctx)
            .open()
            .await
            .map_err(to_datafusion_error)?;
        ctx.register_table("t", Arc::new(table))?;
        let schema = ctx.table("t").await?.schema().as_arrow().clone();
        let columns = schema.fields().iter().map(|field| field.name().clone());
        let note = format!("SELECT value FROM tiledb_metadata('{uri}') WHERE key = 'note'");
        let note = run(&ctx, &note)
            .await?
            .iter()
            .find(|batch| batch.num_rows() > 0)
            .map(|batch| {
                let text = arrow::util::display::array_value_to_string(batch.column(0), 0).unwrap();
                text.parse().unwrap()
            });
        Ok(State {
            rows: rows(&ctx).await?,
            columns: columns.skip(4).collect(),
            note,
        })
    }

    /// Checks the effect on the array of the change that a process has just made to the store.
    pub(super) async fn audit(&self, process: usize) {
        let now = match self.look().await {
            Ok(now) => now,
            Err(error) => return self.wrong(|| format!("after process {process}: {error}")),
        };
        let mut ledger = self.ledger();
        let Some(last) = ledger.states.last().cloned() else {
            return;
        };
        if now == last {
            return;
        }
        match ledger.told.get_mut(&process) {
            Some((effect, happened)) if !*happened && effect.apply(self.kind, &last) == now => {
                *happened = true;
                ledger.happened += 1;
                ledger.states.push(now);
            }
            told => {
                let wrong =
                    format!("process {process}, told {told:?}, made\n{now:?}\nof\n{last:?}");
                ledger.wrong.get_or_insert(wrong);
            }
        }
    }

    /// Lets a process run a statement. Returns `false` if it was killed meanwhile.
    pub(super) async fn perform(
        &self,
        process: usize,
        ctx: &SessionContext,
        effect: Effect,
        sql: String,
        killed: &mut oneshot::Receiver<()>,
    ) -> bool {
        let deceived = self.world.deceived(process);
        let told = (effect, false);
        self.ledger().told.insert(process, told);
        let ended = select(Box::pin(run(ctx, &sql)), killed).await;
        let deceived = self.world.deceived(process) > deceived;
        let mut ledger = self.ledger();
        let happened = ledger.told.remove(&process);
        let happened = happened.is_some_and(|(_, happened)| happened);
        let ended = match ended {
            Either::Left((ended, _)) => ended,
            Either::Right(_) => {
                ledger.killed += 1;
                return false;
            }
        };
        let wrong = match (ended, happened) {
            (Ok(_), true) => None,
            (Ok(_), false) => Some("was done, and did nothing".to_owned()),
            (Err(error), _) if met_others(&error) => {
                ledger.met += 1;
                (happened && !deceived).then(|| format!("was done, and says {error}"))
            }
            (Err(error), _) if is_broken(&error) => {
                ledger.unknown += 1;
                let told = error.to_string().contains("schema that was put");
                (happened && !deceived && !told).then(|| format!("was done, and says {error}"))
            }
            (Err(error), _) => Some(format!("says {error}")),
        };
        if let Some(wrong) = wrong {
            ledger
                .wrong
                .get_or_insert(format!("process {process}: {sql} {wrong}"));
        }
        true
    }

    /// A life of a process: its number, its session, and the time at which it is killed.
    pub(super) async fn live(
        &self,
    ) -> Option<(usize, SessionContext, String, oneshot::Receiver<()>)> {
        let process = self.processes.fetch_add(1, Ordering::Relaxed);
        let requests = match self.world.below(2) {
            0 => self.world.below(150),
            _ => usize::MAX,
        };
        let mut killed = self.world.kill(process, requests);
        match select(Box::pin(self.open(process)), &mut killed).await {
            Either::Left((Ok((ctx, uri)), _)) => Some((process, ctx, uri, killed)),
            Either::Left((Err(error), _)) => {
                if !is_broken(&error) && !met_others(&error) {
                    self.wrong(|| format!("process {process} cannot open the array: {error}"));
                }
                None
            }
            Either::Right(_) => None,
        }
    }
}

pub(super) async fn run(ctx: &SessionContext, sql: &str) -> Outcome<Vec<RecordBatch>> {
    ctx.sql(sql).await?.collect().await
}

pub(super) async fn rows(ctx: &SessionContext) -> Outcome<Vec<[i64; 4]>> {
    // Unwritten cells of a dense array have another writer.
    let batches = run(ctx, "SELECT x, w, s, v FROM t WHERE w >= -1").await?;
    let mut rows = Vec::new();
    for batch in batches {
        let column = |i: usize| batch.column(i).as_primitive::<Int64Type>().values();
        rows.extend((0..batch.num_rows()).map(|row| [0, 1, 2, 3].map(|i| column(i)[row])));
    }
    rows.sort_unstable();
    Ok(rows)
}

/// Whether an error is the clear one after a conflict, whose advice is to run the statement again.
pub(super) fn met_others(error: &DataFusionError) -> bool {
    let text = error.to_string();
    ["run the statement again", "plan it again", "run it again"]
        .iter()
        .any(|advice| text.contains(advice))
}

/// Whether a request has failed.
pub(super) fn is_broken(error: &DataFusionError) -> bool {
    error.to_string().contains("the connection broke")
}
