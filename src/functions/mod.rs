//! Table functions: an array described as tables, and an array with options as a table.
//!
//! | Function | Rows |
//! |---|---|
//! | [`tiledb_scan`](scan) | the array itself |
//! | [`tiledb_diff`](diff) | one per cell that differs between two times |
//! | [`tiledb_array`](mod@array) | one row with the properties of the whole array |
//! | [`tiledb_schema`](schema) | one per field: dimensions, attributes, labels |
//! | [`tiledb_enumerations`](enumerations) | one per value of an enumeration |
//! | [`tiledb_metadata`](metadata) | one per key, of an array or a group |
//! | [`tiledb_fragments`](fragments) | one per fragment, visible or not |
//! | [`tiledb_tiles`](tiles) | one per field of a tile of a visible fragment |
//! | [`tiledb_commits`](commits) | one per commit: writes, deletes, vacuums, … |
//! | [`tiledb_members`](members) | one per member of a group, and of the groups in it |
//! | [`tiledb_check`](check) | one per finding of the [auditor](tiledb_engine::maintain::check) |
//! | [`tiledb_consolidate`](maintenance) | one per file or folder that several others have become |
//! | [`tiledb_vacuum`](maintenance) | one per file or folder that is removed |
//!
//! Each takes the location of an array, or the name of its table, and then pairs of options, those of `CREATE EXTERNAL TABLE`:
//! `tiledb_metadata('s3://bucket/array', 'tiledb.timestamp', '2024-05-01')`. The array is read when the query runs, and only as
//! far as the selected columns need it. `tiledb_consolidate` and `tiledb_vacuum` change the array, once each time the query
//! runs.

pub(crate) mod arguments;
pub mod array;
pub mod check;
pub(crate) mod columns;
pub mod commits;
mod description;
pub mod diff;
pub mod enumerations;
pub mod fragments;
pub mod maintenance;
pub mod members;
pub mod metadata;
pub(crate) mod run_once;
pub mod scan;
pub mod schema;
pub mod tiles;
pub(crate) mod value;

use std::sync::Arc;

use datafusion::catalog::{TableFunction, TableFunctionImpl};

use self::description::{DescribeArray, DescriptionFunction};

/// All functions with their names.
pub(crate) fn all() -> [TableFunction; 13] {
    [
        describing::<array::ArrayFacts>(),
        describing::<schema::SchemaFunction>(),
        describing::<enumerations::EnumerationsFunction>(),
        describing::<check::CheckFunction>(),
        describing::<commits::CommitsFunction>(),
        describing::<maintenance::ConsolidateFunction>(),
        describing::<fragments::FragmentsFunction>(),
        describing::<members::MembersFunction>(),
        describing::<metadata::MetadataFunction>(),
        describing::<tiles::TilesFunction>(),
        describing::<maintenance::VacuumFunction>(),
        TableFunction::new(diff::NAME.to_owned(), Arc::new(diff::DiffFunction)),
        TableFunction::new(scan::NAME.to_owned(), Arc::new(scan::ScanFunction)),
    ]
}

/// Whether this is the name of one of the functions.
pub(crate) fn is_name(name: &str) -> bool {
    all().iter().any(|f| f.name() == name)
}

fn describing<D: DescribeArray>() -> TableFunction {
    let function: Arc<dyn TableFunctionImpl> = Arc::new(DescriptionFunction::<D>::default());
    TableFunction::new(D::NAME.to_owned(), function)
}
