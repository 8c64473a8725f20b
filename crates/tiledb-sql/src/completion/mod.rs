//! The completions of Tab: keywords, tables, columns, functions, settings, options, paths and the shell's commands.
//!
//! `tokens` takes the statement apart, `wanted` finds the kind of word that belongs at the cursor, `following` the keywords that the
//! grammar allows there, and `paths` and `words` list the candidates.

mod following;
mod paths;
mod tokens;
mod wanted;
mod words;

use clap::ValueEnum;
use datafusion::prelude::SessionContext;
use rustyline::completion::Pair;

use self::following::FollowingWords;
use self::wanted::{NamedTable, TypedWord, WantedWord, wanted};
use self::words::SessionNames;
use crate::commands::{COMMANDS, syntax_names};
use crate::describe::is_path;
use crate::names::{KEYWORDS, in_quotes, sql_name};
use crate::printing::OutputFormat;

/// Completes the text that a user types into a session.
pub struct Completion {
    names: SessionNames,
}

/// The offset at which a completion begins, and the candidates for it.
type CompletionCandidates = (usize, Vec<Pair>);

impl Completion {
    pub fn new(ctx: SessionContext) -> Self {
        Self {
            names: SessionNames::new(ctx),
        }
    }

    /// The completions of the word that ends at an offset of a text.
    pub fn complete(&self, text: &str, at: usize) -> CompletionCandidates {
        let before = text.get(..at).unwrap_or(text);
        let line = before.rfind('\n').map_or(0, |newline| newline + 1);
        let command = before.get(line..).unwrap_or_default();
        if command.trim_start().starts_with('\\') {
            return self.complete_command(command, line);
        }
        match wanted(text, at) {
            WantedWord::Nothing => (at, Vec::new()),
            WantedWord::Statement(word) => {
                let words = words::STATEMENTS.iter().map(|word| (*word).to_owned());
                (word.start, keywords(&word, words))
            }
            WantedWord::Following(word, FollowingWords::Keywords(words)) => {
                let words = words.iter().map(|word| (*word).to_owned());
                (word.start, keywords(&word, words))
            }
            WantedWord::Following(word, FollowingWords::Settings(words)) => {
                let words = words.iter().map(|word| (*word).to_owned());
                let mut pairs = keywords(&word, words);
                pairs.extend(self.settings(&word));
                (word.start, pairs)
            }
            WantedWord::Option { start } => {
                let typed = before.get(start..).unwrap_or_default();
                let is_closed = text.get(at..).is_some_and(|after| after.starts_with('\''));
                let end = if is_closed { "" } else { "'" };
                let mut names = self.names.options();
                names.sort();
                names.dedup();
                let names = names.into_iter().filter(|name| name.starts_with(typed));
                let pairs = names.map(|name| Pair {
                    replacement: format!("{name}{end}"),
                    display: name,
                });
                (start, pairs.collect())
            }
            WantedWord::Table(word) => (word.start, self.tables(&word)),
            WantedWord::Expression(word, tables) => (word.start, self.expressions(&word, &tables)),
            WantedWord::Path { start, needs_slash } => {
                let typed = before.get(start..).unwrap_or_default();
                let is_closed = text.get(at..).is_some_and(|after| after.starts_with('\''));
                (start, quoted_paths(typed, needs_slash, is_closed))
            }
        }
    }

    /// Completes a command of the shell, or its argument; the command begins at `line`.
    fn complete_command(&self, command: &str, line: usize) -> CompletionCandidates {
        let end = line + command.len();
        let blanks = command.len() - command.trim_start().len();
        let command = command.trim_start();
        let Some((name, argument)) = command.split_once(char::is_whitespace) else {
            let mut names = COMMANDS.iter().map(|c| c.name).collect::<Vec<_>>();
            names.dedup();
            names.retain(|name| name.starts_with('\\'));
            let names = names.into_iter().filter(|name| name.starts_with(command));
            return (line + blanks, names.map(plain).collect());
        };
        let argument = argument.trim_start();
        let start = end - argument.len();
        let of = |choices: &[&str]| {
            let choices = choices.iter().filter(|choice| choice.starts_with(argument));
            (start, choices.map(|choice| plain(choice)).collect())
        };
        match name {
            "\\d" if is_path(argument) => (start, plain_paths(argument)),
            "\\d" => {
                let WantedWord::Table(word) =
                    wanted(&format!("FROM {argument}"), 5 + argument.len())
                else {
                    return (end, Vec::new());
                };
                let mut tables = self.tables(&TypedWord {
                    start: 0,
                    ..word.clone()
                });
                tables.retain(|pair| !pair.replacement.ends_with('('));
                (start + word.start.saturating_sub(5), tables)
            }
            "\\i" | "\\e" | "\\o" => (start, plain_paths(argument)),
            "\\x" | "\\timing" | "\\quiet" | "\\types" | "\\pager" => of(&["off", "on"]),
            "\\width" => of(&["auto", "off"]),
            "\\maxrows" => of(&["inf"]),
            "\\h" => {
                let typed = argument.to_uppercase();
                let names = syntax_names().filter(|name| name.starts_with(&typed));
                (start, names.map(plain).collect())
            }
            "\\object_store_profiling" => of(&["disabled", "summary", "trace"]),
            "\\pset" => {
                let values = OutputFormat::value_variants()
                    .iter()
                    .filter_map(ValueEnum::to_possible_value);
                let formats = values
                    .map(|value| format!("format {}", value.get_name()))
                    .collect::<Vec<_>>();
                of(&formats.iter().map(String::as_str).collect::<Vec<_>>())
            }
            _ => (end, Vec::new()),
        }
    }

    /// The settings that begin like a word with its qualifier.
    fn settings(&self, word: &TypedWord) -> Vec<Pair> {
        let qualifier = word.qualifier.iter().map(|part| format!("{part}."));
        let qualifier = qualifier.collect::<String>();
        let typed = word.typed.to_lowercase();
        let mut settings = self.names.settings();
        settings.sort();
        let begins = |setting: String| {
            let rest = setting.strip_prefix(&qualifier)?;
            rest.starts_with(&typed).then(|| plain(rest))
        };
        settings.into_iter().filter_map(begins).collect()
    }

    fn tables(&self, word: &TypedWord) -> Vec<Pair> {
        let mut pairs = names(word, self.names.tables(&word.qualifier));
        if word.qualifier.is_empty() && !word.is_quoted && !word.typed.is_empty() {
            pairs.extend(functions(word, self.names.table_functions()));
        }
        pairs
    }

    fn expressions(&self, word: &TypedWord, tables: &[NamedTable]) -> Vec<Pair> {
        if !word.qualifier.is_empty() {
            let table = qualified(&word.qualifier, tables);
            return names(word, self.names.columns(&table));
        }
        let columns = match tables {
            [] if word.typed.is_empty() => Vec::new(),
            [] => self.names.all_columns(),
            tables => tables.iter().flat_map(|t| self.names.columns(t)).collect(),
        };
        let mut pairs = names(word, columns);
        // A list of all keywords and functions would be too long.
        if !word.is_quoted && !word.typed.is_empty() {
            let words = KEYWORDS.iter().map(|word| (*word).to_owned());
            pairs.extend(keywords(word, words));
            pairs.extend(functions(word, self.names.functions()));
        }
        pairs
    }
}

/// The table that a qualifier means: a table of the statement, by its alias or its name, or else one of the session.
fn qualified(qualifier: &[String], tables: &[NamedTable]) -> NamedTable {
    let is_it = |table: &&NamedTable| match (&table.alias, qualifier) {
        (Some(alias), [name]) => alias == name,
        (None, qualifier) => table.name.ends_with(qualifier),
        (Some(_), _) => false,
    };
    let named = tables.iter().find(is_it).cloned();
    named.unwrap_or_else(|| NamedTable {
        name: qualifier.to_vec(),
        alias: None,
    })
}

/// Names that begin like a word, whatever its case, in quotes where SQL needs them.
fn names(word: &TypedWord, mut names: Vec<String>) -> Vec<Pair> {
    names.sort();
    names.dedup();
    let typed = word.typed.to_lowercase();
    let fits = |name: &String| name.to_lowercase().starts_with(&typed);
    let names = names.into_iter().filter(fits);
    let pairs = names.map(|name| Pair {
        replacement: if word.is_quoted {
            in_quotes(&name)
        } else {
            sql_name(&name)
        },
        display: name,
    });
    pairs.collect()
}

/// Keywords that begin like a word, in the case in which the user types it.
fn keywords(word: &TypedWord, words: impl Iterator<Item = String>) -> Vec<Pair> {
    if !word.qualifier.is_empty() || word.is_quoted {
        return Vec::new();
    }
    let typed = word.typed.to_uppercase();
    let is_lower = word.typed.starts_with(|c: char| c.is_lowercase());
    let words = words
        .filter(|word| word.to_uppercase().starts_with(&typed))
        .map(|word| if is_lower { word.to_lowercase() } else { word });
    words.map(|word| plain(&word)).collect()
}

/// Functions that begin like a word, with their parenthesis.
fn functions(word: &TypedWord, mut names: Vec<String>) -> Vec<Pair> {
    names.sort();
    names.dedup();
    let typed = word.typed.to_lowercase();
    let names = names.iter().filter(|name| name.starts_with(&typed));
    names.map(|name| plain(&format!("{name}("))).collect()
}

/// Paths inside of single quotes, which are closed after a file.
fn quoted_paths(typed: &str, needs_slash: bool, is_closed: bool) -> Vec<Pair> {
    let typed = typed.replace("''", "'");
    let front = if needs_slash && !is_path(&typed) {
        "./"
    } else {
        ""
    };
    let entries = paths::entries(&typed).into_iter();
    let pairs = entries.map(|entry| {
        let end = match entry.is_folder {
            true => "/",
            false if is_closed => "",
            false => "'",
        };
        let path = entry.path.replace('\'', "''");
        Pair {
            replacement: format!("{front}{path}{end}"),
            display: entry.name,
        }
    });
    pairs.collect()
}

/// Paths as they are.
fn plain_paths(typed: &str) -> Vec<Pair> {
    let entries = paths::entries(typed).into_iter();
    let pairs = entries.map(|entry| Pair {
        replacement: if entry.is_folder {
            format!("{}/", entry.path)
        } else {
            entry.path
        },
        display: entry.name,
    });
    pairs.collect()
}

fn plain(text: &str) -> Pair {
    Pair {
        display: text.to_owned(),
        replacement: text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn completion() -> Completion {
        let ctx = SessionContext::new();
        datafusion_tiledb::register(&ctx).unwrap();
        for sql in [
            "CREATE TABLE weather AS SELECT 1 AS station, 2 AS \"Wind\", 3 AS temperature",
            "CREATE TABLE stations AS SELECT 1 AS height, 2 AS country",
        ] {
            ctx.sql(sql).await.unwrap().collect().await.unwrap();
        }
        Completion::new(ctx)
    }

    /// A text with a bar at the cursor, and the completions of the word before the bar.
    async fn check(cases: &[(&str, &[&str])]) {
        let completion = completion().await;
        for (text, expected) in cases {
            let at = text.find('|').unwrap();
            let text = text.replacen('|', "", 1);
            let (start, pairs) = completion.complete(&text, at);
            let found = pairs.iter().map(|pair| {
                let before = &text[..start];
                format!("{before}{}", pair.replacement)
            });
            assert_eq!(found.collect::<Vec<_>>(), *expected, "{text}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn tables_columns_and_functions() {
        check(&[
            ("select * from we|", &["select * from weather"]),
            ("SELECT te| FROM weather", &["SELECT temperature"]),
            ("select wind| from weather", &["select \"Wind\""]),
            (
                "select * from weather where \"w|",
                &["select * from weather where \"Wind\""],
            ),
            (
                "select w.| from weather w",
                &[
                    "select w.\"Wind\"",
                    "select w.station",
                    "select w.temperature",
                ],
            ),
            (
                "select stations.c| from weather",
                &["select stations.country"],
            ),
            (
                "select cou| from stations",
                &["select country", "select count("],
            ),
            ("select heig|", &["select height"]),
            (
                "select * from weather ord|",
                &["select * from weather order by"],
            ),
            (
                "select * from weather ORD|",
                &["select * from weather ORDER BY"],
            ),
            (
                "select * from tiledb_frag|",
                &["select * from tiledb_fragments("],
            ),
            ("desc|", &["describe"]),
            ("qu|", &["quit"]),
            ("select * from nothing where zz|", &[]),
            ("select '|", &[]),
        ])
        .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn statements_settings_and_options() {
        check(&[
            ("upd|", &["update"]),
            ("alter t|", &["alter table"]),
            ("ALTER TABLE weather dr|", &["ALTER TABLE weather drop column"]),
            ("CREATE EXT|", &["CREATE EXTERNAL TABLE"]),
            (
                "create external table t stored as t|",
                &["create external table t stored as tiledb"],
            ),
            ("update weather s|", &["update weather set"]),
            ("update weather set te|", &["update weather set temperature"]),
            ("delete from weather wh|", &["delete from weather where"]),
            (
                "delete from weather where stat|",
                &["delete from weather where station"],
            ),
            ("merge into weather us|", &["merge into weather using"]),
            ("merge into weather using st|", &["merge into weather using stations"]),
            ("summarize we|", &["summarize weather"]),
            (
                "set tiledb.enable_meta|",
                &["set tiledb.enable_metadata_aggregates"],
            ),
            (
                "SET datafusion.execution.batch|",
                &["SET datafusion.execution.batch_size"],
            ),
            ("show tab|", &["show tables"]),
            (
                "create external table t stored as tiledb location 'x' options ('tiledb.timestamp_s|",
                &["create external table t stored as tiledb location 'x' options ('tiledb.timestamp_start'"],
            ),
            (
                "copy weather to 'x' options ('format.del|'",
                &["copy weather to 'x' options ('format.delimiter"],
            ),
            // Functions that only plans use.
            ("select tiledb_elem|", &[]),
        ])
        .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn paths_and_commands() {
        check(&[
            (
                "select * from 'src/comp|",
                &["select * from 'src/completion/"],
            ),
            (
                "select * from './Cargo.t|'",
                &["select * from './Cargo.toml"],
            ),
            ("select * from 'sr|", &["select * from './src/"]),
            ("select * from 'Cargo.t|", &["select * from './Cargo.toml'"]),
            (
                "create external table t stored as tiledb location 'Cargo.t|",
                &["create external table t stored as tiledb location 'Cargo.toml'"],
            ),
            ("\\ti|", &["\\timing"]),
            ("\\timing o|", &["\\timing off", "\\timing on"]),
            ("\\h create v|", &["\\h CREATE VIEW"]),
            ("\\width o|", &["\\width off"]),
            ("\\pset format mark|", &["\\pset format markdown"]),
            ("\\d we|", &["\\d weather"]),
            ("\\d ./Cargo.t|", &["\\d ./Cargo.toml"]),
            ("\\i Cargo.t|", &["\\i Cargo.toml"]),
            ("select 1;\n\\q|", &["select 1;\n\\quiet", "select 1;\n\\q"]),
        ])
        .await;
    }
}
