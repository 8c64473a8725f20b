//! The tables that statements name.

use datafusion::common::{Result, TableReference};
use datafusion::execution::session_state::SessionState;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Statement as SqlStatement, TableObject};

use super::execute::{ParsedStatement, parse};
use crate::table::url_table::looks_like_location;

/// The tables that a statement reads by a plain name, and that no catalog of the session knows. A program can offer data of its own
/// under these names. Paths, and names that the statement defines itself, are not among them.
///
/// ```
/// use datafusion::prelude::SessionContext;
/// use datafusion_tiledb::session::unknown_tables;
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let ctx = SessionContext::new();
/// datafusion_tiledb::register(&ctx)?;
/// let sql = "WITH cold AS (SELECT * FROM './examples/data/weather_stations') SELECT * FROM cold JOIN stations USING (station)";
/// assert_eq!(unknown_tables(&ctx, sql)?, ["stations"]);
/// # Ok(())
/// # }
/// # example().unwrap();
/// ```
///
/// # Errors
///
/// The text can't be parsed as one statement.
pub fn unknown_tables(ctx: &SessionContext, sql: &str) -> Result<Vec<String>> {
    let state = ctx.state();
    let options = &state.config_options().sql_parser;
    let statement = match parse(sql, options.dialect, Some(options.recursion_limit.get()))? {
        ParsedStatement::Group(_) => return Ok(Vec::new()),
        ParsedStatement::Summary(statement) | ParsedStatement::Sql(statement) => statement,
    };
    let Some(targets) = targets(&statement) else {
        return Ok(Vec::new());
    };
    let names = state.resolve_table_references(&statement)?;
    let is_read = |name: &&TableReference| !targets.iter().any(|target| target == name.table());
    let unknown = names.iter().filter(is_read);
    let unknown = unknown.filter_map(|name| unknown_name(&state, name));
    Ok(unknown.collect())
}

/// The plain name of a table, if no catalog knows it.
fn unknown_name(state: &SessionState, name: &TableReference) -> Option<String> {
    let TableReference::Bare { table } = name else {
        return None;
    };
    // The call of a function names the function.
    let is_function = state.table_functions().contains_key(table.as_ref());
    let is_unknown = !is_function
        && !looks_like_location(table)
        && state
            .schema_for_ref(name.clone())
            .is_ok_and(|schema| !schema.table_exist(table));
    is_unknown.then(|| table.to_string())
}

/// The names of what a statement makes or changes; `None` if it reads no tables.
fn targets(statement: &Statement) -> Option<Vec<String>> {
    match statement {
        Statement::Statement(statement) => sql_targets(statement),
        Statement::CopyTo(_) => Some(Vec::new()),
        Statement::Explain(explain) => targets(&explain.statement),
        _ => None,
    }
}

fn sql_targets(statement: &SqlStatement) -> Option<Vec<String>> {
    let name = match statement {
        SqlStatement::Query(_) => return Some(Vec::new()),
        SqlStatement::Insert(insert) => match &insert.table {
            TableObject::TableName(name) => name,
            _ => return Some(Vec::new()),
        },
        SqlStatement::CreateTable(create) => &create.name,
        SqlStatement::CreateView(create) => &create.name,
        SqlStatement::Merge(_) | SqlStatement::Update(_) | SqlStatement::Delete(_) => {
            return Some(Vec::new());
        }
        SqlStatement::Explain { statement, .. } => return sql_targets(statement),
        _ => return None,
    };
    let last = name.0.last().and_then(|part| part.as_ident())?;
    Some(vec![match last.quote_style {
        Some(_) => last.value.clone(),
        None => last.value.to_lowercase(),
    }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_are_read_and_unknown_are_found() {
        let ctx = SessionContext::new();
        crate::register(&ctx).unwrap();
        let batch = datafusion::arrow::record_batch::RecordBatch::new_empty(
            datafusion::arrow::datatypes::Schema::empty().into(),
        );
        ctx.register_batch("known", batch).unwrap();
        for (sql, expected) in [
            (
                "SELECT * FROM a JOIN known ON true JOIN b ON true",
                vec!["a", "b"],
            ),
            ("SELECT * FROM Mixed, \"Mixed\"", vec!["Mixed", "mixed"]),
            (
                "SELECT * FROM './path', 's3://bucket/a', tiledb_scan('x')",
                vec![],
            ),
            ("SELECT * FROM catalog.schema.t, public.t", vec![]),
            ("WITH a AS (SELECT * FROM b) SELECT * FROM a", vec!["b"]),
            (
                "SELECT (SELECT max(n) FROM a) WHERE EXISTS (SELECT 1 FROM b)",
                vec!["a", "b"],
            ),
            ("INSERT INTO t SELECT * FROM a", vec!["a"]),
            ("CREATE TABLE t AS SELECT * FROM a", vec!["a"]),
            ("CREATE VIEW t AS SELECT * FROM a", vec!["a"]),
            ("COPY (SELECT * FROM a) TO 'x.csv'", vec!["a"]),
            ("EXPLAIN SELECT * FROM a", vec!["a"]),
            ("SUMMARIZE SELECT * FROM a", vec!["a"]),
            (
                "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'a.csv'",
                vec![],
            ),
            ("DROP TABLE t", vec![]),
            ("SET datafusion.execution.batch_size = 1", vec![]),
            ("ATTACH 'g' AS g", vec![]),
        ] {
            let mut found = unknown_tables(&ctx, sql).unwrap();
            found.sort_unstable();
            assert_eq!(found, expected, "{sql}");
        }
        assert!(unknown_tables(&ctx, "SELEC 1").is_err());
    }
}
