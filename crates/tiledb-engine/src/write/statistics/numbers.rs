//! The smallest and the largest of many numbers, and their sum.

use std::cmp::Ordering;

/// Numbers as they are stored, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoredNumber {
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

/// Minimum, maximum and sum of numbers.
pub(super) struct NumberSummary {
    pub(super) min: Vec<u8>,
    pub(super) max: Vec<u8>,
    pub(super) sum: [u8; 8],
}

/// Runs `$body` with `$native` as the Rust type of the numbers.
macro_rules! with_numbers {
    ($numbers:expr, $native:ident => $body:expr) => {
        match $numbers {
            StoredNumber::I8 => {
                type $native = i8;
                $body
            }
            StoredNumber::I16 => {
                type $native = i16;
                $body
            }
            StoredNumber::I32 => {
                type $native = i32;
                $body
            }
            StoredNumber::I64 => {
                type $native = i64;
                $body
            }
            StoredNumber::U8 => {
                type $native = u8;
                $body
            }
            StoredNumber::U16 => {
                type $native = u16;
                $body
            }
            StoredNumber::U32 => {
                type $native = u32;
                $body
            }
            StoredNumber::U64 => {
                type $native = u64;
                $body
            }
            StoredNumber::F32 => {
                type $native = f32;
                $body
            }
            StoredNumber::F64 => {
                type $native = f64;
                $body
            }
        }
    };
}

/// A number whose sum is kept in eight bytes.
pub(super) trait SummedNumber: Copy + PartialOrd {
    /// The type of the sum.
    type Sum: SaturatingTotal;
    fn widened(self) -> Self::Sum;
    /// Whether it is NaN, which equals nothing.
    fn is_nan(self) -> bool;
}

/// A sum that stops at the limits of its type.
pub(super) trait SaturatingTotal: Copy + Default {
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
        impl SaturatingTotal for $sum {
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
        $(impl SummedNumber for $native {
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

impl SaturatingTotal for f64 {
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
        impl SummedNumber for $native {
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

impl StoredNumber {
    /// As [`Self::summarise`], for cells without gaps.
    pub(super) fn summarise_all(self, cells: &[u8]) -> NumberSummary {
        with_numbers!(self, T => {
            let (cells, _) = cells.as_chunks::<{ size_of::<T>() }>();
            let (min, max, sum) = summarise_blocks(cells, T::from_le_bytes);
            let stored = |number: Option<T>| number.map_or_else(Vec::new, |n| n.to_le_bytes().to_vec());
            NumberSummary { min: stored(min), max: stored(max), sum: sum.bytes() }
        })
    }

    pub(super) fn summarise<'a>(self, cells: impl Iterator<Item = &'a [u8]>) -> NumberSummary {
        with_numbers!(self, T => {
            let numbers = cells.filter_map(|cell| cell.try_into().ok()).map(T::from_le_bytes);
            let (min, max, sum) = summarise(numbers);
            let stored = |number: Option<T>| number.map_or_else(Vec::new, |n| n.to_le_bytes().to_vec());
            NumberSummary { min: stored(min), max: stored(max), sum: sum.bytes() }
        })
    }

    pub(super) fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        with_numbers!(self, T => {
            let number = |bytes: &[u8]| bytes.try_into().map(T::from_le_bytes).unwrap_or_default();
            let (a, b) = (number(a), number(b));
            a.partial_cmp(&b).unwrap_or_else(|| SummedNumber::is_nan(a).cmp(&SummedNumber::is_nan(b)))
        })
    }

    pub(super) fn is_nan(self, value: &[u8]) -> bool {
        with_numbers!(self, T => {
            value.try_into().map(T::from_le_bytes).is_ok_and(SummedNumber::is_nan)
        })
    }

    pub(super) fn add_all(self, sums: impl Iterator<Item = [u8; 8]>) -> [u8; 8] {
        with_numbers!(self, T => {
            let sums = sums.map(<T as SummedNumber>::Sum::of_bytes);
            sums.fold(Default::default(), |total, sum| SaturatingTotal::add(total, sum).0).bytes()
        })
    }
}

/// The statistics of the numbers so far.
struct KnownNumbers<T: SummedNumber> {
    min: Option<T>,
    max: Option<T>,
    nan: Option<T>,
    sum: T::Sum,
    stopped: bool,
}

impl<T: SummedNumber> KnownNumbers<T> {
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
        if number.is_nan() {
            self.nan = Some(number)
        } else {
            self.add_bounds(number, number)
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

pub(super) fn summarise<T: SummedNumber>(
    numbers: impl Iterator<Item = T>,
) -> (Option<T>, Option<T>, T::Sum) {
    let mut known = KnownNumbers::nothing();
    numbers.for_each(|number| known.add(number));
    known.end()
}

/// Cells that are summarised together where none of them is special.
pub(super) const BLOCK: usize = 1024;

/// As [`summarise`], faster.
pub(super) fn summarise_blocks<T: SummedNumber, const N: usize>(
    cells: &[[u8; N]],
    read: impl Fn([u8; N]) -> T,
) -> (Option<T>, Option<T>, T::Sum) {
    let mut known = KnownNumbers::<T>::nothing();
    for block in cells.chunks(BLOCK) {
        let numbers = || block.iter().map(|cell| read(*cell));
        let Some(first) = numbers().next() else {
            continue;
        };
        let (mut least, mut most, mut any_nan) = (first, first, false);
        let mut sum = known.sum;
        // Floating-point numbers are added one after another, and a processor compares them while it waits for a sum.
        for number in numbers() {
            least = if number < least { number } else { least };
            most = if number > most { number } else { most };
            any_nan |= number.is_nan();
            sum = sum.plus(number.widened());
        }
        let (low, high) = (least.widened(), most.widened());
        if any_nan || known.stopped || !known.sum.has_room_for(block.len(), low, high) {
            numbers().for_each(|number| known.add(number));
            continue;
        }
        known.sum = sum;
        known.add_bounds(least, most);
    }
    known.end()
}
