//! What the statistics of one tile prove about its cells.

use super::{
    FieldTrust, RequestedAggregates, StatisticsKind, StoredTileStatistics, integer, small_bounds,
    small_sum,
};
use crate::array::fragment::statistics::TileSum;
use crate::format::datatype::Datatype;

/// Proven aggregates of the cells of one tile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProvenAggregates<'a> {
    /// The number of cells that are not NULL.
    pub count: u64,
    /// The minimum, if requested and if there is a value.
    pub min: Option<&'a [u8]>,
    /// The maximum, if requested and if there is a value.
    pub max: Option<&'a [u8]>,
    /// The sum, if requested; zero if there are no values.
    pub sum: Option<TileSum>,
    /// An upper bound of the sum of the absolute values.
    pub magnitude: u128,
}

impl FieldTrust {
    /// The number of cells of a tile that are stored as NULL, if known.
    pub fn null_count(&self, stored: &StoredTileStatistics<'_>) -> Option<u64> {
        match (self.nullable, self.null_counts) {
            (false, _) => Some(0),
            (true, true) => stored.null_count,
            (true, false) => None,
        }
    }

    /// The stored bounds of the values in a tile of `cells` cells, if its statistics prove them.
    pub fn limits<'a>(
        &self,
        cells: u64,
        stored: &StoredTileStatistics<'a>,
    ) -> Option<(&'a [u8], &'a [u8])> {
        // A tile of NULLs has no values, whatever bounds it stores.
        let values = cells.checked_sub(self.null_count(stored)?)?;
        let (min, max) = (stored.min?, stored.max?);
        let proven = match self.kind {
            StatisticsKind::Float(datatype) => {
                small_sum(stored.sum).is_some() && small_bounds(datatype, min, max).is_some()
            }
            _ => true,
        };
        (self.bounds && values > 0 && proven).then_some((min, max))
    }

    /// The aggregates of a tile of `cells` cells; `None` if its statistics do not prove them.
    pub fn check<'a>(
        &self,
        asked: &RequestedAggregates,
        cells: u64,
        stored: StoredTileStatistics<'a>,
    ) -> Option<ProvenAggregates<'a>> {
        if !self.may_know(asked) {
            return None;
        }
        let nulls = if self.nullable { stored.null_count? } else { 0 };
        let count = cells.checked_sub(nulls)?;
        let mut known = ProvenAggregates {
            count,
            min: None,
            max: None,
            sum: None,
            magnitude: 0,
        };
        if count == 0 {
            // The stored bounds are meaningless then.
            return Some(known);
        }
        match self.kind {
            StatisticsKind::Integer(datatype) => {
                self.integers(datatype, asked, &stored, &mut known)?
            }
            StatisticsKind::Float(datatype) => self.floats(datatype, asked, &stored, &mut known)?,
            StatisticsKind::Text => {
                if self.fill_is_null && !stored.max.is_some_and(<[u8]>::is_ascii) {
                    return None;
                }
                // Writers compare up to the first NUL byte; a bound without NUL is still exact.
                let sound = |bound: Option<&[u8]>| bound.is_some_and(|b| !b.contains(&0));
                if (asked.min && !sound(stored.min)) || (asked.max && !sound(stored.max)) {
                    return None;
                }
            }
            StatisticsKind::Other => {}
        }
        known.min = stored.min.filter(|_| asked.min);
        known.max = stored.max.filter(|_| asked.max);
        Some(known)
    }

    fn integers(
        &self,
        datatype: Datatype,
        asked: &RequestedAggregates,
        stored: &StoredTileStatistics<'_>,
        known: &mut ProvenAggregates<'_>,
    ) -> Option<()> {
        let mut largest = 1_u128 << (8 * datatype.size());
        if self.needs_bounds(asked) {
            let (lo, hi) = (
                integer(datatype, stored.min?)?,
                integer(datatype, stored.max?)?,
            );
            let is_nat = self.nat_is_null && lo == i128::from(i64::MIN);
            let unknown_code = self
                .codes
                .is_some_and(|codes| lo < 0 || usize::try_from(hi).map_or(true, |hi| hi >= codes));
            if lo > hi || is_nat || unknown_code {
                return None;
            }
            largest = lo.unsigned_abs().max(hi.unsigned_abs());
        }
        if asked.sum.is_some() {
            let sum = stored.sum?;
            let limit = match sum {
                TileSum::Int(_) => u128::from(i64::MAX.unsigned_abs()),
                TileSum::UInt(_) => u128::from(u64::MAX),
                TileSum::Float(_) => return None,
            };
            known.magnitude = largest.checked_mul(u128::from(known.count))?;
            // Sums that could reach the limit may have saturated.
            if known.magnitude > limit {
                return None;
            }
            known.sum = Some(sum);
        }
        Some(())
    }

    fn floats(
        &self,
        datatype: Datatype,
        asked: &RequestedAggregates,
        stored: &StoredTileStatistics<'_>,
        known: &mut ProvenAggregates<'_>,
    ) -> Option<()> {
        if !self.needs_sum(asked) {
            return Some(());
        }
        let sum = small_sum(stored.sum)?;
        if self.needs_bounds(asked) {
            let (lo, hi) = small_bounds(datatype, stored.min?, stored.max?)?;
            // Writers treat zeros of either sign as equal, readers do not.
            if (asked.min && lo == 0.0) || (asked.max && hi == 0.0) {
                return None;
            }
        }
        known.sum = asked.sum.map(|_| TileSum::Float(sum));
        Some(())
    }
}
