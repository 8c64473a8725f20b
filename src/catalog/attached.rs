//! Opening of groups with options, and the groups attached to a session.
//!
//! A wrapper around the session's catalogs shows the groups. It becomes the outermost one when a group is attached, so that no
//! other wrapper opens an array for a cheap question ("of what type is this table?"). The wrapper is necessary because
//! DataFusion cannot remove a catalog.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, Session};
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use tiledb_engine::Engine;
use tiledb_engine::Error;
use tiledb_engine::storage::{ExternalMembers, Location, MetadataCache, RequestLog};

use super::explore::MemberStores;
use super::group::{AttachAs, GroupState, TileDbGroup};
use crate::optimizer;
use crate::options::TableOptions;
use crate::stores::location::group_storage;
use crate::stores::place::ArrayPlace;
use crate::stores::runtime::ArrayRuntime;

impl TileDbGroup {
    /// Opens the group at a local path, a `file://` URL or a [`Location`](crate::Location) in its current state.
    pub async fn open(place: impl Into<ArrayPlace>) -> tiledb_engine::Result<Self> {
        Self::builder(place).open().await
    }

    /// Opens or attaches a group with options, for example at a time.
    pub fn builder(place: impl Into<ArrayPlace>) -> TileDbGroupBuilder {
        TileDbGroupBuilder {
            place: place.into(),
            options: TableOptions::default(),
            request_log: None,
            engine: None,
            cache: None,
            attach_as: AttachAs::default(),
        }
    }
}

/// Opens a [`TileDbGroup`] with options; see [`TileDbGroup::builder`].
#[derive(Debug, Clone)]
pub struct TileDbGroupBuilder {
    place: ArrayPlace,
    options: TableOptions,
    request_log: Option<Arc<RequestLog>>,
    engine: Option<Engine>,
    cache: Option<Arc<MetadataCache>>,
    attach_as: AttachAs,
}

impl TileDbGroupBuilder {
    /// Reads the group and its members at this time (milliseconds since the epoch).
    #[must_use]
    pub fn timestamp_end(mut self, ms: u64) -> Self {
        self.options.timestamp_end = Some(ms);
        self
    }

    /// Sets all options at once; they apply to every member.
    #[must_use]
    pub fn options(mut self, options: TableOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets one option by its name, with or without the prefix `tiledb.`.
    pub fn option(mut self, key: &str, value: &str) -> tiledb_engine::Result<Self> {
        self.options.set(key, value)?;
        Ok(self)
    }

    /// Sets which members outside the group may be opened; by default the session decides, and without a session, none may.
    #[must_use]
    pub fn external_members(mut self, external: ExternalMembers) -> Self {
        self.options.external_members = Some(external);
        self
    }

    /// Logs every storage request.
    #[must_use]
    pub fn request_log(mut self, log: Arc<RequestLog>) -> Self {
        self.request_log = Some(log);
        self
    }

    /// Opens the group and its members in this engine instead of the session's engine.
    #[must_use]
    pub fn engine(mut self, engine: &Engine) -> Self {
        self.engine = Some(engine.clone());
        self
    }

    /// Keeps parsed metadata in this cache instead of the engine's cache.
    #[must_use]
    pub fn cache(mut self, cache: Arc<MetadataCache>) -> Self {
        self.cache = Some(cache);
        self
    }

    /// Sets how [`attach`](Self::attach) attaches the group.
    #[must_use]
    pub fn attach_as(mut self, what: AttachAs) -> Self {
        self.attach_as = what;
        self
    }

    /// Opens the group without a session. Members in other object stores cannot be found then.
    pub async fn open(self) -> tiledb_engine::Result<TileDbGroup> {
        let stores = MemberStores::of_runtime(
            ArrayRuntime::new(Arc::default(), Engine::shared()),
            self.options.external_members.clone(),
        );
        self.open_with(stores).await
    }

    /// Opens the group with the object stores, the memory and the engine of a session.
    pub async fn open_in(self, ctx: &SessionContext) -> tiledb_engine::Result<TileDbGroup> {
        let stores = MemberStores::of_session(ctx, self.options.external_members.clone());
        self.open_with(stores).await
    }

    /// Opens the group and attaches it to a session as `name`, which must not be taken.
    pub async fn attach(self, ctx: &SessionContext, name: &str) -> tiledb_engine::Result<()> {
        let attach_as = self.attach_as;
        check_free(ctx, name, attach_as)?;
        let stores = MemberStores::of_session(ctx, self.options.external_members.clone());
        let group = self.open_with(stores).await?;
        optimizer::install(ctx)
            .map_err(|e| Error::invalid("the session cannot be taught arrays").with_source(e))?;
        attach(ctx, name, group, attach_as)
    }

    async fn open_with(self, mut stores: MemberStores) -> tiledb_engine::Result<TileDbGroup> {
        if let Some(engine) = self.engine {
            stores.runtime = stores.runtime.in_engine(engine);
        }
        let location = match self.place {
            ArrayPlace::Location(location) => location,
            ArrayPlace::Uri(uri) => stores.locate(&uri).await?,
        };
        let mut root = group_storage(location, &self.options, &stores.runtime)?;
        if let Some(log) = self.request_log {
            root = root.with_request_log(log);
        }
        if let Some(cache) = self.cache {
            root = root.with_cache(cache);
        }
        let shared = GroupState::open(root, self.options, stores).await?;
        Ok(TileDbGroup(Arc::new(shared)))
    }
}

/// A notice after attaching the group `name`, if it lists no members: how to reach the arrays in its folder. `None` for other
/// groups.
pub(crate) fn attached_notice(ctx: &SessionContext, name: &str) -> Option<String> {
    let attached = ctx.copied_config().get_extension::<SessionGroups>()?;
    let groups = attached.read();
    let group = &groups.get(name)?.group;
    let listing = group.0.listing();
    let unlisted = listing.unlisted()?;
    Some(format!("the group {name} is empty: {unlisted}"))
}

/// The groups of one session by name.
#[derive(Debug)]
struct SessionGroups {
    /// The id of the session. Sessions built from its configuration find these groups, too, but do not own them.
    session: String,
    groups: RwLock<BTreeMap<String, GroupAttachment>>,
}

#[derive(Debug, Clone)]
struct GroupAttachment {
    group: TileDbGroup,
    is_catalog: bool,
    /// The catalog that it is a schema of.
    schema_of: Option<String>,
}

impl SessionGroups {
    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, GroupAttachment>> {
        self.groups.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<String, GroupAttachment>> {
        self.groups.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn schema(&self, catalog: &str, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let groups = self.read();
        let found = groups.get(name).filter(|a| a.is_schema_of(catalog))?;
        Some(found.group.as_schema())
    }
}

impl GroupAttachment {
    fn is_schema_of(&self, catalog: &str) -> bool {
        self.schema_of.as_deref() == Some(catalog)
    }
}

/// Fails if the name is taken.
fn check_free(ctx: &SessionContext, name: &str, attach_as: AttachAs) -> tiledb_engine::Result<()> {
    if name.is_empty() {
        return Err(Error::invalid(
            "a group is attached under a name, found none",
        ));
    }
    let taken = |what: &str| {
        Err(Error::already_exists(format!(
            "the {what} \"{name}\"; DETACH it if it is a group, or choose another name"
        )))
    };
    if attach_as != AttachAs::Schema && ctx.catalog(name).is_some() {
        return taken("catalog");
    }
    let own = ctx.catalog(&default_catalog(ctx));
    if attach_as != AttachAs::Catalog && own.is_some_and(|c| c.schema(name).is_some()) {
        return taken("schema");
    }
    Ok(())
}

/// Attaches a group under a name.
fn attach(
    ctx: &SessionContext,
    name: &str,
    group: TileDbGroup,
    attach_as: AttachAs,
) -> tiledb_engine::Result<()> {
    check_free(ctx, name, attach_as)?;
    let schema_of = (attach_as != AttachAs::Catalog).then(|| default_catalog(ctx));
    let attachment = GroupAttachment {
        group,
        is_catalog: attach_as != AttachAs::Schema,
        schema_of,
    };
    install(ctx).write().insert(name.to_owned(), attachment);
    Ok(())
}

/// Detaches the group called `name`; returns whether there was one.
pub(super) fn detach(ctx: &SessionContext, name: &str) -> bool {
    attached(ctx).is_some_and(|attached| attached.write().remove(name).is_some())
}

/// The groups attached to a session whose lists of arrays follow the session's own changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct AttachedGroups(Option<Arc<SessionGroups>>);

impl AttachedGroups {
    /// The groups of a session.
    pub(crate) fn of(session: &dyn Session) -> Self {
        Self(session.config().get_extension::<SessionGroups>())
    }

    /// Lists the arrays again in the groups that contain the group at `changed`. The change is done, so a group that cannot be
    /// read keeps its list.
    pub(crate) async fn follow(&self, changed: &Location) {
        let attached = self.0.iter().flat_map(|attached| {
            let groups = attached.read();
            groups.values().map(|a| a.group.clone()).collect::<Vec<_>>()
        });
        for group in attached.collect::<Vec<_>>() {
            if let Err(error) = group.0.list_after_change(changed).await {
                let uri = group.0.root.uri();
                log::warn!(
                    "the list of arrays of the attached group {uri} stays as it was: {error}"
                );
            }
        }
    }
}

fn default_catalog(ctx: &SessionContext) -> String {
    let state = ctx.state_ref();
    let state = state.read();
    state.config_options().catalog.default_catalog.clone()
}

fn attached(ctx: &SessionContext) -> Option<Arc<SessionGroups>> {
    let session = ctx.session_id();
    let state = ctx.state_ref();
    let state = state.read();
    let known = state.config().get_extension::<SessionGroups>();
    known.filter(|attached| attached.session == session)
}

/// The groups of the session; their wrapper becomes the outermost one.
fn install(ctx: &SessionContext) -> Arc<SessionGroups> {
    let known = attached(ctx);
    let state = ctx.state_ref();
    let mut state = state.write();
    let attached = known.unwrap_or_else(|| {
        let attached = Arc::new(SessionGroups {
            session: ctx.session_id(),
            groups: RwLock::default(),
        });
        state.config_mut().set_extension(Arc::clone(&attached));
        attached
    });
    let outermost = state.catalog_list().downcast_ref::<GroupCatalogs>();
    if !outermost.is_some_and(|layer| Arc::ptr_eq(&layer.attached, &attached)) {
        let layer = GroupCatalogs {
            inner: Arc::clone(state.catalog_list()),
            attached: Arc::clone(&attached),
        };
        state.register_catalog_list(Arc::new(layer));
    }
    attached
}

#[derive(Debug)]
struct GroupCatalogs {
    inner: Arc<dyn CatalogProviderList>,
    attached: Arc<SessionGroups>,
}

impl CatalogProviderList for GroupCatalogs {
    fn register_catalog(
        &self,
        name: String,
        catalog: Arc<dyn CatalogProvider>,
    ) -> Option<Arc<dyn CatalogProvider>> {
        let before = self.catalog(&name);
        // A later registration replaces an earlier one, as everywhere in DataFusion.
        if let Some(attachment) = self.attached.write().get_mut(&name) {
            attachment.is_catalog = false;
        }
        self.inner.register_catalog(name, catalog);
        before
    }

    fn catalog_names(&self) -> Vec<String> {
        let groups = self.attached.read();
        let attached = groups.iter().filter(|(_, a)| a.is_catalog);
        merged(self.inner.catalog_names(), attached.map(|(name, _)| name))
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        let groups = self.attached.read();
        if let Some(attachment) = groups.get(name).filter(|a| a.is_catalog) {
            return Some(Arc::new(attachment.group.clone()));
        }
        let has_schemas = groups.values().any(|a| a.is_schema_of(name));
        drop(groups);
        let inner = self.inner.catalog(name)?;
        if !has_schemas {
            return Some(inner);
        }
        Some(Arc::new(CatalogWithGroups {
            inner,
            name: name.to_owned(),
            attached: Arc::clone(&self.attached),
        }))
    }
}

/// A catalog with groups as additional schemas.
#[derive(Debug)]
struct CatalogWithGroups {
    inner: Arc<dyn CatalogProvider>,
    name: String,
    attached: Arc<SessionGroups>,
}

impl CatalogProvider for CatalogWithGroups {
    fn schema_names(&self) -> Vec<String> {
        let groups = self.attached.read();
        let attached = groups.iter().filter(|(_, a)| a.is_schema_of(&self.name));
        merged(self.inner.schema_names(), attached.map(|(name, _)| name))
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let attached = self.attached.schema(&self.name, name);
        attached.or_else(|| self.inner.schema(name))
    }

    fn register_schema(
        &self,
        name: &str,
        schema: Arc<dyn SchemaProvider>,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        let before = self.schema(name);
        let registered = self.inner.register_schema(name, schema)?;
        if let Some(attachment) = self.attached.write().get_mut(name) {
            attachment.schema_of = None;
        }
        Ok(before.or(registered))
    }

    fn deregister_schema(
        &self,
        name: &str,
        cascade: bool,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        if let Some(schema) = self.attached.schema(&self.name, name) {
            // Dropping the schema only detaches the group, which stays on storage.
            if let Some(attachment) = self.attached.write().get_mut(name) {
                attachment.schema_of = None;
            }
            return Ok(Some(schema));
        }
        self.inner.deregister_schema(name, cascade)
    }
}

/// The names in both, each once.
fn merged<'a>(mut names: Vec<String>, more: impl Iterator<Item = &'a String>) -> Vec<String> {
    for name in more {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}
