//! A tile whose cells bitsort moved: its columns are decoded by the coordinates of all dimensions.
//!
//! Columns that are asked for together share the order of the cells, which the first of them finds out.

use std::sync::OnceLock;

use crate::array::fragment::{FieldTiles, TileIdx};
use crate::error::Result;
use crate::tile::decode::{Bitsort, CellOrder, Duplicates};
use crate::tile::fetch::{FetchList, Fetched, TileTicket};

/// A tile whose cells are to be brought back into the global order.
#[derive(Debug)]
pub struct MovedTile {
    /// Of all dimensions.
    coordinates: Vec<TileTicket>,
    order: OnceLock<CellOrder>,
}

impl MovedTile {
    /// Asks for the coordinates; `dimensions` says where those of all dimensions lie.
    pub fn ask(dimensions: &[FieldTiles], tile: TileIdx, list: &mut FetchList) -> Result<Self> {
        let coordinates = dimensions.iter().map(|field| list.tile(field, tile));
        Ok(Self {
            coordinates: coordinates.collect::<Result<_>>()?,
            order: OnceLock::new(),
        })
    }

    /// The order of its cells.
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
