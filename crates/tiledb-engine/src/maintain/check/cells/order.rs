//! The order of the cells of a sparse fragment: global or Hilbert order, each cell once, newest first.
//!
//! What libtiledb does otherwise is allowed: up to 2.30 it writes strings in the order of signed bytes, and up to 2.14
//! cells with one Hilbert value by their last dimension first. NaN has no place in any order, and leaves the rest in any.

use std::cmp::Ordering;

use super::TileProblem;
use crate::array::fragment::Fragment;
use crate::error::Result;
use crate::format::datatype::Datatype;
use crate::format::schema::ArraySchema;
use crate::geometry::cell_order::GlobalOrder;
use crate::geometry::key::Coordinate;
use crate::geometry::key::{NativeKey, nan_key, show};
use crate::maintain::check::rule::Rule;

/// Until this version, cells of one Hilbert value are ordered by their last dimension first.
const HILBERT_TIES_SINCE: u32 = 18;
/// Before this version, dimensions of floats are not tiled, whatever their extents.
const FLOATS_TILED_SINCE: u32 = 5;
/// Before this version, Hilbert values were computed otherwise.
const HILBERT_SINCE: u32 = 9;

/// The order that the cells of a fragment have.
#[derive(Debug)]
pub struct OrderRule {
    order: GlobalOrder,
    datatypes: Vec<Datatype>,
    nan: Vec<Option<u64>>,
    allows_duplicates: bool,
    loose_ties: bool,
}

/// How a cell follows another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OrderVerdict {
    Fine,
    /// In order if strings are compared by signed bytes.
    Signed,
    Wrong,
    /// Two cells that follow each other have the same coordinates.
    Twice,
    /// Two cells have the same coordinates, and the older one comes first.
    OlderFirst,
}

impl OrderRule {
    /// The order of a fragment; `None` if it cannot be checked.
    pub fn new(fragment: &Fragment) -> Result<Option<Self>> {
        let (schema, version) = (&fragment.schema, fragment.footer.version);
        let order = if version.since(FLOATS_TILED_SINCE) {
            GlobalOrder::new(schema)?
        } else {
            without_float_tiles(schema)?
        };
        if order.hilbert().is_some() && !version.since(HILBERT_SINCE) {
            return Ok(None);
        }
        let datatypes = fragment.dimension_datatypes();
        Ok(Some(Self {
            nan: datatypes.iter().map(|d| nan_key(*d)).collect(),
            datatypes,
            allows_duplicates: schema.allows_duplicates,
            loose_ties: !version.since(HILBERT_TIES_SINCE),
            order,
        }))
    }

    /// Adds the Hilbert value to a cell of a Hilbert array.
    pub fn complete(&self, cell: &mut OrderedCell<'_>, scratch: &mut Vec<u64>) {
        if let Some(hilbert) = self.order.hilbert() {
            cell.hilbert = hilbert.value(cell.coordinates.iter().copied(), scratch);
        }
    }

    /// Which coordinates are zeros with a sign, which their keys do not show: a bit for each of the first dimensions.
    pub fn zeros(&self, cell: &OrderedCell<'_>, is_negative: impl Fn(usize) -> bool) -> u64 {
        let floats = self.nan.iter().zip(&cell.coordinates).take(64).enumerate();
        let zeros = floats.filter(|(d, (nan, coordinate))| {
            let zero = key_of_zero(self.datatypes.get(*d).copied());
            nan.is_some() && **coordinate == zero && is_negative(*d)
        });
        zeros.fold(0, |bits, (d, _)| bits | 1_u64 << d)
    }

    /// Whether a coordinate of the cell is NaN.
    pub fn has_nan(&self, cell: &OrderedCell<'_>) -> bool {
        let nan = self.nan.iter().zip(&cell.coordinates);
        nan.into_iter()
            .any(|(nan, coordinate)| match (nan, coordinate) {
                (Some(nan), Coordinate::Key(key)) => nan == key,
                _ => false,
            })
    }

    /// Compares a cell with the one behind it, and returns the problem, if there is one.
    pub fn pair(&self, a: &OrderedCell<'_>, b: &OrderedCell<'_>, tile: u64) -> Option<TileProblem> {
        let (rule, expected) = match self.verdict(a, b) {
            OrderVerdict::Fine => return None,
            OrderVerdict::Signed => (
                Rule::SignedStringOrder,
                "strings in the order of their bytes",
            ),
            OrderVerdict::Wrong => (Rule::CellOrder, "cells in the global order of the array"),
            OrderVerdict::Twice => (
                Rule::DuplicateCells,
                "each cell once, as the array allows no duplicates",
            ),
            OrderVerdict::OlderFirst => (Rule::CellOrder, "the newest version of a cell first"),
        };
        let found = format!("{} before {}", self.show(a), self.show(b));
        Some(TileProblem {
            rule,
            field: None,
            tile,
            found,
            expected: expected.to_owned(),
        })
    }

    fn verdict(&self, a: &OrderedCell<'_>, b: &OrderedCell<'_>) -> OrderVerdict {
        match self.compare(a, b, false) {
            Ordering::Less => OrderVerdict::Fine,
            // Zeros of either sign are different coordinates, in any order.
            Ordering::Equal if self.allows_duplicates || a.zeros != b.zeros => OrderVerdict::Fine,
            Ordering::Equal => match (a.time, b.time) {
                (Some(a), Some(b)) if a >= b => OrderVerdict::Fine,
                (Some(_), Some(_)) => OrderVerdict::OlderFirst,
                _ => OrderVerdict::Twice,
            },
            Ordering::Greater if self.may_be_signed(a, b) => match self.compare(a, b, true) {
                Ordering::Greater => OrderVerdict::Wrong,
                _ => OrderVerdict::Signed,
            },
            Ordering::Greater if self.is_loose_tie(a, b) => OrderVerdict::Fine,
            Ordering::Greater => OrderVerdict::Wrong,
        }
    }

    fn compare(&self, a: &OrderedCell<'_>, b: &OrderedCell<'_>, signed: bool) -> Ordering {
        let hilbert = a.hilbert.cmp(&b.hilbert);
        if signed {
            let (a, b) = (flipped(a), flipped(b));
            return self.compare_at(hilbert, |d| (a.at(d), b.at(d)));
        }
        self.compare_at(hilbert, |d| (a.coordinate(d), b.coordinate(d)))
    }

    fn compare_at<'c>(
        &self,
        hilbert: Ordering,
        pair: impl Fn(usize) -> (Coordinate<'c>, Coordinate<'c>),
    ) -> Ordering {
        let first = match self.order.hilbert() {
            Some(_) => hilbert,
            None => self.order.compare_tiles(&pair),
        };
        first.then_with(|| self.order.compare_cells(&pair))
    }

    /// Whether bytes from 0x80 on are in strings.
    fn may_be_signed(&self, a: &OrderedCell<'_>, b: &OrderedCell<'_>) -> bool {
        let high = |c: &Coordinate<'_>| match c {
            Coordinate::Bytes(bytes) => !bytes.is_ascii(),
            Coordinate::Key(_) => false,
        };
        a.coordinates.iter().chain(&b.coordinates).any(high)
    }

    fn is_loose_tie(&self, a: &OrderedCell<'_>, b: &OrderedCell<'_>) -> bool {
        self.loose_ties && self.order.hilbert().is_some() && a.hilbert == b.hilbert
    }

    fn show(&self, cell: &OrderedCell<'_>) -> String {
        let shown = self
            .datatypes
            .iter()
            .zip(&cell.coordinates)
            .map(|(datatype, coordinate)| match coordinate {
                Coordinate::Key(key) => show(*datatype, *key),
                Coordinate::Bytes(bytes) => {
                    const SHOWN_BYTES: usize = 40;
                    let bytes = bytes.get(..SHOWN_BYTES).unwrap_or(bytes);
                    format!("{:?}", String::from_utf8_lossy(bytes))
                }
            });
        let coordinates = shown.collect::<Vec<_>>().join(", ");
        match cell.time {
            Some(time) => format!("({coordinates}) of time {time}"),
            None => format!("({coordinates})"),
        }
    }
}

fn key_of_zero(datatype: Option<Datatype>) -> Coordinate<'static> {
    match datatype {
        Some(Datatype::Float32) => Coordinate::Key(0_f32.to_key()),
        _ => Coordinate::Key(0_f64.to_key()),
    }
}

/// The order of an array whose dimensions of floats are not tiled.
fn without_float_tiles(schema: &ArraySchema) -> Result<GlobalOrder> {
    let mut dimensions = schema.dimensions.clone();
    for dimension in dimensions.iter_mut().filter(|d| d.datatype.is_float()) {
        dimension.extent = None;
    }
    GlobalOrder::of_dimensions(&dimensions, schema.tile_order, schema.cell_order)
}

/// A cell whose strings compare as signed bytes.
struct SignedBytesCell<'a> {
    strings: Vec<Option<Vec<u8>>>,
    cell: &'a OrderedCell<'a>,
}

impl SignedBytesCell<'_> {
    fn at(&self, dimension: usize) -> Coordinate<'_> {
        match self.strings.get(dimension) {
            Some(Some(bytes)) => Coordinate::Bytes(bytes),
            _ => self.cell.coordinate(dimension),
        }
    }
}

fn flipped<'a>(cell: &'a OrderedCell<'a>) -> SignedBytesCell<'a> {
    let strings = cell.coordinates.iter().map(|coordinate| match coordinate {
        Coordinate::Bytes(bytes) => Some(bytes.iter().map(|byte| byte ^ 0x80).collect()),
        Coordinate::Key(_) => None,
    });
    SignedBytesCell {
        strings: strings.collect(),
        cell,
    }
}

/// A coordinate that outlives its tile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnedCoordinate {
    Key(u64),
    Bytes(Vec<u8>),
}

impl OwnedCoordinate {
    pub fn of(coordinate: Coordinate<'_>) -> Self {
        match coordinate {
            Coordinate::Key(key) => Self::Key(key),
            Coordinate::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
        }
    }

    pub fn get(&self) -> Coordinate<'_> {
        match self {
            Self::Key(key) => Coordinate::Key(*key),
            Self::Bytes(bytes) => Coordinate::Bytes(bytes),
        }
    }
}

/// A cell as it is compared with others.
#[derive(Debug, Clone, Default)]
pub struct OrderedCell<'a> {
    pub coordinates: Vec<Coordinate<'a>>,
    /// Its time, if the fragment's cells have their own.
    pub time: Option<u64>,
    /// Its value on the Hilbert curve, in Hilbert arrays.
    pub hilbert: u64,
    /// Which coordinates are zeros with a sign, bit by bit.
    pub zeros: u64,
}

impl OrderedCell<'_> {
    pub fn coordinate(&self, dimension: usize) -> Coordinate<'_> {
        let coordinate = self.coordinates.get(dimension).copied();
        coordinate.unwrap_or(Coordinate::Key(0))
    }
}

/// A cell that outlives its tile.
#[derive(Debug, Clone)]
pub struct OwnedCell {
    coordinates: Vec<OwnedCoordinate>,
    time: Option<u64>,
    hilbert: u64,
    zeros: u64,
}

impl OwnedCell {
    pub fn of(cell: &OrderedCell<'_>) -> Self {
        let coordinates = cell.coordinates.iter();
        Self {
            coordinates: coordinates.map(|c| OwnedCoordinate::of(*c)).collect(),
            time: cell.time,
            hilbert: cell.hilbert,
            zeros: cell.zeros,
        }
    }

    pub fn get(&self) -> OrderedCell<'_> {
        OrderedCell {
            coordinates: self.coordinates.iter().map(OwnedCoordinate::get).collect(),
            time: self.time,
            hilbert: self.hilbert,
            zeros: self.zeros,
        }
    }
}

/// The first and the last cell of neighbouring tiles.
#[derive(Debug)]
pub struct CellChain {
    pub tile: u64,
    pub first: OwnedCell,
    pub last: OwnedCell,
    /// Whether a coordinate is NaN.
    pub nan: bool,
}

impl CellChain {
    /// Whether the next tile begins where this one ends.
    pub fn follows(&self, next: &Self, rule: &OrderRule) -> Option<TileProblem> {
        if self.tile.checked_add(1) != Some(next.tile) {
            return None;
        }
        rule.pair(&self.last.get(), &next.first.get(), next.tile)
    }

    /// Both, as seen by the tile behind them.
    pub fn joined(before: Option<Self>, next: Self) -> Self {
        let nan = before.is_some_and(|before| before.nan) || next.nan;
        Self { nan, ..next }
    }
}
