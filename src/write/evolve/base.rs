//! An array as an evolution finds it.

use std::collections::BTreeSet;

use crate::array::inspect::Inspection;
use crate::array::window::{OpenWindow, TimestampMs};
use crate::arrow::Enumerations;
use crate::error::{Error, Result};
use crate::format::schema::ArraySchema;
use crate::storage::Storage;
use crate::write::create::{ArrayDefinition, upgraded};

/// An array as an evolution finds it.
pub(super) struct Base {
    pub inspection: Inspection,
    pub array: ArrayDefinition,
    /// The names of the files of its schemas.
    pub names: BTreeSet<String>,
}

impl Base {
    pub(super) async fn open(storage: &Storage) -> Result<Self> {
        let window = OpenWindow::new(TimestampMs(0), Some(TimestampMs(u64::MAX)))?;
        let inspection = Inspection::open(storage, window).await?;
        let enumerations = inspection.enumerations().await?;
        let array = definition(&inspection.schema, &enumerations)?;
        let names = inspection.schema_names().map(str::to_owned).collect();
        Ok(Self {
            inspection,
            array,
            names,
        })
    }

    /// The storage, with the key only if the array is encrypted.
    pub(super) fn storage(&self) -> &Storage {
        self.inspection.storage()
    }
}

/// The array of a schema, in today's version of the format.
pub(super) fn definition(schema: &ArraySchema, known: &Enumerations) -> Result<ArrayDefinition> {
    for attribute in &schema.attributes {
        crate::arrow::check_problem(attribute)?;
    }
    let loaded = |name: &String| match known.get(name) {
        Some(Ok(enumeration)) => Ok(enumeration.as_ref().clone()),
        Some(Err(why)) => Err(why.again().with("enumeration", name)),
        None => Err(Error::internal("an enumeration was not loaded").with("enumeration", name)),
    };
    let enumerations = schema.enumerations.iter().map(|e| loaded(&e.name));
    Ok(ArrayDefinition {
        enumerations: enumerations.collect::<Result<_>>()?,
        schema: upgraded(schema),
    })
}
