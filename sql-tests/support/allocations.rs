//! What a query allocates, counted byte by byte: never more than its memory pool and 64 MB beside it.
//!
//! The allocator of these tests counts. In a process that is started with `TRIAL_MEMORY=<file>`, sessions get a pool of 64 MB, and no
//! trial, and no statement of an `.slt` file, may allocate more than twice that: what asks for more gets an error where memory is
//! asked for with care, and ends the process elsewhere. The file then tells the trial or the statement. Memory that was there before
//! it began, such as that of caches, does not count.

use std::alloc::System;
use std::process::Command;
use std::sync::Arc;

use cap::Cap;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool, UnboundedMemoryPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use libtest_mimic::{Failed, Trial};

use crate::support::turns;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// The memory pool of sessions while allocations are limited.
const POOL: usize = 64 << 20;
/// What may be allocated beside the pool.
const BESIDE: usize = 64 << 20;

const PROGRESS: &str = "TRIAL_MEMORY";

/// The trials that run under a limit, by the beginnings of their names: `.slt` files, golden arrays, and bad files.
const LIMITED: [&str; 6] = [
    "slt::",
    "golden::answers::",
    "golden::aggregates::",
    "hostile::bad_input::",
    "hostile::broken_columns::",
    "hostile::forged_sizes::",
];

/// Trials of these kinds that need more than the pool, and may say so instead of what they expect: rows of 4 KB that are sorted
/// late, and forged sizes of tiles.
const DO_NOT_FIT: [&str; 3] = [
    "slt::inserting",
    "hostile::forged_sizes::capacity",
    "hostile::forged_sizes::extents",
];

/// One of so many trials of these kinds runs under a limit, unless `GOLDEN=each` is set.
const ONE_OF: usize = 8;

/// The trials that a process with a limit runs.
pub fn limited(trials: Vec<Trial>) -> Vec<Trial> {
    let is_limited = |trial: &Trial| LIMITED.iter().any(|start| trial.name().starts_with(start));
    let limited = trials.into_iter().filter(is_limited);
    if turns::wants_each() {
        limited.collect()
    } else {
        limited.step_by(ONE_OF).collect()
    }
}

/// The outcome of a trial under a limit.
pub fn under_limit(name: &str, outcome: Result<(), Failed>) -> Result<(), Failed> {
    let does_not_fit = |failed: &Failed| {
        let message = failed.message().unwrap_or_default();
        DO_NOT_FIT.contains(&name) && message.contains("Resources exhausted")
    };
    match outcome {
        Err(failed) if does_not_fit(&failed) => Ok(()),
        outcome => outcome,
    }
}

trial!(stay_below_a_pool_and_64_mb);
fn stay_below_a_pool_and_64_mb() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let progress = folder.path().join("progress");
    let output = Command::new(std::env::current_exe()?)
        .args(["--test-threads", "1", "--format", "terse"])
        .env(PROGRESS, &progress)
        .env_remove("RUST_BACKTRACE")
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let last = std::fs::read_to_string(&progress).unwrap_or_default();
    Err(format!(
        "{} during or after: {last}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
    .into())
}

/// Whether this process limits what is allocated.
pub fn are_limited() -> bool {
    std::env::var_os(PROGRESS).is_some()
}

/// From now on, no more may be allocated than a pool and what is allowed beside it; `what` is about to run.
pub fn begin(what: &str) {
    if let Some(progress) = std::env::var_os(PROGRESS) {
        set_limit(usize::MAX);
        std::fs::write(progress, what).expect("the file can be written");
        set_limit(ALLOCATOR.allocated().saturating_add(POOL + BESIDE));
    }
}

/// Ends the limit: what tests make of answers does not count.
pub fn end() {
    set_limit(usize::MAX);
}

/// What sessions run with: a small pool where allocations are limited.
pub fn runtime() -> Arc<RuntimeEnv> {
    let runtime = runtime_builder().build_arc();
    runtime.expect("a runtime can be built")
}

/// A runtime to which a session adds more.
pub fn runtime_builder() -> RuntimeEnvBuilder {
    let pool: Arc<dyn MemoryPool> = if are_limited() {
        Arc::new(GreedyMemoryPool::new(POOL))
    } else {
        Arc::new(UnboundedMemoryPool::default())
    };
    RuntimeEnvBuilder::new().with_memory_pool(pool)
}

fn set_limit(bytes: usize) {
    ALLOCATOR
        .set_limit(bytes)
        .expect("the limit is not below what is there");
}
