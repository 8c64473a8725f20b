//! `tiledb-sql check`: the problems of an array or a group, printed as they are found, and the counts of the check.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use datafusion::error::Result;
use datafusion_tiledb::progress::RunningMaintenance;
use datafusion_tiledb::to_datafusion_error;
use datafusion_tiledb::{Array, Check, CheckOptions, Finding, TileDbSessionExt, TileDbTable};
use futures::TryStreamExt;
use tiledb_engine::maintain::check::Rule;

use crate::interrupt::{self, Interruptible};
use crate::progress::ShownProgress;
use crate::report;
use crate::shell::Shell;

/// Check all data of an array or a group, and list damage and leftovers
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The array or group, by path or URL
    #[arg(value_name = "PATH")]
    pub place: String,

    /// Check only names, commits, schemas and the metadata of fragments, not the cells
    #[arg(long)]
    pub metadata_only: bool,

    /// Report statistics that aren't exact, even if some version of libtiledb is known to store such
    #[arg(long)]
    pub exact_statistics: bool,

    /// Afterwards, remove leftovers of interrupted writes, rewrite conditions of deletes that libtiledb misreads, and print the
    /// changes
    #[arg(long)]
    pub repair: bool,

    /// Remove only leftovers of at least this age, e.g. '2 hours' [default: 7 days]
    #[arg(long, value_name = "AGE", requires = "repair")]
    pub min_age: Option<String>,
}

/// The summary of a check.
pub struct CheckSummary {
    errors: u64,
    /// Whether libtiledb misreads the condition of a delete.
    pub misread_deletes: bool,
}

impl Shell {
    /// Checks a place. The exit code is 1 if there are errors.
    pub async fn check(&mut self, args: &CheckArgs, quiet: bool) -> ExitCode {
        let running = Interruptible::begin();
        let checked = running.run(report::catch_panic(self.print_findings(args, quiet)));
        match checked.await {
            Some(Ok(found)) => {
                let repaired = if args.repair {
                    self.repair(args, &found).await
                } else {
                    ExitCode::SUCCESS
                };
                match found.errors {
                    0 => repaired,
                    _ => ExitCode::FAILURE,
                }
            }
            Some(Err(error)) => report::failure(&error, None),
            None => {
                report::print_interrupt();
                interrupt::exit_code()
            }
        }
    }

    /// Prints the findings.
    async fn print_findings(&self, args: &CheckArgs, quiet: bool) -> Result<CheckSummary> {
        let began = Instant::now();
        let options = CheckOptions::default()
            .with_metadata_only(args.metadata_only)
            .with_exact_statistics(args.exact_statistics)
            .with_budget(self.ctx.tiledb_budget("TileDbCheck"));
        let storage = TileDbTable::builder(&args.place)
            .session(&self.ctx)
            .storage()
            .map_err(to_datafusion_error)?;
        let mut check = Array::check(storage, options).map_err(to_datafusion_error)?;
        let mut showing = ShownProgress::begin(&self.watch, quiet);
        let maintenance = RunningMaintenance::Check(Arc::clone(check.progress()));
        self.watch.maintenance().begin(maintenance);
        let mut misread_deletes = false;
        while let Some(finding) = check.try_next().await.map_err(to_datafusion_error)? {
            misread_deletes |= finding.rule == Rule::DeleteNesting;
            showing.end();
            print(&block(&finding))?;
            showing.go_on();
        }
        drop(showing);
        if !quiet {
            print(&summary(&check, began))?;
        }
        Ok(CheckSummary {
            errors: check.progress().counts().errors,
            misread_deletes,
        })
    }
}

fn print(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}

/// A finding as a block of lines.
fn block(finding: &Finding) -> String {
    format!(
        "{} {}: {}\n  found:    {}\n  expected: {}\n  to do:    {}\n",
        finding.severity(),
        finding.rule,
        finding.object,
        finding.found,
        finding.expected,
        finding.advice()
    )
}

/// The counts of the check, and its result.
fn summary(check: &Check, began: Instant) -> String {
    let counts = check.progress().counts();
    format!(
        "{} fragments, {} tiles, {} cells checked, {} bytes read in {:.3} seconds: {} errors, {} warnings, {} leftovers.\n",
        counts.fragments,
        counts.tiles,
        counts.cells,
        check.bytes(),
        began.elapsed().as_secs_f64(),
        counts.errors,
        counts.warnings,
        counts.leftovers
    )
}
