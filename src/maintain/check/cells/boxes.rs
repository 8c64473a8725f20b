//! The rectangle of a sparse tile: it bounds the coordinates, and no smaller one does.

use std::cmp::Ordering;

use super::context::Audited;
use super::{Problem, of_field};
use crate::format::datatype::Datatype;
use crate::format::domain_range::compare_values;
use crate::maintain::check::fragment::{Ends, compared_oddly};
use crate::maintain::check::rule::Rule;
use crate::maintain::column::Column;

/// Compares the coordinates of a dimension with the tile's rectangle.
pub fn check(
    audited: &Audited,
    dimension: usize,
    column: &Column,
    tile: u64,
    problems: &mut Vec<Problem>,
) {
    let fragment = &audited.sound.fragment;
    let (Some(mbrs), Ok(index)) = (&audited.sound.mbrs, usize::try_from(tile)) else {
        return;
    };
    if index >= mbrs.len() || !fragment.tells(dimension) || compared_oddly(fragment, dimension) {
        return;
    }
    let Some(datatype) = fragment
        .schema
        .dimensions
        .get(dimension)
        .map(|d| d.datatype)
    else {
        return;
    };
    // Beside NaN, rectangles are the extremes of some of the cells.
    let Some((least, most)) = extremes(column, datatype) else {
        return;
    };
    let (lo, hi) = mbrs.range(index, dimension);
    let is = |a: &[u8], b: &[u8], wanted: Ordering| compare_values(datatype, a, b) == Some(wanted);
    if is(lo, least, Ordering::Equal) && is(hi, most, Ordering::Equal) {
        return;
    }
    let around = is(least, lo, Ordering::Less) || is(most, hi, Ordering::Greater);
    let cells = Ends::of(datatype, (least, most));
    let found = match around {
        true => format!(
            "coordinates {cells} leave the rectangle {}",
            Ends::of(datatype, (lo, hi))
        ),
        false => format!("the rectangle is {}", Ends::of(datatype, (lo, hi))),
    };
    let expected = format!("{cells}, the least and the largest coordinate");
    problems.push(of_field(Rule::TileBox, dimension, tile, found, expected));
}

/// The least and the largest coordinate; `None` if one is NaN, or if there are none.
fn extremes(column: &Column, datatype: Datatype) -> Option<(&[u8], &[u8])> {
    let first = column.cell(0);
    // A single NaN compares with nothing, itself included.
    compare_values(datatype, first, first).filter(|_| column.len > 0)?;
    let (mut least, mut most) = (first, first);
    for index in 1..column.len {
        let cell = column.cell(index);
        if compare_values(datatype, cell, least)?.is_lt() {
            least = cell;
        } else if compare_values(datatype, cell, most)?.is_gt() {
            most = cell;
        }
    }
    Some((least, most))
}
