//! The fields that a fragment stores, and their statistics as they are stored.

use std::fmt;

use crate::array::fragment::{Fragment, FragmentField};
use crate::format::datatype::Datatype;
use crate::format::filter_list::Filter;
use crate::format::fragment::data_files::FileStem;
use crate::format::fragment::statistics::TileMinMax;
use crate::format::schema::CellValNum;

/// The kind of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    Dimension,
    Attribute,
    /// Times and indexes that only consolidated fragments have.
    System,
}

/// A field of a fragment's own schema.
#[derive(Debug, Clone)]
pub struct CheckedField {
    pub field: FragmentField,
    pub kind: FieldKind,
    /// Its name in the schema.
    pub name: String,
    pub stem: FileStem,
    /// Its position in the lists of the footer.
    pub slot: usize,
    pub datatype: Datatype,
    pub cell_val_num: CellValNum,
    pub nullable: bool,
    /// Whether values may be read differently from how they were written.
    pub lossy: bool,
    /// Whether the schema doesn't define how to read it, which has been reported.
    pub unknown: bool,
    /// Whether the validity may be read differently from how it was written.
    pub validity_lost: bool,
}

impl CheckedField {
    /// Whether cells differ in size.
    pub fn is_var(&self) -> bool {
        self.cell_val_num.is_var()
    }

    /// Size of a cell; `None` if cells differ in size.
    pub fn cell_size(&self) -> Option<usize> {
        self.cell_val_num.cell_size(self.datatype).ok().flatten()
    }
}

impl fmt::Display for CheckedField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            FieldKind::Dimension => write!(f, "dimension {}", self.name),
            FieldKind::Attribute => write!(f, "attribute {}", self.name),
            FieldKind::System => write!(f, "field {}", self.name),
        }
    }
}

/// The stored fields of a fragment: dimensions, unless it is dense, then attributes, then times.
pub fn of(fragment: &Fragment) -> Vec<CheckedField> {
    /// Before this version bitshuffle lost a part of validity tiles.
    const BITSHUFFLE_KEEPS_SINCE: u32 = 15;
    let (schema, footer) = (&fragment.schema, &fragment.footer);
    let (version, slots) = (footer.version, footer.slots(schema));
    let mut fields = Vec::new();
    let dimensions = schema.dimensions.iter().enumerate();
    for (i, dimension) in dimensions.filter(|_| !footer.dense) {
        fields.push(CheckedField {
            field: FragmentField::Dimension(i),
            kind: FieldKind::Dimension,
            name: dimension.name.clone(),
            stem: if slots.has_separate_dimensions() {
                FileStem::dimension(version, i, &dimension.name)
            } else {
                FileStem::coords()
            },
            slot: slots.dimension(i),
            datatype: dimension.datatype,
            cell_val_num: dimension.cell_val_num,
            nullable: false,
            lossy: schema.dimension_filters(i, version).is_lossy(),
            unknown: false,
            validity_lost: false,
        });
    }
    let shuffled = schema
        .validity_filters
        .contains(|f| *f == Filter::BitShuffle);
    for (i, attribute) in schema.attributes.iter().enumerate() {
        fields.push(CheckedField {
            field: FragmentField::Attribute(i),
            kind: FieldKind::Attribute,
            name: attribute.name.clone(),
            stem: FileStem::attribute(version, i, &attribute.name),
            slot: slots.attribute(i),
            datatype: attribute.datatype,
            cell_val_num: attribute.cell_val_num,
            nullable: attribute.nullable,
            lossy: attribute.filters.is_lossy(),
            unknown: attribute.problem.is_some(),
            validity_lost: shuffled && !version.since(BITSHUFFLE_KEEPS_SINCE),
        });
    }
    let mut system = |slot: Option<usize>, field, name: &str, stem| {
        fields.extend(slot.map(|slot| CheckedField {
            field,
            kind: FieldKind::System,
            name: name.to_owned(),
            stem,
            slot,
            datatype: Datatype::UInt64,
            cell_val_num: CellValNum::Fixed(1),
            nullable: false,
            lossy: false,
            unknown: false,
            validity_lost: false,
        }));
    };
    system(
        slots.timestamps(),
        FragmentField::Timestamps,
        "__timestamps",
        FileStem::timestamps(),
    );
    system(
        slots.delete_timestamps(),
        FragmentField::DeleteTimestamps,
        "__delete_timestamps",
        FileStem::delete_timestamps(),
    );
    system(
        slots.delete_condition_index(),
        FragmentField::DeleteConditionIndex,
        "__delete_condition_index",
        FileStem::delete_condition_index(),
    );
    fields
}

/// The stored statistics of the tiles of a field; missing or damaged ones are empty.
#[derive(Debug, Default)]
pub struct StoredFieldStatistics {
    pub mins: TileMinMax,
    pub maxes: TileMinMax,
    pub sums: Vec<u64>,
    pub null_counts: Vec<u64>,
    /// Whether the lists of tiles are sound, so that tiles can be read.
    pub readable: bool,
}

impl StoredFieldStatistics {
    /// Size in memory.
    pub fn memory_bytes(&self) -> usize {
        let numbers = [&self.sums, &self.null_counts].map(|list| size_of_val(list.as_slice()));
        let values = [&self.mins, &self.maxes].map(|m| m.fixed.len().saturating_add(m.var.len()));
        let parts = numbers.into_iter().chain(values);
        parts.fold(0, usize::saturating_add)
    }
}
