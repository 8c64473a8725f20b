//! What only helps tests: fixtures, stores, sessions, and rows in comparable forms.

#[macro_use]
pub mod trials;
pub mod turns;

pub mod aged_store;
pub mod allocations;
pub mod array_files;
pub mod cloud;
pub mod cluster_workers;
pub mod faulty_store;
pub mod fixtures;
pub mod folders;
pub mod golden;
pub mod neutral_rows;
pub mod random_arrays;
pub mod refusals;
pub mod rng;
pub mod s3;
pub mod session_folder;
pub mod session_shapes;
pub mod shell_place;
pub mod shown_rows;
