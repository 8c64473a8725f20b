//! An existing array → the statement that creates one like it.
//!
//! Comments before the statement list what it can't express, so that nothing is lost silently. They never show a key.

use std::fmt::Write;

use datafusion::sql::sqlparser::keywords::ALL_KEYWORDS;
use tiledb_engine::Result;
use tiledb_engine::arrow::ArrayEnumerations;
use tiledb_engine::format::names::last_component;
use tiledb_engine::format::schema::ArraySchema;
use tiledb_engine::storage::Storage;
use tiledb_engine::write::create::{ArrayDefinition, CreateWording, OptionKey, sql_name};

/// The statement that creates an array like the one with this schema at `storage`, as a table called `table`; or a comment with
/// the reason why no statement does.
pub(crate) fn statement_of(
    schema: &ArraySchema,
    enumerations: &ArrayEnumerations,
    storage: &Storage,
    table: Option<&str>,
) -> String {
    try_statement_of(schema, enumerations, storage, table)
        .unwrap_or_else(|e| comment(&format!("No statement creates such an array: {e}")))
}

fn try_statement_of(
    schema: &ArraySchema,
    enumerations: &ArrayEnumerations,
    storage: &Storage,
    table: Option<&str>,
) -> Result<String> {
    let (definition, mut missing) = ArrayDefinition::of(schema, enumerations)?;
    if storage.encryption_key().is_some() {
        missing.push("the key of the encrypted array".to_owned());
    }
    let wording = CreateWording::of(&definition, missing)?;
    let uri = storage.uri().to_string();
    let own_name = last_component(&uri).to_owned();
    Ok(statement_with(&wording, table.unwrap_or(&own_name), &uri))
}

/// The statement with these columns and options.
fn statement_with(wording: &CreateWording, table: &str, location: &str) -> String {
    let mut sql = String::new();
    // Writing to a string does not fail.
    for missing in wording.missing.iter().cloned().chain(ambiguous(wording)) {
        let _ = writeln!(
            sql,
            "{}",
            comment(&format!("Not in this statement: {missing}"))
        );
    }
    if let Some(why) = &wording.refused {
        let _ = writeln!(
            sql,
            "{}",
            comment(&format!("This statement is refused: {why}"))
        );
    }
    let _ = writeln!(sql, "CREATE EXTERNAL TABLE {} (", identifier(table));
    for (name, data_type, nullable) in &wording.columns {
        let not_null = if *nullable { "" } else { " NOT NULL" };
        let _ = writeln!(
            sql,
            "  {} {}{not_null},",
            identifier(name),
            sql_name(data_type)
        );
    }
    let dimensions: Vec<_> = wording
        .columns
        .iter()
        .take(wording.dimensions)
        .map(|(name, ..)| identifier(name))
        .collect();
    let _ = writeln!(sql, "  PRIMARY KEY ({})", dimensions.join(", "));
    let _ = write!(sql, ") STORED AS TILEDB LOCATION {}", literal(location));
    if !wording.options.is_empty() {
        let options = wording.options.iter().map(|(key, value)| {
            format!(
                "\n  {} {}",
                literal(&format!("tiledb.{key}")),
                literal(value)
            )
        });
        let _ = write!(
            sql,
            " OPTIONS ({}\n)",
            options.collect::<Vec<_>>().join(",")
        );
    }
    sql
}

/// The options that a statement cannot express, because options lose the case of letters and two columns differ only in it.
fn ambiguous(wording: &CreateWording) -> Vec<String> {
    let alike = |name: &str| {
        let lower = name.to_lowercase();
        let columns = wording.columns.iter();
        columns
            .filter(|(column, ..)| column.to_lowercase() == lower)
            .count()
            > 1
    };
    let options = wording
        .options
        .iter()
        .filter(|(key, _)| match OptionKey::parse(key) {
            Some(OptionKey::Dimension(name, _) | OptionKey::Attribute(name, _)) => alike(name),
            _ => false,
        });
    options
        .map(|(key, _)| format!("option tiledb.{key}, whose column another one is called like but for the case of letters"))
        .collect()
}

/// A name, in quotes unless it means the same without.
fn identifier(name: &str) -> String {
    let mut letters = name.chars();
    let plain = letters
        .next()
        .is_some_and(|c| c.is_ascii_lowercase() || c == '_')
        && letters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let upper = name.to_ascii_uppercase();
    if plain && ALL_KEYWORDS.binary_search(&upper.as_str()).is_err() {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

fn comment(text: &str) -> String {
    format!("-- {}", text.replace(['\n', '\r'], " "))
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::DataType;

    use super::*;

    #[test]
    fn a_statement_quotes_what_needs_quotes() {
        let column = |name: &str, data_type, nullable| (name.to_owned(), data_type, nullable);
        let wording = CreateWording {
            columns: vec![
                column("x", DataType::Int32, false),
                column("Order \"1\"", DataType::Utf8View, true),
                column("select", DataType::UInt8, false),
            ],
            dimensions: 1,
            options: vec![("attr.select.fill".to_owned(), "it's".to_owned())],
            missing: vec!["this\nor that".to_owned()],
            refused: Some("not today".to_owned()),
        };
        assert_eq!(
            statement_with(&wording, "t", "/data/it's"),
            "-- Not in this statement: this or that\n-- This statement is refused: not today\n\
             CREATE EXTERNAL TABLE t (\n  x INT NOT NULL,\n  \"Order \"\"1\"\"\" VARCHAR,\n  \"select\" TINYINT UNSIGNED NOT NULL,\n  \
             PRIMARY KEY (x)\n) STORED AS TILEDB LOCATION '/data/it''s' OPTIONS (\n  'tiledb.attr.select.fill' 'it''s'\n)"
        );
    }

    #[test]
    fn options_of_names_that_differ_in_case_are_told() {
        let column = |name: &str| (name.to_owned(), DataType::Int32, false);
        let wording = CreateWording {
            columns: vec![column("a"), column("A"), column("b")],
            dimensions: 1,
            options: vec![
                ("dim.a.tile".to_owned(), "1".to_owned()),
                ("attr.b.fill".to_owned(), "1".to_owned()),
            ],
            missing: Vec::new(),
            refused: None,
        };
        let told = ambiguous(&wording);
        assert_eq!(told.len(), 1);
        assert!(told[0].starts_with("option tiledb.dim.a.tile"));
    }
}
