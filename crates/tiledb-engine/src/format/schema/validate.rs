//! Validation of a schema when it is read, so that later layers can rely on it (specification: "Array Schema File").
//!
//! An `ArraySchema` guarantees: one dimension or more; ranges in order; dense means equal integer-like types with extents;
//! fixed fill values have the size of a cell; names are unique. An error in one attribute or label is recorded there and does
//! not affect others. The validation accepts everything that libtiledb creates: tiles that end beyond their type, or that no
//! machine can hold, are an error only when one is read or written. The subtle thing: domains and extents are compared as
//! `i128`, because they may span the whole range of a 64-bit type.

use std::collections::HashSet;

use super::{ArraySchema, Attribute, CellValNum, Dimension, EnumerationRef, Layout};
use crate::error::{Error, Result, ResultExt};
use crate::format::datatype::Datatype;
use crate::format::domain_range::{DomainRange, check_order, compare_values, show_value};
use crate::format::version::FormatVersion;

/// The most dimensions that can share the Hilbert curve's 63 bits.
const HILBERT_MAX_DIMENSIONS: usize = 16;

impl ArraySchema {
    pub(super) fn validate(&mut self) -> Result<()> {
        self.check_shape()?;
        for dimension in &self.dimensions {
            check_dimension(dimension).context("dimension", || &dimension.name)?;
        }
        let enumerations = enumeration_names(&self.enumerations)?;
        for attribute in &mut self.attributes {
            if attribute.problem.is_none() {
                let checked = check_attribute(self.version, attribute, &enumerations);
                attribute.problem = checked.err().map(|e| e.message().to_owned());
            }
        }
        self.check_names()?;
        self.check_labels();
        if self.is_dense() {
            self.check_dense()?;
        }
        self.check_current_domain()
    }

    fn check_shape(&self) -> Result<()> {
        let hilbert = self.cell_order == Layout::Hilbert;
        let problem = if self.dimensions.is_empty() {
            "it has no dimensions"
        } else if self.tile_order == Layout::Hilbert {
            "its tile order is hilbert"
        } else if hilbert && self.is_dense() {
            "it is dense with hilbert cell order"
        } else if hilbert && self.dimensions.len() > HILBERT_MAX_DIMENSIONS {
            "it has more than 16 dimensions with hilbert cell order"
        } else if self.is_dense() && self.attributes.is_empty() {
            "it is dense without attributes"
        } else if self.is_dense() && self.allows_duplicates {
            "it is dense and allows duplicates"
        } else if !self.is_dense() && self.capacity == 0 {
            "it is sparse with capacity 0"
        } else {
            return Ok(());
        };
        Err(Error::corrupt(format!(
            "the array schema makes no sense: {problem}"
        )))
    }

    fn check_names(&self) -> Result<()> {
        // In arrays of old releases, several dimensions may have no name.
        let dimensions = self.dimensions.iter().map(|d| d.name.as_str());
        let names = dimensions
            .filter(|name| !name.is_empty())
            .chain(self.attributes.iter().map(|a| a.name.as_str()))
            .chain(self.labels.iter().map(|l| l.name.as_str()));
        let mut seen = HashSet::new();
        for name in names {
            if !seen.insert(name) {
                return Err(Error::corrupt(format!(
                    "the array schema has two fields called \"{name}\", expected different names"
                )));
            }
        }
        Ok(())
    }

    fn check_labels(&mut self) {
        let dimensions = self.dimensions.len();
        for label in &mut self.labels {
            if usize::try_from(label.dimension).is_ok_and(|d| d < dimensions) {
                continue;
            }
            let of = label.dimension;
            let problem = format!("the label is for dimension {of}, but there are {dimensions}");
            label.problem.get_or_insert(problem);
        }
    }

    fn check_dense(&self) -> Result<()> {
        let first = self.dimensions.first().map(|d| d.datatype);
        for dimension in &self.dimensions {
            check_dense_dimension(dimension, first).context("dimension", || &dimension.name)?;
        }
        Ok(())
    }

    fn check_current_domain(&self) -> Result<()> {
        let Some(current) = &self.current_domain else {
            return Ok(());
        };
        for (range, dimension) in current.ranges.iter().zip(&self.dimensions) {
            check_current_range(range, dimension).context("dimension", || &dimension.name)?;
        }
        Ok(())
    }
}

/// The names of all enumerations.
fn enumeration_names(enumerations: &[EnumerationRef]) -> Result<HashSet<&str>> {
    let mut names = HashSet::new();
    for enumeration in enumerations {
        if !names.insert(enumeration.name.as_str()) {
            return Err(Error::corrupt(format!(
                "the array schema has two enumerations called \"{}\", expected different names",
                enumeration.name
            )));
        }
    }
    Ok(names)
}

fn check_attribute(
    version: FormatVersion,
    attribute: &Attribute,
    enumerations: &HashSet<&str>,
) -> Result<()> {
    if attribute.datatype == Datatype::Any && !attribute.is_var() {
        return Err(Error::corrupt(
            "an attribute of type ANY has fixed cells, expected variable-sized ones",
        ));
    }
    check_fill(version, attribute)?;
    let Some(enumeration) = &attribute.enumeration else {
        return Ok(());
    };
    if !enumerations.contains(enumeration.as_str()) {
        return Err(Error::corrupt(format!(
            "its enumeration \"{enumeration}\" is not among the {} of the array schema",
            enumerations.len()
        )));
    }
    let single = attribute.cell_val_num == CellValNum::Fixed(1);
    let index = attribute.datatype.is_integer() || attribute.datatype == Datatype::Bool;
    if !single || !index {
        return Err(Error::corrupt(format!(
            "it has enumeration \"{enumeration}\" and type {}, expected one integer or boolean per cell",
            attribute.datatype
        )));
    }
    Ok(())
}

fn check_fill(version: FormatVersion, attribute: &Attribute) -> Result<()> {
    let found = attribute.fill_value.len();
    match attribute.cell_val_num.cell_size(attribute.datatype)? {
        // Such versions do not store it.
        _ if !version.since(6) => Ok(()),
        Some(size) if found != size => Err(Error::corrupt(format!(
            "its fill value has {found} bytes, expected the {size} of a cell"
        ))),
        // An incomplete value is an error only if the fill value is shown.
        None if found == 0 => Err(Error::corrupt(
            "its fill value has 0 bytes, expected 1 or more",
        )),
        _ => Ok(()),
    }
}

fn check_dimension(dimension: &Dimension) -> Result<()> {
    let datatype = dimension.datatype;
    if datatype == Datatype::StringAscii {
        return match (dimension.cell_val_num, &dimension.extent) {
            (CellValNum::Var, None) => Ok(()),
            (CellValNum::Var, Some(_)) => Err(Error::corrupt(
                "a string dimension has a tile extent, expected none",
            )),
            (CellValNum::Fixed(count), _) => Err(Error::corrupt(format!(
                "a string dimension has {count} characters per coordinate, expected a variable number"
            ))),
        };
    }
    if !(is_integer_like(datatype) || datatype.is_float()) {
        return Err(Error::corrupt(format!(
            "a dimension has type {datatype}, expected an integer, a float, a date, a time or STRING_ASCII"
        )));
    }
    let Some((lo, hi)) = &dimension.domain else {
        return Err(Error::corrupt(format!(
            "a {datatype} dimension has variable-sized coordinates, expected one value each"
        )));
    };
    if dimension.cell_val_num != CellValNum::Fixed(1) {
        return Err(Error::corrupt(format!(
            "a {datatype} dimension has several values per coordinate, expected one"
        )));
    }
    check_order(datatype, lo, hi, "the domain")?;
    if datatype.is_float() {
        return check_float(dimension, lo, hi);
    }
    check_integer_extent(dimension)
}

fn check_float(dimension: &Dimension, lo: &[u8], hi: &[u8]) -> Result<()> {
    let datatype = dimension.datatype;
    if !float(lo).is_finite() || !float(hi).is_finite() {
        return Err(Error::corrupt(format!(
            "the domain is [{}, {}], expected finite bounds",
            show_value(datatype, lo),
            show_value(datatype, hi)
        )));
    }
    let Some(extent) = &dimension.extent else {
        return Ok(());
    };
    // For a missing extent, writers store `hi - lo`: infinite for the widest domain, 0 for a single point. A NaN extent makes
    // the domain one tile.
    let extent_value = float(extent);
    let usable = extent_value > 0.0 || extent_value.is_nan() || (extent_value == 0.0 && lo == hi);
    if !usable {
        return Err(Error::corrupt(format!(
            "the tile extent is {}, expected more than 0",
            show_value(datatype, extent)
        )));
    }
    Ok(())
}

/// A stored float of 4 or 8 bytes.
fn float(bytes: &[u8]) -> f64 {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return f64::from(f32::from_le_bytes(bytes));
    }
    <[u8; 8]>::try_from(bytes).map_or(f64::NAN, f64::from_le_bytes)
}

fn check_integer_extent(dimension: &Dimension) -> Result<()> {
    let (Some(extent), Some((lo, hi))) = (dimension.extent_steps(), integer_domain(dimension))
    else {
        return Ok(());
    };
    if extent == 0 || i128::from(extent) > hi - lo + 1 {
        return Err(Error::corrupt(format!(
            "the tile extent is {extent}, expected 1 to {}, the size of the domain [{lo}, {hi}]",
            hi - lo + 1
        )));
    }
    Ok(())
}

fn check_dense_dimension(dimension: &Dimension, first: Option<Datatype>) -> Result<()> {
    let datatype = dimension.datatype;
    if Some(datatype) != first || !is_integer_like(datatype) {
        return Err(Error::corrupt(format!(
            "a dense array has a dimension of type {datatype}, expected one integer, date or time type for all"
        )));
    }
    // The last tile may end beyond the type: libtiledb forbids that only for 64 bits.
    match (dimension.extent_steps(), integer_domain(dimension)) {
        (Some(_), Some(_)) => Ok(()),
        _ => Err(Error::corrupt(
            "a dimension of a dense array has no tile extent",
        )),
    }
}

fn check_current_range(range: &DomainRange, dimension: &Dimension) -> Result<()> {
    range.check_order(dimension.datatype, "the current domain")?;
    let Some((lo, hi)) = &dimension.domain else {
        return Ok(());
    };
    let inside = |a: &[u8], b: &[u8]| {
        compare_values(dimension.datatype, a, b).is_some_and(std::cmp::Ordering::is_le)
    };
    if inside(lo, &range.lo) && inside(&range.hi, hi) {
        return Ok(());
    }
    let show = |value: &[u8]| show_value(dimension.datatype, value);
    Err(Error::corrupt(format!(
        "the current domain is [{}, {}], expected a part of the domain [{}, {}]",
        show(&range.lo),
        show(&range.hi),
        show(lo),
        show(hi)
    )))
}

/// Whether values are stored as integers and counted in steps of one.
fn is_integer_like(datatype: Datatype) -> bool {
    datatype.is_integer() || datatype.is_datetime() || datatype.is_time()
}

/// The bounds of an integer-like domain.
fn integer_domain(dimension: &Dimension) -> Option<(i128, i128)> {
    let (lo, hi) = dimension.domain.as_ref()?;
    Some((
        integer(dimension.datatype, lo)?,
        integer(dimension.datatype, hi)?,
    ))
}

fn integer(datatype: Datatype, bytes: &[u8]) -> Option<i128> {
    let signed = datatype.is_signed();
    Some(match (bytes.len(), signed) {
        (1, true) => i8::from_le_bytes(bytes.try_into().ok()?).into(),
        (2, true) => i16::from_le_bytes(bytes.try_into().ok()?).into(),
        (4, true) => i32::from_le_bytes(bytes.try_into().ok()?).into(),
        (8, true) => i64::from_le_bytes(bytes.try_into().ok()?).into(),
        (1, false) => u8::from_le_bytes(bytes.try_into().ok()?).into(),
        (2, false) => u16::from_le_bytes(bytes.try_into().ok()?).into(),
        (4, false) => u32::from_le_bytes(bytes.try_into().ok()?).into(),
        (8, false) => u64::from_le_bytes(bytes.try_into().ok()?).into(),
        _ => return None,
    })
}
