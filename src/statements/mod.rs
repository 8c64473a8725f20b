//! Statements that change rows, from their text to the plan that writes: INSERT, UPDATE, DELETE and MERGE.

pub(crate) mod changes;
pub(crate) mod one_moment;
pub(crate) mod order_by_all;
pub(crate) mod stored_bits;
pub(crate) mod written;
