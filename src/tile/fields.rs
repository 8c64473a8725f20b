//! How a fragment supplies the columns of the table.
//!
//! Each fragment is read by the schema it was written with: its attributes have numbers of their own, and an
//! attribute it lacks, or has with another type, shows the fill value of the table's schema (specification: "Array
//! Schema Evolution").

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::buffer::{BooleanBuffer, NullBuffer};
use tokio::sync::OnceCell;

use crate::array::fragment::boxes::TileBoxes;
use crate::array::fragment::{FieldTiles, Fragment, FragmentField, TileIdx};
use crate::array::table::{ArrayTable, fill_column, stored_field};
use crate::arrow::{Cells, ColumnType, Strings};
use crate::error::{Error, Result, ResultExt};
use crate::storage::Storage;
use crate::tile::decode::{ColumnDecoder, Needed, Twins, cell_numbers_pipeline, decode_u64};
use crate::tile::deletes::FragmentDeletes;
use crate::tile::fetch::{FetchList, Fetched, TileTicket};
use crate::tile::moved::MovedTile;
use crate::tile::needles::{Finds, Needles};
use crate::tile::scratch::Scratch;

/// Where a column's values come from.
#[derive(Debug)]
pub enum ColumnSource {
    /// From the tiles of a field.
    Stored {
        /// The field.
        field: FragmentField,
        /// How its tiles become Arrow.
        decoder: Arc<ColumnDecoder>,
    },
    /// The fragment has no such attribute: the fill value.
    Fill,
}

/// A fragment as a scan reads it.
#[derive(Debug)]
pub struct FragmentScan {
    /// The fragment.
    pub fragment: Arc<Fragment>,
    /// The boxes of its tiles, where planning looked at them.
    pub boxes: Option<Arc<TileBoxes>>,
    /// One source per table column the scan may need; `None` for the others. Behind them, fields that deletes look at
    /// but that no column shows.
    columns: Vec<Option<ColumnSource>>,
    needs_timestamps: bool,
    deletes: FragmentDeletes,
    /// The columns that deletes look at, in their order.
    delete_columns: Vec<usize>,
    tiles: OnceCell<FragmentTiles>,
}

/// Where the tiles of the needed fields of a fragment lie.
#[derive(Debug)]
pub struct FragmentTiles {
    columns: Vec<Option<FieldTiles>>,
    timestamps: Option<FieldTiles>,
    delete_times: Option<FieldTiles>,
    /// Of all dimensions, where a column needs them to find its cells.
    coordinates: Vec<FieldTiles>,
}

impl FragmentTiles {
    /// The tiles of a table column; `None` if the fragment does not store it.
    pub fn column(&self, column: usize) -> Option<&FieldTiles> {
        self.columns.get(column).and_then(Option::as_ref)
    }

    /// The tiles of the cells' timestamps, if the scan needs them.
    pub fn timestamps(&self) -> Option<&FieldTiles> {
        self.timestamps.as_ref()
    }

    /// The tiles of the times at which cells were deleted, if the fragment records them.
    pub fn delete_times(&self) -> Option<&FieldTiles> {
        self.delete_times.as_ref()
    }
}

impl FragmentScan {
    /// Prepares the columns for which `needed` is true.
    pub fn new(
        table: &ArrayTable,
        fragment: Arc<Fragment>,
        needed: &[bool],
        needs_timestamps: bool,
    ) -> Result<Self> {
        let columns = needed
            .iter()
            .enumerate()
            .map(|(column, needed)| needed.then(|| source(table, &fragment, column)).transpose())
            .collect::<Result<Vec<_>>>()
            .map_err(|e| e.with("fragment", &fragment.name.name))?;
        let needs_timestamps = needs_timestamps && fragment.footer.has_timestamps;
        Ok(Self {
            fragment,
            boxes: None,
            columns,
            needs_timestamps,
            deletes: FragmentDeletes::default(),
            delete_columns: Vec::new(),
            tiles: OnceCell::new(),
        })
    }

    /// With the boxes of its tiles.
    #[must_use]
    pub fn with_boxes(self, boxes: Arc<TileBoxes>) -> Self {
        Self {
            boxes: Some(boxes),
            ..self
        }
    }

    /// Prepares for the deletes that concern the fragment, and the columns they look at.
    pub fn with_deletes(mut self, table: &ArrayTable, deletes: FragmentDeletes) -> Result<Self> {
        let name = self.fragment.name.name.clone();
        for field in deletes.fields() {
            let column = self.column_of(table, *field);
            let column = column.context("fragment", || &name)?;
            self.delete_columns.push(column);
        }
        self.needs_timestamps |= deletes.needs_timestamps();
        self.deletes = deletes;
        Ok(self)
    }

    /// The column that shows a field as it is stored; where the array has given the name to another type, one of its own.
    fn column_of(&mut self, table: &ArrayTable, field: FragmentField) -> Result<usize> {
        let columns = table.types.len();
        let shown = match field {
            FragmentField::Dimension(d) => Some(d),
            FragmentField::Attribute(a) => {
                let own = self.fragment.schema.attributes.get(a);
                let name = own.map_or("", |a| a.name.as_str());
                let attribute = table.snapshot.schema.attribute_index(name);
                attribute.map(|a| table.dimension_count() + a)
            }
            _ => None,
        };
        let stored =
            |s: &ColumnSource| matches!(s, ColumnSource::Stored { field: f, .. } if *f == field);
        let readable = |column: &usize| {
            let ty = table.types.get(*column);
            ty.is_some_and(|ty| ty.check_readable().is_ok())
        };
        if let Some(column) = shown.filter(|c| *c < columns && readable(c)) {
            let source = source(table, &self.fragment, column)?;
            if stored(&source) {
                if let Some(place) = self.columns.get_mut(column) {
                    *place = Some(source);
                }
                return Ok(column);
            }
        }
        let FragmentField::Attribute(number) = field else {
            return Err(Error::internal("a delete looks at no such field"));
        };
        let own = &self.fragment.schema;
        let attribute = own.attributes.get(number);
        let attribute = attribute.ok_or_else(|| Error::internal("there is no such attribute"))?;
        let mut plain = attribute.clone();
        plain.enumeration = None;
        let ty = ColumnType::of_attribute(&plain, None, &table.options)?;
        let version = self.fragment.footer.version;
        let decoder = ColumnDecoder::for_attribute(
            own,
            number,
            version,
            &ty,
            table.snapshot.storage.encryption_key(),
        )?;
        self.columns.push(Some(ColumnSource::Stored {
            field,
            decoder: Arc::new(decoder),
        }));
        Ok(self.columns.len() - 1)
    }

    /// The deletes that concern the fragment.
    pub fn deletes(&self) -> &FragmentDeletes {
        &self.deletes
    }

    /// The columns whose stored cells the deletes look at, in the order in which they expect them.
    pub fn delete_columns(&self) -> &[usize] {
        &self.delete_columns
    }

    /// The source of a table column.
    pub fn source(&self, column: usize) -> Result<&ColumnSource> {
        self.columns
            .get(column)
            .and_then(Option::as_ref)
            .ok_or_else(|| Error::internal(format!("column {column} was not planned for")))
    }

    /// Where the tiles lie; read on first use, in one go for all needed fields.
    pub async fn tiles(&self, storage: &Storage) -> Result<&FragmentTiles> {
        self.tiles
            .get_or_try_init(|| self.load_tiles(storage))
            .await
    }

    async fn load_tiles(&self, storage: &Storage) -> Result<FragmentTiles> {
        let mut fields = Vec::new();
        for source in &self.columns {
            if let Some(ColumnSource::Stored { field, .. }) = source {
                fields.push(*field);
            }
        }
        if self.needs_timestamps {
            fields.push(FragmentField::Timestamps);
        }
        if self.deletes.needs_delete_times() {
            fields.push(FragmentField::DeleteTimestamps);
        }
        if self.decoders().any(|decoder| decoder.bitsort().is_some()) {
            let dimensions = 0..self.fragment.schema.dimensions.len();
            fields.extend(dimensions.map(FragmentField::Dimension));
        }
        let mut loaded = self
            .fragment
            .field_tiles(storage, &fields)
            .await?
            .into_iter();
        let columns = self
            .columns
            .iter()
            .map(|source| match source {
                Some(ColumnSource::Stored { .. }) => loaded.next(),
                _ => None,
            })
            .collect();
        let mut next_if = |wanted: bool| if wanted { loaded.next() } else { None };
        Ok(FragmentTiles {
            columns,
            timestamps: next_if(self.needs_timestamps),
            delete_times: next_if(self.deletes.needs_delete_times()),
            coordinates: loaded.collect(),
        })
    }

    /// Of the stored fields among the columns.
    fn decoders(&self) -> impl Iterator<Item = &ColumnDecoder> {
        let sources = self.columns.iter().flatten();
        sources.filter_map(|source| match source {
            ColumnSource::Stored { decoder, .. } => Some(decoder.as_ref()),
            ColumnSource::Fill => None,
        })
    }

    /// Which cells cannot be told apart where bitsort moved them.
    fn twins(&self) -> Twins {
        let moved = |decoder: &ColumnDecoder| decoder.bitsort().is_some();
        let times = self.needs_timestamps || self.deletes.needs_delete_times();
        let name = &self.fragment.name;
        if !times && self.decoders().all(moved) {
            Twins::Harmless
        } else if name.t1 == name.t2 && !self.fragment.footer.has_timestamps {
            Twins::SameCoordinates
        } else {
            Twins::SameHilbertValue
        }
    }
}

/// Finds the field of the fragment's own schema that supplies a table column, and how to decode it.
fn source(table: &ArrayTable, fragment: &Fragment, column: usize) -> Result<ColumnSource> {
    let own = &fragment.schema;
    let version = fragment.footer.version;
    let key = table.snapshot.storage.encryption_key();
    let ty = table
        .types
        .get(column)
        .ok_or_else(|| Error::internal(format!("the table has no column {column}")))?;
    let Some(field) = stored_field(table, fragment, column)? else {
        return Ok(ColumnSource::Fill);
    };
    let decoder = match field {
        FragmentField::Attribute(number) => {
            ColumnDecoder::for_attribute(own, number, version, ty, key)?
        }
        _ => ColumnDecoder::for_dimension(own, column, version, ty, key)?,
    };
    Ok(ColumnSource::Stored {
        field,
        decoder: Arc::new(decoder),
    })
}

/// The tiles of one column that were asked for.
#[derive(Debug, Clone)]
pub struct ColumnRequest {
    /// The table column.
    pub column: usize,
    /// Where its bytes will be, and the unfiltered size of its var-sized data; `None` for fill values.
    stored: Option<(TileTicket, usize)>,
    /// How to find its cells, if bitsort moved them.
    moved: Option<Arc<MovedTile>>,
}

/// What decoding needs besides the bytes.
#[derive(Debug, Clone, Copy)]
pub struct TileOf<'a> {
    /// The table.
    pub table: &'a ArrayTable,
    /// The tile.
    pub tile: TileIdx,
    /// Cells in it.
    pub cells: usize,
}

impl ColumnRequest {
    /// Whether the fragment stores it.
    pub fn is_stored(&self) -> bool {
        self.stored.is_some()
    }
}

impl FragmentScan {
    /// Asks for a tile of some columns.
    pub fn ask(
        &self,
        tiles: &FragmentTiles,
        columns: &[usize],
        tile: TileIdx,
        list: &mut FetchList,
    ) -> Result<Vec<ColumnRequest>> {
        let mut requests = Vec::with_capacity(columns.len());
        let mut moved = None;
        for column in columns {
            let mut request = ColumnRequest {
                column: *column,
                stored: None,
                moved: None,
            };
            if let ColumnSource::Stored { decoder, .. } = self.source(*column)? {
                let field = tiles.column(*column).ok_or_else(|| {
                    Error::internal(format!("the tiles of column {column} were not loaded"))
                })?;
                request.stored = Some((list.tile(field, tile)?, field.var_bytes(tile)?));
                if decoder.bitsort().is_some() {
                    if moved.is_none() {
                        moved = Some(Arc::new(MovedTile::ask(&tiles.coordinates, tile, list)?));
                    }
                    request.moved.clone_from(&moved);
                }
            }
            requests.push(request);
        }
        Ok(requests)
    }

    /// About how many bytes the decoded tile will take.
    pub fn decoded_bytes(&self, request: &ColumnRequest, cells: usize) -> Result<usize> {
        Ok(match (self.source(request.column)?, request.stored) {
            (ColumnSource::Stored { decoder, .. }, Some((_, var_bytes))) => {
                decoder.decoded_bytes(cells, var_bytes)
            }
            _ => cells.saturating_mul(16),
        })
    }

    /// Unfilters a tile and turns it into Arrow.
    pub fn decode(
        &self,
        request: &ColumnRequest,
        fetched: &Fetched,
        of: TileOf<'_>,
        scratch: &mut Scratch,
    ) -> Result<ArrayRef> {
        match (self.source(request.column)?, request.stored) {
            (ColumnSource::Stored { decoder, .. }, Some(_)) => self
                .decode_cells(request, fetched, of, Needed::All, scratch)
                .and_then(|cells| decoder.to_array(cells).map_err(|e| self.locate(e, of.tile))),
            _ => fill_column(of.table, request.column, of.cells),
        }
    }

    /// Unfilters a tile, and no more; the values of cells that are not needed may come out as zeros.
    pub fn decode_cells(
        &self,
        request: &ColumnRequest,
        fetched: &Fetched,
        of: TileOf<'_>,
        needed: Needed<'_>,
        scratch: &mut Scratch,
    ) -> Result<Cells> {
        let (ColumnSource::Stored { decoder, .. }, Some((ticket, var_bytes))) =
            (self.source(request.column)?, request.stored)
        else {
            return Err(Error::internal("fill values are no cells"));
        };
        let tile = fetched.tile(ticket)?;
        let cells = match request.moved.as_ref().zip(decoder.bitsort()) {
            Some((moved, bitsort)) => moved
                .order(bitsort, fetched, of.cells, self.twins())
                .and_then(|order| decoder.decode_moved(&tile, order, scratch)),
            None => decoder.decode_cells(&tile, of.cells, var_bytes, needed, scratch),
        };
        cells.map_err(|e| self.locate(e, of.tile))
    }

    /// The decoder of a column, if it is stored as text.
    fn text(&self, request: &ColumnRequest) -> Option<&ColumnDecoder> {
        match self.source(request.column) {
            Ok(ColumnSource::Stored { decoder, .. }) => {
                let plain = request.is_stored() && request.moved.is_none();
                (plain && decoder.is_text()).then_some(decoder)
            }
            _ => None,
        }
    }

    /// Whether a column is stored as text, in which bytes can be looked for.
    pub fn is_text(&self, request: &ColumnRequest) -> bool {
        self.text(request).is_some()
    }

    /// The strings of a tile of text, and where needles begin in its data; `None` if they do nowhere.
    pub fn decode_strings(
        &self,
        request: &ColumnRequest,
        needles: Option<&Needles>,
        fetched: &Fetched,
        of: TileOf<'_>,
        scratch: &mut Scratch,
    ) -> Result<Option<(Strings, Finds)>> {
        let (Some(decoder), Some((ticket, var_bytes))) = (self.text(request), request.stored)
        else {
            return Err(Error::internal("a column is not stored as text"));
        };
        let tile = fetched.tile(ticket)?;
        decoder
            .decode_strings(&tile, of.cells, var_bytes, needles, scratch)
            .map_err(|e| self.locate(e, of.tile))
    }

    /// What `of_strings` makes of the strings of a tile.
    pub fn of_strings<T>(
        &self,
        column: usize,
        of: TileOf<'_>,
        of_strings: impl FnOnce(&ColumnDecoder) -> Result<T>,
    ) -> Result<T> {
        match self.source(column)? {
            ColumnSource::Stored { decoder, .. } => {
                of_strings(decoder).map_err(|e| self.locate(e, of.tile))
            }
            ColumnSource::Fill => Err(Error::internal("fill values are no strings")),
        }
    }

    /// Whether the tiles of a column can be decoded by chunks of one's choice.
    pub fn can_be_searched(&self, request: &ColumnRequest) -> bool {
        match self.source(request.column) {
            Ok(ColumnSource::Stored { decoder, .. }) => {
                request.is_stored() && decoder.can_be_searched()
            }
            _ => false,
        }
    }

    /// What [`Self::decode_cells`] gave, as Arrow.
    pub fn to_array(&self, column: usize, cells: Cells, of: TileOf<'_>) -> Result<ArrayRef> {
        match self.source(column)? {
            ColumnSource::Stored { decoder, .. } => {
                decoder.to_array(cells).map_err(|e| self.locate(e, of.tile))
            }
            ColumnSource::Fill => Err(Error::internal("fill values are no cells")),
        }
    }

    /// As [`Self::to_array`], without looking at cells that are not kept: they come out as NULL.
    pub fn to_array_of_kept(
        &self,
        column: usize,
        mut cells: Cells,
        of: TileOf<'_>,
        kept: BooleanBuffer,
    ) -> Result<ArrayRef> {
        let Some(ty) = of.table.types.get(column) else {
            return Err(Error::internal("a column has no type"));
        };
        cells.nulls = NullBuffer::union(cells.nulls.as_ref(), Some(&NullBuffer::new(kept)));
        ty.to_array(cells).map_err(|e| self.locate(e, of.tile))
    }

    /// Asks for the timestamps of the cells of a tile, if the fragment has them and the scan needs them.
    pub fn ask_timestamps(
        &self,
        tiles: &FragmentTiles,
        tile: TileIdx,
        list: &mut FetchList,
    ) -> Result<Option<TileTicket>> {
        tiles
            .timestamps()
            .map(|field| list.tile(field, tile))
            .transpose()
    }

    /// Asks for the times at which the cells of a tile were deleted, if the fragment records them.
    pub fn ask_delete_times(
        &self,
        tiles: &FragmentTiles,
        tile: TileIdx,
        list: &mut FetchList,
    ) -> Result<Option<TileTicket>> {
        tiles
            .delete_times()
            .map(|field| list.tile(field, tile))
            .transpose()
    }

    /// The timestamps of the cells of a tile, or the times at which they were deleted.
    pub fn decode_timestamps(
        &self,
        ticket: TileTicket,
        fetched: &Fetched,
        of: TileOf<'_>,
        scratch: &mut Scratch,
    ) -> Result<Vec<u64>> {
        let fragment = &self.fragment;
        let pipeline = cell_numbers_pipeline(
            &fragment.schema,
            fragment.footer.version,
            of.table.snapshot.storage.encryption_key(),
        )?;
        decode_u64(&pipeline, &fetched.tile(ticket)?.values, of.cells, scratch)
            .map_err(|e| self.locate(e.with("field", "timestamps"), of.tile))
    }

    fn locate(&self, error: Error, tile: TileIdx) -> Error {
        error
            .with("data tile", tile.0)
            .with("fragment", &self.fragment.name.name)
    }
}
