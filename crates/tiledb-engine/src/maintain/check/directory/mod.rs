//! The folders of an array or a group, before any fragment is opened: names, commits, schemas, metadata.

pub mod commits;
pub mod deletes;
pub mod folders;
pub mod fragments;
pub mod metadata;
pub mod schemas;
