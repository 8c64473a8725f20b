//! Statements that change arrays: what they store, who meets whom, and what crashes leave behind.

pub mod consolidation;
pub mod crashes;
pub mod creation;
pub mod evolution_races;
pub mod float_bits;
pub mod random_changes;
pub mod rivals;
pub mod serial_order;
pub mod stored_values;
pub mod wide_grids;
pub mod writers;
