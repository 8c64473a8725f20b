//! The care of arrays: what is wrong with one, and what is left over in its folders.

pub mod check;
