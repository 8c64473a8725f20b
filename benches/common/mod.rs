//! What the benchmarks share: a measurement of ours and of its Parquet twin, and the table printed in the end.
//!
//! Criterion tells how times are spread and what changed since the last run; the table has the fastest run of each
//! side, which on a machine with other work to do is the number that repeats.

#![allow(dead_code, reason = "each benchmark uses a part of it")]

pub mod sql;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode, Throughput};
use datafusion::prelude::SessionContext;

use self::sql::{Engine, TwinPaths};

/// What one run works through.
#[derive(Clone, Copy)]
pub struct Volume {
    pub elements: u64,
    pub bytes: u64,
}

/// The measurements of one question.
pub struct Bench {
    question: &'static str,
    unit: &'static str,
    criterion: Criterion,
    folder: Option<PathBuf>,
    told_missing: bool,
    lines: Vec<Line>,
    /// Options of the table, for the queries that follow.
    pub options: &'static [(&'static str, &'static str)],
}

/// A line of the table.
struct Line {
    case: String,
    volume: Volume,
    ours: Option<Duration>,
    twin: Option<Duration>,
    note: String,
}

impl Bench {
    /// Answers `question`, in so many seconds for each side of each case.
    pub fn new(question: &'static str, seconds: f64) -> Self {
        let criterion = Criterion::default()
            .sample_size(10)
            .warm_up_time(Duration::from_secs_f64(seconds / 5.0))
            .measurement_time(Duration::from_secs_f64(seconds))
            .nresamples(2000)
            .without_plots()
            .configure_from_args();
        Self {
            question,
            unit: "cells",
            criterion,
            folder: std::env::var_os("TILEDB_BENCH_DIR").map(PathBuf::from),
            told_missing: false,
            lines: Vec::new(),
            options: &[],
        }
    }

    /// Counts something else than cells.
    pub fn counting(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }

    /// The paths of an array and its twin. Without them there is nothing to measure, and a line says how to make them.
    pub fn twin_paths(&mut self, array: &str) -> Option<TwinPaths> {
        let paths = self.folder.as_deref().map(|folder| TwinPaths {
            array: folder.join(array),
            twin: folder.join(format!("{array}.parquet")),
        });
        let paths = paths.filter(|paths| paths.array.is_dir() && paths.twin.exists());
        if paths.is_none() && !self.told_missing {
            self.told_missing = true;
            println!(
                "{}: there is no array {array} to measure; make all with `python benches/arrays.py FOLDER` and set \
                 TILEDB_BENCH_DIR=FOLDER",
                self.question
            );
        }
        paths
    }

    /// How fast the rows of a query come into Arrow. Statements before the last `;` prepare the session.
    pub fn query(&mut self, case: &str, array: &str, sql: &str) {
        self.compare_query(case, array, sql, None);
    }

    /// The same for a query whose result is small: the volume is that of the cells it is about.
    pub fn aggregate(&mut self, case: &str, array: &str, sql: &str, volume: Volume) {
        self.compare_query(case, array, sql, Some(volume));
    }

    fn compare_query(&mut self, case: &str, array: &str, sql: &str, volume: Option<Volume>) {
        let Some(paths) = self.twin_paths(array) else {
            return;
        };
        let (prepare, sql) = sql.rsplit_once(';').unwrap_or(("", sql));
        let options = self.options;
        let session = |engine| sql::block_on(sql::session(&paths, &engine, options, prepare));
        let ours = session(Engine::TileDb);
        let first = sql::block_on(sql::drain(&ours, sql));
        let run = |ctx: &SessionContext| {
            let begin = Instant::now();
            let rows = sql::block_on(sql::drain(ctx, sql)).volume.elements;
            let time = begin.elapsed();
            assert_eq!(rows, first.volume.elements, "both sides see the same rows");
            time
        };
        // The faster of the two ways DataFusion reads Parquet; which one it is depends on the query. Nothing of it
        // happens where only our side was chosen, so that peak memory is ours.
        let mut twin = None;
        let run_twin = || {
            let ctx = twin.get_or_insert_with(|| {
                let above = session(Engine::Parquet { pushdown: false });
                if !measuring() || !sql.contains("WHERE") {
                    return above;
                }
                let inside = session(Engine::Parquet { pushdown: true });
                let warm = |ctx: &SessionContext| run(ctx).min(run(ctx)).min(run(ctx));
                if warm(&inside) < warm(&above) {
                    inside
                } else {
                    above
                }
            });
            run(ctx)
        };
        self.compare(
            case,
            volume.unwrap_or(first.volume),
            || run(&ours),
            run_twin,
            first.note,
        );
    }

    /// Measures two things that are worth the same. Each run tells how long it took.
    pub fn compare(
        &mut self,
        case: &str,
        volume: Volume,
        ours: impl FnMut() -> Duration,
        twin: impl FnMut() -> Duration,
        note: String,
    ) {
        let group = format!("{}/{case}", self.question);
        let ours = self.measure(&group, "tiledb", volume, ours);
        let twin = self.measure(&group, "parquet", volume, twin);
        self.lines.push(Line {
            case: case.to_owned(),
            volume,
            ours,
            twin,
            note,
        });
    }

    /// Measures what has no twin.
    pub fn alone(&mut self, case: &str, volume: Volume, run: impl FnMut() -> Duration) {
        let ours = self.measure(self.question, case, volume, run);
        self.lines.push(Line {
            case: case.to_owned(),
            volume,
            ours,
            twin: None,
            note: String::new(),
        });
    }

    /// The fastest run, if criterion was not asked for others only.
    fn measure(
        &mut self,
        group: &str,
        name: &str,
        volume: Volume,
        mut run: impl FnMut() -> Duration,
    ) -> Option<Duration> {
        let mut best: Option<Duration> = None;
        let mut group = self.criterion.benchmark_group(group);
        group
            .sampling_mode(SamplingMode::Flat)
            .throughput(Throughput::ElementsAndBytes {
                elements: volume.elements,
                bytes: volume.bytes,
            });
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|runs| {
                let times = (0..runs).map(|_| {
                    let time = run();
                    best = Some(best.map_or(time, |best| best.min(time)));
                    time
                });
                times.sum()
            });
        });
        group.finish();
        best
    }

    /// Prints the table. Ratios below 1 say that ours is faster.
    pub fn report(self) {
        self.criterion.final_summary();
        let lines: Vec<_> = self
            .lines
            .iter()
            .filter(|line| line.ours.is_some())
            .collect();
        if !measuring() || lines.is_empty() {
            return;
        }
        let others = libtiledb(self.question, self.folder.as_deref());
        println!(
            "{:44} {:>10} {:>12} {:>10} {:>10} {:>6} {:>10} {:>6}",
            self.question,
            "ms",
            format!("{}/s", self.unit),
            "bytes/s",
            "Parquet",
            "ratio",
            "libtiledb",
            "ratio"
        );
        for line in lines {
            let ours = line.ours.unwrap_or_default().as_secs_f64();
            let beside = |other: Option<f64>| match other {
                Some(other) => (
                    format!("{:.3}", other * 1e3),
                    format!("{:.2}", ours / other),
                ),
                None => ("-".to_owned(), "-".to_owned()),
            };
            let (twin, to_twin) = beside(line.twin.map(|t| t.as_secs_f64()));
            let (other, to_other) = beside(others.get(&line.case).copied());
            println!(
                "{:44} {:>10.3} {:>12} {:>10} {twin:>10} {to_twin:>6} {other:>10} {to_other:>6}  {}",
                line.case,
                ours * 1e3,
                short(line.volume.elements as f64 / ours),
                short(line.volume.bytes as f64 / ours),
                line.note
            );
        }
        if let Some(megabytes) = peak_memory_mb() {
            println!("peak memory of this process, Parquet included if it was run: {megabytes} MB");
        }
    }
}

/// Whether speed is asked for: not where `cargo test` runs everything once.
fn measuring() -> bool {
    std::env::args().any(|a| a == "--bench")
}

/// The time of `work`.
pub fn time<T>(work: impl FnOnce() -> T) -> Duration {
    let begin = Instant::now();
    let result = work();
    let time = begin.elapsed();
    // What it takes to throw the result away is not measured.
    drop(result);
    time
}

/// Three digits and a prefix.
fn short(n: f64) -> String {
    let (n, prefix) = match n {
        n if n >= 1e12 => (n / 1e12, "T"),
        n if n >= 1e9 => (n / 1e9, "G"),
        n if n >= 1e6 => (n / 1e6, "M"),
        n if n >= 1e3 => (n / 1e3, "k"),
        n => (n, ""),
    };
    let digits = if n < 10.0 { 2 } else { usize::from(n < 100.0) };
    format!("{n:.digits$} {prefix}")
}

/// Seconds that libtiledb takes for each case, where there is a Python that has it.
fn libtiledb(question: &str, folder: Option<&Path>) -> HashMap<String, f64> {
    let (Some(python), Some(folder)) = (std::env::var_os("TILEDB_BENCH_PYTHON"), folder) else {
        return HashMap::new();
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/libtiledb.py");
    let output = Command::new(python)
        .arg("-B") // leaves no compiled files in the sources
        .arg(script)
        .arg(folder)
        .arg(question)
        .output()
        .expect("Python runs");
    // What was measured before is not lost with it.
    if !output.status.success() {
        println!("{}", String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|line| Some((line["case"].as_str()?.to_owned(), line["seconds"].as_f64()?)))
        .collect()
}

/// The high-water mark of resident memory, where the system tells it.
fn peak_memory_mb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    let kilobytes = line.split_whitespace().nth(1)?.parse::<u64>().ok()?;
    Some(kilobytes / 1024)
}
