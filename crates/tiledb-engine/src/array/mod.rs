//! Opened arrays and groups: directories, commits, snapshots, fragments, deletes, groups.
//!
//! [`snapshot::Snapshot`] is an array as a window of time shows it; [`table::ArrayTable`] gives it Arrow columns.

pub mod commits;
pub mod deletes;
pub mod directory;
pub mod folder;
pub mod fragment;
pub mod group;
pub mod inspect;
pub mod label;
pub mod metadata;
pub mod snapshot;
pub mod table;
pub mod window;
