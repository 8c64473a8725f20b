//! The profile of the rows of a COPY once all have been seen: the range and the bytes of each column, and the values of columns
//! that have few.

use std::fmt;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::compute::filter;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
use datafusion::logical_expr::Accumulator;
use hashbrown::HashSet;
use tiledb_engine::write::create::ArrayBuilder;
use tiledb_engine::write::insert::sliced_bytes;

/// The most values of an enumeration: each query of the column reads all of them.
const MOST_VALUES: usize = 10_000;
/// The most bytes of an enumeration's values.
const MOST_VALUE_BYTES: usize = 1 << 20;

/// A profile of rows.
#[derive(Debug)]
pub(super) struct RowProfile {
    /// The number of rows.
    pub(super) rows: u64,
    /// One for each column.
    pub(super) columns: Vec<ColumnProfile>,
}

/// The profile of a column.
#[derive(Debug)]
pub(super) struct ColumnProfile {
    /// The name.
    pub(super) name: String,
    /// The bytes of its values.
    pub(super) bytes: u64,
    ends: Option<ColumnEnds>,
    values: Option<ProfiledValues>,
}

/// The least and the greatest value of a column.
struct ColumnEnds {
    least: MinAccumulator,
    greatest: MaxAccumulator,
}

/// The different values of a column of text, as long as they are few.
#[derive(Debug, Default)]
struct ProfiledValues {
    found: HashSet<Box<str>>,
    bytes: usize,
    too_many: bool,
}

impl RowProfile {
    /// An empty profile of columns that become those of an array.
    ///
    /// # Errors
    /// The values of a dimension have no order.
    pub(super) fn new(columns: &SchemaRef, builder: &ArrayBuilder) -> Result<Self> {
        let columns = columns.fields().iter().map(|field| {
            let (name, data_type) = (field.name(), field.data_type());
            let ranged = data_type.is_numeric() || data_type.is_temporal();
            let dimension = builder.dimensions().any(|dimension| dimension == name);
            let ends = if ranged && dimension {
                Some(ColumnEnds {
                    least: MinAccumulator::try_new(data_type)?,
                    greatest: MaxAccumulator::try_new(data_type)?,
                })
            } else {
                None
            };
            Ok(ColumnProfile {
                name: name.clone(),
                bytes: 0,
                ends,
                values: (dimension || builder.may_be_enumerated(name))
                    .then(ProfiledValues::default),
            })
        });
        Ok(Self {
            rows: 0,
            columns: columns.collect::<Result<_>>()?,
        })
    }

    /// Adds rows to the profile.
    pub(super) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows = self.rows.saturating_add(batch.num_rows() as u64);
        for (column, values) in self.columns.iter_mut().zip(batch.columns()) {
            column.add(values)?;
        }
        Ok(())
    }

    /// Adds the profile of other rows of the same columns.
    pub(super) fn merge(&mut self, other: Self) -> Result<()> {
        self.rows = self.rows.saturating_add(other.rows);
        for (column, other) in self.columns.iter_mut().zip(other.columns) {
            column.merge(other)?;
        }
        Ok(())
    }
}

impl ColumnProfile {
    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        self.bytes = self.bytes.saturating_add(sliced_bytes(values) as u64);
        if let Some(ends) = &mut self.ends {
            ends.add(values)?;
        }
        if let Some(found) = &mut self.values {
            found.add(values);
        }
        Ok(())
    }

    fn merge(&mut self, other: Self) -> Result<()> {
        self.bytes = self.bytes.saturating_add(other.bytes);
        if let (Some(ends), Some(mut other)) = (&mut self.ends, other.ends) {
            for end in other.ends()? {
                ends.add(&end)?;
            }
        }
        if let (Some(found), Some(other)) = (&mut self.values, other.values) {
            found.too_many |= other.too_many;
            for value in other.found {
                found.insert(&value);
            }
        }
        Ok(())
    }

    /// The least and the greatest value, each as the only row of an array; `None` if this isn't a dimension of numbers, dates or
    /// times, or has no values.
    pub(super) fn range(&mut self) -> Result<Option<[ArrayRef; 2]>> {
        let Some(ends) = &mut self.ends else {
            return Ok(None);
        };
        let ends = ends.ends()?;
        Ok(ends.iter().all(|end| end.is_valid(0)).then_some(ends))
    }

    /// The number of different values of a column of text; `None` if there are many, or if the column holds anything else.
    pub(super) fn count_of_few(&self) -> Option<usize> {
        let values = self.values.as_ref().filter(|values| !values.too_many)?;
        Some(values.found.len())
    }

    /// The different values of a column of text, sorted; `None` if there are many, or if the column holds anything else.
    pub(super) fn few_values(&self) -> Option<Vec<String>> {
        let values = self.values.as_ref().filter(|values| !values.too_many)?;
        let mut sorted = values
            .found
            .iter()
            .map(|value| value.to_string())
            .collect::<Vec<_>>();
        sorted.sort_unstable();
        Some(sorted)
    }
}

impl ColumnEnds {
    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        let values = std::slice::from_ref(values);
        self.least.update_batch(values)?;
        self.greatest.update_batch(values)
    }

    fn ends(&mut self) -> Result<[ArrayRef; 2]> {
        let end = |value: Result<ScalarValue>| value?.to_array();
        Ok([end(self.least.evaluate())?, end(self.greatest.evaluate())?])
    }
}

impl fmt::Debug for ColumnEnds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ColumnEnds")
    }
}

impl ProfiledValues {
    fn add(&mut self, values: &ArrayRef) {
        if self.too_many {
            return;
        }
        match values.data_type() {
            DataType::Utf8 => self.add_each(values.as_string::<i32>().iter()),
            DataType::LargeUtf8 => self.add_each(values.as_string::<i64>().iter()),
            DataType::Utf8View => self.add_each(values.as_string_view().iter()),
            DataType::Dictionary(_, _) => self.add_used(values),
            _ => self.too_many = true,
        }
    }

    fn add_each<'a>(&mut self, values: impl Iterator<Item = Option<&'a str>>) {
        let mut before = None;
        for value in values.flatten() {
            if before != Some(value) {
                self.insert(value);
                before = Some(value);
            }
            if self.too_many {
                return;
            }
        }
    }

    /// Adds the values of a dictionary that some row has.
    fn add_used(&mut self, values: &ArrayRef) {
        let dictionary = values.as_any_dictionary();
        if dictionary.values().is_empty() {
            return;
        }
        let mut used = vec![false; dictionary.values().len()];
        let keys = dictionary.normalized_keys();
        for (row, key) in keys.into_iter().enumerate() {
            if let (true, Some(slot)) = (dictionary.keys().is_valid(row), used.get_mut(key)) {
                *slot = true;
            }
        }
        let used = BooleanArray::from(used);
        match filter(dictionary.values(), &used) {
            Ok(used) if !matches!(used.data_type(), DataType::Dictionary(_, _)) => self.add(&used),
            _ => self.too_many = true,
        }
    }

    fn insert(&mut self, value: &str) {
        if !self.found.contains(value) {
            self.found.insert(value.into());
            self.bytes = self.bytes.saturating_add(value.len());
            if self.found.len() > MOST_VALUES || self.bytes > MOST_VALUE_BYTES {
                self.too_many = true;
                self.found = HashSet::new();
            }
        }
    }
}
