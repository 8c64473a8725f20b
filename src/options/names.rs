//! Names in statements, with or without quotes.

use datafusion::config::ConfigOptions;
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::dialect::dialect_from_str;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

/// Converts names without quotes to lower case, if the session is configured so.
pub(crate) fn normalizer(options: &ConfigOptions) -> IdentNormalizer {
    IdentNormalizer::new(options.sql_parser.enable_ident_normalization)
}

/// The column that a name refers to. DataFusion's parser passes the name on with its quotes.
pub(crate) fn column_name(options: &ConfigOptions, name: &str) -> String {
    let dialect = dialect_from_str(options.sql_parser.dialect);
    let parsed = dialect.and_then(|dialect| {
        let mut parser = Parser::new(dialect.as_ref()).try_with_sql(name).ok()?;
        let name = parser.parse_identifier().ok()?;
        (parser.peek_token().token == Token::EOF).then_some(name)
    });
    match parsed {
        Some(parsed) => normalizer(options).normalize(parsed),
        // The name doesn't come from a statement.
        None => name.to_owned(),
    }
}
