//! `\h`: the grammar of the statements that the shell takes.

use datafusion::error::Result;

use crate::report;

/// A statement, and its grammar in the notation of PostgreSQL's manual: `[optional]`, `{one | of | these}`, `…` for repetition.
struct StatementSyntax {
    name: &'static str,
    does: &'static str,
    grammar: &'static str,
    /// Statements that follow the grammar.
    examples: &'static [&'static str],
}

/// The names of the statements.
pub fn names() -> impl Iterator<Item = &'static str> {
    STATEMENTS.iter().map(|syntax| syntax.name)
}

/// The statements and what they do.
pub fn statements() -> impl Iterator<Item = (String, String)> {
    STATEMENTS
        .iter()
        .map(|syntax| (syntax.name.to_owned(), syntax.does.to_owned()))
}

/// The grammar of the statements whose names begin like a text.
///
/// # Errors
///
/// Fails if no name of a statement begins like that.
pub fn grammar(statement: &str) -> Result<String> {
    let wanted = statement
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .to_uppercase();
    let is_wanted = |syntax: &&StatementSyntax| {
        let name = syntax.name;
        name.starts_with(&wanted) || wanted.starts_with(&format!("{name} "))
    };
    let mut texts = Vec::new();
    for syntax in STATEMENTS.iter().filter(is_wanted) {
        let mut text = format!("{}: {}\n\n", syntax.name, syntax.does);
        for line in syntax.grammar.lines() {
            text.push_str(&format!("  {line}\n"));
        }
        text.push('\n');
        for example in syntax.examples {
            text.push_str(&format!("  {example};\n"));
        }
        texts.push(text);
    }
    if texts.is_empty() {
        let names = STATEMENTS.iter().map(|syntax| syntax.name);
        let similar = report::did_you_mean(&wanted, names, "\\h ");
        return Err(report::message(format!(
            "no statement begins with '{statement}'; '\\h' lists the statements{similar}"
        )));
    }
    Ok(texts.join("\n"))
}

const STATEMENTS: [StatementSyntax; 27] = [
    StatementSyntax {
        name: "ALTER TABLE",
        does: "add or drop columns of an array, or change its properties",
        grammar: "\
ALTER TABLE [IF EXISTS] table action, …
where action is
  ADD [COLUMN] [IF NOT EXISTS] name type [NOT NULL] [DEFAULT constant] [OPTIONS (option = 'value', …)]
  DROP [COLUMN] [IF EXISTS] name
  SET TBLPROPERTIES ('tiledb.current_domain' = '[low, high], …', 'tiledb.attr.name.filters' = 'filters', …)",
        examples: &[
            "ALTER TABLE readings ADD COLUMN humidity REAL, DROP COLUMN note",
            "ALTER TABLE readings SET TBLPROPERTIES ('tiledb.current_domain' = '[0, 1000]')",
        ],
    },
    StatementSyntax {
        name: "ATTACH",
        does: "make a group a catalog and a schema",
        grammar: "\
ATTACH [GROUP] [IF NOT EXISTS] 'path or URL' [AS [CATALOG | SCHEMA] name] [(option 'value', …)]",
        examples: &[
            "ATTACH './experiment' AS exp",
            "ATTACH 's3://bucket/experiment' AS exp (timestamp '2024-05-01', 'aws.region' 'eu-west-1')",
        ],
    },
    StatementSyntax {
        name: "COPY",
        does: "write the rows of a table or a query to files or a new array",
        grammar: "\
COPY {table | (query)} TO 'path or URL'
  [STORED AS {TILEDB | PARQUET | CSV | JSON | ARROW}]
  [PARTITIONED BY (column, …)]
  [OPTIONS ('option' 'value', …)]
The name of the file decides the format: .parquet, .csv, .tsv, .json, .ndjson, .jsonl, .arrow.
For an array, PARTITIONED BY names the dimensions.",
        examples: &[
            "COPY (SELECT * FROM './weather' WHERE temperature < 0) TO 'frost.parquet'",
            "COPY readings TO './readings' STORED AS TILEDB PARTITIONED BY (station, time)",
        ],
    },
    StatementSyntax {
        name: "CREATE EXTERNAL TABLE",
        does: "create an array, or give an array or files a name",
        grammar: "\
CREATE [UNBOUNDED] [OR REPLACE] EXTERNAL TABLE [IF NOT EXISTS] name
  [(column type [NOT NULL] [DEFAULT constant], …, [PRIMARY KEY (dimension, …)])]
  STORED AS {TILEDB | PARQUET | CSV | JSON | AVRO | ARROW}
  [PARTITIONED BY (column, …)]
  [WITH ORDER (expression [ASC | DESC], …)]
  LOCATION 'path or URL'
  [OPTIONS ('option' 'value', …)]",
        examples: &[
            "CREATE EXTERNAL TABLE weather STORED AS TILEDB LOCATION './weather' OPTIONS ('tiledb.timestamp' '2024-05-01')",
            "CREATE EXTERNAL TABLE readings (id BIGINT NOT NULL, value DOUBLE, PRIMARY KEY (id)) STORED AS TILEDB LOCATION './readings'",
        ],
    },
    StatementSyntax {
        name: "CREATE FUNCTION",
        does: "create a function from an expression",
        grammar: "CREATE [OR REPLACE] FUNCTION name([argument type, …]) RETURNS type [IMMUTABLE | STABLE | VOLATILE] RETURN expression",
        examples: &["CREATE FUNCTION double(DOUBLE) RETURNS DOUBLE RETURN $1 * 2"],
    },
    StatementSyntax {
        name: "CREATE SCHEMA",
        does: "create a schema of tables in memory",
        grammar: "CREATE SCHEMA [IF NOT EXISTS] name",
        examples: &["CREATE SCHEMA lab"],
    },
    StatementSyntax {
        name: "CREATE TABLE",
        does: "create a table in memory",
        grammar: "\
CREATE [OR REPLACE] TABLE [IF NOT EXISTS] name {AS query | (column type [NOT NULL], …) [AS query]}",
        examples: &["CREATE TABLE cold AS SELECT * FROM './weather' WHERE temperature < 0"],
    },
    StatementSyntax {
        name: "CREATE VIEW",
        does: "give a query a name",
        grammar: "CREATE [OR REPLACE] VIEW name [(column, …)] AS query",
        examples: &["CREATE VIEW cold AS SELECT * FROM './weather' WHERE temperature < 0"],
    },
    StatementSyntax {
        name: "DEALLOCATE",
        does: "forget a prepared statement",
        grammar: "DEALLOCATE [PREPARE] name",
        examples: &["DEALLOCATE coldest"],
    },
    StatementSyntax {
        name: "DELETE",
        does: "remove rows of an array",
        grammar: "DELETE FROM table [WHERE condition]",
        examples: &["DELETE FROM readings WHERE station = 'Bergen' AND temperature IS NULL"],
    },
    StatementSyntax {
        name: "DESCRIBE",
        does: "show the columns of a table or a query",
        grammar: "{DESCRIBE | DESC} {table | query}",
        examples: &["DESCRIBE './weather'"],
    },
    StatementSyntax {
        name: "DETACH",
        does: "detach a group",
        grammar: "DETACH [GROUP] [IF EXISTS] name",
        examples: &["DETACH exp"],
    },
    StatementSyntax {
        name: "DROP",
        does: "forget a table, view, schema or function; arrays and files stay",
        grammar: "\
DROP {TABLE | VIEW | FUNCTION} [IF EXISTS] name
DROP SCHEMA [IF EXISTS] name [CASCADE | RESTRICT]",
        examples: &["DROP TABLE IF EXISTS weather"],
    },
    StatementSyntax {
        name: "EXECUTE",
        does: "run a prepared statement",
        grammar: "EXECUTE name [(value, …)]",
        examples: &["EXECUTE coldest('Bergen')"],
    },
    StatementSyntax {
        name: "EXPLAIN",
        does: "show the plan of a statement, or what it has read",
        grammar: "EXPLAIN [ANALYZE] [VERBOSE] [FORMAT {INDENT | TREE | PGJSON | GRAPHVIZ}] statement",
        examples: &["EXPLAIN ANALYZE SELECT avg(temperature) FROM './weather' WHERE station = 'Bergen'"],
    },
    StatementSyntax {
        name: "FROM",
        does: "show all columns of a table",
        grammar: "FROM table [SELECT column, …] [WHERE condition] [LIMIT rows]",
        examples: &["FROM './weather' LIMIT 10"],
    },
    StatementSyntax {
        name: "INSERT",
        does: "write rows into an array",
        grammar: "\
INSERT INTO table [(column, …)] {VALUES (value | DEFAULT, …), … | query | DEFAULT VALUES}
INSERT OVERWRITE table [(column, …)] {VALUES … | query}
REPLACE INTO table [(column, …)] {VALUES … | query}
INSERT OVERWRITE replaces all rows. In an array without duplicates, a row replaces the row at the same coordinates.",
        examples: &[
            "INSERT INTO readings (station, day) VALUES ('Bergen', '2024-02-29')",
            "INSERT OVERWRITE readings SELECT * FROM 'readings.parquet'",
        ],
    },
    StatementSyntax {
        name: "MERGE",
        does: "insert, update and delete rows by comparing them with a query",
        grammar: "\
MERGE INTO table [AS alias] USING {table | (query)} [AS alias] ON condition
  WHEN MATCHED [AND condition] THEN {UPDATE SET column = value, … | DELETE}
  WHEN NOT MATCHED [AND condition] THEN INSERT [(column, …)] VALUES (value, …)
  WHEN NOT MATCHED BY SOURCE [AND condition] THEN {UPDATE SET column = value, … | DELETE}",
        examples: &[
            "MERGE INTO readings USING news ON readings.id = news.id WHEN MATCHED THEN UPDATE SET value = news.value WHEN NOT MATCHED THEN INSERT (id, value) VALUES (news.id, news.value)",
        ],
    },
    StatementSyntax {
        name: "PREPARE",
        does: "plan a statement with parameters",
        grammar: "PREPARE name [(type, …)] AS statement",
        examples: &["PREPARE coldest(VARCHAR) AS SELECT min(temperature) FROM './weather' WHERE station = $1"],
    },
    StatementSyntax {
        name: "RESET",
        does: "give a setting its default",
        grammar: "RESET setting",
        examples: &["RESET datafusion.execution.batch_size"],
    },
    StatementSyntax {
        name: "SELECT",
        does: "query arrays and files",
        grammar: "\
[WITH name [(column, …)] AS (query), …]
SELECT [DISTINCT [ON (expression, …)]] {* [EXCLUDE (column, …)] | expression [AS name]}, …
FROM {table | 'path or URL' | function(…) | (query)} [FOR SYSTEM_TIME AS OF time] [[AS] alias]
  [[INNER | LEFT | RIGHT | FULL | CROSS | LEFT SEMI | LEFT ANTI] JOIN … {ON condition | USING (column, …)}]
[WHERE condition]
[GROUP BY {ALL | expression, … | CUBE (…) | ROLLUP (…) | GROUPING SETS (…)}]
[HAVING condition] [QUALIFY condition]
[{UNION | INTERSECT | EXCEPT} [ALL] query]
[ORDER BY {ALL | expression} [ASC | DESC] [NULLS {FIRST | LAST}], …]
[LIMIT rows] [OFFSET rows]",
        examples: &[
            "SELECT station, avg(temperature) FROM './weather' GROUP BY ALL ORDER BY ALL",
            "SELECT count(*) FROM './weather' FOR SYSTEM_TIME AS OF '2024-05-01'",
        ],
    },
    StatementSyntax {
        name: "SET",
        does: "change a setting",
        grammar: "SET setting {= | TO} value",
        examples: &["SET tiledb.enable_metadata_aggregates = false"],
    },
    StatementSyntax {
        name: "SHOW",
        does: "list tables, columns, functions or settings",
        grammar: "\
SHOW {TABLES | COLUMNS FROM table | FUNCTIONS [LIKE pattern] | ALL | setting}
SHOW CREATE TABLE table",
        examples: &["SHOW COLUMNS FROM weather", "SHOW ALL"],
    },
    StatementSyntax {
        name: "SUMMARIZE",
        does: "show the range, the mean and the gaps of each column",
        grammar: "SUMMARIZE {table | 'path or URL' | query}",
        examples: &["SUMMARIZE './weather'", "SUMMARIZE SELECT * FROM './weather' WHERE temperature < 0"],
    },
    StatementSyntax {
        name: "TRUNCATE",
        does: "remove all rows of an array",
        grammar: "TRUNCATE TABLE table",
        examples: &["TRUNCATE TABLE readings"],
    },
    StatementSyntax {
        name: "UPDATE",
        does: "change rows of an array",
        grammar: "UPDATE table SET column = {value | DEFAULT}, … [WHERE condition]",
        examples: &["UPDATE readings SET temperature = temperature + 0.5 WHERE station = 'Bergen'"],
    },
    StatementSyntax {
        name: "VALUES",
        does: "a table of the given rows",
        grammar: "VALUES (value, …), …",
        examples: &["VALUES (1, 'one'), (2, 'two')"],
    },
];

#[cfg(test)]
mod tests {
    use datafusion::common::config::Dialect;
    use datafusion_tiledb::session::check_syntax;

    use super::*;

    #[test]
    fn examples_are_statements() {
        for syntax in &STATEMENTS {
            let word = syntax.name.split(' ').next().unwrap_or_default();
            assert!(!syntax.examples.is_empty(), "{}", syntax.name);
            for example in syntax.examples {
                let checked = check_syntax(example, Dialect::Generic);
                assert!(checked.is_ok(), "{example}: {checked:?}");
                assert!(example.starts_with(word), "{example}");
            }
        }
    }

    #[test]
    fn statements_are_found_by_their_beginning() {
        assert!(grammar("insert into").unwrap().contains("INSERT OVERWRITE"));
        let create = grammar("Create").unwrap();
        assert!(
            create.contains("CREATE VIEW") && create.contains("STORED AS"),
            "{create}"
        );
        assert!(!grammar("drop table").unwrap().contains("CREATE"));
        let error = grammar("DELET FROM").unwrap_err();
        assert!(report::describe(&error).contains("'\\h' lists"), "{error}");
    }
}
