//! The `.slt` files in sessions of other shapes: the answers are the same.

use std::path::Path;
use std::sync::Arc;

use libtest_mimic::Failed;
use sqllogictest::{DefaultColumnType, Record};

use crate::slt::places::SltPlaces;
use crate::slt::{files, runner_in, topic};
use crate::support::session_shapes::{SHAPES, Shape};
use crate::support::trials::SqlTrial;
use crate::support::turns;
use crate::{block_on, trial};

trials!(other_sessions());

fn other_sessions() -> Vec<SqlTrial> {
    let files = files().into_iter().enumerate();
    let in_any_order = files.filter(|(_, file)| !IN_ORDER.contains(&topic(file).as_str()));
    let trials = in_any_order
        .map(|(number, file)| trial(topic(&file), move || block_on(run_otherwise(&file, number))));
    trials.collect()
}

/// Topics whose files expect rows in the order in which one partition gives them.
const IN_ORDER: [&str; 1] = ["table_functions"];

/// Topics whose statements need tables that are arrays themselves, and not wrapped.
const OF_ARRAYS: [&str; 11] = [
    "changing",
    "char_fill",
    "copying",
    "empty_subqueries",
    "evolution",
    "fixed_text",
    "inserting",
    "literals",
    "maintaining",
    "metadata_and_groups",
    "time_travel",
];

/// Topics that join large arrays, or unite them, which takes minutes a few rows at a time.
const NOT_ROW_BY_ROW: [&str; 2] = ["guards", "run_time_filters"];

/// Expects the same answers in sessions of other shapes. Plans and settings differ there, and are left out. Neighbours among the files take
/// turns with the shapes that suit them, unless `GOLDEN=each` is set.
async fn run_otherwise(file: &Path, number: usize) -> Result<(), Failed> {
    let topic = topic(file);
    let needs_arrays = OF_ARRAYS.contains(&topic.as_str());
    let takes_many_rows = NOT_ROW_BY_ROW.contains(&topic.as_str());
    let shapes = SHAPES.into_iter().filter(|shape| {
        !(needs_arrays && shape.wraps_tables() || takes_many_rows && shape.batch_size < 10)
    });
    let shapes = shapes.collect::<Vec<_>>();
    for (turn, shape) in shapes.iter().enumerate() {
        if turns::is_taken(number, turn, shapes.len()) {
            run_in_shape(file, *shape).await?;
        }
    }
    Ok(())
}

/// Runs a file in a session of a shape, without what shows plans and settings.
pub async fn run_in_shape(file: &Path, shape: Shape) -> Result<(), Failed> {
    let left_out = |sql: &str| {
        let first = sql.split_whitespace().next().unwrap_or_default();
        ["EXPLAIN", "SHOW", "SET", "RESET"].contains(&first.to_ascii_uppercase().as_str())
    };
    let places = Arc::new(SltPlaces::local()?);
    let mut runner = runner_in(&places, shape);
    for record in sqllogictest::parse_file::<DefaultColumnType>(file)? {
        if let Record::Query { sql, .. } | Record::Statement { sql, .. } = &record
            && left_out(sql)
        {
            continue;
        }
        let outcome = runner.run_async(record).await;
        outcome.map_err(|e| format!("{}: {}", shape.name, e.display(false)))?;
    }
    Ok(())
}
