//! SQL on TileDB arrays.

pub mod array;
pub mod error;
pub mod filter;
pub mod format;
pub mod read;
pub mod sql;
pub mod storage;

pub use error::{Error, ErrorKind, Result};
pub use sql::{TileDbTable, TileDbTableBuilder, register};
