//! Writes choices as options.

use std::fmt;

use super::settings::{AttributeSettings, DimensionSettings};
use super::{ArrayBuilder, BuilderColumn};
use crate::format::datatype::Datatype;
use crate::format::enumeration::Enumeration;
use crate::format::schema::{ArraySchema, Attribute, CellValNum, Dimension};
use crate::write::create::calendar;
use crate::write::create::definition::ArrayDefinition;
use crate::write::create::literal::{quoted, show_bytes, show_cell, show_element};
use crate::write::create::types::usual_count;

impl ArrayBuilder {
    /// The choices as options; `definition` is their resolution.
    pub(super) fn options(&self, definition: &ArrayDefinition) -> Vec<(String, String)> {
        let schema = &definition.schema;
        let mut options = Vec::new();
        let mut add = |chosen: bool, key: &str, value: &dyn fmt::Display| {
            if chosen {
                options.push((key.to_owned(), value.to_string()));
            }
        };
        let chosen = &self.array;
        add(
            chosen.array_type.is_some(),
            "array_type",
            &schema.array_type,
        );
        add(
            chosen.cell_order.is_some(),
            "cell_order",
            &schema.cell_order,
        );
        add(
            chosen.tile_order.is_some(),
            "tile_order",
            &schema.tile_order,
        );
        add(chosen.capacity.is_some(), "capacity", &schema.capacity);
        add(
            chosen.allows_duplicates.is_some(),
            "allows_duplicates",
            &schema.allows_duplicates,
        );
        add(
            chosen.coords_filters.is_some(),
            "coords_filters",
            &schema.coords_filters.spelling(),
        );
        add(
            chosen.offsets_filters.is_some(),
            "offsets_filters",
            &schema.offsets_filters.spelling(),
        );
        add(
            chosen.validity_filters.is_some(),
            "validity_filters",
            &schema.validity_filters.spelling(),
        );
        for (column, dimension) in self.dimensions.iter().zip(&schema.dimensions) {
            for (option, value) in dimension_options(column, dimension) {
                add(true, &format!("dim.{}.{option}", column.name), &value);
            }
        }
        add(
            chosen.current_domain.is_some(),
            "current_domain",
            &show_current_domain(schema),
        );
        for (column, attribute) in self.attributes.iter().zip(&schema.attributes) {
            for (option, value) in attribute_options(column, attribute, definition) {
                add(true, &format!("attr.{}.{option}", column.name), &value);
            }
        }
        options
    }
}

fn dimension_options(
    column: &BuilderColumn<DimensionSettings>,
    dimension: &Dimension,
) -> Vec<(&'static str, String)> {
    let chosen = &column.chosen;
    let datatype = dimension.datatype;
    let mut options = Vec::new();
    if chosen.stored.is_some() {
        let usual = usual_count(&column.declared, datatype);
        options.push(("type", show_type(datatype, dimension.cell_val_num, usual)));
    }
    if let (Some(_), Some((low, high))) = (&chosen.domain, &dimension.domain) {
        let (low, high) = (show_element(datatype, low), show_element(datatype, high));
        options.push(("domain", format!("[{low}, {high}]")));
    }
    if let (Some(_), Some(extent)) = (&chosen.tile, &dimension.extent) {
        let steps = dimension.extent_steps();
        let steps = steps.map(|steps| calendar::show_span(datatype, steps));
        options.push((
            "tile",
            steps.unwrap_or_else(|| show_element(datatype, extent)),
        ));
    }
    if chosen.filters.is_some() {
        options.push(("filters", dimension.filters.spelling()));
    }
    options
}

fn attribute_options(
    column: &BuilderColumn<AttributeSettings>,
    attribute: &Attribute,
    definition: &ArrayDefinition,
) -> Vec<(&'static str, String)> {
    let chosen = &column.chosen;
    let (datatype, count) = (attribute.datatype, attribute.cell_val_num);
    let is_enumerated = attribute.enumeration.is_some();
    let usual = if is_enumerated {
        CellValNum::Fixed(1)
    } else {
        usual_count(&column.declared, datatype)
    };
    let mut options = Vec::new();
    if chosen.stored.is_some() {
        options.push(("type", show_type(datatype, count, usual)));
    }
    if chosen.filters.is_some() {
        options.push(("filters", attribute.filters.spelling()));
    }
    if chosen.fill.is_some() {
        options.push(("fill", show_cell(datatype, count, &attribute.fill_value)));
    }
    // In a NOT NULL column, `false` has no meaning.
    if chosen.fill_valid.is_some() && (attribute.nullable || attribute.fill_valid) {
        options.push(("fill_valid", attribute.fill_valid.to_string()));
    }
    let known = definition.enumerations.iter();
    let enumeration = known
        .clone()
        .find(|e| Some(&e.name) == attribute.enumeration.as_ref());
    if let (Some(enumeration), Some(_)) = (enumeration, &chosen.enumeration) {
        options.push(("enumeration", show_members(enumeration)));
        if chosen.enumeration_type.is_some() {
            let usual = usual_count(&column.declared, enumeration.datatype);
            let shown = show_type(enumeration.datatype, enumeration.cell_val_num, usual);
            options.push(("enumeration_type", shown));
        }
    }
    if let (Some(name), Some(_)) = (&attribute.enumeration, &chosen.enumeration_name) {
        options.push(("enumeration_name", name.clone()));
    }
    if attribute.is_unnamed() {
        options.push(("anonymous", "true".to_owned()));
    }
    options
}

fn show_type(datatype: Datatype, count: CellValNum, usual: CellValNum) -> String {
    match count {
        _ if count == usual => datatype.name().to_owned(),
        CellValNum::Fixed(count) => format!("{datatype}[{count}]"),
        CellValNum::Var => format!("{datatype}[var]"),
    }
}

fn show_members(enumeration: &Enumeration) -> String {
    let (datatype, count) = (enumeration.datatype, enumeration.cell_val_num);
    let members = (0..enumeration.len())
        .filter_map(|index| enumeration.member(index))
        .map(|member| show_value(datatype, count, member))
        .collect::<Vec<_>>()
        .join(", ");
    let ordered = if enumeration.ordered { " ordered" } else { "" };
    format!("[{members}]{ordered}")
}

/// A value inside a list.
fn show_value(datatype: Datatype, count: CellValNum, bytes: &[u8]) -> String {
    if count == CellValNum::Fixed(1) && !datatype.is_string() {
        return show_element(datatype, bytes);
    }
    let text = match datatype {
        Datatype::StringUtf16
        | Datatype::StringUcs2
        | Datatype::StringUtf32
        | Datatype::StringUcs4 => None,
        other if other.is_string() => std::str::from_utf8(bytes).ok(),
        _ => None,
    };
    match text {
        Some(text) if !text.contains(char::is_control) => quoted(text),
        _ => show_bytes(bytes),
    }
}

fn show_current_domain(schema: &ArraySchema) -> String {
    let Some(current) = &schema.current_domain else {
        return String::new();
    };
    let ranges = current
        .ranges
        .iter()
        .zip(&schema.dimensions)
        .map(|(range, dimension)| {
            let show = |bytes| show_value(dimension.datatype, dimension.cell_val_num, bytes);
            format!("[{}, {}]", show(&range.lo), show(&range.hi))
        });
    ranges.collect::<Vec<_>>().join(", ")
}
