//! The grid of space tiles of a dense array (specification: "Tile extents"; numbering of a dense fragment's tiles).
//!
//! Tile indexes are `(key - key of the domain's low end) / extent`. A tile at the domain's edge has all its cells on
//! storage, so its box may extend beyond the domain, even beyond the type. The subtle thing: a fragment numbers its
//! tiles over *its own* box of tiles, in tile order; see [`TileBox::position`].

use crate::error::{Error, Result};
use crate::format::schema::{ArraySchema, Layout};

use crate::geometry::domain::KeyBox;
use crate::geometry::key;

/// The space tiles of a dense array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TileGrid {
    domain: KeyBox,
    extents: Vec<u64>,
    cells_per_tile: u64,
    tile_order: Layout,
    cell_order: Layout,
}

impl TileGrid {
    /// The grid of a dense array's schema.
    pub fn new(schema: &ArraySchema) -> Result<Self> {
        let mut lo = Vec::with_capacity(schema.dimensions.len());
        let mut hi = Vec::with_capacity(schema.dimensions.len());
        let mut extents = Vec::with_capacity(schema.dimensions.len());
        for dimension in &schema.dimensions {
            let missing = |what: &str| {
                Error::corrupt(format!(
                    "a dense array's dimension of type {} has no {what}",
                    dimension.datatype
                ))
                .with("dimension", &dimension.name)
            };
            let (low, high) = dimension.domain.as_ref().ok_or_else(|| missing("domain"))?;
            let extent = dimension
                .extent
                .as_ref()
                .ok_or_else(|| missing("tile extent"))?;
            lo.push(key::key(dimension.datatype, low)?);
            hi.push(key::key(dimension.datatype, high)?);
            extents.push(
                key::extent(dimension.datatype, extent)
                    .ok_or_else(|| missing("integer tile extent"))?,
            );
        }
        let domain = KeyBox::new(lo, hi)
            .ok_or_else(|| Error::corrupt("the domain's low end is above its high end"))?;
        Self::from_parts(domain, extents, schema.tile_order, schema.cell_order)
    }

    /// A grid with these properties.
    pub fn from_parts(
        domain: KeyBox,
        extents: Vec<u64>,
        tile_order: Layout,
        cell_order: Layout,
    ) -> Result<Self> {
        if domain.ndim() == 0 || extents.len() != domain.ndim() || extents.contains(&0) {
            return Err(Error::corrupt(format!(
                "tile extents are {extents:?} for {} dimension(s), expected one above 0 for each",
                domain.ndim()
            )));
        }
        if matches!(cell_order, Layout::Hilbert) || matches!(tile_order, Layout::Hilbert) {
            return Err(Error::corrupt(
                "a dense array has Hilbert order, expected row-major or col-major",
            ));
        }
        let cells_per_tile = extents
            .iter()
            .fold(1u64, |cells, extent| cells.saturating_mul(*extent));
        Ok(Self {
            domain,
            extents,
            cells_per_tile,
            tile_order,
            cell_order,
        })
    }

    /// Number of dimensions.
    pub fn ndim(&self) -> usize {
        self.extents.len()
    }

    /// The domain.
    pub fn domain(&self) -> &KeyBox {
        &self.domain
    }

    /// The extent of a tile in each dimension.
    pub fn extents(&self) -> &[u64] {
        &self.extents
    }

    /// The order of tiles.
    pub fn tile_order(&self) -> Layout {
        self.tile_order
    }

    /// The order of cells in a tile.
    pub fn cell_order(&self) -> Layout {
        self.cell_order
    }

    /// The number of cells in every tile, including tiles at the edge of the domain. The number is capped at the largest `u64`,
    /// because nobody can have written a larger tile.
    pub fn cells_per_tile(&self) -> u64 {
        self.cells_per_tile
    }

    /// Per dimension the number of cells from one value to the next, in the stored order of a tile.
    pub fn strides(&self) -> Vec<u64> {
        strides(&self.extents, self.cell_order)
    }

    /// The index of the tile that holds `key` in dimension `dim`; a key below the domain belongs to the first tile.
    pub fn tile_of(&self, dim: usize, key: u64) -> u64 {
        match (self.domain.lo().get(dim), self.extents.get(dim)) {
            (Some(lo), Some(extent)) => key.saturating_sub(*lo) / extent,
            _ => 0,
        }
    }

    /// The tiles that hold a cell of `cells`.
    pub fn tiles_of_box(&self, cells: &KeyBox) -> TileBox {
        let index = |(dim, key): (usize, &u64)| self.tile_of(dim, *key);
        TileBox {
            lo: cells.lo().iter().enumerate().map(index).collect(),
            hi: cells.hi().iter().enumerate().map(index).collect(),
            order: self.tile_order,
        }
    }

    /// All cells of a tile at full extents; may extend beyond the domain, and ends at the largest key.
    pub fn tile_box(&self, tile: &[u64]) -> KeyBox {
        let lo = self.tile_lo(tile);
        let hi = lo
            .iter()
            .zip(&self.extents)
            .map(|(lo, extent)| lo.saturating_add(extent - 1))
            .collect();
        // `hi` is never below `lo`, so the fallback is never used.
        KeyBox::new(lo, hi).unwrap_or_else(|| self.domain.clone())
    }

    /// The first cell of a tile, as [`crate::geometry::box_runs::BoxRuns`] takes it.
    pub fn tile_lo(&self, tile: &[u64]) -> Vec<u64> {
        let start = |((lo, extent), index): ((&u64, &u64), &u64)| {
            lo.saturating_add(index.saturating_mul(*extent))
        };
        self.domain
            .lo()
            .iter()
            .zip(&self.extents)
            .zip(tile)
            .map(start)
            .collect()
    }
}

/// An inclusive box of tile indexes, numbered in tile order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TileBox {
    lo: Vec<u64>,
    hi: Vec<u64>,
    order: Layout,
}

impl TileBox {
    /// The first index of each dimension.
    pub fn lo(&self) -> &[u64] {
        &self.lo
    }

    /// The last index of each dimension.
    pub fn hi(&self) -> &[u64] {
        &self.hi
    }

    /// Number of tiles, if it fits in a `u64`.
    pub fn count(&self) -> Option<u64> {
        self.sides()
            .try_fold(1u64, |count, (_, side)| count.checked_mul(side?))
    }

    /// Whether the tile is one of the box.
    pub fn contains(&self, tile: &[u64]) -> bool {
        tile.len() == self.lo.len()
            && tile
                .iter()
                .zip(self.lo.iter().zip(&self.hi))
                .all(|(t, (lo, hi))| lo <= t && t <= hi)
    }

    /// The tiles in both boxes.
    pub fn intersect(&self, other: &Self) -> Option<Self> {
        let lo: Vec<u64> = self
            .lo
            .iter()
            .zip(&other.lo)
            .map(|(a, b)| *a.max(b))
            .collect();
        let hi: Vec<u64> = self
            .hi
            .iter()
            .zip(&other.hi)
            .map(|(a, b)| *a.min(b))
            .collect();
        let some = lo.len() == self.lo.len() && lo.iter().zip(&hi).all(|(lo, hi)| lo <= hi);
        some.then_some(Self {
            lo,
            hi,
            order: self.order,
        })
    }

    /// The number of a tile in this box, in tile order; `None` outside the box.
    pub fn position(&self, tile: &[u64]) -> Option<u64> {
        if !self.contains(tile) {
            return None;
        }
        let offsets = tile.iter().zip(&self.lo).map(|(t, lo)| t - lo);
        let step = |at: u64, ((_, side), offset): ((u64, Option<u64>), u64)| {
            at.checked_mul(side?)?.checked_add(offset)
        };
        match self.order {
            Layout::ColMajor => self.sides().zip(offsets).rev().try_fold(0, step),
            _ => self.sides().zip(offsets).try_fold(0, step),
        }
    }

    /// The tile with a number: the inverse of [`Self::position`].
    pub fn tile_at(&self, position: u64) -> Option<Vec<u64>> {
        let mut rest = position;
        let mut tile = self.lo.clone();
        let mut locate = |(t, (_, side)): (&mut u64, (u64, Option<u64>))| match side {
            Some(side) => {
                *t += rest % side;
                rest /= side;
            }
            None => {
                *t += rest;
                rest = 0;
            }
        };
        match self.order {
            Layout::ColMajor => tile.iter_mut().zip(self.sides()).for_each(&mut locate),
            _ => tile
                .iter_mut()
                .zip(self.sides())
                .rev()
                .for_each(&mut locate),
        }
        (rest == 0).then_some(tile)
    }

    /// The tiles in tile order.
    pub fn iter(&self) -> TileIter<'_> {
        TileIter {
            tiles: self,
            next: Some(self.lo.clone()),
        }
    }

    /// Advances `tile` in tile order; after the last tile, returns `false` and goes back to the first.
    pub fn advance(&self, tile: &mut [u64]) -> bool {
        let mut step = |(t, (lo, hi)): (&mut u64, (&u64, &u64))| {
            let carry = *t >= *hi;
            *t = if carry { *lo } else { *t + 1 };
            !carry
        };
        let mut axes = tile.iter_mut().zip(self.lo.iter().zip(&self.hi));
        match self.order {
            Layout::ColMajor => axes.any(&mut step),
            _ => axes.rev().any(&mut step),
        }
    }

    /// Per dimension the first index, and the number of indexes (`None`: 2^64).
    fn sides(&self) -> impl DoubleEndedIterator<Item = (u64, Option<u64>)> + ExactSizeIterator {
        self.lo
            .iter()
            .zip(&self.hi)
            .map(|(lo, hi)| (*lo, (hi - lo).checked_add(1)))
    }
}

impl<'a> IntoIterator for &'a TileBox {
    type Item = Vec<u64>;
    type IntoIter = TileIter<'a>;
    fn into_iter(self) -> TileIter<'a> {
        self.iter()
    }
}

/// The tiles of a [`TileBox`] in tile order.
#[derive(Debug, Clone)]
pub struct TileIter<'a> {
    tiles: &'a TileBox,
    next: Option<Vec<u64>>,
}

impl Iterator for TileIter<'_> {
    type Item = Vec<u64>;

    fn next(&mut self) -> Option<Vec<u64>> {
        let current = self.next.take()?;
        let mut following = current.clone();
        if self.tiles.advance(&mut following) {
            self.next = Some(following);
        }
        Some(current)
    }
}

/// Per dimension the number of cells from one value to the next, in a box of these sides whose cells are stored in an order.
pub fn strides(sides: &[u64], cell_order: Layout) -> Vec<u64> {
    let mut strides = vec![1; sides.len()];
    let mut stride = 1_u64;
    let mut step = |(slot, side): (&mut u64, &u64)| {
        *slot = stride;
        stride = stride.saturating_mul(*side);
    };
    let slots = strides.iter_mut().zip(sides);
    match cell_order {
        Layout::ColMajor => slots.for_each(&mut step),
        _ => slots.rev().for_each(&mut step),
    }
    strides
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::geometry::key::NativeKey;

    fn grid(lo: &[i64], hi: &[i64], extents: &[u64], order: Layout) -> TileGrid {
        let keys = |v: &[i64]| v.iter().map(|x| x.to_key()).collect();
        let domain = KeyBox::new(keys(lo), keys(hi)).unwrap();
        TileGrid::from_parts(domain, extents.to_vec(), order, Layout::RowMajor).unwrap()
    }

    fn order() -> impl Strategy<Value = Layout> {
        prop_oneof![Just(Layout::RowMajor), Just(Layout::ColMajor)]
    }

    #[test]
    fn indexes_on_a_domain_wider_than_half_the_type() {
        let g = grid(&[i64::MIN], &[i64::MAX - 10], &[10], Layout::RowMajor);
        assert_eq!(g.tile_of(0, i64::MIN.to_key()), 0);
        assert_eq!(g.tile_of(0, (i64::MIN + 10).to_key()), 1);
        assert_eq!(g.tile_of(0, 0i64.to_key()), (1 << 63) / 10);
        let last = g.tile_of(0, i64::MAX.to_key());
        let cells = g.tile_box(&[last]);
        assert_eq!(cells.range(0), Some((last * 10, u64::MAX)));
    }

    #[test]
    fn numbering_follows_the_tile_order() {
        let cells =
            KeyBox::new(vec![0i64.to_key(); 2], vec![3i64.to_key(), 5i64.to_key()]).unwrap();
        for (order, expected) in [
            (
                Layout::RowMajor,
                [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]],
            ),
            (
                Layout::ColMajor,
                [[0, 0], [1, 0], [0, 1], [1, 1], [0, 2], [1, 2]],
            ),
        ] {
            let g = grid(&[0, 0], &[9, 9], &[2, 2], order);
            let tiles = g.tiles_of_box(&cells);
            assert_eq!(tiles.iter().collect::<Vec<_>>(), expected.map(Vec::from));
            assert_eq!(g.cells_per_tile(), 4);
        }
    }

    #[test]
    fn impossible_grids_are_refused() {
        let domain = || KeyBox::new(vec![0; 2], vec![9; 2]).unwrap();
        let (row, hilbert) = (Layout::RowMajor, Layout::Hilbert);
        assert!(TileGrid::from_parts(domain(), vec![0, 1], row, row).is_err());
        assert!(TileGrid::from_parts(domain(), vec![1], row, row).is_err());
        // An array whose tiles are too large to be written must be empty.
        let large = TileGrid::from_parts(domain(), vec![1 << 32; 2], row, row).unwrap();
        assert_eq!(large.cells_per_tile(), u64::MAX);
        assert!(TileGrid::from_parts(domain(), vec![1; 2], row, hilbert).is_err());
    }

    proptest! {
        #[test]
        fn every_cell_is_in_its_tile_and_numbers_are_dense(
            a in (-9i64..9, 0i64..9), b in (-9i64..9, 0i64..9), extents in prop::collection::vec(1u64..5, 2), order in order()
        ) {
            let g = grid(&[-9, -9], &[18, 18], &extents, order);
            let lo = vec![a.0.to_key(), b.0.to_key()];
            let hi = vec![(a.0 + a.1).to_key(), (b.0 + b.1).to_key()];
            let cells = KeyBox::new(lo, hi).unwrap();
            let tiles = g.tiles_of_box(&cells);
            let beside = [tiles.hi()[0] + 1, 0];
            let all: Vec<_> = tiles.iter().collect();
            prop_assert_eq!(tiles.count(), Some(all.len() as u64));
            for (i, tile) in all.iter().enumerate() {
                prop_assert_eq!(tiles.position(tile), Some(i as u64));
                prop_assert_eq!(tiles.tile_at(i as u64), Some(tile.clone()));
                prop_assert!(g.tile_box(tile).intersects(&cells));
                prop_assert_eq!(g.tile_box(tile).cells(), Some(g.cells_per_tile()));
            }
            prop_assert_eq!(tiles.tile_at(all.len() as u64), None);
            prop_assert_eq!(tiles.position(&beside), None);
            for x in a.0..=a.0 + a.1 {
                for y in b.0..=b.0 + b.1 {
                    let cell = [x.to_key(), y.to_key()];
                    let tile = [g.tile_of(0, cell[0]), g.tile_of(1, cell[1])];
                    prop_assert!(g.tile_box(&tile).contains_cell(&cell));
                    prop_assert!(tiles.contains(&tile));
                }
            }
        }
    }
}
