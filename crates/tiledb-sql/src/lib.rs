//! `tiledb-sql`: a SQL shell for TileDB arrays, beside Parquet, CSV, JSON and whatever else DataFusion reads.
//!
//! The flags are those of datafusion-cli, and so is the look of the results. Failures differ: a statement that fails prints one
//! message on stderr and sets a non-zero exit status, a reader that closes the pipe (`| head`) ends the shell quietly, and no
//! panic reaches the user.
//!
//! `args` is the command line, `session` composes DataFusion and the library into a `shell`, `run` goes through what the
//! command line gives, and `places` gives its paths names.
//! `script` cuts text into statements and commands, `input` runs them one after the other, `execute` runs the plan of a statement,
//! and `printing` prints rows. `watch`, `progress`, `interrupt` and `cooperation` work while a statement runs. `commands` and `describe` are the shell's
//! own commands, with `variables` and other `programs`; `check`, `maintain` and `worker` are its subcommands.
//! `repl` is the interactive loop with `editing`, `completion` and `resizing`, `stores` and `stdin` make object stores, and `report` turns errors
//! into sentences, with a `caret` under the place of a syntax error.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is what a shell does"
)]

mod args;
mod caret;
mod check;
mod commands;
mod completion;
mod cooperation;
mod describe;
mod editing;
mod execute;
mod formats;
mod input;
mod interrupt;
mod maintain;
mod names;
mod places;
mod pools;
mod printing;
mod programs;
mod progress;
mod repl;
mod report;
mod resizing;
mod run;
mod script;
mod session;
mod shell;
mod stdin;
mod stores;
mod text;
mod variables;
mod watch;
#[cfg(feature = "cluster")]
mod worker;

use std::ffi::OsString;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Parser;
use datafusion_tiledb::Engine;
use tokio::runtime;

pub use crate::report::describe;
pub use crate::session::{SessionOptions, open_session};
pub use crate::watch::{ProgressLine, StatementWatch};

use crate::args::Args;
use crate::shell::Shell;

/// An interrupted statement may still wait for something that never comes, such as input from a pipe. At the end it has this
/// much time to remove its files.
const FAREWELL: Duration = Duration::from_millis(300);

/// A slow disk has this much time to write the last bytes of the cache.
const LAST_WRITES: Duration = Duration::from_secs(10);

/// glibc doesn't adapt to larger blocks; among smaller ones, the largest decides.
const LARGE_BLOCK: usize = 31 << 20;

/// Runs the shell with the arguments of this process.
pub fn main() -> ExitCode {
    run_shell(std::env::args_os().collect())
}

/// Runs the shell with these arguments, the first of which is the name of the program, and returns its exit status. It must be the
/// only use of the process.
pub fn run_with_arguments(arguments: Vec<OsString>) -> u8 {
    let code = run_shell(arguments);
    let status = (0..=u8::MAX).find(|status| ExitCode::from(*status) == code);
    status.unwrap_or(1)
}

fn run_shell(arguments: Vec<OsString>) -> ExitCode {
    show_malloc_a_large_block();
    resizing::ignore();
    report::install_panic_hook();
    let log = env_logger::Target::Pipe(Box::new(report::MaskedLog));
    env_logger::Builder::from_default_env().target(log).init();
    let args = Args::parse_from(arguments);
    // The main thread has the stack that the system gives it.
    let shell = thread::Builder::new()
        .name("shell".to_owned())
        .stack_size(session::STACK_BYTES)
        .spawn(|| in_runtime(args));
    match shell.map(thread::JoinHandle::join) {
        Ok(Ok(code)) => code,
        // The panic hook has reported the panic.
        Ok(Err(_)) => ExitCode::FAILURE,
        Err(e) => no_threads(&e),
    }
}

fn no_threads(error: &std::io::Error) -> ExitCode {
    let error = report::message(format!("the system has no threads for the shell: {error}"));
    report::failure(&error, None)
}

fn in_runtime(args: Args) -> ExitCode {
    let runtime = runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(session::STACK_BYTES)
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(e) => return no_threads(&e),
    };
    let code = match runtime.block_on(report::catch_panic(run(args))) {
        Ok(code) => code,
        Err(error) => report::failure(&error, None),
    };
    runtime.shutdown_timeout(FAREWELL);
    code
}

/// Frees a large block, so that the allocator takes such blocks for usual from now on.
///
/// Until then, glibc returns even blocks of 128 KiB to the system, and gets them back page by page, each of which the system
/// clears: a quarter of the time of scans in small tiles. The block itself is never touched, so it costs nothing.
fn show_malloc_a_large_block() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(LARGE_BLOCK)));
}

async fn run(args: Args) -> datafusion::error::Result<ExitCode> {
    if let Some(folder) = &args.data_path {
        std::env::set_current_dir(folder).map_err(|e| {
            report::message(format!("cannot change to the data path '{folder}': {e}"))
        })?;
    }
    let mut shell = session::open(&args).await?;
    let code = shell.run(args).await;
    Shell::print_warnings();
    // Another shell can use the cache at once, and has the last bytes, too.
    let closing = Engine::shared();
    let _ = tokio::time::timeout(LAST_WRITES, closing.close_disk_cache()).await;
    // A program that reads the results has them all before the shell ends.
    std::mem::take(&mut shell.printing.output).close()?;
    Ok(code)
}
