//! The array schema (specification: "Array Schema File").
//!
//! There is one struct for every version; fields that a version lacks have the value that readers must assume. The
//! subtle thing: a fragment is read with the schema its footer names, not with the array's latest one, because dropping
//! an attribute shifts the numbers of those after it.

mod attribute;
pub mod current_domain;
mod dimension;
mod label;
#[cfg(test)]
mod tests;
mod validate;

use std::fmt;

pub use attribute::{Attribute, DataOrder};
pub use dimension::Dimension;
pub use label::DimensionLabel;

use super::cursor::Cursor;
use super::datatype::Datatype;
use super::encoder::Encoder;
use super::filter_list::FilterList;
use super::names::check_component;
use super::version::FormatVersion;
use crate::error::{Error, Result};
use crate::format::schema::current_domain::CurrentDomain;

/// Whether every cell of the domain exists, or only the written ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ArrayType {
    /// Every cell of the domain has a value.
    Dense,
    /// Only written cells exist.
    Sparse,
}

impl ArrayType {
    const fn code(self) -> u8 {
        match self {
            Self::Dense => 0,
            Self::Sparse => 1,
        }
    }
}

impl fmt::Display for ArrayType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dense => "dense",
            Self::Sparse => "sparse",
        })
    }
}

/// An order of tiles or of cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// The last dimension varies fastest.
    RowMajor,
    /// The first dimension varies fastest.
    ColMajor,
    /// The order along a Hilbert curve; only for cells of sparse arrays.
    Hilbert,
}

impl Layout {
    fn decode(cursor: &mut Cursor<'_>, field: &'static str) -> Result<Self> {
        match cursor.u8(field)? {
            0 => Ok(Self::RowMajor),
            1 => Ok(Self::ColMajor),
            4 => Ok(Self::Hilbert),
            other => {
                Err(cursor.invalid(field, other, "0 (row-major), 1 (col-major) or 4 (hilbert)"))
            }
        }
    }
}

impl Layout {
    const fn code(self) -> u8 {
        match self {
            Self::RowMajor => 0,
            Self::ColMajor => 1,
            Self::Hilbert => 4,
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RowMajor => "row-major",
            Self::ColMajor => "col-major",
            Self::Hilbert => "hilbert",
        })
    }
}

/// The number of elements in a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CellValNum {
    /// This many elements, at least one.
    Fixed(u32),
    /// A different number in each cell.
    Var,
}

impl CellValNum {
    pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let count = cursor.u32("cell_val_num")?;
        Self::of_count(count).ok_or_else(|| cursor.invalid("cell_val_num", 0, "at least 1"))
    }

    /// Interprets a stored number; `None` if it is 0, which is invalid.
    pub(crate) const fn of_count(count: u32) -> Option<Self> {
        match count {
            0 => None,
            u32::MAX => Some(Self::Var),
            count => Some(Self::Fixed(count)),
        }
    }

    /// The stored number.
    pub(crate) const fn count(self) -> u32 {
        match self {
            Self::Fixed(count) => count,
            Self::Var => u32::MAX,
        }
    }

    /// Whether cells differ in size.
    pub const fn is_var(self) -> bool {
        matches!(self, Self::Var)
    }

    /// Size of a cell of `datatype`; `None` if cells differ in size.
    pub fn cell_size(self, datatype: Datatype) -> Result<Option<usize>> {
        match self {
            Self::Var => Ok(None),
            Self::Fixed(count) => usize::try_from(count)?
                .checked_mul(datatype.size())
                .map(Some)
                .ok_or_else(|| {
                    Error::corrupt(format!(
                        "a cell of {count} {datatype} elements exceeds this machine's address space"
                    ))
                }),
        }
    }
}

/// A reference to the file of an enumeration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnumerationRef {
    /// The name by which attributes refer to it.
    pub name: String,
    /// The file in `__schema/__enumerations`.
    pub file: String,
}

/// An array's schema.
#[derive(Debug, Clone, PartialEq)]
pub struct ArraySchema {
    /// The version of the schema itself; fragments have their own.
    pub version: FormatVersion,
    /// Dense or sparse.
    pub array_type: ArrayType,
    /// The order of tiles; never Hilbert.
    pub tile_order: Layout,
    /// The order of cells inside a tile (dense); together with the tile order, the order of all cells (sparse).
    pub cell_order: Layout,
    /// Number of cells in a tile of a sparse fragment.
    pub capacity: u64,
    /// Whether several cells may have the same coordinates.
    pub allows_duplicates: bool,
    /// Filters of dimensions without their own filters.
    pub coords_filters: FilterList,
    /// Filters of the offsets of variable-sized fields.
    pub offsets_filters: FilterList,
    /// Filters of the validity of nullable attributes.
    pub validity_filters: FilterList,
    /// The dimensions, at least one.
    pub dimensions: Vec<Dimension>,
    /// The attributes.
    pub attributes: Vec<Attribute>,
    /// The dimension labels, which are not needed to read cells.
    pub labels: Vec<DimensionLabel>,
    /// The enumerations, in no particular order.
    pub enumerations: Vec<EnumerationRef>,
    /// The part of the domain in use; `None` if it is all of it.
    pub current_domain: Option<CurrentDomain>,
}

impl ArraySchema {
    /// Reads a schema and checks it.
    pub fn decode(tile: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(tile, "array schema");
        let cursor = &mut cursor;
        let version = FormatVersion::new(cursor.u32("version")?)?;
        let allows_duplicates = version.since(5) && cursor.bool("allows duplicates")?;
        let array_type = match cursor.u8("array type")? {
            0 => ArrayType::Dense,
            1 => ArrayType::Sparse,
            other => return Err(cursor.invalid("array type", other, "0 (dense) or 1 (sparse)")),
        };
        let tile_order = Layout::decode(cursor, "tile order")?;
        let cell_order = Layout::decode(cursor, "cell order")?;
        let capacity = cursor.u64("capacity")?;
        let coords_filters = FilterList::decode(cursor, version)?;
        let offsets_filters = FilterList::decode(cursor, version)?;
        let validity_filters = if version.since(7) {
            FilterList::decode(cursor, version)?
        } else {
            FilterList::default()
        };
        let shared_datatype = dimension::decode_shared_datatype(cursor, version)?;
        let dimensions = decode_list(cursor, "number of dimensions", |c| {
            Dimension::decode(c, version, shared_datatype)
        })?;
        let attributes = decode_list(cursor, "number of attributes", |c| {
            Attribute::decode(c, version)
        })?;
        let labels = if version.since(18) {
            decode_list(cursor, "number of labels", DimensionLabel::decode)?
        } else {
            Vec::new()
        };
        let enumerations = if version.since(20) {
            decode_list(cursor, "number of enumerations", EnumerationRef::decode)?
        } else {
            Vec::new()
        };
        let current_domain = if version.since(22) {
            CurrentDomain::decode(cursor, &dimensions)?
        } else {
            None
        };
        let mut schema = Self {
            version,
            array_type,
            tile_order,
            cell_order,
            capacity,
            allows_duplicates,
            coords_filters,
            offsets_filters,
            validity_filters,
            dimensions,
            attributes,
            labels,
            enumerations,
            current_domain,
        };
        schema.validate()?;
        Ok(schema)
    }

    /// Writes the schema, in the version [`FormatVersion::WRITTEN`] whatever its own.
    ///
    /// # Errors
    /// An attribute or label is of a type that this release does not know, or a name is too long.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut encoder = Encoder::new();
        let to = &mut encoder;
        to.u32(FormatVersion::WRITTEN.get());
        to.bool(self.allows_duplicates);
        to.u8(self.array_type.code());
        to.u8(self.tile_order.code());
        to.u8(self.cell_order.code());
        to.u64(self.capacity);
        for filters in [
            &self.coords_filters,
            &self.offsets_filters,
            &self.validity_filters,
        ] {
            filters.encode(to)?;
        }
        to.count_u32(self.dimensions.len(), "number of dimensions")?;
        for dimension in &self.dimensions {
            dimension.encode(to)?;
        }
        to.count_u32(self.attributes.len(), "number of attributes")?;
        for attribute in &self.attributes {
            attribute.encode(to)?;
        }
        to.count_u32(self.labels.len(), "number of labels")?;
        for label in &self.labels {
            label.encode(to)?;
        }
        to.count_u32(self.enumerations.len(), "number of enumerations")?;
        for EnumerationRef { name, file } in &self.enumerations {
            to.bytes_u32(name.as_bytes(), "enumeration name")?;
            to.bytes_u32(file.as_bytes(), "enumeration file")?;
        }
        CurrentDomain::encode(self.current_domain.as_ref(), &self.dimensions, to);
        Ok(encoder.finish())
    }

    /// Adds the file to the problems of attributes and labels.
    pub(crate) fn locate_problems(&mut self, file: &str) {
        let attributes = self.attributes.iter_mut().map(|a| &mut a.problem);
        let labels = self.labels.iter_mut().map(|l| &mut l.problem);
        for problem in attributes.chain(labels).flatten() {
            problem.push_str(&format!(" (file {file})"));
        }
    }

    /// Whether the array is dense.
    pub fn is_dense(&self) -> bool {
        self.array_type == ArrayType::Dense
    }

    /// The filters of dimension `index` in fragments of version `fragment`, if it has its own files: its own filters,
    /// or the coordinates' if it has none.
    ///
    /// Schemas before version 5 have only the filters of all coordinates in one file. Releases that write with such a
    /// schema apply these to each dimension up to version 19, and no filters from version 20 on.
    pub fn dimension_filters(&self, index: usize, fragment: FormatVersion) -> &FilterList {
        let none_is_meant = !self.version.since(5) && fragment.since(20);
        let own = self.dimensions.get(index).map(|d| &d.filters);
        own.filter(|filters| !filters.is_empty() || none_is_meant)
            .unwrap_or(&self.coords_filters)
    }

    /// The index of the dimension called `name`.
    pub fn dimension_index(&self, name: &str) -> Option<usize> {
        self.dimensions.iter().position(|d| d.name == name)
    }

    /// The index of the attribute called `name`.
    pub fn attribute_index(&self, name: &str) -> Option<usize> {
        self.attributes.iter().position(|a| a.name == name)
    }

    /// The file of the enumeration called `name`.
    pub fn enumeration(&self, name: &str) -> Option<&EnumerationRef> {
        self.enumerations.iter().find(|e| e.name == name)
    }

    /// The lines of the images that WebP makes of tiles, and the bytes of each line; `None` if tiles aren't images.
    pub fn image_size(&self) -> Option<(u16, u16)> {
        let extent = |dimension: &Dimension| u16::try_from(dimension.extent_steps()?).ok();
        match self.dimensions.as_slice() {
            [lines, line] if self.is_dense() => Some((extent(lines)?, extent(line)?)),
            _ => None,
        }
    }

    /// Number of cells in every tile of a dense fragment: the product of the extents.
    ///
    /// Fails for a sparse array, whose tiles hold [`capacity`](Self::capacity) cells.
    pub fn dense_tile_cells(&self) -> Result<u64> {
        self.dimensions.iter().try_fold(1u64, |cells, dimension| {
            let extent = dimension.extent_steps().ok_or_else(|| {
                Error::internal(format!(
                    "dimension \"{}\" has no integer extent",
                    dimension.name
                ))
            })?;
            cells.checked_mul(extent).ok_or_else(|| {
                Error::unsupported(format!(
                    "the tile extents multiply to more than {} cells, which no fragment can hold",
                    u64::MAX
                ))
            })
        })
    }
}

impl EnumerationRef {
    fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let name = cursor.string_u32("enumeration name")?;
        let file = cursor.string_u32("enumeration file")?;
        check_component(&file, "the file of an enumeration")?;
        Ok(Self { name, file })
    }
}

/// Reads a `u32` count and that many items. Each item takes at least four bytes, because it starts with a length or an
/// index.
fn decode_list<T>(
    cursor: &mut Cursor<'_>,
    field: &'static str,
    decode: impl Fn(&mut Cursor<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let count = cursor.count_u32(4, field)?;
    (0..count).map(|_| decode(cursor)).collect()
}
