//! The global order of cells (specification: "Cell order", "Tile order").
//!
//! First the space tiles in tile order, then the coordinates in cell order; dimensions without an extent, and all
//! strings, take no part in the first. Hilbert arrays compare Hilbert values first, ties by dimension. The subtle
//! thing: libtiledb up to 2.30 *wrote* strings in the order of signed bytes, so a reader must not assume that
//! stored strings with bytes from 0x80 on come in this order.

use std::cmp::Ordering;

use crate::error::Result;
use crate::format::datatype::Datatype;
use crate::format::schema::{ArraySchema, Dimension, Layout};

use super::hilbert::Hilbert;
use super::key::{self, Native};

/// One coordinate of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coordinate<'a> {
    /// Of a fixed-size dimension.
    Key(u64),
    /// Of a string dimension.
    Bytes(&'a [u8]),
}

impl Coordinate<'_> {
    /// Compares coordinates of one dimension: keys by number, strings by unsigned bytes.
    #[inline]
    pub fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Key(a), Self::Key(b)) => a.cmp(b),
            (Self::Bytes(a), Self::Bytes(b)) => a.cmp(b),
            (Self::Key(_), Self::Bytes(_)) => Ordering::Less,
            (Self::Bytes(_), Self::Key(_)) => Ordering::Greater,
        }
    }
}

/// How a dimension's values fall into space tiles.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Tiling {
    /// No part in the tile order.
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
        let hilbert = matches!(schema.cell_order, Layout::Hilbert)
            .then(|| Hilbert::new(schema))
            .transpose()?;
        Ok(Self {
            tilings: schema
                .dimensions
                .iter()
                .map(Tiling::new)
                .collect::<Result<_>>()?,
            tile_order: schema.tile_order,
            cell_order: schema.cell_order,
            hilbert,
        })
    }

    /// The curve, in a Hilbert array: there, sort by its value first and then by [`Self::compare_cells`].
    pub fn hilbert(&self) -> Option<&Hilbert> {
        self.hilbert.as_ref()
    }

    /// The index of the space tile of `key` in dimension `dim`; 0 where the dimension is not tiled.
    #[inline]
    pub fn tile_index(&self, dim: usize, key: u64) -> u64 {
        self.tilings.get(dim).map_or(0, |tiling| tiling.index(key))
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ROW: Layout = Layout::RowMajor;
    const COL: Layout = Layout::ColMajor;

    fn order(tile_order: Layout, cell_order: Layout) -> GlobalOrder {
        let tiling = Tiling::Integer { lo: 1, extent: 2 };
        GlobalOrder {
            tilings: vec![tiling; 2],
            tile_order,
            cell_order,
            hilbert: None,
        }
    }

    fn sorted(order: &GlobalOrder) -> Vec<[u64; 2]> {
        let mut cells: Vec<[u64; 2]> = (1..=4).flat_map(|a| (1..=4).map(move |b| [a, b])).collect();
        cells.sort_by(|a, b| order.compare_keys(a, b));
        cells
    }

    #[test]
    fn tiles_come_first_then_cells() {
        let head = |t, c| sorted(&order(t, c))[..6].to_vec();
        assert_eq!(
            head(ROW, ROW),
            [[1, 1], [1, 2], [2, 1], [2, 2], [1, 3], [1, 4]]
        );
        assert_eq!(
            head(ROW, COL),
            [[1, 1], [2, 1], [1, 2], [2, 2], [1, 3], [2, 3]]
        );
        assert_eq!(
            head(COL, ROW),
            [[1, 1], [1, 2], [2, 1], [2, 2], [3, 1], [3, 2]]
        );
        assert_eq!(
            head(COL, COL),
            [[1, 1], [2, 1], [1, 2], [2, 2], [3, 1], [4, 1]]
        );
    }

    #[test]
    fn strings_and_untiled_dimensions_only_count_within_a_tile() {
        let order = GlobalOrder {
            tilings: vec![
                Tiling::Untiled,
                Tiling::Float64 {
                    lo: -1.0,
                    extent: 0.5,
                },
            ],
            tile_order: ROW,
            cell_order: ROW,
            hilbert: None,
        };
        let compare = |a: (&[u8], f64), b: (&[u8], f64)| {
            order.compare(|dim| match dim {
                0 => (Coordinate::Bytes(a.0), Coordinate::Bytes(b.0)),
                _ => (Coordinate::Key(a.1.to_key()), Coordinate::Key(b.1.to_key())),
            })
        };
        assert_eq!(compare((b"z", -1.0), (b"a", -0.5)), Ordering::Less);
        assert_eq!(compare((b"z", -1.0), (b"a", -0.6)), Ordering::Greater);
        assert_eq!(compare((b"a", -0.6), (b"a\0", -1.0)), Ordering::Less);
        assert_eq!(compare((b"a", -0.6), (b"a", -0.6)), Ordering::Equal);
        assert_eq!(compare((b"\x80", 0.0), (b"a", 0.0)), Ordering::Greater);
    }

    proptest! {
        #[test]
        fn the_order_is_total(
            cells in prop::collection::vec([0u64..9, 0u64..9], 3), tile_col: bool, cell_col: bool
        ) {
            let pick = |col| if col { COL } else { ROW };
            let order = order(pick(tile_col), pick(cell_col));
            let compare = |i: usize, j: usize| order.compare_keys(&cells[i], &cells[j]);
            prop_assert_eq!(compare(0, 1), compare(1, 0).reverse());
            prop_assert_eq!(compare(0, 1).is_eq(), cells[0] == cells[1]);
            if compare(0, 1).is_le() && compare(1, 2).is_le() {
                prop_assert!(compare(0, 2).is_le());
            }
        }
    }
}
