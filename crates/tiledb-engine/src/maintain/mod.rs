//! The care of arrays: what is wrong with one, what is left over in its folders, and how it becomes smaller and faster
//! without a change of what it says.

pub mod check;
mod column;
pub mod consolidate;
mod mode;
pub mod plan;
pub mod report;
mod stored_field;
pub mod vacuum;
