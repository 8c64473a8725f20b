//! Slot numbers and data file names of a fragment's fields (specification: "Fragment Metadata File", "Fragment").
//!
//! Attributes come first, then one dead slot (once the zipped coordinates), the dimensions, the timestamps and the
//! two fields of delete metadata. The subtle thing: the dead slot exists in every version, so dimension `j` has slot
//! `A + 1 + j`, with `A` counted by the schema that the footer names.

use crate::error::{Error, Result};
use crate::format::schema::ArraySchema;

/// What is stored of a field, each in a file of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FilePart {
    /// The values of fixed fields, the offsets of variable-sized ones.
    Fixed,
    /// The values of variable-sized fields.
    Var,
    /// One byte per cell of nullable fields.
    Validity,
}

/// Maps fields to their positions in the per-field arrays of a fragment's metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slots {
    attributes: usize,
    dimensions: usize,
    has_timestamps: bool,
    has_delete_metadata: bool,
}

impl Slots {
    /// The slots of a fragment of `schema` with these flags in its footer.
    pub fn new(schema: &ArraySchema, has_timestamps: bool, has_delete_metadata: bool) -> Self {
        Self {
            attributes: schema.attributes.len(),
            dimensions: schema.dimensions.len(),
            has_timestamps,
            has_delete_metadata,
        }
    }

    /// The slot of attribute `index`.
    pub fn attribute(&self, index: usize) -> usize {
        index
    }

    /// The slot of dimension `index`.
    pub fn dimension(&self, index: usize) -> usize {
        self.attributes + 1 + index
    }

    /// The slot of the write time of each cell.
    pub fn timestamps(&self) -> Option<usize> {
        self.has_timestamps.then(|| self.dimension(self.dimensions))
    }

    /// The slot of the delete time of each cell.
    pub fn delete_timestamps(&self) -> Option<usize> {
        self.has_delete_metadata
            .then(|| self.dimension(self.dimensions) + usize::from(self.has_timestamps))
    }

    /// The slot of the index of the condition that deleted each cell.
    pub fn delete_condition_index(&self) -> Option<usize> {
        self.delete_timestamps().map(|slot| slot + 1)
    }

    /// The number of slots.
    pub fn count(&self) -> usize {
        self.dimension(self.dimensions)
            + usize::from(self.has_timestamps)
            + 2 * usize::from(self.has_delete_metadata)
    }

    /// The name of the file that holds `part` of `slot`, as versions since 9 name it.
    pub fn field_file(&self, slot: usize, part: FilePart) -> Result<String> {
        let suffix = match part {
            FilePart::Fixed => "",
            FilePart::Var => "_var",
            FilePart::Validity => "_validity",
        };
        Ok(format!("{}{suffix}.tdb", self.file_stem(slot)?))
    }

    fn file_stem(&self, slot: usize) -> Result<String> {
        if slot < self.attributes {
            return Ok(format!("a{slot}"));
        }
        let dimension = slot.checked_sub(self.attributes + 1);
        match dimension {
            Some(index) if index < self.dimensions => return Ok(format!("d{index}")),
            _ => {}
        }
        if self.timestamps() == Some(slot) {
            Ok("t".to_owned())
        } else if self.delete_timestamps() == Some(slot) {
            Ok("dt".to_owned())
        } else if self.delete_condition_index() == Some(slot) {
            Ok("dci".to_owned())
        } else {
            Err(Error::internal(format!(
                "slot {slot} of {} has no data files",
                self.count()
            )))
        }
    }
}
