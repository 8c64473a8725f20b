//! The commands of the shell: lines that begin with a backslash, and `help`, `quit` and `exit`.
//!
//! `help` has the texts that explain them, `syntax` the grammar of the statements. `edit` opens an editor, and `watch` repeats a
//! statement.

mod edit;
mod help;
mod syntax;
mod watch;

use std::io::Write;

use clap::ValueEnum;
use datafusion::error::{DataFusionError, Result};
use datafusion_cli::object_storage::instrumented::InstrumentedObjectStoreMode;
use datafusion_cli::print_options::MaxRows;

pub use self::help::COMMANDS;
pub use self::syntax::names as syntax_names;
use crate::printing::{OutputFormat, ResultOutput, TableWidth, details_output};
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
        let text = self.variables.substitute(text);
        let result = match parts(&text) {
            ("q", None) => return ShellFlow::Quit,
            ("e", file) => return self.edit(file, place, on_error).await,
            ("watch", pace) => return self.watch(pace, place, on_error).await,
            ("i", None) => Err(report::message("'\\i' needs a file: \\i FILE")),
            ("?", None) => say(&help::list(help::commands())),
            ("h", None) => say(&help::list(syntax::statements())),
            ("h", Some(statement)) => syntax::grammar(statement).and_then(|text| say(&text)),
            ("help", None) => say(&help::text()),
            ("d", None) => self.list_tables().await,
            ("d", Some(thing)) => self.describe(thing).await,
            ("x", state) => self.set_expanded(state),
            ("timing", state) => self.set_timing(state),
            ("pager", state) => self.set_pager(state),
            ("quiet", state) => self.set_quiet(state),
            ("maxrows", rows) => self.set_max_rows(rows),
            ("width", width) => self.set_width(width),
            ("types", state) => self.set_types(state),
            ("o", target) => self.set_output(target),
            ("echo", words) => self.echo(words.unwrap_or_default()),
            ("set", variable) => self.set_variable(variable),
            ("unset", name) => self.unset_variable(name),
            ("pset", setting) => self.set_printing(setting),
            ("object_store_profiling", mode) => self.set_profiling(mode),
            _ => Err(unknown(trimmed(&text))),
        };
        match result {
            Ok(()) => ShellFlow::GoOn,
            Err(e) => self.fail(&e, place, on_error),
        }
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
        answer(&format!("Quiet mode {verb} {}", self.printing.quiet))
    }

    fn set_max_rows(&mut self, rows: Option<&str>) -> Result<()> {
        if let Some(rows) = rows {
            self.printing.max_rows = rows.parse().map_err(|_| {
                report::message(format!(
                    "'\\maxrows {rows}': expected a number of rows, or inf"
                ))
            })?;
        }
        let most = match self.printing.max_rows {
            MaxRows::Unlimited => "all rows".to_owned(),
            MaxRows::Limited(rows) => format!("at most {rows} rows"),
        };
        self.notice(&format!("Tables show {most}."));
        Ok(())
    }

    fn set_width(&mut self, width: Option<&str>) -> Result<()> {
        self.printing.width = match width {
            None => self.printing.width,
            Some("auto") => TableWidth::Terminal,
            Some("off") => TableWidth::Unlimited,
            Some(columns) => match columns.parse() {
                Ok(columns) => TableWidth::Columns(columns),
                Err(_) => {
                    return Err(report::message(format!(
                        "'\\width {columns}': expected auto, off or a number of columns"
                    )));
                }
            },
        };
        let width = match self.printing.width {
            TableWidth::Terminal => "at most as wide as the terminal".to_owned(),
            TableWidth::Unlimited => "as wide as their rows".to_owned(),
            TableWidth::Columns(columns) => format!("at most {columns} characters wide"),
        };
        self.notice(&format!("Tables are {width}."));
        Ok(())
    }

    fn set_types(&mut self, state: Option<&str>) -> Result<()> {
        let session = self.ctx.state_ref();
        let mut session = session.write();
        let options = &mut session.config_mut().options_mut().format;
        options.types_info = switched("types", state, options.types_info)?;
        self.notice(&format!(
            "Types of columns are {}.",
            on_or_off(options.types_info)
        ));
        Ok(())
    }

    /// Sends the rows of the next statements to a file or a program, or again to stdout.
    fn set_output(&mut self, target: Option<&str>) -> Result<()> {
        let target = target.map(|target| {
            let inside = target
                .strip_prefix('\'')
                .and_then(|rest| rest.strip_suffix('\''));
            inside.unwrap_or(target)
        });
        let target = target.map(home_of);
        let before = std::mem::take(&mut self.printing.output);
        let closed = before.close();
        self.printing.output = ResultOutput::open(target.as_deref())?;
        closed
    }

    fn echo(&self, words: &str) -> Result<()> {
        match self.printing.output.writer() {
            Some(mut output) => writeln!(output, "{words}")?,
            None => writeln!(std::io::stdout(), "{words}")?,
        }
        Ok(())
    }

    fn set_variable(&mut self, variable: Option<&str>) -> Result<()> {
        let Some(variable) = variable else {
            return say(&help::list(self.variables.list().into_iter()));
        };
        let (name, value) = variable
            .split_once(char::is_whitespace)
            .unwrap_or((variable, ""));
        self.variables.set(name, value.trim())
    }

    fn unset_variable(&mut self, name: Option<&str>) -> Result<()> {
        let name = name.ok_or_else(|| report::message("'\\unset' needs a name: \\unset NAME"))?;
        self.variables.unset(name);
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
            ("maxrows", rows) => return self.set_max_rows(rows),
            ("width" | "columns", width) => return self.set_width(width),
            _ => return Err(unknown(&format!("pset {setting}"))),
        }
        answer(&format!("Output format is {:?}.", self.printing.format))
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
        answer(&format!("ObjectStore Profile mode {verb} {mode}"))
    }
}

/// Prints a text that the user asked for.
fn say(text: &str) -> Result<()> {
    Ok(write!(std::io::stdout(), "{text}")?)
}

/// Prints the answer to a question, even in quiet mode.
fn answer(text: &str) -> Result<()> {
    Ok(writeln!(details_output(), "{text}")?)
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

/// A path in which `~` is the home folder; commands of programs stay as they are.
fn home_of(path: &str) -> String {
    match (path.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest).display().to_string(),
        _ => path.to_owned(),
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

fn unknown(words: &str) -> DataFusionError {
    let name = words.split_whitespace().next().unwrap_or_default();
    let known = COMMANDS
        .iter()
        .filter_map(|command| command.name.strip_prefix('\\'));
    let similar = report::did_you_mean(name, known, "\\");
    report::message(format!(
        "'\\{words}' is not a command; '\\?' lists them{similar}"
    ))
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
