//! Rules on the repository itself: its layers, its sizes, and its documents.

pub mod documentation;
pub mod layers;
pub mod shared_builds;
pub mod support_table;
