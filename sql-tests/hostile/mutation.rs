//! Damaged arrays, thousands of them: reading one gives an answer or an error, never a panic, a hang, a large
//! allocation, or an "internal error". Single files that are cut, or have a flipped bit. And arrays whose metadata say what they
//! cannot mean: they have the answers of their cells.
//!
//! Deterministic: case N is always the same damage. `MUTATIONS=100000` runs so many cases, `MUTATION_FIRST=N` from
//! there on, `MUTATION_CASE=N` that one alone, and prints it. The cases run in a process of their own under a limit of address space, so that an absurd
//! allocation fails instead of succeeding lazily; if that process dies, the case it died at is told.

use std::fs;
use std::panic;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::common::{Column, ScalarValue};
use datafusion::datasource::MemTable;
use datafusion::logical_expr::{Expr, lit};
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use datafusion_tiledb::TileDbTable;
use futures::{StreamExt, TryStreamExt};
use libtest_mimic::Failed;
use tiledb_engine::format::datatype::Datatype;
use tiledb_engine::format::fragment::footer::Footer;
use tiledb_engine::format::schema::ArraySchema;
use tiledb_engine::maintain::check::{self, CheckOptions};
use tiledb_engine::storage::{Location, MetadataCache, Storage};

use crate::golden::pruning;
use crate::hostile::bad_input::read as read_folder;
use crate::support::array_files::{
    Files, METADATA_FILE, contents, join_footer, plain_tile, split_footer,
};
use crate::support::neutral_rows;
use crate::support::trials::SqlTrial;
use crate::{block_on, trial};

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
const SMOKE_CASES: u64 = 1000;
/// Later cases that found a fault. The schema of case 1361 claims tiles of 2^51 cells; reading a part of one that needs no
/// stored field ended the process.
const FOUND_CASES: [u64; 1] = [1361];
const NAME: &str = "hostile::mutation::damaged_arrays_give_an_answer_or_an_error";
const CASE_SECONDS: u64 = 5;
/// The limit of address space, in KiB; glibc reserves 64 MiB of it for every thread.
const LIMIT_KIB: u64 = 4 << 20;
const PEAK_KIB: u64 = 1 << 20;
/// Rows after which a scan is no longer followed: a box that claims more cells than bytes is no damage in itself.
const ROWS: usize = 1 << 18;

trials!(single_files());

trials!(contradictions());

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
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(2)
        .enable_all()
        .build()?;
    let originals: Vec<[Files; 2]> = ARRAYS
        .iter()
        .map(|name| Files::golden(name))
        .map(|files| [files.plain(), files])
        .collect();
    let folder = tempfile::tempdir()?;
    let cases: Vec<u64> = match (number("MUTATION_CASE"), number("MUTATIONS")) {
        (Some(case), _) => vec![case],
        (None, Some(count)) => {
            let first = number("MUTATION_FIRST").unwrap_or(0);
            (first..first + count).collect()
        }
        (None, None) => (0..SMOKE_CASES).chain(FOUND_CASES).collect(),
    };
    let (mut told, mut answers, mut slowest) = (Vec::new(), 0_u64, (Duration::ZERO, 0));
    for case in cases.iter().copied() {
        fs::write(&progress, case.to_string())?;
        let damaged = damage(case, &originals);
        let started = Instant::now();
        // Every fourth array is read from files, whose reads take other ways than those from memory.
        let place = if case % 4 == 0 {
            let folder = folder.path().join(case.to_string());
            damaged.files.write(&folder);
            Some(folder)
        } else {
            None
        };
        let task = async {
            let location = match &place {
                Some(folder) => Location::local(&folder.display().to_string())?,
                None => damaged.files.in_memory().await,
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
        let found: Vec<String> = FAULTS.lock().expect("free").drain(..).collect();
        let mut faults = found;
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
    let count = cases.len();
    println!(
        "{count} cases, {answers} answers, slowest {slowest:?}, peak {:?} KiB",
        peak_kib()
    );
    if peak_kib().is_some_and(|kib| kib > PEAK_KIB) {
        told.push(format!("{:?} KiB of memory at the peak", peak_kib()));
    }
    // A thread that hangs would keep the runtime from ending.
    runtime.shutdown_background();
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
    let mut builder = TileDbTable::builder("array")
        .location(location)
        .cache(Arc::new(MetadataCache::new(1 << 20)));
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

/// A kind of file: array, a part of the path, and whether every cut is an error.
const KINDS: [(&str, &str, &str, bool); 19] = [
    ("schema", "weather_stations", "__schema/__1000", true),
    ("enumeration", "weather_stations", "__enumerations/", true),
    (
        "fragment_metadata",
        "weather_stations",
        "__1000_1000_/__fragment_metadata",
        true,
    ),
    (
        "fragment_metadata_dense",
        "dense_nullable_var",
        "__fragment_metadata",
        true,
    ),
    ("fixed", "quickstart_sparse", "a0.tdb", true),
    (
        "fixed_filtered",
        "weather_stations",
        "__1000_1000_/a0.tdb",
        true,
    ),
    ("offsets", "weather_stations", "__1000_1000_/a3.tdb", true),
    ("var", "weather_stations", "__1000_1000_/a3_var.tdb", true),
    (
        "validity",
        "weather_stations",
        "__1000_1000_/a1_validity.tdb",
        true,
    ),
    ("dimension", "weather_stations", "__1000_1000_/d1.tdb", true),
    (
        "dimension_var",
        "weather_stations",
        "__1000_1000_/d0_var.tdb",
        true,
    ),
    ("dense_offsets", "dense_nullable_var", "a0.tdb", true),
    ("dense_var", "dense_nullable_var", "a0_var.tdb", true),
    (
        "dense_validity",
        "dense_nullable_var",
        "a0_validity.tdb",
        true,
    ),
    ("timestamps", "sparse_consolidated_strings", "t.tdb", true),
    ("consolidated_commits", "commits_vacuumed", ".con", false),
    ("ignored_commits", "commits_ignored", ".ign", false),
    ("vacuum", "sparse_consolidated_kept", ".vac", false),
    (
        "consolidated_metadata",
        "fragment_metadata_consolidated",
        ".meta",
        true,
    ),
];

/// Every kind of file, cut at every length, emptied, and with single bits flipped.
///
/// A file that is cut is an error that names the file or its fragment (lists of names may be cut between two names). A flipped
/// bit is such an error too, or an answer: values without a checksum cannot tell.
fn single_files() -> Vec<SqlTrial> {
    let mut trials = Vec::new();
    for (kind, array, part, strict) in KINDS {
        trials.push(trial(format!("{kind}_cut"), move || {
            block_on(cut(array, part, strict))
        }));
        trials.push(trial(format!("{kind}_flipped"), move || {
            block_on(flipped(Files::golden(array), part))
        }));
        if part.contains("__schema/") || part.contains("__enum") || part.contains("__fragment_m") {
            trials.push(trial(format!("{kind}_plain_flipped"), move || {
                block_on(flipped(Files::golden(array).plain(), part))
            }));
        }
    }
    trials
}

/// The file whose path holds the parts between the blanks that `_/` stands for.
fn find(files: &Files, part: &str) -> String {
    let (fragment, name) = part.rsplit_once("_/").unwrap_or(("", part));
    let mut paths = files.find_all(name).into_iter();
    paths
        .find(|path| path.contains(fragment))
        .unwrap_or_else(|| panic!("no {part}"))
}

/// Whether the message says where: the file, or the fragment it belongs to.
fn is_located(message: &str, path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or_default();
    let fragment = path.split('/').nth(1).unwrap_or_default();
    let named =
        message.contains(file) || path.starts_with("__fragments/") && message.contains(fragment);
    // A fragment is named by the lists of commits; the damaged name is the place.
    let listed = path.starts_with("__commits/") && message.contains("__fragments/");
    (named || listed) && !message.contains("internal error") && !message.contains("panic")
}

async fn outcome_of(files: &Files) -> Result<usize, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    files.write(folder.path());
    let limit = std::time::Duration::from_secs(10);
    let reading = read_folder(folder.path(), &[], "SELECT * FROM t");
    let outcome = tokio::time::timeout(limit, reading).await;
    outcome.unwrap_or_else(|_| Err("panic: no answer after ten seconds".to_owned()))
}

async fn cut(array: &str, part: &str, strict: bool) -> Result<(), Failed> {
    let files = Files::golden(array);
    let path = find(&files, part);
    let bytes = files.0[&path].len();
    let mut lengths = vec![
        0,
        1,
        4,
        7,
        8,
        20,
        34,
        42,
        bytes / 3,
        bytes / 2,
        bytes - 9,
        bytes - 8,
        bytes - 1,
    ];
    lengths.retain(|len| *len < bytes);
    for len in lengths {
        let mut damaged = files.clone();
        damaged.edit(&path, |file| file.truncate(len));
        match outcome_of(&damaged).await {
            Err(message) if is_located(&message, &path) => {}
            Err(message) => return Err(format!("{path} cut to {len}: {message}").into()),
            Ok(_) if !strict && (len == 0 || files.0[&path][len - 1] == b'\n') => {}
            Ok(rows) => return Err(format!("{path} cut to {len} of {bytes}: {rows} rows").into()),
        }
    }
    Ok(())
}

async fn flipped(files: Files, part: &str) -> Result<(), Failed> {
    let path = find(&files, part);
    let bits = files.0[&path].len() * 8;
    // A hundred bits, the first and last bytes among them.
    let step = (bits / 60).max(1) | 1;
    let sample = (0..bits.min(24))
        .chain((24..bits).step_by(step))
        .chain(bits.saturating_sub(16)..bits);
    let mut refusals = 0;
    for bit in sample {
        let mut damaged = files.clone();
        damaged.edit(&path, |file| file[bit / 8] ^= 1 << (bit % 8));
        match outcome_of(&damaged).await {
            Ok(_) => {}
            Err(message) if is_located(&message, &path) => refusals += 1,
            // Where the damaged file describes others, the one that no longer fits is told.
            Err(message)
                if ["fragment __", "__schema/", "enumeration "]
                    .iter()
                    .any(|w| message.contains(w)) =>
            {
                refusals += 1
            }
            Err(message) => return Err(format!("{path}, bit {bit}: {message}").into()),
        }
    }
    if refusals == 0 {
        return Err(format!("{path}: no flipped bit was found").into());
    }
    Ok(())
}

/// Arrays with statistics of numbers, whose metadata are made to contradict themselves.
const CONTRADICTED: [&str; 11] = [
    "weather_stations",
    "dense_overlapping",
    "sparse_overwrite_hilbert",
    "sparse_consolidated_then_more",
    "sparse_nullable",
    "sparse_dates",
    "current_domain_sparse",
    "rtree_three_levels",
    "dense_nullable_var",
    "enum_dense",
    "evolved_sparse",
];
/// So many of each array, or as many as `MUTATIONS` says.
const CONTRADICTIONS: u64 = 6;

/// A box, a minimum or a count that cannot be one is unknown. It rules nothing out and answers nothing: whatever is asked, the
/// cells are asked, and in an array that is dense by its domain, or where all is unknown, there may be an error.
fn contradictions() -> Vec<SqlTrial> {
    let each = CONTRADICTED.iter().map(|array| {
        let array = *array;
        trial(format!("contradicted_{array}"), move || {
            block_on(contradicted(array))
        })
    });
    each.collect()
}

async fn contradicted(array: &str) -> Result<(), Failed> {
    let original = Files::golden(array).plain();
    let Some((_, rows)) = whole(&original, "cells").await? else {
        return Err("the array itself has no rows".into());
    };
    let expected = neutral_rows::rows(std::slice::from_ref(&rows));
    let cases = match number("MUTATION_CASE") {
        Some(case) => case..case + 1,
        None => 0..number("MUTATIONS").unwrap_or(CONTRADICTIONS),
    };
    let (mut changed, mut answers) = (0, 0);
    for case in cases {
        let mut random = Random((case + 7).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        (0..4).for_each(|_| {
            random.next();
        });
        let mut files = original.clone();
        let mut what = format!("{array}, case {case}");
        for _ in 0..1 + random.below(3) {
            if let Some(more) = contradict(&mut files, &mut random) {
                what.push_str(&format!("; {more}"));
            }
        }
        if files.0 == original.0 {
            continue;
        }
        changed += 1;
        let way = ["metadata", "cells"][random.below(2)];
        let found = match whole(&files, way).await {
            Ok(Some(found)) => found,
            Ok(None) => return Err(format!("{what}: no rows").into()),
            // The domain of a fragment is what its cells are counted by.
            Err(e)
                if what.contains("; domain of")
                    && !e.message().unwrap_or("").contains("internal") =>
            {
                continue;
            }
            Err(e) => return Err(format!("{what}: {e:?}").into()),
        };
        let (table, rows) = found;
        if neutral_rows::rows(std::slice::from_ref(&rows)) != expected {
            return Err(format!("{what}: other rows than before").into());
        }
        answers += 1;
        let memory = MemTable::try_new(rows.schema(), vec![vec![rows.clone()]])?;
        let name = PathBuf::from(format!("{array}{case}"));
        let compared = pruning::compare(&name, &table, &Arc::new(memory), &rows, 6).await;
        compared.map_err(|e| format!("{what}: {}", e.message().unwrap_or_default()))?;
    }
    if number("MUTATION_CASE").is_none() && (changed == 0) {
        return Err(format!("{array}: {changed} cases, {answers} answers").into());
    }
    println!("{array}: {changed} cases, {answers} answers");
    Ok(())
}

/// Reads everything, in memory; `None` if there are no rows.
async fn whole(
    files: &Files,
    aggregate_from: &str,
) -> Result<Option<(Arc<TileDbTable>, RecordBatch)>, Failed> {
    let builder = TileDbTable::builder("array").location(files.in_memory().await);
    let builder = builder.cache(Arc::new(MetadataCache::new(1 << 20)));
    let table = builder
        .option("aggregate_from", aggregate_from)?
        .open()
        .await?;
    let table = Arc::new(table);
    let all = SessionContext::new().read_table(Arc::clone(&table) as _)?;
    let schema = Arc::clone(all.schema().inner());
    let batches = all.collect().await?;
    let rows = concat_batches(&schema, &batches)?;
    Ok((rows.num_rows() > 0).then_some((table, rows)))
}

/// The bytes of a plain tile before its contents.
const PLAIN_BYTES: usize = 34 + 8 + 8 + 12;

/// Makes the metadata of one fragment say what they cannot mean, and says what.
fn contradict(files: &mut Files, random: &mut Random) -> Option<String> {
    let paths = files.find_all(METADATA_FILE);
    let path = &paths[random.below(paths.len())];
    let file = files.0.get(path)?.clone();
    let (body, footer) = split_footer(&file);
    let (_, name) = Footer::peek_schema_name(footer).ok()?;
    let schema = ArraySchema::decode(&contents(&files.0[&format!("__schema/{name}")])).ok()?;
    let mut footer = Footer::decode(footer, &schema).ok()?;
    let mut body = body.to_vec();
    let attributes = schema.attributes.len();
    let slot = random.below(attributes + 1 + schema.dimensions.len());
    let size = match slot.checked_sub(attributes + 1) {
        None if slot == attributes => None,
        None => schema.attributes[slot]
            .cell_size()
            .map(|s| (s, schema.attributes[slot].datatype)),
        Some(d) => schema.dimensions[d]
            .cell_size()
            .map(|s| (s, schema.dimensions[d].datatype)),
    };
    let what = match random.below(5) {
        0 => {
            let (size, datatype) = size?;
            let [mins, maxes] = [&footer.sections.mins, &footer.sections.maxes];
            let [min, max] = [mins, maxes].map(|starts| section(&body, starts[slot]));
            let tiles = (min.len() - 16) / size;
            let at = 16 + random.below(tiles) * size;
            if tiles == 0 {
                return None;
            }
            turn(
                &mut body,
                min.start + at,
                max.start + at,
                size,
                datatype,
                random,
            )?;
            format!("bounds of a tile in slot {slot} of {path}")
        }
        1 => {
            let counts = section(&body, footer.sections.null_counts[slot]);
            let tiles = (counts.len() - 8) / 8;
            if tiles == 0 {
                return None;
            }
            let at = counts.start + 8 + 8 * random.below(tiles);
            let value = [u64::MAX, 1 << 40, 1 << 63][random.below(3)];
            body[at..at + 8].copy_from_slice(&value.to_le_bytes());
            format!("null count of a tile in slot {slot} of {path}")
        }
        2 | 3 => {
            let tree = section(&body, footer.sections.rtree);
            let sizes = schema
                .dimensions
                .iter()
                .map(|d| d.cell_size())
                .collect::<Option<Vec<_>>>()?;
            let tiles = usize::try_from(footer.sparse_tile_count).ok()?;
            let width = 2 * sizes.iter().sum::<usize>();
            // The leaves are the last level.
            let leaves = tree.end.checked_sub(tiles * width).filter(|_| tiles > 0)?;
            let d = random.below(sizes.len());
            let before = 2 * sizes[..d].iter().sum::<usize>();
            let at = leaves + random.below(tiles) * width + before;
            let datatype = schema.dimensions[d].datatype;
            turn(&mut body, at, at + sizes[d], sizes[d], datatype, random)?;
            format!("rectangle of a tile in dimension {d} of {path}")
        }
        _ => {
            let domain = footer.non_empty_domain.as_mut()?;
            let range = domain.get_mut(random.below(schema.dimensions.len()))?;
            if range.lo == range.hi || footer.version.get() != 22 {
                return None;
            }
            std::mem::swap(&mut range.lo, &mut range.hi);
            format!("domain of {path}")
        }
    };
    let footer = match footer.version.get() {
        22 => footer.encode(&schema),
        _ => split_footer(&file).1.to_vec(),
    };
    files.edit(path, |bytes| *bytes = join_footer(&body, &footer));
    Some(what)
}

/// Where the contents of a plain section are.
fn section(body: &[u8], start: u64) -> std::ops::Range<usize> {
    let start = usize::try_from(start).expect("small");
    let size = body[start + 12..start + 20]
        .try_into()
        .expect("eight bytes");
    let begin = start + PLAIN_BYTES;
    begin..begin + usize::try_from(u64::from_le_bytes(size)).expect("small")
}

/// Puts the low end above the high end, or NaN in the place of one. `None` if both ends are the same number.
fn turn(
    body: &mut [u8],
    lo: usize,
    hi: usize,
    size: usize,
    datatype: Datatype,
    random: &mut Random,
) -> Option<()> {
    let nan = match datatype {
        Datatype::Float32 => f32::NAN.to_le_bytes().to_vec(),
        Datatype::Float64 => f64::NAN.to_le_bytes().to_vec(),
        _ => Vec::new(),
    };
    if nan.len() == size && random.below(2) == 0 {
        let at = [lo, hi][random.below(2)];
        body[at..at + size].copy_from_slice(&nan);
        return Some(());
    }
    let (low, high) = (body[lo..lo + size].to_vec(), body[hi..hi + size].to_vec());
    if low == high || size != datatype.size() {
        return None;
    }
    body[lo..lo + size].copy_from_slice(&high);
    body[hi..hi + size].copy_from_slice(&low);
    Some(())
}
