//! A group, opened to be attached to a session, and the names of the arrays below it.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, Weak};

use tiledb_engine::Result;
use tiledb_engine::array::group::Group;
use tiledb_engine::array::window::{OpenWindow, TimestampMs};
use tiledb_engine::format::group::ObjectKind;
use tiledb_engine::storage::{Location, Storage};
use tokio::sync::Mutex;

use super::explore::{ExploredGroup, MemberStores, join, unlisted};
use crate::options::TableOptions;
use crate::stores::ahead::OpenedTables;

/// A TileDB group as a [catalog](datafusion::catalog::CatalogProvider) of all arrays below it.
///
/// See [the module](super) for the names that arrays have.
#[derive(Debug, Clone)]
pub struct TileDbGroup(pub(super) Arc<GroupState>);

/// The state that the catalog and all its schemas share.
#[derive(Debug)]
pub(super) struct GroupState {
    /// The folder of the group itself.
    pub(super) root: Storage,
    /// The options for opening members.
    pub(super) options: TableOptions,
    pub(super) stores: MemberStores,
    /// The arrays that existed when the group was opened, or when its session last changed it.
    listing: RwLock<Arc<GroupListing>>,
    /// Held while the arrays are listed again, so that the later of two lists stays.
    listing_anew: Mutex<()>,
    /// The attached group, as the last lookup of an array found it in a store behind a network.
    recent: Mutex<Option<RecentGroup>>,
}

/// A group, and the statement that has opened it.
#[derive(Debug)]
struct RecentGroup {
    group: Group,
    statement: Weak<OpenedTables>,
}

impl GroupState {
    /// Opens the group at `root` and lists everything below it.
    pub(super) async fn open(
        root: Storage,
        options: TableOptions,
        stores: MemberStores,
    ) -> Result<Self> {
        let listing = list(&root, &options, &stores).await?;
        Ok(Self {
            root,
            options,
            stores,
            listing: RwLock::new(Arc::new(listing)),
            listing_anew: Mutex::new(()),
            recent: Mutex::default(),
        })
    }

    /// The attached group now. The lookups of a statement that runs at once share it.
    pub(super) async fn root_group(&self, window: OpenWindow) -> Result<Group> {
        let Some(statement) = OpenedTables::current().filter(|_| self.root.is_remote()) else {
            return Group::open(&self.root, window).await;
        };
        let mut recent = self.recent.lock().await;
        if let Some(known) = &*recent
            && OpenedTables::is_current(&known.statement)
        {
            return Ok(known.group.clone());
        }
        let group = Group::open(&self.root, window).await?;
        *recent = Some(RecentGroup {
            group: group.clone(),
            statement: Arc::downgrade(&statement),
        });
        Ok(group)
    }

    /// The listed arrays.
    pub(super) fn listing(&self) -> Arc<GroupListing> {
        let listing = self.listing.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&listing)
    }

    /// Lists everything again if a change of the group at `changed` may affect the list.
    pub(super) async fn list_after_change(&self, changed: &Location) -> Result<()> {
        let _alone = self.listing_anew.lock().await;
        if !self.listing().may_show(changed) {
            return Ok(());
        }
        let listing = Arc::new(list(&self.root, &self.options, &self.stores).await?);
        *self.listing.write().unwrap_or_else(PoisonError::into_inner) = listing;
        Ok(())
    }

    pub(super) fn window(options: &TableOptions) -> Result<OpenWindow> {
        // Members added before the start of the window are members, too.
        OpenWindow::new(TimestampMs(0), options.timestamp_end.map(TimestampMs))
    }
}

async fn list(
    root: &Storage,
    options: &TableOptions,
    stores: &MemberStores,
) -> Result<GroupListing> {
    let window = GroupState::window(options)?;
    let group = Group::open(root, window).await?;
    Ok(ExploredGroup::of(group, stores, window).await.into())
}

/// The ways to attach a group.
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
    locations: Vec<Location>,
    /// Some groups could not be entered.
    has_gaps: bool,
    /// A description of the group's folder, if the attached group has no members.
    unlisted: Option<String>,
}

impl From<ExploredGroup> for GroupListing {
    fn from(explored: ExploredGroup) -> Self {
        let mut room = MAX_ARRAYS;
        let entered = explored.groups.iter();
        let locations = entered
            .map(|(_, group)| group.storage.location().clone())
            .collect();
        let attached = explored.groups.iter().find(|(path, _)| path.is_empty());
        let unlisted = attached.and_then(|(_, group)| unlisted(group));
        let groups = explored.groups.into_iter().map(|(path, group)| {
            let members = group.members.into_iter();
            let arrays = members.filter(|m| m.kind == ObjectKind::Array);
            let names: Vec<_> = arrays.map(|m| m.name).take(room).collect();
            room = room.saturating_sub(names.len());
            (path, names)
        });
        Self {
            groups: groups.collect(),
            locations,
            has_gaps: !explored.problems.is_empty(),
            unlisted,
        }
    }
}

impl GroupListing {
    /// Describes the group's folder in a clause, if the attached group has no members.
    pub(super) fn unlisted(&self) -> Option<&str> {
        self.unlisted.as_deref()
    }

    /// Whether a change of the group at `changed` may affect the list.
    fn may_show(&self, changed: &Location) -> bool {
        let mut listed = self.locations.iter();
        self.has_gaps || listed.any(|listed| listed.same_location(changed))
    }

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
