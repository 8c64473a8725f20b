//! What lies on storage, opened: directories, commits, snapshots, fragments, deletes, groups.
//!
//! [`snapshot::Snapshot`] is what a window of time shows of an array; [`table::ArrayTable`] gives it Arrow columns.

pub mod columns;
pub mod commits;
pub mod deletes;
pub mod directory;
pub mod fragment;
pub mod group;
pub mod inspect;
pub mod label;
pub mod metadata;
pub mod snapshot;
pub mod table;
pub mod window;
