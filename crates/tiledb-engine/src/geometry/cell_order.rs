//! The global order of cells (specification: "Cell order", "Tile order").
//!
//! Cells are ordered by space tile in tile order, then by coordinates in cell order; dimensions without an extent, and
//! all strings, are not tiled. Hilbert arrays compare Hilbert values first, ties by dimension. The subtle thing:
//! libtiledb up to 2.30 *wrote* strings in the order of signed bytes, so a reader must not assume that stored strings
//! with bytes from 0x80 on come in this order.

use std::cmp::Ordering;

use crate::error::Result;
use crate::format::datatype::Datatype;
use crate::format::schema::{ArraySchema, Dimension, Layout};

use crate::geometry::hilbert::Hilbert;
use crate::geometry::key::Coordinate;
use crate::geometry::key::{self, NativeKey};

/// How the values of a dimension are divided into space tiles.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Tiling {
    /// The dimension is not tiled.
    Untiled,
    Integer {
        lo: u64,
        extent: u64,
    },
    Float32 {
        lo: f32,
        extent: f32,
    },
    Float64 {
        lo: f64,
        extent: f64,
    },
}

impl Tiling {
    fn new(dimension: &Dimension) -> Result<Self> {
        let datatype = dimension.datatype;
        let (Some((lo, _)), Some(extent)) = (&dimension.domain, &dimension.extent) else {
            return Ok(Self::Untiled);
        };
        if !key::has_key(datatype) {
            return Ok(Self::Untiled);
        }
        let lo = key::key(datatype, lo)?;
        Ok(match datatype {
            Datatype::Float32 => Self::Float32 {
                lo: f32::from_key(lo),
                extent: f32::from_key(key::key(datatype, extent)?),
            },
            Datatype::Float64 => Self::Float64 {
                lo: f64::from_key(lo),
                extent: f64::from_key(key::key(datatype, extent)?),
            },
            _ => match key::extent(datatype, extent) {
                None | Some(0) => Self::Untiled,
                Some(extent) => Self::Integer { lo, extent },
            },
        })
    }

    /// The key itself, or that of infinity for keys above it, which aren't numbers.
    #[inline]
    fn number(self, key: u64) -> u64 {
        match self {
            Self::Float32 { .. } => key.min(f32::INFINITY.to_key()),
            Self::Float64 { .. } => key.min(f64::INFINITY.to_key()),
            Self::Untiled | Self::Integer { .. } => key,
        }
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the format says: truncated; a value outside the domain saturates"
    )]
    fn index(self, key: u64) -> u64 {
        match self {
            Self::Untiled => 0,
            Self::Integer { lo, extent } => key.saturating_sub(lo) / extent,
            Self::Float32 { lo, extent } => ((f32::from_key(key) - lo) / extent) as u64,
            Self::Float64 { lo, extent } => ((f64::from_key(key) - lo) / extent) as u64,
        }
    }
}

/// Compares cells of one schema in its global order.
#[derive(Debug, Clone)]
pub struct GlobalOrder {
    tilings: Vec<Tiling>,
    tile_order: Layout,
    cell_order: Layout,
    hilbert: Option<Hilbert>,
}

impl GlobalOrder {
    /// The global order of `schema`.
    pub fn new(schema: &ArraySchema) -> Result<Self> {
        Self::of_dimensions(&schema.dimensions, schema.tile_order, schema.cell_order)
    }

    /// The global order of an array with these dimensions.
    pub fn of_dimensions(
        dimensions: &[Dimension],
        tile_order: Layout,
        cell_order: Layout,
    ) -> Result<Self> {
        let hilbert = matches!(cell_order, Layout::Hilbert)
            .then(|| Hilbert::new(dimensions))
            .transpose()?;
        Ok(Self {
            tilings: dimensions.iter().map(Tiling::new).collect::<Result<_>>()?,
            tile_order,
            cell_order,
            hilbert,
        })
    }

    /// The order of space tiles.
    pub fn tile_order(&self) -> Layout {
        self.tile_order
    }

    /// The order of cells within a space tile.
    pub fn cell_order(&self) -> Layout {
        self.cell_order
    }

    /// The Hilbert curve of a Hilbert array: its cells are sorted by their value on it, then by
    /// [`Self::compare_cells`].
    pub fn hilbert(&self) -> Option<&Hilbert> {
        self.hilbert.as_ref()
    }

    /// The index of the space tile of `key` in dimension `dim`; 0 if the dimension is not tiled. It never decreases
    /// with the key: a range without an upper end ends in NaN, whose key follows all tiles.
    #[inline]
    pub fn tile_index(&self, dim: usize, key: u64) -> u64 {
        let tiling = self.tilings.get(dim);
        tiling.map_or(0, |tiling| tiling.index(tiling.number(key)))
    }

    /// The smallest and the largest key of the space tile with this index, if a division yields them; `None` if the dimension has
    /// floating-point numbers or no tiles.
    pub fn keys_of_tile(&self, dim: usize, index: u64) -> Option<(u64, u64)> {
        let Tiling::Integer { lo, extent } = *self.tilings.get(dim)? else {
            return None;
        };
        let first = lo.checked_add(index.checked_mul(extent)?)?;
        Some((first, first.saturating_add(extent - 1)))
    }

    /// Compares two cells, given the pair of their coordinates in a dimension. In a Hilbert array this computes
    /// both Hilbert values each time: precompute them where many cells are compared.
    pub fn compare<'a>(&self, at: impl Fn(usize) -> (Coordinate<'a>, Coordinate<'a>)) -> Ordering {
        if let Some(hilbert) = &self.hilbert {
            let mut scratch = Vec::with_capacity(self.tilings.len());
            let a = hilbert.value((0..self.tilings.len()).map(|d| at(d).0), &mut scratch);
            let b = hilbert.value((0..self.tilings.len()).map(|d| at(d).1), &mut scratch);
            return a.cmp(&b).then_with(|| self.compare_cells(&at));
        }
        self.compare_tiles(&at)
            .then_with(|| self.compare_cells(&at))
    }

    /// Compares two cells whose dimensions are all of fixed size.
    pub fn compare_keys(&self, a: &[u64], b: &[u64]) -> Ordering {
        let key = |cell: &[u64], dim: usize| Coordinate::Key(cell.get(dim).copied().unwrap_or(0));
        self.compare(|dim| (key(a, dim), key(b, dim)))
    }

    /// Appends the numbers by which libtiledb up to 2.14 sorted cells in writing, equally many for every cell; all
    /// dimensions are of fixed size. Their lexicographic order is the global order, except that cells with the same
    /// Hilbert value, the first number, are ordered by their last dimension first.
    pub fn written_key(&self, cell: &[u64], out: &mut Vec<u64>) {
        match &self.hilbert {
            Some(hilbert) => {
                let coordinates = cell.iter().map(|key| Coordinate::Key(*key));
                out.push(hilbert.value(coordinates, &mut Vec::with_capacity(cell.len())));
            }
            None => {
                let tiles = self
                    .tilings
                    .iter()
                    .zip(cell)
                    .map(|(tiling, key)| tiling.index(*key));
                extend_in(self.tile_order, tiles, out);
            }
        }
        extend_in(self.cell_order, cell.iter().copied(), out);
    }

    /// Compares the space tiles of two cells.
    pub fn compare_tiles<'a>(
        &self,
        at: &impl Fn(usize) -> (Coordinate<'a>, Coordinate<'a>),
    ) -> Ordering {
        let compare = |(dim, tiling): (usize, &Tiling)| match (tiling, at(dim)) {
            (Tiling::Untiled, _) => Ordering::Equal,
            (tiling, (Coordinate::Key(a), Coordinate::Key(b))) => {
                tiling.index(a).cmp(&tiling.index(b))
            }
            _ => Ordering::Equal,
        };
        let mut tilings = self.tilings.iter().enumerate().map(compare);
        first_difference(&mut tilings, self.tile_order)
    }

    /// Compares the coordinates of two cells in cell order, whatever their tiles (Hilbert: dimension 0 first).
    pub fn compare_cells<'a>(
        &self,
        at: &impl Fn(usize) -> (Coordinate<'a>, Coordinate<'a>),
    ) -> Ordering {
        let compare = |dim| {
            let (a, b) = at(dim);
            a.compare(&b)
        };
        first_difference(&mut (0..self.tilings.len()).map(compare), self.cell_order)
    }
}

/// Appends the numbers of the dimensions, the most significant first.
fn extend_in(layout: Layout, numbers: impl DoubleEndedIterator<Item = u64>, out: &mut Vec<u64>) {
    match layout {
        Layout::RowMajor => out.extend(numbers),
        _ => out.extend(numbers.rev()),
    }
}

fn first_difference(
    orders: &mut impl DoubleEndedIterator<Item = Ordering>,
    layout: Layout,
) -> Ordering {
    let differ = |order: &Ordering| order.is_ne();
    let found = match layout {
        Layout::ColMajor => orders.rfind(differ),
        _ => orders.find(differ),
    };
    found.unwrap_or(Ordering::Equal)
}

#[cfg(test)]
mod tests;
