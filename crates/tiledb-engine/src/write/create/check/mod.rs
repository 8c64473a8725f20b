//! Whether an array can be created: every condition that libtiledb makes, and those of this release.
//!
//! The conditions of a schema that is read are in `format::schema`; these are stricter, because a new array can still be chosen
//! otherwise. The subtle thing: some arrays that libtiledb creates cannot be written to later (a last tile beyond the type's
//! largest value, run lengths of strings behind another filter), so they are refused here.

mod dimension;
mod enumeration;
mod filters;

use std::collections::HashSet;

use super::definition::ArrayDefinition;
use super::types::show;
use crate::error::{Error, Result, ResultExt};
use crate::format::datatype::Datatype;
use crate::format::schema::{ArraySchema, Attribute, DataOrder, Layout};

/// The most dimensions that share the 63 bits of the Hilbert curve.
const HILBERT_MAX_DIMENSIONS: usize = 16;
/// The format reserves names with this prefix.
const RESERVED: &str = "__";

impl ArrayDefinition {
    /// Fails unless an array can be created like this.
    ///
    /// # Errors
    /// The error names the column or option, what was given and what is allowed.
    pub fn check(&self) -> Result<()> {
        let schema = &self.schema;
        check_array(schema)?;
        check_names(schema)?;
        for check in [dimension::check_type, dimension::check] {
            for dimension in &schema.dimensions {
                let checked = check(dimension, schema);
                checked.context("column", || &dimension.name)?;
            }
        }
        for attribute in &schema.attributes {
            let checked = check_attribute(attribute, schema);
            checked.context("column", || &attribute.name)?;
        }
        filters::check_shared(schema)?;
        enumeration::check(self)?;
        check_current_domain(schema)?;
        if schema.is_dense() {
            check_tile(schema)?;
        }
        self.check_reading()
    }

    /// Fails unless the schema and the enumerations read back as they are written.
    fn check_reading(&self) -> Result<()> {
        // Any name will do.
        let (schema, enumerations) = self.with_files(|| Ok("__0_0".to_owned()))?;
        let again = ArraySchema::decode(&schema.encode()?)?;
        let problem = again.attributes.iter().find_map(|a| a.problem.as_ref());
        match problem {
            None if again == schema => {}
            problem => {
                return Err(Error::internal(format!(
                    "the schema reads otherwise than it was written: {problem:?}"
                )));
            }
        }
        for enumeration in enumerations {
            let again = crate::format::enumeration::Enumeration::decode(&enumeration.encode()?)?;
            if again != enumeration {
                return Err(Error::internal(format!(
                    "enumeration \"{}\" reads otherwise than it was written",
                    enumeration.name
                )));
            }
        }
        Ok(())
    }
}

/// Fails unless an existing array can become this one, which has these attributes besides the old ones.
///
/// The old attributes are not checked, because arrays that other writers created, and that could not be created here, evolve
/// too.
pub(in crate::write) fn check_evolved(
    definition: &ArrayDefinition,
    added: &[&Attribute],
) -> Result<()> {
    let schema = &definition.schema;
    if schema.is_dense() && schema.attributes.is_empty() {
        return Err(Error::invalid(
            "a dense array has one attribute or more: the last one cannot be dropped",
        ));
    }
    for attribute in added {
        let checked = check_attribute(attribute, schema);
        checked.context("column", || &attribute.name)?;
        check_not_reserved(attribute)?;
    }
    check_different(schema)?;
    enumeration::check(definition)?;
    check_current_domain(schema)?;
    if schema.is_dense() && !added.is_empty() {
        check_tile(schema)?;
    }
    let mut named = schema.clone();
    for reference in &mut named.enumerations {
        // Any name will do.
        "__0_0".clone_into(&mut reference.file);
    }
    if ArraySchema::decode(&named.encode()?)? == named {
        Ok(())
    } else {
        Err(Error::internal(
            "the schema reads otherwise than it was written",
        ))
    }
}

fn check_array(schema: &ArraySchema) -> Result<()> {
    let dense = schema.is_dense();
    let hilbert = schema.cell_order == Layout::Hilbert;
    let problem = if schema.dimensions.is_empty() {
        "an array has one dimension or more".to_owned()
    } else if schema.tile_order == Layout::Hilbert {
        "tile_order is hilbert, which only cells can have: expected row-major or col-major"
            .to_owned()
    } else if hilbert && dense {
        "cell_order is hilbert, which only sparse arrays have: expected row-major or col-major"
            .to_owned()
    } else if hilbert && schema.dimensions.len() > HILBERT_MAX_DIMENSIONS {
        format!(
            "cell_order is hilbert, and there are {} dimensions: expected {HILBERT_MAX_DIMENSIONS} at most",
            schema.dimensions.len()
        )
    } else if dense && schema.attributes.is_empty() {
        "a dense array has one attribute or more: declare a column that isn't a dimension"
            .to_owned()
    } else if dense && schema.allows_duplicates {
        "allows_duplicates is true, which only sparse arrays can be: each cell of a dense array exists once"
            .to_owned()
    } else if !dense && schema.capacity == 0 {
        "capacity is 0, expected 1 cell or more".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::invalid(problem))
}

fn check_names(schema: &ArraySchema) -> Result<()> {
    check_different(schema)?;
    for dimension in &schema.dimensions {
        if dimension.name.is_empty() {
            return Err(Error::invalid("a dimension has no name"));
        }
    }
    schema.attributes.iter().try_for_each(check_not_reserved)
}

fn check_different(schema: &ArraySchema) -> Result<()> {
    let dimensions = schema.dimensions.iter().map(|d| &d.name);
    let attributes = schema.attributes.iter().map(|a| &a.name);
    let labels = schema.labels.iter().map(|label| &label.name);
    let mut seen = HashSet::new();
    for name in dimensions.chain(attributes).chain(labels) {
        if !seen.insert(name) {
            return Err(Error::invalid(format!(
                "two columns are called \"{name}\": expected different names"
            )));
        }
    }
    Ok(())
}

fn check_not_reserved(attribute: &Attribute) -> Result<()> {
    if attribute.name.starts_with(RESERVED) {
        Err(Error::invalid(format!(
            "the attribute is called \"{}\", and names that begin with two underscores belong to the format",
            attribute.name
        )))
    } else {
        Ok(())
    }
}

fn check_attribute(attribute: &Attribute, schema: &ArraySchema) -> Result<()> {
    let datatype = attribute.datatype;
    if datatype == Datatype::Any && !attribute.is_var() {
        return Err(Error::invalid(
            "type ANY has as many bytes as a value needs: expected ANY[var]",
        ));
    }
    if attribute.order != DataOrder::Unordered
        && (!schema.is_dense() || schema.dimensions.len() > 1)
    {
        return Err(Error::invalid(
            "only attributes of a dense array with one dimension promise an order",
        ));
    }
    let found = attribute.fill_value.len();
    let fits = match attribute.cell_val_num.cell_size(datatype)? {
        Some(size) => found == size,
        None => found > 0 && found.checked_rem(datatype.size()) == Some(0),
    };
    if !fits {
        return Err(Error::invalid(format!(
            "the fill value has {found} bytes, which isn't a value of {}: expected {}",
            show(datatype, attribute.cell_val_num),
            if attribute.is_var() {
                "one element or more, because libtiledb stores no empty fill value"
            } else {
                "exactly one cell"
            }
        )));
    }
    filters::check_attribute(attribute, schema)
}

fn check_current_domain(schema: &ArraySchema) -> Result<()> {
    let Some(current) = &schema.current_domain else {
        return Ok(());
    };
    let (found, expected) = (current.ranges.len(), schema.dimensions.len());
    if found != expected {
        return Err(Error::invalid(format!(
            "current_domain has {found} ranges: expected one for each of the {expected} dimensions"
        )));
    }
    for (range, dimension) in current.ranges.iter().zip(&schema.dimensions) {
        let checked = dimension::check_current(range, dimension);
        checked.context("column", || &dimension.name)?;
    }
    Ok(())
}

/// A tile of a dense array holds all cells of its extents, whether or not they are written.
fn check_tile(schema: &ArraySchema) -> Result<()> {
    let cells = schema.dense_tile_cells()?;
    for attribute in &schema.attributes {
        let bytes = attribute.cell_size().unwrap_or(size_of::<u64>()) as u64;
        if cells.checked_mul(bytes).is_none() {
            return Err(Error::invalid(format!(
                "a tile of {cells} cells of {bytes} bytes is larger than any file: choose smaller extents"
            ))
            .with("column", &attribute.name));
        }
    }
    Ok(())
}
