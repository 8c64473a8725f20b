//! One dimension label (specification: "Array Schema File", Dimension Label).
//!
//! Another array that maps label values to the coordinates of a dimension. The subtle thing: the order of fields
//! on storage differs from the specification's table, and there is no label domain.

use super::CellValNum;
use super::attribute::DataOrder;
use crate::error::Result;
use crate::format::cursor::Cursor;
use crate::format::datatype::Datatype;

/// A dimension label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DimensionLabel {
    /// The position of the dimension it labels.
    pub dimension: u32,
    /// The name.
    pub name: String,
    /// Whether `uri` is relative to the array.
    pub relative: bool,
    /// The array that holds the labels.
    pub uri: String,
    /// The attribute of that array that holds the labels.
    pub attribute: String,
    /// The order of the labels along the dimension.
    pub order: DataOrder,
    /// The type of a label's elements.
    pub datatype: Datatype,
    /// Elements per label.
    pub cell_val_num: CellValNum,
    /// Whether the label array was made by the user and not with the array.
    pub external: bool,
}

impl DimensionLabel {
    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(Self {
            dimension: cursor.u32("label's dimension")?,
            name: cursor.string_u32("label name")?,
            relative: cursor.bool("label URI is relative")?,
            uri: cursor.string_u64("label URI")?,
            attribute: cursor.string_u32("label attribute")?,
            order: DataOrder::decode(cursor)?,
            datatype: Datatype::from_code(cursor.u8("label datatype")?)?,
            cell_val_num: CellValNum::decode(cursor)?,
            external: cursor.bool("label is external")?,
        })
    }
}
