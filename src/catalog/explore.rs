//! A traversal of everything below a group.
//!
//! It reads group files, level by level and several at a time, and never an array. For a group that cannot be read, it
//! records the error and goes on. A group inside itself is not entered again, and there are limits on depth and on the
//! numbers of groups and members.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::catalog::SchemaProvider;
use datafusion::prelude::SessionContext;
use futures::{StreamExt, stream};
use tiledb_engine::array::group::{Group, GroupMember, MemberLocation};
use tiledb_engine::array::window::OpenWindow;
use tiledb_engine::format::group::ObjectKind;
use tiledb_engine::storage::{ExternalMembers, FollowedLink, Location, MemberLink, Storage};
use tiledb_engine::{Error, Result};
use url::Url;

use crate::options::settings::TileDbSettings;
use crate::stores::location::{has_store, local, locate};
use crate::stores::runtime::ArrayRuntime;

/// Groups read at the same time.
const CONCURRENCY: usize = 16;
/// The most levels of groups that are entered.
const MAX_DEPTH: usize = 32;
/// The most groups that are entered.
const MAX_GROUPS: usize = 10_000;
/// The number of members from which on no further group is entered.
const MAX_MEMBERS: usize = 1_000_000;

/// The maximum number of members that an error names.
pub(super) const SHOWN_MEMBERS: usize = 20;

/// The result of a traversal.
#[derive(Debug)]
pub(crate) struct ExploredGroup {
    /// The groups by their paths; the path of the first one is empty.
    pub(crate) groups: Vec<(String, Group)>,
    /// The reasons why members that are groups were not entered, by their paths.
    pub(crate) problems: BTreeMap<String, Error>,
}

/// A group whose members are entered next.
struct EnteredGroup {
    path: String,
    group: Group,
    /// The locations of the group and those above it.
    above: Arc<Vec<Location>>,
}

impl ExploredGroup {
    /// Traverses everything below `root`.
    pub(crate) async fn of(root: Group, stores: &MemberStores, window: OpenWindow) -> Self {
        let mut explored = Self {
            groups: Vec::new(),
            problems: BTreeMap::new(),
        };
        let mut level = vec![EnteredGroup {
            path: String::new(),
            above: Arc::new(vec![root.storage.location().clone()]),
            group: root,
        }];
        let mut count = 1_usize;
        let members = AtomicUsize::new(0);
        let is_full = || members.load(Ordering::Relaxed) > MAX_MEMBERS;
        for depth in 1..=MAX_DEPTH {
            let nested = level.iter().flat_map(|entered| {
                let members = entered.group.members.iter();
                let groups = members.filter(|m| m.kind == ObjectKind::Group);
                groups.map(move |member| (entered, member))
            });
            let room = if depth < MAX_DEPTH {
                MAX_GROUPS.saturating_sub(count)
            } else {
                0
            };
            let (members, is_full) = (&members, &is_full);
            // At most this many more are reported as not entered.
            let nested: Vec<_> = nested.take(room.saturating_add(MAX_GROUPS)).collect();
            let nested = nested.as_slice();
            let tried: Vec<_> = stream::iter(0..nested.len())
                .map(|index| async move {
                    let (entered, member) = nested.get(index)?;
                    let path = join(&entered.path, &member.name);
                    let result = if index < room && !is_full() {
                        enter(entered, member, &path, stores, window).await
                    } else {
                        Err(beyond_limits())
                    };
                    if let Ok(entered) = &result {
                        members.fetch_add(entered.group.members.len(), Ordering::Relaxed);
                    }
                    Some(result.map_err(|error| (path, error)))
                })
                .buffered(CONCURRENCY)
                .collect()
                .await;
            let done = level.drain(..).map(|entered| (entered.path, entered.group));
            explored.groups.extend(done);
            for result in tried.into_iter().flatten() {
                match result {
                    Ok(entered) => level.push(entered),
                    Err((path, error)) => {
                        explored.problems.insert(path, error);
                    }
                }
            }
            count = count.saturating_add(level.len());
            if level.is_empty() {
                break;
            }
        }
        explored
    }
}

async fn enter(
    entered: &EnteredGroup,
    member: &GroupMember,
    path: &str,
    stores: &MemberStores,
    window: OpenWindow,
) -> Result<EnteredGroup> {
    let storage = storage_of(stores, &entered.group, member).await?;
    let location = storage.location().clone();
    if entered
        .above
        .iter()
        .any(|above| above.same_location(&location))
    {
        return Err(contains_itself(&storage));
    }
    let mut above = entered.above.as_ref().clone();
    above.push(location);
    Ok(EnteredGroup {
        path: path.to_owned(),
        group: Group::open(&storage, window).await?,
        above: Arc::new(above),
    })
}

/// The storage of a member of `group`, if it may be opened.
pub(crate) async fn storage_of(
    stores: &MemberStores,
    group: &Group,
    member: &GroupMember,
) -> Result<Storage> {
    let external = stores.external_members();
    let link = MemberLink {
        root: group.storage.root(),
        from: group.storage.location(),
        external: &external,
    };
    let location = match &member.location {
        MemberLocation::SameStore(location) => link.near(location.clone())?,
        MemberLocation::Uri(uri) => match link.named(uri, |path| stores.local(path))? {
            FollowedLink::At(location) => location,
            FollowedLink::Elsewhere => stores.locate_member(uri).await?,
        },
    };
    Ok(group.storage.of_member(location))
}

/// Appends a name to a path.
pub(crate) fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}/{name}")
    }
}

/// Describes the contents of the folder of a group without members, and how to reach them; `None` if there are none.
pub(super) fn unlisted(group: &Group) -> Option<String> {
    let first = group.unlisted.first()?;
    let uri = group.storage.uri().trim_end_matches('/');
    let shown = group.unlisted.iter().take(SHOWN_MEMBERS);
    let shown = shown.map(String::as_str).collect::<Vec<_>>().join(", ");
    Some(format!(
        "it lists no members, as groups written before TileDB 2.8, and its folder holds {shown}: name what is there by \
         its path, as in FROM '{uri}/{first}', or make it a member with tiledb_add_member('{uri}', '{first}')"
    ))
}

/// The error for a path that leads back to a group it came through.
pub(super) fn contains_itself(storage: &Storage) -> Error {
    Error::invalid("the group contains itself: the path leads back to a group it came through")
        .with("group", storage.uri())
}

fn beyond_limits() -> Error {
    Error::unsupported(format!(
        "groups more than {MAX_DEPTH} levels down, after the first {MAX_GROUPS}, or after {MAX_MEMBERS} members are not listed; a query may name what is there"
    ))
}

/// The name of a table that no store has.
const NO_TABLE: &str = ".tiledb-store";

/// The parts of a session that a traversal needs.
struct SessionView {
    /// The schema in which the session would look up a URL.
    schema: Option<Arc<dyn SchemaProvider>>,
    external: ExternalMembers,
}

/// Returns the current state of a session; `None` once it no longer exists.
type LookAtSession = dyn Fn() -> Option<SessionView> + Send + Sync;

/// Finds the locations of URIs, and decides which of them members of groups may have.
///
/// The subtle thing: some programs register an object store when a query first names a URL in it, and a statement about a group
/// isn't a query. So if a store is missing, a URL is looked up as a table of the session, to have the store registered. This is
/// the URL of the group itself, as the user wrote it, but never that of a member, which the session might read as a file of any
/// kind.
#[derive(Clone)]
pub(crate) struct MemberStores {
    pub(super) runtime: ArrayRuntime,
    session: Option<Arc<LookAtSession>>,
    /// The members that may be opened outside the attached folder; by default the session decides.
    external: Option<ExternalMembers>,
}

impl MemberStores {
    /// The stores of a session.
    pub(super) fn of_session(ctx: &SessionContext, external: Option<ExternalMembers>) -> Self {
        let weak = ctx.state_weak_ref();
        let look = move || {
            let state = weak.upgrade()?;
            let state = state.read();
            let config = state.config_options();
            let names = &config.catalog;
            let catalog = state.catalog_list().catalog(&names.default_catalog);
            Some(SessionView {
                schema: catalog.and_then(|catalog| catalog.schema(&names.default_schema)),
                external: TileDbSettings::of(config).external_members,
            })
        };
        Self {
            session: Some(Arc::new(look)),
            ..Self::of_runtime(ArrayRuntime::of_context(ctx), external)
        }
    }

    /// The stores of a runtime.
    pub(crate) fn of_runtime(runtime: ArrayRuntime, external: Option<ExternalMembers>) -> Self {
        Self {
            runtime,
            session: None,
            external,
        }
    }

    /// The members that may be opened outside the attached folder.
    fn external_members(&self) -> ExternalMembers {
        let of_session = || Some(self.view()?.external);
        let given = self.external.clone();
        given.or_else(of_session).unwrap_or_default()
    }

    fn view(&self) -> Option<SessionView> {
        self.session.as_ref().and_then(|look| look())
    }

    /// The location of the URI of a group, as the user wrote it.
    pub(super) async fn locate(&self, uri: &str) -> Result<Location> {
        if names_file(uri) {
            return self.local(uri);
        }
        self.look_up(uri, uri).await;
        locate(uri, &self.runtime)
    }

    /// The location of the URI of a member in another store, which may be opened.
    async fn locate_member(&self, uri: &str) -> Result<Location> {
        if let Ok(mut store) = Url::parse(uri) {
            store.set_path(NO_TABLE);
            store.set_query(None);
            self.look_up(uri, store.as_str()).await;
        }
        locate(uri, &self.runtime)
    }

    /// The location of a file of this machine. libtiledb writes paths into URIs unescaped, so `%` is an ordinary character.
    fn local(&self, uri: &str) -> Result<Location> {
        let path = if names_file(uri) {
            uri.strip_prefix("file://").unwrap_or(uri)
        } else {
            uri
        };
        local(path, &self.runtime)
    }

    /// Looks up a table of the session, only to register the store of `uri` if it is missing.
    async fn look_up(&self, uri: &str, table: &str) {
        if !has_store(uri, &self.runtime)
            && let Some(schema) = self.view().and_then(|view| view.schema)
        {
            let _ = schema.table(table).await;
        }
    }
}

/// Whether a URI names a file, as libtiledb writes such URIs.
fn names_file(uri: &str) -> bool {
    uri.starts_with("file:///") && !cfg!(windows)
}

impl fmt::Debug for MemberStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stores").finish_non_exhaustive()
    }
}
