//! What the check of a fragment's tiles has at hand.

use std::sync::Arc;

use super::order::OrderRule;
use super::reader::{Asked, FieldReader};
use crate::array::fragment::{DenseTiles, FragmentField, TileIdx};
use crate::error::Result;
use crate::format::enumeration::Enumeration;
use crate::geometry::tile_grid::TileGrid;
use crate::maintain::check::directory::folders::about_stored;
use crate::maintain::check::directory::schemas::Schemas;
use crate::maintain::check::fragment::{Kind, Sound, compared_oddly};
use crate::maintain::check::report::Reporter;
use crate::maintain::check::rule::Rule;
use crate::storage::Storage;
use crate::tile::fetch::Fetched;

/// A fragment whose cells are checked.
#[derive(Debug)]
pub struct Audited {
    /// The fragment; its fields moved into `fields`.
    pub sound: Sound,
    /// The fields that can be read: dimensions first.
    pub fields: Vec<FieldReader>,
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
                    FieldReader::new(&fragment, field, statistics, tiles, key)
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
        let is_dimension = |reader: &&FieldReader| reader.field.kind == Kind::Dimension;
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

fn enumeration(reader: &FieldReader, sound: &Sound, schemas: &Schemas) -> Option<Arc<Enumeration>> {
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
