//! The boxes around the cells of a fragment's tiles, as far as its metadata can be trusted.
//!
//! The box of a tile is its MBR, but MBRs are not always bounds of the cells. Everything that prunes by coordinates
//! uses this module, which gives a [`TileRange`] for each dimension: a range that holds all cells, one that holds all
//! but NaN, or an unknown one. An unknown range prunes nothing, and is not an error.
//!
//! - **NaN.** libtiledb accepts NaN as a coordinate of a float dimension, because it is neither below nor above the
//!   domain. MBRs are minima and maxima found by comparisons, which ignore NaN: `[1, NaN, 5]` gets the range `[1, 5]`.
//!   If the first cell of a tile is NaN, both ends are NaN, whatever the other cells are. The non-empty domain, the
//!   union of such MBRs, forgets those before it: for the cells 0 to 99 with five NaN among them, libtiledb 2.30 stores
//!   `[0, 55]`. So the non-empty domain of floats proves nothing, except for a fragment of one tile, whose MBR it is.
//!   The sum of a tile can prove that it has no NaN, because a NaN makes the sum NaN, unless numbers are near the
//!   limits at which sums saturate. Sums exist since format 11, and are read when something depends on them.
//! - **Lossy filters.** MBRs cover the written values, but queries show, compare and test the values read back.
//!   libtiledb does the same for versions of a cell in several fragments, and for the cells of a tile that a range
//!   cuts; a tile whose MBR lies in a range is shown whole. Float scaling keeps the order of values, so the two ends
//!   read back bound the values read back, if they are within the range of its integers and no value is NaN, which
//!   becomes an arbitrary integer.
//! - **Dates of libtiledb 1.6 and 1.7** (formats 3 and 4). Unordered writes compared them as unsigned numbers: dates
//!   before 1970 come after all others. An MBR with both has its low end above its high end, and neither is a bound.
//!   The non-empty domain, a union of such ends, looks like a range, but is too narrow.

mod tile_range;

use std::sync::{Arc, OnceLock};

pub use tile_range::TileRange;
use tile_range::range;

use super::statistics::{FieldStatistics, StatisticsWanted, TileSum};
use super::{Fragment, FragmentField, TileIdx};
use crate::error::{ErrorKind, Result};
use crate::filter::FloatScale;
use crate::format::datatype::Datatype;
use crate::format::fragment::rtree::Mbrs;
use crate::format::schema::CellValNum;
use crate::geometry::key;
use crate::geometry::subarray::Subarray;
use crate::storage::Storage;

/// Floats from here on are too close to the limits at which sums saturate. No tile has so many smaller values that its
/// sum gets there.
pub const LARGE_FLOAT: f64 = 1e290;
/// The formats of libtiledb 1.6, the first with dates, to 1.7, the last that compares them as unsigned numbers.
const DATES_UNSIGNED: std::ops::Range<u32> = 3..5;

/// The boxes of all tiles of a sparse fragment.
#[derive(Debug)]
pub struct TileBoxes {
    mbrs: Arc<Mbrs>,
    sides: Vec<CoordinateSide>,
}

/// The boxes of tiles in one dimension.
#[derive(Debug)]
struct CoordinateSide {
    datatype: Datatype,
    strings: bool,
    told: KnownBox,
    /// Whether dates on both sides of 1970 were compared as unsigned numbers.
    mixed_signs: bool,
    /// For floats, which tiles have no NaN, once their sums have been read.
    without_nan: OnceLock<WithoutNan>,
}

/// How MBRs relate to the values read back.
#[derive(Debug, Clone, Copy, PartialEq)]
enum KnownBox {
    /// They bound the values read back.
    Exactly,
    /// They bound the written values, which float scaling has changed.
    Scaled(FloatScale),
    /// They say nothing about the values read back.
    Nothing,
}

/// Which tiles are proven to have no NaN.
#[derive(Debug, PartialEq, Eq)]
enum WithoutNan {
    All,
    These(Vec<bool>),
}

impl TileBoxes {
    /// The boxes from the MBRs of a fragment.
    fn new(fragment: &Fragment, mbrs: Arc<Mbrs>) -> Self {
        let version = fragment.footer.version;
        let unsigned = version.since(DATES_UNSIGNED.start) && !version.since(DATES_UNSIGNED.end);
        let dimensions = fragment.schema.dimensions.iter().enumerate();
        let sides = dimensions.map(|(d, dimension)| {
            let datatype = dimension.datatype;
            CoordinateSide {
                datatype,
                strings: dimension.cell_val_num == CellValNum::Var,
                told: fragment.told(d),
                mixed_signs: unsigned && datatype.is_datetime() && mixes_signs(&mbrs, d, datatype),
                without_nan: OnceLock::new(),
            }
        });
        Self {
            sides: sides.collect(),
            mbrs,
        }
    }

    /// The MBRs, as they are stored.
    pub fn mbrs(&self) -> &Mbrs {
        &self.mbrs
    }

    /// The number of tiles.
    pub fn len(&self) -> usize {
        self.mbrs.len()
    }

    /// Whether there are no tiles.
    pub fn is_empty(&self) -> bool {
        self.mbrs.is_empty()
    }

    /// The range of a dimension around the cells of a tile.
    pub fn range(&self, tile: usize, dimension: usize) -> TileRange<'_> {
        let Some(side) = self.sides.get(dimension) else {
            return TileRange::Unknown;
        };
        let (lo, hi) = self.mbrs.range(tile, dimension);
        match side.told {
            KnownBox::Nothing => TileRange::Unknown,
            KnownBox::Exactly => {
                range(side.datatype, side.strings, lo, hi, side.may_hold_nan(tile))
            }
            KnownBox::Scaled(_) if side.may_hold_nan(tile) => TileRange::Unknown,
            KnownBox::Scaled(scale) => side.restored(scale, lo, hi).unwrap_or(TileRange::Unknown),
        }
    }

    /// The keys around the cells of a tile; `None` if they are not known.
    pub fn keys(&self, tile: usize, dimension: usize) -> Option<(u64, u64)> {
        self.range(tile, dimension).keys()
    }

    /// Whether a tile may have cells in a subarray, and whether all of its cells are in it.
    pub fn touches_and_lies_in(&self, tile: usize, subarray: &Subarray) -> (bool, bool) {
        let mut inside = true;
        for d in 0..self.sides.len() {
            let ranges = subarray.dim(d);
            if ranges.is_all() {
                continue;
            }
            let range = self.range(tile, d);
            if !range.touches(ranges) {
                return (false, false);
            }
            inside &= range.lies_in(ranges);
        }
        (true, inside)
    }

    /// Whether the cells of the fragment, as read back, are in global order; strings, which are ordered differently,
    /// are not considered. NaN is not ordered, so with NaN sorting may leave any order.
    pub fn are_in_order(&self) -> bool {
        self.sides.iter().all(CoordinateSide::is_in_order)
    }

    /// Whether all coordinates of a dimension are known to be read back as they were written, and not to be NaN.
    pub fn is_plain(&self, dimension: usize) -> bool {
        self.sides
            .get(dimension)
            .is_some_and(CoordinateSide::is_plain)
    }

    /// Reads the sums of tiles to rule out NaN in some dimensions, where sums can prove that and have not been read
    /// before.
    pub async fn look_for_nan(
        &self,
        fragment: &Fragment,
        storage: &Storage,
        dimensions: &[usize],
    ) -> Result<()> {
        let unseen = |d: &usize| self.sides.get(*d).is_some_and(CoordinateSide::may_look);
        let unseen = dimensions
            .iter()
            .copied()
            .filter(unseen)
            .collect::<Vec<_>>();
        if unseen.is_empty() {
            return Ok(());
        }
        let fields = unseen.iter().map(|d| FragmentField::Dimension(*d));
        let wanted = StatisticsWanted {
            sums: true,
            ..StatisticsWanted::default()
        };
        let fields = fields.collect::<Vec<_>>();
        let sums = match fragment.statistics(storage, &fields, wanted).await {
            Ok(sums) => sums,
            // Sums only save work, so damaged ones can be ignored.
            Err(e) if e.kind() == ErrorKind::Corrupt => return Ok(()),
            Err(e) => return Err(e),
        };
        for (d, sums) in unseen.into_iter().zip(&sums) {
            if let Some(side) = self.sides.get(d) {
                // If another thread was faster, it has found the same.
                let _ = side.without_nan.set(self.without_nan(d, sums));
            }
        }
        Ok(())
    }

    fn without_nan(&self, dimension: usize, sums: &FieldStatistics) -> WithoutNan {
        let proven = (0..self.len())
            .map(|tile| {
                let (lo, hi) = self.mbrs.range(tile, dimension);
                proves_no_nan(sums.datatype(), lo, hi, sums.sum(TileIdx(tile as u64)))
            })
            .collect::<Vec<_>>();
        if proven.iter().all(|proven| *proven) {
            WithoutNan::All
        } else {
            WithoutNan::These(proven)
        }
    }

    /// The dimensions in which ruling out NaN may change which of these tiles a subarray selects.
    pub fn in_doubt(
        &self,
        subarray: &Subarray,
        tiles: impl Iterator<Item = usize> + Clone,
    ) -> Vec<usize> {
        let doubtful = |d: &usize| {
            let ranges = subarray.dim(*d);
            let side = self.sides.get(*d).filter(|side| side.may_look());
            match side {
                Some(side) if !ranges.is_all() => {
                    let helps = |tile| self.range(tile, *d).may_change(ranges);
                    side.told != KnownBox::Exactly || tiles.clone().any(helps)
                }
                _ => false,
            }
        };
        (0..self.sides.len()).filter(doubtful).collect()
    }

    /// The dimensions of floats.
    pub fn floats(&self) -> Vec<usize> {
        let sides = self.sides.iter().enumerate();
        let floats = sides.filter(|(_, side)| side.datatype.is_float());
        floats.map(|(d, _)| d).collect()
    }
}

impl CoordinateSide {
    fn may_look(&self) -> bool {
        let told = self.told != KnownBox::Nothing;
        self.datatype.is_float() && told && self.without_nan.get().is_none()
    }

    fn may_hold_nan(&self, tile: usize) -> bool {
        self.datatype.is_float()
            && match self.without_nan.get() {
                Some(WithoutNan::All) => false,
                Some(WithoutNan::These(tiles)) => !tiles.get(tile).copied().unwrap_or(false),
                None => true,
            }
    }

    fn is_plain(&self) -> bool {
        let nan = self.datatype.is_float() && self.without_nan.get() != Some(&WithoutNan::All);
        self.told == KnownBox::Exactly && !nan
    }

    fn is_in_order(&self) -> bool {
        self.is_plain() && !self.mixed_signs
    }

    /// Converts a range of written values to a range of values read back.
    fn restored(&self, scale: FloatScale, lo: &[u8], hi: &[u8]) -> Option<TileRange<'static>> {
        let (lo, hi) = (float(self.datatype, lo)?, float(self.datatype, hi)?);
        let (lo, hi) = scale.restored_between(lo, hi)?;
        let (lo, hi) = (bytes_of(self.datatype, lo), bytes_of(self.datatype, hi));
        match range(self.datatype, false, &lo, &hi, false) {
            TileRange::Keys { lo, hi, nan } => Some(TileRange::Keys { lo, hi, nan }),
            _ => None,
        }
    }
}

impl Fragment {
    /// The boxes of all tiles of a sparse fragment.
    pub async fn boxes(&self, storage: &Storage) -> Result<TileBoxes> {
        let mbrs = self.mbrs(storage).await?;
        Ok(TileBoxes::new(self, mbrs))
    }

    /// Whether the MBRs bound the values read back of a dimension.
    pub fn tells(&self, dimension: usize) -> bool {
        self.told(dimension) == KnownBox::Exactly
    }

    fn told(&self, dimension: usize) -> KnownBox {
        let filters = self
            .schema
            .dimension_filters(dimension, self.footer.version);
        let stored = self.schema.dimensions.get(dimension);
        match stored {
            Some(_) if !filters.is_lossy() => KnownBox::Exactly,
            Some(stored) => FloatScale::alone(filters, stored.datatype)
                .map_or(KnownBox::Nothing, KnownBox::Scaled),
            None => KnownBox::Nothing,
        }
    }

    /// The range of a dimension around the cells of a sparse fragment, by its non-empty domain.
    pub fn non_empty_range(&self, dimension: usize) -> TileRange<'_> {
        let range_of = self.footer.non_empty_domain.as_ref();
        let stored = range_of.and_then(|ranges| ranges.get(dimension));
        let Some((domain, stored)) = self.schema.dimensions.get(dimension).zip(stored) else {
            return TileRange::Unknown;
        };
        let datatype = domain.datatype;
        let one_tile = self.footer.sparse_tile_count == 1;
        if !self.tells(dimension) || (datatype.is_float() && !one_tile) {
            return TileRange::Unknown;
        }
        let strings = domain.cell_val_num == CellValNum::Var;
        let range = range(datatype, strings, &stored.lo, &stored.hi, true);
        let version = self.footer.version;
        let unsigned = version.since(DATES_UNSIGNED.start) && !version.since(DATES_UNSIGNED.end);
        match range {
            TileRange::Keys { lo, hi, .. }
                if unsigned && datatype.is_datetime() && !one_tile && signs_differ(lo, hi) =>
            {
                TileRange::Unknown
            }
            range => range,
        }
    }
}

/// Whether a range of stored floats and their sum prove that none of them is NaN.
fn proves_no_nan(datatype: Datatype, lo: &[u8], hi: &[u8], sum: Option<TileSum>) -> bool {
    let (Some(lo), Some(hi), Some(TileSum::Float(sum))) =
        (float(datatype, lo), float(datatype, hi), sum)
    else {
        return false;
    };
    // This is false for NaN, too.
    let small = |value: f64| value.abs() < LARGE_FLOAT;
    small(lo) && small(hi) && lo <= hi && small(sum)
}

fn float(datatype: Datatype, bytes: &[u8]) -> Option<f64> {
    match datatype {
        Datatype::Float32 => Some(f64::from(f32::from_le_bytes(bytes.try_into().ok()?))),
        Datatype::Float64 => Some(f64::from_le_bytes(bytes.try_into().ok()?)),
        _ => None,
    }
}

fn bytes_of(datatype: Datatype, value: f64) -> Vec<u8> {
    match datatype {
        #[expect(clippy::cast_possible_truncation, reason = "it came from this type")]
        Datatype::Float32 => (value as f32).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    }
}

/// Whether the numbers of two `i64` keys have different signs.
fn signs_differ(a: u64, b: u64) -> bool {
    const SIGN: u64 = 1 << 63;
    (a ^ b) & SIGN != 0
}

/// Whether the tiles have dates both before and after 1970, within one tile or across tiles.
fn mixes_signs(mbrs: &Mbrs, dimension: usize, datatype: Datatype) -> bool {
    let ends = (0..mbrs.len())
        .flat_map(|tile| {
            let (lo, hi) = mbrs.range(tile, dimension);
            [key::key(datatype, lo), key::key(datatype, hi)]
        })
        .flatten()
        .collect::<Vec<_>>();
    ends.windows(2)
        .any(|pair| matches!(pair, [a, b] if signs_differ(*a, *b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::key::NativeKey;
    use crate::geometry::subarray::{DimRanges, KeyRange};

    const F64: Datatype = Datatype::Float64;

    fn of(lo: f64, hi: f64, doubtful: bool) -> TileRange<'static> {
        match range(F64, false, &lo.to_le_bytes(), &hi.to_le_bytes(), doubtful) {
            TileRange::Keys { lo, hi, nan } => TileRange::Keys { lo, hi, nan },
            _ => TileRange::Unknown,
        }
    }

    fn ranges(lo: Option<f64>, hi: Option<f64>) -> DimRanges {
        DimRanges::from_keys(vec![KeyRange {
            lo: lo.map_or(0, NativeKey::to_key),
            hi: hi.map_or(u64::MAX, NativeKey::to_key),
        }])
    }

    #[test]
    fn what_reaches_nan_rules_nothing_out_where_there_may_be_some() {
        let (sure, doubtful) = (of(1.0, 5.0, false), of(1.0, 5.0, true));
        let above = ranges(Some(10.0), None);
        assert!(!sure.touches(&above) && doubtful.touches(&above));
        let below = ranges(None, Some(10.0));
        assert!(sure.lies_in(&below) && !doubtful.lies_in(&below));
        let around = ranges(Some(0.0), Some(10.0));
        assert!(sure.lies_in(&around) && !doubtful.lies_in(&around));
        let apart = ranges(Some(10.0), Some(20.0));
        assert!(!sure.touches(&apart) && !doubtful.touches(&apart));
        assert!(doubtful.lies_in(&DimRanges::all()));
        let nan = DimRanges::from_points([f64::NAN.to_key()]);
        assert!(!sure.touches(&nan) && doubtful.touches(&nan));
        assert_eq!((sure.keys().is_some(), doubtful.keys()), (true, None));
        // Ruling out NaN helps where it changes the selection.
        assert!(doubtful.may_change(&above) && doubtful.may_change(&around));
        assert!(!doubtful.may_change(&apart) && !sure.may_change(&above));
    }

    #[test]
    fn a_range_that_cannot_be_one_is_unknown() {
        assert_eq!(of(f64::NAN, f64::NAN, true), TileRange::Unknown);
        assert_eq!(of(1.0, f64::NAN, false), TileRange::Unknown);
        assert_eq!(of(2.0, 1.0, false), TileRange::Unknown);
        assert_eq!(
            range(F64, false, &[0; 4], &[0; 8], false),
            TileRange::Unknown
        );
        assert_eq!(range(F64, true, b"b", b"a", false), TileRange::Unknown);
        assert!(matches!(
            range(F64, true, b"a", b"b", false),
            TileRange::Bytes { .. }
        ));
        let anywhere = TileRange::Unknown;
        assert!(anywhere.touches(&ranges(Some(1.0), Some(1.0))));
        assert!(!anywhere.touches(&DimRanges::none()));
        assert!(!anywhere.lies_in(&ranges(None, Some(1.0))) && anywhere.lies_in(&DimRanges::all()));
    }

    #[test]
    fn a_sum_far_from_its_limits_proves_that_there_is_no_nan() {
        let proves = |lo: f64, hi: f64, sum: f64| {
            let (lo, hi) = (lo.to_le_bytes(), hi.to_le_bytes());
            proves_no_nan(F64, &lo, &hi, Some(TileSum::Float(sum)))
        };
        assert!(proves(-1.0, 5.0, 20.0) && proves(0.0, 0.0, 0.0));
        assert!(!proves(-1.0, 5.0, f64::NAN) && !proves(-1.0, 5.0, f64::MAX));
        assert!(!proves(f64::NAN, f64::NAN, 0.0) && !proves(-1e300, 1e300, 0.0));
        assert!(!proves(f64::NEG_INFINITY, 1.0, 0.0) && !proves(5.0, 1.0, 3.0));
        assert!(!proves_no_nan(F64, &[0; 8], &[0; 8], None));
        assert!(!proves_no_nan(F64, &[0; 8], &[0; 8], Some(TileSum::Int(3))));
    }

    #[test]
    fn dates_of_both_signs_are_mixed() {
        let (old, new) = ((-3_i64).to_key(), 5_i64.to_key());
        assert!(signs_differ(old, new) && !signs_differ(new, 0_i64.to_key()));
        assert!(!signs_differ(old, (-1_i64).to_key()));
    }
}
