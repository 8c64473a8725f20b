//! The tests of the whole: they run statements, the library and the shell on arrays.
//!
//! The name of a test is the path of its module, and its own name: `changes::crashes::…` is in `changes/crashes/`.
//! `cargo test --test sql-tests -- <part of a name>` picks some. The line `trial!(name);` makes a function a test
//! ([`support::trials`]). Each folder says in its `mod.rs` what belongs there.

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

#[macro_use]
mod support;

mod changes;
mod clouds;
mod cluster;
mod fuzz;
mod golden;
mod hostile;
mod house;
mod sessions;
mod shell;
mod slt;

use std::path::{Path, PathBuf};

use libtest_mimic::Arguments;

use self::support::trials::trial;
use self::support::{allocations, fixtures, trials};

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

/// Tests that run at the same time: three for two processors, because some of them wait for servers or terminals.
fn threads() -> Option<usize> {
    let processors = std::thread::available_parallelism().ok()?.get();
    Some(processors + processors.div_ceil(2))
}

fn main() {
    std::env::set_current_dir(repository()).expect("the repository is there");
    datafusion_tiledb::scan::claims::check_always();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = fixtures::command(&words).or_else(|| slt::places::command(&words));
    if let Some(done) = done {
        match done {
            Ok(done) => return println!("{done}"),
            Err(error) => {
                eprintln!("{error}");
                std::process::exit(1);
            }
        }
    }
    let arguments = Arguments::from_args();
    let arguments = Arguments {
        test_threads: arguments.test_threads.or_else(threads),
        ..arguments
    };
    let mut trials = trials::all();
    if allocations::are_limited() {
        trials = allocations::limited(trials);
    }
    libtest_mimic::run(&arguments, trials).exit();
}
