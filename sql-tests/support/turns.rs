//! Tests of many ways take turns with the ways, so that each way is tried somewhere. `GOLDEN=each` tries each way everywhere.

use super::trials::SqlTrial;

/// Whether everything is tried in each way, on each golden array, and in each session.
pub fn wants_each() -> bool {
    std::env::var_os("GOLDEN").is_some_and(|which| which == "each")
}

/// Whether the test of this number takes the way of this number, where each test takes one way of `of`.
pub fn is_taken(test: usize, way: usize, of: usize) -> bool {
    wants_each() || (test + way).is_multiple_of(of)
}

/// Each test in one way: of the tests in each of `ways`, which are the same tests in the same order, one way has the first, the next
/// way the second, and so on in turns.
pub fn one_way_each(ways: Vec<Vec<SqlTrial>>) -> Vec<SqlTrial> {
    let of = ways.len();
    let ways = ways.into_iter().enumerate();
    let taken = ways.flat_map(|(way, tests)| {
        let tests = tests.into_iter().enumerate();
        tests.filter_map(move |(test, trial)| is_taken(test, way, of).then_some(trial))
    });
    taken.collect()
}

/// One test of `of`, beginning with that of index `first`.
pub fn one_of(of: usize, first: usize, trials: Vec<SqlTrial>) -> Vec<SqlTrial> {
    if wants_each() {
        return trials;
    }
    trials.into_iter().skip(first).step_by(of).collect()
}
