//! Many cases, on several threads, counted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use super::arrays::Shelf;
use super::case::{Open, ROUND, Round};
use super::features;
use super::judge::{SLOW, Verdict, in_parquet, judge};
use super::print;
use super::report::report;
use super::run::Runner;
use super::session::Parts;

const THREADS: usize = 2;
const FAILURES: usize = 5;
const SHOWN: usize = 5;
/// A long campaign says how far it is.
const PROGRESS: u64 = 500;
/// How long a failure is made smaller in a short campaign, and in a long one.
const PATIENCE: Duration = Duration::from_secs(60);
const LONG_PATIENCE: Duration = Duration::from_secs(300);

/// Which cases are run, and until when.
#[derive(Debug)]
pub struct Campaign {
    seed: u64,
    numbers: std::ops::Range<u64>,
    end: Option<Instant>,
    /// After so many failures there is enough to mend.
    failures: usize,
    /// The number of workers that run the statements.
    workers: usize,
}

/// What came of the cases so far.
#[derive(Debug, Default)]
struct Counts {
    run: u64,
    same: u64,
    memory: u64,
    neither: BTreeMap<String, (u64, String)>,
    values: Vec<String>,
    upstream: Vec<String>,
    upstream_count: u64,
    wrong: Vec<String>,
    features: BTreeMap<&'static str, u64>,
    slowest: (Duration, u64),
}

impl Campaign {
    /// So many statements.
    pub fn of(seed: u64, statements: u64) -> Self {
        Self {
            seed,
            numbers: 0..statements,
            end: None,
            failures: FAILURES,
            workers: 0,
        }
    }

    /// Goes on until so many cases have failed.
    pub fn until_failures(mut self, failures: u64) -> Self {
        self.failures = failures as usize;
        self
    }

    /// Runs the statements on so many workers.
    pub fn on_workers(mut self, workers: u64) -> Self {
        self.workers = workers as usize;
        self
    }

    /// One case alone.
    pub fn one(seed: u64, number: u64) -> Self {
        Self {
            seed,
            numbers: number..number + 1,
            end: None,
            failures: FAILURES,
            workers: 0,
        }
    }

    /// As many as there is time for.
    pub fn lasting(seed: u64, time: Duration) -> Self {
        Self {
            seed,
            numbers: 0..u64::MAX / 2,
            end: Some(Instant::now() + time),
            failures: FAILURES,
            workers: 0,
        }
    }

    /// Runs the cases, tells what came of them, and fails if an answer is wrong.
    pub fn run(&self) -> Result<(), String> {
        let (shelf, open, counts) = (Shelf::new(), Open::default(), Mutex::new(Counts::default()));
        let next = AtomicU64::new(self.numbers.start / ROUND);
        let parts = Parts::with_workers(self.workers).map_err(|e| e.to_string())?;
        let started = Instant::now();
        thread::scope(|scope| {
            for worker in 0..THREADS {
                let (shelf, open, counts, next, parts) = (&shelf, &open, &counts, &next, &parts);
                let name = format!("{}-{worker}", self.name());
                scope.spawn(move || {
                    let mut runner = Runner::new(&name);
                    while !self.is_over(counts) {
                        let round = next.fetch_add(1, Ordering::Relaxed) * ROUND;
                        if round >= self.numbers.end {
                            break;
                        }
                        let arrays = Round::of(self.seed, round, shelf, open, &runner);
                        for number in round..round + ROUND {
                            if self.numbers.contains(&number) && !self.is_over(counts) {
                                self.case(number, &arrays, &mut runner, parts, counts);
                            }
                        }
                    }
                });
            }
        });
        let counts = counts.into_inner().expect("no panic while it was held");
        println!(
            "{}",
            counts.summary(self.seed, started.elapsed(), self.end.is_none())
        );
        match counts.wrong.as_slice() {
            [] => Ok(()),
            wrong => Err(format!("wrong answers:\n\n{}", wrong.join("\n\n"))),
        }
    }

    fn name(&self) -> String {
        format!("{}-{}", self.seed, self.numbers.start)
    }

    fn is_over(&self, counts: &Mutex<Counts>) -> bool {
        self.end.is_some_and(|end| Instant::now() > end)
            || lock(counts).wrong.len() >= self.failures
    }

    fn case(
        &self,
        number: u64,
        round: &Round,
        runner: &mut Runner,
        parts: &Parts,
        counts: &Mutex<Counts>,
    ) {
        let case = round.case(self.seed, number);
        let (before, last) = print::statement(&case.statement);
        let text = [before, vec![last]].concat().join(";\n");
        if self.numbers.end - self.numbers.start == 1 {
            println!("{}{text};", case.shape);
        }
        let started = Instant::now();
        let verdict = judge(&case, runner, parts);
        let took = started.elapsed();
        let verdict = match verdict {
            // A short campaign runs beside other tests, without optimisation.
            Verdict::Wrong(what) if what == SLOW && self.end.is_some() => {
                Verdict::NeitherAnswers(what)
            }
            // It asks whether a change broke something, and does not fail for defects of DataFusion not met before.
            Verdict::Wrong(what) if self.end.is_some() => match in_parquet(&case, runner, parts) {
                Some(same) => Verdict::Upstream(format!("{what}\nParquet files too: {same}")),
                None => Verdict::Wrong(what),
            },
            verdict => verdict,
        };
        let name = format!("TILEDB_FUZZ_ONLY={}:{number}", self.seed);
        let patience = if self.end.is_some() {
            PATIENCE
        } else {
            LONG_PATIENCE
        };
        let told = match &verdict {
            Verdict::Wrong(_) => report(&name, &case, &verdict, runner, parts, patience),
            Verdict::Upstream(_) if self.end.is_none() && lock(counts).upstream.len() < SHOWN => {
                report(&name, &case, &verdict, runner, parts, PATIENCE)
            }
            Verdict::Upstream(what) => format!("case {name}\n{text};\n{what}"),
            _ => String::new(),
        };
        let mut counts = lock(counts);
        counts.run += 1;
        if self.end.is_none() && counts.run.is_multiple_of(PROGRESS) {
            eprintln!("{} statements, {} wrong", counts.run, counts.wrong.len());
        }
        counts.slowest = counts.slowest.max((took, number));
        for feature in features::of(&case.statement, &text) {
            *counts.features.entry(feature).or_default() += 1;
        }
        match verdict {
            Verdict::Same => counts.same += 1,
            Verdict::Memory => counts.memory += 1,
            Verdict::NeitherAnswers(error) => {
                let kind: String = error
                    .chars()
                    .filter(|c| !c.is_ascii_digit())
                    .take(70)
                    .collect();
                let entry = counts.neither.entry(kind).or_insert((0, String::new()));
                *entry = (entry.0 + 1, format!("{name} {error}\n    {text}"));
            }
            Verdict::Value(error) => counts.values.push(format!("{name} {error}")),
            Verdict::Upstream(_) => {
                counts.upstream_count += 1;
                if counts.upstream.len() < SHOWN {
                    counts.upstream.push(told);
                }
            }
            Verdict::Wrong(_) => {
                eprintln!("{told}");
                counts.wrong.push(told);
            }
        }
    }
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().expect("no panic while it is held")
}

impl Counts {
    fn summary(&self, seed: u64, took: Duration, long: bool) -> String {
        let neither: u64 = self.neither.values().map(|(count, _)| count).sum();
        let mut lines = vec![
            format!(
                "seed {seed}: {} statements in {} s, {} answered by both ({:.1} %)",
                self.run,
                took.as_secs(),
                self.same,
                100.0 * self.same as f64 / self.run.max(1) as f64
            ),
            format!(
                "{neither} answered by neither, {} with a value that fails on one side, {} without the memory, \
                 {} with another answer of DataFusion itself, {} WRONG; the slowest, {}, took {:?}",
                self.values.len(),
                self.memory,
                self.upstream_count,
                self.wrong.len(),
                self.slowest.1,
                self.slowest.0
            ),
        ];
        if !long {
            return lines.join("\n");
        }
        let features: Vec<String> = self
            .features
            .iter()
            .map(|(name, n)| format!("{name} {n}"))
            .collect();
        lines.push(features.join(", "));
        for (count, example) in self.neither.values().take(4 * SHOWN) {
            lines.push(format!("neither answers, {count} times: {example}"));
        }
        for value in self.values.iter().take(SHOWN) {
            lines.push(format!("a value fails: {value}"));
        }
        for upstream in &self.upstream {
            lines.push(format!("DATAFUSION ITSELF: {upstream}"));
        }
        lines.join("\n")
    }
}
