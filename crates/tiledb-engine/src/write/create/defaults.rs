//! The defaults of a new array, which follow from types alone.
//!
//! | | sparse | dense |
//! |---|---|---|
//! | domain | as wide as the type allows; dates from year 1 to 9999, or as far as the unit reaches; times: the day | none: it decides how many cells exist |
//! | extent | the whole domain, as libtiledb has it; none in Hilbert order | such that a tile has [`DENSE_TILE_CELLS`] at most |
//!
//! The default filters never fail, and never make libtiledb fail. The coordinates of the dimension by which cells are sorted
//! first hardly differ from cell to cell, so their differences are stored. `double_delta` is not among the defaults, because it
//! refuses values that lie too far apart. Neither are run lengths of text, because libtiledb cannot read them back beyond 255
//! bytes. Numbers of several bytes are shuffled, because their high bytes are alike. Zstandard has level 3, its own default:
//! libtiledb's -1 is one of the levels that leave out entropy coding, on which shuffled bytes depend.

use super::integer::{self, IntegerSpan};
use super::types::is_integral;
use crate::error::{Error, Result};
use crate::format::datatype::Datatype;
use crate::format::filter_list::{Filter, FilterList, FilterSetting};
use crate::format::schema::Layout;

/// Cells in a tile of a sparse array, as in libtiledb. With ten times as many, points and narrow boxes read up to ten times the bytes,
/// and scans gain nothing, because neighbouring tiles are fetched together; only writing is a little faster.
/// `docs/fast-layout.md` has the measurements.
pub const CAPACITY: u64 = 10_000;
/// The most cells in a tile of a dense array, as the extents are chosen here.
pub const DENSE_TILE_CELLS: u64 = 100_000;
const ZSTD_LEVEL: i32 = 3;
/// The last second of the year 9999, and the first of the year 1.
const FIRST_SECOND: i128 = -62_135_596_800;
const LAST_SECOND: i128 = 253_402_300_799;
const SECONDS_PER_DAY: i128 = 86_400;

/// The widest sensible domain of a type, with room for whole tiles of `extent`; `None` if it has none.
pub(super) fn domain(datatype: Datatype, extent: Option<u64>) -> Option<(Vec<u8>, Vec<u8>)> {
    match datatype {
        Datatype::Float32 => {
            return Some((
                f32::MIN.to_le_bytes().to_vec(),
                f32::MAX.to_le_bytes().to_vec(),
            ));
        }
        Datatype::Float64 => {
            return Some((
                f64::MIN.to_le_bytes().to_vec(),
                f64::MAX.to_le_bytes().to_vec(),
            ));
        }
        other if !is_integral(other) => return None,
        _ => {}
    }
    let (low, high) = widest(datatype);
    let ends = |high| {
        (
            integer::bytes(datatype, low),
            integer::bytes(datatype, high),
        )
    };
    let (low_bytes, high_bytes) = ends(high);
    let high = match extent {
        None => high,
        Some(extent) => {
            let span = IntegerSpan::new(datatype, &low_bytes, &high_bytes).ok()?;
            // An extent that is too large is reported when the extent is checked.
            high.min(span.highest_end(extent)).max(low)
        }
    };
    Some(ends(high))
}

fn widest(datatype: Datatype) -> (i128, i128) {
    use Datatype as D;
    let (min, max) = (integer::min(datatype), integer::max(datatype));
    // libtiledb doesn't accept all values of a type, and the smallest one isn't a time.
    let whole = if datatype.is_integer() {
        (min, max - 1)
    } else {
        (min + 1, max - 1)
    };
    let per_second = |units: i128| {
        let (low, high) = (FIRST_SECOND * units, (LAST_SECOND + 1) * units - 1);
        // Nanoseconds reach from 1677 to 2262.
        (low.max(whole.0), high.min(whole.1))
    };
    let seconds_per = |seconds: i128| {
        (
            FIRST_SECOND.div_euclid(seconds) + i128::from(FIRST_SECOND % seconds != 0),
            LAST_SECOND.div_euclid(seconds),
        )
    };
    let of_day = |units: i128| (0, (SECONDS_PER_DAY * units - 1).min(whole.1));
    match datatype {
        D::DateTimeYear => (-1969, 8029),
        D::DateTimeMonth => (-1969 * 12, 8030 * 12 - 1),
        D::DateTimeWeek => seconds_per(7 * SECONDS_PER_DAY),
        D::DateTimeDay => seconds_per(SECONDS_PER_DAY),
        D::DateTimeHr => seconds_per(3_600),
        D::DateTimeMin => seconds_per(60),
        D::DateTimeSec => per_second(1),
        D::DateTimeMs => per_second(1_000),
        D::DateTimeUs => per_second(1_000_000),
        D::DateTimeNs => per_second(1_000_000_000),
        D::TimeHr => (0, 23),
        D::TimeMin => (0, 1_439),
        D::TimeSec => of_day(1),
        D::TimeMs => of_day(1_000),
        D::TimeUs => of_day(1_000_000),
        D::TimeNs => of_day(1_000_000_000),
        D::TimePs => of_day(1_000_000_000_000),
        D::TimeFs => of_day(1_000_000_000_000_000),
        _ => whole,
    }
}

/// The extent of a dimension of a sparse array: its whole domain, as libtiledb has it.
pub(super) fn whole_domain(datatype: Datatype, low: &[u8], high: &[u8]) -> Result<Vec<u8>> {
    if datatype.is_float() {
        let (low, high) = (integer::float(low), integer::float(high));
        return Ok(integer::float_size(datatype, low, high));
    }
    let size = IntegerSpan::new(datatype, low, high)?.size();
    Ok(integer::bytes(datatype, size))
}

/// The most extents that are tried to find one that divides a dimension evenly.
const MOST_EVEN_TRIED: u64 = 1_000;

/// The extents of a dense array, with some of them given: as near to a cube as the domain allows.
pub(super) fn dense_extents(domains: &[(IntegerSpan, Option<u64>)]) -> Result<Vec<u64>> {
    // libtiledb counts the cells of a tile in the type of the dimensions, and crashes if it writes more than that can count.
    let countable = domains
        .iter()
        .map(|(span, _)| span.type_max())
        .min()
        .and_then(|most| u64::try_from(most).ok());
    let most = countable.map_or(DENSE_TILE_CELLS, |most| most.min(DENSE_TILE_CELLS));
    let given = domains.iter().filter_map(|(_, extent)| *extent);
    let mut budget = given
        .fold(most, |budget, extent| budget / extent.max(1))
        .max(1);
    let mut open: Vec<_> = (0..domains.len())
        .filter(|index| {
            domains
                .get(*index)
                .is_some_and(|(_, extent)| extent.is_none())
        })
        .collect();
    let span = |index: &usize| domains.get(*index).map(|(span, _)| *span);
    // The wider dimensions get the room that a narrow one leaves.
    open.sort_by_key(|index| span(index).map(IntegerSpan::size));
    let mut extents: Vec<u64> = domains
        .iter()
        .map(|(_, given)| given.unwrap_or(1))
        .collect();
    let mut left = open.len();
    for index in open {
        let (Some(span), Some(slot)) = (span(&index), extents.get_mut(index)) else {
            return Err(Error::internal("a dimension without a domain"));
        };
        let side = root(budget, left);
        let size = u64::try_from(span.size()).unwrap_or(u64::MAX);
        *slot = fitting(span, even(size, side));
        budget = (budget / (*slot).max(1)).max(1);
        left -= 1;
    }
    Ok(extents)
}

/// The largest number whose power `degree` is at most `number`.
fn root(number: u64, degree: usize) -> u64 {
    let power = |base: u64| u32::try_from(degree).ok().and_then(|d| base.checked_pow(d));
    let (mut low, mut high) = (1, number);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        match power(middle) {
            Some(power) if power <= number => low = middle,
            _ => high = middle - 1,
        }
    }
    low
}

/// The extent of at most `side` whose last tile ends nearest to the end of a dimension of `size`, among those that need at most
/// a quarter more tiles than `side` does. Cells beyond the end are stored, and a tile with such cells is read cell by cell
/// where statistics are enough for other tiles.
fn even(size: u64, side: u64) -> u64 {
    if size <= side {
        return size;
    }
    let usual = size.div_ceil(side);
    let most = (usual + usual / 4).min(usual.saturating_add(MOST_EVEN_TRIED));
    let by_parts = (usual..=most).map(|parts| {
        let extent = size.div_ceil(parts);
        let beyond = u128::from(size.div_ceil(extent)) * u128::from(extent) - u128::from(size);
        (beyond, extent.abs_diff(side), extent)
    });
    by_parts.min().map_or(side, |(.., extent)| extent)
}

/// The extent, or a smaller one with which the last tile ends within the type.
fn fitting(span: IntegerSpan, mut extent: u64) -> u64 {
    while extent > 1 && !span.has_room(extent) {
        extent /= 2;
    }
    extent.max(1)
}

/// The filters of the values of a dimension.
pub(super) fn dimension_filters(datatype: Datatype, sorted_first: bool) -> FilterList {
    if sorted_first && is_integral(datatype) && datatype.size() > 1 {
        return filters(&[Filter::Delta(None), Filter::ByteShuffle]);
    }
    attribute_filters(datatype)
}

/// The filters of the values of an attribute.
pub(super) fn attribute_filters(datatype: Datatype) -> FilterList {
    if datatype.size() > 1 && !datatype.is_string() {
        filters(&[Filter::ByteShuffle])
    } else {
        filters(&[])
    }
}

/// The filters of coordinates without their own, and of the times of cells.
pub(super) fn coords_filters() -> FilterList {
    filters(&[])
}

/// The filters of offsets: these ascend, and the length of most cells fits a byte or two of eight.
pub(super) fn offsets_filters() -> FilterList {
    filters(&[Filter::PositiveDelta, Filter::ByteShuffle])
}

/// The filters of validity bytes, most of which are like the one before.
pub(super) fn validity_filters() -> FilterList {
    FilterList::of([(Filter::Rle, FilterSetting::Level(-1))])
}

/// These filters, then a compressor.
fn filters(first: &[Filter]) -> FilterList {
    let first = first.iter().map(|filter| {
        let setting = match filter {
            Filter::PositiveDelta => FilterSetting::Window(FilterSetting::POSITIVE_DELTA_WINDOW),
            Filter::Delta(_) => FilterSetting::Level(-1),
            _ => FilterSetting::None,
        };
        (filter.clone(), setting)
    });
    FilterList::of(first.chain([(Filter::Zstd, FilterSetting::Level(ZSTD_LEVEL))]))
}

/// Whether cells are sorted by a dimension before all others.
pub(super) fn is_sorted_first(index: usize, dimensions: usize, cell_order: Layout) -> bool {
    match cell_order {
        Layout::RowMajor => index == 0,
        Layout::ColMajor => index.checked_add(1) == Some(dimensions),
        Layout::Hilbert => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::create::literal::show_element;

    fn shown(datatype: Datatype, extent: Option<u64>) -> String {
        let (low, high) = domain(datatype, extent).unwrap();
        format!(
            "{} {}",
            show_element(datatype, &low),
            show_element(datatype, &high)
        )
    }

    #[test]
    fn domains_are_wide_and_leave_room() {
        use Datatype as D;
        assert_eq!(shown(D::Int8, None), "-128 126");
        assert_eq!(shown(D::Int8, Some(100)), "-128 71");
        assert_eq!(shown(D::UInt8, Some(64)), "0 254");
        assert_eq!(shown(D::UInt64, None), "0 18446744073709551614");
        assert_eq!(shown(D::DateTimeDay, None), "0001-01-01 9999-12-31");
        assert_eq!(shown(D::DateTimeYear, None), "0001 9999");
        assert_eq!(shown(D::DateTimeMonth, None), "0001-01 9999-12");
        assert_eq!(
            shown(D::DateTimeMs, None),
            "0001-01-01T00:00:00.000 9999-12-31T23:59:59.999"
        );
        assert_eq!(
            shown(D::DateTimeNs, None),
            "1677-09-21T00:12:43.145224193 2262-04-11T23:47:16.854775806"
        );
        assert_eq!(shown(D::TimeMin, None), "00:00:00 23:59:00");
        assert_eq!(domain(D::StringAscii, None), None);
        for datatype in D::ALL.iter().filter(|d| is_integral(**d)) {
            for extent in [None, Some(1), Some(7), Some(20)] {
                let (low, high) = domain(*datatype, extent).unwrap();
                let span = IntegerSpan::new(*datatype, &low, &high).unwrap();
                assert!(!span.is_whole_type() && span.low <= span.high, "{datatype}");
                assert!(
                    extent.is_none_or(|e| span.has_room(e)),
                    "{datatype} {extent:?}"
                );
            }
        }
    }

    #[test]
    fn dense_tiles_are_near_cubes() {
        let span = |size: i32| {
            let (low, high) = (1_i32.to_le_bytes(), size.to_le_bytes());
            IntegerSpan::new(Datatype::Int32, &low, &high).unwrap()
        };
        let extents = |sizes: &[(i32, Option<u64>)]| {
            let domains: Vec<_> = sizes
                .iter()
                .map(|(size, given)| (span(*size), *given))
                .collect();
            dense_extents(&domains).unwrap()
        };
        assert_eq!(extents(&[(1_000_000, None)]), [100_000]);
        assert_eq!(extents(&[(10_000, None), (10_000, None)]), [250, 400]);
        assert_eq!(
            extents(&[(4, None), (10_000, None), (10_000, None)]),
            [4, 125, 200]
        );
        assert_eq!(
            extents(&[(96, None), (720, None), (1_440, None)]),
            [32, 48, 60]
        );
        // Nothing divides a prime number: five tiles of 202 cells end one cell beyond 1,009, and three of 337 two.
        assert_eq!(extents(&[(1_009, None), (1_009, None)]), [202, 337]);
        assert_eq!(
            extents(&[(10_000, Some(1_000)), (10_000, None)]),
            [1_000, 100]
        );
        assert_eq!(
            extents(&[(10_000, Some(1_000_000)), (10, None)]),
            [1_000_000, 1]
        );
        // Cells of a tile are counted in the type of the dimensions.
        let narrow = IntegerSpan::new(Datatype::UInt8, &[63], &[116]).unwrap();
        let other = IntegerSpan::new(Datatype::UInt8, &[0], &[4]).unwrap();
        assert_eq!(
            dense_extents(&[(narrow, None), (other, None)]).unwrap(),
            [27, 5]
        );
        // The last tile must end before the largest value.
        let (low, high) = (0_i32.to_le_bytes(), (i32::MAX - 1).to_le_bytes());
        let wide = IntegerSpan::new(Datatype::Int32, &low, &high).unwrap();
        let found = dense_extents(&[(wide, None)]).unwrap();
        assert!(wide.has_room(found[0]) && found[0] <= 100_000, "{found:?}");
    }
}
