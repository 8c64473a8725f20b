//! One input: where its tiles are, and how they are decoded into columns of the output.
//!
//! Each input is read by the schema it was written with. A field that it lacks, or has with another type, becomes the fill
//! value of the output's schema, as readers show it.

use std::ops::Range;
use std::sync::Arc;

use super::deleted::{DeletedCells, InputDeletes, NEVER};
use super::order::MergeOrder;
use super::tile::{InputTile, TileColumn};
use crate::array::fragment::{FieldTiles, Fragment, FragmentField, TileIdx};
use crate::error::{Error, Result, ResultExt};
use crate::filter::EncryptionKey;
use crate::format::schema::ArraySchema;
use crate::maintain::column::DecodedColumn;
use crate::maintain::stored_field::{RequestedTile, StoredField, StoredTile};
use crate::storage::Storage;
use crate::tile::fetch::{FetchList, FetchedBytes};
use crate::tile::tile_memory::DecodeScratch;
use crate::write::fields::WrittenFields;

/// The output of a consolidation, which all inputs share.
#[derive(Debug)]
pub(in crate::maintain::consolidate) struct ConsolidatedOutput {
    /// The fields of the output.
    pub fields: Arc<WrittenFields>,
    /// The order of its cells.
    pub order: MergeOrder,
    /// Which deleted cells are dropped, if any are.
    pub drops_deleted: Option<DropsDeleted>,
}

/// Deleted cells are dropped from the output.
#[derive(Debug, Clone, Copy)]
pub(in crate::maintain::consolidate) struct DropsDeleted {
    /// Only those that were deleted until this time.
    pub until: u64,
}

/// One input.
#[derive(Debug)]
pub(in crate::maintain::consolidate) struct MergeSource {
    /// The fragment.
    pub fragment: Arc<Fragment>,
    /// The time of its cells, if they don't have their own.
    time: u64,
    output: Arc<ConsolidatedOutput>,
    readers: Vec<StoredField>,
    columns: Vec<MergedColumnSource>,
    deletes: Arc<InputDeletes>,
}

/// The source of a column of the output.
#[derive(Debug)]
enum MergedColumnSource {
    /// The reader with this index; whether the column has NULLs.
    Reader(usize, bool),
    Fill {
        value: Arc<[u8]>,
        valid: bool,
    },
    Written,
    DeleteTimes,
    DeleteIndices,
}

/// Tiles that are fetched together.
#[derive(Debug)]
pub(super) struct SourceTiles {
    /// The first of them.
    pub first: u64,
    /// The requested fields of each tile, one for each reader.
    tiles: Vec<Vec<RequestedTile>>,
    /// The bytes that each decoded tile will take.
    pub decoded_bytes: Vec<usize>,
}

impl SourceTiles {
    /// The bytes that all decoded tiles will take.
    pub(super) fn bytes(&self) -> usize {
        let bytes = self.decoded_bytes.iter();
        bytes.fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// A decoded field.
#[derive(Debug, Clone)]
enum ReadField {
    Column(Arc<DecodedColumn>),
    Numbers(Arc<Vec<u64>>),
}

impl MergeSource {
    /// Opens an input.
    pub(in crate::maintain::consolidate) async fn open(
        storage: &Storage,
        fragment: Arc<Fragment>,
        time: u64,
        output: Arc<ConsolidatedOutput>,
        deletes: Arc<InputDeletes>,
    ) -> Result<Self> {
        let name = fragment.name.name.clone();
        Self::load(storage, fragment, time, output, deletes)
            .await
            .context("fragment", || name)
    }

    async fn load(
        storage: &Storage,
        fragment: Arc<Fragment>,
        time: u64,
        output: Arc<ConsolidatedOutput>,
        deletes: Arc<InputDeletes>,
    ) -> Result<Self> {
        let mut wanted: Vec<FragmentField> = Vec::new();
        let mut reader_of = |field: FragmentField| {
            let known = wanted.iter().position(|f| *f == field);
            known.unwrap_or_else(|| {
                wanted.push(field);
                wanted.len() - 1
            })
        };
        let mut columns = Vec::with_capacity(output.fields.fields.len());
        for field in &output.fields.fields {
            columns.push(match field.field {
                FragmentField::Dimension(_) => {
                    MergedColumnSource::Reader(reader_of(field.field), false)
                }
                FragmentField::Attribute(a) => {
                    match own_attribute(&output.fields.schema, a, &fragment.schema) {
                        Some(own) => MergedColumnSource::Reader(
                            reader_of(FragmentField::Attribute(own)),
                            field.nullable,
                        ),
                        None => fill(&output.fields.schema, a)?,
                    }
                }
                FragmentField::Timestamps => MergedColumnSource::Written,
                FragmentField::DeleteTimestamps => MergedColumnSource::DeleteTimes,
                FragmentField::DeleteConditionIndex => MergedColumnSource::DeleteIndices,
            });
        }
        if fragment.footer.has_timestamps {
            reader_of(FragmentField::Timestamps);
        }
        if fragment.footer.has_delete_metadata {
            reader_of(FragmentField::DeleteTimestamps);
            reader_of(FragmentField::DeleteConditionIndex);
        }
        for field in deletes.fields() {
            reader_of(field);
        }
        let tiles = fragment.field_tiles(storage, &wanted).await?;
        let readers = wanted.into_iter().zip(tiles);
        let key = storage.encryption_key();
        let readers = readers
            .map(|(field, tiles)| reader(&fragment, field, tiles, key))
            .collect::<Result<_>>()?;
        Ok(Self {
            fragment,
            time,
            output,
            readers,
            columns,
            deletes,
        })
    }

    /// Filtered bytes of a tile.
    pub(super) fn filtered_bytes(&self, tile: u64) -> u64 {
        let readers = self.readers.iter();
        let bytes = readers.map(|reader| reader.filtered_bytes(TileIdx(tile)));
        bytes.fold(0, u64::saturating_add)
    }

    /// Requests tiles.
    pub(super) fn ask(&self, tiles: Range<u64>, list: &mut FetchList) -> Result<SourceTiles> {
        let mut asked = Vec::new();
        let mut decoded = Vec::new();
        for tile in tiles.clone() {
            let mut bytes = 0_usize;
            let cells = self.fragment.stored_tile_cells(TileIdx(tile))?;
            let mut of_tile = Vec::with_capacity(self.readers.len());
            for reader in &self.readers {
                let requested = reader.request(TileIdx(tile), list)?;
                bytes = bytes.saturating_add(reader.decoded_bytes(&requested, cells));
                of_tile.push(requested);
            }
            // The keys and the times of cells, and the starts of strings.
            decoded.push(bytes.saturating_add(cells.saturating_mul(32)));
            asked.push(of_tile);
        }
        Ok(SourceTiles {
            first: tiles.start,
            tiles: asked,
            decoded_bytes: decoded,
        })
    }

    /// Decodes sparse tiles; `serial` is the number of the first.
    pub(super) fn decode(
        &self,
        asked: &SourceTiles,
        fetched: &FetchedBytes,
        serial: u64,
        scratch: &mut DecodeScratch,
    ) -> Result<Vec<InputTile>> {
        let numbered = asked.tiles.iter().zip(asked.first..).zip(serial..);
        let tiles = numbered.map(|((requested, tile), serial)| {
            self.decode_tile(tile, requested, fetched, serial, scratch)
                .context("tile", || tile.to_string())
                .context("fragment", || &self.fragment.name.name)
        });
        tiles.collect()
    }

    /// The columns of a dense tile.
    pub(super) fn decode_dense(
        &self,
        asked: &SourceTiles,
        fetched: &FetchedBytes,
        scratch: &mut DecodeScratch,
    ) -> Result<Vec<TileColumn>> {
        let decode = |scratch: &mut DecodeScratch| {
            let requested = asked
                .tiles
                .first()
                .ok_or_else(|| Error::internal("no tile was asked for"))?;
            let cells = self.fragment.stored_tile_cells(TileIdx(asked.first))?;
            let read = self.read(requested, cells, fetched, scratch)?;
            let columns = self
                .columns
                .iter()
                .map(|supply| self.column(supply, &read, None));
            columns.collect::<Result<Vec<_>>>()
        };
        decode(scratch)
            .context("tile", || asked.first.to_string())
            .context("fragment", || &self.fragment.name.name)
    }

    fn read(
        &self,
        requested: &[RequestedTile],
        cells: usize,
        fetched: &FetchedBytes,
        scratch: &mut DecodeScratch,
    ) -> Result<Vec<ReadField>> {
        let mut read = Vec::with_capacity(self.readers.len());
        for (reader, requested) in self.readers.iter().zip(requested) {
            read.push(decode(reader, requested, cells, fetched, scratch)?);
        }
        Ok(read)
    }

    fn decode_tile(
        &self,
        tile: u64,
        requested: &[RequestedTile],
        fetched: &FetchedBytes,
        serial: u64,
        scratch: &mut DecodeScratch,
    ) -> Result<InputTile> {
        let cells = self.fragment.stored_tile_cells(TileIdx(tile))?;
        let read = self.read(requested, cells, fetched, scratch)?;
        let numbers = |field: FragmentField| -> Option<Arc<Vec<u64>>> {
            let reader = self.readers.iter().position(|r| r.field == field)?;
            match read.get(reader)? {
                ReadField::Numbers(numbers) => Some(Arc::clone(numbers)),
                ReadField::Column(_) => None,
            }
        };
        let written = numbers(FragmentField::Timestamps);
        let deleted = if self.deletes.is_none() {
            None
        } else {
            let times = match &written {
                Some(times) => Arc::clone(times),
                None => Arc::new(vec![self.time; cells]),
            };
            let recorded = numbers(FragmentField::DeleteTimestamps)
                .zip(numbers(FragmentField::DeleteConditionIndex));
            let recorded = recorded.as_ref().map(|(t, i)| (t.as_slice(), i.as_slice()));
            let column = |field: FragmentField| {
                let reader = self.readers.iter().position(|r| r.field == field)?;
                match read.get(reader)? {
                    ReadField::Column(column) => Some(Arc::clone(column)),
                    ReadField::Numbers(_) => None,
                }
            };
            Some(self.deletes.find(cells, column, &times, recorded)?)
        };
        let columns = self
            .columns
            .iter()
            .map(|supply| self.column(supply, &read, deleted.as_ref()))
            .collect::<Result<Vec<_>>>()?;
        let drops = deleted.zip(self.output.drops_deleted);
        let dead = drops.and_then(|(deleted, DropsDeleted { until })| {
            let is_dead = |time: &u64| *time != NEVER && *time <= until;
            let dead = deleted.times.iter().map(is_dead).collect::<Vec<_>>();
            dead.contains(&true).then_some(dead)
        });
        let keys = self.output.order.keys(&columns, cells)?;
        let written = match written {
            Some(times) => TileColumn::Numbers(times.to_vec()),
            None => TileColumn::Number(self.time),
        };
        let bytes = columns
            .iter()
            .map(|column| column.bytes(cells))
            .sum::<usize>();
        let mut tile = InputTile {
            serial,
            cells,
            columns,
            keys,
            written,
            dead,
            sorted: None,
            bytes_per_cell: bytes / cells.max(1) + 1,
            memory: None,
        };
        tile.sorted = self.output.order.sort(&tile);
        Ok(tile)
    }

    fn column(
        &self,
        supply: &MergedColumnSource,
        read: &[ReadField],
        deleted: Option<&DeletedCells>,
    ) -> Result<TileColumn> {
        Ok(match supply {
            MergedColumnSource::Reader(reader, nullable) => match read.get(*reader) {
                Some(ReadField::Column(column)) => {
                    if column.has_nulls() && !nullable {
                        let name = self.readers.get(*reader).map(|r| format!("{:?}", r.field));
                        return Err(Error::unsupported(
                            "the fragment holds NULLs but the array's schema no longer allows them",
                        )
                        .with("field", name.unwrap_or_default()));
                    }
                    TileColumn::Stored(Arc::clone(column))
                }
                _ => return Err(Error::internal("a field was not decoded")),
            },
            MergedColumnSource::Fill { value, valid } => TileColumn::Fill {
                value: Arc::clone(value),
                valid: *valid,
            },
            MergedColumnSource::Written => {
                let mut readers = self.readers.iter().zip(read);
                let times = readers.find(|(r, _)| r.field == FragmentField::Timestamps);
                match times {
                    Some((_, ReadField::Numbers(times))) => TileColumn::Numbers(times.to_vec()),
                    _ => TileColumn::Number(self.time),
                }
            }
            MergedColumnSource::DeleteTimes => numbers_or_never(deleted.map(|d| &d.times)),
            MergedColumnSource::DeleteIndices => numbers_or_never(deleted.map(|d| &d.indices)),
        })
    }
}

/// A field of an input. Bitsort isn't written, so a fragment whose cells it moved can't be consolidated.
fn reader(
    fragment: &Fragment,
    field: FragmentField,
    tiles: FieldTiles,
    key: Option<&Arc<EncryptionKey>>,
) -> Result<StoredField> {
    let reader = StoredField::new(fragment, field, tiles, key)?;
    if reader.bitsort().is_some() {
        return Err(Error::unsupported(
            "filter bitsort is read, but not written: the fragment stays as it is",
        ));
    }
    Ok(reader)
}

/// Decodes a field of a tile. Both zeros of a dimension are one coordinate.
fn decode(
    reader: &StoredField,
    requested: &RequestedTile,
    cells: usize,
    fetched: &FetchedBytes,
    scratch: &mut DecodeScratch,
) -> Result<ReadField> {
    let tile = fetched.tile(requested.ticket)?;
    Ok(
        match reader.decode(requested, &tile, cells, None, scratch)? {
            StoredTile::Cells(mut cells) => {
                if let FragmentField::Dimension(_) = reader.field {
                    cells.merge_zeros(reader.datatype());
                }
                ReadField::Column(Arc::new(reader.column(cells)?))
            }
            StoredTile::Numbers(numbers) => ReadField::Numbers(Arc::new(numbers)),
        },
    )
}

/// The attribute of an input that supplies one of the output.
fn own_attribute(output: &ArraySchema, attribute: usize, own: &ArraySchema) -> Option<usize> {
    let wanted = output.attributes.get(attribute)?;
    let found = own.attribute_index(&wanted.name)?;
    let has = own.attributes.get(found)?;
    let same = has.datatype == wanted.datatype && has.cell_val_num == wanted.cell_val_num;
    same.then_some(found)
}

fn fill(schema: &ArraySchema, attribute: usize) -> Result<MergedColumnSource> {
    let attribute = schema.attributes.get(attribute);
    let attribute = attribute.ok_or_else(|| Error::internal("an attribute is not there"))?;
    Ok(MergedColumnSource::Fill {
        value: attribute.fill_value.as_slice().into(),
        valid: attribute.fill_valid,
    })
}

fn numbers_or_never(numbers: Option<&Vec<u64>>) -> TileColumn {
    match numbers {
        Some(numbers) => TileColumn::Numbers(numbers.clone()),
        None => TileColumn::Number(NEVER),
    }
}
