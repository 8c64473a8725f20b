//! Conversion between plain structs and bytes of the storage format (specification: "Storage Format"), and nothing
//! else.
//!
//! Inputs are the *unfiltered* contents of generic tiles, or the raw bytes of the few plain files (fragment footers,
//! consolidated commits, ignore and vacuum files). There is no I/O, no Arrow and no async here. The subtle thing: a
//! schema, a fragment and a commit each have their own version, by which they are parsed. What is written has the
//! version [`WRITTEN`](version::FormatVersion::WRITTEN), and what was read in that version is written as it was.

pub mod commit;
pub mod cursor;
pub mod datatype;
pub mod delete_condition;
pub mod domain_range;
pub mod encoder;
pub mod enumeration;
pub mod filter_list;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod fragment;
#[cfg(test)]
mod fuzz;
pub mod generic_tile;
pub mod group;
pub mod metadata;
pub mod names;
pub mod schema;
pub mod version;
