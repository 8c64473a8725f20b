//! The properties of a tile that filters depend on.

use crate::format::datatype::Datatype;
use crate::format::version::FormatVersion;

/// The properties of tiles that a pipeline depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileContext {
    /// The field's type; `UINT64` for offsets, `UINT8` for validity.
    pub datatype: Datatype,
    /// Size of a cell for run-length encoding: values per cell times the type's size; for variable-sized data the
    /// type's size; 8 for offsets; 1 for validity.
    pub cell_bytes: usize,
    /// The version of the array schema the fragment was written with.
    pub schema_version: FormatVersion,
    /// The version of the fragment.
    pub fragment_version: FormatVersion,
    /// Whether this is the data tile of a variable-sized field.
    pub var_data: bool,
}
