//! The texts of `\?` and `help`.

/// A command as the user types it, its argument, and its effect.
pub struct CommandHelp {
    pub name: &'static str,
    takes: &'static str,
    does: &'static str,
}

const fn described(name: &'static str, takes: &'static str, does: &'static str) -> CommandHelp {
    CommandHelp { name, takes, does }
}

/// The commands, in the order in which they are listed.
pub const COMMANDS: [CommandHelp; 24] = [
    described("\\d", "", "list arrays and tables"),
    described("\\d", "NAME", "describe a table or an attached group"),
    described(
        "\\d",
        "PATH",
        "describe the array, group or file at a path or URL",
    ),
    described(
        "\\h",
        "[STATEMENT]",
        "list statements, or show the syntax of one",
    ),
    described(
        "\\x",
        "[on|off]",
        "turn the display of each row as a block on or off",
    ),
    described(
        "\\maxrows",
        "[ROWS|inf]",
        "show or set the number of rows that a table shows",
    ),
    described(
        "\\width",
        "[auto|off|COLUMNS]",
        "show or set the width to which tables are cut",
    ),
    described(
        "\\types",
        "[on|off]",
        "turn types below the names of columns on or off",
    ),
    described(
        "\\pset",
        "format [FORMAT]",
        "show or set the format: csv, tsv, table, json, nd-json, markdown, automatic",
    ),
    described("\\timing", "[on|off]", "turn timing on or off"),
    described(
        "\\pager",
        "[on|off|COMMAND]",
        "turn the pager on or off, or choose its command",
    ),
    described(
        "\\quiet",
        "[on|off]",
        "turn quiet mode on or off: only results and errors",
    ),
    described(
        "\\o",
        "[FILE | |COMMAND]",
        "send results to a file or a program, or to the terminal again",
    ),
    described("\\i", "FILE", "run the statements of a file"),
    described(
        "\\e",
        "[FILE]",
        "edit the last statement, or a file, and run the text",
    ),
    described(
        "\\watch",
        "[SECONDS [TIMES]]",
        "repeat the last statement every 2 seconds until Ctrl-C",
    ),
    described(
        "\\set",
        "[NAME VALUE]",
        "list variables, or set one for :NAME, :'NAME' and :\"NAME\" in statements",
    ),
    described("\\unset", "NAME", "remove a variable"),
    described("\\echo", "TEXT", "print a text"),
    described(
        "\\object_store_profiling",
        "[disabled|summary|trace]",
        "show or set how requests to storage are reported",
    ),
    described("\\?", "", "list these commands"),
    described("help", "", "show how to query an array, and these commands"),
    described("\\q", "", "leave (so do quit, exit and Ctrl-D)"),
    described(
        "Ctrl-C",
        "",
        "interrupt a statement; press it twice to leave at once",
    ),
];

/// The commands and their effects.
pub fn commands() -> impl Iterator<Item = (String, String)> {
    COMMANDS
        .iter()
        .map(|command| (command.usage(), command.does.to_owned()))
}

/// Names with their meanings, one below the other.
pub fn list(entries: impl Iterator<Item = (String, String)>) -> String {
    let entries = entries.collect::<Vec<_>>();
    let widths = entries.iter().map(|(name, _)| name.chars().count());
    let width = widths
        .filter(|width| *width <= WIDEST_NAME)
        .max()
        .unwrap_or_default();
    let lines = entries.iter().map(|(name, meaning)| {
        let line = format!("  {name:width$}  {meaning}");
        format!("{}\n", line.trim_end())
    });
    lines.collect()
}

/// Longer names push their meanings to the right.
const WIDEST_NAME: usize = 28;

/// The text of `help`: how to query an array, then the commands.
pub fn text() -> String {
    format!("{HOW_TO_QUERY}{}{KEYS}", list(commands()))
}

const HOW_TO_QUERY: &str = "\
An array is a table; its path or URL in quotes is its name. A statement ends with a semicolon.

  SELECT * FROM './weather' LIMIT 10;
  SUMMARIZE './weather';                                              the range and the gaps of each column
  SELECT count(*) FROM 's3://bucket/weather?timestamp=2024-05-01';    as it was then
  CREATE EXTERNAL TABLE w STORED AS TILEDB LOCATION './weather';      under a name
  ATTACH './experiment' AS exp;                                       a group: SELECT * FROM exp.obs;
  SELECT * FROM './weather' w JOIN 'stations.parquet' s USING (station);
  SELECT * FROM tiledb_schema('./weather');                           also tiledb_fragments, tiledb_metadata, …
  COPY (SELECT * FROM './weather') TO 'weather.parquet';
  EXPLAIN SELECT * FROM './weather' WHERE station = 'Oslo';           what would be read

";

const KEYS: &str = "\nTab completes, Ctrl-R searches the history, Ctrl-D leaves.\n";

impl CommandHelp {
    fn usage(&self) -> String {
        format!("{} {}", self.name, self.takes)
            .trim_end()
            .to_owned()
    }
}
