//! Sessions, their settings and functions, and plans: what they request, what they hold in memory, and how they run again.

pub mod engines;
pub mod functions;
pub mod literals;
pub mod memory;
pub mod progress;
pub mod requests;
pub mod reruns;
pub mod serialized_scans;
pub mod session_builders;
pub mod settings;
pub mod slt_sessions;
pub mod stale_columns;
pub mod table_paths;
pub mod time_in_from;
pub mod upstream;
