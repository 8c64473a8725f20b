//! Positions of a fragment's fields in the per-field lists of its metadata (specification: "Fragment Metadata File").
//!
//! Attributes come first, then one slot that held all coordinates until version 4 and is unused since, the dimensions,
//! the timestamps and the two fields of delete metadata. The subtle thing: the unused slot exists in every version, so
//! dimension `j` has slot `A + 1 + j`, with `A` counted by the schema that the footer names.

use crate::format::schema::ArraySchema;
use crate::format::version::FormatVersion;

/// Since this version, every dimension has its own files and slot.
pub const SEPARATE_DIMENSIONS_SINCE: u32 = 5;
/// Since this version, fields may be nullable.
const VALIDITY_SINCE: u32 = 7;

/// Maps fields to their positions in the per-field arrays of a fragment's metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldSlots {
    version: FormatVersion,
    attributes: usize,
    dimensions: usize,
    has_timestamps: bool,
    has_delete_metadata: bool,
}

impl FieldSlots {
    /// The slots of a fragment of `schema` with this version and these flags in its footer.
    pub fn new(
        schema: &ArraySchema,
        version: FormatVersion,
        has_timestamps: bool,
        has_delete_metadata: bool,
    ) -> Self {
        Self {
            version,
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

    /// The slot of dimension `index`; before version 5 all dimensions share one.
    pub fn dimension(&self, index: usize) -> usize {
        if self.has_separate_dimensions() {
            self.attributes + 1 + index
        } else {
            self.attributes
        }
    }

    /// Whether every dimension has its own files; otherwise one file holds all coordinates.
    pub fn has_separate_dimensions(&self) -> bool {
        self.version.since(SEPARATE_DIMENSIONS_SINCE)
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
        if !self.has_separate_dimensions() {
            return self.attributes + 1;
        }
        self.dimension(self.dimensions)
            + usize::from(self.has_timestamps)
            + 2 * usize::from(self.has_delete_metadata)
    }

    /// The number of slots in lists about variable-sized values.
    pub fn var_count(&self) -> usize {
        if self.has_separate_dimensions() {
            self.count()
        } else {
            self.attributes
        }
    }

    /// The number of slots in lists about validity.
    pub fn validity_count(&self) -> usize {
        if self.version.since(VALIDITY_SINCE) {
            self.count()
        } else {
            0
        }
    }
}
