//! How the fields of a fragment supply the columns of the table.
//!
//! Each fragment is read by the schema it was written with: its attributes have their own numbers. An attribute that it
//! lacks, or has with another type, reads as the fill value of the table's schema (specification: "Array Schema
//! Evolution").

mod requests;

use std::sync::Arc;

use arrow::array::ArrayRef;
use tokio::sync::OnceCell;

pub use requests::{ColumnRequest, TileOf};

use crate::array::fragment::boxes::TileBoxes;
use crate::array::fragment::{FieldTiles, Fragment, FragmentField};
use crate::array::table::{ArrayTable, TableColumnSource, supply};
use crate::arrow::ColumnType;
use crate::error::{Error, Result, ResultExt};
use crate::storage::Storage;
use crate::tile::decode::{ColumnDecoder, EqualCells};
use crate::tile::deletes::FragmentDeletes;

/// The source of a column's values.
#[derive(Debug)]
pub enum ColumnSource {
    /// The tiles of a field.
    Stored {
        /// The field.
        field: FragmentField,
        /// Decodes the field's tiles.
        decoder: Arc<ColumnDecoder>,
    },
    /// The fill value: the fragment has no such attribute.
    Fill,
    /// This value, for all cells.
    Constant(ArrayRef),
}

/// A fragment as a scan reads it.
#[derive(Debug)]
pub struct FragmentScan {
    /// The fragment.
    pub fragment: Arc<Fragment>,
    /// The boxes of its tiles, if planning read them.
    pub boxes: Option<Arc<TileBoxes>>,
    /// One source per table column that the scan may need; `None` for other columns. After them come fields that only
    /// delete conditions read.
    columns: Vec<Option<ColumnSource>>,
    needs_timestamps: bool,
    deletes: FragmentDeletes,
    /// The columns that delete conditions read, in their order.
    delete_columns: Vec<usize>,
    tiles: OnceCell<FragmentTiles>,
}

/// The locations of the tiles of a fragment's needed fields.
#[derive(Debug)]
pub struct FragmentTiles {
    columns: Vec<Option<FieldTiles>>,
    timestamps: Option<FieldTiles>,
    delete_times: Option<FieldTiles>,
    /// The tiles of all dimensions, if a column was moved by bitsort and needs them.
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

    /// Adds the boxes of the fragment's tiles.
    #[must_use]
    pub fn with_boxes(self, boxes: Arc<TileBoxes>) -> Self {
        Self {
            boxes: Some(boxes),
            ..self
        }
    }

    /// Adds the delete conditions that apply to the fragment, and the columns they read.
    pub fn with_deletes(mut self, table: &ArrayTable, deletes: FragmentDeletes) -> Result<Self> {
        let name = self.fragment.name.name.clone();
        for field in deletes.fields() {
            let column = self
                .column_of(table, *field)
                .context("fragment", || &name)?;
            self.delete_columns.push(column);
        }
        self.needs_timestamps |= deletes.needs_timestamps();
        self.deletes = deletes;
        Ok(self)
    }

    /// The column that decodes a field as it is stored; a new one, if the array has an attribute of the same name and
    /// another type.
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
                if let Some(slot) = self.columns.get_mut(column) {
                    *slot = Some(source);
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

    /// The delete conditions that apply to the fragment.
    pub fn deletes(&self) -> &FragmentDeletes {
        &self.deletes
    }

    /// The columns that delete conditions read, in the order in which they expect them.
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

    /// The locations of the tiles; read on first use, for all needed fields at once.
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

    /// The decoders of the stored fields.
    fn decoders(&self) -> impl Iterator<Item = &ColumnDecoder> {
        let sources = self.columns.iter().flatten();
        sources.filter_map(|source| match source {
            ColumnSource::Stored { decoder, .. } => Some(decoder.as_ref()),
            ColumnSource::Fill | ColumnSource::Constant(_) => None,
        })
    }

    /// Which cells cannot be distinguished after bitsort moved them.
    fn duplicates(&self) -> EqualCells {
        let moved = |decoder: &ColumnDecoder| decoder.bitsort().is_some();
        let times = self.needs_timestamps || self.deletes.needs_delete_times();
        let name = &self.fragment.name;
        if !times && self.decoders().all(moved) {
            EqualCells::Harmless
        } else if name.t1 == name.t2 && !self.fragment.footer.has_timestamps {
            EqualCells::SameCoordinates
        } else {
            EqualCells::SameHilbertValue
        }
    }
}

/// Finds the field of the fragment's own schema that supplies a table column, and its decoder.
fn source(table: &ArrayTable, fragment: &Fragment, column: usize) -> Result<ColumnSource> {
    let own = &fragment.schema;
    let version = fragment.footer.version;
    let key = table.snapshot.storage.encryption_key();
    let ty = table
        .types
        .get(column)
        .ok_or_else(|| Error::internal(format!("the table has no column {column}")))?;
    let field = match supply(table, fragment, column)? {
        TableColumnSource::Field(field) => field,
        TableColumnSource::Fill => return Ok(ColumnSource::Fill),
        TableColumnSource::Constant(value) => return Ok(ColumnSource::Constant(value)),
    };
    let decoder = match field {
        FragmentField::Attribute(number) => {
            ColumnDecoder::for_attribute(own, number, version, ty, key)?
        }
        FragmentField::Timestamps => ColumnDecoder::for_write_times(own, version, ty, key)?,
        FragmentField::Dimension(d) => ColumnDecoder::for_dimension(own, d, version, ty, key)?,
        other => {
            let error = format!("no column shows the field {other:?}");
            return Err(Error::internal(error));
        }
    };
    Ok(ColumnSource::Stored {
        field,
        decoder: Arc::new(decoder),
    })
}
