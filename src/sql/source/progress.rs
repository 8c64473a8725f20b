//! How far a scan has come.

use super::TileDbSource;
use super::mode::Shared;

/// How far the reading of arrays has come, in units: runs of tiles that are read as one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Units that were read.
    pub done: u64,
    /// Units that are read if nothing, such as a LIMIT, ends the reading before.
    pub all: u64,
}

impl TileDbSource {
    /// How far the scan has come. One that runs again has come to its end already.
    pub(in crate::sql) fn progress(&self) -> Progress {
        let plan = self.plan();
        let all = match &self.arrangement.shared {
            Shared::Nothing | Shared::Order(_) => plan.unit_count(),
            Shared::Ranges(ranges) => ranges.unit_count(plan),
            Shared::Remaining(remaining) => remaining.unit_count(),
        };
        Progress {
            done: self.units_read.get().min(all),
            all,
        }
    }
}
