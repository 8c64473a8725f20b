//! Finds the columns of an evolution in an array.

use crate::arrow::column_names;
use crate::error::{Error, Result};
use crate::format::schema::Attribute;
use crate::write::create::ArrayDefinition;

/// The columns of an array by the names that its table shows.
pub(super) struct NamedColumns<'a> {
    array: &'a ArrayDefinition,
    /// Dimensions, then attributes.
    names: Vec<String>,
}

impl<'a> NamedColumns<'a> {
    pub(super) fn of(array: &'a ArrayDefinition) -> Result<Self> {
        let names = column_names(&array.schema)?;
        Ok(Self { array, names })
    }

    /// Whether there is a column of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        let mut labels = self.array.schema.labels.iter();
        self.names.iter().any(|known| known == name) || labels.any(|label| label.name == name)
    }

    /// The attribute of a column; `None` if the column doesn't exist.
    pub(super) fn attribute(&self, column: &str) -> Result<Option<&'a Attribute>> {
        let schema = &self.array.schema;
        if schema.labels.iter().any(|label| label.name == column) {
            return Err(Error::unsupported(format!(
                "\"{column}\" is a dimension label, and labels do not change"
            )));
        }
        let Some(index) = self.names.iter().position(|name| name == column) else {
            return Ok(None);
        };
        let number = index.checked_sub(schema.dimensions.len()).ok_or_else(|| {
            Error::invalid(format!(
                "\"{column}\" is a dimension, and dimensions can't change once an array is created"
            ))
        })?;
        Ok(schema.attributes.get(number))
    }

    /// The name of the enumeration that a column shows.
    pub(super) fn enumeration(&self, column: &str) -> Result<&'a str> {
        let attribute = self
            .attribute(column)?
            .ok_or_else(|| self.no_column(column))?;
        attribute.enumeration.as_deref().ok_or_else(|| {
            Error::invalid(format!(
                "the column \"{column}\" has no enumeration: it shows what is stored"
            ))
        })
    }

    /// Fails unless a column is a dimension.
    pub(super) fn check_dimension(&self, column: &str) -> Result<()> {
        let mut dimensions = self.array.schema.dimensions.iter();
        if dimensions.any(|dimension| dimension.name == column) {
            Ok(())
        } else {
            Err(Error::invalid(format!(
                "there is no dimension \"{column}\": only dimensions have a current domain"
            )))
        }
    }

    pub(super) fn no_column(&self, column: &str) -> Error {
        Error::invalid(format!(
            "there is no column \"{column}\"; the columns are {}",
            self.names.join(", ")
        ))
    }
}
