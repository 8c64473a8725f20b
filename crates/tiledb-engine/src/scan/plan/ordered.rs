//! Units that follow each other in the order of the leading dimension.
//!
//! A tile's box bounds the coordinates of its cells in the leading dimension. Tiles whose ranges do not overlap can be
//! read one after the other; tiles whose ranges overlap form one *slab* and are read together. [`RowOrder`] sorts the
//! rows of a slab, so no slab may be large. Where the order has more terms than the leading dimension, slabs must not
//! even touch: both may have rows at the coordinate they share. Only tiles of one fragment in row-major order of all
//! cells may touch, because there each tile continues where the last one ends.

use std::ops::Range;
use std::sync::Arc;

use super::{PlanUnits, ScanPlan};
use crate::array::fragment::boxes::TileRange;
use crate::error::Result;
use crate::format::schema::{ArraySchema, CellValNum, Layout};
use crate::geometry::cell_order::GlobalOrder;
use crate::geometry::key;
use crate::geometry::key::Coordinate;
use crate::geometry::subarray::Subarray;
use crate::scan::order::RowOrder;
use crate::scan::plan::sparse_units::{CellVersions, SparseUnit, TileRef, UNIT_CELLS};

/// The most cells that are sorted at once, unless they are those of one tile.
const MOST_SLAB_CELLS: u64 = 512 * 1024;

impl ScanPlan {
    /// The same scan in units that follow each other in an order: its rows are in order once those of each unit are,
    /// and units are read from the last to the first where the order descends. A unit holds about `rows` cells, if that
    /// is less than usual. `None` if too many rows would have to be sorted at once.
    pub fn in_order(&self, order: &RowOrder, rows: Option<usize>) -> Option<Self> {
        let ty = self.spec.table.types.first()?;
        // Where invalid text is shown with replacement characters, its order differs from that of the stored bytes.
        if ty.is_lossy() && !key::has_key(ty.datatype()) {
            return None;
        }
        let all_rows = self.spec.predicate.is_none();
        let unit_cells = rows
            .filter(|_| all_rows)
            .map_or(UNIT_CELLS, |rows| UNIT_CELLS.min(rows as u64).max(1));
        // Where few rows are wanted, reading the best tiles first is better than sorting a large slab.
        let slab_cells = rows.map_or(MOST_SLAB_CELLS, |_| UNIT_CELLS);
        let units = match &self.units {
            PlanUnits::Sparse(units) => {
                PlanUnits::Sparse(self.sparse_in_order(units, order, unit_cells, slab_cells)?)
            }
            PlanUnits::Dense(dense) => {
                let slabs = dense.in_slabs(&self.spec.subarray, unit_cells, slab_cells);
                PlanUnits::Dense(Box::new(slabs?))
            }
        };
        Some(self.with_units(units))
    }

    /// Whether the rows of each unit of such a scan are stored in order: ascending by the first `dimensions`
    /// dimensions.
    pub fn is_stored_in_order(&self, dimensions: usize) -> bool {
        let schema = &self.spec.table.snapshot.schema;
        match &self.units {
            PlanUnits::Sparse(units) => {
                let goes_on = goes_on(schema, &self.spec.subarray, dimensions);
                self.boxes.iter().all(|boxes| boxes.are_in_order())
                    && goes_on.unwrap_or(false)
                    && units.iter().all(|unit| self.lies_in_order(schema, unit))
            }
            PlanUnits::Dense(dense) => {
                let row_major = dense.grid.cell_order() == Layout::RowMajor;
                let one_dimension = dense.grid.ndim() == 1;
                dense.tiles_of_slab() == Some(1) && (row_major || one_dimension)
            }
        }
    }

    /// Whether the tiles of a unit follow each other in the order in which they are read.
    fn lies_in_order(&self, schema: &ArraySchema, unit: &SparseUnit) -> bool {
        let follows = |a: &TileRef, b: &TileRef| {
            if a.fragment == b.fragment {
                return a.tile < b.tile;
            }
            let ranges = self
                .leading_range(schema, a)
                .zip(self.leading_range(schema, b));
            let apart = ranges.is_some_and(|((_, hi), (lo, _))| hi.compare(&lo).is_lt());
            a.fragment < b.fragment && apart
        };
        let mut pairs = unit.tiles.iter().zip(unit.tiles.iter().skip(1));
        unit.clip.is_none() && pairs.all(|(a, b)| follows(a, b))
    }

    fn sparse_in_order(
        &self,
        units: &[Arc<SparseUnit>],
        order: &RowOrder,
        unit_cells: u64,
        slab_cells: u64,
    ) -> Option<Vec<Arc<SparseUnit>>> {
        let schema = &self.spec.table.snapshot.schema;
        let mut pieces = Vec::new();
        for unit in units {
            // Tiles whose cells are compared with each other stay together.
            if unit.clip.is_some() || unit.versions != CellVersions::None {
                pieces.push(self.piece_of_unit(schema, unit)?);
                continue;
            }
            for tile in &unit.tiles {
                pieces.push(self.piece_of_tile(schema, *tile)?);
            }
        }
        let numbers = |piece: &OrderedPiece| match &piece.what {
            OrderedBy::Tile(tile) => (tile.fragment, tile.tile.get()),
            OrderedBy::Unit(_) => (usize::MAX, usize::MAX),
        };
        pieces.sort_unstable_by(|a, b| {
            let ranges = a.lo.compare(&b.lo).then_with(|| a.hi.compare(&b.hi));
            ranges.then_with(|| numbers(a).cmp(&numbers(b)))
        });
        let leading = schema.dimensions.first()?;
        let whole = leading.cell_val_num != CellValNum::Var && !leading.datatype.is_float();
        let touching = TouchingSlabs {
            // Zero and minus zero are one coordinate but two values, and the bounds of strings need not be values.
            allowed: whole && order.terms().len() == 1,
            // The order is by leading dimensions alone, all of them in the same direction.
            in_fragment: self.boxes.iter().all(|boxes| boxes.are_in_order())
                && ascends_by(order)
                    .is_some_and(|n| goes_on(schema, &self.spec.subarray, n).unwrap_or(false)),
        };
        let slabs = slabs(&pieces, touching);
        let mut ordered: Vec<SparseUnit> = Vec::new();
        for slab in &slabs {
            if slab.pieces.len() > 1 && slab.cells > slab_cells {
                return None;
            }
            let pieces = pieces.get(slab.pieces.clone())?;
            if let [
                OrderedPiece {
                    what: OrderedBy::Unit(unit),
                    ..
                },
            ] = pieces
            {
                ordered.push(SparseUnit::clone(unit));
                continue;
            }
            let tiles = pieces.iter().map(|piece| match &piece.what {
                OrderedBy::Tile(tile) => Some(*tile),
                OrderedBy::Unit(_) => None,
            });
            let tiles = tiles.collect::<Option<Vec<_>>>()?;
            match ordered.last_mut() {
                Some(unit)
                    if unit.clip.is_none()
                        && unit.versions == CellVersions::None
                        && unit.cells + slab.cells <= unit_cells =>
                {
                    unit.tiles.extend(tiles);
                    unit.cells += slab.cells;
                }
                _ => ordered.push(SparseUnit {
                    tiles,
                    comparison_tiles: Vec::new(),
                    clip: None,
                    within: None,
                    versions: CellVersions::None,
                    cells: slab.cells,
                }),
            }
        }
        Some(ordered.into_iter().map(Arc::new).collect())
    }

    fn piece_of_tile(&self, schema: &ArraySchema, tile: TileRef) -> Option<OrderedPiece<'_>> {
        let (lo, hi) = self.leading_range(schema, &tile)?;
        let subarray = &self.spec.subarray;
        let (lo, hi) = clipped(subarray, lo, hi);
        Some(OrderedPiece {
            lo,
            hi,
            fragment: Some(tile.fragment),
            cells: tile.cells as u64,
            what: OrderedBy::Tile(tile),
        })
    }

    /// A unit that de-duplicates its tiles as one piece; `None` for strings, whose clips have no last value.
    fn piece_of_unit(
        &self,
        schema: &ArraySchema,
        unit: &Arc<SparseUnit>,
    ) -> Option<OrderedPiece<'_>> {
        let clip = unit.clip.as_ref().unwrap_or(&self.spec.subarray);
        let ranges = unit
            .tiles
            .iter()
            .map(|tile| match self.leading_range(schema, tile)? {
                (Coordinate::Key(lo), Coordinate::Key(hi)) => Some((lo, hi)),
                _ => None,
            });
        let around = |a: Option<(u64, u64)>, b: Option<(u64, u64)>| {
            let ((a_lo, a_hi), (b_lo, b_hi)) = (a?, b?);
            Some((a_lo.min(b_lo), a_hi.max(b_hi)))
        };
        let (lo, hi) = ranges.reduce(around)??;
        let (lo, hi) = clipped(clip, Coordinate::Key(lo), Coordinate::Key(hi));
        Some(OrderedPiece {
            lo,
            hi,
            fragment: None,
            cells: unit.cells,
            what: OrderedBy::Unit(Arc::clone(unit)),
        })
    }

    fn leading_range(
        &self,
        schema: &ArraySchema,
        tile: &TileRef,
    ) -> Option<(Coordinate<'_>, Coordinate<'_>)> {
        let leading = schema.dimensions.first()?;
        let range = self.boxes.get(tile.fragment)?.range(tile.tile.get(), 0);
        match range {
            TileRange::Bytes { lo, hi } => Some((Coordinate::Bytes(lo), Coordinate::Bytes(hi))),
            _ if leading.cell_val_num == CellValNum::Var => None,
            // Cells with unknown bounds may lie anywhere.
            range => {
                let (lo, hi) = range.keys().unwrap_or((0, u64::MAX));
                Some((Coordinate::Key(lo), Coordinate::Key(hi)))
            }
        }
    }
}

/// The part of a range of keys that lies between the ends of a subarray.
fn clipped<'a>(
    subarray: &Subarray,
    lo: Coordinate<'a>,
    hi: Coordinate<'a>,
) -> (Coordinate<'a>, Coordinate<'a>) {
    let ranges = subarray.dim(0).key_ranges();
    match (lo, hi, ranges) {
        (Coordinate::Key(lo), Coordinate::Key(hi), [first, .., last] | [first @ last]) => {
            let (lo, hi) = (lo.max(first.lo), hi.min(last.hi));
            (Coordinate::Key(lo.min(hi)), Coordinate::Key(hi))
        }
        _ => (lo, hi),
    }
}

/// The number of dimensions in an order by leading dimensions, all in one direction; `None` for other orders.
fn ascends_by(order: &RowOrder) -> Option<usize> {
    let mut terms = order.terms().iter().enumerate();
    let same = |descending| descending == order.descends();
    terms
        .all(|(i, term)| term.column == i && same(term.options.descending))
        .then_some(order.terms().len())
}

/// Whether the cells of each fragment within a subarray ascend by the first `dimensions` dimensions, across tiles too.
fn goes_on(schema: &ArraySchema, subarray: &Subarray, dimensions: usize) -> Result<bool> {
    let ordered = schema.dimensions.get(..dimensions).unwrap_or_default();
    let plain = ordered.iter().all(|dimension| {
        // Strings are stored in the order of signed bytes, and zeros of either sign in any order.
        dimension.cell_val_num == CellValNum::Fixed(1) && !dimension.datatype.is_float()
    });
    if ordered.is_empty() || !plain || schema.is_dense() {
        return Ok(false);
    }
    let one_dimension = schema.dimensions.len() == 1;
    match schema.cell_order {
        Layout::RowMajor => {}
        Layout::ColMajor if one_dimension => {}
        _ => return Ok(false),
    }
    let order = GlobalOrder::new(schema)?;
    for (d, dimension) in schema.dimensions.iter().enumerate().skip(1) {
        let Some((lo, hi)) = dimension
            .domain
            .as_ref()
            .filter(|_| dimension.extent.is_some())
        else {
            continue;
        };
        if dimension.cell_val_num == CellValNum::Var {
            continue;
        }
        let (lo, hi) = (
            key::key(dimension.datatype, lo)?,
            key::key(dimension.datatype, hi)?,
        );
        let mut tiles = subarray.dim(d).clip_keys(lo, hi);
        let first = tiles.next().map(|range| (range.lo, range.hi));
        let last = tiles.next_back().map(|range| range.hi);
        if let Some((lo, hi)) = first
            && order.tile_index(d, lo) != order.tile_index(d, last.unwrap_or(hi))
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Tiles that are read together, and the range of the leading dimension around their cells.
struct OrderedPiece<'a> {
    lo: Coordinate<'a>,
    hi: Coordinate<'a>,
    /// The fragment of the tile; `None` for a unit.
    fragment: Option<usize>,
    cells: u64,
    what: OrderedBy,
}

enum OrderedBy {
    Tile(TileRef),
    Unit(Arc<SparseUnit>),
}

/// Whether the ranges of consecutive slabs may share a coordinate.
#[derive(Debug, Clone, Copy)]
struct TouchingSlabs {
    allowed: bool,
    /// Whether they may if all tiles of both slabs are of one fragment.
    in_fragment: bool,
}

/// Consecutive pieces that are read together.
#[derive(Debug)]
struct OrderedSlab<'a> {
    hi: Coordinate<'a>,
    lo: Coordinate<'a>,
    /// The fragment of all tiles, if it is only one.
    fragment: Option<usize>,
    cells: u64,
    pieces: Range<usize>,
}

impl OrderedSlab<'_> {
    /// Whether all rows of this slab come before those of another, whose range begins no earlier.
    fn precedes(&self, next: &Self, touching: TouchingSlabs) -> bool {
        let same = self.fragment.is_some() && self.fragment == next.fragment;
        match self.hi.compare(&next.lo) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => touching.allowed || (touching.in_fragment && same),
            std::cmp::Ordering::Greater => false,
        }
    }

    fn join(&mut self, next: Self) {
        if self.hi.compare(&next.hi).is_lt() {
            self.hi = next.hi;
        }
        if self.fragment != next.fragment {
            self.fragment = None;
        }
        self.cells = self.cells.saturating_add(next.cells);
        self.pieces.end = next.pieces.end;
    }
}

/// Groups ascending pieces into the smallest possible slabs.
fn slabs<'a>(pieces: &[OrderedPiece<'a>], touching: TouchingSlabs) -> Vec<OrderedSlab<'a>> {
    let mut slabs: Vec<OrderedSlab<'a>> = Vec::new();
    for (i, piece) in pieces.iter().enumerate() {
        let mut slab = OrderedSlab {
            lo: piece.lo,
            hi: piece.hi,
            fragment: piece.fragment,
            cells: piece.cells,
            pieces: i..i + 1,
        };
        while let Some(mut before) = slabs.pop_if(|before| !before.precedes(&slab, touching)) {
            before.join(slab);
            slab = before;
        }
        slabs.push(slab);
    }
    slabs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::fragment::TileIdx;

    const STRICT: TouchingSlabs = TouchingSlabs {
        allowed: false,
        in_fragment: false,
    };
    const ALLOWED: TouchingSlabs = TouchingSlabs {
        allowed: true,
        in_fragment: false,
    };
    const IN_FRAGMENT: TouchingSlabs = TouchingSlabs {
        allowed: false,
        in_fragment: true,
    };

    /// The slabs of tiles, each tile given as (fragment, range).
    fn slabs_of(tiles: &[(usize, u64, u64)], touching: TouchingSlabs) -> Vec<(usize, usize)> {
        let piece = |(i, (fragment, lo, hi)): (usize, &(usize, u64, u64))| OrderedPiece {
            lo: Coordinate::Key(*lo),
            hi: Coordinate::Key(*hi),
            fragment: Some(*fragment),
            cells: 10,
            what: OrderedBy::Tile(TileRef {
                fragment: *fragment,
                tile: TileIdx(i as u64),
                cells: 10,
                covered: true,
                no_deletes: true,
                proven: false,
            }),
        };
        let pieces = tiles.iter().enumerate().map(piece).collect::<Vec<_>>();
        let slabs = slabs(&pieces, touching);
        assert_eq!(
            slabs.iter().map(|s| s.cells).sum::<u64>(),
            10 * tiles.len() as u64
        );
        let ends = slabs.into_iter().map(|s| (s.pieces.start, s.pieces.end));
        ends.collect()
    }

    #[test]
    fn tiles_whose_ranges_overlap_are_one_slab() {
        let tiles = [
            (0, 0, 9),
            (0, 10, 25),
            (1, 20, 21),
            (1, 22, 30),
            (0, 31, 40),
        ];
        for touching in [STRICT, ALLOWED, IN_FRAGMENT] {
            assert_eq!(slabs_of(&tiles, touching), [(0, 1), (1, 4), (4, 5)]);
        }
        // One long tile spans many short ones.
        let tiles = [(0, 0, 90), (1, 1, 2), (1, 3, 4), (1, 91, 95)];
        assert_eq!(slabs_of(&tiles, ALLOWED), [(0, 3), (3, 4)]);
    }

    #[test]
    fn slabs_touch_where_the_coordinate_between_them_tells_no_rows_apart() {
        let tiles = [(0, 0, 5), (0, 5, 5), (0, 5, 9), (1, 9, 12)];
        assert_eq!(slabs_of(&tiles, ALLOWED), [(0, 1), (1, 2), (2, 3), (3, 4)]);
        assert_eq!(slabs_of(&tiles, STRICT), [(0, 4)]);
    }

    #[test]
    fn tiles_of_one_fragment_go_on_where_the_last_one_ends() {
        let tiles = [(0, 0, 5), (0, 5, 5), (0, 5, 9), (1, 10, 12)];
        assert_eq!(
            slabs_of(&tiles, IN_FRAGMENT),
            [(0, 1), (1, 2), (2, 3), (3, 4)]
        );
        // The other fragment has rows at the coordinate that both tiles share, and continues there itself.
        let tiles = [(0, 0, 5), (0, 5, 5), (1, 5, 9), (1, 9, 12)];
        assert_eq!(slabs_of(&tiles, IN_FRAGMENT), [(0, 4)]);
    }
}
