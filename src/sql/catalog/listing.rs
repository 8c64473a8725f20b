//! The names of the arrays below a group. DataFusion lists names synchronously, so they are collected in advance.

use std::collections::BTreeMap;

use super::explore::{Explored, join};
use crate::format::group::ObjectKind;

/// The most arrays that are listed; queries can also name others.
const MAX_ARRAYS: usize = 1_000_000;

/// The arrays of every group, by the path of the group; the path of the attached group itself is empty.
#[derive(Debug, Default)]
pub(super) struct GroupListing {
    groups: BTreeMap<String, Vec<String>>,
}

impl From<Explored> for GroupListing {
    fn from(explored: Explored) -> Self {
        let mut room = MAX_ARRAYS;
        let groups = explored.groups.into_iter().map(|(path, group)| {
            let members = group.members.into_iter();
            let arrays = members.filter(|m| m.kind == ObjectKind::Array);
            let names: Vec<_> = arrays.map(|m| m.name).take(room).collect();
            room = room.saturating_sub(names.len());
            (path, names)
        });
        Self {
            groups: groups.collect(),
        }
    }
}

impl GroupListing {
    /// The paths of all groups; the first one is the empty path of the attached group.
    pub(super) fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups.keys().map(String::as_str)
    }

    /// The names of the arrays in the group at `path`.
    pub(super) fn arrays(&self, path: &str) -> &[String] {
        self.groups.get(path).map_or(&[], Vec::as_slice)
    }

    /// The paths of all arrays.
    pub(super) fn array_paths(&self) -> impl Iterator<Item = String> {
        self.groups
            .iter()
            .flat_map(|(path, names)| names.iter().map(move |name| join(path, name)))
    }

    /// Whether the list has an array `name` below the group at `path`.
    pub(super) fn has_array(&self, path: &str, name: &str) -> bool {
        let listed = |group: &str, name: &str| self.arrays(group).iter().any(|n| n == name);
        let below = |(at, _)| {
            let (groups, rest) = name.split_at(at);
            listed(&join(path, groups), rest.trim_start_matches('/'))
        };
        listed(path, name) || name.match_indices('/').any(below)
    }
}
