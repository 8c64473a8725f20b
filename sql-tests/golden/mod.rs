//! Arrays that libtiledb wrote, read in every way: the answers are those of libtiledb, or those of the same rows in memory.

pub mod aggregates;
pub mod answers;
pub mod byte_round_trips;
pub mod copied_arrays;
pub mod dimension_labels;
pub mod enumerated_columns;
pub mod grouping;
pub mod groups;
pub mod handle;
pub mod ordering;
pub mod own_arrays;
pub mod pruning;
pub mod system_columns;
pub mod table_functions;
pub mod text_conditions;
pub mod tiledb_diff;
pub mod whole_domain;
