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

mod changes;
mod fuzz;
mod golden;
mod hostile;
mod house;
mod sessions;
mod shell;
mod slt;
mod support;

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

/// The folder of the archives, with the scripts that make them and the answers of libtiledb.
fn data() -> PathBuf {
    repository().join("sql-tests").join("data")
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
    if support::allocations::are_limited() {
        return Trial::test(name.clone(), move || {
            support::allocations::begin(&name);
            let outcome = test();
            support::allocations::end();
            support::allocations::under_limit(&name, outcome)
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
    if let Some(done) = support::fixtures::command(&arguments) {
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
    trials.extend(support::golden::trials());
    trials.extend(slt::trials());
    trials.extend(golden::aggregates::trials());
    trials.extend(support::allocations::trials());
    trials.extend(changes::creation::trials());
    trials.extend(sessions::serialized_scans::trials());
    trials.extend(hostile::bad_input::trials());
    trials.extend(hostile::broken_columns::trials());
    trials.extend(changes::random_changes::trials());
    trials.extend(hostile::check::trials());
    trials.extend(changes::consolidation::trials());
    trials.extend(golden::copied_arrays::trials());
    trials.extend(changes::crashes::trials());
    trials.extend(changes::evolution_races::trials());
    trials.extend(golden::tiledb_diff::trials());
    trials.extend(hostile::encryption::trials());
    trials.extend(golden::enumerated_columns::trials());
    trials.extend(sessions::session_builders::trials());
    trials.extend(golden::table_functions::trials());
    trials.extend(support::fixtures::trials());
    trials.extend(changes::float_bits::trials());
    trials.extend(hostile::foreign_files::trials());
    trials.extend(hostile::forged_sizes::trials());
    trials.extend(sessions::functions::trials());
    trials.extend(fuzz::trials());
    trials.extend(golden::grouping::trials());
    trials.extend(golden::groups::trials());
    trials.extend(golden::system_columns::trials());
    trials.extend(golden::dimension_labels::trials());
    trials.extend(sessions::literals::trials());
    trials.extend(shell::logs::trials());
    trials.extend(sessions::memory::trials());
    trials.extend(hostile::mutation::trials());
    trials.extend(golden::ordering::trials());
    trials.extend(golden::own_arrays::trials());
    trials.extend(sessions::table_paths::trials());
    trials.extend(house::documentation::trials());
    trials.extend(sessions::progress::trials());
    trials.extend(golden::pruning::trials());
    trials.extend(golden::reader::trials());
    trials.extend(sessions::requests::trials());
    trials.extend(sessions::reruns::trials());
    trials.extend(changes::rivals::trials());
    trials.extend(changes::serial_order::trials());
    trials.extend(sessions::settings::trials());
    trials.extend(shell::program::trials());
    trials.extend(shell::commands::trials());
    trials.extend(shell::places::trials());
    trials.extend(shell::reports::trials());
    trials.extend(sessions::stale_columns::trials());
    trials.extend(house::support_table::trials());
    #[cfg(unix)]
    trials.extend(shell::terminal::trials());
    trials.extend(golden::text_conditions::trials());
    trials.extend(sessions::time_in_from::trials());
    trials.extend(hostile::unfinished_files::trials());
    trials.extend(sessions::upstream::trials());
    trials.extend(changes::stored_values::trials());
    trials.extend(changes::wide_grids::trials());
    trials.extend(changes::writers::trials());
    trials.extend(golden::byte_round_trips::trials());
    trials.push(trial("layers::depend_downward_only", || {
        house::layers::check().map_err(Failed::from)
    }));
    trials.push(trial("layers::files_and_functions_are_short", || {
        house::layers::check_sizes().map_err(Failed::from)
    }));
    trials.push(trial("layers::tracked_files_fit", || {
        house::layers::check_tracked().map_err(Failed::from)
    }));
    trials.push(trial("layers::finds_tracked", || {
        house::layers::finds_tracked().map_err(Failed::from)
    }));
    trials.push(trial("layers::finds_sizes", || {
        house::layers::finds_sizes().map_err(Failed::from)
    }));
    trials.push(trial("layers::finds_paths", || {
        house::layers::finds_paths().map_err(Failed::from)
    }));
    trials.push(trial("layers::finds_circles", || {
        house::layers::finds_circles().map_err(Failed::from)
    }));
    if support::allocations::are_limited() {
        trials = support::allocations::limited(trials);
    }
    libtest_mimic::run(&arguments, trials).exit();
}
