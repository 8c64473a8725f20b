//! Names as SQL takes them: in quotes where they need them.

/// Keywords inside of statements.
pub const KEYWORDS: [&str; 85] = [
    "ALL",
    "AND",
    "ANTI JOIN",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "CROSS JOIN",
    "CUBE",
    "CURRENT ROW",
    "DATE",
    "DEFAULT",
    "DESC",
    "DISTINCT",
    "DISTINCT ON",
    "ELSE",
    "END",
    "ESCAPE",
    "EXCEPT",
    "EXCLUDE",
    "EXISTS",
    "EXTRACT",
    "FALSE",
    "FILTER",
    "FIRST",
    "FOLLOWING",
    "FOR SYSTEM_TIME AS OF",
    "FROM",
    "FULL JOIN",
    "GROUP BY",
    "GROUPING SETS",
    "HAVING",
    "ILIKE",
    "IN",
    "INNER JOIN",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS NOT NULL",
    "IS NULL",
    "JOIN",
    "LAST",
    "LATERAL",
    "LEFT JOIN",
    "LIKE",
    "LIMIT",
    "LOCATION",
    "NATURAL JOIN",
    "NOT",
    "NULL",
    "NULLS FIRST",
    "NULLS LAST",
    "OFFSET",
    "ON",
    "OPTIONS",
    "OR",
    "ORDER BY",
    "OVER",
    "PARTITION BY",
    "PARTITIONED BY",
    "PRECEDING",
    "PRIMARY KEY",
    "QUALIFY",
    "RIGHT JOIN",
    "ROLLUP",
    "ROWS",
    "SELECT",
    "SEMI JOIN",
    "SET",
    "STORED AS",
    "THEN",
    "TIMESTAMP",
    "TO",
    "TRUE",
    "UNION",
    "UNION ALL",
    "USING",
    "VALUES",
    "WHEN",
    "WHEN MATCHED THEN",
    "WHEN NOT MATCHED THEN",
    "WHERE",
    "WITH ORDER",
];

/// A name, in quotes if SQL would read it otherwise.
pub fn sql_name(name: &str) -> String {
    if needs_quotes(name) {
        in_quotes(name)
    } else {
        name.to_owned()
    }
}

/// A name in quotes.
pub fn in_quotes(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn needs_quotes(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let is_keyword = |word: &&str| word.eq_ignore_ascii_case(name);
    !name.chars().all(plain)
        || name.starts_with(|c: char| c.is_ascii_digit())
        || name.is_empty()
        || KEYWORDS.iter().any(is_keyword)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_quotes_where_they_need_them() {
        for (name, expected) in [
            ("ms_1", "ms_1"),
            ("ms/RNA \"x\"", "\"ms/RNA \"\"x\"\"\""),
            ("Wind", "\"Wind\""),
            ("1st", "\"1st\""),
            ("select", "\"select\""),
            ("größe", "\"größe\""),
            ("", "\"\""),
        ] {
            assert_eq!(sql_name(name), expected);
        }
    }
}
