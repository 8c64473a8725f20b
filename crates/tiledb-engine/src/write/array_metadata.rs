//! Key-value metadata of arrays and groups: keys are set and deleted by one more file, which readers replay after the others.
//!
//! The metadata are a log: no change can spoil another one, so nothing is checked. The subtle thing: a file names each key
//! once, in order, as libtiledb writes it, and the last change of a key counts.

use std::collections::BTreeMap;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::DataType;
use bytes::Bytes;

use super::change_options::{ChangeOptions, change_setters};
use super::create::{LiteralValue, StorageType, sql_name};
use crate::array::metadata::{METADATA_FOLDER, settled};
use crate::arrow::{CellWriter, ColumnType, TypeOptions};
use crate::error::{Error, Result, ResultExt};
use crate::filter::generic_tile;
use crate::format::datatype::Datatype;
use crate::format::metadata::{MetadataEntry, MetadataValue, encode_metadata};
use crate::format::schema::CellValNum;
use crate::storage::Storage;

/// Describes changes of the metadata of an array or a group, and makes them, all at once.
///
/// ```
/// use tiledb_engine::{ArrayBuilder, Location, MetadataEdit};
/// # use arrow::datatypes::{DataType, Field, Schema};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("readings").display().to_string();
/// # let columns = Schema::new(vec![Field::new("id", DataType::Int64, false)]);
/// # ArrayBuilder::new(&columns, ["id"])?.create(Location::local(&path)?).await?;
/// let file = MetadataEdit::new()
///     .set("title", "readings of the harbour")?
///     .set("scale", 0.5)?
///     .set("levels", vec![1_i32, 2, 4])?
///     .delete("draft")?
///     .apply(Location::local(&path)?)
///     .await?;
/// assert!(file.is_some_and(|file| file.starts_with("__meta/")));
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Debug, Clone, Default)]
pub struct MetadataEdit {
    entries: BTreeMap<Vec<u8>, Option<MetadataValue>>,
    change: ChangeOptions,
}

impl MetadataEdit {
    /// Changes nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a key: to text, a number, a boolean, several of them, or bytes.
    ///
    /// # Errors
    /// The key is empty.
    pub fn set(mut self, key: &str, value: impl Into<MetadataValue>) -> Result<Self> {
        let value = value.into();
        self.entries.insert(checked(key)?, Some(value));
        Ok(self)
    }

    /// Sets a key to the elements of a column, stored as the named type, or as the usual one for the column.
    pub fn set_column(self, key: &str, column: &ArrayRef, type_name: Option<&str>) -> Result<Self> {
        check_no_nulls(column).context("key", || key)?;
        let value = match type_name {
            None => usual(column),
            Some(name) => typed(
                column,
                StorageType::parse(name, column.data_type())?.datatype,
            ),
        };
        self.set(key, value.context("key", || key)?)
    }

    /// Deletes a key, whether or not it exists.
    ///
    /// # Errors
    /// The key is empty.
    pub fn delete(mut self, key: &str) -> Result<Self> {
        self.entries.insert(checked(key)?, None);
        Ok(self)
    }

    change_setters! {
        key: "The key of an encrypted array, with which the metadata are encrypted too.",
        time: "Makes the changes as of this time, in milliseconds since 1970, instead of the present."
    }

    /// The changes, in words.
    pub fn changes(&self) -> Vec<String> {
        let entries = self.entries.iter();
        let words = entries.map(|(key, value)| {
            let key = String::from_utf8_lossy(key);
            match value {
                Some(value) => format!("set {key:?} to {} {}", value.count, value.datatype),
                None => format!("delete {key:?}"),
            }
        });
        words.collect()
    }

    /// Makes the changes, and returns the name of the file that holds them; `None` if there are none.
    ///
    /// # Errors
    /// There is neither an array nor a group, the array is encrypted with another key, or the storage fails.
    pub async fn apply(
        &self,
        location: impl TryInto<Storage, Error: Into<Error>>,
    ) -> Result<Option<String>> {
        let storage = settled(&self.change.storage(location)?).await?;
        if self.entries.is_empty() {
            return Ok(None);
        }
        let entry = |(key, value): (&Vec<u8>, &Option<MetadataValue>)| MetadataEntry {
            key: key.clone(),
            value: value.clone(),
        };
        let entries = self.entries.iter().map(entry).collect::<Vec<_>>();
        let contents = encode_metadata(&entries)?;
        let tile = generic_tile::encode_with(&contents, storage.encryption_key())?;
        let clock = self.change.clock_of(&storage);
        let time = self.change.time(&clock).await;
        let file = format!("{METADATA_FOLDER}/{}", clock.fresh_name(time, time)?);
        let put = storage.create_file(&file, Bytes::from(tile)).await;
        put.map_err(|e| e.with("array", storage.uri()))?;
        Ok(Some(file))
    }
}

fn checked(key: &str) -> Result<Vec<u8>> {
    if key.is_empty() {
        Err(Error::invalid("metadata have a key, and this one is empty"))
    } else {
        Ok(key.as_bytes().to_vec())
    }
}

/// The elements of a column as the usual type of attributes.
fn usual(column: &ArrayRef) -> Result<MetadataValue> {
    let stored = StorageType::of_attribute(column.data_type())?;
    let datatype = match column.data_type() {
        // Text and bytes of any length are stored element by element, as others are.
        other if other.is_nested() => {
            return Err(Error::unsupported(format!(
                "metadata hold no {}: expected text, bytes, a boolean, a date or time, a number, or a list of these but text",
                sql_name(other)
            )));
        }
        _ => stored.datatype,
    };
    typed(column, datatype)
}

fn check_no_nulls(column: &ArrayRef) -> Result<()> {
    match column.logical_null_count() {
        0 => Ok(()),
        _ => Err(Error::invalid(
            "the value is NULL, or a list with NULL, and metadata have no NULL: delete the key instead",
        )),
    }
}

/// The elements of a column as a type.
fn typed(column: &ArrayRef, datatype: Datatype) -> Result<MetadataValue> {
    if datatype == Datatype::Any {
        return Err(Error::unsupported(
            "metadata of type ANY: expected another type",
        ));
    }
    let bytes = if datatype.is_string() || datatype.is_binary() {
        text(column, datatype)?
    } else {
        numbers(column, datatype)?
    };
    let count = bytes.len().checked_div(datatype.size()).unwrap_or(0);
    Ok(MetadataValue {
        datatype,
        count: u32::try_from(count).map_err(|_| {
            Error::unsupported(format!(
                "the value has {count} elements: expected at most {}",
                u32::MAX
            ))
        })?,
        bytes,
    })
}

/// The characters or bytes of the one text in a column.
fn text(column: &ArrayRef, datatype: Datatype) -> Result<Vec<u8>> {
    let wrong = || {
        Error::invalid(format!(
            "{} {} isn't a value of {datatype}: expected one text, or bytes",
            column.len(),
            sql_name(column.data_type())
        ))
    };
    if column.len() != 1 {
        return Err(wrong());
    }
    if column.data_type().is_binary() || matches!(column.data_type(), DataType::FixedSizeBinary(_))
    {
        let bytes = cast(column, &DataType::BinaryView)
            .map_err(|e| wrong().with_source(e))?
            .as_binary_view()
            .value(0)
            .to_vec();
        return LiteralValue::Bytes(bytes).cell(datatype, CellValNum::Var);
    }
    let text = cast(column, &DataType::Utf8View).map_err(|e| wrong().with_source(e))?;
    let text = text.as_string_view().value(0);
    if datatype.is_string() {
        LiteralValue::from(text).shown_cell(datatype, CellValNum::Var)
    } else {
        Ok(text.as_bytes().to_vec())
    }
}

/// The elements of a column as numbers, dates or times.
fn numbers(column: &ArrayRef, datatype: Datatype) -> Result<Vec<u8>> {
    let options = TypeOptions::default();
    let ty = ColumnType::plain(datatype, CellValNum::Fixed(1), false, &options)?;
    let strictly = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let no_value = || Error::invalid(format!("the value is none of {datatype}"));
    let column = cast_with_options(column, ty.data_type(), &strictly)
        .map_err(|e| no_value().with_source(e))?;
    let writer = CellWriter::new(ty, false)?;
    let mut cells = writer.no_cells();
    writer
        .append(&column, &mut cells)
        .map_err(|refused| no_value().with_source(refused.why))?;
    Ok(cells.values)
}

impl From<&str> for MetadataValue {
    fn from(text: &str) -> Self {
        elements(Datatype::StringUtf8, text.as_bytes().to_vec())
    }
}

impl From<String> for MetadataValue {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<bool> for MetadataValue {
    fn from(value: bool) -> Self {
        elements(Datatype::Bool, vec![u8::from(value)])
    }
}

/// Bytes, as a BLOB.
impl From<&[u8]> for MetadataValue {
    fn from(bytes: &[u8]) -> Self {
        elements(Datatype::Blob, bytes.to_vec())
    }
}

macro_rules! from_numbers {
    ($($t:ty => $datatype:ident),*) => {$(
        impl From<$t> for MetadataValue {
            fn from(value: $t) -> Self {
                elements(Datatype::$datatype, value.to_le_bytes().to_vec())
            }
        }

        impl From<Vec<$t>> for MetadataValue {
            fn from(values: Vec<$t>) -> Self {
                let bytes = values.iter().flat_map(|value| value.to_le_bytes());
                elements(Datatype::$datatype, bytes.collect())
            }
        }
    )*};
}

from_numbers!(
    i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64,
    u8 => UInt8, u16 => UInt16, u32 => UInt32, u64 => UInt64,
    f32 => Float32, f64 => Float64
);

fn elements(datatype: Datatype, bytes: Vec<u8>) -> MetadataValue {
    let count = bytes.len().checked_div(datatype.size()).unwrap_or(0);
    MetadataValue {
        datatype,
        // More elements than can be counted cannot be written, which fails where their bytes are.
        count: u32::try_from(count).unwrap_or(u32::MAX),
        bytes,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        BinaryArray, BooleanArray, Date32Array, Float64Array, Int64Array, StringArray,
    };
    use object_store::memory::InMemory;
    use object_store::path::Path;

    use super::*;
    use crate::array::metadata::load;
    use crate::array::window::{OpenWindow, TimestampMs};
    use crate::error::ErrorKind;
    use crate::storage::Location;
    use crate::write::group::create_group;

    fn column(array: impl Array + 'static) -> ArrayRef {
        Arc::new(array)
    }

    #[test]
    fn a_value_has_the_type_of_its_column_or_the_named_one() {
        let value = |column: &ArrayRef, name| {
            let edit = MetadataEdit::new().set_column("k", column, name)?;
            let value = edit.entries.into_values().next().unwrap().unwrap();
            Ok::<_, Error>((value.datatype, value.count, value.bytes))
        };
        let text = column(StringArray::from(vec!["hé"]));
        let one = column(Int64Array::from(vec![-2]));
        let pair = column(Int64Array::from(vec![1, 300]));
        let half = column(Float64Array::from(vec![0.5]));
        let day = column(Date32Array::from(vec![3]));
        let bytes = column(BinaryArray::from(vec![&[0_u8, 255][..]]));
        let yes = column(BooleanArray::from(vec![true, false]));
        let le = |v: i64| v.to_le_bytes().to_vec();
        for (column, name, expected) in [
            (
                &text,
                None,
                (Datatype::StringUtf8, 3, "hé".as_bytes().to_vec()),
            ),
            (
                &text,
                Some("STRING_UTF16"),
                (Datatype::StringUtf16, 2, vec![104, 0, 233, 0]),
            ),
            (
                &text,
                Some("blob"),
                (Datatype::Blob, 3, "hé".as_bytes().to_vec()),
            ),
            (&one, None, (Datatype::Int64, 1, le(-2))),
            (&one, Some("INT8"), (Datatype::Int8, 1, vec![254])),
            (
                &one,
                Some("FLOAT32"),
                (Datatype::Float32, 1, (-2_f32).to_le_bytes().to_vec()),
            ),
            (
                &pair,
                Some("UINT16"),
                (Datatype::UInt16, 2, vec![1, 0, 44, 1]),
            ),
            (
                &half,
                None,
                (Datatype::Float64, 1, 0.5_f64.to_le_bytes().to_vec()),
            ),
            (&day, None, (Datatype::DateTimeDay, 1, le(3))),
            (
                &day,
                Some("DATETIME_MS"),
                (Datatype::DateTimeMs, 1, le(3 * 86_400_000)),
            ),
            (&bytes, None, (Datatype::Blob, 2, vec![0, 255])),
            (&yes, None, (Datatype::Bool, 2, vec![1, 0])),
        ] {
            assert_eq!(value(column, name).unwrap(), expected);
        }
        let nothing = column(Int64Array::from(vec![None]));
        let many = column(StringArray::from(vec!["a", "b"]));
        for (column, name, why) in [
            (&nothing, None, "no NULL"),
            (&many, None, "expected one text"),
            (&pair, Some("INT8"), "none of INT8"),
            (&text, Some("INT8"), "none of INT8"),
            (&text, Some("ANY"), "ANY"),
            (&text, Some("TEXT"), "no type 'TEXT'"),
        ] {
            let error = value(column, name).unwrap_err();
            assert!(error.message().contains(why), "{error}");
        }
        assert!(MetadataEdit::new().delete("").is_err());
    }

    #[tokio::test]
    async fn a_time_shows_the_keys_of_its_writes() {
        let location = Location::new(Arc::new(InMemory::new()), Path::from("g"), "memory:///g");
        let storage = Storage::new(location);
        let error = MetadataEdit::new().apply(&storage).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        create_group(&storage).await.unwrap();
        let first = MetadataEdit::new()
            .set("a", 1_i8)
            .unwrap()
            .set("b", true)
            .unwrap()
            .timestamp(10);
        first.apply(&storage).await.unwrap();
        let second = MetadataEdit::new()
            .delete("a")
            .unwrap()
            .set("c", "")
            .unwrap();
        assert_eq!(
            second.changes(),
            ["delete \"a\"", "set \"c\" to 0 STRING_UTF8"]
        );
        second.timestamp(20).apply(&storage).await.unwrap();
        let keys = async |end| {
            let window = OpenWindow::new(TimestampMs(0), Some(TimestampMs(end))).unwrap();
            let items = load(&storage, &window).await.unwrap();
            items
                .into_iter()
                .map(|i| String::from_utf8(i.key).unwrap())
                .collect::<Vec<_>>()
        };
        assert!(keys(9).await.is_empty());
        assert_eq!(keys(10).await, ["a", "b"]);
        assert_eq!(keys(20).await, ["b", "c"]);
    }
}
