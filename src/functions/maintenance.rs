//! The functions that care for arrays, `tiledb_consolidate` and `tiledb_vacuum`: what they do, the columns of their
//! reports, and the values of their options.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use futures::stream::BoxStream;
use tiledb_engine::maintain::consolidate::{ConsolidateMode, ConsolidateOptions, consolidate};
use tiledb_engine::maintain::report::ReportRow;
use tiledb_engine::maintain::vacuum::{VacuumMode, VacuumOptions, vacuum};
use tiledb_engine::{Error, Result};

use super::arguments::FunctionTarget;
use super::columns::{self, TEXT, optional, required};
use super::description::{
    DRY_RUN, DescribeArray, DescriptionRequest, DescriptionRows, OptionValues, once,
};
use crate::dml::progress::RunningMaintenance;
use crate::options::{byte_size, scaled};
use crate::stores::budget::PoolBudget;

/// The names of the functions.
pub(crate) const MAINTENANCE_FUNCTIONS: [&str; 2] = [
    <ConsolidateFunction as DescribeArray>::NAME,
    <VacuumFunction as DescribeArray>::NAME,
];

/// The columns of a report.
fn schema() -> SchemaRef {
    columns::schema(vec![
        required("mode", TEXT),
        required("action", TEXT),
        required("object", TEXT),
        required("inputs", DataType::UInt64),
        required("bytes_read", DataType::UInt64),
        optional("bytes_written", DataType::UInt64),
        required("bytes_freed", DataType::UInt64),
        required("gain", TEXT),
        required("outcome", TEXT),
    ])
}

/// The rows of a report.
fn rows(report: &[ReportRow]) -> DescriptionRows {
    let each = || report.iter();
    DescriptionRows {
        len: report.len(),
        columns: vec![
            columns::text(each().map(|row| row.mode)),
            columns::text(each().map(|row| row.action)),
            columns::text(each().map(|row| &row.object)),
            columns::u64s(each().map(|row| Some(row.inputs))),
            columns::u64s(each().map(|row| Some(row.bytes_read))),
            columns::u64s(each().map(|row| row.bytes_written)),
            columns::u64s(each().map(|row| Some(row.bytes_freed))),
            columns::text(each().map(|row| &row.gain)),
            columns::text(each().map(|row| row.outcome.to_string())),
        ],
    }
}

/// A switch that is on or off.
fn switch(option: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(expected(option, value, "'true' or 'false'")),
    }
}

/// A number.
fn number<T: std::str::FromStr>(option: &str, value: &str) -> Result<T> {
    let number = value.trim().parse();
    number.map_err(|_| expected(option, value, "a number"))
}

/// A number of bytes: `100000`, `64 MiB`.
fn bytes(option: &str, value: &str) -> Result<u64> {
    byte_size(value).ok_or_else(|| expected(option, value, "a number of bytes, as '64 MiB'"))
}

/// A length of time: `90` seconds, `2 hours`, `7 days`.
fn duration(option: &str, value: &str) -> Result<Duration> {
    let seconds = scaled(value, |unit| {
        Some(match unit.trim_end_matches('s') {
            "" | "second" => 1,
            "minute" => 60,
            "hour" => 3600,
            "day" => 24 * 3600,
            "week" => 7 * 24 * 3600,
            _ => return None,
        })
    })
    .ok_or_else(|| expected(option, value, "a length of time, as '7 days'"));
    seconds.map(Duration::from_secs)
}

fn expected(option: &str, value: &str, what: &str) -> Error {
    Error::invalid(format!(
        "the option '{option}' is '{value}', expected {what}"
    ))
}

/// The function.
///
/// `tiledb_consolidate('location', mode => 'fragments', …)`: several things become one, one row for each.
///
/// | Column | |
/// |---|---|
/// | `mode`, `action` | what was done with which kind of things |
/// | `object` | what came into being, relative to the array |
/// | `inputs` | the number of things that became one |
/// | `bytes_read`, `bytes_written` | the bytes of both sides; `bytes_written` is NULL in a dry run |
/// | `bytes_freed` | the bytes that a vacuum will remove |
/// | `gain` | what is better afterwards |
/// | `outcome` | `done`, `planned`, or `skipped` with the reason |
///
/// The change happens once each time the query runs, and never when the query is planned or explained. With `dry_run` the call
/// changes nothing. The options are those of [`ConsolidateOptions`].
pub(super) struct ConsolidateFunction;

const VERIFY: &str = "verify";
const PURGE_DELETED: &str = "purge_deleted";
const FILL_GAPS: &str = "fill_gaps";

impl DescribeArray for ConsolidateFunction {
    const NAME: &'static str = "tiledb_consolidate";
    const CHANGES: bool = true;
    const OPTIONS: &'static [&'static str] = &[DRY_RUN, VERIFY, PURGE_DELETED, FILL_GAPS];
    const VALUES: &'static [&'static str] = &[
        "mode",
        "timestamps",
        "fragments",
        "min_fragments",
        "max_fragments",
        "size_ratio",
        "max_bytes",
        "steps",
    ];

    fn check(values: &OptionValues) -> Result<()> {
        consolidation_options(values).map(|_| ())
    }

    fn schema() -> SchemaRef {
        schema()
    }

    fn rows(
        target: FunctionTarget,
        request: Arc<DescriptionRequest>,
    ) -> BoxStream<'static, Result<DescriptionRows>> {
        once(async move {
            let is_on = |option: &str| request.options.contains(&option);
            let mut options = consolidation_options(&request.values)?;
            options.dry_run = is_on(DRY_RUN);
            options.verify = is_on(VERIFY);
            options.purge_deleted = is_on(PURGE_DELETED);
            options.fills_gaps = is_on(FILL_GAPS);
            options.start = target.options.timestamp_start;
            options.end = target.options.timestamp_end;
            let budget = PoolBudget::named(
                Self::NAME,
                &target.runtime.memory_pool,
                target.storage.engine(),
            );
            options.budget = Arc::new(budget);
            request.show(RunningMaintenance::Consolidation(Arc::clone(
                &options.progress,
            )));
            let report = consolidate(target.storage, options).await?;
            Ok(rows(&report))
        })
    }
}

fn consolidation_options(values: &OptionValues) -> Result<ConsolidateOptions> {
    let mode = values
        .get("mode")
        .map_or(Ok(ConsolidateMode::Fragments), ConsolidateMode::of_name)?;
    let mut options = ConsolidateOptions::new(mode);
    if let Some(value) = values.get("timestamps") {
        options.timestamps = switch("timestamps", value)?;
    }
    if let Some(names) = values.get("fragments") {
        let names = names
            .split([',', ' ', '\n'])
            .filter(|name| !name.is_empty());
        options.fragments = names.map(str::to_owned).collect();
    }
    let grouping = &mut options.grouping;
    if let Some(value) = values.get("min_fragments") {
        grouping.min_fragments = number("min_fragments", value)?;
    }
    if let Some(value) = values.get("max_fragments") {
        grouping.max_fragments = number("max_fragments", value)?;
    }
    if let Some(value) = values.get("size_ratio") {
        grouping.size_ratio = number("size_ratio", value)?;
    }
    if let Some(value) = values.get("max_bytes") {
        grouping.max_bytes = bytes("max_bytes", value)?;
    }
    if let Some(value) = values.get("steps") {
        grouping.steps = number("steps", value)?;
    }
    options.check()?;
    Ok(options)
}

/// The function.
///
/// `tiledb_vacuum('location', mode => 'fragments', …)`: what nobody needs any longer is removed, one row for each file and
/// folder. The columns are those of [`ConsolidateFunction`].
///
/// With `dry_run` the rows are the same, and nothing is removed. `min_age` leaves alone anything that fell out of use more
/// recently, so that queries that began before can still read it: by default, fragments that were replaced less than 10 minutes
/// ago and leftovers of less than 7 days stay.
pub(super) struct VacuumFunction;

impl DescribeArray for VacuumFunction {
    const NAME: &'static str = "tiledb_vacuum";
    const CHANGES: bool = true;
    const OPTIONS: &'static [&'static str] = &[DRY_RUN];
    const VALUES: &'static [&'static str] = &["mode", "min_age"];

    fn check(values: &OptionValues) -> Result<()> {
        vacuum_options(values).map(|_| ())
    }

    fn schema() -> SchemaRef {
        schema()
    }

    fn rows(
        target: FunctionTarget,
        request: Arc<DescriptionRequest>,
    ) -> BoxStream<'static, Result<DescriptionRows>> {
        once(async move {
            let mut options = vacuum_options(&request.values)?;
            options.dry_run = request.options.contains(&DRY_RUN);
            request.show(RunningMaintenance::Vacuum(Arc::clone(&options.progress)));
            let report = vacuum(target.storage, options).await?;
            Ok(rows(&report))
        })
    }
}

fn vacuum_options(values: &OptionValues) -> Result<VacuumOptions> {
    let mode = values
        .get("mode")
        .map_or(Ok(VacuumMode::Fragments), VacuumMode::of_name)?;
    let mut options = VacuumOptions::new(mode);
    if let Some(value) = values.get("min_age") {
        options.min_age = duration("min_age", value)?;
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        assert_eq!(bytes("max_bytes", "64 MiB").unwrap(), 64 << 20);
        assert_eq!(bytes("max_bytes", "5kb").unwrap(), 5000);
        assert_eq!(bytes("max_bytes", "17").unwrap(), 17);
        assert_eq!(duration("min_age", "2 hours").unwrap().as_secs(), 7200);
        assert_eq!(duration("min_age", "1 day").unwrap().as_secs(), 86400);
        assert_eq!(duration("min_age", "0").unwrap().as_secs(), 0);
        for bad in ["", "x", "-1", "3 parsecs", "99999999999999999999"] {
            assert!(bytes("max_bytes", bad).is_err() && duration("min_age", bad).is_err());
        }
        assert!(switch("verify", "TRUE").unwrap() && switch("verify", "yes").is_err());
        assert!(number::<usize>("steps", "two").is_err());
    }
}
