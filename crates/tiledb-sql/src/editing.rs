//! The helper of the line editor: hints and colours are datafusion-cli's; whether a text is ready to run is decided here.
//!
//! A text is ready when its last statement has its semicolon and the library can parse every statement. datafusion-cli's check knows
//! neither `ATTACH` nor dollar quotes, and would not let them be entered.

use std::borrow::Cow;

use datafusion::common::config::Dialect;
use datafusion::prelude::SessionContext;
use datafusion_cli::helper::CliHelper;
use datafusion_tiledb::session::check_syntax;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Result};

use crate::completion::Completion;
use crate::report;
use crate::script::{PieceKind, Splitter};

/// Helps to edit statements.
pub struct EditHelper {
    /// Shows hints and colours.
    cli: CliHelper,
    completion: Completion,
    dialect: Dialect,
}

impl EditHelper {
    pub fn new(ctx: SessionContext, dialect: Dialect, color: bool) -> Self {
        Self {
            cli: CliHelper::new(&dialect, color),
            completion: Completion::new(ctx),
            dialect,
        }
    }

    pub fn set_dialect(&mut self, dialect: Dialect) {
        self.cli.set_dialect(&dialect);
        self.dialect = dialect;
    }

    /// Shows the hint of an empty line again.
    pub fn reset_hint(&self) {
        self.cli.reset_hint();
    }
}

/// Whether a text can be run as it is, needs more lines, or is wrong.
fn readiness(text: &str, dialect: Dialect) -> ValidationResult {
    let mut splitter = Splitter::default();
    let lines = text.lines();
    let pieces: Vec<_> = lines.flat_map(|line| splitter.push_line(line)).collect();
    if !splitter.is_between() {
        return ValidationResult::Incomplete;
    }
    for piece in &pieces {
        if let PieceKind::Statement(sql) = &piece.kind
            && let Err(error) = check_syntax(sql, dialect)
        {
            let error = report::describe(&error);
            return ValidationResult::Invalid(Some(format!("  Invalid statement: {error}")));
        }
    }
    if !pieces.is_empty() {
        return ValidationResult::Valid(None);
    }
    let only_semicolons = text
        .trim()
        .bytes()
        .all(|b| b == b';' || b.is_ascii_whitespace());
    match only_semicolons && text.contains(';') {
        true => ValidationResult::Invalid(Some("  You entered an empty statement".to_owned())),
        // The text is a comment, which a statement may follow.
        false => ValidationResult::Incomplete,
    }
}

impl Validator for EditHelper {
    fn validate(&self, ctx: &mut ValidationContext<'_>) -> Result<ValidationResult> {
        let readiness = readiness(ctx.input(), self.dialect);
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
        self.cli.hint(line, pos, ctx)
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

    /// `ready`, `more`, or the error.
    fn told(text: &str, dialect: Dialect) -> String {
        match readiness(text, dialect) {
            ValidationResult::Valid(_) => "ready".to_owned(),
            ValidationResult::Incomplete => "more".to_owned(),
            ValidationResult::Invalid(error) => error.unwrap_or_default(),
            _ => "?".to_owned(),
        }
    }

    #[test]
    fn statements_of_all_kinds_are_ready_at_their_semicolon() {
        let ready = [
            "select 1;",
            "select 1; select 2; \n",
            "ATTACH './experiment' AS exp;",
            "attach './experiment';",
            "ATTACH './experiment' AS exp (timestamp '2024-05-01');",
            "/* a group */ ATTACH './experiment'\nAS exp\n;",
            "DETACH exp; select 1;",
            "select $a$x;y$a$;",
            "select ';' as \"a;b\"; -- the end",
            "create external table t stored as tiledb location 'x' options ('tiledb.timestamp' '1');",
            "\\q",
            "help",
            "Quit;",
            "  \\d weather",
        ];
        for text in ready {
            assert_eq!(told(text, Dialect::Generic), "ready", "{text}");
        }
        let more = [
            "",
            "  ",
            "select 1",
            "select 1; select 2",
            "ATTACH './experiment'",
            "select 'a;",
            "select $a$x;",
            "select 1 /* ;",
            "-- only a comment;",
        ];
        for text in more {
            assert_eq!(told(text, Dialect::Generic), "more", "{text}");
        }
    }

    #[test]
    fn what_cannot_be_parsed_is_not_run() {
        let wrong = [
            ("selec 1;", "Invalid statement"),
            ("select 1; selec 2;", "Invalid statement"),
            ("ATTACH 'x' AS;", "expected a name"),
            (";", "empty"),
        ];
        for (text, words) in wrong {
            let told = told(text, Dialect::Generic);
            assert!(told.contains(words), "{text}: {told}");
        }
        assert_ne!(told("select 1 # 2;", Dialect::Generic), "ready");
        assert_eq!(told("select 1 # 2;", Dialect::PostgreSQL), "ready");
    }
}
