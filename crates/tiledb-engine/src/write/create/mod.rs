//! Creation of arrays.
//!
//! [`ArrayBuilder`] takes the columns of a table and what is chosen for them, fills in the rest by the types, and gives an
//! [`ArrayDefinition`]: plain data, checked as libtiledb checks an array that is created. `execute` then puts it on storage. A
//! [`CreateWording`] is the way back: the columns and options that would create an array that exists.

mod builder;
mod calendar;
mod check;
mod defaults;
mod definition;
mod execute;
mod integer;
mod literal;
mod remains;
mod tokens;
mod types;

pub use self::builder::{
    ARRAY_OPTIONS, ATTRIBUTE_OPTIONS, ArrayBuilder, CreateWording, DIMENSION_OPTIONS,
    OptionDisagreement, OptionKey, is_suggested_enumeration,
};
pub(super) use self::check::check_evolved;
pub use self::definition::ArrayDefinition;
pub(super) use self::definition::upgraded;
pub use self::execute::StagedArray;
pub use self::literal::LiteralValue;
pub(super) use self::literal::{show_cell, show_element};
pub(crate) use self::remains::{CreationRemains, is_begun};
pub(super) use self::types::StorageType;
pub use self::types::{same_kind, sql_name};
