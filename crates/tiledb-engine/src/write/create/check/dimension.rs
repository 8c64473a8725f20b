//! Domain, extent and current domain of a dimension.
//!
//! The subtle thing: a default extent is the whole domain, which for a signed type may be a count that the type can't express.
//! libtiledb stores it in the same bits, but refuses it as negative if it is given explicitly.

use std::cmp::Ordering;

use super::filters;
use crate::error::{Error, Result};
use crate::format::datatype::Datatype;
use crate::format::domain_range::{DomainRange, compare_values};
use crate::format::schema::{ArraySchema, CellValNum, Dimension, Layout};
use crate::write::create::integer::{self, IntegerSpan};
use crate::write::create::literal::show_element;
use crate::write::create::types::{is_coordinate, is_integral, show};

/// Checks the type. The types of all dimensions are checked before anything else about them.
pub(super) fn check_type(dimension: &Dimension, schema: &ArraySchema) -> Result<()> {
    let datatype = dimension.datatype;
    let is_text = datatype == Datatype::StringAscii;
    let count = if is_text {
        CellValNum::Var
    } else {
        CellValNum::Fixed(1)
    };
    if !is_coordinate(datatype) || dimension.cell_val_num != count {
        return Err(Error::invalid(format!(
            "a dimension is {}: expected one integer, float, date or time, or STRING_ASCII[var]",
            show(datatype, dimension.cell_val_num)
        )));
    }
    if schema.is_dense() {
        check_dense(dimension, schema)
    } else {
        Ok(())
    }
}

/// Checks the domain, the extent and the filters.
pub(super) fn check(dimension: &Dimension, schema: &ArraySchema) -> Result<()> {
    let datatype = dimension.datatype;
    let is_text = datatype == Datatype::StringAscii;
    match &dimension.domain {
        None if is_text => {}
        None => {
            return Err(Error::invalid(format!(
                "a {datatype} dimension has a domain, and none was given"
            )));
        }
        Some(_) if is_text => {
            return Err(Error::invalid(
                "a dimension of text takes any text, and has no domain: choose a current_domain instead",
            ));
        }
        Some((low, high)) => check_domain(dimension, low, high)?,
    }
    if is_text && dimension.extent.is_some() {
        return Err(Error::invalid("a dimension of text has no tile extent"));
    }
    let needs_extent = !is_text && schema.cell_order != Layout::Hilbert;
    if needs_extent && dimension.extent.is_none() {
        return Err(Error::invalid("the dimension has no tile extent"));
    }
    filters::check_dimension(dimension, schema)
}

fn check_dense(dimension: &Dimension, schema: &ArraySchema) -> Result<()> {
    let datatype = dimension.datatype;
    if !is_integral(datatype) {
        return Err(Error::invalid(format!(
            "the array is dense, and its dimension is {datatype}: expected integers, dates or times, or a sparse array"
        )));
    }
    match schema.dimensions.first() {
        Some(first) if first.datatype != datatype => Err(Error::invalid(format!(
            "the array is dense, and its dimension is {datatype} where \"{}\" is {}: expected one type for all dimensions: declare them so, or CAST one of them in the query",
            first.name, first.datatype
        ))),
        _ => Ok(()),
    }
}

fn check_domain(dimension: &Dimension, low: &[u8], high: &[u8]) -> Result<()> {
    let datatype = dimension.datatype;
    let domain = || {
        let (low, high) = (show_element(datatype, low), show_element(datatype, high));
        format!("the domain is [{low}, {high}]")
    };
    let order = compare_values(datatype, low, high);
    if !order.is_some_and(Ordering::is_le) {
        return Err(Error::invalid(format!(
            "{}: expected a low end that is not above the high end",
            domain()
        )));
    }
    if datatype.is_float() {
        return check_float(dimension, low, high, &domain());
    }
    let span = IntegerSpan::new(datatype, low, high)?;
    if span.is_whole_type() {
        return Err(Error::invalid(format!(
            "{}, all of {datatype}: expected one value less, because libtiledb counts the values in the type itself",
            domain()
        )));
    }
    let Some(extent) = dimension.extent_steps() else {
        return Ok(());
    };
    if extent == 0 || i128::from(extent) > span.size() {
        return Err(Error::invalid(format!(
            "the tile extent is {extent}, and {}: expected 1 to {}",
            domain(),
            span.size()
        )));
    }
    let by_size = i128::from(extent) == span.size();
    if !by_size && i128::from(extent) > integer::max(datatype) {
        return Err(Error::invalid(format!(
            "the tile extent is {extent}: expected at most {}, the largest {datatype}, or all of the domain",
            integer::max(datatype)
        )));
    }
    // libtiledb computes the end of the last tile in 64 bits, so with narrower types the tile may end beyond the type.
    let needs_room = datatype.size() == size_of::<u64>();
    if needs_room && !span.has_room(extent) {
        let end = span.end_of_tiles(extent);
        return Err(Error::invalid(format!(
            "{}, whose last tile of {extent} ends at {end}, beyond the largest {datatype}: lower the high end to {}, or choose an extent that divides {}",
            domain(),
            span.highest_end(extent),
            span.size()
        )));
    }
    Ok(())
}

fn check_float(dimension: &Dimension, low: &[u8], high: &[u8], domain: &str) -> Result<()> {
    let (low, high) = (integer::float(low), integer::float(high));
    if !low.is_finite() || !high.is_finite() {
        return Err(Error::invalid(format!("{domain}: expected finite ends")));
    }
    let Some(extent) = &dimension.extent else {
        return Ok(());
    };
    // libtiledb stores this if nobody chose an extent: infinite for the widest domain, 0 for a single point.
    if *extent == integer::float_size(dimension.datatype, low, high) {
        return Ok(());
    }
    let shown = show_element(dimension.datatype, extent);
    let extent = integer::float(extent);
    if extent.is_nan() || extent <= 0.0 || extent > high - low + 1.0 {
        return Err(Error::invalid(format!(
            "the tile extent is {shown}, and {domain}: expected more than 0, and at most the size of the domain"
        )));
    }
    Ok(())
}

pub(super) fn check_current(range: &DomainRange, dimension: &Dimension) -> Result<()> {
    let datatype = dimension.datatype;
    let at_most = |a: &[u8], b: &[u8]| compare_values(datatype, a, b).is_some_and(Ordering::is_le);
    let show = |bytes: &[u8]| {
        if dimension.is_var() {
            format!("{:?}", String::from_utf8_lossy(bytes))
        } else {
            show_element(datatype, bytes)
        }
    };
    let shown = || {
        format!(
            "current_domain is [{}, {}]",
            show(&range.lo),
            show(&range.hi)
        )
    };
    if !at_most(&range.lo, &range.hi) {
        return Err(Error::invalid(format!(
            "{}: expected a low end that is not above the high end",
            shown()
        )));
    }
    match &dimension.domain {
        None if range.lo.is_empty() && range.hi.is_empty() => Err(Error::invalid(format!(
            "{}: expected a high end, which libtiledb cannot store empty with an empty low end",
            shown()
        ))),
        Some((low, high)) if !at_most(low, &range.lo) || !at_most(&range.hi, high) => {
            Err(Error::invalid(format!(
                "{}: expected a part of the domain [{}, {}]",
                shown(),
                show(low),
                show(high)
            )))
        }
        _ => Ok(()),
    }
}
