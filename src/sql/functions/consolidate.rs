//! `tiledb_consolidate('location', mode => 'fragments', …)`: several things become one, one row for each.
//!
//! | Column | |
//! |---|---|
//! | `mode`, `action` | what was done with which kind of things |
//! | `object` | what came into being, relative to the array |
//! | `inputs` | the number of things that became one |
//! | `bytes_read`, `bytes_written` | the bytes of both sides; `bytes_written` is NULL in a dry run |
//! | `bytes_freed` | the bytes that a vacuum will remove |
//! | `gain` | what is better afterwards |
//! | `outcome` | `done`, `planned`, or `skipped` with the reason |
//!
//! The change happens when the query runs, each time it runs, and never when it is planned or explained. With `dry_run` it
//! does not happen at all. The options are those of
//! [`ConsolidateOptions`].

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use futures::stream::BoxStream;

use super::care;
use super::description::{Describe, Request, Rows, Values, once};
use super::target::Target;
use crate::error::Result;
use crate::maintain::consolidate::{ConsolidateOptions, Mode, consolidate};
use crate::sql::budget::PoolBudget;

/// The function.
pub(super) struct Consolidation;

const DRY_RUN: &str = "dry_run";
const VERIFY: &str = "verify";
const PURGE_DELETED: &str = "purge_deleted";
const FILL_GAPS: &str = "fill_gaps";

impl Describe for Consolidation {
    const NAME: &'static str = "tiledb_consolidate";
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

    fn check(values: &Values) -> Result<()> {
        options(values).map(|_| ())
    }

    fn schema() -> SchemaRef {
        care::schema()
    }

    fn rows(target: Target, request: Arc<Request>) -> BoxStream<'static, Result<Rows>> {
        once(async move {
            let is_on = |option: &str| request.options.contains(&option);
            let mut options = options(&request.values)?;
            options.dry_run = is_on(DRY_RUN);
            options.verify = is_on(VERIFY);
            options.purge_deleted = is_on(PURGE_DELETED);
            options.fills_gaps = is_on(FILL_GAPS);
            options.start = target.options.timestamp_start;
            options.end = target.options.timestamp_end;
            let budget = PoolBudget::named(Self::NAME, &target.runtime.memory_pool);
            options.budget = Arc::new(budget);
            let report = consolidate(target.storage, options).await?;
            Ok(care::rows(&report))
        })
    }
}

fn options(values: &Values) -> Result<ConsolidateOptions> {
    let mode = values
        .get("mode")
        .map_or(Ok(Mode::Fragments), Mode::of_name)?;
    let mut options = ConsolidateOptions::new(mode);
    if let Some(value) = values.get("timestamps") {
        options.timestamps = care::switch("timestamps", value)?;
    }
    if let Some(names) = values.get("fragments") {
        let names = names
            .split([',', ' ', '\n'])
            .filter(|name| !name.is_empty());
        options.fragments = names.map(str::to_owned).collect();
    }
    let grouping = &mut options.grouping;
    if let Some(value) = values.get("min_fragments") {
        grouping.min_fragments = care::number("min_fragments", value)?;
    }
    if let Some(value) = values.get("max_fragments") {
        grouping.max_fragments = care::number("max_fragments", value)?;
    }
    if let Some(value) = values.get("size_ratio") {
        grouping.size_ratio = care::number("size_ratio", value)?;
    }
    if let Some(value) = values.get("max_bytes") {
        grouping.max_bytes = care::bytes("max_bytes", value)?;
    }
    if let Some(value) = values.get("steps") {
        grouping.steps = care::number("steps", value)?;
    }
    options.check()?;
    Ok(options)
}
