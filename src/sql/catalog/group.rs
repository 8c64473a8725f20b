//! A group, opened to be attached to a session.

use std::sync::Arc;

use super::super::options::TableOptions;
use super::listing::GroupListing;
use super::locate::Stores;
use crate::array::window::{OpenWindow, TimestampMs};
use crate::error::Result;
use crate::storage::Storage;

/// A TileDB group: a [catalog](datafusion::catalog::CatalogProvider) of the arrays in it and below it.
///
/// See [the module](super) for the names that arrays have.
#[derive(Debug, Clone)]
pub struct TileDbGroup(pub(super) Arc<Shared>);

/// What the catalog and all its schemas share.
#[derive(Debug)]
pub(super) struct Shared {
    /// The folder of the group itself.
    pub(super) root: Storage,
    /// How members are opened.
    pub(super) options: TableOptions,
    pub(super) stores: Stores,
    /// What there was when the group was opened.
    pub(super) listing: GroupListing,
}

impl Shared {
    pub(super) fn window(options: &TableOptions) -> Result<OpenWindow> {
        // Members that came before the start of the window are members all the same.
        OpenWindow::new(TimestampMs(0), options.timestamp_end.map(TimestampMs))
    }
}

/// What a group becomes when it is attached to a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttachAs {
    /// A catalog, and a schema of the default catalog, so that names of two and of three parts work.
    #[default]
    Both,
    /// A catalog.
    Catalog,
    /// A schema of the default catalog.
    Schema,
}
