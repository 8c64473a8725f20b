//! The decoder of one column of one fragment.
//!
//! The subtle thing: strings under run-length or dictionary encoding contain their offsets, so their offsets tile is an
//! empty stub. The format version says when this is so, but some writers use the wrong version's form, and then the
//! stub tells. Whether there are validity tiles depends on the fragment's own schema, which may differ from the
//! column's nullability after the schema evolved.

mod unfilter;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use bytes::Bytes;

use super::bitsort::{Bitsort, CellOrder};
use super::coords::CoordsTile;
use super::numbers::cell_numbers_pipeline;
use crate::array::fragment::FragmentField;
use crate::arrow::{ColumnType, TileStrings, UnfilteredCells};
use crate::error::{Error, Result, ResultExt};
use crate::filter::{ChunkChoice, EncodedStrings, EncryptionKey, Pipeline, TileContext};
use crate::format::datatype::Datatype;
use crate::format::filter_list::FilterList;
use crate::format::schema::{ArraySchema, CellValNum};
use crate::format::version::FormatVersion;
use crate::tile::needles::{NeedleMatches, NeedleSet};
use crate::tile::tile_memory::DecodeScratch;

/// Size of a stored offset.
const OFFSET_BYTES: usize = 8;

/// Which cells of a tile are needed; the values of other cells are undefined.
pub enum NeededCells<'a> {
    /// All cells.
    All,
    /// The cells of runs for which this holds.
    Where(&'a dyn Fn(Range<usize>) -> bool),
    /// The cells of chosen chunks, in a field that [can be searched](ColumnDecoder::can_be_searched).
    Chosen(&'a mut dyn ChunkChoice),
}

/// The filtered bytes of one tile of one field.
#[derive(Debug, Clone)]
pub struct TileBytes {
    /// The values; of a variable-sized field, the offsets tile.
    pub values: Bytes,
    /// The variable-sized data.
    pub var: Option<Bytes>,
    /// The validity tile of a nullable attribute.
    pub validity: Option<Bytes>,
}

/// Decodes the tiles of one field of one fragment. Shared by all workers; each brings its own [`DecodeScratch`].
#[derive(Debug)]
pub struct ColumnDecoder {
    role: &'static str,
    name: String,
    ty: ColumnType,
    /// Filters of the values, or of variable-sized data.
    values: Pipeline,
    /// Filters of variable-sized data that contain their offsets although the version says otherwise.
    values_with_offsets: Option<Pipeline>,
    /// Splits the tile, if coordinates of all dimensions share one.
    coords: Option<CoordsTile>,
    /// Restores the order, if the bitsort filter of an attribute moved the cells of this field.
    bitsort: Option<Bitsort>,
    /// Filters of the offsets of a variable-sized field.
    offsets: Option<Pipeline>,
    /// Filters of the validity tile, if the field is nullable in the fragment's schema.
    validity: Option<Pipeline>,
}

impl ColumnDecoder {
    /// A decoder for a dimension of the fragment's schema.
    pub fn for_dimension(
        schema: &ArraySchema,
        dimension: usize,
        fragment_version: FormatVersion,
        ty: &ColumnType,
        key: Option<&Arc<EncryptionKey>>,
    ) -> Result<Self> {
        let field = schema
            .dimensions
            .get(dimension)
            .ok_or_else(|| Error::internal(format!("there is no dimension {dimension}")))?;
        let coords = CoordsTile::new(
            fragment_version,
            &schema.coords_filters,
            dimension,
            schema.dimensions.len(),
        );
        let moved = FragmentField::Dimension(dimension);
        let field = StoredColumn {
            role: "dimension",
            name: &field.name,
            datatype: field.datatype,
            cell_val_num: field.cell_val_num,
            filters: match coords {
                Some(_) => &schema.coords_filters,
                None => schema.dimension_filters(dimension, fragment_version),
            },
            nullable: false,
            coords,
            bitsort: Bitsort::moving(moved, schema)?,
        };
        let (role, name) = (field.role, field.name);
        Self::new(schema, field, fragment_version, ty, key).context(role, || name.to_owned())
    }

    /// A decoder for an attribute of the fragment's schema, read as the column type of the array's schema.
    pub fn for_attribute(
        schema: &ArraySchema,
        attribute: usize,
        fragment_version: FormatVersion,
        ty: &ColumnType,
        key: Option<&Arc<EncryptionKey>>,
    ) -> Result<Self> {
        let field = schema
            .attributes
            .get(attribute)
            .ok_or_else(|| Error::internal(format!("there is no attribute {attribute}")))?;
        let field = StoredColumn {
            role: "attribute",
            name: &field.name,
            datatype: field.datatype,
            cell_val_num: field.cell_val_num,
            filters: &field.filters,
            nullable: field.nullable,
            coords: None,
            bitsort: Bitsort::moving(FragmentField::Attribute(attribute), schema)?,
        };
        let (role, name) = (field.role, field.name);
        Self::new(schema, field, fragment_version, ty, key).context(role, || name.to_owned())
    }

    /// A decoder for the times at which the cells of a fragment were written.
    pub fn for_write_times(
        schema: &ArraySchema,
        fragment_version: FormatVersion,
        ty: &ColumnType,
        key: Option<&Arc<EncryptionKey>>,
    ) -> Result<Self> {
        Ok(Self {
            role: "field",
            name: "timestamps".to_owned(),
            ty: ty.clone(),
            values: cell_numbers_pipeline(schema, fragment_version, key)?,
            values_with_offsets: None,
            coords: None,
            bitsort: None,
            offsets: None,
            validity: None,
        })
    }

    fn new(
        schema: &ArraySchema,
        field: StoredColumn<'_>,
        fragment_version: FormatVersion,
        ty: &ColumnType,
        key: Option<&Arc<EncryptionKey>>,
    ) -> Result<Self> {
        if !ty.reads(field.datatype, field.cell_val_num) {
            return Err(Error::unsupported(format!(
                "the fragment stores {} ({:?} per cell) but the array's schema has {} ({:?}): a field cannot change its type",
                field.datatype,
                field.cell_val_num,
                ty.datatype(),
                ty.shape()
            )));
        }
        let context = |datatype: Datatype, cell_bytes, var_data| TileContext {
            datatype,
            cell_bytes,
            schema_version: schema.version,
            fragment_version,
            var_data,
        };
        let pipeline = |filters: &FilterList, datatype: Datatype, cell_bytes, var_data| {
            Pipeline::new(filters, &context(datatype, cell_bytes, var_data), key)
        };
        let cell_bytes = ty.cell_bytes();
        let element_bytes = field.datatype.size();
        let tile_cell_bytes = match (cell_bytes, field.coords) {
            (Some(size), Some(coords)) => coords.cell_bytes(size),
            (size, _) => size.unwrap_or(element_bytes),
        };
        let values = pipeline(
            field.filters,
            field.datatype,
            tile_cell_bytes,
            cell_bytes.is_none(),
        )?;
        // The filters of offsets are not used if the values contain the offsets.
        let none = FilterList::default();
        let offsets_filters = if values.produces_offsets() {
            &none
        } else {
            &schema.offsets_filters
        };
        Ok(Self {
            role: field.role,
            name: field.name.to_owned(),
            ty: ty.clone(),
            values,
            values_with_offsets: Pipeline::with_offsets_in_data(
                field.filters,
                &context(field.datatype, element_bytes, cell_bytes.is_none()),
                key,
            )?,
            coords: field.coords,
            bitsort: field.bitsort,
            offsets: cell_bytes
                .is_none()
                .then(|| {
                    pipeline(offsets_filters, Datatype::UInt64, OFFSET_BYTES, false)
                        .context("filters", || "offsets")
                })
                .transpose()?,
            validity: field
                .nullable
                .then(|| pipeline(&schema.validity_filters, Datatype::UInt8, 1, false))
                .transpose()?,
        })
    }

    /// The type of the arrays.
    pub fn column_type(&self) -> &ColumnType {
        &self.ty
    }

    /// Decodes a tile of `cells` cells; `var_bytes` is the unfiltered size of its variable-sized data by the fragment's
    /// metadata, 0 for fixed-size fields.
    pub fn decode(
        &self,
        tile: &TileBytes,
        cells: usize,
        var_bytes: usize,
        scratch: &mut DecodeScratch,
    ) -> Result<ArrayRef> {
        let cells = self.decode_cells(tile, cells, var_bytes, NeededCells::All, scratch)?;
        self.to_array(cells)
    }

    /// Converts the result of [`Self::decode_cells`] to an array.
    pub fn to_array(&self, cells: UnfilteredCells) -> Result<ArrayRef> {
        self.ty
            .to_array(cells)
            .and_then(|array| self.without_unexpected_nulls(array))
            .context(self.role, || self.name.clone())
    }

    /// Unfilters a tile without converting it to Arrow: for [`ColumnType::to_array`] later, or for tests of stored
    /// values.
    pub fn decode_cells(
        &self,
        tile: &TileBytes,
        cells: usize,
        var_bytes: usize,
        needed: NeededCells<'_>,
        scratch: &mut DecodeScratch,
    ) -> Result<UnfilteredCells> {
        self.unfilter(tile, cells, var_bytes, needed, scratch)
            .context(self.role, || self.name.clone())
    }

    /// The type of the elements.
    pub fn datatype(&self) -> Datatype {
        self.ty.datatype()
    }

    /// Whether the chunks of a tile hold nothing but the field's values, in the order of the cells.
    pub fn can_be_searched(&self) -> bool {
        let fixed = self.ty.cell_bytes().is_some() && self.offsets.is_none();
        fixed && self.coords.is_none() && self.bitsort.is_none() && self.validity.is_none()
    }

    /// Whether the field's strings are stored as they are shown, so that their bytes can be searched.
    pub fn is_text(&self) -> bool {
        self.offsets.is_some() && self.ty.is_stored_as_shown()
    }

    /// The strings of a tile, and where needles begin in its data; `None` if no needle occurs.
    pub fn decode_strings(
        &self,
        tile: &TileBytes,
        cells: usize,
        var_bytes: usize,
        needles: Option<&NeedleSet>,
        scratch: &mut DecodeScratch,
    ) -> Result<Option<(TileStrings, NeedleMatches)>> {
        self.find_strings(tile, cells, var_bytes, needles, scratch)
            .context(self.role, || self.name.clone())
    }

    /// An array of all strings of a tile.
    pub fn all_strings(&self, strings: TileStrings) -> Result<ArrayRef> {
        let array = self.ty.all_strings(strings);
        array.context(self.role, || self.name.clone())
    }

    /// Each distinct string; `None` if they are not all text.
    pub fn each_string(&self, strings: &EncodedStrings) -> Result<Option<ArrayRef>> {
        let each = self.ty.each_string(strings);
        each.context(self.role, || self.name.clone())
    }

    /// An array of the strings of some cells.
    pub fn strings_of(&self, strings: &TileStrings, cells: &[u32]) -> Result<ArrayRef> {
        let array = self.ty.strings_of(strings, cells);
        array.context(self.role, || self.name.clone())
    }

    /// How bitsort moved the cells of the field, if it did: then its tiles are decoded with [`Self::decode_moved`].
    pub fn bitsort(&self) -> Option<&Bitsort> {
        self.bitsort.as_ref()
    }

    /// As [`Self::decode_cells`], for a field whose cells bitsort moved.
    pub fn decode_moved(
        &self,
        tile: &TileBytes,
        order: &CellOrder,
        scratch: &mut DecodeScratch,
    ) -> Result<UnfilteredCells> {
        let size = self.ty.cell_bytes();
        let size = size.ok_or_else(|| Error::internal("a cell's size is not known"))?;
        self.restore(&tile.values, order, size, scratch)
            .context(self.role, || self.name.clone())
    }

    /// About how many bytes [`Self::decode`] will need, to reserve them before decoding.
    pub fn decoded_bytes(&self, cells: usize, var_bytes: usize) -> usize {
        let extra = match (self.coords, self.ty.cell_bytes()) {
            (Some(coords), Some(size)) => coords.extra_bytes(cells, size),
            _ => 0,
        };
        let order = self
            .bitsort
            .as_ref()
            .map_or(0, |bitsort| bitsort.order_bytes(cells));
        self.ty
            .decoded_bytes(cells, var_bytes)
            .saturating_add(extra)
            .saturating_add(order)
    }

    fn without_unexpected_nulls(&self, array: ArrayRef) -> Result<ArrayRef> {
        if array.null_count() > 0 && !self.ty.nullable() {
            return Err(unexpected_nulls());
        }
        Ok(array)
    }
}

fn unexpected_nulls() -> Error {
    Error::unsupported("the fragment holds NULLs but the array's schema no longer allows them")
}

/// A field in the fragment's schema.
struct StoredColumn<'a> {
    role: &'static str,
    name: &'a str,
    datatype: Datatype,
    cell_val_num: CellValNum,
    filters: &'a FilterList,
    nullable: bool,
    coords: Option<CoordsTile>,
    bitsort: Option<Bitsort>,
}
