//! Filtering of the tiles of one piece of a fragment: pure work, done on any thread.

use std::ops::Range;
use std::sync::Arc;

use super::fields::{WrittenFields, offsets_context, validity_context};
use super::statistics::WrittenTileStatistics;
use crate::array::fragment::FragmentField;
use crate::arrow::StoredCells;
use crate::error::{Error, Result, ResultExt};
use crate::filter::{EncodeWorkspace, EncryptionKey, TileEncoder, without_chunks};
use crate::format::domain_range::DomainRange;
use crate::geometry::key;

/// The cells of one tile of every field, not filtered yet.
#[derive(Debug)]
pub struct RawTile {
    /// One for each field of [`WrittenFields::fields`].
    pub fields: Vec<StoredCells>,
    /// The cells that aren't padding at the edge of a dense fragment.
    pub real: Vec<Range<usize>>,
}

impl RawTile {
    /// The bytes of its cells.
    pub fn bytes(&self) -> usize {
        self.fields.iter().map(StoredCells::bytes).sum()
    }
}

/// One tile of every field, filtered.
#[derive(Debug)]
pub struct EncodedTile {
    /// The number of cells, padding included.
    pub cells: u64,
    /// One for each field of [`WrittenFields::fields`].
    pub fields: Vec<EncodedField>,
    /// The bounding rectangle of the cells; only for sparse tiles.
    pub mbr: Vec<DomainRange>,
}

impl EncodedTile {
    /// The bytes of all its fields.
    pub fn bytes(&self) -> u64 {
        let bytes = self.fields.iter().map(|field| {
            let var = field.var.as_ref().map_or(0, |(data, _)| data.len());
            let validity = field.validity.as_ref().map_or(0, Vec::len);
            [field.values.len(), var, validity]
                .into_iter()
                .sum::<usize>() as u64
        });
        bytes.sum()
    }
}

/// One tile of one field, filtered.
#[derive(Debug)]
pub struct EncodedField {
    /// The values of a fixed-size field, or the offsets of a variable-sized one.
    pub values: Vec<u8>,
    /// The data of a variable-sized field, and their size before filtering.
    pub var: Option<(Vec<u8>, u64)>,
    /// The validity of a nullable field.
    pub validity: Option<Vec<u8>>,
    /// The statistics of the values.
    pub statistics: WrittenTileStatistics,
}

/// The filters of all fields, ready to use by one thread at a time.
pub struct TileEncoders {
    values: Vec<TileEncoder>,
    offsets: TileEncoder,
    validity: TileEncoder,
    work: EncodeWorkspace,
}

impl TileEncoders {
    /// Compiles the filters; with a key, tiles are encrypted.
    ///
    /// # Errors
    /// A field has filters that cannot be written.
    pub fn new(fields: &WrittenFields, key: Option<&Arc<EncryptionKey>>) -> Result<Self> {
        let schema = &fields.schema;
        let values = fields.fields.iter().map(|field| {
            let context = field.values_context(schema)?;
            let encoder = TileEncoder::with_key(&field.filters, &context, key);
            encoder.context("field", || field.described())
        });
        let offsets = offsets_context(schema);
        let offsets = TileEncoder::with_key(&schema.offsets_filters, &offsets, key);
        let validity = validity_context(schema);
        let validity = TileEncoder::with_key(&schema.validity_filters, &validity, key);
        Ok(Self {
            values: values.collect::<Result<_>>()?,
            offsets: offsets.context("field", || "offsets")?,
            validity: validity.context("field", || "validity")?,
            work: EncodeWorkspace::default(),
        })
    }

    /// Filters a tile of every field.
    ///
    /// # Errors
    /// A filter cannot take the values.
    pub fn encode(&mut self, fields: &WrittenFields, tile: &RawTile) -> Result<EncodedTile> {
        let cells = tile.fields.first().map_or(0, |cells| cells.len as u64);
        let mut encoded = Vec::with_capacity(tile.fields.len());
        let sources = fields.fields.iter().zip(&tile.fields).zip(&mut self.values);
        for ((field, cells), values) in sources {
            let statistics = field.statistics.of_cells(cells, &tile.real);
            let (offsets, validity) = (&mut self.offsets, &mut self.validity);
            values.swap_workspace(&mut self.work);
            let field_tile = encode_field(cells, values, offsets, validity, statistics);
            values.swap_workspace(&mut self.work);
            encoded.push(field_tile.context("field", || field.described())?);
        }
        Ok(EncodedTile {
            cells,
            fields: encoded,
            mbr: fields.bounds(tile),
        })
    }
}

impl WrittenFields {
    /// The bounding rectangle of the cells of a sparse tile; nothing for a dense one.
    fn bounds(&self, tile: &RawTile) -> Vec<DomainRange> {
        let columns = self.fields.iter().zip(&tile.fields);
        let dimensions = columns.filter(|(f, _)| matches!(f.field, FragmentField::Dimension(_)));
        let bounds = dimensions.map(|(field, cells)| {
            if field.cell_val_num.is_var() {
                let values = || (0..cells.len).map(|cell| cells.cell(cell, 0));
                return DomainRange {
                    lo: values().min().unwrap_or_default().to_vec(),
                    hi: values().max().unwrap_or_default().to_vec(),
                };
            }
            let (lo, hi) = key::least_and_most(field.datatype, &cells.values).unzip();
            let value = |key: Option<u64>| {
                key.map_or_else(Vec::new, |key| key::from_key(field.datatype, key))
            };
            DomainRange {
                lo: value(lo),
                hi: value(hi),
            }
        });
        bounds.collect()
    }
}

fn encode_field(
    cells: &StoredCells,
    values: &mut TileEncoder,
    offsets: &mut TileEncoder,
    validity: &mut TileEncoder,
    statistics: WrittenTileStatistics,
) -> Result<EncodedField> {
    let validity = cells
        .validity
        .as_ref()
        .map(|v| validity.encode(v))
        .transpose()?;
    let Some(starts) = &cells.starts else {
        return Ok(EncodedField {
            values: values.encode(&cells.values)?,
            var: None,
            validity,
            statistics,
        });
    };
    if starts.len() != cells.len {
        return Err(Error::internal("every cell has a start"));
    }
    let data_bytes = cells.values.len() as u64;
    let (stored_offsets, data) = if values.takes_offsets() {
        (
            without_chunks(),
            values.encode_strings(&cells.values, starts)?,
        )
    } else {
        let bytes = starts
            .iter()
            .flat_map(|start| start.to_le_bytes())
            .collect::<Vec<_>>();
        (
            offsets.encode(&bytes)?,
            values.encode_var(&cells.values, starts)?,
        )
    };
    Ok(EncodedField {
        values: stored_offsets,
        var: Some((data, data_bytes)),
        validity,
        statistics,
    })
}
