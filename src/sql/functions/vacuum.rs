//! `tiledb_vacuum('location', mode => 'fragments', …)`: what nobody needs any longer is removed, one row for each file and
//! folder. The columns are those of [`tiledb_consolidate`](super::consolidate).
//!
//! With `dry_run` the rows are the same, and nothing is removed. `min_age` leaves alone what has been of no use for a shorter
//! time, so that queries that began before are not disturbed.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use futures::stream::BoxStream;

use super::care;
use super::description::{Describe, Request, Rows, Values, once};
use super::target::Target;
use crate::error::Result;
use crate::maintain::vacuum::{VacuumMode, VacuumOptions, vacuum};

/// The function.
pub(super) struct Vacuum;

const DRY_RUN: &str = "dry_run";

impl Describe for Vacuum {
    const NAME: &'static str = "tiledb_vacuum";
    const OPTIONS: &'static [&'static str] = &[DRY_RUN];
    const VALUES: &'static [&'static str] = &["mode", "min_age"];

    fn check(values: &Values) -> Result<()> {
        options(values).map(|_| ())
    }

    fn schema() -> SchemaRef {
        care::schema()
    }

    fn rows(target: Target, request: Arc<Request>) -> BoxStream<'static, Result<Rows>> {
        once(async move {
            let mut options = options(&request.values)?;
            options.dry_run = request.options.contains(&DRY_RUN);
            let report = vacuum(target.storage, options).await?;
            Ok(care::rows(&report))
        })
    }
}

fn options(values: &Values) -> Result<VacuumOptions> {
    let mode = values.get("mode");
    let mode = mode.map_or(Ok(VacuumMode::Fragments), VacuumMode::of_name)?;
    let mut options = VacuumOptions::new(mode);
    if let Some(value) = values.get("min_age") {
        options.min_age = care::duration("min_age", value)?;
    }
    Ok(options)
}
