//! [`ArrayDefinition`]: an array that does not exist yet, as plain data.
//!
//! It is the schema and the members of the enumerations, without the names of files, which an array has only once it is
//! created. The subtle thing: the order in which a schema lists its enumerations means nothing, and libtiledb writes any, so a
//! definition has the order in which attributes mention them.

use crate::arrow::ArrayEnumerations;
use crate::error::{Error, Result};
use crate::format::datatype::Datatype;
use crate::format::enumeration::Enumeration;
use crate::format::filter_list::FilterList;
use crate::format::schema::{ArraySchema, CellValNum, EnumerationRef};
use crate::format::version::FormatVersion;

/// The value that libtiledb fills with: the type's own for each element, and one element where cells differ in size.
pub(super) fn default_fill(datatype: Datatype, count: CellValNum) -> Vec<u8> {
    let elements = match count {
        CellValNum::Fixed(count) => usize::try_from(count).unwrap_or(usize::MAX),
        CellValNum::Var => 1,
    };
    datatype.default_fill().repeat(elements)
}

/// The description of an array.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrayDefinition {
    /// The schema, whose enumerations have no files.
    pub schema: ArraySchema,
    /// The members of the enumerations that attributes mention, without files.
    pub enumerations: Vec<Enumeration>,
}

impl ArrayDefinition {
    /// A definition with these enumerations, in any order.
    ///
    /// # Errors
    /// An attribute mentions a missing enumeration.
    pub(super) fn new(mut schema: ArraySchema, given: &[Enumeration]) -> Result<Self> {
        let mut enumerations: Vec<Enumeration> = Vec::new();
        for attribute in &schema.attributes {
            let Some(name) = &attribute.enumeration else {
                continue;
            };
            if enumerations.iter().any(|known| known.name == *name) {
                continue;
            }
            let found = given
                .iter()
                .find(|given| given.name == *name)
                .ok_or_else(|| {
                    Error::invalid(format!("nothing says what enumeration \"{name}\" holds"))
                        .with("column", &attribute.name)
                })?;
            enumerations.push(Enumeration {
                file: String::new(),
                ..found.clone()
            });
        }
        schema.version = FormatVersion::WRITTEN;
        schema.enumerations = enumerations
            .iter()
            .map(|enumeration| EnumerationRef {
                name: enumeration.name.clone(),
                file: String::new(),
            })
            .collect();
        Ok(Self {
            schema,
            enumerations,
        })
    }

    /// The definition of an existing array, in today's version of the format, and the properties that no new array could have.
    ///
    /// # Errors
    /// A part of the schema cannot be read.
    pub fn of(schema: &ArraySchema, known: &ArrayEnumerations) -> Result<(Self, Vec<String>)> {
        let mut missing = Vec::new();
        let mut given = Vec::new();
        for reference in &schema.enumerations {
            let name = &reference.name;
            let used = |attribute: &Option<String>| attribute.as_ref() == Some(name);
            if !schema.attributes.iter().any(|a| used(&a.enumeration)) {
                missing.push(format!("enumeration \"{name}\", which no attribute has"));
                continue;
            }
            match known.get(name) {
                Some(Ok(enumeration)) => given.push(enumeration.as_ref().clone()),
                Some(Err(why)) => return Err(why.again().with("enumeration", name)),
                None => {
                    return Err(Error::internal(format!(
                        "enumeration \"{name}\" was not loaded before it was needed"
                    )));
                }
            }
        }
        for attribute in &schema.attributes {
            crate::arrow::check_problem(attribute)?;
        }
        let labels = schema.labels.iter();
        missing.extend(labels.map(|label| format!("dimension label \"{}\"", label.name)));
        let mut schema = upgraded(schema);
        schema.labels.clear();
        let definition = Self::new(schema, &given)?;
        Ok((definition, missing))
    }

    /// The schema and the enumerations with files, each named by `name_file`.
    pub(super) fn with_files(
        &self,
        mut name_file: impl FnMut() -> Result<String>,
    ) -> Result<(ArraySchema, Vec<Enumeration>)> {
        let mut schema = self.schema.clone();
        let mut enumerations = self.enumerations.clone();
        let references = schema.enumerations.iter_mut();
        for (enumeration, reference) in enumerations.iter_mut().zip(references) {
            enumeration.file = name_file()?;
            reference.file.clone_from(&enumeration.file);
        }
        Ok((schema, enumerations))
    }
}

/// A schema as if it had been written in today's version of the format: it states what its own version implied.
pub(in crate::write) fn upgraded(schema: &ArraySchema) -> ArraySchema {
    let mut schema = schema.clone();
    if !schema.version.since(7) {
        // Nothing is nullable yet, and no filters are stored.
        schema.validity_filters = FilterList::of([]);
    }
    if !schema.version.since(6) {
        for attribute in &mut schema.attributes {
            // No fill value is stored, and each element has the type's own.
            attribute.fill_value = default_fill(attribute.datatype, attribute.cell_val_num);
        }
    }
    for index in 0..schema.dimensions.len() {
        // Before version 5, all dimensions have the filters of the coordinates.
        let filters = schema.dimension_filters(index, schema.version).clone();
        let shared = !schema.version.since(5);
        if let (true, Some(dimension)) = (shared, schema.dimensions.get_mut(index)) {
            dimension.filters = filters;
        }
    }
    schema.version = FormatVersion::WRITTEN;
    schema
}
