//! `tiledb_evolve` and `tiledb_extend_enumeration`: `ALTER TABLE` for locations, and the changes that it can't express.
//!
//! ```text
//! SELECT * FROM tiledb_evolve('/data/array', add => 'c INT DEFAULT 5, d VARCHAR', drop => 'x, y',
//!                             current_domain => '[0, 99]', 'tiledb.attr.c.filters', 'zstd(9)')
//! SELECT * FROM tiledb_extend_enumeration('/data/array', 'quality', ['poor', 'missing'])
//! ```

use datafusion::catalog::Session;
use datafusion::common::ScalarValue;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::Expr;
use datafusion::sql::sqlparser::dialect::dialect_from_str;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use futures::FutureExt;
use futures::future::BoxFuture;
use tiledb_engine::SchemaEvolution;
use tiledb_engine::write::create::LiteralValue;
use tiledb_engine::{Error, Result};

use super::alter::{self, NewColumn, add_columns};
use super::once::{ChangeFunction, FinishedAlteration, PendingAlteration};
use crate::dml::value_of;
use crate::functions::arguments::{FunctionCall, FunctionTarget, NameResolver, text};
use crate::options::{TableOptions, is_creation};
use crate::table::provider::TileDbTable;

/// The arguments of `tiledb_evolve` besides the options of tables and of creation.
const ADD: &str = "add";
const ADD_IF_MISSING: &str = "add_if_missing";
const DROP: &str = "drop";
const DROP_IF_THERE: &str = "drop_if_there";

/// `tiledb_evolve`.
pub(super) struct Evolve {
    call: FunctionCall,
    /// The options that describe columns, as written.
    creation: Vec<(String, String)>,
}

impl ChangeFunction for Evolve {
    const NAME: &'static str = "tiledb_evolve";

    fn parse(arguments: &[Expr]) -> Result<Self> {
        let Some((target, rest)) = arguments.split_first() else {
            return Err(usage(Self::NAME, "there are no arguments"));
        };
        // The check of table options must not see options of columns.
        let mut kept = vec![target.clone()];
        let mut creation = Vec::new();
        for (index, pair) in rest.chunks(2).enumerate() {
            match pair {
                [key, value] if is_creation(&text(Self::NAME, 2 * index + 1, key)?) => {
                    let key = text(Self::NAME, 2 * index + 1, key)?;
                    creation.push((key, text(Self::NAME, 2 * index + 2, value)?));
                }
                pair => kept.extend_from_slice(pair),
            }
        }
        let own = [ADD, ADD_IF_MISSING, DROP, DROP_IF_THERE];
        let call = FunctionCall::parse_with(Self::NAME, &own, &kept)?;
        check_time(&call)?;
        Ok(Self { call, creation })
    }

    fn prepare<'a>(&'a self, session: &'a dyn Session) -> BoxFuture<'a, Result<PendingAlteration>> {
        async move {
            let target = target_of(&self.call, session).await?;
            let state = session
                .as_any()
                .downcast_ref::<SessionState>()
                .ok_or_else(|| {
                    Error::unsupported(format!(
                        "{} needs a session of DataFusion to read the definitions of columns",
                        Self::NAME
                    ))
                })?;
            let mut evolution = SchemaEvolution::new();
            for (key, value) in &self.call.own {
                let key = key.strip_prefix("tiledb.").unwrap_or(key);
                let in_option = |e: Error| e.with("option", key);
                match key {
                    ADD | ADD_IF_MISSING => {
                        let if_not_exists = key == ADD_IF_MISSING;
                        let columns = parsed(value, state, |p| {
                            p.parse_comma_separated(Parser::parse_column_def)
                        })
                        .map_err(in_option)?
                        .into_iter()
                        .map(|definition| NewColumn {
                            definition,
                            if_not_exists,
                        });
                        evolution = add_columns(evolution, columns.collect(), state).await?;
                    }
                    _ => {
                        let names = parsed(value, state, |p| {
                            p.parse_comma_separated(Parser::parse_identifier)
                        });
                        for name in names.map_err(in_option)? {
                            let name = alter::name_of(name, state);
                            evolution = if key == DROP_IF_THERE {
                                evolution.drop_column_if_there(&name)
                            } else {
                                evolution.drop_column(&name)
                            };
                        }
                    }
                }
            }
            for (key, value) in &self.creation {
                evolution = evolution.option(key, value)?;
            }
            Ok(doing(evolution, target))
        }
        .boxed()
    }
}

/// Parses the whole text.
fn parsed<T>(
    text: &str,
    session: &SessionState,
    parse: impl Fn(&mut Parser<'_>) -> std::result::Result<T, ParserError>,
) -> Result<T> {
    let name = session.config_options().sql_parser.dialect;
    let dialect = dialect_from_str(name)
        .ok_or_else(|| Error::invalid(format!("there is no SQL dialect {name}")))?;
    let parsed = Parser::new(dialect.as_ref())
        .try_with_sql(text)
        .and_then(|mut parser| {
            let parsed = parse(&mut parser)?;
            match parser.peek_token().token {
                datafusion::sql::sqlparser::tokenizer::Token::EOF => Ok(parsed),
                other => Err(ParserError::ParserError(format!(
                    "found {other}, expected the end"
                ))),
            }
        });
    parsed.map_err(|e| Error::invalid(format!("'{text}' cannot be parsed")).with_source(e))
}

/// `tiledb_extend_enumeration`.
pub(super) struct ExtendEnumeration {
    call: FunctionCall,
    column: String,
    values: Vec<LiteralValue>,
}

impl ChangeFunction for ExtendEnumeration {
    const NAME: &'static str = "tiledb_extend_enumeration";

    fn parse(arguments: &[Expr]) -> Result<Self> {
        let [target, column, values, options @ ..] = arguments else {
            return Err(usage(
                Self::NAME,
                &format!("{} arguments are given", arguments.len()),
            ));
        };
        let rest = std::iter::once(target).chain(options).cloned();
        let call = FunctionCall::parse(Self::NAME, &rest.collect::<Vec<_>>())?;
        check_time(&call)?;
        Ok(Self {
            call,
            column: text(Self::NAME, 1, column)?,
            values: self::values(values)?,
        })
    }

    fn prepare<'a>(&'a self, session: &'a dyn Session) -> BoxFuture<'a, Result<PendingAlteration>> {
        async move {
            let target = target_of(&self.call, session).await?;
            let values = self.values.clone();
            let evolution = SchemaEvolution::new().extend_enumeration(&self.column, values);
            Ok(doing(evolution, target))
        }
        .boxed()
    }
}

/// The values of an argument: one, or a list.
fn values(argument: &Expr) -> Result<Vec<LiteralValue>> {
    let wrong = |found: &str| {
        usage(
            ExtendEnumeration::NAME,
            &format!("argument 3 is {found}, expected a list of values"),
        )
    };
    let Expr::Literal(value, _) = argument else {
        return Err(wrong("an expression that is not constant"));
    };
    let elements = match value {
        ScalarValue::List(list) if !value.is_null() => {
            let elements = list.value(0);
            let each = (0..elements.len()).map(|i| ScalarValue::try_from_array(&elements, i));
            each.collect::<datafusion::error::Result<Vec<_>>>()
                .map_err(|e| wrong("an odd list").with_source(e))?
        }
        single => vec![single.clone()],
    };
    elements
        .into_iter()
        .map(|element| match value_of(&element) {
            Some(value) => Ok(value),
            None if element.is_null() => Err(wrong("NULL, or a list with NULL")),
            None => Err(wrong(&element.data_type().to_string())),
        })
        .collect()
}

/// Evolves the target once it is awaited.
fn doing(evolution: SchemaEvolution, target: FunctionTarget) -> PendingAlteration {
    let evolution = evolution.timestamp_if_given(target.options.write_timestamp);
    async move {
        let table = target.table.as_ref();
        let table = table.and_then(|table| table.downcast_ref::<TileDbTable>());
        let evolved = evolution.apply(&target.storage).await?;
        if let Some(table) = table {
            table.set_outdated();
        }
        let file = (!evolved.changes.is_empty()).then_some(evolved.schema);
        Ok(FinishedAlteration {
            uri: target.storage.uri().to_owned(),
            changes: evolved.changes,
            file: file.map(|name| format!("__schema/{name}")),
        })
    }
    .boxed()
}

/// Fails if the call has a time in the past, because the past cannot change.
pub(super) fn check_time(call: &FunctionCall) -> Result<()> {
    check_options(call, &call.table_options()?)
}

/// The target of a call. Fails if the target shows the past: a table or a location can also have a timestamp.
pub(super) async fn target_of(
    call: &FunctionCall,
    session: &dyn Session,
) -> Result<FunctionTarget> {
    let target = NameResolver::of(session).resolve(call).await?;
    check_options(call, &target.options)?;
    Ok(target)
}

fn check_options(call: &FunctionCall, options: &TableOptions) -> Result<()> {
    if options.timestamp_start.is_none() && options.timestamp_end.is_none() {
        return Ok(());
    }
    Err(usage(
        call.function,
        "a timestamp says which past to look at, and the past does not change; write_timestamp sets the time of a change",
    ))
}

pub(super) fn usage(function: &str, problem: &str) -> Error {
    let form = match function {
        Evolve::NAME => "add => 'c INT DEFAULT 5', drop => 'd', current_domain => '[0, 99]'",
        ExtendEnumeration::NAME => "'<column>', ['value', …]",
        "tiledb_set_metadata" => "'<key>', value, type => 'INT32'",
        "tiledb_delete_metadata" => "'<key>'",
        "tiledb_create_group" => "'option', 'value'",
        "tiledb_add_member" => "'<member>', name => '<name>', relative => true",
        _ => "'<name>'",
    };
    Error::invalid(format!(
        "{function}: {problem}; call it as {function}('<location or table>', {form})"
    ))
}
