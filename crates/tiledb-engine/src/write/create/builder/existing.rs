//! A builder with every property of an existing array, as if all had been chosen; and the options that contradict it.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use arrow::datatypes::DataType;

use super::settings::{
    ArraySettings, AttributeSettings, DimensionSettings, EnumerationMember, EnumerationMembers,
    FillSetting, TypeName,
};
use super::{ArrayBuilder, BuilderColumn};
use crate::arrow::{ColumnType, TypeOptions, column_names};
use crate::error::{Error, Result};
use crate::format::enumeration::Enumeration;
use crate::format::schema::{Attribute, Dimension};
use crate::write::change_options::ChangeOptions;
use crate::write::create::definition::ArrayDefinition;
use crate::write::create::literal::LiteralValue;
use crate::write::create::types::StorageType;

/// An option that differs from the array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionDisagreement {
    /// The option, without the prefix `tiledb.`.
    pub option: String,
    /// The given value.
    pub given: String,
    /// The value of the array.
    pub found: String,
}

impl fmt::Display for OptionDisagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            option,
            given,
            found,
        } = self;
        write!(
            f,
            "tiledb.{option} is '{given}' and the array has '{found}'"
        )
    }
}

impl ArrayBuilder {
    /// A builder with every property of an array.
    pub fn of(definition: &ArrayDefinition) -> Result<Self> {
        let schema = &definition.schema;
        let names = column_names(schema)?;
        let (dimension_names, attribute_names) = names
            .split_at_checked(schema.dimensions.len())
            .ok_or_else(|| Error::internal("a schema has fewer columns than dimensions"))?;
        let dimensions = schema.dimensions.iter().zip(dimension_names);
        let attributes = schema.attributes.iter().zip(attribute_names);
        let mut told: HashSet<&str> = HashSet::new();
        let attributes = attributes.map(|(attribute, name)| {
            let enumeration = attribute.enumeration.as_deref();
            // Only the first column that shares an enumeration lists its values; the others name it.
            let repeated = enumeration.is_some_and(|name| told.contains(name));
            told.extend(enumeration);
            let known = definition.enumerations.iter();
            let enumeration = known.clone().find(|e| Some(e.name.as_str()) == enumeration);
            of_attribute(attribute, name, enumeration, repeated)
        });
        Ok(Self {
            attributes: attributes.collect::<Result<_>>()?,
            dimensions: dimensions
                .map(|(dimension, name)| of_dimension(dimension, name))
                .collect::<Result<_>>()?,
            array: ArraySettings {
                array_type: Some(schema.array_type),
                cell_order: Some(schema.cell_order),
                tile_order: Some(schema.tile_order),
                capacity: Some(schema.capacity),
                allows_duplicates: Some(schema.allows_duplicates),
                coords_filters: Some(schema.coords_filters.clone()),
                offsets_filters: Some(schema.offsets_filters.clone()),
                validity_filters: Some(schema.validity_filters.clone()),
                current_domain: schema.current_domain.as_ref().map(|current| {
                    let ends = current.ranges.iter();
                    ends.map(|r| {
                        (
                            LiteralValue::Bytes(r.lo.clone()),
                            LiteralValue::Bytes(r.hi.clone()),
                        )
                    })
                    .collect()
                }),
            },
            change: ChangeOptions::default(),
        })
    }

    /// The options that disagree with an array.
    ///
    /// # Errors
    /// An option is not valid for the array.
    pub fn disagreements(&self, found: &ArrayDefinition) -> Result<Vec<OptionDisagreement>> {
        let all = |definition: &ArrayDefinition| -> Result<BTreeMap<String, String>> {
            Ok(Self::of(definition)?
                .options(definition)
                .into_iter()
                .collect())
        };
        let (given, found) = (all(&self.resolve()?)?, all(found)?);
        let keys = given
            .keys()
            .chain(found.keys().filter(|key| !given.contains_key(*key)));
        let shown = |options: &BTreeMap<String, String>, key| {
            options
                .get(key)
                .map_or("nothing", String::as_str)
                .to_owned()
        };
        let disagreements = keys.map(|key| OptionDisagreement {
            option: key.clone(),
            given: shown(&given, key),
            found: shown(&found, key),
        });
        Ok(disagreements.filter(|d| d.given != d.found).collect())
    }
}

fn of_dimension(dimension: &Dimension, name: &str) -> Result<BuilderColumn<DimensionSettings>> {
    let stored = StorageType {
        datatype: dimension.datatype,
        count: dimension.cell_val_num,
    };
    let bytes = |bytes: &Vec<u8>| LiteralValue::Bytes(bytes.clone());
    Ok(BuilderColumn {
        name: name.to_owned(),
        declared: declared(stored)?,
        nullable: false,
        chosen: DimensionSettings {
            stored: Some(TypeName::Known(stored)),
            domain: dimension
                .domain
                .as_ref()
                .map(|(low, high)| (bytes(low), bytes(high))),
            tile: dimension.extent.as_ref().map(bytes),
            filters: Some(dimension.filters.clone()),
        },
    })
}

fn of_attribute(
    attribute: &Attribute,
    name: &str,
    enumeration: Option<&Enumeration>,
    repeated: bool,
) -> Result<BuilderColumn<AttributeSettings>> {
    let stored = StorageType {
        datatype: attribute.datatype,
        count: attribute.cell_val_num,
    };
    let values = enumeration.map(|enumeration| StorageType {
        datatype: enumeration.datatype,
        count: enumeration.cell_val_num,
    });
    let members = enumeration.filter(|_| !repeated).map(|enumeration| {
        let members = (0..enumeration.len()).filter_map(|index| enumeration.member(index));
        let parsed = |bytes: &[u8]| EnumerationMember::Parsed(LiteralValue::Bytes(bytes.to_vec()));
        EnumerationMembers {
            values: members.map(parsed).collect(),
            ordered: enumeration.ordered,
        }
    });
    Ok(BuilderColumn {
        name: name.to_owned(),
        declared: declared(values.unwrap_or(stored))?,
        nullable: attribute.nullable,
        chosen: AttributeSettings {
            stored: Some(TypeName::Known(stored)),
            filters: Some(attribute.filters.clone()),
            fill: Some(FillSetting::Stored(LiteralValue::Bytes(
                attribute.fill_value.clone(),
            ))),
            fill_valid: Some(attribute.fill_valid),
            enumeration_type: members.as_ref().and(values).map(TypeName::Known),
            enumeration: members,
            never_enumerated: false,
            enumeration_name: attribute.enumeration.clone(),
            anonymous: attribute.is_unnamed().then_some(true),
        },
    })
}

/// The type that SQL declares for a stored type.
fn declared(stored: StorageType) -> Result<DataType> {
    let options = TypeOptions::default();
    let column = ColumnType::plain(stored.datatype, stored.count, true, &options)?;
    Ok(match column.data_type() {
        DataType::FixedSizeBinary(_) => DataType::BinaryView,
        other => other.clone(),
    })
}
