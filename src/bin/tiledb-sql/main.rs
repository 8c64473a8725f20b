//! `tiledb-sql`: a SQL shell for TileDB arrays, beside Parquet, CSV, JSON and whatever else DataFusion reads.
//!
//! The flags are those of datafusion-cli, and so is the look of the results. What differs is how failure
//! is told: a statement that fails is one message on stderr and a non-zero exit status, a reader that
//! closes the pipe (`| head`) ends the shell quietly, and no panic reaches the user.
//!
//! `args` is the command line, `session` composes DataFusion and the library, `script` cuts text into
//! statements, `run` executes them, `repl` is the interactive loop and `editing` what its editor asks, `report` turns errors into sentences.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is what a shell does"
)]

mod args;
mod editing;
mod repl;
mod report;
mod run;
mod script;
mod session;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Args;
use crate::run::Shell;

/// Larger blocks never count as coming and going; of those below, the largest decides.
const LARGE_BLOCK: usize = 31 << 20;

#[tokio::main]
async fn main() -> ExitCode {
    show_malloc_a_large_block();
    report::install_panic_hook();
    env_logger::init();
    let args = Args::parse();
    match report::catch_panic(run(args)).await {
        Ok(code) => code,
        Err(error) => report::failure(&error, None),
    }
}

/// Has the allocator see a large block freed, which it then takes for the usual thing.
///
/// Until it has, glibc returns even blocks of 128 KiB to the system, and gets them back page by page, each of which the
/// system clears: a quarter of the time of scans in small tiles. The block itself is never touched, so it costs nothing.
fn show_malloc_a_large_block() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(LARGE_BLOCK)));
}

async fn run(args: Args) -> datafusion::error::Result<ExitCode> {
    if let Some(folder) = &args.data_path {
        std::env::set_current_dir(folder).map_err(|e| {
            report::message(format!("cannot change to the data path '{folder}': {e}"))
        })?;
    }
    let mut shell = Shell::new(session::open(&args).await?);
    Ok(shell.run(args).await)
}
