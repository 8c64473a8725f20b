//! The fragment whose tiles are checked, and the reader of each of its fields.

use std::sync::Arc;

use bytes::Bytes;

use super::order::OrderRule;
use crate::array::fragment::{DenseTiles, FragmentField};
use crate::error::Result;
use crate::format::enumeration::Enumeration;
use crate::geometry::tile_grid::TileGrid;
use crate::maintain::check::directory::folders::about_stored;
use crate::maintain::check::directory::schemas::CheckedSchemas;
use crate::maintain::check::fragment::{
    CheckedField, FieldKind, SoundFragment, StoredFieldStatistics, compared_oddly,
};
use crate::maintain::check::report::FindingReporter;
use crate::maintain::check::rule::Rule;
use crate::maintain::column::DecodedColumn;
use crate::maintain::stored_field::{RequestedTile, StoredField, StoredTile};
use crate::storage::Storage;
use crate::tile::decode::{CellOrder, EqualCells, TileBytes};
use crate::tile::fetch::FetchedBytes;
use crate::tile::tile_memory::DecodeScratch;

/// A fragment whose cells are checked.
#[derive(Debug)]
pub struct CheckedFragment {
    /// The fragment; its fields moved into `fields`.
    pub sound: SoundFragment,
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
    /// Whether only the true statistics pass.
    pub exact: bool,
}

impl CheckedFragment {
    pub async fn new(
        storage: &Storage,
        mut sound: SoundFragment,
        schemas: &CheckedSchemas,
        exact: bool,
        report: &FindingReporter,
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
                    StoredField::new(&fragment, field.field, tiles, key)
                }
                Ok(None) => continue,
                Err(e) => Err(e),
            };
            match reader {
                Ok(stored) => {
                    let reader = CheckedReader {
                        field,
                        statistics,
                        stored,
                    };
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
        let is_dimension = |reader: &&CheckedReader| reader.field.kind == FieldKind::Dimension;
        let dimensions = fields.iter().filter(is_dimension).count();
        let dense = if fragment.footer.dense {
            fragment
                .dense_tiles()?
                .zip(TileGrid::new(&fragment.schema).ok())
        } else {
            None
        };
        let plain = (0..fragment.schema.dimensions.len())
            .all(|d| fragment.tells(d) && !compared_oddly(&fragment, d));
        let complete = dimensions == fragment.schema.dimensions.len() && !fragment.footer.dense;
        let order = if complete && plain {
            OrderRule::new(&fragment)?
        } else {
            None
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

    /// The index of a system field.
    pub fn system(&self, field: FragmentField) -> Option<usize> {
        self.fields.iter().position(|r| r.field.field == field)
    }
}

fn enumeration(
    reader: &CheckedReader,
    sound: &SoundFragment,
    schemas: &CheckedSchemas,
) -> Option<Arc<Enumeration>> {
    let FragmentField::Attribute(a) = reader.field.field else {
        return None;
    };
    let attribute = sound.fragment.schema.attributes.get(a)?;
    let name = attribute.enumeration.as_ref()?;
    schemas.enumeration(name).cloned()
}

/// The bytes of a tile.
pub struct TileSource<'a> {
    pub audited: &'a CheckedFragment,
    pub tile: u64,
    pub cells: usize,
    pub requested: &'a [Option<RequestedTile>],
    pub fetched: &'a FetchedBytes,
}

/// A field that is read.
#[derive(Debug)]
pub struct CheckedReader {
    /// How the schema describes it.
    pub field: CheckedField,
    /// The stored statistics of its tiles.
    pub statistics: StoredFieldStatistics,
    /// How it is read.
    pub stored: StoredField,
}

impl CheckedReader {
    /// Decodes a tile; `order` is the order of its cells if they were moved.
    pub fn decode(
        &self,
        requested: &RequestedTile,
        tile: &TileBytes,
        cells: usize,
        order: Option<&CellOrder>,
        scratch: &mut DecodeScratch,
    ) -> Result<DecodedColumn> {
        match self.stored.decode(requested, tile, cells, order, scratch)? {
            StoredTile::Cells(cells) => self.stored.column(cells),
            StoredTile::Numbers(numbers) => DecodedColumn::of_numbers(&numbers),
        }
    }
}

/// The stored coordinates of a tile, from which the order of bitsort is found again.
pub fn moved_order(
    readers: &[CheckedReader],
    coordinates: &[Bytes],
    cells: usize,
    duplicates: EqualCells,
) -> Result<Option<CellOrder>> {
    let Some(bitsort) = readers.iter().find_map(|reader| reader.stored.bitsort()) else {
        return Ok(None);
    };
    let order = bitsort.order(coordinates, cells, duplicates);
    order.map(Some)
}
