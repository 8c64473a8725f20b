//! What becomes of DataFusion's expressions: ranges of coordinates, verdicts on tiles, conditions on rows.

pub(crate) mod predicate;
pub(crate) mod pruning;
pub mod ranges;
pub(crate) mod runtime;
mod shape;
pub(crate) mod text_conditions;
