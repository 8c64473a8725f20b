//! The coordinates of one cell.

use crate::geometry::coordinate::Coordinate;

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

/// A cell as the order of cells sees it.
#[derive(Debug, Clone, Default)]
pub struct Cell<'a> {
    pub coordinates: Vec<Coordinate<'a>>,
    /// Its time, if the fragment's cells have their own.
    pub time: Option<u64>,
    /// Its value on the Hilbert curve, in Hilbert arrays.
    pub hilbert: u64,
    /// Which coordinates are zeros with a sign, bit by bit.
    pub zeros: u64,
}

impl Cell<'_> {
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
    pub fn of(cell: &Cell<'_>) -> Self {
        let coordinates = cell.coordinates.iter();
        Self {
            coordinates: coordinates.map(|c| OwnedCoordinate::of(*c)).collect(),
            time: cell.time,
            hilbert: cell.hilbert,
            zeros: cell.zeros,
        }
    }

    pub fn get(&self) -> Cell<'_> {
        Cell {
            coordinates: self.coordinates.iter().map(OwnedCoordinate::get).collect(),
            time: self.time,
            hilbert: self.hilbert,
            zeros: self.zeros,
        }
    }
}
