//! The commands of the shell (lines that begin with a backslash, and `help`, `quit` and `exit`), and the texts that explain
//! them.

use std::sync::Arc;
use std::time::Instant;

use clap::ValueEnum;
use datafusion::arrow::array::StringArray;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion_cli::command::Command as CliCommand;
use datafusion_cli::object_storage::instrumented::InstrumentedObjectStoreMode;
use datafusion_cli::print_options::MaxRows;

use crate::interrupt::Interruptible;
use crate::printing::{OutputFormat, PrintedRows};
use crate::report;
use crate::shell::{OnError, Shell, ShellFlow};

impl Shell {
    /// Runs one command (without its backslash); `place` is its place in the input, for messages.
    pub async fn command(
        &mut self,
        text: &str,
        place: Option<&str>,
        on_error: OnError,
    ) -> ShellFlow {
        let result = match parts(text) {
            ("q", None) => return ShellFlow::Quit,
            ("i", None) => Err(report::message("'\\i' needs a file: \\i FILE")),
            ("?", None) => self.list_commands(),
            ("help", None) => {
                print!("{}", help_text());
                Ok(())
            }
            ("d", None) => self.statement("SHOW TABLES".to_owned()).await,
            ("d", Some(thing)) => self.describe(thing).await,
            ("x", state) => self.set_expanded(state),
            ("timing", state) => self.set_timing(state),
            ("pager", state) => self.set_pager(state),
            ("quiet", state) => self.set_quiet(state),
            ("pset", setting) => self.set_printing(setting),
            ("object_store_profiling", mode) => self.set_profiling(mode),
            ("h", statement) => self.show_syntax(statement).await,
            _ => Err(unknown(trimmed(text))),
        };
        match result {
            Ok(()) => ShellFlow::GoOn,
            Err(e) => self.fail(&e, place, on_error),
        }
    }

    fn list_commands(&self) -> Result<()> {
        let began = Instant::now();
        let batch = commands_text()?;
        let rows = PrintedRows {
            schema: batch.schema(),
            count: batch.num_rows(),
            batches: &[batch],
            most: MaxRows::Unlimited,
        };
        self.print_rows(&rows, began, &Interruptible::begin())
    }

    fn set_expanded(&mut self, state: Option<&str>) -> Result<()> {
        self.printing.expanded = switched("x", state, self.printing.expanded)?;
        self.notice(&format!(
            "Expanded display is {}.",
            on_or_off(self.printing.expanded)
        ));
        Ok(())
    }

    fn set_timing(&mut self, state: Option<&str>) -> Result<()> {
        let now = self.printing.timing.unwrap_or(!self.printing.quiet);
        let timing = switched("timing", state, now)?;
        self.printing.timing = Some(timing);
        self.notice(&format!("Timing is {}.", on_or_off(timing)));
        Ok(())
    }

    /// Switches the pager on or off, or sets the command of another one.
    fn set_pager(&mut self, state: Option<&str>) -> Result<()> {
        let pager = &mut self.printing.pager;
        match switched("pager", state, !pager.is_off) {
            Ok(on) => pager.is_off = !on,
            Err(_) => {
                pager.is_off = false;
                pager.command = state.map(str::to_owned);
            }
        }
        let notice = match self.printing.pager.command() {
            _ if self.printing.pager.is_off => "Results are printed without a pager.".to_owned(),
            Some(command) => format!("Results that don't fit the window go through '{command}'."),
            None => "There is no pager: neither PAGER is set, nor is there 'less'.".to_owned(),
        };
        self.notice(&notice);
        Ok(())
    }

    /// Without a state, the command shows the setting and doesn't toggle it, as in datafusion-cli.
    fn set_quiet(&mut self, state: Option<&str>) -> Result<()> {
        let before = self.printing.quiet;
        self.printing.quiet = match state {
            None => before,
            state => switched("quiet", state, before)?,
        };
        let verb = state.map_or("is", |_| "set to");
        println!("Quiet mode {verb} {}", self.printing.quiet);
        Ok(())
    }

    fn set_printing(&mut self, setting: Option<&str>) -> Result<()> {
        let setting = setting.unwrap_or("format");
        let (name, value) = setting
            .split_once(char::is_whitespace)
            .unwrap_or((setting, ""));
        let value = Some(value.trim()).filter(|value| !value.is_empty());
        match (name, value) {
            ("format", None) => {}
            ("format", Some(name)) => self.printing.format = format_called(name)?,
            ("expanded" | "x", state) => return self.set_expanded(state),
            ("pager", state) => return self.set_pager(state),
            _ => return Err(unknown(&format!("pset {setting}"))),
        }
        println!("Output format is {:?}.", self.printing.format);
        Ok(())
    }

    fn set_profiling(&mut self, mode: Option<&str>) -> Result<()> {
        let stores = &self.printing.stores;
        if let Some(mode) = mode {
            let mode: InstrumentedObjectStoreMode = mode.parse().map_err(|_| {
                let modes = "disabled, summary or trace";
                report::message(format!("'{mode}' isn't a profiling mode: expected {modes}"))
            })?;
            stores.set_instrument_mode(mode);
        }
        let verb = mode.map_or("is", |_| "set to");
        let mode = stores.instrument_mode();
        println!("ObjectStore Profile mode {verb} {mode}");
        Ok(())
    }

    /// Shows datafusion-cli's syntax of a statement, or lists the statements.
    async fn show_syntax(&self, statement: Option<&str>) -> Result<()> {
        let command = match statement {
            None => CliCommand::ListFunctions,
            Some(statement) => CliCommand::SearchFunctions(statement.to_owned()),
        };
        let mut silent = self.printing.silent();
        let executed = command.execute(&self.ctx, &mut silent);
        let Err(error) = report::catch_panic(executed).await else {
            return Ok(());
        };
        Err(match statement {
            Some(statement) => report::message(format!(
                "there is no syntax of '{statement}' to show; '\\h' lists the statements"
            )),
            None => error,
        })
    }
}

/// The name of a command, and the text after it.
fn parts(text: &str) -> (&str, Option<&str>) {
    let text = trimmed(text);
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (name, Some(rest.trim()).filter(|rest| !rest.is_empty()))
}

fn trimmed(text: &str) -> &str {
    text.trim_end_matches(|c: char| c.is_whitespace() || c == ';')
}

/// The file of the command `\i FILE`, which the shell runs.
pub fn included_file(text: &str) -> Option<&str> {
    match parts(text) {
        ("i", path) => path,
        _ => None,
    }
}

/// The new state of a switch: the named one, or the opposite of the current state.
fn switched(command: &str, state: Option<&str>, before: bool) -> Result<bool> {
    let Some(state) = state else {
        return Ok(!before);
    };
    match state.to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "on" => Ok(true),
        "false" | "f" | "no" | "n" | "off" => Ok(false),
        _ => Err(report::message(format!(
            "'\\{command} {state}': expected on or off"
        ))),
    }
}

fn on_or_off(state: bool) -> &'static str {
    if state { "on" } else { "off" }
}

fn format_called(name: &str) -> Result<OutputFormat> {
    OutputFormat::from_str(name, true).map_err(|_| {
        let values = OutputFormat::value_variants().iter();
        let names = values
            .filter_map(ValueEnum::to_possible_value)
            .map(|value| value.get_name().to_owned())
            .collect::<Vec<_>>()
            .join(", ");
        report::message(format!("'{name}' isn't a format: expected one of {names}"))
    })
}

fn unknown(words: &str) -> datafusion::error::DataFusionError {
    report::message(format!("'\\{words}' is not a command; '\\?' lists them"))
}

/// A command as the user types it, its argument, and its effect.
pub struct CommandHelp {
    pub name: &'static str,
    pub takes: &'static str,
    pub does: &'static str,
}

const fn described(name: &'static str, takes: &'static str, does: &'static str) -> CommandHelp {
    CommandHelp { name, takes, does }
}

/// The commands, in the order in which they are listed.
pub const COMMANDS: [CommandHelp; 13] = [
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
        "turn the display of each row as a block on or off",
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
    described("\\i", "FILE", "run the statements of a file"),
    described(
        "\\h",
        "[STATEMENT]",
        "list statements, or show the syntax of one",
    ),
    described(
        "\\object_store_profiling",
        "[disabled|summary|trace]",
        "show or set how requests to storage are reported",
    ),
    described("\\?", "", "list these commands"),
    described("\\q", "", "leave (so do quit, exit and Ctrl-D)"),
];

/// The commands as rows.
pub fn commands_text() -> Result<RecordBatch> {
    let names = COMMANDS.iter().map(CommandHelp::usage);
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

/// The text of `help`: how to query an array, then the commands.
pub fn help_text() -> String {
    let mut text = HOW_TO_QUERY.to_owned();
    let usages = COMMANDS.iter().map(|command| command.usage());
    let width = usages
        .map(|usage| usage.len())
        .filter(|width| *width < 24)
        .max()
        .unwrap_or_default();
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

impl CommandHelp {
    fn usage(&self) -> String {
        format!("{} {}", self.name, self.takes)
            .trim_end()
            .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_are_set_or_toggled() {
        assert!(switched("x", None, false).unwrap());
        assert!(!switched("x", None, true).unwrap());
        assert!(switched("x", Some("ON"), true).unwrap());
        assert!(!switched("x", Some("off"), false).unwrap());
        assert!(switched("x", Some("maybe"), false).is_err());
    }

    #[test]
    fn formats_have_names() {
        assert_eq!(format_called("Markdown").unwrap(), OutputFormat::Markdown);
        assert_eq!(format_called("nd-json").unwrap(), OutputFormat::NdJson);
        let error = format_called("yaml").unwrap_err();
        assert!(
            report::describe(&error).contains("csv, tsv, table"),
            "{error}"
        );
    }
}
