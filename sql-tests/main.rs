//! The tests that look at arrays from the outside, each by its own name.
//!
//! `golden::<array>`: every array under `arrays/` reads as libtiledb reads it. `slt::<topic>`: the SQL of every
//! `.slt` file; `slt_sessions::<topic>`: the same in sessions of other shapes. `aggregates::<array>`: what metadata
//! answer is what the cells say. `pruning::<array>`, `enumerated::<array>`, `grouping::<array>`, `ordering::<array>`: what is
//! skipped, cut, coded or ordered makes no difference. `history::<array>`: system columns agree with windows of time. `differences::<array>`: two times differ in what `tiledb_diff` says. `changed::<kind>_<seed>`: random statements change arrays as they
//! change rows in memory. `ours::<array>`: what this project wrote is written as it was. `reader::<array>`: the same without SQL. `fuzz::…`: random SQL, compared with plain DataFusion.
//! The rest are plain functions, by module. `cargo test --test sql-tests <part of a name>`
//! picks some.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test stops at the first surprise, and nobody links against it"
)]

mod aggregates;
mod allocations;
mod anew;
mod as_shown;
mod bad_input;
mod broken_columns;
mod changed;
mod check;
mod consolidating;
mod copied;
mod crashes;
mod created;
mod differences;
mod encryption;
mod enumerated;
mod equipped;
mod evolving;
mod facts;
mod fixtures;
mod float_bits;
mod foreign_files;
mod forged;
mod functions;
mod fuzz;
mod golden;
mod grouping;
mod groups;
mod history;
mod labels;
mod layers;
mod literals;
mod logs;
mod memory;
mod mutation;
mod neutral;
mod ordering;
mod ours;
mod paths;
mod printed;
mod progress;
mod pruning;
mod random_arrays;
mod reader;
mod requests;
mod reruns;
mod rivals;
mod serial;
mod sessions;
mod settings;
mod shell;
mod shell_commands;
mod shell_places;
mod shell_reports;
mod slt;
mod stale_columns;
mod support_table;
#[cfg(unix)]
mod terminal;
mod texts;
mod time_in_from;
mod unfinished_files;
mod upstream;
mod values;
mod wide_grids;
mod workshop;
mod writers;
mod written;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use libtest_mimic::{Arguments, Failed, Trial};

/// The repository.
fn repository() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest
        .ancestors()
        .nth(2)
        .expect("a crate of the workspace")
}

/// The folder of this file.
fn here() -> PathBuf {
    repository().join("sql-tests")
}

/// Runs an asynchronous test on a runtime of its own.
fn block_on<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime starts")
        .block_on(test)
}

/// A test by name. `TRIAL_TIMES=<file>` adds a line to the file for each one that ran: the seconds, and its name.
fn trial(
    name: impl Into<String>,
    test: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> Trial {
    let name = name.into();
    if allocations::are_limited() {
        return Trial::test(name.clone(), move || {
            allocations::begin(&name);
            let outcome = test();
            allocations::end();
            allocations::under_limit(&name, outcome)
        });
    }
    let Some(times) = std::env::var_os("TRIAL_TIMES") else {
        return Trial::test(name, test);
    };
    Trial::test(name.clone(), move || {
        let begin = Instant::now();
        let outcome = test();
        let mut times = OpenOptions::new().create(true).append(true).open(times)?;
        writeln!(times, "{:.3} {name}", begin.elapsed().as_secs_f64())?;
        outcome
    })
}

fn main() {
    std::env::set_current_dir(repository()).expect("the repository is there");
    datafusion_tiledb::scan::claims::check_always();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(done) = fixtures::command(&arguments) {
        match done {
            Ok(done) => return println!("{done}"),
            Err(error) => {
                eprintln!("{error}");
                std::process::exit(1);
            }
        }
    }
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    trials.extend(golden::trials());
    trials.extend(slt::trials());
    trials.extend(aggregates::trials());
    trials.extend(allocations::trials());
    trials.extend(created::trials());
    trials.extend(anew::trials());
    trials.extend(bad_input::trials());
    trials.extend(broken_columns::trials());
    trials.extend(changed::trials());
    trials.extend(check::trials());
    trials.extend(consolidating::trials());
    trials.extend(copied::trials());
    trials.extend(crashes::trials());
    trials.extend(evolving::trials());
    trials.extend(differences::trials());
    trials.extend(encryption::trials());
    trials.extend(enumerated::trials());
    trials.extend(equipped::trials());
    trials.extend(facts::trials());
    trials.extend(fixtures::trials());
    trials.extend(float_bits::trials());
    trials.extend(foreign_files::trials());
    trials.extend(forged::trials());
    trials.extend(functions::trials());
    trials.extend(fuzz::trials());
    trials.extend(grouping::trials());
    trials.extend(groups::trials());
    trials.extend(history::trials());
    trials.extend(labels::trials());
    trials.extend(literals::trials());
    trials.extend(logs::trials());
    trials.extend(memory::trials());
    trials.extend(mutation::trials());
    trials.extend(ordering::trials());
    trials.extend(ours::trials());
    trials.extend(paths::trials());
    trials.extend(printed::trials());
    trials.extend(progress::trials());
    trials.extend(pruning::trials());
    trials.extend(reader::trials());
    trials.extend(requests::trials());
    trials.extend(reruns::trials());
    trials.extend(rivals::trials());
    trials.extend(serial::trials());
    trials.extend(settings::trials());
    trials.extend(shell::trials());
    trials.extend(shell_commands::trials());
    trials.extend(shell_places::trials());
    trials.extend(shell_reports::trials());
    trials.extend(stale_columns::trials());
    trials.extend(support_table::trials());
    #[cfg(unix)]
    trials.extend(terminal::trials());
    trials.extend(texts::trials());
    trials.extend(time_in_from::trials());
    trials.extend(unfinished_files::trials());
    trials.extend(upstream::trials());
    trials.extend(values::trials());
    trials.extend(wide_grids::trials());
    trials.extend(writers::trials());
    trials.extend(written::trials());
    trials.push(trial("layers::depend_downward_only", || {
        layers::check().map_err(Failed::from)
    }));
    trials.push(trial("layers::files_and_functions_are_short", || {
        layers::check_sizes().map_err(Failed::from)
    }));
    trials.push(trial("layers::tracked_files_fit", || {
        layers::check_tracked().map_err(Failed::from)
    }));
    trials.push(trial("layers::finds_tracked", || {
        layers::finds_tracked().map_err(Failed::from)
    }));
    trials.push(trial("layers::finds_sizes", || {
        layers::finds_sizes().map_err(Failed::from)
    }));
    trials.push(trial("layers::finds_paths", || {
        layers::finds_paths().map_err(Failed::from)
    }));
    trials.push(trial("layers::finds_circles", || {
        layers::finds_circles().map_err(Failed::from)
    }));
    if allocations::are_limited() {
        trials = allocations::limited(trials);
    }
    libtest_mimic::run(&arguments, trials).exit();
}
