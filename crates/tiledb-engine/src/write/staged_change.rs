//! The part of a change that others can see before its commit.

use std::collections::HashSet;

use super::announcement::ChangeAnnouncement;
use super::fragment::StagedFragment;

/// The part of a change that others can see before its commit.
#[derive(Debug, Clone, Copy, Default)]
pub struct StagedChange<'a> {
    /// Complete fragments.
    pub fragments: &'a [StagedFragment],
    /// The announcement of a change without a fragment.
    pub announced: Option<&'a ChangeAnnouncement>,
}

impl StagedChange<'_> {
    pub(super) fn names(&self) -> HashSet<&str> {
        let fragments = self.fragments.iter().map(|staged| &staged.name);
        let names = fragments.chain(self.announced.map(|announced| &announced.name));
        names.map(|name| name.name.as_str()).collect()
    }

    /// The time and name that decide whether others wait for the change, or it for them.
    pub(super) fn age(&self) -> Option<(u64, &str)> {
        let announced = self
            .announced
            .map(|announced| &announced.name)
            .map(|name| (name.t1, name.name.as_str()));
        let fragments = self
            .fragments
            .iter()
            .map(|staged| staged.age())
            .map(|(time, name)| (time, name.as_str()));
        fragments.chain(announced).min()
    }

    /// When the first part was complete.
    pub(super) fn since(&self) -> Option<u64> {
        let fragments = self.fragments.iter().map(|staged| staged.completed.0);
        let announced = self.announced.map(|announced| announced.since.0);
        fragments.chain(announced).min()
    }
}
