//! What the shell says about itself: `help`, and the commands that `\?` lists.

use std::sync::Arc;

use datafusion::arrow::array::StringArray;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::Result;

/// A command as it is written, what may follow it, and what it does.
pub struct Described {
    pub name: &'static str,
    pub takes: &'static str,
    pub does: &'static str,
}

const fn described(name: &'static str, takes: &'static str, does: &'static str) -> Described {
    Described { name, takes, does }
}

/// The commands, in the order in which they are listed.
pub const COMMANDS: [Described; 13] = [
    described("\\d", "", "list tables"),
    described("\\d", "NAME", "describe a table"),
    described(
        "\\d",
        "PATH",
        "describe the array, group or file at a path or URL",
    ),
    described(
        "\\x",
        "[on|off]",
        "print one block for each row, or tables again",
    ),
    described(
        "\\pset",
        "format [FORMAT]",
        "show or set the format: csv, tsv, table, json, nd-json, markdown, automatic",
    ),
    described(
        "\\timing",
        "[on|off]",
        "tell how long statements take, or no more",
    ),
    described(
        "\\pager",
        "[on|off|COMMAND]",
        "show what does not fit the window in a pager, or no more",
    ),
    described(
        "\\quiet",
        "[on|off]",
        "print results and errors only, or more again",
    ),
    described("\\i", "FILE", "run the statements of a file"),
    described(
        "\\h",
        "[STATEMENT]",
        "list statements, or show the syntax of one",
    ),
    described(
        "\\object_store_profiling",
        "[disabled|summary|trace]",
        "show or set what is told of requests to storage",
    ),
    described("\\?", "", "list these commands"),
    described("\\q", "", "leave (so do quit, exit and Ctrl-D)"),
];

/// The commands as rows.
pub fn commands() -> Result<RecordBatch> {
    let names = COMMANDS.iter().map(Described::usage);
    let does = COMMANDS.iter().map(|command| command.does);
    Ok(RecordBatch::try_from_iter([
        (
            "Command",
            Arc::new(StringArray::from_iter_values(names)) as _,
        ),
        (
            "Description",
            Arc::new(StringArray::from_iter_values(does)) as _,
        ),
    ])?)
}

/// What `help` prints: how to query an array, then the commands.
pub fn text() -> String {
    let mut text = HOW_TO_QUERY.to_owned();
    let usages = COMMANDS.iter().map(|command| command.usage());
    let width = usages
        .map(|usage| usage.len())
        .filter(|width| *width < 24)
        .max();
    let width = width.unwrap_or_default();
    for command in &COMMANDS {
        let usage = command.usage();
        text.push_str(&format!("  {usage:width$}  {}\n", command.does));
    }
    text + KEYS
}

const HOW_TO_QUERY: &str = "\
An array is a table; its path or URL in quotes is its name. A statement ends with a semicolon.

  SELECT * FROM './weather' LIMIT 10;
  SELECT count(*) FROM 's3://bucket/weather?timestamp=2024-05-01';    as it was then
  CREATE EXTERNAL TABLE w STORED AS TILEDB LOCATION './weather';      under a name
  ATTACH './experiment' AS exp;                                       a group: SELECT * FROM exp.obs;
  SELECT * FROM './weather' w JOIN 'stations.parquet' s USING (station);
  SELECT * FROM tiledb_schema('./weather');                           also tiledb_fragments, tiledb_metadata, …
  COPY (SELECT * FROM './weather') TO 'weather.parquet';
  EXPLAIN SELECT * FROM './weather' WHERE station = 'Oslo';           what would be read

";

const KEYS: &str = "\nTab completes, Ctrl-C interrupts a statement, Ctrl-D leaves.\n";

impl Described {
    fn usage(&self) -> String {
        format!("{} {}", self.name, self.takes)
            .trim_end()
            .to_owned()
    }
}
