//! One field of one fragment: the places of its tiles, and their decoding to cells as they are stored.
//!
//! The field is read by the fragment's own schema. Cells keep every bit: text may be invalid, and NaN keeps its payload.

use std::sync::Arc;

use super::column::DecodedColumn;
use crate::array::fragment::{FieldTiles, Fragment, FragmentField, TileIdx};
use crate::arrow::{ColumnType, FloatBits, InvalidUtf8, TileBuffer, TypeOptions, UnfilteredCells};
use crate::error::{Error, Result};
use crate::filter::{EncryptionKey, Pipeline};
use crate::format::datatype::Datatype;
use crate::tile::decode::{
    Bitsort, CellOrder, ColumnDecoder, NeededCells, TileBytes, cell_numbers_pipeline, decode_u64,
};
use crate::tile::fetch::{FetchList, TileTicket};
use crate::tile::tile_memory::DecodeScratch;

/// A field of a fragment, ready to be read.
#[derive(Debug)]
pub struct StoredField {
    /// The field.
    pub field: FragmentField,
    decoder: StoredFieldDecoder,
    /// Size of a cell; `None` if cells differ in size.
    cell_bytes: Option<usize>,
    tiles: FieldTiles,
}

#[derive(Debug)]
enum StoredFieldDecoder {
    Column(Box<ColumnDecoder>),
    /// Times of cells, and indexes of delete conditions.
    Numbers(Pipeline),
}

/// A requested tile of a field.
#[derive(Debug, Clone, Copy)]
pub struct RequestedTile {
    /// Where its bytes will be.
    pub ticket: TileTicket,
    var_bytes: usize,
}

/// The decoded cells of a tile.
#[derive(Debug)]
pub enum StoredTile {
    /// Cells of a dimension or an attribute.
    Cells(UnfilteredCells),
    /// Numbers of a system field.
    Numbers(Vec<u64>),
}

impl StoredField {
    /// A field whose tiles are at `tiles`.
    pub fn new(
        fragment: &Fragment,
        field: FragmentField,
        tiles: FieldTiles,
        key: Option<&Arc<EncryptionKey>>,
    ) -> Result<Self> {
        let (schema, version) = (&fragment.schema, fragment.footer.version);
        let as_stored = TypeOptions {
            invalid_utf8: InvalidUtf8::Binary,
            float_bits: FloatBits::Stored,
            ..TypeOptions::default()
        };
        let missing = || Error::internal("a fragment has no such field");
        let (decoder, cell_bytes) = match field {
            FragmentField::Dimension(d) => {
                let dimension = schema.dimensions.get(d).ok_or_else(missing)?;
                let (datatype, cells) = (dimension.datatype, dimension.cell_val_num);
                let ty = ColumnType::plain(datatype, cells, false, &as_stored)?;
                let decoder = ColumnDecoder::for_dimension(schema, d, version, &ty, key)?;
                let decoder = StoredFieldDecoder::Column(Box::new(decoder));
                (decoder, cells.cell_size(datatype)?)
            }
            FragmentField::Attribute(a) => {
                let attribute = schema.attributes.get(a).ok_or_else(missing)?;
                let (datatype, cells) = (attribute.datatype, attribute.cell_val_num);
                let ty = ColumnType::plain(datatype, cells, attribute.nullable, &as_stored)?;
                let decoder = ColumnDecoder::for_attribute(schema, a, version, &ty, key)?;
                let decoder = StoredFieldDecoder::Column(Box::new(decoder));
                (decoder, cells.cell_size(datatype)?)
            }
            FragmentField::Timestamps
            | FragmentField::DeleteTimestamps
            | FragmentField::DeleteConditionIndex => {
                let pipeline = cell_numbers_pipeline(schema, version, key)?;
                let decoder = StoredFieldDecoder::Numbers(pipeline);
                (decoder, Some(size_of::<u64>()))
            }
        };
        Ok(Self {
            field,
            decoder,
            cell_bytes,
            tiles,
        })
    }

    /// The type of the elements.
    pub fn datatype(&self) -> Datatype {
        match &self.decoder {
            StoredFieldDecoder::Column(decoder) => decoder.datatype(),
            StoredFieldDecoder::Numbers(_) => Datatype::UInt64,
        }
    }

    /// How bitsort moved the cells of the field, if it did.
    pub fn bitsort(&self) -> Option<&Bitsort> {
        match &self.decoder {
            StoredFieldDecoder::Column(decoder) => decoder.bitsort(),
            StoredFieldDecoder::Numbers(_) => None,
        }
    }

    /// The number of filtered bytes of a tile. A file in which the tile can't be located counts nothing.
    pub fn filtered_bytes(&self, tile: TileIdx) -> u64 {
        let var = self.tiles.var.as_ref().map(|(file, _)| file);
        let files = [Some(&self.tiles.values), var, self.tiles.validity.as_ref()];
        let ranges = files.into_iter().flatten().map(|file| file.tile(tile));
        ranges
            .flatten()
            .map(|range| range.end.saturating_sub(range.start))
            .fold(0, u64::saturating_add)
    }

    /// Requests a tile.
    pub fn request(&self, tile: TileIdx, list: &mut FetchList) -> Result<RequestedTile> {
        Ok(RequestedTile {
            ticket: list.tile(&self.tiles, tile)?,
            var_bytes: self.tiles.var_bytes(tile)?,
        })
    }

    /// About how many bytes the decoded tile takes.
    pub fn decoded_bytes(&self, requested: &RequestedTile, cells: usize) -> usize {
        match &self.decoder {
            StoredFieldDecoder::Column(decoder) => {
                decoder.decoded_bytes(cells, requested.var_bytes)
            }
            StoredFieldDecoder::Numbers(_) => cells.saturating_mul(16),
        }
    }

    /// Decodes a tile of `cells` cells; `order` is the order of its cells if bitsort moved them.
    pub fn decode(
        &self,
        requested: &RequestedTile,
        tile: &TileBytes,
        cells: usize,
        order: Option<&CellOrder>,
        scratch: &mut DecodeScratch,
    ) -> Result<StoredTile> {
        let decoder = match &self.decoder {
            StoredFieldDecoder::Column(decoder) => decoder,
            StoredFieldDecoder::Numbers(pipeline) => {
                let numbers = decode_u64(pipeline, &tile.values, cells, scratch)?;
                return Ok(StoredTile::Numbers(numbers));
            }
        };
        let cells = match order.filter(|_| decoder.bitsort().is_some()) {
            Some(order) => decoder.decode_moved(tile, order, scratch)?,
            None => {
                decoder.decode_cells(tile, cells, requested.var_bytes, NeededCells::All, scratch)?
            }
        };
        Ok(StoredTile::Cells(cells))
    }

    /// The decoded cells as a column, whose offsets are checked.
    pub fn column(&self, cells: UnfilteredCells) -> Result<DecodedColumn> {
        DecodedColumn::new(cells, self.cell_bytes)
    }

    /// The bytes of a validity tile; `None` if the field has no validity.
    pub fn validity(
        &self,
        tile: &TileBytes,
        cells: usize,
        scratch: &mut DecodeScratch,
    ) -> Result<Option<TileBuffer>> {
        match &self.decoder {
            StoredFieldDecoder::Column(decoder) => decoder.validity(tile, cells, scratch),
            StoredFieldDecoder::Numbers(_) => Ok(None),
        }
    }
}
