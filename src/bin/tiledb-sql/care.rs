//! The tasks that change an array without changing what it says: `consolidate`, `vacuum`, and the repairs of `check`. Each is
//! one statement, so what it prints is printed as every result is, and Ctrl-C ends it as it ends a query.

use std::process::ExitCode;

use clap::Args;

use crate::check::{CheckArgs, CheckSummary};
use crate::run::{Flow, OnError, Shell};

/// Make several fragments, commits, footers or metadata files one; every reader sees what it saw before
#[derive(Debug, Args)]
pub struct ConsolidateArgs {
    /// The array or group, by path or URL
    #[arg(value_name = "PATH")]
    pub place: String,

    /// What becomes one: fragments, commits, fragment_metadata, array_metadata, or the alternatives in deletes
    #[arg(long, default_value = "fragments")]
    pub mode: String,

    /// Tell what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Compare all cells of a new fragment with those of its inputs before it replaces them
    #[arg(long)]
    pub verify: bool,

    /// Keep only the newest version of each cell, without the time at which it was written
    #[arg(long)]
    pub without_timestamps: bool,

    /// Drop deleted cells, with their history
    #[arg(long)]
    pub purge_deleted: bool,

    /// Write fill values where no dense fragment wrote cells, between their boxes
    #[arg(long)]
    pub fill_gaps: bool,

    /// Exactly these fragments, by name, separated by commas
    #[arg(long, value_name = "NAMES")]
    pub fragments: Option<String>,

    /// The least number of fragments that become one
    #[arg(long, value_name = "COUNT")]
    pub min_fragments: Option<String>,

    /// The largest number of fragments that become one
    #[arg(long, value_name = "COUNT")]
    pub max_fragments: Option<String>,

    /// How alike in size neighbours are that become one, from 0 to 1
    #[arg(long, value_name = "RATIO")]
    pub size_ratio: Option<String>,

    /// The most bytes that become one fragment, e.g. '64 MiB'
    #[arg(long, value_name = "SIZE")]
    pub max_bytes: Option<String>,

    /// The largest number of new fragments
    #[arg(long, value_name = "COUNT")]
    pub steps: Option<String>,

    /// Only what was written at this time or later
    #[arg(long, value_name = "TIME")]
    pub start: Option<String>,

    /// Only what was written until this time
    #[arg(long, value_name = "TIME")]
    pub end: Option<String>,
}

/// Remove what nobody needs any longer
#[derive(Debug, Args)]
pub struct VacuumArgs {
    /// The array or group, by path or URL
    #[arg(value_name = "PATH")]
    pub place: String,

    /// What is removed: fragments, commits, fragment_metadata, array_metadata or leftovers
    #[arg(long, default_value = "fragments")]
    pub mode: String,

    /// Tell what would be removed, and remove nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Only what has been of no use for so long, e.g. '2 hours' [default: leftovers 7 days, others 0]
    #[arg(long, value_name = "AGE")]
    pub min_age: Option<String>,
}

impl ConsolidateArgs {
    fn options(&self) -> Vec<(&'static str, String)> {
        let mut options = vec![("mode", self.mode.clone())];
        let switches = [
            ("dry_run", self.dry_run),
            ("verify", self.verify),
            ("purge_deleted", self.purge_deleted),
            ("fill_gaps", self.fill_gaps),
        ];
        let on = switches.into_iter().filter(|(_, on)| *on);
        options.extend(on.map(|(name, _)| (name, "true".to_owned())));
        if self.without_timestamps {
            options.push(("timestamps", "false".to_owned()));
        }
        let values = [
            ("fragments", &self.fragments),
            ("min_fragments", &self.min_fragments),
            ("max_fragments", &self.max_fragments),
            ("size_ratio", &self.size_ratio),
            ("max_bytes", &self.max_bytes),
            ("steps", &self.steps),
            ("timestamp_start", &self.start),
            ("timestamp_end", &self.end),
        ];
        let given = values.into_iter();
        options.extend(given.filter_map(|(name, value)| Some((name, value.clone()?))));
        options
    }
}

impl VacuumArgs {
    fn options(&self) -> Vec<(&'static str, String)> {
        let mut options = vec![("mode", self.mode.clone())];
        if self.dry_run {
            options.push(("dry_run", "true".to_owned()));
        }
        options.extend(self.min_age.clone().map(|age| ("min_age", age)));
        options
    }
}

impl Shell {
    /// Consolidates a place.
    pub async fn consolidate(&mut self, args: &ConsolidateArgs) -> ExitCode {
        self.care("tiledb_consolidate", &args.place, &args.options())
            .await
    }

    /// Vacuums a place.
    pub async fn vacuum(&mut self, args: &VacuumArgs) -> ExitCode {
        self.care("tiledb_vacuum", &args.place, &args.options())
            .await
    }

    /// Removes what interrupted writes have left, and rewrites deletes that libtiledb misreads.
    pub async fn repair(&mut self, args: &CheckArgs, found: &CheckSummary) -> ExitCode {
        let mut options = vec![("mode", "leftovers".to_owned())];
        options.extend(args.min_age.clone().map(|age| ("min_age", age)));
        let removed = self.care("tiledb_vacuum", &args.place, &options).await;
        if !found.misread_deletes || removed != ExitCode::SUCCESS {
            return removed;
        }
        let options = [("mode", "deletes".to_owned())];
        self.care("tiledb_consolidate", &args.place, &options).await
    }

    async fn care(
        &mut self,
        function: &str,
        place: &str,
        options: &[(&'static str, String)],
    ) -> ExitCode {
        let statement = statement(function, place, options);
        match self.lines(statement.as_bytes(), None, OnError::Stop).await {
            Flow::Stop(code) => code,
            Flow::GoOn | Flow::Quit | Flow::Interrupted => ExitCode::SUCCESS,
        }
    }
}

fn statement(function: &str, place: &str, options: &[(&'static str, String)]) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let options = options.iter();
    let options = options.map(|(name, value)| format!(", '{name}', {}", quoted(value)));
    let options = options.collect::<String>();
    format!("SELECT * FROM {function}({}{options});", quoted(place))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Task};

    #[test]
    fn tasks_are_statements() {
        let args = Args::parse_from([
            "tiledb-sql",
            "consolidate",
            "it's",
            "--verify",
            "--max-bytes",
            "64 MiB",
            "--without-timestamps",
        ]);
        let Some(Task::Consolidate(args)) = &args.task else {
            panic!("{args:?}")
        };
        assert_eq!(
            statement("tiledb_consolidate", &args.place, &args.options()),
            "SELECT * FROM tiledb_consolidate('it''s', 'mode', 'fragments', 'verify', 'true', 'timestamps', 'false', \
             'max_bytes', '64 MiB');"
        );
        let args = Args::parse_from([
            "tiledb-sql",
            "vacuum",
            "a",
            "--mode",
            "leftovers",
            "--dry-run",
        ]);
        let Some(Task::Vacuum(args)) = &args.task else {
            panic!("{args:?}")
        };
        assert_eq!(
            statement("tiledb_vacuum", &args.place, &args.options()),
            "SELECT * FROM tiledb_vacuum('a', 'mode', 'leftovers', 'dry_run', 'true');"
        );
    }
}
