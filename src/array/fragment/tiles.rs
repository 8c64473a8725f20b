//! The number of tiles in a fragment, and the box of each dense tile.
//!
//! The footer of a sparse fragment counts its tiles. Those of a dense fragment follow from the grid of its schema and
//! the box that was written. The subtle thing: neither number is trusted if the data files are too small for so many
//! tiles.

use super::{Fragment, TileIdx};
use crate::error::{Error, Result};
use crate::geometry::domain::KeyBox;
use crate::geometry::tile_grid::{TileBox, TileGrid};

/// The smallest size of a tile in a data file: its chunk count.
const TILE_BYTES: u64 = 8;

/// The tiles of a dense fragment.
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
