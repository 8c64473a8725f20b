//! Damaged arrays, thousands of them: reading one gives an answer or an error, never a panic, a hang, a large
//! allocation, or an "internal error". Single files that are cut, or have a flipped bit. And arrays whose metadata say what they
//! cannot mean: they have the answers of their cells.
//!
//! Deterministic: case N is always the same damage. `MUTATIONS=100000` runs so many cases, `MUTATION_FIRST=N` from
//! there on, `MUTATION_CASE=N` that one alone, and prints it. The cases run in a process of their own under a limit of address space, so that an absurd
//! allocation fails instead of succeeding lazily; if that process dies, the case it died at is told.

mod contradictions;
mod single_files;

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{fs, panic};

use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::{Expr, lit};
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use datafusion_tiledb::TileDbTable;
use futures::{StreamExt, TryStreamExt};
use libtest_mimic::Failed;
use tiledb_engine::maintain::check::{self, CheckOptions};
use tiledb_engine::storage::{Location, MetadataCache, Storage};

use crate::support::array_files::{Files, plain_tile};

/// Diverse ones: dense and sparse, fixed and var-sized, NULLs, strings, enumerations, evolution, consolidation.
const ARRAYS: [&str; 23] = [
    "old/v17_bitsort_columns",
    "delete_consolidated_twice",
    "delete_trees_overwritten",
    "dense_overlapping",
    "dense_nullable_var",
    "weather_stations",
    "sparse_strings",
    "sparse_overwrite_hilbert",
    "sparse_consolidated_strings",
    "sparse_consolidated_then_more",
    "sparse_nullable",
    "sparse_dates",
    "commits_ignored",
    "commits_vacuumed_dense",
    "current_domain_sparse",
    "enum_dense",
    "enum_values",
    "evolved_sparse",
    "filter_dictionary_chunks",
    "fragment_metadata_consolidated",
    "rtree_three_levels",
    "stack_everything_once",
    "stack_rle_bitshuffle_gzip_md5",
];

const SMOKE_CASES: u64 = 300;

/// Later cases that found a fault. The schema of case 1361 claims tiles of 2^51 cells; reading a part of one that needs no
/// stored field ended the process.
const FOUND_CASES: [u64; 1] = [1361];

const NAME: &str = "hostile::mutation::damaged_arrays_give_an_answer_or_an_error";

const CASE_SECONDS: u64 = 5;

/// The limit of address space, in KiB; glibc reserves 64 MiB of it for every thread.
const LIMIT_KIB: u64 = 4 << 20;

const PEAK_KIB: u64 = 1 << 20;

/// Rows after which a scan is no longer followed: a box that claims more cells than bytes isn't damage in itself.
const ROWS: usize = 1 << 18;

trial!(damaged_arrays_give_an_answer_or_an_error);
fn damaged_arrays_give_an_answer_or_an_error() -> Result<(), Failed> {
    match std::env::var_os("MUTATION_PROGRESS") {
        Some(file) => run(PathBuf::from(file)),
        None => supervise(),
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs the cases in a process of their own.
fn supervise() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let progress = folder.path().join("case");
    let program = std::env::current_exe()?;
    let mut command = if cfg!(target_os = "linux") {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -v {LIMIT_KIB}; exec \"$0\" \"$@\"")]);
        shell.arg(program);
        shell
    } else {
        Command::new(program)
    };
    let output = command
        .args([NAME, "--exact", "--nocapture"])
        .env("MUTATION_PROGRESS", &progress)
        .env_remove("RUST_BACKTRACE")
        .output()?;
    if number("MUTATION_CASE").is_some() || number("MUTATIONS").is_some() {
        println!("{}", String::from_utf8_lossy(&output.stdout));
    }
    if output.status.success() {
        return Ok(());
    }
    let case = fs::read_to_string(&progress).unwrap_or_default();
    Err(format!(
        "{} at or before case {case}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
    .into())
}

/// What went wrong so far, panics of any thread included.
static FAULTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn fault(text: String) {
    FAULTS.lock().expect("no panic holds it").push(text);
}

fn run(progress: PathBuf) -> Result<(), Failed> {
    panic::set_hook(Box::new(|info| {
        // Also at once: a panic that cannot unwind ends the process.
        eprintln!("{info}");
        fault(format!("panic: {info}"));
    }));
    let runtime = runtime()?;
    let originals = originals();
    let folder = tempfile::tempdir()?;
    let cases = chosen_cases();
    let (mut told, mut answers, mut slowest) = (Vec::new(), 0_u64, (Duration::ZERO, 0));
    for case in cases.iter().copied() {
        fs::write(&progress, case.to_string())?;
        let damaged = damage(case, &originals);
        let started = Instant::now();
        // Every fourth array is read from files, whose reads take other ways than those from memory.
        let place = if case % 4 == 0 {
            let folder = folder.path().join(case.to_string());
            damaged.files.write_aged(&folder);
            Some(folder)
        } else {
            None
        };
        let task = async {
            let location = match &place {
                Some(folder) => Location::local(&folder.display().to_string())?,
                None => damaged.files.aged_in_memory().await,
            };
            if damaged.choice.is_multiple_of(2)
                && let Err(e) = check(location.clone()).await
            {
                return Ok(Err(e));
            }
            Ok::<_, datafusion_tiledb::Error>(read(location, damaged.choice).await)
        };
        let limit = Duration::from_secs(CASE_SECONDS);
        let outcome = runtime.block_on(async { tokio::time::timeout(limit, task).await });
        let mut faults: Vec<String> = FAULTS.lock().expect("free").drain(..).collect();
        match outcome {
            Err(_) => faults.push(format!("no answer after {CASE_SECONDS} s")),
            Ok(Err(e)) => faults.push(e.to_string()),
            Ok(Ok(Err(e))) if e.contains("internal error") || e.contains("before it was done") => {
                faults.push(e);
            }
            Ok(Ok(Err(e))) => {
                if cases.len() == 1 {
                    println!("case {case}: {}\n  {e}", damaged.what);
                }
            }
            Ok(Ok(Ok(rows))) => {
                answers += 1;
                if cases.len() == 1 {
                    println!("case {case}: {}\n  {rows} rows", damaged.what);
                }
            }
        }
        slowest = slowest.max((started.elapsed(), case));
        if let Some(folder) = place {
            fs::remove_dir_all(folder)?;
        }
        if !faults.is_empty() {
            told.push(format!(
                "case {case}: {}\n  {}",
                damaged.what,
                faults.join("\n  ")
            ));
            if told.len() == 20 || faults.iter().any(|f| f.starts_with("no answer")) {
                break;
            }
        }
    }
    println!(
        "{} cases, {answers} answers, slowest {slowest:?}, peak {:?} KiB",
        cases.len(),
        peak_kib()
    );
    // A thread that hangs would keep the runtime from ending.
    runtime.shutdown_background();
    conclude(told)
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(2)
        .enable_all()
        .build()
}

/// The arrays, in plain form and as they are.
fn originals() -> Vec<[Files; 2]> {
    let files = ARRAYS.iter().map(|name| Files::golden(name));
    files.map(|files| [files.plain(), files]).collect()
}

fn chosen_cases() -> Vec<u64> {
    match (number("MUTATION_CASE"), number("MUTATIONS")) {
        (Some(case), _) => vec![case],
        (None, Some(count)) => {
            let first = number("MUTATION_FIRST").unwrap_or(0);
            (first..first + count).collect()
        }
        (None, None) => (0..SMOKE_CASES).chain(FOUND_CASES).collect(),
    }
}

/// Ends the process if there are faults, or too much memory was in use.
fn conclude(mut told: Vec<String>) -> Result<(), Failed> {
    if peak_kib().is_some_and(|kib| kib > PEAK_KIB) {
        told.push(format!("{:?} KiB of memory at the peak", peak_kib()));
    }
    if told.is_empty() {
        return Ok(());
    }
    println!("{}", told.join("\n"));
    std::process::exit(1);
}

fn peak_kib() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Looks for what is wrong, which is much, and must not be a fault of the search.
async fn check(location: Location) -> Result<(), String> {
    let mut findings = check::check(Storage::new(location), CheckOptions::default());
    loop {
        match findings.try_next().await {
            Ok(Some(_)) => {}
            Err(e) if e.to_string().contains("internal error") => return Err(e.to_string()),
            Ok(None) | Err(_) => return Ok(()),
        }
    }
}

/// Opens, reads everything, then reads a part by a filter on a dimension and one on an attribute.
async fn read(location: Location, choice: u64) -> Result<usize, String> {
    let mut builder = TileDbTable::builder(location).cache(Arc::new(MetadataCache::new(1 << 20)));
    if choice.is_multiple_of(8) {
        builder = builder.timestamp_end(1500);
    }
    let table = builder.open().await.map_err(|e| e.to_string())?;
    let config = SessionConfig::new()
        .with_target_partitions(1 + usize::from(choice.is_multiple_of(2)))
        .with_batch_size(1000);
    let ctx = SessionContext::new_with_config(config);
    let table = Arc::new(table);
    describe(&ctx, Arc::clone(&table), choice).await?;
    let frame = ctx.read_table(table).map_err(|e| e.to_string())?;
    let (rows, first) = count(frame.clone()).await?;
    let columns = frame.schema().columns();
    let (Some(dimension), Some(last)) = (columns.first(), columns.last()) else {
        return Err("a table without columns".to_owned());
    };
    let column = |c: &Column| Expr::Column(Column::from_name(c.name()));
    let mut filter = column(last).is_not_null();
    if let Some(value) = first {
        filter = filter.and(column(dimension).gt_eq(lit(value)));
    }
    let filtered = frame.filter(filter).map_err(|e| e.to_string())?;
    count(filtered).await?;
    Ok(rows)
}

/// Asks one of the table functions, which may well answer with an error.
async fn describe(
    ctx: &SessionContext,
    table: Arc<TileDbTable>,
    choice: u64,
) -> Result<(), String> {
    const FUNCTIONS: [&str; 8] = [
        "array",
        "schema",
        "enumerations",
        "metadata",
        "commits",
        "fragments",
        "tiles",
        "scan",
    ];
    datafusion_tiledb::register(ctx).map_err(|e| e.to_string())?;
    ctx.register_table("t", table).map_err(|e| e.to_string())?;
    // The tiles of damaged metadata are where most can go wrong.
    let function = FUNCTIONS
        .get((choice / 16 % 16) as usize)
        .unwrap_or(&"tiles");
    let sql = format!("SELECT * FROM tiledb_{function}('t')");
    let answer = async {
        let frame = ctx.sql(&sql).await.map_err(|e| e.to_string())?;
        count(frame).await
    };
    match answer.await {
        Err(e) if e.contains("internal error") => Err(e),
        _ => Ok(()),
    }
}

/// Rows, and the first value of the first column.
async fn count(frame: DataFrame) -> Result<(usize, Option<ScalarValue>), String> {
    let mut batches = frame.execute_stream().await.map_err(|e| e.to_string())?;
    let (mut rows, mut first) = (0, None);
    while let Some(batch) = batches.next().await {
        let batch = batch.map_err(|e| e.to_string())?;
        rows += batch.num_rows();
        if first.is_none() && batch.num_rows() > 0 {
            first = ScalarValue::try_from_array(batch.column(0), 0).ok();
        }
        if rows > ROWS {
            break;
        }
    }
    Ok((rows, first))
}

/// xorshift64*, seeded by the case.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 8
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % (n.max(1) as u64)).unwrap_or(0)
    }
}

struct Damaged {
    files: Files,
    what: String,
    choice: u64,
}

fn damage(case: u64, originals: &[[Files; 2]]) -> Damaged {
    let mut random = Random((case + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    for _ in 0..4 {
        random.next();
    }
    let array = random.below(ARRAYS.len());
    let form = random.below(4).min(1);
    let mut files = originals[array][usize::from(form == 0)].clone();
    let mut what = format!("{} {}", ARRAYS[array], ["as written", "plain"][form]);
    for _ in 0..1 + random.below(3) {
        let paths: Vec<String> = files.0.keys().cloned().collect();
        let path = &paths[random.below(paths.len())];
        let other = files.0[&paths[random.below(paths.len())]].clone();
        let bytes = files.0.get_mut(path).expect("listed");
        what.push_str(&format!(
            "; {path} ({}) {}",
            bytes.len(),
            change(bytes, &other, &mut random)
        ));
        if path.starts_with("__schema/") && form == 1 && random.below(3) > 0 {
            // Lengths of the box that no longer fit would hide what is in it.
            let contents = bytes.get(62..).unwrap_or_default().to_vec();
            *bytes = plain_tile(&contents);
        }
    }
    Damaged {
        files,
        what,
        choice: random.next(),
    }
}

/// Numbers that overflow, wrap or ask for too much.
const NUMBERS: [u64; 12] = [
    0,
    1,
    0x7f,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 36,
    1 << 48,
    u64::MAX >> 1,
    1 << 63,
    u64::MAX - 7,
    u64::MAX,
];

fn change(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) -> String {
    let at = random.below(bytes.len());
    match random.below(if bytes.is_empty() { 1 } else { 14 }) {
        0 => {
            let more: Vec<u8> = (0..=random.below(12))
                .map(|_| random.next() as u8)
                .collect();
            bytes.splice(at..at, more.iter().copied());
            format!("{more:?} inserted at {at}")
        }
        1 => {
            bytes.truncate(at);
            format!("cut to {at}")
        }
        2 => {
            *bytes = other.to_vec();
            "replaced by another file".to_owned()
        }
        3 => {
            let end = (at + 1 + random.below(16)).min(bytes.len());
            bytes.drain(at..end);
            format!("{at}..{end} removed")
        }
        4..=6 => {
            let width = [1, 2, 4, 8][random.below(4)];
            let value = NUMBERS[random.below(NUMBERS.len())].to_le_bytes();
            for (byte, value) in bytes.iter_mut().skip(at).zip(&value[..width]) {
                *byte = *value;
            }
            format!("{:?} at {at}", &value[..width])
        }
        7 => {
            let from = random.below(other.len());
            let len = random.below(64);
            for (byte, value) in bytes
                .iter_mut()
                .skip(at)
                .zip(other.iter().skip(from).take(len))
            {
                *byte = *value;
            }
            format!("{len} bytes of another file at {at}")
        }
        8 => {
            bytes[at] = bytes[at].wrapping_add(1);
            format!("one more at {at}")
        }
        9 => {
            bytes[at] = bytes[at].wrapping_sub(1);
            format!("one less at {at}")
        }
        _ => {
            let bit = random.below(8);
            bytes[at] ^= 1 << bit;
            format!("bit {bit} of {at} flipped")
        }
    }
}
