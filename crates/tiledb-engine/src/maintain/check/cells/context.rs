//! What the check of a fragment's tiles has at hand, and the decoder of one field of a fragment, by the fragment's own
//! schema.

use std::sync::Arc;

use bytes::Bytes;

use super::order::OrderRule;
use crate::array::fragment::{DenseTiles, FieldTiles, Fragment, FragmentField, TileIdx};
use crate::arrow::{CellData, Cells, ColumnType, FloatBits, InvalidUtf8, TileBuffer, TypeOptions};
use crate::error::Result;
use crate::filter::{EncryptionKey, Pipeline, TileContext};
use crate::format::datatype::Datatype;
use crate::format::enumeration::Enumeration;
use crate::format::schema::ArraySchema;
use crate::geometry::tile_grid::TileGrid;
use crate::maintain::check::directory::folders::about_stored;
use crate::maintain::check::directory::schemas::Schemas;
use crate::maintain::check::fragment::{Field, FieldStatistics, Kind, Sound, compared_oddly};
use crate::maintain::check::report::Reporter;
use crate::maintain::check::rule::Rule;
use crate::maintain::column::Column;
use crate::storage::Storage;
use crate::tile::decode::{
    Bitsort, CellOrder, ColumnDecoder, Duplicates, Needed, TileBytes, cell_numbers_pipeline,
    decode_u64,
};
use crate::tile::fetch::{FetchList, Fetched, TileTicket};
use crate::tile::tile_memory::Scratch;

/// A fragment whose cells are checked.
#[derive(Debug)]
pub struct Audited {
    /// The fragment; its fields moved into `fields`.
    pub sound: Sound,
    /// The fields that can be read: dimensions first.
    pub fields: Vec<CheckedReader>,
    /// The enumeration of each field.
    pub enumerations: Vec<Option<Arc<Enumeration>>>,
    /// How many of the fields are dimensions.
    pub dimensions: usize,
    /// The tiles of a dense fragment, and their grid.
    pub dense: Option<(DenseTiles, TileGrid)>,
    /// `None` if the order of cells cannot be checked.
    pub order: Option<OrderRule>,
    /// Whether only true statistics pass.
    pub exact: bool,
}

impl Audited {
    pub async fn new(
        storage: &Storage,
        mut sound: Sound,
        schemas: &Schemas,
        exact: bool,
        report: &Reporter,
    ) -> Result<Self> {
        let fragment = Arc::clone(&sound.fragment);
        let mut fields = Vec::new();
        let mut enumerations = Vec::new();
        for (field, statistics) in std::mem::take(&mut sound.fields) {
            if !statistics.readable {
                continue;
            }
            let object = format!("{}, {field}", fragment.folder);
            let tiles = fragment.field_tiles(storage, &[field.field]).await;
            let tiles = tiles.map(|mut tiles| tiles.pop());
            let reader = match tiles {
                Ok(Some(tiles)) => {
                    let key = storage.encryption_key();
                    CheckedReader::new(&fragment, field, statistics, tiles, key)
                }
                Ok(None) => continue,
                Err(e) => Err(e),
            };
            match reader {
                Ok(reader) => {
                    enumerations.push(enumeration(&reader, &sound, schemas));
                    fields.push(reader);
                }
                Err(e) => {
                    let found = about_stored(e)?.to_string();
                    report.tell(
                        Rule::UnreadableTile,
                        object,
                        found,
                        "a field that can be decoded",
                    );
                }
            }
        }
        let is_dimension = |reader: &&CheckedReader| reader.field.kind == Kind::Dimension;
        let dimensions = fields.iter().filter(is_dimension).count();
        let dense = match fragment.footer.dense {
            true => fragment
                .dense_tiles()?
                .zip(TileGrid::new(&fragment.schema).ok()),
            false => None,
        };
        let plain = (0..fragment.schema.dimensions.len())
            .all(|d| fragment.tells(d) && !compared_oddly(&fragment, d));
        let complete = dimensions == fragment.schema.dimensions.len() && !fragment.footer.dense;
        let order = match complete && plain {
            true => OrderRule::new(&fragment)?,
            false => None,
        };
        Ok(Self {
            sound,
            fields,
            enumerations,
            dimensions,
            dense,
            order,
            exact,
        })
    }

    /// The number of cells in a tile on storage.
    pub fn cells_in(&self, tile: u64) -> Result<usize> {
        let fragment = &self.sound.fragment;
        match fragment.footer.dense {
            true => Ok(usize::try_from(fragment.cells_per_tile())?),
            false => fragment.sparse_tile_cells(TileIdx(tile)),
        }
    }

    /// The index of a system field.
    pub fn system(&self, field: FragmentField) -> Option<usize> {
        self.fields.iter().position(|r| r.field.field == field)
    }
}

fn enumeration(
    reader: &CheckedReader,
    sound: &Sound,
    schemas: &Schemas,
) -> Option<Arc<Enumeration>> {
    let FragmentField::Attribute(a) = reader.field.field else {
        return None;
    };
    let attribute = sound.fragment.schema.attributes.get(a)?;
    let name = attribute.enumeration.as_ref()?;
    schemas.enumeration(name).cloned()
}

/// The bytes of a tile.
pub struct Source<'a> {
    pub audited: &'a Audited,
    pub tile: u64,
    pub cells: usize,
    pub asked: &'a [Option<Asked>],
    pub fetched: &'a Fetched,
}

/// How a field is decoded.
#[derive(Debug)]
enum CheckedDecoder {
    Column(Box<ColumnDecoder>),
    /// Times and indexes of cells.
    Numbers(Pipeline),
}

/// A field that is read.
#[derive(Debug)]
pub struct CheckedReader {
    pub field: Field,
    pub stored: FieldStatistics,
    tiles: FieldTiles,
    decoder: CheckedDecoder,
    /// Decodes validity once more, to see its bytes.
    validity: Option<Pipeline>,
}

/// A tile of a field, before it is fetched.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    pub ticket: TileTicket,
    var_bytes: usize,
}

impl CheckedReader {
    /// A reader of a field whose tiles are at `tiles`.
    pub fn new(
        fragment: &Fragment,
        field: Field,
        stored: FieldStatistics,
        tiles: FieldTiles,
        key: Option<&Arc<EncryptionKey>>,
    ) -> Result<Self> {
        let (schema, version) = (&fragment.schema, fragment.footer.version);
        let raw = TypeOptions {
            invalid_utf8: InvalidUtf8::Binary,
            float_bits: FloatBits::Stored,
            ..TypeOptions::default()
        };
        let ty = ColumnType::plain(field.datatype, field.cell_val_num, field.nullable, &raw)?;
        let decoder = match field.field {
            FragmentField::Dimension(d) => {
                let decoder = ColumnDecoder::for_dimension(schema, d, version, &ty, key)?;
                CheckedDecoder::Column(Box::new(decoder))
            }
            FragmentField::Attribute(a) => {
                let decoder = ColumnDecoder::for_attribute(schema, a, version, &ty, key)?;
                CheckedDecoder::Column(Box::new(decoder))
            }
            _ => CheckedDecoder::Numbers(cell_numbers_pipeline(schema, version, key)?),
        };
        let validity = field.nullable.then(|| validity(schema, fragment, key));
        Ok(Self {
            validity: validity.transpose()?,
            field,
            stored,
            tiles,
            decoder,
        })
    }

    /// Requests a tile.
    pub fn ask(&self, tile: u64, list: &mut FetchList) -> Result<Asked> {
        let tile = TileIdx(tile);
        Ok(Asked {
            ticket: list.tile(&self.tiles, tile)?,
            var_bytes: self.tiles.var_bytes(tile)?,
        })
    }

    /// The number of filtered bytes of a tile; 0 if it cannot be located.
    pub fn filtered_bytes(&self, tile: u64) -> u64 {
        let var = self.tiles.var.as_ref().map(|(file, _)| file);
        let files = [Some(&self.tiles.values), var, self.tiles.validity.as_ref()];
        let ranges = files.into_iter().flatten().map(|f| f.tile(TileIdx(tile)));
        ranges
            .flatten()
            .map(|r| r.end.saturating_sub(r.start))
            .fold(0, u64::saturating_add)
    }

    /// About how many bytes a decoded tile takes.
    pub fn decoded_bytes(&self, asked: &Asked, cells: usize) -> usize {
        match &self.decoder {
            CheckedDecoder::Column(decoder) => decoder.decoded_bytes(cells, asked.var_bytes),
            CheckedDecoder::Numbers(_) => cells.saturating_mul(16),
        }
    }

    /// Whether bitsort moved the cells of the field.
    pub fn moved(&self) -> Option<&Bitsort> {
        match &self.decoder {
            CheckedDecoder::Column(decoder) => decoder.bitsort(),
            CheckedDecoder::Numbers(_) => None,
        }
    }

    /// Decodes a tile; `order` is that of its cells if they were moved.
    pub fn decode(
        &self,
        asked: &Asked,
        tile: &TileBytes,
        cells: usize,
        order: Option<&CellOrder>,
        scratch: &mut Scratch,
    ) -> Result<Column> {
        let decoded = match (&self.decoder, order) {
            (CheckedDecoder::Numbers(pipeline), _) => {
                let numbers = decode_u64(pipeline, &tile.values, cells, scratch)?;
                let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
                Cells {
                    len: cells,
                    data: CellData::Fixed(TileBuffer::copy_of(&bytes)?),
                    nulls: None,
                }
            }
            (CheckedDecoder::Column(decoder), Some(order)) if decoder.bitsort().is_some() => {
                decoder.decode_moved(tile, order, scratch)?
            }
            (CheckedDecoder::Column(decoder), _) => {
                decoder.decode_cells(tile, cells, asked.var_bytes, Needed::All, scratch)?
            }
        };
        Column::new(decoded, self.field.cell_size())
    }

    /// The bytes of a validity tile; `None` if the field has none.
    pub fn validity(
        &self,
        tile: &TileBytes,
        cells: usize,
        scratch: &mut Scratch,
    ) -> Result<Option<Vec<u8>>> {
        let (Some(pipeline), Some(stored)) = (&self.validity, &tile.validity) else {
            return Ok(None);
        };
        // The tile was decoded before, so its size is not made up.
        let mut bytes = vec![0; cells];
        pipeline.decode(stored, &mut bytes, &mut scratch.filters)?;
        Ok(Some(bytes))
    }
}

fn validity(
    schema: &ArraySchema,
    fragment: &Fragment,
    key: Option<&Arc<EncryptionKey>>,
) -> Result<Pipeline> {
    let context = TileContext {
        datatype: Datatype::UInt8,
        cell_bytes: 1,
        schema_version: schema.version,
        fragment_version: fragment.footer.version,
        var_data: false,
    };
    Pipeline::new(&schema.validity_filters, &context, key)
}

/// The stored coordinates of a tile, by which bitsort's order is found again.
pub fn moved_order(
    readers: &[CheckedReader],
    coordinates: &[Bytes],
    cells: usize,
    duplicates: Duplicates,
) -> Result<Option<CellOrder>> {
    let Some(bitsort) = readers.iter().find_map(CheckedReader::moved) else {
        return Ok(None);
    };
    let order = bitsort.order(coordinates, cells, duplicates);
    order.map(Some)
}
