//! The fragment metadata file (specification: "Fragment Metadata File"): footer first, sections on demand.
//!
//! The footer gives the offset of every section; each section is a generic tile of its own, one per slot, so that a
//! query reads only those of the fields it uses. The subtle thing: slots are counted by the schema that the footer
//! names, with an unused slot between attributes and dimensions.

pub mod consolidated;
pub mod data_files;
pub mod footer;
pub mod monolithic;
pub mod offsets;
pub mod rtree;
pub mod slots;
pub mod statistics;

#[cfg(test)]
mod first_versions;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
