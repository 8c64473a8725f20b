//! Suggestions in the errors of misspelled tables, functions and settings. DataFusion makes its own for columns.

use datafusion::common::TableReference;
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;

use crate::options::most_similar;

/// The schema of tables that describe the session.
const INFORMATION_SCHEMA: &str = "information_schema";

/// The error, with the name that the user may have meant.
pub(super) fn with_suggestion(ctx: &SessionContext, error: DataFusionError) -> DataFusionError {
    match error {
        DataFusionError::Plan(text) if text.starts_with(INVALID_FUNCTION) => {
            DataFusionError::Plan(function(ctx, &text).unwrap_or(text))
        }
        DataFusionError::Plan(text) => {
            let suggestion = suggestion(ctx, &text).unwrap_or_default();
            DataFusionError::Plan(text + &suggestion)
        }
        DataFusionError::Context(text, inner) => {
            let suggestion = setting(ctx, &text).unwrap_or_default();
            DataFusionError::Context(text, Box::new(with_text(*inner, &suggestion)))
        }
        DataFusionError::Diagnostic(diagnostic, inner) => {
            let inner = with_suggestion(ctx, *inner);
            DataFusionError::Diagnostic(diagnostic, Box::new(inner))
        }
        DataFusionError::Collection(errors) => {
            let errors = errors.into_iter();
            DataFusionError::Collection(errors.map(|e| with_suggestion(ctx, e)).collect())
        }
        other => other,
    }
}

fn with_text(error: DataFusionError, more: &str) -> DataFusionError {
    match error {
        DataFusionError::Configuration(text) => DataFusionError::Configuration(text + more),
        other => other,
    }
}

/// The suggestion for an error in planning.
fn suggestion(ctx: &SessionContext, text: &str) -> Option<String> {
    if let Some(name) = between(text, "table '", "' not found") {
        return table(ctx, name);
    }
    if let Some(name) = between(text, "table function '", "' not found") {
        let state = ctx.state();
        let known = state.table_functions().keys().map(String::as_str);
        let similar = most_similar(name, known)?;
        return Some(format!(". Did you mean '{similar}'?"));
    }
    let name = between(text, "Unsupported compound identifier '", "'")?;
    nested_name(ctx, name)
}

/// How DataFusion's error for an unknown function begins.
const INVALID_FUNCTION: &str = "Invalid function '";

/// The error for an unknown function. DataFusion's suggestion counts two letters that changed places as two errors, and may be a
/// function that only plans use.
fn function(ctx: &SessionContext, text: &str) -> Option<String> {
    let name = between(text, INVALID_FUNCTION, "'")?;
    let state = ctx.state();
    let scalar = state.scalar_functions().keys();
    let others = state
        .aggregate_functions()
        .keys()
        .chain(state.window_functions().keys());
    let known = scalar.chain(others).map(String::as_str);
    let known = known.filter(|name| !name.starts_with("tiledb_"));
    let suggestion = match most_similar(name, known) {
        Some(similar) => format!(" Did you mean '{similar}'?"),
        None => String::new(),
    };
    Some(format!("{INVALID_FUNCTION}{name}'.{suggestion}"))
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(inside, _)| inside)
}

/// The table with a name like `catalog.schema.name`.
fn table(ctx: &SessionContext, name: &str) -> Option<String> {
    let mut parts = name.splitn(3, '.');
    let (catalog, schema, name) = (parts.next()?, parts.next()?, parts.next()?);
    let state = ctx.state();
    let defaults = &state.config_options().catalog;
    let is_default = catalog == defaults.default_catalog && schema == defaults.default_schema;
    let tables = ctx.catalog(catalog)?.schema(schema)?.table_names();
    let similar = most_similar(name, tables.iter().map(String::as_str));
    if let Some(similar) = similar {
        let similar = if is_default {
            TableReference::bare(similar)
        } else {
            TableReference::full(catalog, schema, similar)
        };
        return Some(did_you_mean(&similar));
    }
    if !is_default {
        return None;
    }
    // A table of a group needs the name of the group.
    let catalog = ctx.catalog(&defaults.default_catalog)?;
    let mut schemas = catalog.schema_names();
    schemas.retain(|schema| schema != INFORMATION_SCHEMA);
    let has = |schema: &String| {
        let schema = catalog.schema(schema);
        schema.is_some_and(|schema| schema.table_exist(name))
    };
    let schema = schemas
        .into_iter()
        .filter(|s| *s != defaults.default_schema)
        .find(has)?;
    Some(did_you_mean(&TableReference::partial(schema, name)))
}

/// The name in quotes where SQL needs them.
fn did_you_mean(table: &TableReference) -> String {
    format!(". Did you mean '{}'?", table.to_quoted_string())
}

/// The quoted form of a name with more than three parts, whose first one is an attached group: `experiment."ms/RNA".var`.
fn nested_name(ctx: &SessionContext, name: &str) -> Option<String> {
    let parts = name
        .split('.')
        .map(|part| part.trim_matches('"'))
        .collect::<Vec<_>>();
    let (group, inside) = parts.split_first()?;
    let (array, folders) = inside.split_last()?;
    ctx.catalog(group)?;
    let folders = folders.join("/");
    Some(format!(
        ". Names of nested groups go into one pair of quotes: {group}.\"{folders}\".{array}"
    ))
}

/// The setting that is most like one that is unknown; DataFusion names it in the context of its error.
fn setting(ctx: &SessionContext, text: &str) -> Option<String> {
    let name = text.strip_prefix("Error setting config ")?;
    let state = ctx.state();
    let entries = state.config_options().entries();
    let known = entries.iter().map(|entry| entry.key.as_str());
    let similar = most_similar(name, known).filter(|similar| *similar != name)?;
    Some(format!(". Did you mean '{similar}'?"))
}
