//! Checks every cell before it is written: it must lie inside the domain and the current domain, follow in global order and, if
//! the array forbids duplicates, be the only one with its coordinates.

use std::cmp::Ordering;

use arrow::array::ArrayRef;

use crate::arrow::{CellWriter, RefusedValue, StoredCells};
use crate::error::{Error, Result};
use crate::format::datatype::Datatype;
use crate::format::schema::{ArraySchema, Dimension};
use crate::geometry::cell_order::GlobalOrder;
use crate::geometry::domain::DimensionExtent;
use crate::geometry::key;
use crate::geometry::key::Coordinate;

/// Checks cells, batch by batch, in the order in which they are written.
#[derive(Debug)]
pub struct CellChecker {
    dimensions: Vec<CheckedDimension>,
    order: GlobalOrder,
    allows_duplicates: bool,
    last: Option<Vec<CheckedCoordinate>>,
    /// The number of the last cell, if that is known.
    last_number: Option<u64>,
}

#[derive(Debug)]
struct CheckedDimension {
    name: String,
    datatype: Datatype,
    domain: Option<DimensionExtent>,
    current: Option<DimensionExtent>,
    /// The tiles of a dense array that end within the type, if any tile doesn't.
    whole_tiles: Option<DimensionExtent>,
}

/// The tiles of a dense array that end within the type; `None` if all tiles do.
fn whole_tiles(dimension: &Dimension) -> Option<DimensionExtent> {
    let datatype = dimension.datatype;
    let (lo, hi) = dimension.domain.as_ref()?;
    let (lo, hi) = (key::key(datatype, lo).ok()?, key::key(datatype, hi).ok()?);
    let extent = u128::from(key::extent(datatype, dimension.extent.as_ref()?)?).max(1);
    let room = u128::from(key::max_key(datatype).checked_sub(lo)?) + 1;
    let cells = u64::try_from(room / extent * extent).ok()?;
    let last = lo.checked_add(cells.checked_sub(1)?)?;
    (last < hi).then_some(DimensionExtent::Keys { lo, hi: last })
}

/// A coordinate of the last cell of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CheckedCoordinate {
    Key(u64),
    Bytes(Vec<u8>),
}

/// The coordinates of a batch in one dimension.
#[derive(Debug)]
pub enum BatchCoordinates {
    /// Keys of a fixed-size dimension.
    Keys(Vec<u64>),
    /// Strings.
    Strings(StoredCells),
}

impl BatchCoordinates {
    fn len(&self) -> usize {
        match self {
            Self::Keys(keys) => keys.len(),
            Self::Strings(cells) => cells.len,
        }
    }

    /// The keys of a fixed-size dimension.
    pub fn keys(&self) -> Option<&[u64]> {
        match self {
            Self::Keys(keys) => Some(keys),
            Self::Strings(_) => None,
        }
    }

    /// The coordinate of a cell.
    pub fn at(&self, cell: usize) -> Coordinate<'_> {
        match self {
            Self::Keys(keys) => Coordinate::Key(keys.get(cell).copied().unwrap_or(0)),
            Self::Strings(cells) => Coordinate::Bytes(cells.cell(cell, 0)),
        }
    }
}

/// The coordinates of rows whose first columns are the dimensions.
///
/// # Errors
/// A coordinate cannot be stored; the error names its row in the batch and its dimension.
pub fn coordinates(
    dimensions: &[Dimension],
    writers: &[CellWriter],
    columns: &[ArrayRef],
) -> Result<Vec<BatchCoordinates>> {
    let sources = writers.iter().zip(columns).zip(dimensions);
    let coordinates = sources.map(|((writer, column), dimension)| {
        let named = |refused: RefusedValue| {
            let error = refused.why.with("row", refused.row);
            error.with("dimension", &dimension.name)
        };
        let datatype = dimension.datatype;
        if !key::has_key(datatype) {
            let mut cells = writer.no_cells();
            writer.append(column, &mut cells).map_err(named)?;
            return Ok(BatchCoordinates::Strings(cells));
        }
        let mut keys = Vec::with_capacity(column.len());
        let stored = writer.with_stored(column, |bytes| key::keys(datatype, bytes, &mut keys));
        stored.map_err(named)??;
        Ok(BatchCoordinates::Keys(keys))
    });
    coordinates.collect()
}

impl CheckedCoordinate {
    fn of(coordinate: Coordinate<'_>) -> Self {
        match coordinate {
            Coordinate::Key(key) => Self::Key(key),
            Coordinate::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
        }
    }

    fn borrowed(&self) -> Coordinate<'_> {
        match self {
            Self::Key(key) => Coordinate::Key(*key),
            Self::Bytes(bytes) => Coordinate::Bytes(bytes),
        }
    }
}

impl CellChecker {
    /// Checks for cells of `schema`.
    ///
    /// # Errors
    /// The domain is damaged.
    pub fn new(schema: &ArraySchema) -> Result<Self> {
        let current = schema.current_domain.as_ref();
        let dimensions = schema.dimensions.iter().enumerate().map(|(i, dimension)| {
            let datatype = dimension.datatype;
            let domain = dimension.domain.as_ref().map(|(lo, hi)| {
                Ok::<_, Error>(DimensionExtent::Keys {
                    lo: key::key(datatype, lo)?,
                    hi: key::key(datatype, hi)?,
                })
            });
            let current = current
                .and_then(|current| current.ranges.get(i))
                .map(|range| DimensionExtent::from_range(datatype, range));
            Ok(CheckedDimension {
                name: dimension.name.clone(),
                datatype,
                domain: domain.transpose()?,
                current: current.transpose()?,
                whole_tiles: schema.is_dense().then(|| whole_tiles(dimension)).flatten(),
            })
        });
        Ok(Self {
            dimensions: dimensions.collect::<Result<_>>()?,
            order: GlobalOrder::new(schema)?,
            allows_duplicates: schema.allows_duplicates,
            last: None,
            last_number: None,
        })
    }

    /// Checks the next cells, by their coordinates in each dimension. `numbers` are the numbers that the cells are sorted by,
    /// if each cell of the domain has its own.
    ///
    /// # Errors
    /// A cell lies outside, or another one has its coordinates.
    pub fn check(&mut self, cells: &[BatchCoordinates], numbers: Option<&[u64]>) -> Result<()> {
        self.check_bounds(cells)?;
        let count = cells.first().map_or(0, BatchCoordinates::len);
        if !self.grow(numbers, count) {
            self.check_orders(cells, count)?;
        }
        if let Some(last) = count.checked_sub(1) {
            let last = cells
                .iter()
                .map(|of_dim| CheckedCoordinate::of(of_dim.at(last)));
            self.last = Some(last.collect());
        }
        Ok(())
    }

    /// Whether the numbers of the next cells show that these are in order and differ from each other.
    fn grow(&mut self, numbers: Option<&[u64]>, count: usize) -> bool {
        let numbers = numbers.filter(|numbers| numbers.len() == count);
        let is_first = self.last.is_none();
        let before = self.last_number.take();
        let Some((first, last)) = numbers.and_then(|n| n.first().zip(n.last())) else {
            return false;
        };
        self.last_number = Some(*last);
        let follows = is_first || before.is_some_and(|before| before < *first);
        let mut pairs = numbers
            .into_iter()
            .flat_map(|n| n.iter().zip(n.iter().skip(1)));
        follows && pairs.all(|(a, b)| a < b)
    }

    fn check_orders(&self, cells: &[BatchCoordinates], count: usize) -> Result<()> {
        let nothing = Coordinate::Key(0);
        let coordinate =
            |dim: usize, cell: usize| cells.get(dim).map_or(nothing, |of_dim| of_dim.at(cell));
        if let Some(last) = &self.last
            && count > 0
        {
            let last = |dim: usize| last.get(dim).map_or(nothing, CheckedCoordinate::borrowed);
            let order = self.compare(|dim| (last(dim), coordinate(dim, 0)));
            self.check_order(order, cells, 0)?;
        }
        for cell in 1..count {
            let order = self.compare(|dim| (coordinate(dim, cell - 1), coordinate(dim, cell)));
            self.check_order(order, cells, cell)?;
        }
        Ok(())
    }

    /// Checks that cells, in any order, lie inside, given their coordinates in each dimension.
    ///
    /// # Errors
    /// A cell lies outside.
    pub fn check_bounds(&self, cells: &[BatchCoordinates]) -> Result<()> {
        for (dimension, coordinates) in self.dimensions.iter().zip(cells) {
            dimension.check(coordinates, |cell| self.describe(cells, cell))?;
        }
        Ok(())
    }

    /// The error for two equal cells.
    pub fn twice(&self, cells: &[BatchCoordinates], cell: usize) -> Error {
        Error::invalid(format!(
            "two rows have the coordinates {}, and the array allows no duplicates",
            self.describe(cells, cell)
        ))
    }

    /// Compares two cells that follow each other. Places on a Hilbert curve are not computed again, so along one, only equal
    /// cells are recognised.
    fn compare<'a>(&self, at: impl Fn(usize) -> (Coordinate<'a>, Coordinate<'a>)) -> Ordering {
        if self.order.hilbert().is_none() {
            return self.order.compare(at);
        }
        match self.order.compare_cells(&at) {
            Ordering::Equal => Ordering::Equal,
            _ => Ordering::Less,
        }
    }

    fn check_order(&self, order: Ordering, cells: &[BatchCoordinates], cell: usize) -> Result<()> {
        match order {
            Ordering::Less => Ok(()),
            Ordering::Equal if self.allows_duplicates => Ok(()),
            Ordering::Equal => Err(self.twice(cells, cell)),
            Ordering::Greater => Err(Error::internal(format!(
                "the cell {} was given after one that follows it",
                self.describe(cells, cell)
            ))),
        }
    }

    /// A cell for messages: `(x = 3, name = 'a')`.
    pub fn describe(&self, cells: &[BatchCoordinates], cell: usize) -> String {
        let parts = self
            .dimensions
            .iter()
            .zip(cells)
            .map(|(dimension, coordinates)| {
                let value = dimension.show(&CheckedCoordinate::of(coordinates.at(cell)));
                format!("{} = {value}", dimension.name)
            });
        format!("({})", parts.collect::<Vec<_>>().join(", "))
    }
}

impl CheckedDimension {
    fn check(&self, cells: &BatchCoordinates, describe: impl Fn(usize) -> String) -> Result<()> {
        if let (Some(nan), BatchCoordinates::Keys(keys)) = (key::nan_key(self.datatype), cells)
            && let Some(cell) = keys.iter().position(|key| *key == nan)
        {
            return Err(Error::invalid(format!(
                "the dimension \"{}\" of the row {} is NaN, which isn't a coordinate",
                self.name,
                describe(cell)
            )));
        }
        for (bounds, what) in [
            (&self.domain, "its domain"),
            (&self.current, "its current domain"),
            (
                &self.whole_tiles,
                "the tiles that end within its type, of which alone libtiledb reads and writes cells:",
            ),
        ] {
            let Some(bounds) = bounds else { continue };
            let outside = match (bounds, cells) {
                (DimensionExtent::Keys { lo, hi }, BatchCoordinates::Keys(keys)) => {
                    let is_outside = |key: &u64| key < lo || key > hi;
                    // Mostly no key is outside, and a loop without a branch finds that for several keys at a time. Plain x86-64
                    // can subtract, but not compare, several unsigned numbers at once. If the bounds are less than 2⁶³ apart,
                    // the highest bit is set in a distance between a bound and a key outside, and in none of a key inside.
                    let distances = |key: &u64| key.wrapping_sub(*lo) | hi.wrapping_sub(*key);
                    let any = match hi.wrapping_sub(*lo) >> 63 {
                        0 => keys.iter().fold(0, |any, key| any | distances(key)) >> 63 == 1,
                        _ => true,
                    };
                    any.then(|| keys.iter().position(is_outside)).flatten()
                }
                (DimensionExtent::Bytes { lo, hi }, BatchCoordinates::Strings(strings)) => {
                    let outside = |cell: &usize| {
                        let value = strings.cell(*cell, 0);
                        value < lo.as_slice() || value > hi.as_slice()
                    };
                    (0..strings.len).find(outside)
                }
                _ => return Err(Error::internal("bounds are of the dimension's kind")),
            };
            if let Some(cell) = outside {
                return Err(Error::invalid(format!(
                    "the dimension \"{}\" of the row {} lies outside {what} {}",
                    self.name,
                    describe(cell),
                    self.show_bounds(bounds)
                )));
            }
        }
        Ok(())
    }

    fn show(&self, coordinate: &CheckedCoordinate) -> String {
        match coordinate {
            CheckedCoordinate::Key(key) => key::show(self.datatype, *key).to_string(),
            CheckedCoordinate::Bytes(bytes) => format!("'{}'", String::from_utf8_lossy(bytes)),
        }
    }

    fn show_bounds(&self, bounds: &DimensionExtent) -> String {
        let (lo, hi) = match bounds {
            DimensionExtent::Keys { lo, hi } => {
                (CheckedCoordinate::Key(*lo), CheckedCoordinate::Key(*hi))
            }
            DimensionExtent::Bytes { lo, hi } => (
                CheckedCoordinate::Bytes(lo.clone()),
                CheckedCoordinate::Bytes(hi.clone()),
            ),
        };
        format!("[{}, {}]", self.show(&lo), self.show(&hi))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::filter_list::FilterList;
    use crate::format::schema::CellValNum;

    #[test]
    fn a_tile_that_ends_beyond_the_type_is_not_whole() {
        let dimension = |lo: i16, hi: i16, extent: i16| Dimension {
            name: "x".to_owned(),
            datatype: Datatype::Int16,
            cell_val_num: CellValNum::Fixed(1),
            filters: FilterList::of([]),
            domain: Some((lo.to_le_bytes().to_vec(), hi.to_le_bytes().to_vec())),
            extent: Some(extent.to_le_bytes().to_vec()),
        };
        let last = |lo, hi, extent| match whole_tiles(&dimension(lo, hi, extent)) {
            Some(DimensionExtent::Keys { hi, .. }) => {
                Some(key::show(Datatype::Int16, hi).to_string())
            }
            _ => None,
        };
        assert_eq!(last(0, i16::MAX, 1000), Some("31999".to_owned()));
        assert_eq!(last(0, 31_999, 1000), None);
        assert_eq!(last(0, 32_000, 1000), Some("31999".to_owned()));
        assert_eq!(last(i16::MIN, i16::MAX, 1), None);
        assert_eq!(
            last(i16::MIN, i16::MAX - 1, i16::MAX),
            Some("32765".to_owned())
        );
        assert_eq!(last(1, i16::MAX, i16::MAX), None);
    }

    #[test]
    fn every_key_outside_the_bounds_is_found() {
        const HALF: u64 = 1 << 63;
        let edges = [0, 1, 7, HALF - 1, HALF, HALF + 1, u64::MAX - 1, u64::MAX];
        for lo in edges {
            for hi in edges.into_iter().filter(|hi| lo <= *hi) {
                let dimension = CheckedDimension {
                    name: "x".to_owned(),
                    datatype: Datatype::UInt64,
                    domain: Some(DimensionExtent::Keys { lo, hi }),
                    current: None,
                    whole_tiles: None,
                };
                for key in edges {
                    for keys in [vec![key], vec![lo, hi, key, lo]] {
                        let at = keys.iter().position(|key| !(lo..=hi).contains(key));
                        let found =
                            dimension.check(&BatchCoordinates::Keys(keys), |cell| cell.to_string());
                        let expected = at.map(|cell| format!("of the row {cell} lies outside"));
                        match (found.map_err(|e| e.to_string()), expected) {
                            (Ok(()), None) => {}
                            (Err(found), Some(expected)) if found.contains(&expected) => {}
                            other => panic!("{lo} {hi} {key}: {other:?}"),
                        }
                    }
                }
            }
        }
    }
}
