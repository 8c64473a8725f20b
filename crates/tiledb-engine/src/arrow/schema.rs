//! The Arrow schema of an array: dimensions in domain order, then attributes in schema order.
//!
//! Fields carry what Arrow types cannot express (`tiledb.datatype`, `tiledb.role`, `tiledb.enumeration`), and
//! GeoArrow's extension names. Columns must have distinct names: an attribute without a name is called `attr`, or the
//! first free `attr_N`. Releases 1.x stored `__attr` for it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};

use super::TypeOptions;
use super::column_type::ColumnType;
use crate::error::{Error, Result};
use crate::format::datatype::Datatype;
use crate::format::enumeration::Enumeration;
use crate::format::schema::{ArraySchema, Attribute, DimensionLabel};

/// Field metadata: the name of the stored type.
pub const DATATYPE_KEY: &str = "tiledb.datatype";
/// Field metadata: [`DIMENSION_ROLE`], [`ATTRIBUTE_ROLE`], [`LABEL_ROLE`] or [`SYSTEM_ROLE`].
pub const ROLE_KEY: &str = "tiledb.role";
/// The role of a dimension.
pub const DIMENSION_ROLE: &str = "dimension";
/// The role of an attribute.
pub const ATTRIBUTE_ROLE: &str = "attribute";
/// The role of a dimension label.
pub const LABEL_ROLE: &str = "label";
/// The role of a column that no field supplies, such as the time at which a cell was written.
pub const SYSTEM_ROLE: &str = "system";
/// Field metadata of a label: the column of the dimension it labels.
pub const LABELLED_KEY: &str = "tiledb.dimension";

/// Field metadata of an enumerated attribute: the name of the enumeration, whose values the column shows.
pub const ENUMERATION_KEY: &str = "tiledb.enumeration";

const EXTENSION_NAME_KEY: &str = "ARROW:extension:name";
const EXTENSION_METADATA_KEY: &str = "ARROW:extension:metadata";
const ANONYMOUS_ATTRIBUTE: &str = "attr";

/// Field metadata of a column that cannot be read: the reason.
pub const UNREADABLE_KEY: &str = "tiledb.unreadable";

/// The enumerations of an array by name, or the reason why one cannot be read.
pub type ArrayEnumerations = HashMap<String, Result<Arc<Enumeration>, Arc<Error>>>;

/// The Arrow schema of an array and the column types behind it; `enumerations` are by name. An attribute that cannot be
/// read still has a column, which is [unreadable](ColumnType::unreadable).
pub fn arrow_schema(
    schema: &ArraySchema,
    enumerations: &ArrayEnumerations,
    options: &TypeOptions,
) -> Result<(SchemaRef, Vec<ColumnType>)> {
    let dimensions = schema.dimensions.iter().map(|dimension| {
        Ok((
            ColumnType::of_dimension(dimension, options)?,
            DIMENSION_ROLE,
        ))
    });
    let attributes = schema.attributes.iter().map(|attribute| {
        let ty = match attribute_type(attribute, enumerations, options) {
            Err(e) if e.is_about_data() => ColumnType::unreadable(attribute.datatype, e),
            ty => ty?,
        };
        Ok((ty, ATTRIBUTE_ROLE))
    });
    let columns: Vec<(ColumnType, &str)> = dimensions.chain(attributes).collect::<Result<_>>()?;
    let mut fields: Vec<Field> = column_names(schema)?
        .into_iter()
        .zip(&columns)
        .map(|(name, (ty, role))| field(name, ty, role))
        .collect();
    let of_attributes = fields.iter_mut().skip(schema.dimensions.len());
    for (field, attribute) in of_attributes.zip(&schema.attributes) {
        if let Some(enumeration) = &attribute.enumeration {
            let metadata = field.metadata_mut();
            metadata.insert(ENUMERATION_KEY.to_owned(), enumeration.clone());
        }
    }
    let types = columns.into_iter().map(|(ty, _)| ty).collect();
    Ok((Arc::new(Schema::new(fields)), types))
}

/// The type of an attribute's column.
pub fn attribute_type(
    attribute: &Attribute,
    enumerations: &ArrayEnumerations,
    options: &TypeOptions,
) -> Result<ColumnType> {
    let name = attribute.enumeration.as_ref();
    let enumeration = match name.and_then(|name| enumerations.get(name)) {
        Some(Ok(enumeration)) => Some(enumeration.as_ref()),
        Some(Err(why)) => return Err(why.again().with("attribute", &attribute.name)),
        None => None,
    };
    ColumnType::of_attribute(attribute, enumeration, options)
}

/// The column of a dimension label, from the schema alone, without opening the array that holds the labels.
///
/// Labels created with the array are never NULL; whether a user's own array has NULLs is known only once it is opened.
pub fn label_field(
    schema: &ArraySchema,
    label: &DimensionLabel,
    options: &TypeOptions,
) -> Result<(Field, ColumnType)> {
    let ty = match &label.problem {
        Some(problem) => Err(Error::corrupt(problem.clone())),
        None => ColumnType::plain(label.datatype, label.cell_val_num, label.external, options),
    };
    let ty = match ty.map_err(|e| e.with("label", &label.name)) {
        Err(e) if e.is_about_data() => ColumnType::unreadable(label.datatype, e),
        ty => ty?,
    };
    let names = column_names(schema)?;
    let mut dimensions = names.into_iter().take(schema.dimensions.len());
    let labelled = usize::try_from(label.dimension)
        .ok()
        .and_then(|dimension| dimensions.nth(dimension));
    let mut field = field(label.name.clone(), &ty, LABEL_ROLE);
    if let Some(labelled) = labelled {
        let metadata = field.metadata_mut();
        metadata.insert(LABELLED_KEY.to_owned(), labelled);
    }
    Ok((field, ty))
}

/// The names of the columns of dimensions and attributes, all distinct, and distinct from those of labels.
pub fn column_names(schema: &ArraySchema) -> Result<Vec<String>> {
    let stored = || {
        let dimensions = schema.dimensions.iter().map(|d| d.name.as_str());
        let attributes = schema
            .attributes
            .iter()
            .map(|a| if a.is_unnamed() { "" } else { a.name.as_str() });
        dimensions.chain(attributes)
    };
    let mut taken = HashSet::new();
    for name in stored().filter(|name| !name.is_empty()) {
        if !taken.insert(name.to_owned()) {
            return Err(Error::corrupt(format!(
                "two fields are called \"{name}\", expected names that differ"
            )));
        }
    }
    taken.extend(schema.labels.iter().map(|label| label.name.clone()));
    let mut names = Vec::new();
    for (column, name) in stored().enumerate() {
        if !name.is_empty() {
            names.push(name.to_owned());
            continue;
        }
        let free = if column < schema.dimensions.len() {
            first_free(&format!("__dim_{column}"), &taken)
        } else {
            first_free(ANONYMOUS_ATTRIBUTE, &taken)
        };
        taken.insert(free.clone());
        names.push(free);
    }
    Ok(names)
}

/// `wanted`, or the first of `wanted_1`, `wanted_2`, … that is not taken.
fn first_free(wanted: &str, taken: &HashSet<String>) -> String {
    let numbered = (1u64..).map(|n| format!("{wanted}_{n}"));
    std::iter::once(wanted.to_owned())
        .chain(numbered)
        .find(|name| !taken.contains(name))
        .unwrap_or_else(|| wanted.to_owned())
}

fn field(name: String, ty: &ColumnType, role: &str) -> Field {
    let mut metadata = HashMap::from([
        (DATATYPE_KEY.to_owned(), ty.datatype().name().to_owned()),
        (ROLE_KEY.to_owned(), role.to_owned()),
    ]);
    let extension = match ty.datatype() {
        _ if ty.check_readable().is_err() => None,
        Datatype::GeomWkb => Some("geoarrow.wkb"),
        Datatype::GeomWkt => Some("geoarrow.wkt"),
        _ => None,
    };
    if let Some(extension) = extension {
        metadata.insert(EXTENSION_NAME_KEY.to_owned(), extension.to_owned());
        metadata.insert(EXTENSION_METADATA_KEY.to_owned(), "{}".to_owned());
    }
    if let Err(why) = ty.check_readable() {
        metadata.insert(UNREADABLE_KEY.to_owned(), why.to_string());
    }
    Field::new(name, ty.data_type().clone(), ty.nullable()).with_metadata(metadata)
}
