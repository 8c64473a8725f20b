//! Rows that are complete on storage, and not visible yet.

use super::fragment::StagedFragment;
use crate::geometry::domain::KeyBox;

/// Complete fragments that are not visible yet.
#[derive(Debug)]
pub struct StagedRows {
    /// The number of rows.
    pub rows: u64,
    /// The fragments that hold them.
    pub fragments: Vec<StagedFragment>,
    /// Boxes that were filled with what the array showed.
    pub filled: Vec<KeyBox>,
}

impl StagedRows {
    /// Removes the fragments.
    pub async fn withdraw(self) {
        for fragment in self.fragments {
            fragment.withdraw().await;
        }
    }
}
