//! The groups attached to a session.
//!
//! This is a wrapper around the session's catalogs. It becomes the outermost one when a group is attached, so that no
//! other wrapper opens an array for a cheap question ("of what type is this table?"). It exists because DataFusion
//! cannot remove a catalog.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, Session};
use datafusion::error::Result;
use datafusion::prelude::SessionContext;

use super::group::{AttachAs, TileDbGroup};
use crate::error::Error;
use crate::storage::Location;

/// The groups of one session by name.
#[derive(Debug)]
struct Attached {
    /// The id of the session. Sessions built from its configuration find these groups, too, but do not own them.
    session: String,
    groups: RwLock<BTreeMap<String, Attachment>>,
}

#[derive(Debug, Clone)]
struct Attachment {
    group: TileDbGroup,
    is_catalog: bool,
    /// The catalog that it is a schema of.
    schema_of: Option<String>,
}

impl Attached {
    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, Attachment>> {
        self.groups.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Attachment>> {
        self.groups.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn schema(&self, catalog: &str, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let groups = self.read();
        let found = groups.get(name).filter(|a| a.is_schema_of(catalog))?;
        Some(found.group.as_schema())
    }
}

impl Attachment {
    fn is_schema_of(&self, catalog: &str) -> bool {
        self.schema_of.as_deref() == Some(catalog)
    }
}

/// Fails if the name is taken.
pub(super) fn check_free(
    ctx: &SessionContext,
    name: &str,
    attach_as: AttachAs,
) -> crate::error::Result<()> {
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
pub(super) fn attach(
    ctx: &SessionContext,
    name: &str,
    group: TileDbGroup,
    attach_as: AttachAs,
) -> crate::error::Result<()> {
    check_free(ctx, name, attach_as)?;
    let schema_of = (attach_as != AttachAs::Catalog).then(|| default_catalog(ctx));
    let attachment = Attachment {
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
pub(crate) struct AttachedGroups(Option<Arc<Attached>>);

impl AttachedGroups {
    /// Those of a session.
    pub(crate) fn of(session: &dyn Session) -> Self {
        Self(session.config().get_extension::<Attached>())
    }

    /// Lists the arrays of those groups anew that list what the group at `changed` holds. The change is done, so a group
    /// that cannot be read keeps its list.
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

fn attached(ctx: &SessionContext) -> Option<Arc<Attached>> {
    let session = ctx.session_id();
    let state = ctx.state_ref();
    let state = state.read();
    let known = state.config().get_extension::<Attached>();
    known.filter(|attached| attached.session == session)
}

/// The groups of the session; their wrapper becomes the outermost one.
fn install(ctx: &SessionContext) -> Arc<Attached> {
    let known = attached(ctx);
    let state = ctx.state_ref();
    let mut state = state.write();
    let attached = known.unwrap_or_else(|| {
        let attached = Arc::new(Attached {
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
    attached: Arc<Attached>,
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
    attached: Arc<Attached>,
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
