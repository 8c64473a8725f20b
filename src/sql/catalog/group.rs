//! A group, opened to be attached to a session, and the names of the arrays below it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::options::TableOptions;
use super::explore::{Explored, Stores, join};
use crate::array::window::{OpenWindow, TimestampMs};
use crate::error::Result;
use crate::format::group::ObjectKind;
use crate::storage::Storage;

/// A TileDB group as a [catalog](datafusion::catalog::CatalogProvider) of all arrays below it.
///
/// See [the module](super) for the names that arrays have.
#[derive(Debug, Clone)]
pub struct TileDbGroup(pub(super) Arc<Shared>);

/// The state that the catalog and all its schemas share.
#[derive(Debug)]
pub(super) struct Shared {
    /// The folder of the group itself.
    pub(super) root: Storage,
    /// The options for opening members.
    pub(super) options: TableOptions,
    pub(super) stores: Stores,
    /// The arrays that existed when the group was opened.
    pub(super) listing: GroupListing,
}

impl Shared {
    pub(super) fn window(options: &TableOptions) -> Result<OpenWindow> {
        // Members added before the start of the window are members, too.
        OpenWindow::new(TimestampMs(0), options.timestamp_end.map(TimestampMs))
    }
}

/// What a group is attached as.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttachAs {
    /// A catalog, and a schema of the default catalog, so that names with two and with three parts work.
    #[default]
    Both,
    /// A catalog.
    Catalog,
    /// A schema of the default catalog.
    Schema,
}

/// The most arrays that are listed; queries can also name others.
const MAX_ARRAYS: usize = 1_000_000;

/// The arrays of every group, by the path of the group; the path of the attached group itself is empty.
///
/// DataFusion lists names synchronously, so they are collected in advance.
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
