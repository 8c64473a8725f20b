//! The fragment metadata file (specification: "Fragment Metadata File"): footer first, sections on demand.
//!
//! The footer says where every section starts; each section is a generic tile of its own, one per slot, so that
//! a query reads only those of the fields it touches. The subtle thing: slots are counted by the schema the
//! footer names, with a dead slot between attributes and dimensions.

pub mod consolidated;
pub mod data_files;
pub mod footer;
pub mod monolithic;
pub mod offsets;
pub mod processed_conditions;
pub mod rtree;
pub mod slots;
pub mod statistics;

#[cfg(test)]
mod first_versions;
#[cfg(test)]
mod tests;
