//! The statistics of a whole fragment, against its cells and against those of its tiles, from which libtiledb puts them
//! together.

use std::cmp::Ordering;

use super::compute::{
    ComputedStatistics, TileContents, float, same, sentinels, stop_at_limit, stored_sum, sum_limits,
};
use super::tiles::StatisticMismatch;
use super::{
    ExtremeKind, close, is_true, is_true_sum, show_sum, shown, shown_sum, sum_depends_on_order,
};
use crate::array::fragment::{Fragment, TileIdx};
use crate::format::datatype::Datatype;
use crate::format::domain_range::{compare_values, show_value};
use crate::format::fragment::statistics::{SlotStatistics, TileMinMax};
use crate::maintain::check::fragment::{CheckedField, SoundFragment, StoredFieldStatistics};
use crate::maintain::check::rule::Rule;

/// The statistics of the cells of a fragment so far, by field.
#[derive(Debug)]
pub struct FragmentTotals {
    fields: Vec<FieldTotal>,
}

/// The statistics of one field.
#[derive(Debug)]
struct FieldTotal {
    /// The statistics of the cells that hold data, and of all stored cells; `None` if a tile could not be read.
    of_cells: Option<(ComputedStatistics, ComputedStatistics)>,
}

impl FragmentTotals {
    pub fn new(fields: usize) -> Self {
        let empty = || FieldTotal {
            of_cells: Some(Default::default()),
        };
        Self {
            fields: (0..fields).map(|_| empty()).collect(),
        }
    }

    /// Adds a tile, field by field.
    pub fn add(&mut self, tile: Vec<Option<TileContents>>) {
        let mut tile = tile.into_iter();
        for total in &mut self.fields {
            match (tile.next().flatten(), &mut total.of_cells) {
                (Some(seen), Some((visible, whole))) => {
                    whole.merge(seen.whole.unwrap_or_else(|| seen.visible.clone()));
                    visible.merge(seen.visible);
                }
                (None, of_cells) => *of_cells = None,
                (Some(_), None) => {}
            }
        }
    }

    /// Compares the stored statistics of the fragment.
    pub fn compare<'a>(
        self,
        sound: &SoundFragment,
        fields: impl Iterator<Item = (&'a CheckedField, &'a StoredFieldStatistics)>,
        exact: bool,
    ) -> Vec<StatisticMismatch> {
        let Some(statistics) = &sound.statistics else {
            return Vec::new();
        };
        let mut wrong = Vec::new();
        for (total, (field, tiles)) in self.fields.into_iter().zip(fields) {
            let Some(stored) = statistics.slots.get(field.slot) else {
                continue;
            };
            let of = OfField {
                fragment: &sound.fragment,
                field,
                tiles,
                stored,
                of_cells: total.of_cells,
                exact,
            };
            wrong.extend(of.compare());
        }
        wrong
    }
}

struct OfField<'a> {
    fragment: &'a Fragment,
    field: &'a CheckedField,
    tiles: &'a StoredFieldStatistics,
    stored: &'a SlotStatistics,
    of_cells: Option<(ComputedStatistics, ComputedStatistics)>,
    exact: bool,
}

impl OfField<'_> {
    fn compare(&self) -> Vec<StatisticMismatch> {
        let field = self.field;
        let mut wrong = Vec::new();
        if field.nullable && !field.validity_lost {
            wrong.extend(self.null_count());
        }
        if field.lossy || field.is_geometry() || field.validity_lost {
            return wrong;
        }
        if field.has_min_max() {
            wrong.extend(self.end(ExtremeKind::Min, &self.stored.min, &self.tiles.mins));
            wrong.extend(self.end(ExtremeKind::Max, &self.stored.max, &self.tiles.maxes));
        }
        if field.has_sum() {
            wrong.extend(self.sum());
        }
        wrong
    }

    fn null_count(&self) -> Option<StatisticMismatch> {
        let stored = self.stored.null_count;
        let counts = self.tiles.null_counts.iter();
        let of_tiles = counts.fold(0_u64, |sum, count| sum.wrapping_add(*count));
        let of_cells = self.of_cells.as_ref().map(|(visible, _)| visible.nulls);
        let fits = of_cells.is_none_or(|nulls| stored == nulls);
        if fits || (!self.exact && stored == of_tiles) {
            return None;
        }
        Some(StatisticMismatch {
            rule: Rule::FragmentNullCount,
            what: format!("fragment null count of {}", self.field),
            found: format!("{stored} NULLs"),
            expected: format!("{}, the number of NULLs", of_cells.unwrap_or(of_tiles)),
        })
    }

    fn end(
        &self,
        end: ExtremeKind,
        stored: &[u8],
        tiles: &TileMinMax,
    ) -> Option<StatisticMismatch> {
        let field = self.field;
        let (visible, whole) = self.of_cells.as_ref()?;
        if visible.values() == 0 || is_true(field, visible, end, stored) {
            return None;
        }
        let odd = || {
            let dense = self.fragment.footer.dense;
            (dense && is_true(field, whole, end, stored))
                || self.folded(end, tiles, stored)
                // After a tile of NULLs, libtiledb reads the wrong values.
                || (field.nullable && is_fixed_text(field))
        };
        if !self.exact && odd() {
            return None;
        }
        let rule = match end {
            ExtremeKind::Min => Rule::FragmentMin,
            ExtremeKind::Max => Rule::FragmentMax,
        };
        Some(StatisticMismatch {
            rule,
            what: format!("fragment {end} of {field}"),
            found: format!("the {end} {}", show_value(field.datatype, stored)),
            expected: format!("{}, that of the cells", shown(field, visible, end)),
        })
    }

    /// Whether `stored` is the extreme of the tiles' stored values, as a loop over them finds it.
    fn folded(&self, end: ExtremeKind, tiles: &TileMinMax, stored: &[u8]) -> bool {
        let (field, size) = (self.field, self.field.cell_size());
        let kept = (0..)
            .map_while(|tile| Some((tile, tiles.value(tile, size)?)))
            .filter(|(tile, _)| !self.is_all_null(*tile));
        if field.datatype.is_float() {
            let (greatest, least) = sentinels(field.datatype);
            let values = kept.filter_map(|(_, value)| float(field.datatype, value));
            let found = match end {
                ExtremeKind::Min => values.fold(greatest, |min, v| if min < v { min } else { v }),
                ExtremeKind::Max => values.fold(least, |max, v| if max > v { max } else { v }),
            };
            return float(field.datatype, stored).is_some_and(|stored| same(stored, found));
        }
        let wanted = match end {
            ExtremeKind::Min => Ordering::Less,
            ExtremeKind::Max => Ordering::Greater,
        };
        let better = |a: &[u8], b: &[u8]| match field.datatype {
            Datatype::Bool => a.cmp(b) == wanted,
            datatype => compare_values(datatype, a, b) == Some(wanted),
        };
        let found = kept
            .map(|(_, value)| value)
            .reduce(|best, value| if better(value, best) { value } else { best });
        found.is_some_and(|found| {
            let up_to_nul = |bytes: &[u8]| bytes.split(|b| *b == 0).next().map(<[u8]>::to_vec);
            let text = matches!(field.datatype, Datatype::Char | Datatype::StringAscii);
            found == stored || (text && up_to_nul(found) == up_to_nul(stored))
        })
    }

    fn is_all_null(&self, tile: usize) -> bool {
        let cells = self.fragment.stored_tile_cells(TileIdx(tile as u64));
        let cells = cells.ok().map(|cells| cells as u64);
        self.field.nullable && self.tiles.null_counts.get(tile).copied() == cells
    }

    fn sum(&self) -> Option<StatisticMismatch> {
        let field = self.field;
        let stored = u64::from_le_bytes(self.stored.sum);
        let (visible, whole) = self.of_cells.as_ref()?;
        if is_true_sum(field, visible, stored) {
            return None;
        }
        let odd = || {
            let dense = self.fragment.footer.dense;
            (dense && is_true_sum(field, whole, stored))
                || sum_depends_on_order(field, whole)
                || self.is_folded_sum(stored, whole)
                || (field.datatype == Datatype::Char && stored == 0)
        };
        if !self.exact && odd() {
            return None;
        }
        // A sum beyond the limits of its type has no true value.
        if self.exact && sum_depends_on_order(field, visible) {
            return None;
        }
        Some(StatisticMismatch {
            rule: Rule::FragmentSum,
            what: format!("fragment sum of {field}"),
            found: format!("the sum {}", show_sum(field.datatype, stored)),
            expected: format!("{}, that of the cells", shown_sum(visible)),
        })
    }

    /// Whether `stored` is the sum of the tiles' stored sums, as a loop over them finds it.
    fn is_folded_sum(&self, stored: u64, whole: &ComputedStatistics) -> bool {
        let datatype = self.field.datatype;
        let sums = self
            .tiles
            .sums
            .iter()
            .enumerate()
            .filter(|(tile, _)| !self.is_all_null(*tile));
        if datatype.is_float() {
            let mut sum = 0.0;
            for (_, bits) in sums {
                let (next, stop) = stop_at_limit(sum, f64::from_bits(*bits));
                sum = next;
                if stop {
                    break;
                }
            }
            let (magnitude, count) = whole
                .floats
                .as_ref()
                .map_or((0.0, 0), |floats| (floats.magnitude, floats.count));
            return close(f64::from_bits(stored), sum, magnitude, count);
        }
        let (least, most) = sum_limits(datatype);
        let mut sum = 0_i128;
        for (_, bits) in sums {
            sum = sum.saturating_add(stored_sum(datatype, *bits));
            if sum < least || sum > most {
                sum = sum.clamp(least, most);
                break;
            }
        }
        stored_sum(datatype, stored) == sum
    }
}

fn is_fixed_text(field: &CheckedField) -> bool {
    let text = matches!(field.datatype, Datatype::Char | Datatype::StringAscii);
    text && !field.is_var()
}
