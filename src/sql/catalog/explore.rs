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
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::SessionContext;
use futures::{StreamExt, stream};
use url::Url;

use crate::array::group::{Group, Member, MemberLocation};
use crate::array::window::OpenWindow;
use crate::error::{Error, Result};
use crate::format::group::ObjectKind;
use crate::sql::location::{local, locate};
use crate::storage::{Location, Storage};

/// Groups read at the same time.
const CONCURRENCY: usize = 16;
/// The most levels of groups that are entered.
const MAX_DEPTH: usize = 32;
/// The most groups that are entered.
const MAX_GROUPS: usize = 10_000;
/// The number of members from which on no further group is entered.
const MAX_MEMBERS: usize = 1_000_000;

/// The result of a traversal.
#[derive(Debug)]
pub(crate) struct Explored {
    /// The groups by their paths; the path of the first one is empty.
    pub(crate) groups: Vec<(String, Group)>,
    /// The reasons why members that are groups were not entered, by their paths.
    pub(crate) problems: BTreeMap<String, Error>,
}

/// A group whose members are entered next.
struct Entered {
    path: String,
    group: Group,
    /// The locations of the group and those above it.
    above: Arc<Vec<Location>>,
}

impl Explored {
    /// Traverses everything below `root`.
    pub(crate) async fn of(root: Group, stores: &Stores, window: OpenWindow) -> Self {
        let mut explored = Self {
            groups: Vec::new(),
            problems: BTreeMap::new(),
        };
        let mut level = vec![Entered {
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
    entered: &Entered,
    member: &Member,
    path: &str,
    stores: &Stores,
    window: OpenWindow,
) -> Result<Entered> {
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
    Ok(Entered {
        path: path.to_owned(),
        group: Group::open(&storage, window).await?,
        above: Arc::new(above),
    })
}

/// The storage of a member of `group`.
pub(crate) async fn storage_of(stores: &Stores, group: &Group, member: &Member) -> Result<Storage> {
    Ok(group.storage.at(match &member.location {
        MemberLocation::SameStore(location) => location.clone(),
        MemberLocation::Uri(uri) => stores.locate(uri).await?,
    }))
}

/// Appends a name to a path.
pub(crate) fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}/{name}")
    }
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

/// The schema in which a session would look up a URL, as long as the session exists.
type SessionSchema = dyn Fn() -> Option<Arc<dyn SchemaProvider>> + Send + Sync;

/// Finds the locations of URIs.
///
/// The subtle thing: some programs register an object store when a query first names a URL in it, and no query names
/// the URLs of members. So if a store is missing, the URL is looked up once as a table of the session, to have the
/// store registered.
#[derive(Clone)]
pub(crate) struct Stores {
    runtime: Arc<RuntimeEnv>,
    session: Option<Arc<SessionSchema>>,
}

impl Stores {
    /// The stores of a session.
    pub(super) fn of_session(ctx: &SessionContext) -> Self {
        let weak = ctx.state_weak_ref();
        let schema = move || {
            let state = weak.upgrade()?;
            let state = state.read();
            let names = &state.config_options().catalog;
            let catalog = state.catalog_list().catalog(&names.default_catalog)?;
            catalog.schema(&names.default_schema)
        };
        Self {
            runtime: ctx.runtime_env(),
            session: Some(Arc::new(schema)),
        }
    }

    /// The stores of a runtime.
    pub(crate) fn of_runtime(runtime: Arc<RuntimeEnv>) -> Self {
        Self {
            runtime,
            session: None,
        }
    }

    /// The location of `uri`.
    pub(crate) async fn locate(&self, uri: &str) -> Result<Location> {
        // libtiledb writes paths into URIs unescaped, so `%` is an ordinary character.
        if let Some(path) = uri.strip_prefix("file://")
            && path.starts_with('/')
            && !cfg!(windows)
        {
            return local(path, &self.runtime);
        }
        if !self.has_store(uri)
            && let Some(schema) = self.session.as_ref().and_then(|session| session())
        {
            // Only the registration of the store matters; the location is opened below.
            let _ = schema.table(uri).await;
        }
        locate(uri, &self.runtime)
    }

    fn has_store(&self, uri: &str) -> bool {
        let is_url = uri.contains("://");
        !is_url
            || Url::parse(uri)
                .is_ok_and(|url| self.runtime.object_store_registry.get_store(&url).is_ok())
    }
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stores").finish_non_exhaustive()
    }
}
