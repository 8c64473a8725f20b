//! The helper of the line editor: colours are datafusion-cli's; whether a text is ready to run, and what a new line says about the
//! text before it, is decided here.
//!
//! A text is ready when its last statement has its semicolon. A statement with an error is ready, too: it fails like any other, and
//! the next prompt is empty.

use std::borrow::Cow;

use datafusion::common::config::Dialect;
use datafusion::prelude::SessionContext;
use datafusion_cli::helper::CliHelper;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Result};

use crate::completion::Completion;
use crate::script::Splitter;

/// Helps to edit statements.
pub struct EditHelper {
    /// Shows hints and colours.
    cli: CliHelper,
    completion: Completion,
}

impl EditHelper {
    pub fn new(ctx: SessionContext, dialect: Dialect, color: bool) -> Self {
        Self {
            cli: CliHelper::new(&dialect, color),
            completion: Completion::new(ctx),
        }
    }

    pub fn set_dialect(&mut self, dialect: Dialect) {
        self.cli.set_dialect(&dialect);
    }

    /// Shows the hint of an empty line again.
    pub fn reset_hint(&self) {
        self.cli.reset_hint();
    }
}

/// Whether a text can be run as it is, or needs more lines.
fn readiness(text: &str) -> ValidationResult {
    let mut splitter = Splitter::default();
    let lines = text.lines();
    let pieces: Vec<_> = lines.flat_map(|line| splitter.push_line(line)).collect();
    // A comment alone may be followed by a statement; semicolons alone are nothing to wait for.
    let is_empty = |c: char| c == ';' || c.is_whitespace();
    let is_whole = !pieces.is_empty() || (text.contains(';') && text.chars().all(is_empty));
    if splitter.is_between() && is_whole {
        ValidationResult::Valid(None)
    } else {
        ValidationResult::Incomplete
    }
}

/// What a new line says about the text before it: what is still open there.
fn open_part(text: &str) -> Option<String> {
    if !text.ends_with('\n') || text.trim().is_empty() {
        return None;
    }
    let mut splitter = Splitter::default();
    let pieces = text
        .lines()
        .flat_map(|line| splitter.push_line(line))
        .count();
    let open = splitter.open_part();
    (pieces == 0 || open.is_some()).then(|| {
        let what = open.unwrap_or_else(|| "a semicolon ends the statement".to_owned());
        format!("  … {what}")
    })
}

impl Validator for EditHelper {
    fn validate(&self, ctx: &mut ValidationContext<'_>) -> Result<ValidationResult> {
        let readiness = readiness(ctx.input());
        self.reset_hint();
        Ok(readiness)
    }
}

impl Highlighter for EditHelper {
    fn highlight<'l>(&self, line: &'l str, pos: usize) -> Cow<'l, str> {
        self.cli.highlight(line, pos)
    }

    fn highlight_char(&self, line: &str, pos: usize, kind: CmdKind) -> bool {
        self.cli.highlight_char(line, pos, kind)
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        self.cli.highlight_hint(hint)
    }
}

impl Hinter for EditHelper {
    type Hint = String;

    fn hint(&self, line: &str, pos: usize, ctx: &Context<'_>) -> Option<String> {
        if pos < line.len() {
            return None;
        }
        open_part(line).or_else(|| self.cli.hint(line, pos, ctx))
    }
}

impl Completer for EditHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> Result<(usize, Vec<Pair>)> {
        Ok(self.completion.complete(line, pos))
    }
}

impl rustyline::Helper for EditHelper {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_ready_at_their_semicolon() {
        for text in [
            "select 1;",
            "select 1; select 2; \n",
            "ATTACH './experiment' AS exp;",
            "/* a group */ ATTACH './experiment'\nAS exp\n;",
            "select $a$x;y$a$;",
            "select ';' as \"a;b\"; -- the end",
            "\\q",
            "help",
            "Quit;",
            "  \\d weather",
            // Errors are for the statement to report.
            "selec 1;",
            "select :x;",
            ";",
        ] {
            assert!(
                matches!(readiness(text), ValidationResult::Valid(_)),
                "{text}"
            );
        }
        for text in [
            "",
            "select 1",
            "select 1; select 2",
            "select 'a;",
            "select $a$x;",
            "select 1 /* ;",
            "-- only a comment;\n",
        ] {
            assert!(
                matches!(readiness(text), ValidationResult::Incomplete),
                "{text}"
            );
        }
    }

    #[test]
    fn a_new_line_says_what_is_open() {
        for (text, expected) in [
            ("select 1\n", Some("a semicolon ends the statement")),
            ("select 'a\n", Some("the text from line 1 ends with '")),
            ("select\n\"a\n", Some("the name from line 2 ends with \"")),
            ("select $x$ a\n", Some("the text from line 1 ends with $x$")),
            (
                "select 1 /* a\n",
                Some("the comment from line 1 ends with */"),
            ),
            (
                "select f(1,\n(2)\n",
                Some("the parenthesis from line 1 is open"),
            ),
            (
                "select (')', /* ) */\n",
                Some("the parenthesis from line 1 is open"),
            ),
            ("select (1)\n", Some("a semicolon ends the statement")),
            ("select 1", None),
            ("\n", None),
            ("-- a comment\n", Some("a semicolon ends the statement")),
        ] {
            let found = open_part(text);
            assert_eq!(
                found,
                expected.map(|words| format!("  … {words}")),
                "{text}"
            );
        }
    }
}
