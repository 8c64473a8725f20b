//! Enumerations: members that differ, and codes that have room for them.

use std::collections::HashSet;

use crate::error::{Error, Result};
use crate::format::datatype::Datatype;
use crate::format::schema::{Attribute, CellValNum};
use crate::write::create::definition::ArrayDefinition;
use crate::write::create::integer;
use crate::write::create::literal::show_cell;

/// The most bytes that libtiledb loads of one enumeration.
const MAX_BYTES: u64 = 10 << 20;
/// The most bytes that libtiledb loads of all enumerations.
const MAX_TOTAL_BYTES: u64 = 50 << 20;

pub(super) fn check(definition: &ArrayDefinition) -> Result<()> {
    let mut total = 0_u64;
    for enumeration in &definition.enumerations {
        let with = |error: Error| error.with("enumeration", &enumeration.name);
        if enumeration.name.is_empty() {
            return Err(Error::invalid("an enumeration has no name"));
        }
        let mut seen = HashSet::new();
        for member in (0..enumeration.len()).filter_map(|index| enumeration.member(index)) {
            if !seen.insert(member) {
                let shown = show_cell(enumeration.datatype, enumeration.cell_val_num, member);
                return Err(with(Error::invalid(format!(
                    "the value {shown} is listed twice: expected values that differ"
                ))));
            }
        }
        let offsets = enumeration.offsets.as_ref().map_or(0, Vec::len) as u64;
        let bytes = (enumeration.data.len() as u64).saturating_add(offsets.saturating_mul(8));
        total = total.saturating_add(bytes);
        if bytes > MAX_BYTES || total > MAX_TOTAL_BYTES {
            return Err(with(Error::invalid(format!(
                "the values take {bytes} bytes, {total} with those of other enumerations: libtiledb loads no more than {MAX_BYTES} and {MAX_TOTAL_BYTES}"
            ))));
        }
    }
    for attribute in &definition.schema.attributes {
        check_codes(attribute, definition)
            .map_err(|error| error.with("column", &attribute.name))?;
    }
    Ok(())
}

fn check_codes(attribute: &Attribute, definition: &ArrayDefinition) -> Result<()> {
    let Some(name) = &attribute.enumeration else {
        return Ok(());
    };
    let datatype = attribute.datatype;
    let codes = datatype.is_integer() || datatype == Datatype::Bool;
    if !codes || attribute.cell_val_num != CellValNum::Fixed(1) {
        return Err(Error::invalid(format!(
            "the codes of an enumeration are {datatype}: expected one integer or BOOL per cell"
        )));
    }
    let most = match datatype {
        Datatype::Bool => i128::from(u8::MAX),
        other => integer::max(other),
    };
    let members = definition
        .enumerations
        .iter()
        .find(|e| e.name == *name)
        .map_or(0, |enumeration| enumeration.len());
    // libtiledb has the same limit, and keeps the largest code free.
    if most <= i128::try_from(members).unwrap_or(i128::MAX) {
        return Err(Error::invalid(format!(
            "the enumeration has {members} values, and {datatype} has codes for {} at most: choose a wider type",
            most - 1
        )));
    }
    Ok(())
}
