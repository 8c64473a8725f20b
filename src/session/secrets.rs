//! Errors without the secrets of their statements.

use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;

use crate::options::secrets::StatementSecrets;

/// The error without the secrets of its statement. The parser quotes the text where it gives up, and others repeat a URL.
pub(super) fn without_secrets(error: DataFusionError, sql: &str) -> DataFusionError {
    let secrets = StatementSecrets::of(sql);
    let shown = error.to_string();
    if secrets.masked(&shown) == shown {
        return error;
    }
    match error {
        DataFusionError::SQL(parsed, _) => {
            let masked = match *parsed {
                ParserError::ParserError(text) => ParserError::ParserError(secrets.masked(&text)),
                other => ParserError::TokenizerError(secrets.masked(&other.to_string())),
            };
            DataFusionError::SQL(Box::new(masked), None)
        }
        DataFusionError::Plan(text) => DataFusionError::Plan(secrets.masked(&text)),
        DataFusionError::Execution(text) => DataFusionError::Execution(secrets.masked(&text)),
        DataFusionError::Configuration(text) => {
            DataFusionError::Configuration(secrets.masked(&text))
        }
        DataFusionError::External(cause) => {
            DataFusionError::External(secrets.masked(&cause.to_string()).into())
        }
        other => DataFusionError::External(secrets.masked(&other.strip_backtrace()).into()),
    }
}
