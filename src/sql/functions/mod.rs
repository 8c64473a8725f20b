//! Table functions: an array described as tables, and an array with options as a table.
//!
//! | Function | Rows |
//! |---|---|
//! | [`tiledb_scan`](scan) | the array itself |
//! | [`tiledb_array`](mod@array) | one: what holds for the whole array |
//! | [`tiledb_schema`](schema) | one a field: dimensions, attributes, labels |
//! | [`tiledb_enumerations`](enumerations) | one a value of an enumeration |
//! | [`tiledb_metadata`](metadata) | one a key, of an array or a group |
//! | [`tiledb_fragments`](fragments) | one a fragment, visible or not |
//! | [`tiledb_tiles`](tiles) | one a field of a tile of a visible fragment |
//! | [`tiledb_commits`](commits) | one a commit: writes, deletes, vacuums, … |
//! | [`tiledb_members`](members) | one a member of a group, and of the groups in it |
//!
//! Each takes the location of an array, or the name of a table that is one, and then options in pairs, those of
//! `CREATE EXTERNAL TABLE`: `tiledb_metadata('s3://bucket/array', 'tiledb.timestamp', '2024-05-01')`.
//! What they describe is read when the query runs, and only what its columns need.

mod arguments;
pub mod array;
mod columns;
pub mod commits;
mod description;
pub mod enumerations;
pub mod fragments;
pub mod members;
pub mod metadata;
pub mod scan;
pub mod schema;
mod target;
pub mod tiles;
pub(crate) mod value;

use std::sync::Arc;

use datafusion::catalog::{TableFunction, TableFunctionImpl};

use self::description::{Describe, DescriptionFunction};

/// All of them, by name.
pub(super) fn all() -> [TableFunction; 9] {
    [
        describing::<array::ArrayFacts>(),
        describing::<schema::Fields>(),
        describing::<enumerations::EnumerationValues>(),
        describing::<commits::Commits>(),
        describing::<fragments::Fragments>(),
        describing::<members::Members>(),
        describing::<metadata::Metadata>(),
        describing::<tiles::Tiles>(),
        TableFunction::new(scan::NAME.to_owned(), Arc::new(scan::ScanFunction)),
    ]
}

fn describing<D: Describe>() -> TableFunction {
    let function: Arc<dyn TableFunctionImpl> = Arc::new(DescriptionFunction::<D>::default());
    TableFunction::new(D::NAME.to_owned(), function)
}
