//! [`SchemaEvolution`]: the wanted changes of an array, in the words of its table.
//!
//! Columns are described as for [`ArrayBuilder`], which also resolves them. The subtle thing: the wanted changes are kept apart
//! from any array, because they are resolved against the newest schema each time another evolution comes first.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};

use super::columns::NamedColumns;
use super::execute::{EvolutionExecution, Evolved};
use super::step::{ChangedSchema, EvolutionStep, apply};
use crate::arrow::{TypeOptions, arrow_schema};
use crate::error::{Error, Result, ResultExt};
use crate::format::domain_range::DomainRange;
use crate::format::enumeration::Enumeration;
use crate::format::schema::current_domain::CurrentDomain;
use crate::storage::Storage;
use crate::write::change_options::{ChangeOptions, change_setters};
use crate::write::create::{
    ArrayBuilder, ArrayDefinition, LiteralValue, OptionKey, check_evolved, show_cell,
};

/// Describes how the schema of an array is to change, and changes it.
///
/// Cells are not touched. Existing rows show the fill value of a new column, or NULL if it is nullable and has none; a time
/// before the evolution shows the columns as they were.
///
/// ```
/// use arrow::datatypes::{DataType, Field, Schema};
/// use tiledb_engine::{ArrayBuilder, Location, SchemaEvolution};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("readings").display().to_string();
/// let columns = Schema::new(vec![
///     Field::new("id", DataType::Int64, false),
///     Field::new("quality", DataType::Utf8, true),
///     Field::new("note", DataType::Utf8, true),
/// ]);
/// ArrayBuilder::new(&columns, ["id"])?
///     .enumeration("quality", ["good", "bad"], false)?
///     .create(Location::local(&path)?)
///     .await?;
///
/// let evolved = SchemaEvolution::new()
///     .add_column(&Field::new("temperature", DataType::Float32, false))?
///     .filters("temperature", "byteshuffle, zstd(9)")?
///     .fill("temperature", -99.5)?
///     .drop_column("note")
///     .extend_enumeration("quality", ["doubtful"])
///     .apply(Location::local(&path)?)
///     .await?;
/// assert_eq!(evolved.changes.len(), 3);
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct SchemaEvolution {
    /// A builder with the new columns alone.
    added: ArrayBuilder,
    added_if_missing: Vec<String>,
    dropped: Vec<DroppedField>,
    extended: Vec<(String, Vec<LiteralValue>)>,
    ranges: Vec<(String, LiteralValue, LiteralValue)>,
    change: ChangeOptions,
}

#[derive(Debug, Clone)]
struct DroppedField {
    column: String,
    if_there: bool,
}

impl Default for SchemaEvolution {
    fn default() -> Self {
        Self {
            added: ArrayBuilder::without_columns(),
            added_if_missing: Vec::new(),
            dropped: Vec::new(),
            extended: Vec::new(),
            ranges: Vec::new(),
            change: ChangeOptions::default(),
        }
    }
}

impl SchemaEvolution {
    /// Changes nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a column behind the others.
    ///
    /// # Errors
    /// A column of this name is added already.
    pub fn add_column(mut self, field: &Field) -> Result<Self> {
        self.added.add_attribute(field)?;
        Ok(self)
    }

    /// Adds a column, unless the array has one of this name.
    ///
    /// # Errors
    /// As [`Self::add_column`].
    pub fn add_column_if_missing(mut self, field: &Field) -> Result<Self> {
        self.added_if_missing.push(field.name().clone());
        self.add_column(field)
    }

    /// Sets the filters of a new column, first to last: `byteshuffle, zstd(5)`.
    ///
    /// # Errors
    /// The column or the filter doesn't exist.
    pub fn filters(mut self, column: &str, filters: &str) -> Result<Self> {
        self.added = self.added.filters(column, filters)?;
        Ok(self)
    }

    /// Sets the value that a new column has in cells written before, as it is stored.
    ///
    /// # Errors
    /// The column doesn't exist.
    pub fn fill(mut self, column: &str, value: impl Into<LiteralValue>) -> Result<Self> {
        self.added = self.added.fill(column, value)?;
        Ok(self)
    }

    /// Sets the value that a new column has in cells written before, as the column shows it; `None` for NULL.
    pub fn default_value(mut self, column: &str, value: Option<LiteralValue>) -> Result<Self> {
        self.added = match value {
            Some(value) => self.added.default_value(column, value)?,
            None => self.added.default_null(column)?,
        };
        Ok(self)
    }

    /// Makes a new column an enumeration of these values, to which more can be added later.
    ///
    /// # Errors
    /// The column doesn't exist.
    pub fn enumeration<V: Into<LiteralValue>>(
        mut self,
        column: &str,
        values: impl IntoIterator<Item = V>,
        ordered: bool,
    ) -> Result<Self> {
        self.added = self.added.enumeration(column, values, ordered)?;
        Ok(self)
    }

    /// Sets an option of `CREATE EXTERNAL TABLE`, with or without the prefix `tiledb.`: `attr.<name>.…` of a new column, or
    /// `current_domain`.
    ///
    /// # Errors
    /// The option or the column doesn't exist, the value is not valid for it, or it can only be set when an array is created.
    pub fn option(mut self, key: &str, value: &str) -> Result<Self> {
        check_option(key)?;
        self.added = self.added.option(key, value)?;
        Ok(self)
    }

    /// Drops an attribute. Its values stay on storage, and earlier times still show it.
    #[must_use]
    pub fn drop_column(mut self, column: &str) -> Self {
        self.dropped.push(DroppedField {
            column: column.to_owned(),
            if_there: false,
        });
        self
    }

    /// Drops a column if the array has it.
    #[must_use]
    pub fn drop_column_if_there(mut self, column: &str) -> Self {
        self.dropped.push(DroppedField {
            column: column.to_owned(),
            if_there: true,
        });
        self
    }

    /// Adds values to the enumeration that a column shows, behind those that it has.
    #[must_use]
    pub fn extend_enumeration<V: Into<LiteralValue>>(
        mut self,
        column: &str,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        let values = values.into_iter().map(Into::into).collect();
        self.extended.push((column.to_owned(), values));
        self
    }

    /// Sets the current domain of a dimension, both ends inclusive: it grows, inside the domain. Those of the other dimensions
    /// stay as they are.
    #[must_use]
    pub fn current_domain(
        mut self,
        dimension: &str,
        low: impl Into<LiteralValue>,
        high: impl Into<LiteralValue>,
    ) -> Self {
        self.ranges
            .push((dimension.to_owned(), low.into(), high.into()));
        self
    }

    change_setters! {
        key: "The key of an encrypted array, with which the new schema is encrypted too.",
        time: "Changes the array as of this time, in milliseconds since 1970, instead of the present. It must be later than that of the schema that the array has."
    }

    /// Changes the array.
    ///
    /// # Errors
    /// There is no array; it cannot change like this, and the error names the column, what was found and what is allowed;
    /// another writer changes the same thing at the same time; or the storage fails.
    pub async fn apply(
        &self,
        location: impl TryInto<Storage, Error: Into<Error>>,
    ) -> Result<Evolved> {
        let storage = self.change.storage(location)?;
        let execution = EvolutionExecution {
            wanted: &|array| self.resolve(array),
            clock: &self.change.clock_of(&storage),
            chosen: self.change.time,
        };
        let evolved = execution.run(&storage).await;
        evolved.map_err(|e| e.with("array", storage.uri()))
    }

    /// The changes of an array, and the array afterwards; new enumerations have no files yet.
    pub(super) fn resolve(&self, array: &ArrayDefinition) -> Result<ChangedSchema> {
        let columns = NamedColumns::of(array)?;
        let mut steps = Vec::new();
        for DroppedField { column, if_there } in &self.dropped {
            let found = columns.attribute(column)?;
            if let (None, false) = (found, *if_there) {
                return Err(columns.no_column(column));
            }
            steps.extend(found.map(|found| EvolutionStep::DropAttribute(found.name.clone())));
        }
        let dropped = |name: &str| {
            steps
                .iter()
                .any(|s| matches!(s, EvolutionStep::DropAttribute(n) if n == name))
        };
        let mut added = self.added.clone();
        let is_there = |name: &str| columns.has(name) && !dropped(name);
        added.retain_attributes(|name| {
            !is_there(name) || !self.added_if_missing.iter().any(|n| n == name)
        });
        if let Some((name, _)) = added.attributes().find(|(name, _)| is_there(name)) {
            return Err(Error::invalid(format!(
                "there is a column \"{name}\" already: choose another name, or drop it first"
            )));
        }
        let orphans = orphans(array, dropped, &added);
        let known = array.enumerations.iter();
        let known = known
            .filter(|known| !orphans.contains(&known.name))
            .cloned()
            .collect::<Vec<_>>();
        steps.extend(orphans.into_iter().map(EvolutionStep::DropEnumeration));
        let (attributes, given) = added.resolve_attributes(&known)?;
        let new = given.into_iter().skip(known.len());
        steps.extend(new.map(EvolutionStep::AddEnumeration));
        steps.extend(self.extensions(array, &columns)?);
        let names = attributes
            .iter()
            .map(|a| a.name.clone())
            .collect::<Vec<_>>();
        let image_size = array.schema.image_size();
        steps.extend(attributes.into_iter().map(|mut attribute| {
            attribute.filters = attribute.filters.for_images_of(image_size);
            EvolutionStep::AddAttribute(attribute)
        }));
        let grown = self.grown(array, &columns, &added)?;
        steps.extend(grown.map(EvolutionStep::CurrentDomain));
        let evolved = apply(array, &steps)?;
        let new = evolved
            .schema
            .attributes
            .iter()
            .filter(|a| names.contains(&a.name))
            .collect::<Vec<_>>();
        check_evolved(&evolved, &new)?;
        added.check_shown(&shown(&evolved)?)?;
        Ok((steps, evolved))
    }

    /// The enumerations that get more values.
    fn extensions(
        &self,
        array: &ArrayDefinition,
        columns: &NamedColumns<'_>,
    ) -> Result<Vec<EvolutionStep>> {
        let mut extended: Vec<Enumeration> = Vec::new();
        for (column, values) in &self.extended {
            let name = columns.enumeration(column)?;
            let found = extended.iter().position(|known| known.name == name);
            let known = match found {
                Some(index) => extended.remove(index),
                None => array
                    .enumerations
                    .iter()
                    .find(|known| known.name == name)
                    .cloned()
                    .ok_or_else(|| Error::internal("an enumeration was not loaded"))?,
            };
            let grown = with_values(known, values);
            extended.push(grown.context("column", || column)?);
        }
        Ok(extended
            .into_iter()
            .map(EvolutionStep::ExtendEnumeration)
            .collect())
    }

    /// The current domain, if it changes.
    fn grown(
        &self,
        array: &ArrayDefinition,
        columns: &NamedColumns<'_>,
        added: &ArrayBuilder,
    ) -> Result<Option<CurrentDomain>> {
        let schema = &array.schema;
        let known = schema.current_domain.as_ref();
        let whole = added.resolve_current_domain(&schema.dimensions)?;
        for (column, ..) in &self.ranges {
            columns.check_dimension(column)?;
        }
        let grown = match (whole, self.ranges.is_empty()) {
            (whole, true) => whole,
            (Some(_), false) => {
                return Err(Error::invalid(
                    "the current domain is given both as a whole and by dimension: leave one of them out",
                ));
            }
            (None, false) => {
                let mut ranges = Vec::new();
                for (index, dimension) in schema.dimensions.iter().enumerate() {
                    let given = self
                        .ranges
                        .iter()
                        .rfind(|(name, ..)| *name == dimension.name);
                    let before = known.and_then(|known| known.ranges.get(index)).cloned();
                    let whole = || {
                        let domain = dimension.domain.clone();
                        domain.map(|(lo, hi)| DomainRange { lo, hi })
                    };
                    let range = match given {
                        None => before.or_else(whole).ok_or_else(|| {
                            Error::invalid(
                                "the dimension has no domain: give its current domain as well",
                            )
                        }),
                        Some((_, low, high)) => {
                            let (datatype, count) = (dimension.datatype, dimension.cell_val_num);
                            let end = |value: &LiteralValue| value.cell(datatype, count);
                            end(low).and_then(|lo| Ok(DomainRange { lo, hi: end(high)? }))
                        }
                    };
                    ranges.push(range.context("column", || &dimension.name)?);
                }
                Some(CurrentDomain { ranges })
            }
        };
        Ok(grown.filter(|grown| known != Some(grown)))
    }
}

/// Fails for an option of a new array that an existing array cannot change.
fn check_option(key: &str) -> Result<()> {
    let plain = key.strip_prefix("tiledb.").unwrap_or(key);
    match OptionKey::parse(plain) {
        Some(OptionKey::Array("current_domain") | OptionKey::Attribute(..)) => Ok(()),
        Some(_) => Err(Error::invalid(
            "this can only be set when an array is created; later, you can set tiledb.current_domain and tiledb.attr.<new column>.…",
        )
        .with("option", format!("tiledb.{plain}"))),
        None => Err(Error::invalid(
            "no such option; those of an array that exists are tiledb.current_domain and tiledb.attr.<new column>.…",
        )
        .with("option", format!("tiledb.{plain}"))),
    }
}

/// The enumerations that nothing shows once columns are dropped and added.
fn orphans(
    array: &ArrayDefinition,
    dropped: impl Fn(&str) -> bool,
    added: &ArrayBuilder,
) -> Vec<String> {
    let attributes = array.schema.attributes.iter();
    let (gone, stay): (Vec<_>, Vec<_>) = attributes.partition(|a| dropped(&a.name));
    let mut orphans: Vec<String> = Vec::new();
    for name in gone.into_iter().filter_map(|a| a.enumeration.as_ref()) {
        let used = stay.iter().any(|a| a.enumeration.as_ref() == Some(name));
        if !used && !added.borrows(name) && !orphans.contains(name) {
            orphans.push(name.clone());
        }
    }
    orphans
}

/// An enumeration with more values, not on storage yet.
fn with_values(known: Enumeration, values: &[LiteralValue]) -> Result<Enumeration> {
    if values.is_empty() {
        return Err(Error::invalid(
            "no value is given to add to the enumeration",
        ));
    }
    let (datatype, count) = (known.datatype, known.cell_val_num);
    let mut extended = Enumeration {
        file: String::new(),
        ..known
    };
    for value in values {
        let value = value.shown_cell(datatype, count)?;
        let number = (0..extended.len()).find(|i| extended.member(*i) == Some(&value));
        if let Some(number) = number {
            return Err(Error::invalid(format!(
                "{} is a value of the enumeration already, with the number {number}",
                show_cell(datatype, count, &value)
            ))
            .with("enumeration", extended.name));
        }
        if let Some(offsets) = &mut extended.offsets {
            offsets.push(extended.data.len() as u64);
        }
        extended.data.extend(value);
    }
    Ok(extended)
}

/// The columns of an array.
fn shown(array: &ArrayDefinition) -> Result<Schema> {
    let enumerations = array
        .enumerations
        .iter()
        .map(|e| (e.name.clone(), Ok(Arc::new(e.clone()))));
    let options = TypeOptions::default();
    let (shown, _) = arrow_schema(&array.schema, &enumerations.collect(), &options)?;
    Ok(shown.as_ref().clone())
}
