//! The folders of an array or a group, before any fragment is opened: names, commits, schemas, metadata.

pub mod commits;
pub mod copies;
pub mod deletes;
pub mod folders;
pub mod fragments;
pub mod lists;
pub mod metadata;
pub mod names;
pub mod schemas;
pub mod tile;
