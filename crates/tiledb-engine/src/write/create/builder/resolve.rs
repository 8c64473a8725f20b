//! Resolves the choices to a definition: first types, then domains, then extents, then filters.

use super::settings::{EnumerationMember, EnumerationMembers, FillSetting};
use super::{ArrayBuilder, BuilderColumn};
use crate::error::{Error, Result, ResultExt};
use crate::format::datatype::Datatype;
use crate::format::domain_range::DomainRange;
use crate::format::enumeration::Enumeration;
use crate::format::schema::current_domain::CurrentDomain;
use crate::format::schema::{
    ArraySchema, ArrayType, Attribute, CellValNum, DataOrder, Dimension, Layout,
};
use crate::format::version::FormatVersion;
use crate::write::create::builder::settings::{AttributeSettings, DimensionSettings};
use crate::write::create::calendar;
use crate::write::create::definition::{ArrayDefinition, default_fill};
use crate::write::create::integer::IntegerSpan;
use crate::write::create::literal::LiteralValue;
use crate::write::create::types::{StorageType, is_coordinate, is_integral};
use crate::write::create::{defaults, integer};

/// The type of the codes of an enumeration. With fewer bytes, an enumeration that grows could run out of codes; and the high
/// bytes of small codes take no room once they are filtered.
const CODES: Datatype = Datatype::Int32;
/// A type with one value per cell, as codes have.
const CODES_AS: &arrow::datatypes::DataType = &arrow::datatypes::DataType::Int32;

impl ArrayBuilder {
    /// The definition, whether or not such an array can be created.
    pub(super) fn resolve(&self) -> Result<ArrayDefinition> {
        let (attributes, given) = self.resolve_attributes(&[])?;
        let schema = self.resolve_array(attributes)?;
        ArrayDefinition::new(schema, &given)
    }

    /// The attributes, and the known enumerations followed by those of the attributes.
    pub(in crate::write) fn resolve_attributes(
        &self,
        known: &[Enumeration],
    ) -> Result<(Vec<Attribute>, Vec<Enumeration>)> {
        let mut given = known.to_vec();
        let mut attributes = Vec::new();
        for column in &self.attributes {
            let resolved = resolve_attribute(column).context("column", || &column.name);
            let (attribute, enumeration) = resolved?;
            if let Some(enumeration) = enumeration {
                add_enumeration(&mut given, enumeration)
                    .map_err(|e| e.with("column", &column.name))?;
            }
            attributes.push(attribute);
        }
        for (column, attribute) in self.attributes.iter().zip(&mut attributes) {
            let filled = resolve_fill(column, attribute, &given);
            filled.context("column", || &column.name)?;
        }
        Ok((attributes, given))
    }

    /// The current domain that was chosen, one range for each of these dimensions.
    pub(in crate::write) fn resolve_current_domain(
        &self,
        dimensions: &[Dimension],
    ) -> Result<Option<CurrentDomain>> {
        let chosen = self.array.current_domain.as_ref();
        let resolved = chosen.map(|ranges| current_domain(ranges, dimensions));
        resolved
            .transpose()
            .context("option", || "tiledb.current_domain")
    }

    /// The schema with these attributes.
    pub(super) fn resolve_array(&self, attributes: Vec<Attribute>) -> Result<ArraySchema> {
        let chosen = &self.array;
        let filters =
            |chosen: &Option<_>, default: fn() -> _| chosen.clone().unwrap_or_else(default);
        let mut schema = ArraySchema {
            version: FormatVersion::WRITTEN,
            array_type: chosen.array_type.unwrap_or(ArrayType::Sparse),
            tile_order: chosen.tile_order.unwrap_or(Layout::RowMajor),
            cell_order: chosen.cell_order.unwrap_or(Layout::RowMajor),
            capacity: chosen.capacity.unwrap_or(defaults::CAPACITY),
            allows_duplicates: chosen.allows_duplicates.unwrap_or(false),
            coords_filters: filters(&chosen.coords_filters, defaults::coords_filters),
            offsets_filters: filters(&chosen.offsets_filters, defaults::offsets_filters),
            validity_filters: filters(&chosen.validity_filters, defaults::validity_filters),
            dimensions: Vec::new(),
            attributes,
            labels: Vec::new(),
            enumerations: Vec::new(),
            current_domain: None,
        };
        for (index, column) in self.dimensions.iter().enumerate() {
            let resolved = self.resolve_dimension(index, column, &schema);
            schema
                .dimensions
                .push(resolved.context("column", || &column.name)?);
        }
        self.fill_in_extents(&mut schema)?;
        let image_size = schema.image_size();
        for attribute in &mut schema.attributes {
            let filters = std::mem::take(&mut attribute.filters);
            attribute.filters = filters.for_images_of(image_size);
        }
        schema.current_domain = self.resolve_current_domain(&schema.dimensions)?;
        Ok(schema)
    }

    /// A dimension, with an extent only if one was chosen.
    fn resolve_dimension(
        &self,
        index: usize,
        column: &BuilderColumn<DimensionSettings>,
        schema: &ArraySchema,
    ) -> Result<Dimension> {
        let chosen = &column.chosen;
        let stored = dimension_type(column)?;
        let datatype = stored.datatype;
        let option = |what: &str| format!("tiledb.dim.{}.{what}", column.name);
        let extent = match &chosen.tile {
            None => None,
            Some(tile) => extent(datatype, tile).context("option", || option("tile"))?,
        };
        let steps = extent.as_ref().and_then(|extent| steps(datatype, extent));
        let needs_domain = schema.is_dense() || schema.cell_order == Layout::Hilbert;
        let domain = match &chosen.domain {
            Some((low, high)) => {
                let end = |value: &LiteralValue| {
                    value
                        .element(datatype)
                        .context("option", || option("domain"))
                };
                if datatype.is_string() {
                    return Err(Error::invalid(
                        "a dimension of text takes any text, and has no domain: choose a current_domain instead",
                    ));
                }
                Some((end(low)?, end(high)?))
            }
            None if needs_domain && !datatype.is_string() => return Err(no_domain(column, schema)),
            None => defaults::domain(datatype, steps),
        };
        let filters = chosen.filters.clone().unwrap_or_else(|| {
            let dimensions = self.dimensions.len();
            let sorted_first = defaults::is_sorted_first(index, dimensions, schema.cell_order);
            match schema.is_dense() {
                // Coordinates of dense cells are not stored.
                true => crate::format::filter_list::FilterList::of([]),
                false => defaults::dimension_filters(datatype, sorted_first),
            }
        });
        Ok(Dimension {
            name: column.name.clone(),
            datatype,
            cell_val_num: stored.count,
            filters,
            domain,
            extent,
        })
    }

    /// Sets the extents that were not chosen.
    fn fill_in_extents(&self, schema: &mut ArraySchema) -> Result<()> {
        if schema.is_dense() {
            return fill_in_dense_extents(schema);
        }
        if schema.cell_order == Layout::Hilbert {
            return Ok(());
        }
        for dimension in &mut schema.dimensions {
            if let (None, Some((low, high))) = (&dimension.extent, &dimension.domain) {
                let whole = defaults::whole_domain(dimension.datatype, low, high);
                dimension.extent = Some(whole.context("column", || &dimension.name)?);
            }
        }
        Ok(())
    }
}

fn fill_in_dense_extents(schema: &mut ArraySchema) -> Result<()> {
    let mut domains = Vec::new();
    for dimension in &schema.dimensions {
        let Some((low, high)) = dimension
            .domain
            .as_ref()
            .filter(|_| is_integral(dimension.datatype))
        else {
            // The check of the definition reports what is wrong with the type.
            return Ok(());
        };
        let span = IntegerSpan::new(dimension.datatype, low, high)?;
        domains.push((span, dimension.extent_steps()));
    }
    let extents = defaults::dense_extents(&domains)?;
    for (dimension, extent) in schema.dimensions.iter_mut().zip(extents) {
        let bytes = integer::bytes(dimension.datatype, i128::from(extent));
        dimension.extent.get_or_insert(bytes);
    }
    Ok(())
}

fn no_domain(column: &BuilderColumn<DimensionSettings>, schema: &ArraySchema) -> Error {
    let why = if schema.is_dense() {
        "every cell of a dense array's domain exists"
    } else {
        "the Hilbert curve divides the domain, and over all values of a type it would hardly tell cells apart"
    };
    Error::invalid(format!(
        "the dimension needs a domain, because {why}: set the option 'tiledb.dim.{}.domain' '[low, high]'",
        column.name
    ))
}

/// The type of a dimension.
pub(super) fn dimension_type(column: &BuilderColumn<DimensionSettings>) -> Result<StorageType> {
    let Some(name) = &column.chosen.stored else {
        return StorageType::of_dimension(&column.declared);
    };
    let stored = name.resolve(&column.declared)?;
    stored.check_shows(&column.declared)?;
    if is_coordinate(stored.datatype) {
        Ok(stored)
    } else {
        Err(Error::invalid(format!(
            "the type is {}: expected an integer, a float, a date, a time or STRING_ASCII, as dimensions have",
            stored.datatype
        )))
    }
}

/// A chosen extent; `None` for `none`, which stands for the usual one.
fn extent(datatype: Datatype, tile: &LiteralValue) -> Result<Option<Vec<u8>>> {
    let text = match tile {
        LiteralValue::Bytes(_) => return tile.element(datatype).map(Some),
        LiteralValue::Text(text) => text.trim(),
    };
    if text.eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    if datatype.is_float() {
        return tile.element(datatype).map(Some);
    }
    if datatype.is_string() {
        return Err(Error::invalid("a dimension of text has no tile extent"));
    }
    let most = u64::MAX >> (64 - 8 * datatype.size().clamp(1, 8));
    let steps = match calendar::span(datatype, text) {
        Some(span) => span.map(i128::from).map_err(|why| {
            Error::invalid(format!("'{text}' isn't a tile extent of {datatype}: {why}"))
        })?,
        None => text.parse().unwrap_or(-1),
    };
    if !(0..=i128::from(most)).contains(&steps) {
        let spans = if datatype.is_datetime() || datatype.is_time() {
            ", or a span such as '30 days'"
        } else {
            ""
        };
        return Err(Error::invalid(format!(
            "'{text}' isn't a tile extent of {datatype}: expected a number of steps from 1{spans}"
        )));
    }
    Ok(Some(integer::bytes(datatype, steps)))
}

/// The steps of an extent of integers, dates or times.
fn steps(datatype: Datatype, extent: &[u8]) -> Option<u64> {
    let mut wide = [0; 8];
    wide.get_mut(..extent.len())?.copy_from_slice(extent);
    is_integral(datatype).then(|| u64::from_le_bytes(wide))
}

fn current_domain(
    ranges: &[(LiteralValue, LiteralValue)],
    dimensions: &[Dimension],
) -> Result<CurrentDomain> {
    if ranges.len() != dimensions.len() {
        return Err(Error::invalid(format!(
            "there are {} ranges: expected one for each of the {} dimensions",
            ranges.len(),
            dimensions.len()
        )));
    }
    let ranges = ranges
        .iter()
        .zip(dimensions)
        .map(|((low, high), dimension)| {
            let end = |value: &LiteralValue| {
                let parsed = value.cell(dimension.datatype, dimension.cell_val_num);
                parsed.context("column", || &dimension.name)
            };
            Ok(DomainRange {
                lo: end(low)?,
                hi: end(high)?,
            })
        });
    Ok(CurrentDomain {
        ranges: ranges.collect::<Result<_>>()?,
    })
}

/// An attribute with the usual fill value, and its enumeration unless another attribute defines the values.
pub(super) fn resolve_attribute(
    column: &BuilderColumn<AttributeSettings>,
) -> Result<(Attribute, Option<Enumeration>)> {
    let chosen = &column.chosen;
    let codes = match &column.declared {
        arrow::datatypes::DataType::Dictionary(codes, values) => Some((codes, values)),
        _ => None,
    };
    let is_enumerated = chosen.is_enumerated() || codes.is_some();
    let stored = match (&chosen.stored, is_enumerated, codes) {
        (Some(name), true, _) => name.resolve(CODES_AS)?,
        (None, true, Some((codes, _))) => StorageType::of_attribute(codes)?,
        (None, true, None) => StorageType {
            datatype: CODES,
            count: CellValNum::Fixed(1),
        },
        (Some(name), false, _) => {
            let stored = name.resolve(&column.declared)?;
            stored.check_shows(&column.declared)?;
            stored
        }
        (None, false, _) => StorageType::of_attribute(&column.declared)?,
    };
    let name = if chosen.anonymous.unwrap_or(false) {
        String::new()
    } else {
        column.name.clone()
    };
    let enumeration_name = chosen.enumeration_name.clone();
    let enumeration_name =
        is_enumerated.then(|| enumeration_name.unwrap_or_else(|| column.name.clone()));
    let enumeration = match (&enumeration_name, &chosen.enumeration) {
        (Some(name), Some(members)) => Some(resolve_members(column, name, members)?),
        // The values of a dictionary are known only once rows are written.
        (Some(name), None) if chosen.enumeration_name.is_none() => {
            let none = EnumerationMembers {
                values: Vec::new(),
                ordered: false,
            };
            Some(resolve_members(column, name, &none)?)
        }
        _ => None,
    };
    let filters = chosen.filters.clone();
    let attribute = Attribute {
        name,
        datatype: stored.datatype,
        cell_val_num: stored.count,
        filters: filters.unwrap_or_else(|| defaults::attribute_filters(stored.datatype)),
        fill_value: default_fill(stored.datatype, stored.count),
        nullable: column.nullable,
        fill_valid: false,
        order: DataOrder::Unordered,
        enumeration: enumeration_name,
        problem: None,
    };
    Ok((attribute, enumeration))
}

fn resolve_members(
    column: &BuilderColumn<AttributeSettings>,
    name: &str,
    members: &EnumerationMembers,
) -> Result<Enumeration> {
    let values = match &column.declared {
        arrow::datatypes::DataType::Dictionary(_, values) => values.as_ref(),
        plain => plain,
    };
    let stored = match &column.chosen.enumeration_type {
        Some(name) => {
            let stored = name.resolve(values)?;
            stored.check_shows(values)?;
            stored
        }
        None => StorageType::of_attribute(values)?,
    };
    let mut data = Vec::new();
    let mut offsets = Vec::new();
    for member in &members.values {
        offsets.push(data.len() as u64);
        data.extend(member_bytes(member, stored)?);
    }
    Ok(Enumeration {
        name: name.to_owned(),
        file: String::new(),
        datatype: stored.datatype,
        cell_val_num: stored.count,
        ordered: members.ordered,
        data,
        offsets: stored.count.is_var().then_some(offsets),
    })
}

fn member_bytes(member: &EnumerationMember, stored: StorageType) -> Result<Vec<u8>> {
    match member {
        EnumerationMember::Verbatim(text) => {
            LiteralValue::from(text.as_str()).shown_cell(stored.datatype, stored.count)
        }
        EnumerationMember::Parsed(value) => value.cell(stored.datatype, stored.count),
    }
}

/// Adds an enumeration; two attributes may share one, and then must not disagree.
fn add_enumeration(given: &mut Vec<Enumeration>, enumeration: Enumeration) -> Result<()> {
    match given.iter().find(|known| known.name == enumeration.name) {
        None => given.push(enumeration),
        Some(known) if known.says_the_same(&enumeration) => {}
        Some(known) => {
            return Err(Error::invalid(format!(
                "enumeration \"{}\" has other values for another column: give them once, and only its name here",
                known.name
            )));
        }
    }
    Ok(())
}

/// Sets the fill value, if one was chosen.
pub(super) fn resolve_fill(
    column: &BuilderColumn<AttributeSettings>,
    attribute: &mut Attribute,
    given: &[Enumeration],
) -> Result<()> {
    let chosen = &column.chosen;
    if let Some(fill) = &chosen.fill {
        attribute.fill_value = match (fill, &attribute.enumeration) {
            (FillSetting::Shown(value), Some(name)) => {
                let enumeration = given.iter().find(|known| known.name == *name);
                let enumeration = enumeration.ok_or_else(|| {
                    Error::invalid(format!("nothing says what enumeration \"{name}\" holds"))
                })?;
                code_of(value, enumeration, attribute.datatype)?
            }
            (FillSetting::Shown(value), None) => {
                value.shown_cell(attribute.datatype, attribute.cell_val_num)?
            }
            (FillSetting::Stored(value), _) => {
                value.cell(attribute.datatype, attribute.cell_val_num)?
            }
        };
    }
    attribute.fill_valid = match chosen.fill_valid {
        Some(true) if !attribute.nullable => {
            return Err(Error::invalid(
                "fill_valid decides whether cells that were never written are NULL, and the column is NOT NULL",
            ));
        }
        Some(valid) => valid,
        None => attribute.nullable && chosen.fill.is_some(),
    };
    Ok(())
}

/// The stored number of a value.
fn code_of(value: &LiteralValue, enumeration: &Enumeration, codes: Datatype) -> Result<Vec<u8>> {
    let wanted = match value {
        LiteralValue::Text(_) => {
            value.shown_cell(enumeration.datatype, enumeration.cell_val_num)?
        }
        LiteralValue::Bytes(bytes) => bytes.clone(),
    };
    let code = (0..enumeration.len()).find(|code| enumeration.member(*code) == Some(&wanted));
    let code = code.and_then(|code| i128::try_from(code).ok());
    code.map(|code| integer::bytes(codes, code)).ok_or_else(|| {
        Error::invalid(format!(
            "the default is none of the {} values of enumeration \"{}\"",
            enumeration.len(),
            enumeration.name
        ))
    })
}
