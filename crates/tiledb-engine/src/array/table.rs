//! The table of an array: dimensions, then attributes, then system columns if they are requested, as Arrow columns.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, StringViewArray, TimestampMillisecondArray, new_null_array};
use arrow::datatypes::{Field, Schema, SchemaRef};

use super::directory::ArrayDirectory;
use super::fragment::{Fragment, FragmentField};
use super::snapshot::Snapshot;
use super::window::{OpenWindow, TimestampMs};
use crate::arrow::{
    ColumnType, FloatBits, ROLE_KEY, SYSTEM_ROLE, TypeOptions, arrow_schema, check_problem,
    fill_array, repeated_bytes,
};
use crate::error::{Error, Result};
use crate::format::fragment::footer::OLD_SCHEMA_NAME;
use crate::storage::Storage;

/// A snapshot and the columns it shows.
#[derive(Debug, Clone)]
pub struct ArrayTable {
    /// The array at a time.
    pub snapshot: Snapshot,
    /// The Arrow schema, one field a column.
    pub schema: SchemaRef,
    /// The conversion of each column's stored bytes to Arrow.
    pub types: Arc<Vec<ColumnType>>,
    /// The options that the types depend on.
    pub options: TypeOptions,
    /// The index of the first added column that shows floats bit by bit as stored, and the columns that the added ones repeat.
    pub(super) stored: (usize, Arc<[usize]>),
}

impl ArrayTable {
    /// The table of `snapshot`.
    pub fn new(snapshot: Snapshot, options: &TypeOptions) -> Result<Self> {
        let (schema, types) = arrow_schema(&snapshot.schema, &snapshot.enumerations, options)
            .map_err(|e| e.with("array", snapshot.storage.uri()))?;
        Ok(Self {
            snapshot,
            schema,
            stored: (types.len(), Arc::default()),
            types: Arc::new(types),
            options: *options,
        })
    }

    /// The table of another snapshot of the array; `None` if its schema or its enumerations, from which the columns
    /// follow, are others.
    pub fn at(&self, snapshot: &Snapshot) -> Option<Self> {
        let same = Arc::ptr_eq(&self.snapshot.schema, &snapshot.schema)
            && Arc::ptr_eq(&self.snapshot.enumerations, &snapshot.enumerations);
        same.then(|| Self {
            snapshot: snapshot.clone(),
            schema: Arc::clone(&self.schema),
            types: Arc::clone(&self.types),
            options: self.options,
            stored: self.stored.clone(),
        })
    }

    /// Makes every attribute of the table nullable, for showing dense cells that were never written as NULL.
    #[must_use]
    pub fn with_nullable_attributes(self) -> Self {
        let dimensions = self.dimension_count();
        let fields = self
            .schema
            .fields()
            .iter()
            .enumerate()
            .map(|(i, field)| {
                if i < dimensions {
                    Arc::clone(field)
                } else {
                    Arc::new(Field::clone(field).with_nullable(true))
                }
            })
            .collect::<Vec<_>>();
        let schema = Arc::new(Schema::new_with_metadata(
            fields,
            self.schema.metadata().clone(),
        ));
        Self { schema, ..self }
    }

    /// Adds the system columns. In a dense array they can be NULL: where no fragment wrote the cell.
    pub fn with_system_columns(self) -> Result<Self> {
        let schema = &self.snapshot.schema;
        let mut fields = self.schema.fields().to_vec();
        let mut types = self.types.as_ref().clone();
        let names = fields.iter().map(|field| field.name().as_str());
        let labels = schema.labels.iter().map(|label| label.name.as_str());
        SystemColumn::check_names(names.chain(labels))
            .map_err(|e| e.with("array", self.snapshot.storage.uri()))?;
        for column in SystemColumn::ALL {
            let ty = column.column_type(schema.is_dense());
            fields.push(Arc::new(column.field(&ty)));
            types.push(ty);
        }
        let metadata = self.schema.metadata().clone();
        Ok(Self {
            schema: Arc::new(Schema::new_with_metadata(fields, metadata)),
            stored: (types.len(), Arc::default()),
            types: Arc::new(types),
            ..self
        })
    }

    /// Adds a second column for each column of floats, which shows it bit by bit as stored.
    pub fn with_stored_floats(self) -> Result<Self> {
        let options = TypeOptions {
            float_bits: FloatBits::Stored,
            ..self.options
        };
        let snapshot = &self.snapshot;
        let (_, stored) = arrow_schema(&snapshot.schema, &snapshot.enumerations, &options)
            .map_err(|e| e.with("array", snapshot.storage.uri()))?;
        let mut fields = self.schema.fields().to_vec();
        let mut types = self.types.as_ref().clone();
        let (first, mut of) = (types.len(), Vec::new());
        for (column, ty) in stored.into_iter().enumerate() {
            let field = self.schema.fields().get(column);
            let Some(field) = field.filter(|_| ty.has_floats()) else {
                continue;
            };
            let mut name = format!("{} as stored", field.name());
            while fields.iter().any(|field| *field.name() == name) {
                name.push('\'');
            }
            fields.push(Arc::new(Field::clone(field).with_name(name)));
            types.push(ty);
            of.push(column);
        }
        let metadata = self.schema.metadata().clone();
        Ok(Self {
            schema: Arc::new(Schema::new_with_metadata(fields, metadata)),
            types: Arc::new(types),
            stored: (first, of.into()),
            ..self
        })
    }

    /// The column that an added column shows bit by bit as stored; otherwise the column itself.
    pub fn shown_by(&self, column: usize) -> usize {
        let (first, of) = &self.stored;
        let number = column.checked_sub(*first);
        let shown = number.and_then(|number| of.get(number));
        shown.copied().unwrap_or(column)
    }

    /// The added column that shows a column bit by bit as stored, if the table has one.
    pub fn stored_column_of(&self, column: usize) -> Option<usize> {
        let (first, of) = &self.stored;
        let number = of.iter().position(|shown| *shown == column)?;
        Some(first + number)
    }

    /// The system column with this number among the columns of the table.
    pub fn system_column(&self, column: usize) -> Option<SystemColumn> {
        let first = self.dimension_count() + self.snapshot.schema.attributes.len();
        let number = column.checked_sub(first)?;
        let found = SystemColumn::ALL.get(number).copied();
        found.filter(|_| column < self.stored.0.min(self.types.len()))
    }

    /// The number of dimensions, which are the first columns.
    pub fn dimension_count(&self) -> usize {
        self.snapshot.schema.dimensions.len()
    }
}

/// What supplies a table column in a fragment.
#[derive(Debug)]
pub enum TableColumnSource {
    /// A field of the fragment.
    Field(FragmentField),
    /// The fill value of the table's schema: the fragment has no such attribute.
    Fill,
    /// This value, for all cells.
    Constant(ArrayRef),
}

/// Finds what supplies a table column in a fragment.
pub fn supply(table: &ArrayTable, fragment: &Fragment, column: usize) -> Result<TableColumnSource> {
    let missing = || Error::internal(format!("the table has no column {column}"));
    if let Some(system) = table.system_column(column) {
        return Ok(match system.in_fragment(fragment)? {
            SystemValues::Stored(field) => TableColumnSource::Field(field),
            SystemValues::Constant(value) => TableColumnSource::Constant(value),
        });
    }
    let ty = table.types.get(column).ok_or_else(missing)?;
    let column = table.shown_by(column);
    let Some(number) = column.checked_sub(table.dimension_count()) else {
        return Ok(TableColumnSource::Field(FragmentField::Dimension(column)));
    };
    let wanted = table
        .snapshot
        .schema
        .attributes
        .get(number)
        .ok_or_else(missing)?;
    ty.check_readable()?;
    let own = &fragment.schema.attributes;
    // In the fragment's schema, the attribute has the number that it has in the table's, or one soon after it where attributes
    // were dropped since.
    let mut likely = (number..own.len()).chain(0..number.min(own.len()));
    let found = likely.find_map(|number| {
        let attribute = own.get(number).filter(|a| a.name == wanted.name)?;
        Some((number, attribute))
    });
    if let Some((_, attribute)) = found {
        // Whether its type differs from the array's is not known.
        check_problem(attribute)?;
    }
    let readable = found.filter(|(_, a)| ty.reads(a.datatype, a.cell_val_num));
    Ok(readable.map_or(TableColumnSource::Fill, |(number, _)| {
        TableColumnSource::Field(FragmentField::Attribute(number))
    }))
}

/// A column of cells that were never written.
pub fn fill_column(table: &ArrayTable, column: usize, cells: usize) -> Result<ArrayRef> {
    let missing = || Error::internal(format!("column {column} has no fill value"));
    if table.system_column(column).is_some() {
        let ty = table.types.get(column).ok_or_else(missing)?;
        return Ok(new_null_array(ty.data_type(), cells));
    }
    let number = table
        .shown_by(column)
        .checked_sub(table.dimension_count())
        .ok_or_else(missing)?;
    let attribute = table
        .snapshot
        .schema
        .attributes
        .get(number)
        .ok_or_else(missing)?;
    let ty = table.types.get(column).ok_or_else(missing)?;
    fill_array(attribute, ty, cells)
}

/// About how many bytes each of the cells of [`fill_column`] takes.
pub fn filled_bytes(table: &ArrayTable, column: usize) -> usize {
    let number = table.shown_by(column).checked_sub(table.dimension_count());
    let attribute = number.and_then(|number| table.snapshot.schema.attributes.get(number));
    let fill = attribute.map_or(0, |attribute| attribute.fill_value.len());
    let ty = table.types.get(column);
    ty.map_or(0, |ty| repeated_bytes(ty.data_type(), fill))
}

/// Reading the rows of a statement starts within this time after planning it. A schema that is added within this time,
/// and that no fragment was written with, may be treated as added later.
const MOMENT_MS: u64 = 1000;

/// The columns of an array, and the listing they were found by.
///
/// Planning a statement needs the columns of the tables it names, and their rows only later, if at all. So opening
/// lists only the schemas; commits and fragments are listed when rows are read, which may be much later (a view, a
/// prepared statement), so that nothing written in between is missed. The schemas are listed again only if that is
/// more than a moment later, or if a fragment was written with a schema that is not in the list: codes of an
/// enumeration, for example, can only be read with a schema as new as their fragment.
#[derive(Debug)]
pub struct ArrayColumns {
    listed: TimestampMs,
    directory: Arc<ArrayDirectory>,
    without_fragments: Snapshot,
}

impl ArrayColumns {
    /// Reads the schema that `window` shows; `None` if only opening the whole array shows which one it is, or that
    /// there is none.
    pub async fn read(storage: &Storage, window: OpenWindow) -> Result<Option<Self>> {
        let listed = TimestampMs::now();
        let window = OpenWindow::new(window.start, Some(window.end_or_now()))?;
        let Some(directory) = ArrayDirectory::list_schemas(storage, &window).await? else {
            return Ok(None);
        };
        let directory = Arc::new(directory);
        let without_fragments =
            Snapshot::without_fragments(storage, window, Arc::clone(&directory)).await?;
        Ok(Some(Self {
            listed,
            directory,
            without_fragments,
        }))
    }

    /// The array as if it had no fragments, only for its columns.
    pub fn without_fragments(&self) -> &Snapshot {
        &self.without_fragments
    }

    /// Opens the array as seen through `window` now.
    pub async fn open(&self, storage: &Storage, window: OpenWindow) -> Result<Snapshot> {
        // A clock that was set back has no idea how long ago that was.
        let elapsed_ms = TimestampMs::now().0.checked_sub(self.listed.0);
        if elapsed_ms.is_some_and(|elapsed_ms| elapsed_ms < MOMENT_MS)
            && let Ok(snapshot) = self.open_rest(storage, window).await
            && self.knows_schemas_of(&snapshot)
        {
            return Ok(snapshot);
        }
        Snapshot::open(storage, window).await
    }

    async fn open_rest(&self, storage: &Storage, window: OpenWindow) -> Result<Snapshot> {
        let listed = self.directory.list_rest(storage).await?;
        Snapshot::open_listed(storage, window, listed).await
    }

    /// Whether every fragment was written with a listed schema. A cached fragment does not show that by itself.
    fn knows_schemas_of(&self, snapshot: &Snapshot) -> bool {
        let named = |fragment: &Arc<Fragment>| {
            let name = fragment.footer.schema_name.as_str();
            // Fragments before version 10 name no schema; theirs is in the array's own folder, which has just been
            // listed.
            name.is_empty() || name == OLD_SCHEMA_NAME || self.directory.schema_named(name).is_ok()
        };
        snapshot.fragments.iter().all(named)
    }
}

/// A column that no field supplies.
///
/// They follow the attributes of a table that shows them. A cell's time is its own where the fragment records times,
/// as consolidated ones do; otherwise it is the first time of the fragment's name, by which libtiledb, too, decides
/// which version of a cell is the newest. A cell of a dense array that no fragment wrote has neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemColumn {
    /// When the cell was written.
    WriteTime,
    /// The name of the fragment that the cell comes from.
    Fragment,
}

/// What a fragment holds of a system column.
#[derive(Debug)]
pub enum SystemValues {
    /// The cells of a field.
    Stored(FragmentField),
    /// All of its cells have this value.
    Constant(ArrayRef),
}

impl SystemColumn {
    /// All of them, in the order of the columns.
    pub const ALL: [Self; 2] = [Self::WriteTime, Self::Fragment];

    /// The name of the column.
    pub fn name(self) -> &'static str {
        match self {
            Self::WriteTime => "__timestamp",
            Self::Fragment => "__fragment",
        }
    }

    /// Fails if one of the names of an array's fields is that of a system column.
    pub fn check_names<'a>(mut names: impl Iterator<Item = &'a str>) -> Result<()> {
        match names.find(|name| Self::ALL.iter().any(|column| column.name() == *name)) {
            None => Ok(()),
            Some(name) => Err(Error::invalid(format!(
                "option \"tiledb.system_columns\" adds the column \"{name}\", but the array has a field of this name; \
                 read the array without the option"
            ))),
        }
    }

    /// The type of the column.
    pub fn column_type(self, nullable: bool) -> ColumnType {
        match self {
            Self::WriteTime => ColumnType::write_times(nullable),
            Self::Fragment => ColumnType::fragment_names(nullable),
        }
    }

    /// The Arrow field of the column.
    pub fn field(self, ty: &ColumnType) -> Field {
        let role = HashMap::from([(ROLE_KEY.to_owned(), SYSTEM_ROLE.to_owned())]);
        Field::new(self.name(), ty.data_type().clone(), ty.nullable()).with_metadata(role)
    }

    /// What a fragment holds of the column.
    pub fn in_fragment(self, fragment: &Fragment) -> Result<SystemValues> {
        let name = &fragment.name;
        let value: ArrayRef = match self {
            Self::WriteTime if fragment.footer.has_timestamps => {
                return Ok(SystemValues::Stored(FragmentField::Timestamps));
            }
            Self::WriteTime => {
                let time = i64::try_from(name.t1).map_err(|_| {
                    Error::unsupported(format!(
                        "the fragment's time, {} ms, is later than {} ms, the last that column \"{}\" can show",
                        name.t1,
                        i64::MAX,
                        self.name()
                    ))
                    .with("fragment", &name.name)
                })?;
                Arc::new(TimestampMillisecondArray::from(vec![time]))
            }
            Self::Fragment => Arc::new(StringViewArray::from(vec![name.name.as_str()])),
        };
        Ok(SystemValues::Constant(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_fields_may_be_taken() {
        let check = |names: &[&str]| SystemColumn::check_names(names.iter().copied());
        assert!(check(&["x", "fragment", "__Timestamp"]).is_ok());
        for name in ["__timestamp", "__fragment"] {
            let error = check(&["x", name]).unwrap_err();
            assert!(error.message().contains(name), "{error}");
        }
    }
}
