//! The statistics of some cells: the true ones, and the ones that writers compute where NaN or limits interfere.

use crate::format::datatype::Datatype;
use crate::format::schema::CellValNum;
use crate::maintain::check::fragment::CheckedField;

/// The cells of a field.
pub trait CheckedValues {
    /// The bytes of a cell.
    fn cell(&self, index: usize) -> &[u8];
    /// Whether a cell is NULL.
    fn is_null(&self, index: usize) -> bool;
}

/// The statistics of a tile: of the cells that hold data, and of all stored cells, if there are more.
#[derive(Debug)]
pub struct TileContents {
    pub visible: ComputedStatistics,
    pub whole: Option<ComputedStatistics>,
}

/// The statistics of some cells.
#[derive(Debug, Clone, Default)]
pub struct ComputedStatistics {
    pub cells: u64,
    pub nulls: u64,
    pub integers: Option<IntegerStatistics>,
    pub floats: Option<FloatStatistics>,
    pub text: Option<TextStatistics>,
}

/// Statistics of integers that are not NULL.
#[derive(Debug, Clone)]
pub struct IntegerStatistics {
    pub min: i128,
    pub max: i128,
    pub sum: i128,
    /// The sum of absolute values: an upper bound of every partial sum.
    pub magnitude: u128,
    /// The sum that stops at the limits of its type, in the order of cells.
    pub stopped: i128,
    at_limit: bool,
}

/// Statistics of floats that are not NULL.
#[derive(Debug, Clone)]
pub struct FloatStatistics {
    /// Without NaN; NaN if there is nothing else.
    pub min: f64,
    pub max: f64,
    /// The minimum that a loop of comparisons finds, which a NaN resets.
    pub found_min: f64,
    pub found_max: f64,
    pub sum: f64,
    pub magnitude: f64,
    /// The sum that stops at the limits of its type, in the order of cells.
    pub stopped: f64,
    at_limit: bool,
    pub count: u64,
    pub nan: bool,
}

/// Statistics of strings that are not NULL.
#[derive(Debug, Clone)]
pub struct TextStatistics {
    pub min: Vec<u8>,
    pub max: Vec<u8>,
    /// Whether a string has a NUL byte.
    pub nul: bool,
}

/// Computes the statistics of the cells with these indexes.
pub fn compute<V: CheckedValues>(
    field: &CheckedField,
    values: &V,
    indexes: impl Iterator<Item = usize>,
) -> ComputedStatistics {
    let datatype = field.datatype;
    let one = field.cell_val_num == CellValNum::Fixed(1);
    let integers = one && is_integer(datatype) && (field.has_sum() || field.has_min_max());
    let floats = one && datatype.is_float();
    let text = field.has_min_max() && matches!(datatype, Datatype::Char | Datatype::StringAscii);
    let mut computed = ComputedStatistics::default();
    for index in indexes {
        computed.cells = computed.cells.saturating_add(1);
        if values.is_null(index) {
            computed.nulls = computed.nulls.saturating_add(1);
            continue;
        }
        let cell = values.cell(index);
        if integers && let Some(value) = integer(datatype, cell) {
            IntegerStatistics::add(&mut computed.integers, datatype, value);
        }
        if floats && let Some(value) = float(datatype, cell) {
            FloatStatistics::add(&mut computed.floats, datatype, value);
        }
        if text {
            TextStatistics::add(&mut computed.text, cell);
        }
    }
    computed
}

impl ComputedStatistics {
    /// The number of cells that are not NULL.
    pub fn values(&self) -> u64 {
        self.cells.saturating_sub(self.nulls)
    }

    /// The statistics of these cells and those behind them.
    pub fn merge(&mut self, next: Self) {
        self.cells = self.cells.saturating_add(next.cells);
        self.nulls = self.nulls.saturating_add(next.nulls);
        self.integers = merged(
            self.integers.take(),
            next.integers,
            IntegerStatistics::merge,
        );
        self.floats = merged(self.floats.take(), next.floats, FloatStatistics::merge);
        self.text = merged(self.text.take(), next.text, TextStatistics::merge);
    }
}

fn merged<T>(a: Option<T>, b: Option<T>, merge: impl FnOnce(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(merge(a, b)),
        (a, b) => a.or(b),
    }
}

impl IntegerStatistics {
    fn add(to: &mut Option<Self>, datatype: Datatype, value: i128) {
        let all = to.get_or_insert(Self {
            min: value,
            max: value,
            sum: 0,
            magnitude: 0,
            stopped: 0,
            at_limit: false,
        });
        all.min = all.min.min(value);
        all.max = all.max.max(value);
        all.sum = all.sum.saturating_add(value);
        all.magnitude = all.magnitude.saturating_add(value.unsigned_abs());
        if !all.at_limit {
            let (least, most) = sum_limits(datatype);
            let sum = all.stopped.saturating_add(value);
            all.at_limit = sum < least || sum > most;
            all.stopped = sum.clamp(least, most);
        }
    }

    fn merge(self, next: Self) -> Self {
        Self {
            min: self.min.min(next.min),
            max: self.max.max(next.max),
            sum: self.sum.saturating_add(next.sum),
            magnitude: self.magnitude.saturating_add(next.magnitude),
            // The sum of several tiles is made from the sums of the tiles.
            stopped: self.stopped,
            at_limit: self.at_limit || next.at_limit,
        }
    }
}

impl FloatStatistics {
    fn add(to: &mut Option<Self>, datatype: Datatype, value: f64) {
        let (greatest, least) = sentinels(datatype);
        let all = to.get_or_insert(Self {
            min: f64::NAN,
            max: f64::NAN,
            found_min: greatest,
            found_max: least,
            sum: 0.0,
            magnitude: 0.0,
            stopped: 0.0,
            at_limit: false,
            count: 0,
            nan: false,
        });
        // `f64::min` and `f64::max` ignore NaN.
        all.min = all.min.min(value);
        all.max = all.max.max(value);
        all.found_min = if all.found_min < value {
            all.found_min
        } else {
            value
        };
        all.found_max = if all.found_max > value {
            all.found_max
        } else {
            value
        };
        all.sum += value;
        all.magnitude += value.abs();
        if !all.at_limit {
            (all.stopped, all.at_limit) = stop_at_limit(all.stopped, value);
        }
        all.count = all.count.saturating_add(1);
        all.nan |= value.is_nan();
    }

    fn merge(self, next: Self) -> Self {
        Self {
            min: self.min.min(next.min),
            max: self.max.max(next.max),
            sum: self.sum + next.sum,
            magnitude: self.magnitude + next.magnitude,
            count: self.count.saturating_add(next.count),
            nan: self.nan || next.nan,
            at_limit: self.at_limit || next.at_limit,
            ..self
        }
    }

    /// Whether the order of addition changes more of the sum than its last digits.
    pub fn depends_on_order(&self) -> bool {
        self.at_limit || !self.magnitude.is_finite()
    }
}

/// The next sum of a loop that stops at the limits of `f64`, and whether it stops.
pub fn stop_at_limit(sum: f64, value: f64) -> (f64, bool) {
    let same_sign = (sum < 0.0) == (value < 0.0);
    if same_sign && sum.abs() > f64::MAX - value.abs() {
        let limit = if sum < 0.0 { f64::MIN } else { f64::MAX };
        return (limit, true);
    }
    (sum + value, false)
}

impl TextStatistics {
    fn add(to: &mut Option<Self>, value: &[u8]) {
        let Some(all) = to else {
            *to = Some(Self {
                min: value.to_vec(),
                max: value.to_vec(),
                nul: value.contains(&0),
            });
            return;
        };
        if value < all.min.as_slice() {
            all.min = value.to_vec();
        }
        if value > all.max.as_slice() {
            all.max = value.to_vec();
        }
        all.nul |= value.contains(&0);
    }

    fn merge(self, next: Self) -> Self {
        Self {
            min: self.min.min(next.min),
            max: self.max.max(next.max),
            nul: self.nul || next.nul,
        }
    }
}

/// A stored integer, date, time, boolean or character.
#[inline]
pub fn integer(datatype: Datatype, bytes: &[u8]) -> Option<i128> {
    let mut wide = [0; 8];
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    let unsigned = u64::from_le_bytes(wide);
    if !is_signed(datatype) {
        return Some(i128::from(unsigned));
    }
    let unused = u32::try_from(64_usize.checked_sub(bytes.len().checked_mul(8)?)?).ok()?;
    let value = unsigned.checked_shl(unused)?.cast_signed() >> unused;
    Some(i128::from(value))
}

/// Whether integers of this type are summed as signed numbers.
pub fn is_signed(datatype: Datatype) -> bool {
    datatype.is_signed() || datatype == Datatype::Char
}

/// Whether values of this type are integers to its statistics.
pub fn is_integer(datatype: Datatype) -> bool {
    let dated = datatype.is_datetime() || datatype.is_time();
    let small = matches!(datatype, Datatype::Bool | Datatype::Char);
    datatype.is_integer() || dated || small
}

/// A stored float.
#[inline]
pub fn float(datatype: Datatype, bytes: &[u8]) -> Option<f64> {
    match datatype {
        Datatype::Float32 => Some(f64::from(f32::from_le_bytes(bytes.try_into().ok()?))),
        _ => Some(f64::from_le_bytes(bytes.try_into().ok()?)),
    }
}

/// The limits of sums.
pub fn sum_limits(datatype: Datatype) -> (i128, i128) {
    if is_signed(datatype) {
        (i128::from(i64::MIN), i128::from(i64::MAX))
    } else {
        (0, i128::from(u64::MAX))
    }
}

/// A stored sum of integers.
pub fn stored_sum(datatype: Datatype, bits: u64) -> i128 {
    if is_signed(datatype) {
        i128::from(bits.cast_signed())
    } else {
        i128::from(bits)
    }
}

/// The largest and the lowest value of a type, with which writers begin a minimum and a maximum.
pub fn sentinels(datatype: Datatype) -> (f64, f64) {
    match datatype {
        Datatype::Float32 => (f64::from(f32::MAX), f64::from(f32::MIN)),
        _ => (f64::MAX, f64::MIN),
    }
}

/// Whether two floats are the same to a reader of statistics: numbers, or both NaN.
pub fn same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(values: &[f64]) -> FloatStatistics {
        let mut all = None;
        for value in values {
            FloatStatistics::add(&mut all, Datatype::Float64, *value);
        }
        all.unwrap()
    }

    #[test]
    fn a_nan_resets_what_a_loop_finds() {
        let all = floats(&[1.0, f64::NAN, 5.0, 2.0]);
        assert_eq!((all.min, all.max), (1.0, 5.0));
        assert_eq!((all.found_min, all.found_max), (2.0, 5.0));
        assert!(all.sum.is_nan() && all.nan);
        let all = floats(&[f64::NAN, f64::NAN]);
        assert!(all.min.is_nan() && all.found_min.is_nan());
    }

    #[test]
    fn sums_stop_at_their_limits() {
        let all = floats(&[f64::MAX, f64::MAX, -1.0]);
        assert_eq!(all.stopped, f64::MAX);
        assert!(all.depends_on_order());
        let mut integers = None;
        for value in [i64::MAX, 1, -5] {
            IntegerStatistics::add(&mut integers, Datatype::Int64, value.into());
        }
        let integers = integers.unwrap();
        assert_eq!(integers.stopped, i128::from(i64::MAX));
        assert_eq!(integers.sum, i128::from(i64::MAX) - 4);
    }

    #[test]
    fn tiles_add_up() {
        let mut first = ComputedStatistics {
            cells: 3,
            nulls: 1,
            floats: Some(floats(&[1.0, f64::NAN])),
            ..ComputedStatistics::default()
        };
        first.merge(ComputedStatistics {
            cells: 2,
            floats: Some(floats(&[-1.0, 7.0])),
            ..ComputedStatistics::default()
        });
        assert_eq!((first.cells, first.nulls, first.values()), (5, 1, 4));
        let all = first.floats.unwrap();
        assert_eq!((all.min, all.max, all.count, all.nan), (-1.0, 7.0, 4, true));
    }

    #[test]
    fn integers_of_every_width() {
        assert_eq!(integer(Datatype::Int8, &[0xff]), Some(-1));
        assert_eq!(integer(Datatype::Char, &[0x80]), Some(-128));
        assert_eq!(integer(Datatype::UInt8, &[0xff]), Some(255));
        assert_eq!(integer(Datatype::Bool, &[1]), Some(1));
        let lowest = i64::MIN.to_le_bytes();
        assert_eq!(
            integer(Datatype::DateTimeMs, &lowest),
            Some(i64::MIN.into())
        );
        assert_eq!(integer(Datatype::UInt64, &[0xff; 8]), Some(u64::MAX.into()));
        assert_eq!(integer(Datatype::UInt64, &[0; 9]), None);
    }
}
