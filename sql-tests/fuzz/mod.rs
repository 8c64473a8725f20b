//! A fuzzer of SQL: random statements over arrays of all kinds must give what the same statements give over the same rows
//! in plain DataFusion.
//!
//! Everything follows from a seed. `fuzz::fixed_seed` always runs the same cases, `fuzz::fresh_seed` others every day; each
//! for [`SECONDS`] unless the environment asks for more (see CONTRIBUTING.md). A case that fails is made small and printed.
//!
//! [`case`] puts a case together from [`arrays`], [`generate`] and [`session`]; [`run`] runs it; [`judge`] compares it with
//! what is expected; [`report`] makes a failure small, by the cuts of [`shrink`]; [`campaign`] does all that many times.

mod arrays;
mod ast;
mod campaign;
mod case;
mod columns;
mod compare;
mod determined;
mod faulty;
mod features;
mod forget;
mod generate;
mod judge;
mod print;
mod report;
mod run;
mod session;
mod shrink;
mod walk;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use libtest_mimic::Failed;

use self::campaign::Campaign;

/// How long a trial runs if nothing else is asked for.
const SECONDS: u64 = 6;
const FIXED_SEED: u64 = 20_261_122;

trial!(fixed_seed);
fn fixed_seed() -> Result<(), Failed> {
    run(number("SEED").unwrap_or(FIXED_SEED), 0)
}

trial!(on_workers);
/// The statements run on two workers, as far as they can.
fn on_workers() -> Result<(), Failed> {
    run(number("SEED").unwrap_or(FIXED_SEED), 2)
}

trial!(fresh_seed);
fn fresh_seed() -> Result<(), Failed> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    run(now.map_or(0, |now| now.as_secs()), 0)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(format!("TILEDB_FUZZ_{name}"))
        .ok()?
        .parse()
        .ok()
}

fn run(seed: u64, workers: u64) -> Result<(), Failed> {
    let only = std::env::var("TILEDB_FUZZ_ONLY").ok();
    let only = only.and_then(|only| {
        let (seed, number) = only.split_once(':')?;
        Some((seed.parse().ok()?, number.parse().ok()?))
    });
    let campaign = match (only, number("STATEMENTS")) {
        (Some((seed, number)), _) => Campaign::one(seed, number),
        (None, Some(statements)) => Campaign::of(seed, statements),
        (None, None) => Campaign::lasting(seed, Duration::from_secs(SECONDS)),
    };
    let campaign = campaign.on_workers(number("WORKERS").unwrap_or(workers));
    let campaign = match number("FAILURES") {
        Some(failures) => campaign.until_failures(failures),
        None => campaign,
    };
    Ok(campaign.run()?)
}
