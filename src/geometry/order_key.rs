//! Numbers by which cells can be sorted into global order.
//!
//! The index of a cell's space tile and its coordinates are packed into as few 64-bit numbers as they fit in; a cell of most
//! arrays has one. String dimensions are sorted by themselves, between these numbers. The subtle thing: within a space tile, a
//! coordinate is known by its distance from the tile's first one, which takes fewer bits.

use crate::error::Result;
use crate::format::schema::{ArraySchema, Dimension, Layout};
use crate::geometry::cell_order::GlobalOrder;
use crate::geometry::coordinate::Coordinate;
use crate::geometry::key;

const NUMBER_BITS: u32 = u64::BITS;

/// What the cells of an array are sorted by: the first column decides, then the second, and so on.
#[derive(Debug, Clone)]
pub struct OrderKeys {
    order: GlobalOrder,
    ranges: Vec<Option<(u64, u64)>>,
    columns: Vec<KeyColumn>,
}

/// A column to sort by, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyColumn {
    /// The strings of a dimension, by their bytes.
    Strings(usize),
    /// Numbers that [`OrderKeys::numbers`] computes.
    Numbers(Vec<Part>),
}

/// A part of a number, in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    source: Source,
    bits: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// The place on the Hilbert curve.
    Hilbert,
    /// The index of the space tile in a dimension.
    Tile(usize),
    /// The distance from the start of the space tile in a dimension.
    InTile { dimension: usize, extent: u64 },
    /// The distance from the start of the domain in a dimension.
    InDomain(usize),
}

impl OrderKeys {
    /// The keys of the cells of `schema`.
    ///
    /// # Errors
    /// The domain is damaged.
    pub fn new(schema: &ArraySchema) -> Result<Self> {
        let order = GlobalOrder::new(schema)?;
        let ranges = schema
            .dimensions
            .iter()
            .map(domain_keys)
            .collect::<Result<Vec<_>>>()?;
        let all = || 0..schema.dimensions.len();
        let mut parts = Vec::new();
        match order.hilbert() {
            Some(_) => parts.push((Source::Hilbert, NUMBER_BITS)),
            None => {
                let tiles = all().map(|d| {
                    let hi = ranges.get(d).copied().flatten().map_or(0, |(_, hi)| hi);
                    (Source::Tile(d), bits_of(order.tile_index(d, hi)))
                });
                let tiles = tiles.filter(|(_, bits)| *bits > 0);
                extend_in(schema.tile_order, tiles, &mut parts);
            }
        }
        let hilbert = order.hilbert().is_some();
        let coordinates = all().map(|d| {
            let dimension = schema.dimensions.get(d);
            let extent = dimension
                .and_then(Dimension::extent_steps)
                .filter(|_| !hilbert);
            match (ranges.get(d).copied().flatten(), extent) {
                (None, _) => (Source::InDomain(d), None),
                (Some((lo, hi)), Some(extent)) if extent > 0 && extent <= hi - lo => {
                    let dimension = d;
                    let source = Source::InTile { dimension, extent };
                    (source, Some(bits_of(extent - 1)))
                }
                (Some((lo, hi)), _) => (Source::InDomain(d), Some(bits_of(hi - lo))),
            }
        });
        let mut columns = pack(parts.into_iter().map(|(source, bits)| (source, Some(bits))));
        let mut of_cells = Vec::new();
        extend_in(schema.cell_order, coordinates, &mut of_cells);
        append_packed(&mut columns, of_cells.into_iter());
        Ok(Self {
            order,
            ranges,
            columns,
        })
    }

    /// The columns to sort by.
    pub fn columns(&self) -> &[KeyColumn] {
        &self.columns
    }

    /// The numbers of one column for each cell. `coordinates` has the keys of each fixed-size dimension, and `at` gives any
    /// coordinate of a cell. Cells outside the domain get numbers of its edge.
    pub fn numbers<'a>(
        &self,
        parts: &[Part],
        cells: usize,
        at: impl Fn(usize, usize) -> Coordinate<'a>,
    ) -> Vec<u64> {
        let mut numbers = vec![0_u64; cells];
        let mut scratch = Vec::new();
        for Part { source, bits } in parts {
            for (cell, number) in numbers.iter_mut().enumerate() {
                let value = match *source {
                    Source::Hilbert => self.order.hilbert().map_or(0, |hilbert| {
                        let cell = (0..self.ranges.len()).map(|dim| at(dim, cell));
                        hilbert.value(cell, &mut scratch)
                    }),
                    Source::Tile(dim) => {
                        self.order.tile_index(dim, self.clamped(dim, at(dim, cell)))
                    }
                    Source::InTile { dimension, extent } => {
                        self.distance(dimension, at(dimension, cell)) % extent
                    }
                    Source::InDomain(dim) => self.distance(dim, at(dim, cell)),
                };
                *number = number.checked_shl(*bits).unwrap_or(0) | value;
            }
        }
        numbers
    }

    /// The key of a coordinate, or that of the domain's edge.
    fn clamped(&self, dim: usize, coordinate: Coordinate<'_>) -> u64 {
        match (coordinate, self.ranges.get(dim)) {
            (Coordinate::Key(key), Some(Some((lo, hi)))) => key.clamp(*lo, *hi),
            _ => 0,
        }
    }

    fn distance(&self, dim: usize, coordinate: Coordinate<'_>) -> u64 {
        let lo = self
            .ranges
            .get(dim)
            .copied()
            .flatten()
            .map_or(0, |(lo, _)| lo);
        self.clamped(dim, coordinate).saturating_sub(lo)
    }
}

/// The keys of the ends of a domain; `None` for strings, which have none.
fn domain_keys(dimension: &Dimension) -> Result<Option<(u64, u64)>> {
    let Some((lo, hi)) = &dimension.domain else {
        return Ok(None);
    };
    let datatype = dimension.datatype;
    let (lo, hi) = (key::key(datatype, lo)?, key::key(datatype, hi)?);
    Ok(Some((lo.min(hi), hi)))
}

fn bits_of(largest: u64) -> u32 {
    NUMBER_BITS - largest.leading_zeros()
}

fn extend_in<T>(layout: Layout, items: impl DoubleEndedIterator<Item = T>, out: &mut Vec<T>) {
    match layout {
        Layout::ColMajor => out.extend(items.rev()),
        _ => out.extend(items),
    }
}

fn pack(parts: impl Iterator<Item = (Source, Option<u32>)>) -> Vec<KeyColumn> {
    let mut columns = Vec::new();
    append_packed(&mut columns, parts);
    columns
}

/// Appends parts, of which those without bits are strings.
fn append_packed(columns: &mut Vec<KeyColumn>, parts: impl Iterator<Item = (Source, Option<u32>)>) {
    for (source, bits) in parts {
        let Some(bits) = bits else {
            if let Source::InDomain(dim) = source {
                columns.push(KeyColumn::Strings(dim));
            }
            continue;
        };
        let part = Part { source, bits };
        match columns.last_mut() {
            Some(KeyColumn::Numbers(packed))
                if packed.iter().map(|part| part.bits).sum::<u32>() + bits <= NUMBER_BITS =>
            {
                packed.push(part);
            }
            _ => columns.push(KeyColumn::Numbers(vec![part])),
        }
    }
}

#[cfg(test)]
mod tests;
