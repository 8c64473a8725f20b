//! One dimension (specification: "Array Schema File", Dimension).
//!
//! Name, datatype, elements per cell, filters, domain, extent. The subtle thing: the extent of a signed dimension
//! is a number of steps and may use the whole unsigned range of its width, so it is never read as signed.

use super::CellValNum;
use crate::error::Result;
use crate::format::cursor::Cursor;
use crate::format::datatype::Datatype;
use crate::format::filter_list::FilterList;
use crate::format::version::FormatVersion;

/// A dimension.
#[derive(Debug, Clone, PartialEq)]
pub struct Dimension {
    /// The name.
    pub name: String,
    /// The type of a coordinate.
    pub datatype: Datatype,
    /// One, or variable for strings.
    pub cell_val_num: CellValNum,
    /// The filters of its own; see [`ArraySchema::dimension_filters`](super::ArraySchema::dimension_filters).
    pub filters: FilterList,
    /// Smallest and largest coordinate, raw little-endian; `None` for strings.
    pub domain: Option<(Vec<u8>, Vec<u8>)>,
    /// The tile extent, raw little-endian; `None` if the dimension takes no part in the order of tiles.
    ///
    /// Of a float dimension it is 0 if the domain is a single point, and may be infinite.
    pub extent: Option<Vec<u8>>,
}

impl Dimension {
    pub(super) fn decode(cursor: &mut Cursor<'_>, version: FormatVersion) -> Result<Self> {
        let name = cursor.string_u32("dimension name")?;
        let decoded = Self::decode_body(cursor, version, &name);
        decoded.map_err(|e| e.with("dimension", &name))
    }

    fn decode_body(cursor: &mut Cursor<'_>, version: FormatVersion, name: &str) -> Result<Self> {
        let datatype = Datatype::from_code(cursor.u8("dimension datatype")?)?;
        let cell_val_num = CellValNum::decode(cursor)?;
        let filters = FilterList::decode(cursor, version)?;
        let domain_bytes = cursor.u64("domain bytes")?;
        let domain = if cell_val_num.is_var() {
            if domain_bytes != 0 {
                return Err(cursor.invalid(
                    "domain bytes",
                    domain_bytes,
                    "0 for a string dimension",
                ));
            }
            None
        } else {
            let size = datatype.size();
            let expected = 2 * datatype.size() as u64;
            if domain_bytes != expected {
                return Err(cursor.invalid(
                    "domain bytes",
                    domain_bytes,
                    format_args!("{expected}, two {datatype} values"),
                ));
            }
            Some((
                cursor.bytes(size, "domain low")?.to_vec(),
                cursor.bytes(size, "domain high")?.to_vec(),
            ))
        };
        let null_extent = cursor.bool("null extent flag")?;
        let extent = if null_extent {
            None
        } else {
            Some(cursor.bytes(datatype.size(), "tile extent")?.to_vec())
        };
        Ok(Self {
            name: name.to_owned(),
            datatype,
            cell_val_num,
            filters,
            domain,
            extent,
        })
    }

    /// Whether coordinates are strings.
    pub fn is_var(&self) -> bool {
        self.cell_val_num.is_var()
    }

    /// Bytes of a coordinate; `None` for strings.
    pub fn cell_size(&self) -> Option<usize> {
        (!self.is_var()).then(|| self.datatype.size())
    }

    /// The extent of an integer, date or time dimension, in steps; `None` for floats, strings and null extents.
    ///
    /// Signed types store the step count in the same bits, so it is read unsigned.
    pub fn extent_steps(&self) -> Option<u64> {
        if self.datatype.is_float() {
            return None;
        }
        let bytes = self.extent.as_deref()?;
        match bytes.len() {
            1 => bytes.first().map(|b| u64::from(*b)),
            2 => Some(u64::from(u16::from_le_bytes(bytes.try_into().ok()?))),
            4 => Some(u64::from(u32::from_le_bytes(bytes.try_into().ok()?))),
            _ => Some(u64::from_le_bytes(bytes.try_into().ok()?)),
        }
    }
}
