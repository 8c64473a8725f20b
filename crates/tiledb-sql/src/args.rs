//! The command line: datafusion-cli's flags with datafusion-cli's meanings.
//!
//! Files are not checked here but when they are read, so that a missing file is an ordinary failure
//! (exit status 1) with the operating system's reason, not a usage error (exit status 2).

use std::sync::LazyLock;

use clap::{Parser, Subcommand};
use datafusion_cli::object_storage::instrumented::InstrumentedObjectStoreMode;
use datafusion_cli::object_storage::is_stdin_location;
use datafusion_cli::pool_type::PoolType;
use datafusion_cli::print_options::MaxRows;
#[cfg(feature = "cluster")]
use datafusion_tiledb::cluster::worker_urls::WorkerUrls;
use datafusion_tiledb::options::cache_bytes;

use crate::check::CheckArgs;
use crate::maintain::{ConsolidateArgs, VacuumArgs};
use crate::printing::OutputFormat;
#[cfg(feature = "cluster")]
use crate::worker::{TrustArgs, WorkerArgs};

/// The text that `--version` prints after the name of the program.
pub static VERSION: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{} (DataFusion {}, Arrow {})",
        env!("CARGO_PKG_VERSION"),
        datafusion::DATAFUSION_VERSION,
        datafusion::arrow::ARROW_VERSION
    )
});

const EXAMPLES: &str = "\
Examples:
  Start a session with an array as a table, named after its folder (type help for more):
    tiledb-sql ./weather
    tiledb-sql s3://bucket/arrays/weather ./stations.parquet

  Query an array by its path or URL, which is a table name:
    tiledb-sql -c \"SELECT * FROM '/data/weather' WHERE station = 'Oslo' LIMIT 10\"
    tiledb-sql -c \"SELECT count(*) FROM 's3://bucket/arrays/weather'\"

  Query an array as of a time (ISO 8601, or milliseconds since 1970):
    tiledb-sql -c \"SELECT * FROM '/data/weather?timestamp=2024-05-01T00:00:00Z'\"

  Give it a name and options, then use the name:
    tiledb-sql -c \"CREATE EXTERNAL TABLE weather STORED AS TILEDB
                     LOCATION '/data/weather' OPTIONS ('tiledb.timestamp' '2024-05-01')\" \\
               -c \"DESCRIBE weather\" -c \"SELECT avg(temperature) FROM weather\"

  Join an array with a Parquet file:
    tiledb-sql -c \"SELECT s.country, max(w.temperature) FROM '/data/weather' w
                    JOIN 'stations.parquet' s ON s.station = w.station GROUP BY s.country\"

  Pass the key of an encrypted array without writing it into SQL:
    TILEDB_ENCRYPTION_KEY=$KEY tiledb-sql -c \"SELECT * FROM '/data/secret'\"
    tiledb-sql -c \"SELECT * FROM '/data/secret?encryption_key_file=/keys/secret'\"

  Write a result to a file, or pipe it to another program:
    tiledb-sql -c \"COPY (SELECT * FROM '/data/weather') TO 'weather.parquet'\"
    tiledb-sql -q --format csv -c \"SELECT * FROM '/data/weather'\" | head

  Show what a query will read, and what it has read:
    tiledb-sql -c \"EXPLAIN SELECT * FROM '/data/elevation' WHERE y < 10\"
    tiledb-sql -c \"EXPLAIN ANALYZE SELECT * FROM '/data/elevation' WHERE y < 10\"

  Run a script with at most 2 GB of memory:
    tiledb-sql -m 2g -f report.sql

  Check all data of an array, and list damage and leftovers:
    tiledb-sql check /data/weather

  Merge fragments, and remove those that were replaced more than a day ago:
    tiledb-sql consolidate /data/weather --dry-run
    tiledb-sql consolidate /data/weather --verify
    tiledb-sql vacuum /data/weather --min-age '1 day'

Exit status: 0 if every statement succeeded, 1 if one failed or check found errors, 2 if the command line is wrong,
130 after Ctrl-C. With -c and -f, the first failure ends the program; statements piped into stdin continue.";

/// SQL on TileDB arrays, and on Parquet, CSV, JSON, Avro and Arrow files beside them.
#[derive(Debug, Parser)]
#[command(name = "tiledb-sql", version = VERSION.as_str(), after_help = EXAMPLES)]
pub struct Args {
    /// What to do instead of running SQL
    #[command(subcommand)]
    pub task: Option<ProgramTask>,

    /// Arrays, groups and files to open as tables, by path or URL; they are named after their last part
    #[arg(value_name = "PATH")]
    pub places: Vec<String>,

    /// Folder that relative paths start from [default: the current folder]
    #[arg(short = 'p', long, value_name = "FOLDER")]
    pub data_path: Option<String>,

    /// Rows per batch [default: 16384]
    #[arg(short, long, value_name = "ROWS", value_parser = parse_batch_size)]
    pub batch_size: Option<usize>,

    /// Execute these statements, then exit (may be repeated)
    #[arg(short, long, value_name = "SQL", num_args = 1.., value_parser = parse_command)]
    pub command: Vec<String>,

    /// Limit the memory of queries, e.g. 512m or 10g [default: 75 % of what the machine or the container has]
    #[arg(short, long, value_name = "SIZE", value_parser = parse_size)]
    pub memory_limit: Option<usize>,

    /// Execute the statements of these files, then exit; - is stdin (may be repeated)
    #[arg(short, long, value_name = "FILE", num_args = 1..)]
    pub file: Vec<String>,

    /// Run these files before a session, instead of ~/.tiledbsqlrc or ~/.datafusionrc
    #[arg(short, long, value_name = "FILE", num_args = 0.., conflicts_with = "file")]
    pub rc: Option<Vec<String>>,

    /// How results are printed
    #[arg(long, value_enum, default_value_t = OutputFormat::Automatic)]
    pub format: OutputFormat,

    /// Print tables as one block for each row
    #[arg(short = 'x', long)]
    pub expanded: bool,

    /// Print results and errors only
    #[arg(short, long)]
    pub quiet: bool,

    /// How queries share limited memory: greedy or fair
    #[arg(long, value_name = "TYPE", default_value_t = PoolType::Greedy)]
    pub mem_pool_type: PoolType,

    /// How many of the largest memory consumers an out-of-memory error names
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    pub top_memory_consumers: usize,

    /// Rows shown by the table format; inf shows all
    #[arg(long, value_name = "ROWS", default_value = "40")]
    pub maxrows: MaxRows,

    /// Highlight the syntax of what is typed: auto (unless NO_COLOR is set), always or never
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto, num_args = 0..=1, default_missing_value = "always", require_equals = true)]
    pub color: ColorChoice,

    /// Refuse every statement that would write to an array, a group or a file
    #[arg(long)]
    pub readonly: bool,

    /// Set a variable for :NAME in statements (may be repeated)
    #[arg(short = 'v', long = "set", value_name = "NAME=VALUE", value_parser = parse_variable)]
    pub variables: Vec<(String, String)>,

    /// Limit the disk space of queries that spill, e.g. 10g [default: 100g]
    #[arg(short, long, value_name = "SIZE", value_parser = parse_size)]
    pub disk_limit: Option<usize>,

    /// Keep bytes of arrays in object stores in this folder, for later queries and sessions
    #[arg(long, value_name = "FOLDER")]
    pub cache_dir: Option<String>,

    /// Limit the disk space of --cache-dir, e.g. 50g [default: 10 GB]
    #[arg(long, value_name = "SIZE", value_parser = parse_cache_size)]
    pub cache_size: Option<String>,

    /// Run queries on these workers, by URLs with commas between them
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "URLS")]
    pub workers: Option<WorkerUrls>,

    /// How workers and coordinators know each other.
    #[cfg(feature = "cluster")]
    #[command(flatten)]
    pub trust: TrustArgs,

    /// Print the requests made to storage: disabled, summary or trace
    #[arg(long, value_name = "MODE", default_value_t = InstrumentedObjectStoreMode::Disabled)]
    pub object_store_profiling: InstrumentedObjectStoreMode,
}

/// When what is typed is highlighted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorChoice {
    Auto,
    Always,
    Never,
}

impl ColorChoice {
    /// Whether to highlight now.
    pub fn is_on(self) -> bool {
        match self {
            // https://no-color.org: any value but an empty one.
            Self::Auto => std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// What the program does besides running SQL.
#[derive(Debug, Subcommand)]
pub enum ProgramTask {
    /// Check all data of an array or a group, and list damage and leftovers
    Check(CheckArgs),

    /// Merge fragments, commits, footers or metadata files, without changing any result
    Consolidate(ConsolidateArgs),

    /// Remove files that were replaced or left over
    Vacuum(VacuumArgs),

    /// Run parts of queries for sessions with --workers, until Ctrl-C
    #[cfg(feature = "cluster")]
    Worker(WorkerArgs),
}

impl Args {
    /// Whether the statements come from stdin, typed or piped, because neither commands nor files were given.
    pub fn is_session(&self) -> bool {
        self.command.is_empty() && self.file.is_empty()
    }

    /// Whether stdin carries SQL, so that it can't be a table at the same time.
    pub fn reads_sql_from_stdin(&self) -> bool {
        self.is_session() || self.file.iter().any(|f| f == "-" || is_stdin_location(f))
    }
}

fn parse_batch_size(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected a whole number above 0".to_owned()),
        Ok(rows) => Ok(rows),
    }
}

fn parse_command(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("expected a statement, found nothing".to_owned());
    }
    Ok(text.to_owned())
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// A number of bytes with an optional unit: `100`, `64k`, `512MB`, `10g`, `1t`.
fn parse_size(text: &str) -> Result<usize, String> {
    let text = text.trim().to_lowercase();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: usize = match text.strip_prefix(digits).unwrap_or_default() {
        "" | "b" => 1,
        "k" | "kb" => 1 << 10,
        "m" | "mb" => 1 << 20,
        "g" | "gb" => 1 << 30,
        "t" | "tb" => 1usize.checked_shl(40).unwrap_or(usize::MAX),
        other => return Err(format!("unknown unit '{other}', expected b, k, m, g or t")),
    };
    let number: usize = digits.parse().map_err(|_| {
        "expected a whole number with an optional unit, as in 512m or 10g".to_owned()
    })?;
    number
        .checked_mul(unit)
        .ok_or_else(|| "larger than this machine can address".to_owned())
}

/// A size that `SET tiledb.cache_size` takes, too.
fn parse_cache_size(text: &str) -> Result<String, String> {
    match cache_bytes(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(why) => Err(format!("it {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("100"), Ok(100));
        assert_eq!(parse_size("64k"), Ok(65_536));
        assert_eq!(parse_size("512MB"), Ok(536_870_912));
        assert_eq!(parse_size("2g"), Ok(2_147_483_648));
        assert!(parse_size("").is_err());
        assert!(parse_size("-1g").is_err());
        assert!(parse_size("g").is_err());
        assert!(parse_size("5x").is_err());
        assert!(parse_size("99999999999t").is_err());
    }

    #[test]
    fn sizes_of_the_cache_are_checked() {
        for size in ["50g", "10 GB", "16 MiB"] {
            let args = Args::parse_from(["tiledb-sql", "--cache-dir", "x", "--cache-size", size]);
            assert_eq!(args.cache_size.as_deref(), Some(size));
        }
        for size in ["much", "0", "15m"] {
            let error = Args::try_parse_from(["tiledb-sql", "--cache-size", size]).unwrap_err();
            let error = error.to_string();
            assert!(error.contains(&format!("found '{size}'")), "{error}");
            assert!(error.contains("at least 16 MiB"), "{error}");
        }
    }

    #[test]
    fn commands_and_files_repeat() {
        let args = Args::parse_from([
            "tiledb-sql",
            "-c",
            "a",
            "b",
            "-c",
            "c",
            "--format",
            "nd-json",
        ]);
        assert_eq!(args.command, ["a", "b", "c"]);
        assert_eq!(args.format, OutputFormat::NdJson);
        assert!(!args.is_session());
        assert!(!args.reads_sql_from_stdin());
        assert!(Args::parse_from(["tiledb-sql", "-f", "-"]).reads_sql_from_stdin());
        assert!(Args::parse_from(["tiledb-sql"]).is_session());
        let args = Args::parse_from(["tiledb-sql", "./a", "s3://b/c", "-x"]);
        assert_eq!(args.places, ["./a", "s3://b/c"]);
        assert!(args.is_session() && args.expanded);
    }

    #[test]
    fn a_task_comes_instead_of_sql() {
        let args = Args::parse_from(["tiledb-sql", "-q", "check", "./a", "--metadata-only"]);
        let Some(ProgramTask::Check(check)) = &args.task else {
            panic!("{args:?}")
        };
        assert!(check.metadata_only && !check.exact_statistics && args.quiet);
        assert_eq!(check.place, "./a");
        let args = Args::parse_from(["tiledb-sql", "./check"]);
        assert!(args.task.is_none() && args.places == ["./check"]);
    }

    #[test]
    fn the_version_names_what_is_inside() {
        assert!(VERSION.contains("(DataFusion 55."), "{}", *VERSION);
    }
}
