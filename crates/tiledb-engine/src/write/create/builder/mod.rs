//! [`ArrayBuilder`]: an array from the columns of a table.
//!
//! Typed methods and textual options set the same properties, so Rust and SQL can do the same. Everything else has the defaults
//! of `super::defaults`.

mod existing;
mod resolve;
mod settings;
mod spelled;
mod suggest;
#[cfg(test)]
mod tests;
mod wording;

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};

pub use self::existing::OptionDisagreement;
pub use self::settings::{ARRAY_OPTIONS, ATTRIBUTE_OPTIONS, DIMENSION_OPTIONS, OptionKey};
use self::settings::{ArraySettings, AttributeSettings, DimensionSettings, FillSetting, in_option};
pub use self::suggest::is_suggested_enumeration;
pub use self::wording::CreateWording;
use super::definition::ArrayDefinition;
use super::execute;
use super::literal::LiteralValue;
use super::types::{same_kind, sql_name};
use crate::arrow::{TypeOptions, arrow_schema};
use crate::error::{Error, Result, ResultExt};
use crate::format::filter_list::FilterList;
use crate::format::schema::ArrayType;
use crate::storage::Storage;
use crate::write::change_options::{ChangeOptions, change_setters};

/// Describes an array and creates it.
///
/// The columns of the array are its dimensions, in the order of their names here, and then the other fields of the schema, in
/// their order. A builder needs nothing more; a dense array needs the domains of its dimensions as well.
///
/// ```
/// use std::sync::Arc;
/// use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
/// use tiledb_engine::{ArrayBuilder, Location};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("readings").display().to_string();
/// let columns = Schema::new(vec![
///     Field::new("station", DataType::Utf8, false),
///     Field::new("time", DataType::Timestamp(TimeUnit::Millisecond, None), false),
///     Field::new("temperature", DataType::Float32, true),
///     Field::new("quality", DataType::Utf8, true),
/// ]);
/// let readings = ArrayBuilder::new(&columns, ["station", "time"])?
///     .domain("time", "1990-01-01", "2100-01-01")?
///     .tile("time", "30 days")?
///     .filters("temperature", "byteshuffle, zstd(9)")?
///     .enumeration("quality", ["good", "doubtful", "bad"], true)?
///     .option("capacity", "50000")?;
/// readings.create(Location::local(&path)?).await?;
/// assert_eq!(readings.definition()?.schema.attributes.len(), 2);
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct ArrayBuilder {
    array: ArraySettings,
    dimensions: Vec<BuilderColumn<DimensionSettings>>,
    attributes: Vec<BuilderColumn<AttributeSettings>>,
    change: ChangeOptions,
}

/// A column and the choices for it.
#[derive(Debug, Clone, PartialEq)]
struct BuilderColumn<S> {
    name: String,
    /// The type of the column; for an enumerated attribute that of its values, or a dictionary.
    declared: DataType,
    nullable: bool,
    chosen: S,
}

impl<S: Default> BuilderColumn<S> {
    fn of(field: &arrow::datatypes::Field) -> Self {
        Self {
            name: field.name().clone(),
            declared: field.data_type().clone(),
            nullable: field.is_nullable(),
            chosen: S::default(),
        }
    }
}

/// Fails unless a declared type stands for the type that is shown.
fn check_kind(declared: &DataType, shown: &DataType) -> Result<()> {
    if same_kind(declared, shown) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the column is declared as {} and would be {}: declare that, or choose other values or another type",
        sql_name(declared),
        sql_name(shown)
    )))
}

impl ArrayBuilder {
    /// An array with the columns of `schema`. Those named in `dimensions` are dimensions, in the order of the names.
    ///
    /// # Errors
    /// A name is not among the columns, or is given twice.
    pub fn new<N: AsRef<str>>(
        schema: &Schema,
        dimensions: impl IntoIterator<Item = N>,
    ) -> Result<Self> {
        let mut rest: Vec<_> = schema.fields().iter().collect();
        let mut found = Vec::new();
        for name in dimensions {
            let name = name.as_ref();
            let index = rest.iter().position(|field| field.name() == name).ok_or_else(|| {
                let names: Vec<_> = schema.fields().iter().map(|f| f.name().as_str()).collect();
                Error::invalid(format!(
                    "\"{name}\" is to be a dimension, and is not among the columns, or is named twice; the columns are {}",
                    names.join(", ")
                ))
            })?;
            found.push(BuilderColumn::of(rest.remove(index)));
        }
        Ok(Self {
            array: ArraySettings::default(),
            dimensions: found,
            attributes: rest
                .into_iter()
                .map(|field| BuilderColumn::of(field))
                .collect(),
            change: ChangeOptions::default(),
        })
    }

    /// Makes the array dense: every cell of the domain exists, whether or not it is written. Otherwise only written cells do.
    #[must_use]
    pub fn dense(mut self) -> Self {
        self.array.array_type = Some(ArrayType::Dense);
        self
    }

    /// Sets the domain of a dimension, both ends inclusive: the coordinates that cells may ever have.
    ///
    /// # Errors
    /// The dimension doesn't exist.
    pub fn domain(
        mut self,
        dimension: &str,
        low: impl Into<LiteralValue>,
        high: impl Into<LiteralValue>,
    ) -> Result<Self> {
        let ends = (low.into(), high.into());
        self.dimension_mut(dimension, false)?.domain = Some(ends);
        Ok(self)
    }

    /// Sets the tile extent of a dimension: a number of steps, or for dates and times a span such as `30 days`.
    ///
    /// # Errors
    /// The dimension doesn't exist.
    pub fn tile(mut self, dimension: &str, extent: impl Into<LiteralValue>) -> Result<Self> {
        self.dimension_mut(dimension, false)?.tile = Some(extent.into());
        Ok(self)
    }

    /// Sets the filters of a column, first to last: `byteshuffle, zstd(5)`.
    ///
    /// # Errors
    /// The column or the filter doesn't exist.
    pub fn filters(mut self, column: &str, filters: &str) -> Result<Self> {
        let list = FilterList::parse(filters).context("column", || column)?;
        match self.dimension_mut(column, false) {
            Ok(dimension) => dimension.filters = Some(list),
            Err(_) => self.attribute_mut(column, false)?.filters = Some(list),
        }
        Ok(self)
    }

    /// Sets the value of cells that were never written, as it is stored.
    ///
    /// # Errors
    /// The attribute doesn't exist.
    pub fn fill(mut self, attribute: &str, value: impl Into<LiteralValue>) -> Result<Self> {
        self.attribute_mut(attribute, false)?.fill = Some(FillSetting::Stored(value.into()));
        Ok(self)
    }

    /// Sets the value of cells that were never written, as the column shows it: for an enumeration, one of its values.
    pub fn default_value(mut self, attribute: &str, value: LiteralValue) -> Result<Self> {
        let chosen = self.attribute_mut(attribute, false)?;
        chosen.fill = Some(FillSetting::Shown(value));
        chosen.fill_valid = None;
        Ok(self)
    }

    /// Makes NULL the value of cells that were never written.
    pub fn default_null(mut self, attribute: &str) -> Result<Self> {
        self.attribute_mut(attribute, false)?.fill_valid = Some(false);
        Ok(self)
    }

    /// Makes an attribute an enumeration of these values, to which more can be added later. Cells hold numbers of values; the
    /// column shows the values.
    ///
    /// # Errors
    /// The attribute doesn't exist.
    pub fn enumeration<V: Into<LiteralValue>>(
        mut self,
        attribute: &str,
        values: impl IntoIterator<Item = V>,
        ordered: bool,
    ) -> Result<Self> {
        let member = |value: V| match value.into() {
            LiteralValue::Text(text) => settings::EnumerationMember::Verbatim(text),
            bytes @ LiteralValue::Bytes(_) => settings::EnumerationMember::Parsed(bytes),
        };
        self.attribute_mut(attribute, false)?.enumeration = Some(settings::EnumerationMembers {
            values: values.into_iter().map(member).collect(),
            ordered,
        });
        Ok(self)
    }

    /// Sets an option of `CREATE EXTERNAL TABLE`, with or without the prefix `tiledb.`: `capacity`, `dim.time.tile`, ….
    ///
    /// # Errors
    /// The option or the column doesn't exist, or the value is not valid for it.
    pub fn option(mut self, key: &str, value: &str) -> Result<Self> {
        let key = key.strip_prefix("tiledb.").unwrap_or(key);
        in_option(self.set(key, value, false), key)?;
        Ok(self)
    }

    /// As [`Self::option`], for a key whose letters have lost their case.
    pub fn option_in_lower_case(mut self, key: &str, value: &str) -> Result<Self> {
        in_option(self.set(key, value, true), key)?;
        Ok(self)
    }

    change_setters! {
        key: "Encrypts all that is stored.",
        time: "Creates the array as of this time, in milliseconds since 1970, instead of the present."
    }

    /// The array that would be created.
    ///
    /// # Errors
    /// No array can be created like this; the error names the column or option, what was given and what is allowed.
    pub fn definition(&self) -> Result<ArrayDefinition> {
        let definition = self.resolve()?;
        definition.check()?;
        self.check_columns(&definition, &TypeOptions::default())?;
        Ok(definition)
    }

    /// Fails unless the columns of the array are the declared ones.
    pub fn check_columns(&self, definition: &ArrayDefinition, options: &TypeOptions) -> Result<()> {
        let enumerations = definition
            .enumerations
            .iter()
            .map(|e| (e.name.clone(), Ok(Arc::new(e.clone()))));
        let (shown, _) = arrow_schema(&definition.schema, &enumerations.collect(), options)?;
        let dimensions = self
            .dimensions
            .iter()
            .map(|column| (&column.name, &column.declared));
        let attributes = self
            .attributes
            .iter()
            .map(|column| (&column.name, &column.declared));
        for ((name, declared), shown) in dimensions.chain(attributes).zip(shown.fields()) {
            if name != shown.name() {
                return Err(Error::invalid(format!(
                    "the column would be called \"{}\", as attributes without a name are: call it so",
                    shown.name()
                ))
                .with("column", name));
            }
            check_kind(declared, shown.data_type()).context("column", || name)?;
        }
        Ok(())
    }

    /// Creates the array.
    ///
    /// # Errors
    /// As [`Self::definition`]; there is an array already; or the storage fails.
    pub async fn create(&self, location: impl TryInto<Storage, Error: Into<Error>>) -> Result<()> {
        let storage = location.try_into().map_err(Into::into)?;
        self.stage_in(&storage).await?.publish().await
    }

    /// Prepares the array, so that it can be written to before it is visible.
    pub async fn stage_in(&self, storage: &Storage) -> Result<execute::StagedArray> {
        let definition = self.definition()?;
        let clock = self.change.clock_of(storage);
        let creation = execute::ArrayCreation {
            definition: &definition,
            storage,
            clock: &clock,
            time: self.change.time(&clock).await,
        };
        creation.stage(self.change.encryption_key.as_ref()).await
    }

    /// Adds a column that is an attribute.
    ///
    /// # Errors
    /// There is a column of this name.
    pub(in crate::write) fn add_attribute(
        &mut self,
        field: &arrow::datatypes::Field,
    ) -> Result<()> {
        let column = BuilderColumn::of(field);
        if self
            .attributes
            .iter()
            .any(|known| known.name == column.name)
        {
            return Err(Error::invalid(format!(
                "the column \"{}\" is added twice",
                column.name
            )));
        }
        self.attributes.push(column);
        Ok(())
    }

    /// A builder without columns, to which attributes can be added.
    pub(in crate::write) fn without_columns() -> Self {
        Self {
            array: ArraySettings::default(),
            dimensions: Vec::new(),
            attributes: Vec::new(),
            change: ChangeOptions::default(),
        }
    }

    /// Whether an attribute uses this enumeration without defining its values.
    pub(in crate::write) fn borrows(&self, enumeration: &str) -> bool {
        self.attributes.iter().any(|column| {
            let chosen = &column.chosen;
            chosen.enumeration.is_none() && chosen.enumeration_name.as_deref() == Some(enumeration)
        })
    }

    /// Keeps only the attributes whose names are wanted.
    pub(in crate::write) fn retain_attributes(&mut self, wanted: impl Fn(&str) -> bool) {
        self.attributes.retain(|column| wanted(&column.name));
    }

    /// The columns that are attributes, and their declared types.
    pub(in crate::write) fn attributes(&self) -> impl Iterator<Item = (&str, &DataType)> {
        let columns = self.attributes.iter();
        columns.map(|column| (column.name.as_str(), &column.declared))
    }

    /// Fails if a column is not shown as it is declared.
    pub(in crate::write) fn check_shown(&self, shown: &Schema) -> Result<()> {
        for (name, declared) in self.attributes() {
            let found = shown.field_with_name(name).map_err(|_| {
                Error::internal("a column is missing from the array").with("column", name)
            })?;
            check_kind(declared, found.data_type()).context("column", || name)?;
        }
        Ok(())
    }

    fn set(&mut self, key: &str, value: &str, lower_case: bool) -> Result<()> {
        match OptionKey::parse(key) {
            Some(OptionKey::Array(option)) => self.array.set(option, value),
            Some(OptionKey::Dimension(column, option)) => {
                self.dimension_mut(column, lower_case)?.set(option, value)
            }
            Some(OptionKey::Attribute(column, option)) => {
                self.attribute_mut(column, lower_case)?.set(option, value)
            }
            None => Err(Error::invalid(format!(
                "this describes no array; the options are {}, dim.<name>.{}, attr.<name>.{}",
                ARRAY_OPTIONS.join(", "),
                DIMENSION_OPTIONS.join("|"),
                ATTRIBUTE_OPTIONS.join("|")
            ))),
        }
    }

    fn dimension_mut(&mut self, name: &str, lower_case: bool) -> Result<&mut DimensionSettings> {
        let index = self.find(name, lower_case)?;
        self.dimensions
            .get_mut(index)
            .map(|column| &mut column.chosen)
            .ok_or_else(|| {
                Error::invalid(format!(
                    "\"{name}\" is an attribute: what is chosen for it begins with tiledb.attr"
                ))
            })
    }

    fn attribute_mut(&mut self, name: &str, lower_case: bool) -> Result<&mut AttributeSettings> {
        let index = self
            .find(name, lower_case)?
            .checked_sub(self.dimensions.len());
        let column = index.and_then(|index| self.attributes.get_mut(index));
        column.map(|column| &mut column.chosen).ok_or_else(|| {
            Error::invalid(format!(
                "\"{name}\" is a dimension: what is chosen for it begins with tiledb.dim"
            ))
        })
    }

    /// The number of the column called `name`, counted from the first dimension. Case is ignored if only one column then
    /// matches.
    fn find(&self, name: &str, lower_case: bool) -> Result<usize> {
        let names = || {
            let dimensions = self.dimensions.iter().map(|column| column.name.as_str());
            dimensions.chain(self.attributes.iter().map(|column| column.name.as_str()))
        };
        if let (false, Some(exact)) = (lower_case, names().position(|known| known == name)) {
            return Ok(exact);
        }
        let wanted = name.to_lowercase();
        let alike: Vec<_> = names()
            .enumerate()
            .filter(|(_, known)| {
                known
                    .chars()
                    .flat_map(char::to_lowercase)
                    .eq(wanted.chars())
            })
            .collect();
        match alike.as_slice() {
            [(only, _)] => Ok(*only),
            [] => Err(Error::invalid(format!(
                "there is no column \"{name}\"; the columns are {}",
                names().collect::<Vec<_>>().join(", ")
            ))),
            several => {
                let several: Vec<_> = several.iter().map(|(_, name)| *name).collect();
                Err(Error::invalid(format!(
                    "\"{name}\" may mean {}, because options lose the case of their letters: give these columns names that differ otherwise, or use ArrayBuilder",
                    several.join(" or ")
                )))
            }
        }
    }
}
