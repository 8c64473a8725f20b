//! What becomes of DataFusion's expressions: ranges of coordinates, verdicts on tiles, conditions on rows.

pub mod predicate;
pub mod pruning;
pub mod ranges;
pub mod runtime;
pub mod text_conditions;
