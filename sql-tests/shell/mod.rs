//! The program `tiledb-sql`, as scripts and people use it.

pub mod commands;
pub mod logs;
pub mod places;
pub mod program;
pub mod reports;
#[cfg(unix)]
pub mod terminal;
