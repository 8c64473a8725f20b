//! The order in which the cells of inputs follow each other: global order, and the versions of one cell newest first.
//!
//! Cells are compared by packed numbers ([`OrderKeys`]), strings by themselves. The subtle thing: these numbers are equal for
//! cells outside the domain and at its edge, so only the coordinates, which have no `-0.0`, decide whether two cells *are the
//! same*.

use std::cmp::Ordering;

use super::tile::{InputTile, TileColumn, TileKeys};
use crate::array::fragment::boxes::TileRange;
use crate::error::{Error, Result};
use crate::format::datatype::Datatype;
use crate::format::schema::{ArraySchema, Layout};
use crate::geometry::key;
use crate::geometry::key::Coordinate;
use crate::geometry::order_key::{KeyColumn, OrderKeys};
use crate::maintain::column::DecodedColumn;

/// The order of the cells of an array.
#[derive(Debug)]
pub(in crate::maintain::consolidate) struct MergeOrder {
    keys: OrderKeys,
    datatypes: Vec<Datatype>,
    names: Vec<String>,
    hilbert: bool,
}

/// A lower bound of the cells of a tile.
#[derive(Debug, Clone, Default)]
pub(in crate::maintain::consolidate) struct LowerCellBound {
    columns: Vec<BoundColumn>,
}

#[derive(Debug, Clone)]
enum BoundColumn {
    Number(u64),
    Bytes(Vec<u8>),
}

/// A cell of a tile, by its place in the order of the merge.
#[derive(Debug, Clone, Copy)]
pub(in crate::maintain::consolidate) struct MergeCell<'a> {
    /// The tile.
    pub tile: &'a InputTile,
    /// The place.
    pub place: usize,
}

impl MergeOrder {
    /// The order of the cells of arrays with this schema.
    pub(in crate::maintain::consolidate) fn new(schema: &ArraySchema) -> Result<Self> {
        Ok(Self {
            keys: OrderKeys::new(schema)?,
            datatypes: schema.dimensions.iter().map(|d| d.datatype).collect(),
            names: schema.dimensions.iter().map(|d| d.name.clone()).collect(),
            hilbert: schema.cell_order == Layout::Hilbert,
        })
    }

    /// The keys of the cells of a tile, whose first columns are the dimensions.
    pub(super) fn keys(&self, columns: &[TileColumn], cells: usize) -> Result<TileKeys> {
        let mut axes = Vec::with_capacity(self.datatypes.len());
        for (d, datatype) in self.datatypes.iter().enumerate() {
            let Some(TileColumn::Stored(column)) = columns.get(d) else {
                return Err(Error::internal("a dimension was not decoded"));
            };
            axes.push(match column.fixed() {
                Some(bytes) => OrderAxis::Keys(self.axis_keys(d, *datatype, bytes)?),
                None => OrderAxis::Strings(column),
            });
        }
        let at = |dim: usize, cell: usize| match axes.get(dim) {
            Some(OrderAxis::Keys(keys)) => Coordinate::Key(keys.get(cell).copied().unwrap_or(0)),
            Some(OrderAxis::Strings(column)) => Coordinate::Bytes(column.cell(cell)),
            None => Coordinate::Key(0),
        };
        let keys = |dim: usize| match axes.get(dim) {
            Some(OrderAxis::Keys(keys)) => Some(keys.as_slice()),
            _ => None,
        };
        let numbers = self
            .keys
            .columns()
            .iter()
            .filter_map(|column| match column {
                KeyColumn::Numbers(parts) => Some(self.keys.numbers(parts, cells, keys, at)),
                KeyColumn::Strings(_) => None,
            });
        Ok(TileKeys {
            numbers: numbers.collect(),
        })
    }

    fn axis_keys(&self, d: usize, datatype: Datatype, bytes: &[u8]) -> Result<Vec<u64>> {
        let mut keys = Vec::with_capacity(bytes.len() / datatype.size().max(1));
        key::keys(datatype, bytes, &mut keys)?;
        if let Some(nan) = key::nan_key(datatype)
            && let Some(cell) = keys.iter().position(|key| *key == nan)
        {
            let name = self.names.get(d).map_or("", String::as_str);
            return Err(Error::unsupported(format!(
                "cell {cell} has NaN as its coordinate, which has no place in the order of cells, so the fragment \
                 cannot be merged with others: delete such cells, or name the other fragments"
            ))
            .with("dimension", name));
        }
        Ok(keys)
    }

    /// A lower bound of the cells whose coordinates lie in these ranges.
    pub(super) fn bound<'a>(&self, range: impl Fn(usize) -> TileRange<'a>) -> LowerCellBound {
        let ranges = (0..self.datatypes.len()).map(&range).collect::<Vec<_>>();
        let low = |dim: usize, _: usize| match (ranges.get(dim), self.datatypes.get(dim)) {
            (Some(TileRange::Keys { lo, nan: None, .. }), _) => Coordinate::Key(*lo),
            (Some(TileRange::Bytes { lo, .. }), _) => Coordinate::Bytes(lo),
            (_, Some(datatype)) if key::has_key(*datatype) => Coordinate::Key(0),
            _ => Coordinate::Bytes(&[]),
        };
        let lows = (0..ranges.len())
            .map(|dim| match low(dim, 0) {
                Coordinate::Key(key) => Some([key]),
                Coordinate::Bytes(_) => None,
            })
            .collect::<Vec<_>>();
        let keys = |dim: usize| lows.get(dim)?.as_ref().map(<[u64; 1]>::as_slice);
        let columns = self.keys.columns().iter().enumerate();
        let columns = columns.map(|(i, column)| match column {
            // A curve may enter a box anywhere.
            KeyColumn::Numbers(_) if self.hilbert && i == 0 => BoundColumn::Number(0),
            KeyColumn::Numbers(parts) => {
                let numbers = self.keys.numbers(parts, 1, keys, low);
                BoundColumn::Number(numbers.first().copied().unwrap_or(0))
            }
            KeyColumn::Strings(dim) => BoundColumn::Bytes(match low(*dim, 0) {
                Coordinate::Bytes(bytes) => bytes.to_vec(),
                Coordinate::Key(_) => Vec::new(),
            }),
        });
        LowerCellBound {
            columns: columns.collect(),
        }
    }

    /// Compares the places of two cells in global order.
    pub(super) fn compare(&self, a: MergeCell<'_>, b: MergeCell<'_>) -> Ordering {
        let (x, y) = (a.tile.stored(a.place), b.tile.stored(b.place));
        let mut number = 0;
        for column in self.keys.columns() {
            let order = match column {
                KeyColumn::Numbers(_) => {
                    let of = |tile: &InputTile, cell| tile.keys.number(number, cell);
                    let order = of(a.tile, x).cmp(&of(b.tile, y));
                    number += 1;
                    order
                }
                KeyColumn::Strings(d) => string(a.tile, *d, x).cmp(string(b.tile, *d, y)),
            };
            if order.is_ne() {
                return order;
            }
        }
        Ordering::Equal
    }

    /// As [`Self::compare`]; versions of one cell come newest first.
    pub(super) fn compare_versions(&self, a: MergeCell<'_>, b: MergeCell<'_>) -> Ordering {
        self.compare(a, b).then_with(|| {
            let time = |cell: MergeCell<'_>| cell.tile.written.number(cell.tile.stored(cell.place));
            time(b).cmp(&time(a))
        })
    }

    /// Compares a lower bound with a cell.
    pub(super) fn compare_bound(&self, bound: &LowerCellBound, cell: MergeCell<'_>) -> Ordering {
        let stored = cell.tile.stored(cell.place);
        let mut number = 0;
        for (column, bound) in self.keys.columns().iter().zip(&bound.columns) {
            let order = match (column, bound) {
                (KeyColumn::Numbers(_), BoundColumn::Number(bound)) => {
                    let order = bound.cmp(&cell.tile.keys.number(number, stored));
                    number += 1;
                    order
                }
                (KeyColumn::Strings(d), BoundColumn::Bytes(bound)) => {
                    bound.as_slice().cmp(string(cell.tile, *d, stored))
                }
                _ => Ordering::Less,
            };
            if order.is_ne() {
                return order;
            }
        }
        Ordering::Equal
    }

    /// Whether two cells have the same coordinates, bit by bit.
    pub(super) fn same_cell(&self, a: MergeCell<'_>, b: MergeCell<'_>) -> bool {
        let (x, y) = (a.tile.stored(a.place), b.tile.stored(b.place));
        (0..self.datatypes.len()).all(|d| string(a.tile, d, x) == string(b.tile, d, y))
    }

    /// The order of the cells of a tile, if they are stored in another order.
    pub(super) fn sort(&self, tile: &InputTile) -> Option<Vec<u32>> {
        let cell = |place: usize| MergeCell { tile, place };
        let in_order = |i: usize| self.compare_versions(cell(i - 1), cell(i)).is_le();
        if (1..tile.cells).all(in_order) {
            return None;
        }
        let count = u32::try_from(tile.cells).unwrap_or(u32::MAX);
        let mut sorted = (0..count).collect::<Vec<_>>();
        sorted.sort_by(|a, b| self.compare_versions(cell(*a as usize), cell(*b as usize)));
        Some(sorted)
    }
}

impl LowerCellBound {
    /// Compares bounds of one order.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let columns = self.columns.iter().zip(&other.columns);
        let orders = columns.map(|(a, b)| match (a, b) {
            (BoundColumn::Number(a), BoundColumn::Number(b)) => a.cmp(b),
            (BoundColumn::Bytes(a), BoundColumn::Bytes(b)) => a.cmp(b),
            _ => Ordering::Equal,
        });
        orders.fold(Ordering::Equal, Ordering::then)
    }

    /// The first number; 0 if strings come first.
    pub(super) fn head(&self) -> u64 {
        match self.columns.first() {
            Some(BoundColumn::Number(number)) => *number,
            _ => 0,
        }
    }
}

impl MergeOrder {
    /// The first number of a cell; 0 if strings come first.
    #[inline]
    pub(super) fn head(&self, cell: MergeCell<'_>) -> u64 {
        match self.keys.columns().first() {
            Some(KeyColumn::Numbers(_)) => cell.tile.keys.number(0, cell.tile.stored(cell.place)),
            _ => 0,
        }
    }
}

/// The coordinates of a dimension, ready to compare.
enum OrderAxis<'a> {
    Keys(Vec<u64>),
    Strings(&'a DecodedColumn),
}

/// The bytes of a stored cell in a dimension.
fn string(tile: &InputTile, d: usize, cell: usize) -> &[u8] {
    match tile.columns.get(d) {
        Some(TileColumn::Stored(column)) => column.cell(cell),
        _ => &[],
    }
}
