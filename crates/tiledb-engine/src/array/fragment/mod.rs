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

pub use field_tiles::{FieldTiles, FragmentField, TileFile};

pub(super) use sections::{FOOTER, keep_end, load_monolithic};

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use super::window::WindowVisibility;
use crate::error::{Error, Result};
use crate::format::datatype::Datatype;
use crate::format::fragment::footer::{Footer, SectionStarts};
use crate::format::fragment::slots::FieldSlots;
use crate::format::names::TimestampedName;
use crate::format::schema::ArraySchema;
use crate::geometry::domain::KeyBox;
use crate::geometry::subarray::Subarray;
use crate::geometry::tile_grid::{TileBox, TileGrid};
use crate::storage::FileInfo;

/// The file that holds all metadata of a fragment.
pub const METADATA_FILE: &str = "__fragment_metadata.tdb";

/// Position of a tile within its fragment, in the fragment's tile order.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
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
    pub visibility: WindowVisibility,
    /// The schema it was written with.
    pub schema: Arc<ArraySchema>,
    /// The footer.
    pub footer: Arc<Footer>,
    pub(super) slots: FieldSlots,
    pub(super) footer_start: Option<u64>,
    pub(super) commit: FileInfo,
    /// Where the sections of its metadata file start, once one of them was read.
    pub(super) section_starts: OnceLock<SectionStarts>,
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

    /// Number of cells in one tile as it is stored; the tiles of dense fragments are padded.
    pub fn stored_tile_cells(&self, tile: TileIdx) -> Result<usize> {
        if self.footer.dense {
            Ok(usize::try_from(self.cells_per_tile())?)
        } else {
            self.sparse_tile_cells(tile)
        }
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

    /// The end of the section of its metadata file that starts at `start`, in a file whose footer, or whose end, is at `limit`.
    pub fn section_end(&self, start: u64, limit: u64) -> u64 {
        let starts = self
            .section_starts
            .get_or_init(|| self.footer.section_starts());
        starts.end(start, limit)
    }

    /// Whether a subarray touches its non-empty domain.
    pub fn touches(&self, subarray: &Subarray) -> bool {
        let mut dimensions = subarray.dims().iter().enumerate();
        let written = self.footer.non_empty_domain.is_some();
        written
            && dimensions
                .all(|(d, ranges)| ranges.is_all() || self.non_empty_range(d).touches(ranges))
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

/// The smallest size of a tile in a data file: its chunk count.
const TILE_BYTES: u64 = 8;

/// The tiles of a dense fragment.
///
/// The footer of a sparse fragment counts its tiles. Those of a dense fragment follow from the grid of its schema and
/// the box that was written. The subtle thing: neither number is trusted if the data files are too small for so many
/// tiles.
#[derive(Debug, Clone)]
pub struct DenseTiles {
    grid: TileGrid,
    /// The written box, inside the domain.
    written: KeyBox,
    tiles: TileBox,
}

impl DenseTiles {
    /// The written cells of a tile.
    pub fn cells_of(&self, tile: TileIdx) -> Option<KeyBox> {
        let tile = self.tiles.tile_at(tile.0)?;
        self.grid.tile_box(&tile).intersect(&self.written)
    }

    /// The written box.
    pub fn written(&self) -> &KeyBox {
        &self.written
    }
}

impl Fragment {
    /// The number of tiles.
    pub fn tile_count(&self) -> Result<u64> {
        let count = if self.footer.dense {
            match self.dense_tiles()? {
                Some(dense) => dense.tiles.count(),
                None => Some(0),
            }
        } else {
            Some(self.footer.sparse_tile_count)
        };
        let bytes = self.footer.file_sizes.iter().max().copied();
        let room = bytes.unwrap_or(0) / TILE_BYTES;
        count.filter(|count| *count <= room).ok_or_else(|| {
            Error::corrupt(format!(
                "the footer stands for {} tiles, but the largest data file has room for at most {room}",
                count.map_or_else(|| "more than 2^64".to_owned(), |count| count.to_string())
            ))
            .with("fragment", &self.name.name)
        })
    }

    /// The tiles of a dense fragment; `None` if it has no cells.
    pub fn dense_tiles(&self) -> Result<Option<DenseTiles>> {
        let Some(ranges) = &self.footer.non_empty_domain else {
            return Ok(None);
        };
        let at = |e: Error| e.with("fragment", &self.name.name);
        let grid = TileGrid::new(&self.schema).map_err(at)?;
        let written = KeyBox::from_ranges(&self.dimension_datatypes(), ranges).map_err(at)?;
        // Old consolidations widened the box to whole tiles; the cells outside the domain are padding.
        Ok(written.intersect(grid.domain()).map(|written| DenseTiles {
            tiles: grid.tiles_of_box(&written),
            grid,
            written,
        }))
    }

    /// The number of written cells, counting all versions of a cell; `None` if it does not fit in a `u64`.
    pub fn cell_count(&self) -> Result<Option<u64>> {
        if !self.footer.dense {
            return Ok(Some(self.sparse_cells()));
        }
        let dense = self.dense_tiles()?;
        Ok(dense.map_or(Some(0), |dense| dense.written.cells()))
    }
}
