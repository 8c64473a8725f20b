//! What is each special way to an answer worth, on the queries it is for?
//!
//! ```text
//! python benches/arrays.py /data/bench climate ships genes calls    # once; needs tiledb==0.36.1, numpy, pyarrow
//! TILEDB_BENCH_DIR=/data/bench cargo bench --bench special_ways
//! TILEDB_BENCH_DIR=/data/bench cargo bench --bench special_ways -- enable_first_cells     # one setting
//! TILEDB_BENCH_DIR=/data/bench cargo bench --bench special_ways -- first_cells 1          # in one partition
//! ```
//!
//! Each setting of a session that switches a special way off has queries here. They run in turns with the way and
//! without it, all other ways being on. The factor is the time without the way divided by that with it, of the fastest
//! runs, and the factor of a setting is the geometric mean of those of its queries. Both sides must give the same
//! answer, or the benchmark fails.

#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark prints, and stops at the first surprise"
)]

mod common;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::{
    SortColumn, cast, concat_batches, lexsort_to_indices, take_record_batch,
};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::prelude::SessionContext;
use datafusion_tiledb::TileDbTable;
use datafusion_tiledb::options::settings::TileDbSettings;

use common::sql::{array_session, block_on, drain};

/// At least so many runs of each side,
const FEWEST_RUNS: usize = 7;
/// and more until so much time has passed, but no more than these.
const TIME: Duration = Duration::from_millis(2000);
const MOST_RUNS: usize = 40;
/// Sums of floats differ in their last digits, as the order of their terms differs.
const PRECISION: f64 = 1e-6;

/// A setting, its cases and their arrays, and the query.
type Case = (&'static str, &'static str, &'static str, &'static str);

const CASES: &[Case] = &[
    (
        "enable_metadata_aggregates",
        "aggregates of everything",
        "climate",
        "SELECT count(*), min(t), max(t), avg(t) FROM a",
    ),
    (
        "enable_metadata_aggregates",
        "aggregates of a box",
        "climate",
        "SELECT count(*), min(t), max(t), avg(t) FROM a WHERE lat BETWEEN 50 AND 300 AND lon BETWEEN 100 AND 500",
    ),
    (
        "enable_metadata_aggregates",
        "aggregates of sparse cells",
        "ships",
        "SELECT count(*), max(speed), sum(ship) FROM a",
    ),
    (
        "enable_enumerated_groups",
        "groups of an enumeration",
        "ships",
        "SELECT doing, count(*), avg(speed) FROM a GROUP BY doing",
    ),
    (
        "enable_enumerated_groups",
        "groups of an enumeration, dense",
        "climate",
        "SELECT ground, avg(t) FROM a GROUP BY ground",
    ),
    (
        "enable_first_cells",
        "last time, first cells of it",
        "climate",
        "SELECT time, lat, lon, t FROM a ORDER BY time DESC, lat, lon LIMIT 10",
    ),
    (
        "enable_first_cells",
        "first cells by another dimension",
        "climate",
        "SELECT time, lat, lon, t FROM a ORDER BY lon, time, lat LIMIT 10",
    ),
    (
        "enable_range_partitions",
        "groups of few rows",
        "ships",
        "SELECT time, count(*), avg(speed) FROM a GROUP BY time",
    ),
    (
        "enable_range_partitions",
        "groups in stored order",
        "calls",
        "SELECT pos, count(*), avg(quality) FROM a GROUP BY pos",
    ),
    (
        "enable_range_partitions",
        "window along each group",
        "calls",
        "SELECT max(d) FROM (SELECT quality - lag(quality) OVER (PARTITION BY pos ORDER BY sample) AS d FROM a)",
    ),
    (
        "enable_ordered_scans",
        "all rows as they are stored",
        "calls",
        "SELECT pos, sample, quality FROM a ORDER BY pos, sample",
    ),
    (
        "enable_ordered_scans",
        "first rows as they are stored",
        "calls",
        "SELECT pos, sample, quality FROM a ORDER BY pos, sample LIMIT 1000",
    ),
    (
        "enable_ordered_scans",
        "window over all rows",
        "calls",
        "SELECT max(d) FROM (SELECT pos - lag(pos) OVER (ORDER BY pos) AS d FROM a)",
    ),
    (
        "enable_ordered_scans",
        "all rows, tile rows put in order",
        "climate",
        "SELECT time, lat, lon, t FROM a ORDER BY time, lat, lon",
    ),
    (
        "enable_best_tiles_first",
        "last rows",
        "ships",
        "SELECT time, lon, lat, ship FROM a ORDER BY time DESC, lon, lat, ship LIMIT 10",
    ),
    (
        "enable_best_tiles_first",
        "largest values",
        "climate",
        "SELECT time, lat, lon, t FROM a ORDER BY t DESC, time, lat, lon LIMIT 10",
    ),
    (
        "enable_best_tiles_first",
        "largest of values that all tiles have",
        "ships",
        "SELECT time, lon, lat, speed FROM a ORDER BY speed DESC, time, lon, lat LIMIT 10",
    ),
    (
        "enable_run_groups",
        "groups that come in runs",
        "climate",
        "SELECT lat, avg(t) FROM a GROUP BY lat",
    ),
    (
        "enable_run_groups",
        "groups by numbers close together",
        "genes",
        "SELECT gene, count(*), sum(value) FROM a GROUP BY gene",
    ),
    (
        "enable_run_groups",
        "groups by codes",
        "ships",
        "SELECT doing, count(*), avg(speed) FROM a GROUP BY doing",
    ),
    (
        "enable_run_groups",
        "count of each code",
        "climate",
        "SELECT ground, count(*) FROM a GROUP BY ground",
    ),
    (
        "enable_elements_in_place",
        "condition on elements",
        "calls",
        "SELECT count(*), avg(quality) FROM a WHERE gt[1] = 1 AND gt[2] = 1",
    ),
    (
        "enable_elements_in_place",
        "sum of elements",
        "calls",
        "SELECT sum(gt[1] + gt[2]) FROM a",
    ),
    (
        "enable_text_search",
        "one name",
        "ships",
        "SELECT count(*), avg(speed) FROM a WHERE name = 'EVER GIVEN 1234'",
    ),
    (
        "enable_text_search",
        "beginning of names",
        "ships",
        "SELECT count(*), avg(speed) FROM a WHERE name LIKE 'GOLDEN DAWN 2%'",
    ),
    (
        "enable_text_search",
        "text under run lengths and a dictionary",
        "calls",
        "SELECT count(*), avg(quality) FROM a WHERE ref = 'A' AND alt = 'G'",
    ),
    (
        "enable_cell_search",
        "one column of a matrix",
        "genes",
        "SELECT count(*), avg(value), max(cell) FROM a WHERE gene = 77",
    ),
    (
        "enable_cell_search",
        "one cell of a matrix",
        "genes",
        "SELECT value FROM a WHERE cell = 54321 AND gene = 77",
    ),
    (
        "enable_cell_search",
        "a place at any time",
        "ships",
        "SELECT count(*), avg(speed) FROM a WHERE lon BETWEEN 4 AND 6 AND lat BETWEEN 50 AND 53",
    ),
];

fn main() -> ExitCode {
    let mut partitions = None;
    let mut chosen = Vec::new();
    for argument in std::env::args().skip(1).filter(|a| !a.starts_with('-')) {
        match argument.parse::<usize>() {
            Ok(number) => partitions = Some(number),
            Err(_) => chosen.push(argument),
        }
    }
    let Some(folder) = std::env::var_os("TILEDB_BENCH_DIR").map(PathBuf::from) else {
        println!(
            "special_ways: there are no arrays to measure; make them with `python benches/arrays.py FOLDER climate ships \
             genes calls` and set TILEDB_BENCH_DIR=FOLDER"
        );
        return ExitCode::SUCCESS;
    };
    let wanted = |setting: &str| {
        chosen.is_empty() || chosen.iter().any(|part| setting.contains(part.as_str()))
    };
    println!(
        "{:28} {:44} {:>10} {:>10} {:>8}",
        "setting", "query", "ms on", "ms off", "factor"
    );
    let mut same = true;
    for setting in TileDbSettings::NAMES.iter().filter(|name| wanted(name)) {
        let cases = CASES.iter().filter(|(of, ..)| of == setting);
        let mut logarithms = Vec::new();
        for (_, case, array, sql) in cases {
            let compared = compare(&folder.join(array), setting, sql, partitions);
            same &= compared.same;
            let (on, off) = (compared.on.as_secs_f64(), compared.off.as_secs_f64());
            logarithms.push((off / on).ln());
            println!(
                "{setting:28} {case:44} {:>10.3} {:>10.3} {:>8.2}{}",
                on * 1e3,
                off * 1e3,
                off / on,
                if compared.same {
                    ""
                } else {
                    "  THE ANSWERS DIFFER"
                }
            );
        }
        assert!(!logarithms.is_empty(), "there is no query for {setting}");
        let mean = (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp();
        println!("{setting:28} {:44} {:>10} {:>10} {mean:>8.2}", "", "", "");
    }
    if same {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// A query with a way and without it.
struct Compared {
    on: Duration,
    off: Duration,
    /// Whether the answers are the same.
    same: bool,
}

fn compare(array: &Path, setting: &str, sql: &str, partitions: Option<usize>) -> Compared {
    let session = |on: bool| {
        block_on(async {
            let ctx = array_session(TileDbTable::builder(array.display().to_string())).await;
            if let Some(partitions) = partitions {
                let set = format!("SET datafusion.execution.target_partitions = {partitions}");
                drain(&ctx, &set).await;
            }
            drain(&ctx, &format!("SET tiledb.{setting} = {on}")).await;
            ctx
        })
    };
    let (with, without) = (session(true), session(false));
    let same = same_answers(answer(&with, sql), answer(&without, sql), has_order(sql));
    let run = |ctx: &SessionContext| {
        let begin = Instant::now();
        block_on(drain(ctx, sql));
        begin.elapsed()
    };
    let (mut on, mut off) = (Duration::MAX, Duration::MAX);
    let begin = Instant::now();
    let measuring = std::env::args().any(|a| a == "--bench");
    for number in 0..MOST_RUNS {
        let enough = number >= FEWEST_RUNS && begin.elapsed() > TIME;
        if enough || (number > 0 && !measuring) {
            break;
        }
        // What runs first in a turn may find caches and clock rates otherwise than what runs next.
        if number % 2 == 0 {
            on = on.min(run(&with));
            off = off.min(run(&without));
        } else {
            off = off.min(run(&without));
            on = on.min(run(&with));
        }
    }
    Compared { on, off, same }
}

/// Whether a query settles the order of its rows: behind all parentheses, which belong to windows and subqueries.
fn has_order(sql: &str) -> bool {
    let end = sql.rsplit(')').next();
    end.is_some_and(|end| end.contains("ORDER BY"))
}

/// The rows of a query, with text for the codes of enumerations.
fn answer(ctx: &SessionContext, sql: &str) -> Vec<ArrayRef> {
    block_on(async {
        let frame = ctx.sql(sql).await.expect("SQL");
        let schema = frame.schema().inner().clone();
        let batches = frame.collect().await.expect("an answer");
        let rows = concat_batches(&schema, &batches).expect("batches of one schema");
        let columns = rows
            .columns()
            .iter()
            .map(|column| match column.data_type() {
                DataType::Dictionary(_, values) => cast(column, values).expect("values for codes"),
                DataType::Float32 => cast(column, &DataType::Float64).expect("wider floats"),
                _ => column.clone(),
            });
        columns.collect()
    })
}

/// Whether two answers have the same rows, in the same order if they have one.
fn same_answers(one: Vec<ArrayRef>, other: Vec<ArrayRef>, ordered: bool) -> bool {
    let [one, other] = [one, other].map(|columns| if ordered { columns } else { sorted(&columns) });
    let same = |(one, other): (&ArrayRef, &ArrayRef)| match one.data_type() {
        DataType::Float64 => {
            let (one, other) = (
                one.as_primitive::<Float64Type>(),
                other.as_primitive::<Float64Type>(),
            );
            let mut pairs = one.iter().zip(other);
            one.len() == other.len()
                && pairs.all(|pair| match pair {
                    (Some(a), Some(b)) => (a - b).abs() <= PRECISION * a.abs().max(b.abs()),
                    (a, b) => a.is_none() && b.is_none(),
                })
        }
        _ => one == other,
    };
    one.len() == other.len() && one.iter().zip(&other).all(same)
}

/// Rows by their columns, those first that are the same to the last digit.
fn sorted(columns: &[ArrayRef]) -> Vec<ArrayRef> {
    let named = columns
        .iter()
        .enumerate()
        .map(|(i, column)| (i.to_string(), column.clone()));
    let rows = RecordBatch::try_from_iter(named).expect("columns of one length");
    let mut by = columns.to_vec();
    by.sort_by_key(|column| column.data_type().is_floating());
    let by = by.into_iter().map(|values| SortColumn {
        values,
        options: None,
    });
    let indices = lexsort_to_indices(&by.collect::<Vec<_>>(), None).expect("columns to sort by");
    let rows = take_record_batch(&rows, &indices).expect("rows in order");
    rows.columns().to_vec()
}
