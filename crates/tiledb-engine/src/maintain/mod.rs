//! The care of arrays: it finds damage and leftovers, and makes arrays smaller and faster without a change of their contents.

pub mod check;
mod column;
pub mod consolidate;
mod mode;
pub mod plan;
pub mod report;
mod stored_field;
pub mod vacuum;
