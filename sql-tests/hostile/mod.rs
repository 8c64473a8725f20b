//! Broken, forged and foreign files, wrong keys and senseless requests: each gives an answer or a clear error.

pub mod bad_deletes;
pub mod bad_input;
pub mod broken_columns;
pub mod check;
pub mod damaged_groups;
pub mod encryption;
pub mod foreign_files;
pub mod forged_sizes;
pub mod mutation;
pub mod unfinished_files;
