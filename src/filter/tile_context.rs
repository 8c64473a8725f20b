//! What filters have to know about a tile.

use crate::format::datatype::Datatype;
use crate::format::version::FormatVersion;

/// What a pipeline has to know about the tiles it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileContext {
    /// The field's type; `UINT64` for offsets, `UINT8` for validity.
    pub datatype: Datatype,
    /// Bytes of a cell as run-length encoding sees it: values per cell times the type's size; for data of variable
    /// size the type's size; 8 for offsets; 1 for validity.
    pub cell_bytes: usize,
    /// The version of the array schema the fragment was written with.
    pub schema_version: FormatVersion,
    /// The version of the fragment.
    pub fragment_version: FormatVersion,
    /// Whether this is the data tile of a field of variable size.
    pub var_data: bool,
}
