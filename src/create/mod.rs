//! Statements that create arrays, both ways: `CREATE EXTERNAL TABLE` becomes an [`ArrayBuilder`](crate::ArrayBuilder), and an
//! existing array becomes the statement that creates it.

mod default;
mod request;
mod words;

pub(crate) use self::default::{of_columns as column_defaults, value as default_value};
pub(crate) use self::request::CreateRequest;
pub(crate) use self::words::statement_of;
