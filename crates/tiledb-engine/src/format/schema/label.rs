//! One dimension label (specification: "Array Schema File", Dimension Label).
//!
//! A label is another array that maps label values to the coordinates of a dimension. The subtle thing: the order of
//! fields on storage differs from the specification's table, and there is no label domain.

use super::CellValNum;
use super::attribute::{DataOrder, check_known, known_or_any};
use crate::error::Result;
use crate::format::cursor::Cursor;
use crate::format::datatype::Datatype;
use crate::format::encoder::Encoder;

/// A dimension label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DimensionLabel {
    /// The index of the dimension it labels.
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
    /// The problem because of which the label cannot be read, if there is one; see
    /// [`Attribute::problem`](super::Attribute::problem).
    pub problem: Option<String>,
}

impl DimensionLabel {
    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let dimension = cursor.u32("label's dimension")?;
        let name = cursor.string_u32("label name")?;
        let relative = cursor.bool("label URI is relative")?;
        let uri = cursor.string_u64("label URI")?;
        let attribute = cursor.string_u32("label attribute")?;
        let order = DataOrder::decode(cursor)?;
        let (datatype, mut problem) = known_or_any(cursor.u8("label datatype")?);
        let count = CellValNum::of_count(cursor.u32("cell_val_num")?);
        if count.is_none() {
            problem = Some("values per label is 0, expected at least 1".to_owned());
        }
        Ok(Self {
            dimension,
            name,
            relative,
            uri,
            attribute,
            order,
            datatype,
            cell_val_num: count.unwrap_or(CellValNum::Fixed(1)),
            external: cursor.bool("label is external")?,
            problem,
        })
    }

    pub(super) fn encode(&self, to: &mut Encoder) -> Result<()> {
        check_known(self.problem.as_ref(), "label", &self.name)?;
        to.u32(self.dimension);
        to.bytes_u32(self.name.as_bytes(), "label name")?;
        to.bool(self.relative);
        to.bytes_u64(self.uri.as_bytes());
        to.bytes_u32(self.attribute.as_bytes(), "label attribute")?;
        to.u8(self.order.code());
        to.u8(self.datatype.code());
        to.u32(self.cell_val_num.count());
        to.bool(self.external);
        Ok(())
    }
}
