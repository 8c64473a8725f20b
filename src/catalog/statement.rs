//! `ATTACH '<uri>' AS name` and `DETACH name`: statements about groups, which DataFusion's parser does not support.
//!
//! ```text
//! ATTACH [GROUP | DATABASE] [IF NOT EXISTS] '<uri>' [AS [CATALOG | SCHEMA] name] [[OPTIONS] (option [=] value, …)]
//! DETACH [GROUP | DATABASE] [IF EXISTS] name
//! ```
//!
//! [`execute`](crate::execute) runs them. Options are those of tables; `TYPE tiledb` and `READ_ONLY`, which DuckDB's users write, are accepted and ignored.

use std::iter::Peekable;
use std::ops::Range;
use std::vec::IntoIter;

use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use tiledb_engine::format::names::last_component;
use tiledb_engine::storage::Location;
use tiledb_engine::{Error, ErrorKind, Result};
use tiledb_stores::StoreOptions;

use super::detach_group;
use super::group::{AttachAs, TileDbGroup};
use crate::options::TableOptions;
use crate::options::encryption::shown_name;
use crate::options::secrets::StatementSecrets;

/// A statement about groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GroupStatement {
    /// `ATTACH`.
    Attach {
        /// The URI of the group.
        uri: String,
        /// The name to attach it as.
        name: String,
        /// How the group is attached.
        attach_as: AttachAs,
        /// Whether a taken name is ignored instead of an error.
        if_not_exists: bool,
        /// The options for the arrays.
        options: TableOptions,
        /// Options of object stores (`aws.region`, …), for which a store is made before the statement runs.
        store_options: StoreOptions,
    },
    /// `DETACH`.
    Detach {
        /// The name of the group.
        name: String,
        /// Whether a missing group is ignored instead of an error.
        if_exists: bool,
    },
}

impl GroupStatement {
    /// Parses `sql`, or returns `None` if it is another kind of statement.
    pub(crate) fn parse(sql: &str) -> Result<Option<Self>> {
        let first = first_word(sql);
        let attach = first.eq_ignore_ascii_case("attach");
        if !attach && !first.eq_ignore_ascii_case("detach") {
            return Ok(None);
        }
        let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize();
        let tokens =
            tokens.map_err(|e| Error::invalid(StatementSecrets::of(sql).masked(&e.to_string())))?;
        let mut tokens = StatementTokens::new(tokens);
        tokens.word();
        let statement = if attach {
            tokens.attach()?
        } else {
            tokens.detach()?
        };
        tokens.end()?;
        Ok(Some(statement))
    }

    /// Runs the statement. The store of its options is registered.
    pub(crate) async fn run(self, ctx: &SessionContext) -> Result<()> {
        match self {
            Self::Attach {
                uri,
                name,
                attach_as,
                if_not_exists,
                options,
                store_options: _,
            } => {
                let shown = Location::without_secrets(&uri);
                let builder = TileDbGroup::builder(&uri).attach_as(attach_as);
                let attached = builder.options(options).attach(ctx, &name).await;
                attached.or_else(|e| match e.kind() {
                    ErrorKind::AlreadyExists if if_not_exists => Ok(()),
                    ErrorKind::IsAnArray => Err(Error::new(
                        ErrorKind::IsAnArray,
                        format!(
                            "this is a TileDB array, not a group: SELECT … FROM '{shown}', or CREATE EXTERNAL TABLE {name} STORED AS TILEDB LOCATION '{shown}'"
                        ),
                    )),
                    _ => Err(e),
                })
            }
            Self::Detach { name, if_exists } => {
                if detach_group(ctx, &name) || if_exists {
                    return Ok(());
                }
                Err(Error::not_found(format!(
                    "no group is attached as \"{name}\""
                )))
            }
        }
    }
}

/// The first word of a statement, after whitespace and comments.
pub(crate) fn first_word(sql: &str) -> &str {
    sql.get(first_word_range(sql)).unwrap_or_default()
}

/// The place of the first word of a statement, in bytes.
pub(crate) fn first_word_range(sql: &str) -> Range<usize> {
    let mut rest = sql.trim_start();
    loop {
        let after = if let Some(comment) = rest.strip_prefix("--") {
            comment.split_once('\n').map(|(_, after)| after)
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.split_once("*/").map(|(_, after)| after)
        } else {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let start = sql.len() - rest.len();
            return start..start + end.unwrap_or(rest.len());
        };
        rest = after.unwrap_or_default().trim_start();
    }
}

/// The tokens of a statement without whitespace and comments.
struct StatementTokens {
    rest: Peekable<IntoIter<Token>>,
    /// Whether the parser is reading options. Any word or number among options may be part of a secret without its quotes.
    among_options: bool,
}

impl StatementTokens {
    fn new(mut tokens: Vec<Token>) -> Self {
        tokens.retain(|t| !matches!(t, Token::Whitespace(_)));
        Self {
            rest: tokens.into_iter().peekable(),
            among_options: false,
        }
    }

    fn attach(&mut self) -> Result<GroupStatement> {
        let _ = self.keyword("group") || self.keyword("database");
        let if_not_exists = self.keyword("if");
        if if_not_exists && !(self.keyword("not") && self.keyword("exists")) {
            return Err(self.wrong("NOT EXISTS"));
        }
        let uri = match self.rest.next() {
            Some(Token::SingleQuotedString(uri)) => uri,
            other => return Err(self.unexpected(other, "the location of a group in single quotes")),
        };
        let (mut name, mut attach_as) = (None, AttachAs::Both);
        if self.keyword("as") {
            let first = self.name()?;
            let word = matches!(self.rest.peek(), Some(Token::Word(w)) if !w.value.eq_ignore_ascii_case("options"));
            // A group may also be called "catalog" or "schema".
            attach_as = match first.as_str() {
                "catalog" | "database" if word => AttachAs::Catalog,
                "schema" if word => AttachAs::Schema,
                _ => AttachAs::Both,
            };
            name = Some(if attach_as == AttachAs::Both {
                first
            } else {
                self.name()?
            });
        }
        let (ours, store_options) = self.options()?;
        let pairs = ours.iter().map(|(k, v)| (k.as_str(), v.as_str()));
        Ok(GroupStatement::Attach {
            name: name.unwrap_or_else(|| name_of(&uri)),
            uri,
            attach_as,
            if_not_exists,
            options: TableOptions::from_pairs(pairs)?,
            store_options: store_options.into_iter().collect(),
        })
    }

    fn detach(&mut self) -> Result<GroupStatement> {
        let _ = self.keyword("group") || self.keyword("database");
        let if_exists = self.keyword("if");
        if if_exists && !self.keyword("exists") {
            return Err(self.wrong("EXISTS"));
        }
        let name = self.name()?;
        Ok(GroupStatement::Detach { name, if_exists })
    }

    /// The options in parentheses: our own, and those of object stores.
    #[expect(clippy::type_complexity, reason = "two lists of pairs")]
    fn options(&mut self) -> Result<(Vec<(String, String)>, Vec<(String, String)>)> {
        let (mut ours, mut of_stores) = (Vec::new(), Vec::new());
        let must = self.keyword("options");
        if self.rest.next_if_eq(&Token::LParen).is_none() {
            return if must {
                Err(self.wrong("( and options"))
            } else {
                Ok((ours, of_stores))
            };
        }
        self.among_options = true;
        while self.rest.next_if_eq(&Token::RParen).is_none() {
            if let Some((key, value)) = self.option()? {
                let list = if StoreOptions::is_store_option(&key) {
                    &mut of_stores
                } else {
                    &mut ours
                };
                list.push((key, value));
            }
            if self.rest.next_if_eq(&Token::Comma).is_none()
                && self.rest.peek() != Some(&Token::RParen)
            {
                return Err(self.wrong(", or )"));
            }
        }
        Ok((ours, of_stores))
    }

    /// An option, or `None` for one that is ignored.
    fn option(&mut self) -> Result<Option<(String, String)>> {
        let mut key = match self.rest.next() {
            Some(Token::SingleQuotedString(key)) => key,
            Some(Token::Word(word)) => word.value.to_ascii_lowercase(),
            other => return Err(self.unexpected(other, "the name of an option")),
        };
        while self.rest.next_if_eq(&Token::Period).is_some() {
            match self.rest.next() {
                Some(Token::Word(word)) => {
                    key = format!("{key}.{}", word.value.to_ascii_lowercase());
                }
                other => return Err(self.unexpected(other, "the name of an option")),
            }
        }
        let _ = self.rest.next_if_eq(&Token::Eq);
        let value = match self.rest.peek() {
            Some(Token::SingleQuotedString(text) | Token::Number(text, _)) => Some(text.clone()),
            Some(Token::Word(word)) => Some(word.value.clone()),
            _ => None,
        };
        if value.is_some() {
            self.rest.next();
        }
        match (key.as_str(), value) {
            ("read_only", value)
                if value
                    .as_deref()
                    .is_none_or(|v| v.eq_ignore_ascii_case("true")) =>
            {
                Ok(None)
            }
            ("read_only", _) => Err(Error::unsupported(
                "READ_ONLY false: an attached group is edited by tiledb_add_member and tiledb_remove_member",
            )),
            ("type", Some(value)) if value.eq_ignore_ascii_case("tiledb") => Ok(None),
            ("type", value) => Err(Error::unsupported(format!(
                "TYPE {}: only groups of TileDB can be attached",
                value.unwrap_or_default()
            ))),
            (_, Some(value)) => Ok(Some((key, value))),
            (_, None) => {
                let name = shown_name(&key).replace('\'', "\"");
                Err(self.wrong(&format!("a value for the option {name}")))
            }
        }
    }

    fn keyword(&mut self, keyword: &str) -> bool {
        let is_it = |token: &Token| matches!(token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(keyword));
        self.rest.next_if(is_it).is_some()
    }

    fn word(&mut self) {
        self.rest.next();
    }

    /// A name, in lower case unless it is quoted, as everywhere in SQL.
    fn name(&mut self) -> Result<String> {
        match self.rest.next() {
            Some(Token::Word(word)) if word.quote_style.is_some() => Ok(word.value),
            Some(Token::Word(word)) => Ok(word.value.to_ascii_lowercase()),
            other => Err(self.unexpected(other, "a name")),
        }
    }

    fn end(&mut self) -> Result<()> {
        while self.rest.next_if_eq(&Token::SemiColon).is_some() {}
        match self.rest.peek() {
            None | Some(Token::EOF) => Ok(()),
            Some(_) => Err(self.wrong("the end of the statement")),
        }
    }

    fn wrong(&mut self, expected: &str) -> Error {
        let found = self.rest.peek().cloned();
        self.unexpected(found, expected)
    }

    /// The error for an unexpected token. A text, and any word among options, may be a secret or part of a secret without its
    /// quotes, so the error names only the token's kind.
    fn unexpected(&self, found: Option<Token>, expected: &str) -> Error {
        let found = match found {
            None | Some(Token::EOF) => "the end".to_owned(),
            Some(Token::SingleQuotedString(_)) => "a text in quotes".to_owned(),
            Some(Token::Word(word)) if !self.among_options => format!("\"{word}\""),
            Some(Token::Word(_)) => "a word".to_owned(),
            Some(Token::Number(..)) => "a number".to_owned(),
            Some(
                token @ (Token::LParen
                | Token::RParen
                | Token::Comma
                | Token::Period
                | Token::Eq
                | Token::SemiColon),
            ) => format!("\"{token}\""),
            Some(_) => "something else".to_owned(),
        };
        let quotes = if self.among_options {
            "; a value stands in single quotes"
        } else {
            ""
        };
        Error::invalid(format!(
            "ATTACH or DETACH: found {found}, expected {expected}{quotes}; \
             the statements are ATTACH '<uri>' AS name (option 'value', …) and DETACH name"
        ))
    }
}

/// The default name of a group: the last part of its location, made valid for SQL without quotes.
fn name_of(uri: &str) -> String {
    let last = last_component(uri).to_ascii_lowercase();
    let fit = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    last.chars().map(fit).collect()
}
