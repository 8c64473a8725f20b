//! A tile whose cells bitsort moved: decoding its columns needs the coordinates of all dimensions.
//!
//! Columns that are requested together share the order of the cells, which is computed once.

use std::sync::OnceLock;

use crate::array::fragment::{FieldTiles, TileIdx};
use crate::error::Result;
use crate::tile::decode::{Bitsort, CellOrder, Duplicates};
use crate::tile::fetch::{FetchList, Fetched, TileTicket};

/// A tile whose cells must be restored to the global order.
#[derive(Debug)]
pub struct MovedTile {
    /// The coordinates of all dimensions.
    coordinates: Vec<TileTicket>,
    order: OnceLock<CellOrder>,
}

impl MovedTile {
    /// Requests the coordinates; `dimensions` locates the tiles of all dimensions.
    pub fn ask(dimensions: &[FieldTiles], tile: TileIdx, list: &mut FetchList) -> Result<Self> {
        let coordinates = dimensions.iter().map(|field| list.tile(field, tile));
        Ok(Self {
            coordinates: coordinates.collect::<Result<_>>()?,
            order: OnceLock::new(),
        })
    }

    /// The global order of its cells.
    pub fn order(
        &self,
        bitsort: &Bitsort,
        fetched: &Fetched,
        cells: usize,
        duplicates: Duplicates,
    ) -> Result<&CellOrder> {
        if let Some(order) = self.order.get() {
            return Ok(order);
        }
        let tiles = self.coordinates.iter();
        let tiles = tiles.map(|ticket| fetched.tile(*ticket).map(|tile| tile.values));
        let coordinates = tiles.collect::<Result<Vec<_>>>()?;
        let order = bitsort.order(&coordinates, cells, duplicates)?;
        Ok(self.order.get_or_init(|| order))
    }
}
