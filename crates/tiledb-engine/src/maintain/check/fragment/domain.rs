//! The non-empty domain: the union of the tiles' rectangles, inside the domain and the current domain.
//!
//! Some parts of it can't be compared. libtiledb forgets bounds beside NaN; releases up to 2.2 lost the high ends of string
//! ranges that begin with the empty string; 1.6 and 1.7 compared dates as unsigned numbers; and consolidations up to 2.4
//! widened the boxes of dense fragments to whole tiles.

use std::cmp::Ordering;
use std::fmt;

use super::files::CheckedSections;
use crate::array::fragment::Fragment;
use crate::error::Result;
use crate::format::datatype::Datatype;
use crate::format::domain_range::{DomainRange, compare_values, show_value};
use crate::format::fragment::rtree::Mbrs;
use crate::format::schema::Dimension;
use crate::maintain::check::report::FindingReporter;
use crate::maintain::check::rule::Rule;

/// Since this version, both ends of string ranges are right.
const STRINGS_SINCE: u32 = 12;
/// Versions whose dates were compared as unsigned numbers.
const DATES_UNSIGNED: std::ops::Range<u32> = 3..5;
/// Since this version, consolidation keeps the boxes of dense fragments.
const BOXES_SINCE: u32 = 11;

/// Both ends of a range, to show.
pub struct ShownRange(String);

impl ShownRange {
    pub fn of(datatype: Datatype, (lo, hi): (&[u8], &[u8])) -> Self {
        let (lo, hi) = (show_value(datatype, lo), show_value(datatype, hi));
        Self(format!("[{lo}, {hi}]"))
    }
}

impl fmt::Display for ShownRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether the writer may have compared the coordinates of a dimension differently.
pub fn compared_oddly(fragment: &Fragment, dimension: usize) -> bool {
    let version = fragment.footer.version;
    let Some(dimension) = fragment.schema.dimensions.get(dimension) else {
        return true;
    };
    let dates = dimension.datatype.is_datetime()
        && version.since(DATES_UNSIGNED.start)
        && !version.since(DATES_UNSIGNED.end);
    dates || (dimension.is_var() && !version.since(STRINGS_SINCE))
}

/// Checks the non-empty domain in the footer.
pub fn check(fragment: &Fragment, mbrs: Option<&Mbrs>, report: &FindingReporter) {
    let Some(ranges) = &fragment.footer.non_empty_domain else {
        return;
    };
    for (d, (dimension, range)) in fragment.schema.dimensions.iter().zip(ranges).enumerate() {
        let object = format!("{}, dimension {}", fragment.metadata_path(), dimension.name);
        let shown = ShownRange::of(dimension.datatype, (&range.lo, &range.hi));
        if compared_oddly(fragment, d) {
            continue;
        }
        let datatype = dimension.datatype;
        if compare_values(datatype, &range.lo, &range.hi) == Some(Ordering::Greater) {
            let found = format!("the non-empty domain is {shown}");
            let expected = "a low end that is not above the high end";
            report.tell(Rule::NonEmptyDomain, object, found, expected);
            continue;
        }
        if let Some(mbrs) = mbrs.filter(|mbrs| !mbrs.is_empty())
            && let Some(union) = union(mbrs, d, datatype)
            && !equal(datatype, &union, range)
        {
            let found = format!("the non-empty domain is {shown}");
            let union = ShownRange::of(datatype, (&union.lo, &union.hi));
            let expected = format!("{union}, the union of the tiles' rectangles");
            report.tell(Rule::NonEmptyDomain, &object, found, expected);
        }
        let widened = fragment.footer.dense && !fragment.footer.version.since(BOXES_SINCE);
        if !widened {
            inside(fragment, d, dimension, range, &object, report);
        }
    }
}

/// The union of rectangles in a dimension; `None` if NaN makes it unknown.
fn union(mbrs: &Mbrs, dimension: usize, datatype: Datatype) -> Option<DomainRange> {
    let mut union: Option<(&[u8], &[u8])> = None;
    for tile in 0..mbrs.len() {
        let (lo, hi) = mbrs.range(tile, dimension);
        // A NaN may have been forgotten in the very rectangle that shows none.
        compare_values(datatype, lo, hi)?;
        union = Some(match union {
            None => (lo, hi),
            Some((least, most)) => (
                match compare_values(datatype, lo, least)? {
                    Ordering::Less => lo,
                    _ => least,
                },
                match compare_values(datatype, hi, most)? {
                    Ordering::Greater => hi,
                    _ => most,
                },
            ),
        });
    }
    union.map(|(lo, hi)| DomainRange {
        lo: lo.to_vec(),
        hi: hi.to_vec(),
    })
}

/// Whether two ranges are the same; the two zeros of floats are equal.
fn equal(datatype: Datatype, a: &DomainRange, b: &DomainRange) -> bool {
    let same = |a: &[u8], b: &[u8]| compare_values(datatype, a, b) == Some(Ordering::Equal);
    same(&a.lo, &b.lo) && same(&a.hi, &b.hi)
}

/// The range lies in the domain, and in the current domain of the fragment's schema.
fn inside(
    fragment: &Fragment,
    d: usize,
    dimension: &Dimension,
    range: &DomainRange,
    object: &str,
    report: &FindingReporter,
) {
    let datatype = dimension.datatype;
    let leaves = |lo: &[u8], hi: &[u8]| {
        compare_values(datatype, &range.lo, lo) == Some(Ordering::Less)
            || compare_values(datatype, &range.hi, hi) == Some(Ordering::Greater)
    };
    let found = format!(
        "the non-empty domain is {}",
        ShownRange::of(datatype, (&range.lo, &range.hi))
    );
    if let Some((lo, hi)) = dimension.domain.as_ref().filter(|(lo, hi)| leaves(lo, hi)) {
        let expected = format!(
            "values in the domain {}",
            ShownRange::of(datatype, (lo, hi))
        );
        report.tell(Rule::OutsideDomain, object, found, expected);
        return;
    }
    let current = fragment
        .schema
        .current_domain
        .as_ref()
        .and_then(|domain| domain.ranges.get(d));
    if let Some(current) = current.filter(|current| leaves(&current.lo, &current.hi)) {
        let current = ShownRange::of(datatype, (&current.lo, &current.hi));
        let expected = format!("values in the current domain {current}");
        report.tell(Rule::OutsideCurrentDomain, object, found, expected);
    }
}

/// Checks the tree, and returns the leaves; `None` for a dense fragment, or if they cannot be used.
pub async fn check_tree(sections: &CheckedSections<'_>, tiles: u64) -> Result<Option<Mbrs>> {
    const WHAT: &str = "R-tree";
    let fragment = sections.fragment;
    if let Some(monolithic) = &sections.monolithic {
        return Ok((!fragment.footer.dense).then(|| monolithic.mbrs.as_ref().clone()));
    }
    let version = fragment.footer.version;
    let decode = |tile: &[u8]| Mbrs::decode_levels(tile, &fragment.schema, version);
    let start = fragment.footer.sections.rtree;
    let Some((fanout, mut levels)) = sections.decoded(start, WHAT, decode).await? else {
        return Ok(None);
    };
    let leaves = levels.last().map_or(0, Mbrs::len);
    let wanted = if fragment.footer.dense { 0 } else { tiles };
    if leaves as u64 != wanted {
        let found = format!("{leaves} leaves");
        let expected = format!("{wanted}, one for each tile of a sparse fragment");
        let report = sections.report;
        report.tell(Rule::BoxTree, sections.object(WHAT), found, expected);
        return Ok(None);
    }
    for (number, pair) in levels.windows(2).enumerate() {
        if let [above, below] = pair {
            bounds(sections, number, fanout, above, below);
        }
    }
    Ok(levels.pop())
}

/// Each rectangle of a level bounds those of the next.
fn bounds(
    sections: &CheckedSections<'_>,
    number: usize,
    fanout: usize,
    above: &Mbrs,
    below: &Mbrs,
) {
    let schema = &sections.fragment.schema;
    for (d, dimension) in schema.dimensions.iter().enumerate() {
        if compared_oddly(sections.fragment, d) {
            continue;
        }
        let datatype = dimension.datatype;
        // If one bound is NaN, the larger one depends on the order of comparison.
        let is_nan = |leaf| {
            let (lo, hi) = below.range(leaf, d);
            compare_values(datatype, lo, hi).is_none()
        };
        if datatype.is_float() && (0..below.len()).any(is_nan) {
            continue;
        }
        for parent in 0..above.len() {
            let first = parent.saturating_mul(fanout);
            let last = below.len().min(first.saturating_add(fanout));
            let outside = (first..last)
                .find(|child| !bounded(datatype, above.range(parent, d), below.range(*child, d)));
            if let Some(child) = outside {
                let what = format!("R-tree, level {number}, rectangle {parent}");
                let bounds = ShownRange::of(datatype, above.range(parent, d));
                let found = format!("{bounds} in dimension {}", dimension.name);
                let inner = ShownRange::of(datatype, below.range(child, d));
                let expected = format!("bounds around {inner}, rectangle {child} below it");
                let report = sections.report;
                report.tell(Rule::BoxTree, sections.object(&what), found, expected);
                return;
            }
        }
    }
}

/// Whether a range lies in another; NaN lies in every range.
fn bounded(datatype: Datatype, outer: (&[u8], &[u8]), inner: (&[u8], &[u8])) -> bool {
    let above = |a, b| compare_values(datatype, a, b) == Some(Ordering::Greater);
    !above(outer.0, inner.0) && !above(inner.1, outer.1)
}
