//! The R-tree: each rectangle bounds those below it, and there is a leaf for each tile.

use std::cmp::Ordering;

use super::domain::{Ends, compared_oddly};
use super::sections::Sections;
use crate::error::Result;
use crate::format::datatype::Datatype;
use crate::format::domain_range::compare_values;
use crate::format::fragment::rtree::Mbrs;
use crate::maintain::check::rule::Rule;

/// Checks the tree, and gives the leaves; `None` for a dense fragment, or if they cannot be used.
pub async fn check(sections: &Sections<'_>, tiles: u64) -> Result<Option<Mbrs>> {
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
fn bounds(sections: &Sections<'_>, number: usize, fanout: usize, above: &Mbrs, below: &Mbrs) {
    let schema = &sections.fragment.schema;
    for (d, dimension) in schema.dimensions.iter().enumerate() {
        if compared_oddly(sections.fragment, d) {
            continue;
        }
        let datatype = dimension.datatype;
        // Which of two bounds is larger if one is NaN depends on the order of comparison.
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
                .find(|child| !inside(datatype, above.range(parent, d), below.range(*child, d)));
            if let Some(child) = outside {
                let what = format!("R-tree, level {number}, rectangle {parent}");
                let bounds = Ends::of(datatype, above.range(parent, d));
                let found = format!("{bounds} in dimension {}", dimension.name);
                let inner = Ends::of(datatype, below.range(child, d));
                let expected = format!("bounds around {inner}, rectangle {child} below it");
                let report = sections.report;
                report.tell(Rule::BoxTree, sections.object(&what), found, expected);
                return;
            }
        }
    }
}

/// Whether a range lies in another; NaN is everywhere.
fn inside(datatype: Datatype, outer: (&[u8], &[u8]), inner: (&[u8], &[u8])) -> bool {
    let above = |a, b| compare_values(datatype, a, b) == Some(Ordering::Greater);
    !above(outer.0, inner.0) && !above(inner.1, outer.1)
}
