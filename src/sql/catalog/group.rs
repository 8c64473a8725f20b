//! A group, opened to be attached to a session.

use std::sync::Arc;

use super::super::options::TableOptions;
use super::listing::GroupListing;
use super::locate::Stores;
use crate::array::window::{OpenWindow, TimestampMs};
use crate::error::Result;
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
