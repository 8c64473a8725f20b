//! Tests that the time of an algorithm grows no faster than its input.

#![allow(clippy::panic, reason = "a test fails with a panic")]

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// How often each size is timed, at least and at most, before a test fails.
const TURNS: RangeInclusive<usize> = 3..=12;

/// Fails if the time that `work` takes grows by more than a factor of 2.5 for each doubling of the count. The count is doubled
/// three times, so that other work on the machine and its caches, which slow the larger size more, weigh little beside a
/// quadratic time.
pub fn grows_in_proportion<T>(count: usize, prepare: impl Fn(usize) -> T, work: impl FnMut(&T)) {
    grows_at_most([count, 8 * count], 2.5_f64.powi(3), prepare, work);
}

/// Fails if the time that `work` takes for the second count is more than `factor` times the time for the first. The fastest of
/// several turns counts. The time of `prepare` doesn't count.
pub fn grows_at_most<T>(
    counts: [usize; 2],
    factor: f64,
    prepare: impl Fn(usize) -> T,
    mut work: impl FnMut(&T),
) {
    let sizes = counts.map(prepare);
    let mut fastest = [Duration::MAX; 2];
    for turn in 1..=*TURNS.end() {
        for (size, fastest) in sizes.iter().zip(&mut fastest) {
            let begin = Instant::now();
            work(size);
            *fastest = begin.elapsed().min(*fastest);
        }
        if turn >= *TURNS.start() && fastest[1] <= fastest[0].mul_f64(factor) {
            return;
        }
    }
    panic!("the times for {counts:?} are {fastest:?}, and the most is a factor of {factor}");
}
