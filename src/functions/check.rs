//! `tiledb_check('location')`: what is wrong with an array or a group, and what is left over in it, one row per finding.
//!
//! | Column | |
//! |---|---|
//! | `severity` | `error`, `warning` or `leftover` |
//! | `rule` | the short name of the [rule](tiledb_engine::maintain::check::Rule) that is broken |
//! | `object` | the URI of the file or folder, then the field and the tile |
//! | `found`, `expected` | what was found there, and what was expected |
//! | `advice` | what to do |
//!
//! Everything is read, all cells included, unless `'metadata_only', 'true'` is given; with `'exact_statistics', 'true'`
//! statistics must be the true ones, also where some version of libtiledb stores others. Rows come as they are found.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use tiledb_engine::Result;
use tiledb_engine::maintain::check::{CheckOptions, Finding, check};

use super::arguments::FunctionTarget;
use super::columns::{self, TEXT, required};
use super::description::{DescribeArray, DescriptionRequest, DescriptionRows};
use crate::dml::progress::RunningMaintenance;
use crate::stores::budget::PoolBudget;

/// The function.
pub(super) struct CheckFunction;

const METADATA_ONLY: &str = "metadata_only";
const EXACT_STATISTICS: &str = "exact_statistics";

impl DescribeArray for CheckFunction {
    const NAME: &'static str = "tiledb_check";
    const OPTIONS: &'static [&'static str] = &[METADATA_ONLY, EXACT_STATISTICS];

    fn schema() -> SchemaRef {
        columns::schema(vec![
            required("severity", TEXT),
            required("rule", TEXT),
            required("object", TEXT),
            required("found", TEXT),
            required("expected", TEXT),
            required("advice", TEXT),
        ])
    }

    fn rows(
        target: FunctionTarget,
        request: Arc<DescriptionRequest>,
    ) -> BoxStream<'static, Result<DescriptionRows>> {
        let budget = PoolBudget::named(
            Self::NAME,
            &target.runtime.memory_pool,
            target.storage.engine(),
        );
        let is_on = |option: &str| request.options.contains(&option);
        let options = CheckOptions::default()
            .with_metadata_only(is_on(METADATA_ONLY))
            .with_exact_statistics(is_on(EXACT_STATISTICS))
            .with_budget(Arc::new(budget));
        // Everything that was found by the time of a poll is a batch.
        let check = check(target.storage, options);
        request.show(RunningMaintenance::Check(Arc::clone(check.progress())));
        let found = check.try_ready_chunks(request.batch_size);
        found
            .map_err(|e| e.1)
            .map_ok(|findings| rows(&findings))
            .boxed()
    }
}

fn rows(findings: &[Finding]) -> DescriptionRows {
    let each = || findings.iter();
    DescriptionRows {
        len: findings.len(),
        columns: vec![
            columns::text(each().map(|f| f.severity().name())),
            columns::text(each().map(|f| f.rule.name())),
            columns::text(each().map(|f| &f.object)),
            columns::text(each().map(|f| &f.found)),
            columns::text(each().map(|f| &f.expected)),
            columns::text(each().map(Finding::advice)),
        ],
    }
}
