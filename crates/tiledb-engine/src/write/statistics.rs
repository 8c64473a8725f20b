//! Statistics of the cells of a tile, and of a fragment (specification: "Fragment Metadata File", Tile Mins, Tile Maxes,
//! Tile Sums, Tile Null Counts, Fragment Min Max Sum Null Count).
//!
//! Which fields have which statistics follows libtiledb, because its aggregates fail where one is missing. The values are
//! true where libtiledb's are not: NaN neither is nor resets a minimum, and strings are compared beyond a NUL byte. A tile
//! with NaN shows it by its sum, which is NaN, too. NULLs count only as NULLs; a tile of nothing else has zeros.

mod numbers;

use std::cmp::Ordering;
use std::ops::Range;

use self::numbers::StoredNumber;
use crate::arrow::StoredCells;
use crate::format::datatype::Datatype;
use crate::format::fragment::statistics::SlotStatistics;
use crate::format::schema::CellValNum;

/// How the values of a field are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueComparison {
    /// As numbers of a type.
    Numbers(StoredNumber),
    /// By their bytes.
    Bytes,
}

/// The statistics that a field has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenStatisticsKind {
    min_max: Option<ValueComparison>,
    sum: Option<StoredNumber>,
    nulls: bool,
    /// Size of a cell; `None` if cells differ in size.
    cell_bytes: Option<usize>,
}

/// Statistics of one field of one tile; those that the field does not have are empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WrittenTileStatistics {
    /// The smallest value; zeros if there is none.
    pub min: Vec<u8>,
    /// The largest value; zeros if there is none.
    pub max: Vec<u8>,
    /// The sum, as `i64`, `u64` or `f64` by the field's type.
    pub sum: [u8; 8],
    /// The number of NULLs.
    pub null_count: u64,
    /// Whether every cell is NULL, so that minimum and maximum mean nothing.
    pub is_all_null: bool,
}

impl WrittenStatisticsKind {
    /// The statistics of an attribute.
    pub fn of_attribute(datatype: Datatype, cell_val_num: CellValNum, nullable: bool) -> Self {
        use Datatype as D;
        let cell_bytes = cell_val_num.cell_size(datatype).ok().flatten();
        let single = cell_val_num == CellValNum::Fixed(1);
        let text = matches!(datatype, D::Char | D::StringAscii);
        let number = match datatype {
            // libtiledb compares a single character as a signed number.
            D::Char | D::StringAscii => Some(StoredNumber::I8),
            other => numbers_of(other),
        };
        let min_max = if single {
            number.map(ValueComparison::Numbers)
        } else {
            text.then_some(ValueComparison::Bytes)
        };
        Self {
            min_max,
            sum: number.filter(|_| single && datatype != D::StringAscii),
            nulls: nullable,
            cell_bytes,
        }
    }

    /// The statistics of a dimension: its tiles have bounding rectangles instead of minima and maxima.
    pub fn of_dimension(datatype: Datatype, cell_val_num: CellValNum) -> Self {
        Self {
            min_max: None,
            sum: numbers_of(datatype).filter(|_| !cell_val_num.is_var()),
            nulls: false,
            cell_bytes: cell_val_num.cell_size(datatype).ok().flatten(),
        }
    }

    /// The statistics of the times and indices that a consolidated fragment has for each cell.
    pub fn of_times() -> Self {
        Self::of_attribute(Datatype::UInt64, CellValNum::Fixed(1), false)
    }

    /// Whether the field has minima and maxima.
    pub fn has_min_max(&self) -> bool {
        self.min_max.is_some()
    }

    /// Whether the field has sums.
    pub fn has_sum(&self) -> bool {
        self.sum.is_some()
    }

    /// Whether the field has null counts.
    pub fn has_null_count(&self) -> bool {
        self.nulls
    }

    /// Whether values differ in size.
    pub fn is_var(&self) -> bool {
        self.cell_bytes.is_none()
    }

    /// The statistics of the cells in `runs`; other cells of the tile are padding.
    pub fn of_cells(&self, cells: &StoredCells, runs: &[Range<usize>]) -> WrittenTileStatistics {
        let valid = |cell: usize| match &cells.validity {
            Some(validity) => validity.get(cell).is_some_and(|v| *v != 0),
            None => true,
        };
        let all = || runs.iter().flat_map(Clone::clone);
        let null_count = match &cells.validity {
            Some(_) => all().filter(|cell| !valid(*cell)).count(),
            None => 0,
        };
        let count = runs.iter().map(ExactSizeIterator::len).sum::<usize>();
        let is_all_null = null_count == count;
        let mut found = WrittenTileStatistics {
            null_count: null_count as u64,
            is_all_null,
            ..WrittenTileStatistics::default()
        };
        let whole = null_count == 0 && matches!(runs, [run] if *run == (0..cells.len));
        if let Some(numbers) = self.min_max.and_then(ValueComparison::numbers).or(self.sum) {
            let width = self.cell_bytes.unwrap_or(1);
            let bounds = if whole {
                numbers.summarise_all(&cells.values)
            } else {
                let cells = all()
                    .filter(|cell| valid(*cell))
                    .map(|c| cells.cell(c, width));
                numbers.summarise(cells)
            };
            if self.sum.is_some() {
                found.sum = bounds.sum;
            }
            if self.min_max.is_some() {
                (found.min, found.max) = (bounds.min, bounds.max);
            }
        } else if self.min_max == Some(ValueComparison::Bytes) {
            let width = self.cell_bytes.unwrap_or(0);
            let values = || {
                all()
                    .filter(|cell| valid(*cell))
                    .map(|c| cells.cell(c, width))
            };
            found.min = values().min().unwrap_or_default().to_vec();
            found.max = values().max().unwrap_or_default().to_vec();
        }
        if self.min_max.is_some() && is_all_null {
            let zeros = vec![0; self.cell_bytes.unwrap_or(0)];
            (found.min, found.max) = (zeros.clone(), zeros);
        }
        found
    }

    /// The statistics of a fragment with these tiles.
    pub fn of_tiles(&self, tiles: &[WrittenTileStatistics]) -> SlotStatistics {
        let with_values = || tiles.iter().filter(|tile| !tile.is_all_null);
        let null_count = tiles.iter().map(|tile| tile.null_count).sum();
        let mut found = SlotStatistics {
            null_count,
            ..SlotStatistics::default()
        };
        if let Some(sum) = self.sum {
            found.sum = sum.add_all(tiles.iter().map(|tile| tile.sum));
        }
        let Some(compared) = self.min_max else {
            return found;
        };
        let compare = |a: &&[u8], b: &&[u8]| compared.compare(a, b);
        let bytes = self.cell_bytes.unwrap_or(0);
        let min = with_values()
            .map(|tile| tile.min.as_slice())
            .min_by(compare);
        let max = with_values()
            .map(|tile| tile.max.as_slice())
            .max_by(|a, b| {
                // NaN is not a maximum either, unless there is nothing else.
                match (compared.is_nan(a), compared.is_nan(b)) {
                    (true, false) => Ordering::Less,
                    (false, true) => Ordering::Greater,
                    _ => compared.compare(a, b),
                }
            });
        found.min = min.map_or_else(|| vec![0; bytes], <[u8]>::to_vec);
        found.max = max.map_or_else(|| vec![0; bytes], <[u8]>::to_vec);
        found
    }
}

fn numbers_of(datatype: Datatype) -> Option<StoredNumber> {
    use Datatype as D;
    Some(match datatype {
        D::Int8 => StoredNumber::I8,
        D::Int16 => StoredNumber::I16,
        D::Int32 => StoredNumber::I32,
        D::Int64 => StoredNumber::I64,
        D::UInt8 | D::Bool => StoredNumber::U8,
        D::UInt16 => StoredNumber::U16,
        D::UInt32 => StoredNumber::U32,
        D::UInt64 => StoredNumber::U64,
        D::Float32 => StoredNumber::F32,
        D::Float64 => StoredNumber::F64,
        other if other.is_datetime() || other.is_time() => StoredNumber::I64,
        _ => return None,
    })
}

impl ValueComparison {
    fn numbers(self) -> Option<StoredNumber> {
        match self {
            Self::Numbers(numbers) => Some(numbers),
            Self::Bytes => None,
        }
    }

    /// Compares two values; NaN is above all numbers.
    fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Self::Numbers(numbers) => numbers.compare(a, b),
            Self::Bytes => a.cmp(b),
        }
    }

    fn is_nan(self, value: &[u8]) -> bool {
        self.numbers().is_some_and(|numbers| numbers.is_nan(value))
    }
}

#[cfg(test)]
mod tests;
