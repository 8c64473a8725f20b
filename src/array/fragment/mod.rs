//! A fragment of a snapshot: its footer, and its other metadata, which are loaded on demand.
//!
//! The footer is parsed at open. Everything else in `__fragment_metadata.tdb` (specification: "Fragment Metadata File")
//! is read when a query needs it: `sections` loads and caches it, `files` and `layout` locate the tiles of a field,
//! `tiles` counts them, and [`statistics`] has those of their values.

pub mod boxes;
mod field_tiles;
mod files;
mod layout;
mod sections;
pub mod statistics;
mod tiles;

use std::sync::Arc;

pub use field_tiles::{FieldTiles, FragmentField, TileFile};
pub(super) use sections::load_monolithic;
pub use tiles::DenseTiles;

use super::window::Visibility;
use crate::error::Result;
use crate::format::datatype::Datatype;
use crate::format::fragment::footer::Footer;
use crate::format::fragment::slots::Slots;
use crate::format::names::TimestampedName;
use crate::format::schema::ArraySchema;
use crate::storage::FileInfo;

/// The file that holds all metadata of a fragment.
pub const METADATA_FILE: &str = "__fragment_metadata.tdb";

/// Position of a tile within its fragment, in the fragment's tile order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TileIdx(pub u64);

impl TileIdx {
    /// The index into vectors with one entry per tile.
    pub fn get(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// One committed fragment.
#[derive(Debug)]
pub struct Fragment {
    /// The parsed name.
    pub name: TimestampedName,
    /// The folder of its files, relative to the array.
    pub folder: String,
    /// How much of it the snapshot's window shows.
    pub visibility: Visibility,
    /// The schema it was written with.
    pub schema: Arc<ArraySchema>,
    /// The footer.
    pub footer: Arc<Footer>,
    pub(super) slots: Slots,
    pub(super) footer_start: Option<u64>,
    pub(super) commit: FileInfo,
}

impl Fragment {
    /// Number of cells in a full tile.
    pub fn cells_per_tile(&self) -> u64 {
        if self.footer.dense {
            self.footer.last_tile_cell_count
        } else {
            self.schema.capacity
        }
    }

    /// Number of cells in one tile of a sparse fragment.
    pub fn sparse_tile_cells(&self, tile: TileIdx) -> Result<usize> {
        let last = self.footer.sparse_tile_count.checked_sub(1);
        let cells = if last == Some(tile.0) {
            self.footer.last_tile_cell_count
        } else {
            self.schema.capacity
        };
        Ok(usize::try_from(cells)?)
    }

    /// Number of cells in a sparse fragment, counting all versions of a cell.
    pub fn sparse_cells(&self) -> u64 {
        match self.footer.sparse_tile_count {
            0 => 0,
            tiles => (tiles - 1)
                .saturating_mul(self.schema.capacity)
                .saturating_add(self.footer.last_tile_cell_count),
        }
    }

    /// The path of its metadata file, relative to the array.
    pub fn metadata_path(&self) -> String {
        format!("{}/{METADATA_FILE}", self.folder)
    }

    /// The datatypes of the dimensions, in order.
    pub fn dimension_datatypes(&self) -> Vec<Datatype> {
        self.schema.dimensions.iter().map(|d| d.datatype).collect()
    }
}
