//! Fragments whose cells lie in the order of an attribute's values: filter bitsort of libtiledb 2.13 and 2.14 (no page
//! of the specification).
//!
//! The writer sorted the values of the attribute in each tile and moved the coordinates along. The tiles of all
//! dimensions are bare: no chunks, no filters of their own, not even encryption. All other fields keep the global
//! order, so sorting the coordinates tells where each value belongs. Two subtle things: coordinates were moved for one
//! chunk of the attribute's tile only, so those of larger tiles are lost; and cells that the order does not distinguish
//! ([`EqualCells`]) are in an unknown order.
//!
//! This belongs to [the filter](crate::filter) and is the only way to read such fragments, so no setting switches it
//! off.

use std::ops::Range;

use bytes::Bytes;

use crate::array::fragment::FragmentField;
use crate::error::{Error, Result, ResultExt};
use crate::format::datatype::Datatype;
use crate::format::filter_list::Filter;
use crate::format::schema::{ArraySchema, Attribute, CellValNum, Dimension};
use crate::geometry::cell_order::GlobalOrder;
use crate::geometry::key;

/// The largest tile of an attribute that is one chunk.
const CHUNK_BYTES: usize = 64 << 10;

/// How bitsort moved the cells of a field.
#[derive(Debug)]
pub struct Bitsort {
    /// Size of a value of the attribute.
    value_bytes: usize,
    /// Names and types of the dimensions.
    dimensions: Vec<(String, Datatype)>,
    order: GlobalOrder,
    bare: bool,
}

impl Bitsort {
    /// `None` if the cells of `field`, in fragments with this schema, were not moved.
    pub fn moving(field: FragmentField, schema: &ArraySchema) -> Result<Option<Self>> {
        let sorted = |a: &Attribute| a.filters.contains(|f| *f == Filter::Bitsort);
        let bare = match field {
            FragmentField::Dimension(_) => true,
            FragmentField::Attribute(a) if schema.attributes.get(a).is_some_and(sorted) => false,
            _ => return Ok(None),
        };
        let Some(attribute) = schema.attributes.iter().find(|a| sorted(a)) else {
            return Ok(None);
        };
        let several = schema.attributes.iter().filter(|a| sorted(a)).count() > 1;
        let several = several.then(|| "on several attributes".to_owned());
        if let Some(why) = several.or_else(|| refusal(schema, attribute)) {
            return Err(Error::unsupported(format!(
                "filter bitsort {why}: libtiledb cannot have kept the coordinates of the cells"
            ))
            .with("attribute", &attribute.name));
        }
        let dimensions = schema.dimensions.iter();
        Ok(Some(Self {
            value_bytes: attribute.datatype.size(),
            dimensions: dimensions.map(|d| (d.name.clone(), d.datatype)).collect(),
            order: GlobalOrder::new(schema)?,
            bare,
        }))
    }

    /// Whether the tiles of the field have neither chunks nor filters.
    pub fn is_bare(&self) -> bool {
        self.bare
    }

    /// About how many bytes it takes to compute the order of a tile.
    pub fn order_bytes(&self, cells: usize) -> usize {
        cells.saturating_mul(self.dimensions.len().saturating_mul(24).saturating_add(64))
    }

    /// The order of the `cells` cells of a tile, by the stored tiles of all dimensions.
    pub fn order(
        &self,
        coordinates: &[Bytes],
        cells: usize,
        duplicates: EqualCells,
    ) -> Result<CellOrder> {
        if cells.saturating_mul(self.value_bytes) > CHUNK_BYTES {
            return Err(Error::unsupported(format!(
                "filter bitsort on a tile of {cells} cells: libtiledb kept only the coordinates of tiles up to {} cells",
                CHUNK_BYTES / self.value_bytes.max(1)
            )));
        }
        let mut keys = Vec::with_capacity(coordinates.len());
        for ((name, datatype), stored) in self.dimensions.iter().zip(coordinates) {
            keys.push(coordinate_keys(*datatype, stored, cells).context("dimension", || name)?);
        }
        Ok(CellOrder::new(&self.order, &keys, cells, duplicates))
    }
}

/// Why the coordinates of fragments with this schema are lost, if they are.
fn refusal(schema: &ArraySchema, attribute: &Attribute) -> Option<String> {
    let no_number = |d: &Dimension| d.is_var() || !key::has_key(d.datatype);
    if schema.is_dense() {
        return Some("in a dense array".to_owned());
    }
    if schema.dimensions.iter().any(no_number) {
        return Some("beside dimensions of strings".to_owned());
    }
    if attribute.nullable || attribute.cell_val_num != CellValNum::Fixed(1) {
        return Some("on an attribute that has not one value in each cell".to_owned());
    }
    // A filter before bitsort that changes the number of bytes leaves no values to sort.
    let mut filters = attribute.filters.filters.iter();
    let keeps_size = |filter: &&Filter| match filter {
        Filter::None
        | Filter::ByteShuffle
        | Filter::BitShuffle
        | Filter::Xor
        | Filter::PositiveDelta
        | Filter::Md5
        | Filter::Sha256 => true,
        Filter::ScaleFloat { byte_width, .. } => {
            usize::try_from(*byte_width).is_ok_and(|width| width == attribute.datatype.size())
        }
        _ => false,
    };
    let first = filters.find(|filter| !keeps_size(filter))?;
    if *first != Filter::Bitsort {
        return Some(format!("behind filter {first}"));
    }
    let twice = filters.any(|filter| *filter == Filter::Bitsort);
    twice.then(|| "twice on an attribute".to_owned())
}

fn coordinate_keys(datatype: Datatype, stored: &[u8], cells: usize) -> Result<Vec<u64>> {
    let expected = cells.saturating_mul(datatype.size());
    if stored.len() != expected {
        return Err(Error::corrupt(format!(
            "a tile beside filter bitsort has {} bytes, expected {expected} for {cells} cells",
            stored.len()
        )));
    }
    let mut keys = Vec::with_capacity(cells);
    key::keys(datatype, stored, &mut keys)?;
    Ok(keys)
}

/// Which cells of a tile cannot be distinguished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EqualCells {
    /// None that matter: only coordinates and sorted values are read, and these were moved together.
    Harmless,
    /// Cells with the same coordinates.
    SameCoordinates,
    /// In a Hilbert array, also cells with the same Hilbert value: consolidation left them in any order.
    SameHilbertValue,
}

/// The permutation that restores the cells of a tile to the global order.
#[derive(Debug)]
pub struct CellOrder {
    positions: Vec<u32>,
    /// Runs of cells that cannot be distinguished.
    duplicates: Vec<Range<usize>>,
}

impl CellOrder {
    fn new(
        order: &GlobalOrder,
        dimensions: &[Vec<u64>],
        cells: usize,
        duplicates: EqualCells,
    ) -> Self {
        let mut sorted = Vec::with_capacity(cells);
        let mut cell = Vec::with_capacity(dimensions.len());
        for position in (0_u32..).take(cells) {
            cell.clear();
            let at = usize::try_from(position).unwrap_or(usize::MAX);
            cell.extend(dimensions.iter().filter_map(|keys| keys.get(at)));
            let mut key = Vec::with_capacity(2 * dimensions.len() + 1);
            order.written_key(&cell, &mut key);
            sorted.push((key, position));
        }
        sorted.sort_unstable();
        let by_hilbert_value =
            order.hilbert().is_some() && duplicates == EqualCells::SameHilbertValue;
        let mut runs = Vec::new();
        let mut start = 0;
        for run in sorted.chunk_by(|(a, _), (b, _)| {
            if by_hilbert_value {
                a.first() == b.first()
            } else {
                a == b
            }
        }) {
            let end = start + run.len();
            if run.len() > 1 && duplicates != EqualCells::Harmless {
                runs.push(start..end);
            }
            start = end;
        }
        Self {
            positions: sorted.into_iter().map(|(_, position)| position).collect(),
            duplicates: runs,
        }
    }

    /// The stored position of each cell, in global order.
    pub fn positions(&self) -> &[u32] {
        &self.positions
    }

    /// Fails if cells that cannot be distinguished have different values.
    pub fn check_duplicates(&self, values: &[u8], size: usize) -> Result<()> {
        let differ = |duplicates: &&Range<usize>| {
            let range = duplicates.start.saturating_mul(size)..duplicates.end.saturating_mul(size);
            let mut values = values.get(range).unwrap_or_default().chunks_exact(size);
            let first = values.next();
            !values.all(|value| Some(value) == first)
        };
        match self.duplicates.iter().find(differ) {
            None => Ok(()),
            Some(duplicates) => Err(Error::unsupported(format!(
                "filter bitsort on {} cells with the same coordinates: libtiledb did not keep which value belongs to which; attribute and dimensions can be read without other attributes, and those without it",
                duplicates.len()
            ))),
        }
    }
}

#[cfg(test)]
mod tests;
