//! One dimension (specification: "Array Schema File", Dimension).
//!
//! Name, datatype, elements per cell, filters, domain, extent; before version 5 one datatype is stored for all
//! dimensions, and the coordinates' filters apply to all. The subtle thing: the extent of a signed dimension is a
//! number of steps and may use the whole unsigned range of its width, so it is never read as signed.

use super::CellValNum;
use crate::error::Result;
use crate::format::cursor::Cursor;
use crate::format::datatype::Datatype;
use crate::format::encoder::Encoder;
use crate::format::filter_list::FilterList;
use crate::format::version::FormatVersion;

/// A dimension.
#[derive(Debug, Clone, PartialEq)]
pub struct Dimension {
    /// The name.
    pub name: String,
    /// The type of a coordinate.
    pub datatype: Datatype,
    /// One element, or a variable number for strings.
    pub cell_val_num: CellValNum,
    /// Its own filters; see [`ArraySchema::dimension_filters`](super::ArraySchema::dimension_filters).
    pub filters: FilterList,
    /// Smallest and largest coordinate, raw little-endian; `None` for strings.
    pub domain: Option<(Vec<u8>, Vec<u8>)>,
    /// The tile extent, raw little-endian; `None` if the dimension is not tiled.
    ///
    /// For a float dimension it is 0 if the domain is a single point, and may be infinite.
    pub extent: Option<Vec<u8>>,
}

/// The datatype stored before the dimensions in versions before 5, which applies to all of them.
pub(super) fn decode_shared_datatype(
    cursor: &mut Cursor<'_>,
    version: FormatVersion,
) -> Result<Option<Datatype>> {
    if version.since(5) {
        return Ok(None);
    }
    Datatype::from_code(cursor.u8("domain datatype")?).map(Some)
}

impl Dimension {
    pub(super) fn decode(
        cursor: &mut Cursor<'_>,
        version: FormatVersion,
        shared_datatype: Option<Datatype>,
    ) -> Result<Self> {
        let name = cursor.string_u32("dimension name")?;
        let decoded = Self::decode_body(cursor, version, shared_datatype, &name);
        decoded.map_err(|e| e.with("dimension", &name))
    }

    fn decode_body(
        cursor: &mut Cursor<'_>,
        version: FormatVersion,
        shared_datatype: Option<Datatype>,
        name: &str,
    ) -> Result<Self> {
        let (datatype, cell_val_num, filters) = match shared_datatype {
            Some(datatype) => (datatype, CellValNum::Fixed(1), FilterList::default()),
            None => (
                Datatype::from_code(cursor.u8("dimension datatype")?)?,
                CellValNum::decode(cursor)?,
                FilterList::decode(cursor, version)?,
            ),
        };
        let size = datatype.size();
        let expected = if cell_val_num.is_var() { 0 } else { 2 * size };
        if version.since(5) {
            let found = cursor.u64("domain bytes")?;
            if found != expected as u64 {
                return Err(cursor.invalid(
                    "domain bytes",
                    found,
                    format_args!(
                        "{expected}: two {datatype} values, or nothing for variable-sized ones"
                    ),
                ));
            }
        }
        let domain = if cell_val_num.is_var() {
            None
        } else {
            Some((
                cursor.bytes(size, "domain low")?.to_vec(),
                cursor.bytes(size, "domain high")?.to_vec(),
            ))
        };
        let null_extent = cursor.bool("null extent flag")?;
        let extent = if null_extent {
            None
        } else {
            Some(cursor.bytes(size, "tile extent")?.to_vec())
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

    pub(super) fn encode(&self, to: &mut Encoder) -> Result<()> {
        to.bytes_u32(self.name.as_bytes(), "dimension name")?;
        to.u8(self.datatype.code());
        to.u32(self.cell_val_num.count());
        self.filters.encode(to)?;
        let (low, high) = self
            .domain
            .as_ref()
            .map_or((&[][..], &[][..]), |(low, high)| {
                (low.as_slice(), high.as_slice())
            });
        to.count_u64(low.len().saturating_add(high.len()));
        to.bytes(low);
        to.bytes(high);
        to.bool(self.extent.is_none());
        to.bytes(self.extent.as_deref().unwrap_or_default());
        Ok(())
    }

    /// Whether coordinates are strings.
    pub fn is_var(&self) -> bool {
        self.cell_val_num.is_var()
    }

    /// Size of a coordinate; `None` for strings.
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
