//! The fields of a fragment that is written: their files, filters and statistics.
//!
//! A sparse fragment stores the coordinates and the attributes of each cell, a dense one only the attributes.

use std::sync::Arc;

use super::statistics::WrittenStatisticsKind;
use crate::array::fragment::FragmentField;
use crate::array::snapshot::Snapshot;
use crate::arrow::{CellWriter, ColumnType, NullPolicy, TypeOptions, attribute_type};
use crate::error::{Error, Result};
use crate::filter::TileContext;
use crate::format::datatype::Datatype;
use crate::format::filter_list::FilterList;
use crate::format::fragment::data_files::{FilePart, FileStem};
use crate::format::fragment::slots::FieldSlots;
use crate::format::schema::{ArraySchema, CellValNum, DataOrder};
use crate::format::version::FormatVersion;
use crate::tile::decode::cell_numbers_context;

/// A field of a fragment that is written.
#[derive(Debug)]
pub struct WrittenField {
    /// The field of the schema.
    pub field: FragmentField,
    /// The name, for messages.
    pub name: String,
    /// Its place in the lists of the fragment's metadata.
    pub slot: usize,
    /// The names of its files.
    pub stem: FileStem,
    /// The type of an element.
    pub datatype: Datatype,
    /// Elements per cell.
    pub cell_val_num: CellValNum,
    /// Whether it has a validity file.
    pub nullable: bool,
    /// The filters of its values.
    pub filters: FilterList,
    /// The statistics of its tiles.
    pub statistics: WrittenStatisticsKind,
}

/// The fields of a fragment that is written, and their common properties.
#[derive(Debug)]
pub struct WrittenFields {
    /// The schema of the fragment.
    pub schema: Arc<ArraySchema>,
    /// The name of the schema's file.
    pub schema_name: String,
    /// Whether the fragment is dense.
    pub dense: bool,
    /// The places of fields in the metadata.
    pub slots: FieldSlots,
    /// Dimensions first, then attributes, each in the order of the schema, then the times of cells.
    pub fields: Vec<WrittenField>,
    /// The facts that the fragment records about each cell besides its fields.
    pub recorded: RecordedFields,
}

/// The facts that a consolidated fragment records about its cells (specification: "Fragment Metadata File", Processed
/// Conditions).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedFields {
    /// Whether each cell has the time at which it was written.
    pub times: bool,
    /// The deletes that were applied, as paths relative to the array, if each cell has the time at which it was deleted.
    pub deletes: Option<Vec<String>>,
}

impl WrittenFields {
    /// The fields of fragments of a snapshot's schema, which lies in the file `schema_name`.
    pub fn new(schema: &Arc<ArraySchema>, schema_name: &str) -> Self {
        let version = FormatVersion::WRITTEN;
        let dense = schema.is_dense();
        let slots = FieldSlots::new(schema, version, false, false);
        let dimensions = schema.dimensions.iter().enumerate();
        let dimensions = dimensions
            .filter(|_| !dense)
            .map(|(i, dimension)| WrittenField {
                field: FragmentField::Dimension(i),
                name: dimension.name.clone(),
                slot: slots.dimension(i),
                stem: FileStem::dimension(version, i, &dimension.name),
                datatype: dimension.datatype,
                cell_val_num: dimension.cell_val_num,
                nullable: false,
                filters: schema.dimension_filters(i, version).clone(),
                statistics: WrittenStatisticsKind::of_dimension(
                    dimension.datatype,
                    dimension.cell_val_num,
                ),
            });
        let image_size = schema.image_size();
        let attributes = schema.attributes.iter().enumerate();
        let attributes = attributes.map(|(i, attribute)| WrittenField {
            field: FragmentField::Attribute(i),
            name: attribute.name.clone(),
            slot: slots.attribute(i),
            stem: FileStem::attribute(version, i, &attribute.name),
            datatype: attribute.datatype,
            cell_val_num: attribute.cell_val_num,
            nullable: attribute.nullable,
            // libtiledb stores the size of the images of its last attribute alone.
            filters: attribute.filters.clone().for_images_of(image_size),
            statistics: WrittenStatisticsKind::of_attribute(
                attribute.datatype,
                attribute.cell_val_num,
                attribute.nullable,
            ),
        });
        let fields = dimensions.chain(attributes).collect();
        Self {
            schema: Arc::clone(schema),
            schema_name: schema_name.to_owned(),
            dense,
            slots,
            fields,
            recorded: RecordedFields::default(),
        }
    }

    /// Adds the times of each cell as fields after all others.
    #[must_use]
    pub fn with_times(self, recorded: RecordedFields) -> Self {
        let deletes = recorded.deletes.is_some();
        let slots = FieldSlots::new(
            &self.schema,
            FormatVersion::WRITTEN,
            recorded.times,
            deletes,
        );
        let times = [
            (
                FragmentField::Timestamps,
                slots.timestamps(),
                FileStem::timestamps(),
            ),
            (
                FragmentField::DeleteTimestamps,
                slots.delete_timestamps(),
                FileStem::delete_timestamps(),
            ),
            (
                FragmentField::DeleteConditionIndex,
                slots.delete_condition_index(),
                FileStem::delete_condition_index(),
            ),
        ];
        let times = times.into_iter().filter_map(|(field, slot, stem)| {
            Some(WrittenField {
                field,
                name: stem.file(FilePart::Fixed),
                slot: slot?,
                stem,
                datatype: Datatype::UInt64,
                cell_val_num: CellValNum::Fixed(1),
                nullable: false,
                filters: self.schema.coords_filters.clone(),
                statistics: WrittenStatisticsKind::of_times(),
            })
        });
        let mut fields = self.fields;
        fields.extend(times);
        Self {
            slots,
            fields,
            recorded,
            ..self
        }
    }
}

impl WrittenField {
    /// The context of the filters of the values.
    pub(super) fn values_context(&self, schema: &ArraySchema) -> Result<TileContext> {
        if self.is_time() {
            return Ok(cell_numbers_context(schema, FormatVersion::WRITTEN));
        }
        let size = self.cell_val_num.cell_size(self.datatype)?;
        Ok(TileContext {
            datatype: self.datatype,
            cell_bytes: size.unwrap_or(self.datatype.size()),
            var_data: size.is_none(),
            ..context(Datatype::UInt8, schema)
        })
    }

    /// Whether it holds times of cells, or indices of deletes.
    fn is_time(&self) -> bool {
        !matches!(
            self.field,
            FragmentField::Dimension(_) | FragmentField::Attribute(_)
        )
    }

    /// The name for messages.
    pub(super) fn described(&self) -> String {
        let kind = match self.field {
            FragmentField::Dimension(_) => "dimension",
            FragmentField::Attribute(_) => "attribute",
            _ => "file",
        };
        format!("{kind} \"{}\"", self.name)
    }
}

/// The context of the filters of offsets.
pub(super) fn offsets_context(schema: &ArraySchema) -> TileContext {
    context(Datatype::UInt64, schema)
}

/// The context of the filters of validity.
pub(super) fn validity_context(schema: &ArraySchema) -> TileContext {
    context(Datatype::UInt8, schema)
}

fn context(datatype: Datatype, schema: &ArraySchema) -> TileContext {
    TileContext {
        datatype,
        cell_bytes: datatype.size(),
        schema_version: schema.version,
        fragment_version: FormatVersion::WRITTEN,
        var_data: false,
    }
}

/// The values of an attribute with an order follow each other along the dimension. Such are the arrays of dimension labels,
/// which are searched for values; one that is out of order would hide others.
///
/// # Errors
/// An attribute has an order.
pub fn check_unordered(schema: &ArraySchema) -> Result<()> {
    let mut attributes = schema.attributes.iter();
    let ordered = attributes.find(|attribute| attribute.order != DataOrder::Unordered);
    let Some(attribute) = ordered else {
        return Ok(());
    };
    let order = match attribute.order {
        DataOrder::Decreasing => "decreasing",
        _ => "increasing",
    };
    Err(Error::unsupported(format!(
        "the attribute {} holds dimension labels in {order} order, which a statement could break: write labels with libtiledb",
        attribute.name
    )))
}

/// Writers of all columns of a table, dimensions first, whether or not fragments store them.
///
/// # Errors
/// A column cannot be read, and so not be written.
pub fn cell_writers(
    snapshot: &Snapshot,
    options: &TypeOptions,
    nulls: NullPolicy,
) -> Result<Vec<CellWriter>> {
    let schema = &snapshot.schema;
    let dimensions = schema
        .dimensions
        .iter()
        .map(|dimension| CellWriter::new(ColumnType::of_dimension(dimension, options)?, false));
    let attributes = schema.attributes.iter().map(|attribute| {
        let ty = attribute_type(attribute, &snapshot.enumerations, options)?;
        CellWriter::of_attribute(ty, attribute, nulls)
    });
    let writers = dimensions.chain(attributes).collect::<Result<_>>();
    writers.map_err(|e: Error| e.with("array", snapshot.storage.uri()))
}
