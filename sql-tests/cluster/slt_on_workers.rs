//! The `.slt` files in sessions with workers.

use std::path::Path;

use libtest_mimic::Failed;

use crate::sessions::slt_sessions::run_in_shape;
use crate::slt::{files, topic};
use crate::support::session_shapes::Shape;
use crate::support::trials::SqlTrial;
use crate::support::turns;
use crate::{block_on, trial};

trials!(on_workers());

fn on_workers() -> Vec<SqlTrial> {
    let files = files().into_iter().enumerate();
    let in_any_order = files.filter(|(_, file)| !IN_ORDER.contains(&topic(file).as_str()));
    let trials = in_any_order
        .map(|(number, file)| trial(topic(&file), move || block_on(run(&file, number))));
    trials.collect()
}

/// Topics whose files expect rows in the order in which one partition gives them.
const IN_ORDER: [&str; 1] = ["table_functions"];

/// The numbers of workers.
const WORKERS: [usize; 3] = [1, 2, 4];

/// Neighbours among the files take turns with the numbers of workers, unless `GOLDEN=each` is set.
async fn run(file: &Path, number: usize) -> Result<(), Failed> {
    for (turn, workers) in WORKERS.into_iter().enumerate() {
        if !turns::is_taken(number, turn, WORKERS.len()) {
            continue;
        }
        let shape = Shape::with_workers(workers);
        run_in_shape(file, shape).await?;
    }
    Ok(())
}
