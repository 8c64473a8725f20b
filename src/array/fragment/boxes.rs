//! In which boxes the cells of a fragment's tiles lie, as far as its metadata can be believed.
//!
//! A tile's box is its MBR, but an MBR does not always mean what it says. Whoever rules something out by where cells lie
//! asks here, and hears of each dimension a [`TileRange`]: a range that holds all cells, one that holds all but NaN, or that
//! nothing is known. What is not known rules nothing out, and is no error.
//!
//! - **NaN.** libtiledb takes NaN for a coordinate of a float dimension, because it is neither below nor above the domain.
//!   MBRs are smallest and largest values found by comparisons, in which NaN has no part: `[1, NaN, 5]` lies in `[1, 5]`. If
//!   the first cell of a tile is NaN, both ends are, whatever the other cells are. In the union of such MBRs, the non-empty
//!   domain, those before it are forgotten: of the cells 0 to 99 with five NaN among them libtiledb 2.30 says `[0, 55]`. So
//!   the non-empty domain of floats proves nothing but for a fragment of one tile, whose MBR it is. That a tile has no NaN,
//!   its sum can prove: NaN is in it, as long as no number is near the limits at which sums stop. Sums are there since
//!   format 11, and read when something depends on them.
//! - **Filters that lose something.** MBRs are of what was written; what is shown, compared and tested is what is read back.
//!   So it is in libtiledb for copies of a cell in several fragments, and for the cells of a tile that a range cuts; a tile
//!   that lies in a range by its MBR it shows whole. Float scaling keeps the order of values, so the two ends read back are
//!   ends of what is read back, if they are in reach of its integers and no value is NaN, which becomes any integer.
//! - **Dates of libtiledb 1.6 and 1.7** (formats 3 and 4). Unordered writes compared them as unsigned numbers: dates before
//!   1970 come after all others. An MBR that has both has its low end above its high end, and neither is an end. The
//!   non-empty domain, a union of such ends, looks like a range, but is too narrow.

#[cfg(test)]
mod tests;
mod tile_range;

use std::sync::{Arc, OnceLock};

pub use tile_range::TileRange;
use tile_range::range;

use super::statistics::{FieldStatistics, StatisticsWanted, Sum};
use super::{Fragment, FragmentField, TileIdx};
use crate::error::{ErrorKind, Result};
use crate::filter::FloatScale;
use crate::format::datatype::Datatype;
use crate::format::fragment::rtree::Mbrs;
use crate::format::schema::CellValNum;
use crate::geometry::key;
use crate::geometry::subarray::Subarray;
use crate::storage::Storage;

/// From here on floats are too close to the limits at which sums stop; no tile has so many cells that its sum gets there
/// from values below.
pub const LARGE_FLOAT: f64 = 1e290;
/// The formats of libtiledb 1.6, the first with dates, and of 2.0, the first that compares them as what they are.
const DATES_UNSIGNED: std::ops::Range<u32> = 3..5;

/// The boxes of all tiles of a sparse fragment.
#[derive(Debug)]
pub struct TileBoxes {
    mbrs: Arc<Mbrs>,
    sides: Vec<Side>,
}

/// One dimension.
#[derive(Debug)]
struct Side {
    datatype: Datatype,
    strings: bool,
    told: Told,
    /// Whether cells of both signs were compared as unsigned numbers.
    mixed_signs: bool,
    /// Of floats: which tiles have no NaN, once somebody has looked.
    without_nan: OnceLock<WithoutNan>,
}

/// What the MBRs are of.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Told {
    /// What is read.
    Exactly,
    /// What was written, of which a filter has kept so much.
    Scaled(FloatScale),
    /// Nothing that is read.
    Nothing,
}

/// Which tiles are known to have no NaN.
#[derive(Debug, PartialEq, Eq)]
enum WithoutNan {
    All,
    These(Vec<bool>),
}

impl TileBoxes {
    /// The boxes by the MBRs of a fragment.
    fn new(fragment: &Fragment, mbrs: Arc<Mbrs>) -> Self {
        let version = fragment.footer.version;
        let unsigned = version.since(DATES_UNSIGNED.start) && !version.since(DATES_UNSIGNED.end);
        let dimensions = fragment.schema.dimensions.iter().enumerate();
        let sides = dimensions.map(|(d, dimension)| {
            let datatype = dimension.datatype;
            Side {
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

    /// Between which coordinates of a dimension the cells of a tile lie.
    pub fn range(&self, tile: usize, dimension: usize) -> TileRange<'_> {
        let Some(side) = self.sides.get(dimension) else {
            return TileRange::Unknown;
        };
        let (lo, hi) = self.mbrs.range(tile, dimension);
        match side.told {
            Told::Nothing => TileRange::Unknown,
            Told::Exactly => range(side.datatype, side.strings, lo, hi, side.may_hold_nan(tile)),
            Told::Scaled(_) if side.may_hold_nan(tile) => TileRange::Unknown,
            Told::Scaled(scale) => side.restored(scale, lo, hi).unwrap_or(TileRange::Unknown),
        }
    }

    /// The keys around the cells of a tile; `None` if they are not known.
    pub fn keys(&self, tile: usize, dimension: usize) -> Option<(u64, u64)> {
        self.range(tile, dimension).keys()
    }

    /// Whether a tile may have cells in a subarray, and whether all of its cells are.
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

    /// Whether the cells of the fragment come in the global order of what is read, strings aside, which have an order of
    /// their own. NaN is neither before nor after anything, so where there is one, sorting may leave any order.
    pub fn are_in_order(&self) -> bool {
        self.sides.iter().all(Side::is_in_order)
    }

    /// Whether all of a dimension's coordinates are known to be read as they were written, and none to be NaN.
    pub fn is_plain(&self, dimension: usize) -> bool {
        self.sides.get(dimension).is_some_and(Side::is_plain)
    }

    /// Looks in the sums of tiles for NaN in some dimensions, where that can be told from them and was not looked at before.
    pub async fn look_for_nan(
        &self,
        fragment: &Fragment,
        storage: &Storage,
        dimensions: &[usize],
    ) -> Result<()> {
        let unseen = |d: &usize| self.sides.get(*d).is_some_and(Side::may_look);
        let unseen = dimensions.iter().copied().filter(unseen);
        let unseen = unseen.collect::<Vec<_>>();
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
            // They save work, and nothing is lost without them.
            Err(e) if e.kind() == ErrorKind::Corrupt => return Ok(()),
            Err(e) => return Err(e),
        };
        for (d, sums) in unseen.into_iter().zip(&sums) {
            if let Some(side) = self.sides.get(d) {
                // Whoever was faster has found the same.
                let _ = side.without_nan.set(self.without_nan(d, sums));
            }
        }
        Ok(())
    }

    fn without_nan(&self, dimension: usize, sums: &FieldStatistics) -> WithoutNan {
        let proven = (0..self.len()).map(|tile| {
            let (lo, hi) = self.mbrs.range(tile, dimension);
            proves_no_nan(sums.datatype(), lo, hi, sums.sum(TileIdx(tile as u64)))
        });
        let proven = proven.collect::<Vec<_>>();
        match proven.iter().all(|proven| *proven) {
            true => WithoutNan::All,
            false => WithoutNan::These(proven),
        }
    }

    /// The dimensions in which it would help to know of NaN if some of these tiles are to be chosen by a subarray.
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
                    side.told != Told::Exactly || tiles.clone().any(helps)
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

impl Side {
    fn may_look(&self) -> bool {
        let told = self.told != Told::Nothing;
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
        self.told == Told::Exactly && !nan
    }

    fn is_in_order(&self) -> bool {
        self.is_plain() && !self.mixed_signs
    }

    /// A range of what was written as one of what is read.
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

    /// Whether the MBRs are of what is read of a dimension.
    pub fn tells(&self, dimension: usize) -> bool {
        self.told(dimension) == Told::Exactly
    }

    fn told(&self, dimension: usize) -> Told {
        let filters = self
            .schema
            .dimension_filters(dimension, self.footer.version);
        let stored = self.schema.dimensions.get(dimension);
        match stored {
            Some(_) if !filters.is_lossy() => Told::Exactly,
            Some(stored) => {
                FloatScale::alone(filters, stored.datatype).map_or(Told::Nothing, Told::Scaled)
            }
            None => Told::Nothing,
        }
    }

    /// Between which coordinates of a dimension the cells of a sparse fragment lie, by its non-empty domain.
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

/// Whether a range of stored floats and their sum prove that none is NaN.
fn proves_no_nan(datatype: Datatype, lo: &[u8], hi: &[u8], sum: Option<Sum>) -> bool {
    let (Some(lo), Some(hi), Some(Sum::Float(sum))) =
        (float(datatype, lo), float(datatype, hi), sum)
    else {
        return false;
    };
    // Also false of NaN.
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

/// Whether keys of `i64` are of numbers of different signs.
fn signs_differ(a: u64, b: u64) -> bool {
    const SIGN: u64 = 1 << 63;
    (a ^ b) & SIGN != 0
}

/// Whether tiles have dates both before and after 1970, among them or each for itself.
fn mixes_signs(mbrs: &Mbrs, dimension: usize, datatype: Datatype) -> bool {
    let ends = (0..mbrs.len()).flat_map(|tile| {
        let (lo, hi) = mbrs.range(tile, dimension);
        [key::key(datatype, lo), key::key(datatype, hi)]
    });
    let ends = ends.flatten().collect::<Vec<_>>();
    ends.windows(2)
        .any(|pair| matches!(pair, [a, b] if signs_differ(*a, *b)))
}
