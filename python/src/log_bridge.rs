//! Records of Rust's `log` as records of Python's `logging`.
//!
//! A thread of the engine never runs Python, because another thread may hold the GIL while it waits for the engine. So records are queued,
//! and whoever waits for the engine, or ends the interpreter, hands them over. Levels are kept here, so that a record that nobody wants costs
//! a comparison. No record shows a secret of any statement of the process.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use datafusion_tiledb::options::secrets::StatementSecrets;
use log::{Level, LevelFilter, Log, Metadata, Record};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::process::check_process;

/// Records that may wait. Later ones are counted.
const MOST_WAITING: usize = 100_000;

/// Statements whose secrets are remembered.
const MOST_SECRETS: usize = 256;

/// Python's numbers of levels, from the most severe one.
const LEVELS: [(LevelFilter, u8); 5] = [
    (LevelFilter::Error, 40),
    (LevelFilter::Warn, 30),
    (LevelFilter::Info, 20),
    (LevelFilter::Debug, 10),
    (LevelFilter::Trace, 5),
];

/// A record of the log: its target, its level, its file and line, its text, the seconds since 1970, and the name of its thread.
type WaitingRecord = (String, u8, String, u32, String, f64, String);

static BRIDGE: LogBridge = LogBridge;
static HAS_RECORDS: AtomicBool = AtomicBool::new(false);
static WAITING: Mutex<WaitingRecords> = Mutex::new(WaitingRecords {
    records: VecDeque::new(),
    dropped: 0,
});
static WANTED: Mutex<WantedLevels> = Mutex::new(WantedLevels(Vec::new()));
static SECRETS: Mutex<VecDeque<(u64, StatementSecrets)>> = Mutex::new(VecDeque::new());
static HASHES: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Records that wait, and how many more there were.
struct WaitingRecords {
    records: VecDeque<WaitingRecord>,
    dropped: usize,
}

/// The levels of targets and of the modules below them, the longest first. The last one is that of all targets.
struct WantedLevels(Vec<(String, LevelFilter)>);

impl WantedLevels {
    fn wants(&self, metadata: &Metadata<'_>) -> bool {
        let level = self.0.iter().find(|(target, _)| {
            let below = metadata.target().strip_prefix(target.as_str());
            below.is_some_and(|rest| target.is_empty() || rest.is_empty() || rest.starts_with("::"))
        });
        level.map_or(LevelFilter::Warn, |(_, level)| *level) >= metadata.level()
    }
}

fn locked<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

struct LogBridge;

impl Log for LogBridge {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        locked(&WANTED).wants(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let waiting = (
            record.target().to_owned(),
            number(record.level()),
            record.file().unwrap_or_default().to_owned(),
            record.line().unwrap_or(0),
            masked(&record.args().to_string()),
            since.unwrap_or_default().as_secs_f64(),
            std::thread::current().name().unwrap_or_default().to_owned(),
        );
        let mut list = locked(&WAITING);
        if list.records.len() < MOST_WAITING {
            list.records.push_back(waiting);
        } else {
            list.dropped += 1;
        }
        HAS_RECORDS.store(true, Ordering::Release);
    }

    fn flush(&self) {}
}

fn number(level: Level) -> u8 {
    let known = LEVELS.iter().find(|(filter, _)| *filter == level);
    known.map_or(40, |(_, number)| *number)
}

/// The records that Python's level `number` lets through.
fn filter(number: i64) -> LevelFilter {
    let passing = LEVELS.iter().rev();
    let mut passing = passing.filter(|(_, level)| i64::from(*level) >= number);
    passing
        .next()
        .map_or(LevelFilter::Off, |(filter, _)| *filter)
}

/// A text without the secrets of all statements.
fn masked(text: &str) -> String {
    let text = StatementSecrets::none().masked(text);
    locked(&SECRETS)
        .iter()
        .fold(text, |text, (_, secrets)| secrets.masked(&text))
}

/// Sends the log to Python, unless the process has another log.
pub fn install(py: Python<'_>) -> PyResult<()> {
    if log::set_logger(&BRIDGE).is_ok() {
        log::set_max_level(LevelFilter::Warn);
        py.import("tiledb_sql._logging")?
            .call_method0("flush_at_exit")?;
    }
    Ok(())
}

/// Remembers the secrets of a statement, which records of later statements may show, too.
pub fn keep_secrets_of(statement: &str) {
    let secrets = StatementSecrets::of(statement);
    if secrets.is_empty() {
        return;
    }
    let hash = HASHES.hash_one(statement);
    let mut known = locked(&SECRETS);
    if known.iter().all(|(other, _)| *other != hash) {
        known.truncate(MOST_SECRETS - 1);
        known.push_front((hash, secrets));
    }
}

/// A function of `_logging.py`.
fn function<'py>(
    py: Python<'py>,
    known: &PyOnceLock<Py<PyAny>>,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let found = known.get_or_try_init(py, || {
        let module = py.import("tiledb_sql._logging")?;
        module.getattr(name).map(Bound::unbind)
    })?;
    Ok(found.bind(py).clone())
}

/// A failure of Python's logging doesn't fail a statement, but Ctrl-C may come while it runs.
fn unless_interrupted(py: Python<'_>, error: PyErr) -> PyResult<()> {
    if !error.is_instance_of::<PyException>(py) {
        return Err(error);
    }
    error.write_unraisable(py, None);
    Ok(())
}

/// Looks at the levels of Python's loggers, which cost nothing if they haven't changed.
pub fn look(py: Python<'_>) -> PyResult<()> {
    static LEVELS_OF_LOGGERS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let levels = function(py, &LEVELS_OF_LOGGERS, "levels").and_then(|levels| {
        let levels = levels.call0()?;
        levels.extract::<Option<Vec<(String, i64)>>>()
    });
    let levels = match levels {
        Ok(Some(levels)) => levels,
        Ok(None) => return Ok(()),
        Err(error) => return unless_interrupted(py, error),
    };
    let mut levels: Vec<_> = levels
        .into_iter()
        .map(|(target, number)| (target, filter(number)))
        .collect();
    levels.sort_by_key(|(target, _)| std::cmp::Reverse(target.len()));
    let most = levels.iter().map(|(_, level)| *level).max();
    locked(&WANTED).0 = levels;
    log::set_max_level(most.unwrap_or(LevelFilter::Warn));
    Ok(())
}

/// Hands the waiting records to Python.
pub fn emit(py: Python<'_>) -> PyResult<()> {
    static EMIT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if !HAS_RECORDS.swap(false, Ordering::Acquire) {
        return Ok(());
    }
    let (records, dropped) = {
        let mut waiting = locked(&WAITING);
        let records = std::mem::take(&mut waiting.records);
        (Vec::from(records), std::mem::take(&mut waiting.dropped))
    };
    let emitted = function(py, &EMIT, "emit").and_then(|emit| emit.call1((records, dropped)));
    emitted.map_or_else(|error| unless_interrupted(py, error), |_| Ok(()))
}

/// Hands the waiting records to Python: at the end of the interpreter.
#[pyfunction]
pub fn flush_log(py: Python<'_>) -> PyResult<()> {
    // A forked child has a copy of its parent's records.
    match check_process() {
        Ok(()) => emit(py),
        Err(_) => Ok(()),
    }
}
