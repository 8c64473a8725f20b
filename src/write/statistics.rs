//! Statistics of the cells of a tile, and of a fragment (specification: "Fragment Metadata File", Tile Mins, Tile Maxes,
//! Tile Sums, Tile Null Counts, Fragment Min Max Sum Null Count).
//!
//! Which fields have which statistics follows libtiledb, because its aggregates fail where one is missing. The values are
//! true where libtiledb's are not: NaN neither is nor resets a minimum, and strings are compared beyond a NUL byte. A tile
//! with NaN shows it by its sum, which is NaN, too. NULLs count only as NULLs; a tile of nothing else has zeros.

use std::cmp::Ordering;
use std::ops::Range;

use crate::arrow::StoredCells;
use crate::format::datatype::Datatype;
use crate::format::fragment::statistics::SlotStatistics;
use crate::format::schema::CellValNum;

/// How the values of a field are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compared {
    /// As numbers of a type.
    Numbers(Numbers),
    /// By their bytes.
    Bytes,
}

/// Numbers as they are stored, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Numbers {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
}

/// The statistics that a field has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatisticsKind {
    min_max: Option<Compared>,
    sum: Option<Numbers>,
    nulls: bool,
    /// Size of a cell; `None` if cells differ in size.
    cell_bytes: Option<usize>,
}

/// Statistics of one field of one tile; what the field does not have is empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TileStatistics {
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

impl StatisticsKind {
    /// The statistics of an attribute.
    pub fn of_attribute(datatype: Datatype, cell_val_num: CellValNum, nullable: bool) -> Self {
        use Datatype as D;
        let cell_bytes = cell_val_num.cell_size(datatype).ok().flatten();
        let single = cell_val_num == CellValNum::Fixed(1);
        let text = matches!(datatype, D::Char | D::StringAscii);
        let number = match datatype {
            // libtiledb compares a single character as a signed number.
            D::Char | D::StringAscii => Some(Numbers::I8),
            other => numbers_of(other),
        };
        let min_max = match single {
            true => number.map(Compared::Numbers),
            false => text.then_some(Compared::Bytes),
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
    pub fn of_cells(&self, cells: &StoredCells, runs: &[Range<usize>]) -> TileStatistics {
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
        let mut found = TileStatistics {
            null_count: null_count as u64,
            is_all_null,
            ..TileStatistics::default()
        };
        let whole = null_count == 0 && matches!(runs, [run] if *run == (0..cells.len));
        if let Some(numbers) = self.min_max.and_then(Compared::numbers).or(self.sum) {
            let width = self.cell_bytes.unwrap_or(1);
            let bounds = match whole {
                true => numbers.summarise_all(&cells.values),
                false => {
                    let cells = all()
                        .filter(|cell| valid(*cell))
                        .map(|c| cells.cell(c, width));
                    numbers.summarise(cells)
                }
            };
            if self.sum.is_some() {
                found.sum = bounds.sum;
            }
            if self.min_max.is_some() {
                (found.min, found.max) = (bounds.min, bounds.max);
            }
        } else if self.min_max == Some(Compared::Bytes) {
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
    pub fn of_tiles(&self, tiles: &[TileStatistics]) -> SlotStatistics {
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

fn numbers_of(datatype: Datatype) -> Option<Numbers> {
    use Datatype as D;
    Some(match datatype {
        D::Int8 => Numbers::I8,
        D::Int16 => Numbers::I16,
        D::Int32 => Numbers::I32,
        D::Int64 => Numbers::I64,
        D::UInt8 | D::Bool => Numbers::U8,
        D::UInt16 => Numbers::U16,
        D::UInt32 => Numbers::U32,
        D::UInt64 => Numbers::U64,
        D::Float32 => Numbers::F32,
        D::Float64 => Numbers::F64,
        other if other.is_datetime() || other.is_time() => Numbers::I64,
        _ => return None,
    })
}

impl Compared {
    fn numbers(self) -> Option<Numbers> {
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

/// Minimum, maximum and sum of numbers.
struct Summary {
    min: Vec<u8>,
    max: Vec<u8>,
    sum: [u8; 8],
}

/// Runs `$body` with `$native` as the Rust type of the numbers.
macro_rules! with_numbers {
    ($numbers:expr, $native:ident => $body:expr) => {
        match $numbers {
            Numbers::I8 => {
                type $native = i8;
                $body
            }
            Numbers::I16 => {
                type $native = i16;
                $body
            }
            Numbers::I32 => {
                type $native = i32;
                $body
            }
            Numbers::I64 => {
                type $native = i64;
                $body
            }
            Numbers::U8 => {
                type $native = u8;
                $body
            }
            Numbers::U16 => {
                type $native = u16;
                $body
            }
            Numbers::U32 => {
                type $native = u32;
                $body
            }
            Numbers::U64 => {
                type $native = u64;
                $body
            }
            Numbers::F32 => {
                type $native = f32;
                $body
            }
            Numbers::F64 => {
                type $native = f64;
                $body
            }
        }
    };
}

/// A number whose sum is kept in eight bytes.
trait Summed: Copy + PartialOrd {
    /// The type of the sum.
    type Sum: Total;
    fn widened(self) -> Self::Sum;
    /// Whether it is equal to nothing.
    fn is_nan(self) -> bool;
}

/// A sum that stops at the limits of its type.
trait Total: Copy + Default {
    /// The sum, and whether it has stopped.
    fn add(self, other: Self) -> (Self, bool);
    /// Whether the sum can neither stop nor become NaN while this many numbers from `least` to `most` are added.
    fn has_room_for(self, count: usize, least: Self, most: Self) -> bool;
    /// The sum, where there is room.
    fn plus(self, other: Self) -> Self;
    fn bytes(self) -> [u8; 8];
    fn of_bytes(bytes: [u8; 8]) -> Self;
}

macro_rules! integers {
    ($sum:ty: $($native:ty),*) => {
        impl Total for $sum {
            fn add(self, other: Self) -> (Self, bool) {
                match self.checked_add(other) {
                    Some(sum) => (sum, false),
                    None => (self.saturating_add(other), true),
                }
            }
            fn has_room_for(self, count: usize, least: Self, most: Self) -> bool {
                let magnitude = |number: Self| i128::from(number).unsigned_abs();
                let added = magnitude(least).max(magnitude(most)) * count as u128;
                magnitude(self) + added <= magnitude(Self::MAX)
            }
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn bytes(self) -> [u8; 8] {
                self.to_le_bytes()
            }
            fn of_bytes(bytes: [u8; 8]) -> Self {
                Self::from_le_bytes(bytes)
            }
        }
        $(impl Summed for $native {
            type Sum = $sum;
            fn widened(self) -> $sum {
                self.into()
            }
            fn is_nan(self) -> bool {
                false
            }
        })*
    };
}

integers!(i64: i8, i16, i32, i64);
integers!(u64: u8, u16, u32, u64);

impl Total for f64 {
    /// As libtiledb adds: a sum stops where a number of its own sign would lead beyond the limits, and not where one of the
    /// other sign is infinite.
    fn add(self, other: Self) -> (Self, bool) {
        let same_sign = (self < 0.0) == (other < 0.0);
        match same_sign && self.abs() > f64::MAX - other.abs() {
            true if self < 0.0 => (f64::MIN, true),
            true => (f64::MAX, true),
            false => (self + other, false),
        }
    }
    fn has_room_for(self, count: usize, least: Self, most: Self) -> bool {
        // Half of the room is left for what rounding adds; the number of cells is small enough to be exact.
        #[expect(clippy::cast_precision_loss, reason = "a block has few cells")]
        let count = count as Self;
        self.abs() + least.abs().max(most.abs()) * count <= Self::MAX / 2.0
    }
    fn plus(self, other: Self) -> Self {
        self + other
    }
    fn bytes(self) -> [u8; 8] {
        self.to_le_bytes()
    }
    fn of_bytes(bytes: [u8; 8]) -> Self {
        Self::from_le_bytes(bytes)
    }
}

macro_rules! floats {
    ($($native:ty),*) => {$(
        impl Summed for $native {
            type Sum = f64;
            fn widened(self) -> f64 {
                self.into()
            }
            fn is_nan(self) -> bool {
                <$native>::is_nan(self)
            }
        }
    )*};
}

floats!(f32, f64);

impl Numbers {
    /// As [`Self::summarise`], for cells without gaps.
    fn summarise_all(self, cells: &[u8]) -> Summary {
        with_numbers!(self, T => {
            let (cells, _) = cells.as_chunks::<{ size_of::<T>() }>();
            let (min, max, sum) = summarise_blocks(cells, T::from_le_bytes);
            let stored = |number: Option<T>| number.map_or_else(Vec::new, |n| n.to_le_bytes().to_vec());
            Summary { min: stored(min), max: stored(max), sum: sum.bytes() }
        })
    }

    fn summarise<'a>(self, cells: impl Iterator<Item = &'a [u8]>) -> Summary {
        with_numbers!(self, T => {
            let numbers = cells.filter_map(|cell| cell.try_into().ok()).map(T::from_le_bytes);
            let (min, max, sum) = summarise(numbers);
            let stored = |number: Option<T>| number.map_or_else(Vec::new, |n| n.to_le_bytes().to_vec());
            Summary { min: stored(min), max: stored(max), sum: sum.bytes() }
        })
    }

    fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        with_numbers!(self, T => {
            let number = |bytes: &[u8]| bytes.try_into().map(T::from_le_bytes).unwrap_or_default();
            let (a, b) = (number(a), number(b));
            a.partial_cmp(&b).unwrap_or_else(|| Summed::is_nan(a).cmp(&Summed::is_nan(b)))
        })
    }

    fn is_nan(self, value: &[u8]) -> bool {
        with_numbers!(self, T => {
            value.try_into().map(T::from_le_bytes).is_ok_and(Summed::is_nan)
        })
    }

    fn add_all(self, sums: impl Iterator<Item = [u8; 8]>) -> [u8; 8] {
        with_numbers!(self, T => {
            let sums = sums.map(<T as Summed>::Sum::of_bytes);
            sums.fold(Default::default(), |total, sum| Total::add(total, sum).0).bytes()
        })
    }
}

/// What is known of the numbers so far.
struct Known<T: Summed> {
    min: Option<T>,
    max: Option<T>,
    nan: Option<T>,
    sum: T::Sum,
    stopped: bool,
}

impl<T: Summed> Known<T> {
    fn nothing() -> Self {
        Self {
            min: None,
            max: None,
            nan: None,
            sum: T::Sum::default(),
            stopped: false,
        }
    }

    fn add(&mut self, number: T) {
        if !self.stopped {
            (self.sum, self.stopped) = self.sum.add(number.widened());
        }
        match number.is_nan() {
            true => self.nan = Some(number),
            false => self.add_bounds(number, number),
        }
    }

    fn add_bounds(&mut self, least: T, most: T) {
        self.min = Some(self.min.filter(|min| *min <= least).unwrap_or(least));
        self.max = Some(self.max.filter(|max| *max >= most).unwrap_or(most));
    }

    /// Smallest and largest number, NaN only if there is nothing else, and the sum, which stops at the limit of its type.
    fn end(self) -> (Option<T>, Option<T>, T::Sum) {
        (self.min.or(self.nan), self.max.or(self.nan), self.sum)
    }
}

fn summarise<T: Summed>(numbers: impl Iterator<Item = T>) -> (Option<T>, Option<T>, T::Sum) {
    let mut known = Known::nothing();
    numbers.for_each(|number| known.add(number));
    known.end()
}

/// Cells that are summarised together where none of them is special.
const BLOCK: usize = 1024;

/// As [`summarise`], faster.
fn summarise_blocks<T: Summed, const N: usize>(
    cells: &[[u8; N]],
    read: impl Fn([u8; N]) -> T,
) -> (Option<T>, Option<T>, T::Sum) {
    let mut known = Known::<T>::nothing();
    for block in cells.chunks(BLOCK) {
        let numbers = || block.iter().map(|cell| read(*cell));
        let Some(first) = numbers().next() else {
            continue;
        };
        let (mut least, mut most, mut any_nan) = (first, first, false);
        for number in numbers() {
            least = if number < least { number } else { least };
            most = if number > most { number } else { most };
            any_nan |= number.is_nan();
        }
        let (low, high) = (least.widened(), most.widened());
        if any_nan || known.stopped || !known.sum.has_room_for(block.len(), low, high) {
            numbers().for_each(|number| known.add(number));
            continue;
        }
        let add = |sum: T::Sum, number: T| sum.plus(number.widened());
        known.sum = numbers().fold(known.sum, add);
        known.add_bounds(least, most);
    }
    known.end()
}

#[cfg(test)]
mod tests;
