//! Conversion of DataFusion's expressions: to ranges of coordinates, pruners of tiles, and predicates on rows.

pub(crate) mod evaluable;
mod in_numbers;
#[cfg(feature = "distributed")]
pub(crate) mod nesting;
pub(crate) mod predicate;
pub(crate) mod pruning;
pub mod ranges;
pub(crate) mod runtime;
pub(crate) mod shape;
pub(crate) mod text_conditions;
