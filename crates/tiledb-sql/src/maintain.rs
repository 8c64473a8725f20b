//! The tasks that reorganize an array without changing its rows: `consolidate`, `vacuum`, and the repairs of `check`. Each is
//! one statement, so its result is printed like the result of a query, and Ctrl-C ends it like a query.

use std::process::ExitCode;

use clap::Args;

use crate::check::{CheckArgs, CheckSummary};
use crate::shell::{OnError, Shell, ShellFlow};

/// Merge fragments, commits, footers or metadata files, without changing any result
#[derive(Debug, Args)]
pub struct ConsolidateArgs {
    /// The array or group, by path or URL
    #[arg(value_name = "PATH")]
    pub place: String,

    /// What to merge: fragments, commits, fragment_metadata or array_metadata; or deletes, to rewrite conditions that libtiledb misreads
    #[arg(long, default_value = "fragments")]
    pub mode: String,

    /// Print the plan without running it
    #[arg(long)]
    pub dry_run: bool,

    /// Compare all cells of each new fragment with those of its inputs before it replaces them
    #[arg(long)]
    pub verify: bool,

    /// Keep only the newest version of each cell, without the time of its write
    #[arg(long)]
    pub without_timestamps: bool,

    /// Drop deleted cells, with their history
    #[arg(long)]
    pub purge_deleted: bool,

    /// Merge dense fragments with unwritten cells between their boxes, which become fill values
    #[arg(long)]
    pub fill_gaps: bool,

    /// Merge exactly these fragments: their names, separated by commas
    #[arg(long, value_name = "NAMES")]
    pub fragments: Option<String>,

    /// Fewest fragments that are merged into one
    #[arg(long, value_name = "COUNT")]
    pub min_fragments: Option<String>,

    /// Most fragments that are merged into one
    #[arg(long, value_name = "COUNT")]
    pub max_fragments: Option<String>,

    /// Merge neighbours only if the smaller has at least this share of the larger one's size, from 0 to 1
    #[arg(long, value_name = "RATIO")]
    pub size_ratio: Option<String>,

    /// Most bytes that are merged into one fragment, e.g. '64 MiB'
    #[arg(long, value_name = "SIZE")]
    pub max_bytes: Option<String>,

    /// Most new fragments
    #[arg(long, value_name = "COUNT")]
    pub steps: Option<String>,

    /// Merge only what was written at this time or later
    #[arg(long, value_name = "TIME")]
    pub start: Option<String>,

    /// Merge only what was written up to this time
    #[arg(long, value_name = "TIME")]
    pub end: Option<String>,
}

/// Remove files that were replaced or left over
#[derive(Debug, Args)]
pub struct VacuumArgs {
    /// The array or group, by path or URL
    #[arg(value_name = "PATH")]
    pub place: String,

    /// What to remove: replaced fragments, commits, fragment_metadata, array_metadata or leftovers
    #[arg(long, default_value = "fragments")]
    pub mode: String,

    /// List what would be removed, without removing it
    #[arg(long)]
    pub dry_run: bool,

    /// Remove only what has been unused for this long, e.g. '2 hours' [default: fragments 10 minutes, leftovers 7 days, others 0]
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
    /// Consolidates an array or a group.
    pub async fn consolidate(&mut self, args: &ConsolidateArgs) -> ExitCode {
        self.maintain("tiledb_consolidate", &args.place, &args.options())
            .await
    }

    /// Vacuums an array or a group.
    pub async fn vacuum(&mut self, args: &VacuumArgs) -> ExitCode {
        self.maintain("tiledb_vacuum", &args.place, &args.options())
            .await
    }

    /// Removes the leftovers of interrupted writes, and rewrites deletes that libtiledb misreads.
    pub async fn repair(&mut self, args: &CheckArgs, found: &CheckSummary) -> ExitCode {
        let mut options = vec![("mode", "leftovers".to_owned())];
        options.extend(args.min_age.clone().map(|age| ("min_age", age)));
        let removed = self.maintain("tiledb_vacuum", &args.place, &options).await;
        if !found.misread_deletes || removed != ExitCode::SUCCESS {
            return removed;
        }
        let options = [("mode", "deletes".to_owned())];
        self.maintain("tiledb_consolidate", &args.place, &options)
            .await
    }

    async fn maintain(
        &mut self,
        function: &str,
        place: &str,
        options: &[(&'static str, String)],
    ) -> ExitCode {
        let statement = statement(function, place, options);
        match self.lines(statement.as_bytes(), None, OnError::Stop).await {
            ShellFlow::Stop(code) => code,
            ShellFlow::GoOn | ShellFlow::Quit | ShellFlow::Interrupted => ExitCode::SUCCESS,
        }
    }
}

fn statement(function: &str, place: &str, options: &[(&'static str, String)]) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let options = options
        .iter()
        .map(|(name, value)| format!(", '{name}', {}", quoted(value)))
        .collect::<String>();
    format!("SELECT * FROM {function}({}{options});", quoted(place))
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    fn parsed<T: Args>(arguments: &[&str]) -> T {
        let command = T::augment_args(Command::new("task").no_binary_name(true));
        T::from_arg_matches(&command.get_matches_from(arguments)).unwrap()
    }

    #[test]
    fn tasks_are_statements() {
        let args: ConsolidateArgs = parsed(&[
            "it's",
            "--verify",
            "--max-bytes",
            "64 MiB",
            "--without-timestamps",
        ]);
        assert_eq!(
            statement("tiledb_consolidate", &args.place, &args.options()),
            "SELECT * FROM tiledb_consolidate('it''s', 'mode', 'fragments', 'verify', 'true', 'timestamps', 'false', \
             'max_bytes', '64 MiB');"
        );
        let args: VacuumArgs = parsed(&["a", "--mode", "leftovers", "--dry-run"]);
        assert_eq!(
            statement("tiledb_vacuum", &args.place, &args.options()),
            "SELECT * FROM tiledb_vacuum('a', 'mode', 'leftovers', 'dry_run', 'true');"
        );
    }
}
