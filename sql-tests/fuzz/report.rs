//! A failing case made small and written down, so that it can be pasted as a test.

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::arrays::Loaded;
use super::case::Case;
use super::determined::is_determined;
use super::judge::{Verdict, in_parquet, judge};
use super::print;
use super::run::Runner;
use super::session::Parts;
use super::shrink::{self, smallest};
use crate::support::array_files::Files;

/// A case that fails now and then is run so often before it counts as one that does not.
const TRIES: usize = 5;

/// Makes a failing case smaller, for so long at most, and describes it.
pub fn report(
    name: &str,
    case: &Case,
    verdict: &Verdict,
    runner: &mut Runner,
    parts: &Parts,
    patience: Duration,
) -> String {
    let end = Instant::now() + patience;
    let mut small = Small {
        case: case.clone(),
        verdict: verdict.clone(),
        left: Vec::new(),
    };
    let mut judge = Judge {
        runner,
        parts,
        wrong: matches!(verdict, Verdict::Wrong(_)),
        tries: 1,
        end,
    };
    let mut text = format!("case {name}\n");
    let steady = judge.fails(case).is_some();
    if !steady {
        judge.tries = TRIES;
    }
    if steady || judge.fails(case).is_some() {
        small.shrink(&mut judge);
        let again = if steady {
            ""
        } else {
            ", which fails now and then,"
        };
        let _ = writeln!(text, "the smallest statement{again} of {}", lines(case));
    } else {
        let _ = writeln!(text, "it did not fail again: {}", lines(case));
    }
    small.describe(&mut text);
    if let Some(what) = in_parquet(&small.case, runner, parts) {
        let _ = writeln!(
            text,
            "plain DataFusion over Parquet files differs too: {what}"
        );
    }
    text
}

fn lines(case: &Case) -> String {
    let (before, last) = print::statement(&case.statement);
    [before, vec![last]].concat().join(";\n")
}

/// The smallest failing case so far.
struct Small {
    case: Case,
    verdict: Verdict,
    /// Of each table whose array was made smaller, the writes left.
    left: Vec<(usize, Vec<String>)>,
}

struct Judge<'a> {
    runner: &'a mut Runner,
    parts: &'a Parts,
    wrong: bool,
    tries: usize,
    end: Instant,
}

impl Judge<'_> {
    /// The verdict, if the case fails as the first did.
    fn fails(&mut self, case: &Case) -> Option<Verdict> {
        for _ in 0..self.tries {
            if Instant::now() > self.end {
                return None;
            }
            let verdict = judge(case, self.runner, self.parts);
            let as_first = match &verdict {
                Verdict::Wrong(_) => self.wrong,
                Verdict::Upstream(_) => !self.wrong,
                _ => false,
            };
            if as_first {
                return Some(verdict);
            }
        }
        None
    }
}

impl Small {
    /// Takes a smaller case if it fails.
    fn take(&mut self, case: Case, judge: &mut Judge) -> bool {
        let Some(verdict) = judge.fails(&case) else {
            return false;
        };
        (self.case, self.verdict) = (case, verdict);
        true
    }

    fn shrink(&mut self, judge: &mut Judge) {
        // The shape first, because what runs in a usual session says more; then again, when less is left.
        self.shrink_shape(judge);
        self.shrink_statement(judge);
        self.shrink_arrays(judge);
        self.shrink_statement(judge);
        self.shrink_shape(judge);
    }

    fn shrink_shape(&mut self, judge: &mut Judge) {
        'again: loop {
            for shape in self.case.shape.smaller() {
                let mut case = self.case.clone();
                case.shape = shape;
                if self.take(case, judge) {
                    continue 'again;
                }
            }
            return;
        }
    }

    fn shrink_statement(&mut self, judge: &mut Judge) {
        let keys = self.case.keys();
        let first = self.case.statement.clone();
        smallest(first, &mut |statement| {
            let mut case = self.case.clone();
            case.statement = statement.clone();
            is_determined(statement, &keys) && self.take(case, judge)
        });
    }

    fn shrink_arrays(&mut self, judge: &mut Judge) {
        for number in 0..self.case.tables.len() {
            let source = self.case.tables[number].source.clone();
            // A table that isn't an array of files stays as it is.
            if source.path.is_empty() {
                continue;
            }
            let mut files = Files::of(&source.folder());
            let loaded = |files: &Files, judge: &Judge| -> Option<Arc<Loaded>> {
                let (source, files) = (source.clone(), files.clone());
                let load = async move { source.load_files(&files).await.ok().map(Arc::new) };
                judge.runner.wait(load)
            };
            let mut changed = false;
            for write in shrink::writes(&files) {
                let fewer = shrink::without_writes(&files, &write);
                let Some(table) = loaded(&fewer, judge) else {
                    continue;
                };
                let mut case = self.case.clone();
                let whole = Arc::clone(&case.tables[number]);
                for other in &mut case.tables {
                    if Arc::ptr_eq(other, &whole) {
                        *other = Arc::clone(&table);
                    }
                }
                if self.take(case, judge) {
                    (files, changed) = (fewer, true);
                }
            }
            if changed {
                self.left.push((number, shrink::writes(&files)));
            }
        }
    }

    fn describe(&self, text: &mut String) {
        let (before, last) = print::statement(&self.case.statement);
        let all = [before, vec![last]].concat().join(";\n");
        let _ = write!(text, "\n{}", self.case.shape);
        for (number, table) in self.case.tables.iter().enumerate() {
            let name = format!("t{}", number + 1);
            if all.contains(&format!("{name} AS")) {
                let _ = writeln!(text, "{}", table.source.create(&name));
                for (_, writes) in self.left.iter().filter(|(n, _)| *n == number) {
                    let _ = match writes.as_slice() {
                        [] => writeln!(text, "-- of it the schema is enough"),
                        writes => {
                            writeln!(text, "-- of it these are enough: {}", writes.join(", "))
                        }
                    };
                }
            }
        }
        let _ = writeln!(text, "{all};\n\n{}", told(&self.verdict));
    }
}

fn told(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Wrong(what)
        | Verdict::Upstream(what)
        | Verdict::Value(what)
        | Verdict::NeitherAnswers(what) => what,
        Verdict::Same | Verdict::Memory => "",
    }
}
