//! Values of an enumerated attribute as the codes that are stored.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use arrow::array::{Array, ArrayRef, AsArray, make_array};
use arrow::compute::kernels::cast::cast;
use arrow::datatypes::{DataType, Int64Type};
use arrow::row::{OwnedRow, RowConverter, SortField};

use super::RefusedValue;
use crate::error::{Error, Result};

/// The source of the error that a value is not in the enumeration of its column: it distinguishes such errors, and names the remedy.
#[derive(Debug)]
pub struct UnknownValue;

impl fmt::Display for UnknownValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "extend the enumeration first, or set tiledb.new_values to 'extend' for the table",
        )
    }
}

impl std::error::Error for UnknownValue {}

/// The values of columns that an enumeration does not have.
#[derive(Debug)]
pub struct UnknownValues<'a> {
    table: &'a CodeTable,
    found: BTreeSet<OwnedRow>,
}

/// The code of each value of an enumeration.
#[derive(Debug)]
pub(super) struct CodeTable {
    values: DataType,
    rows: RowConverter,
    codes: HashMap<OwnedRow, i64>,
    /// The bytes of a code that is none of the enumeration's, and so reads as NULL.
    null_code: Option<Vec<u8>>,
}

impl CodeTable {
    /// The codes of `values`, which are their indices.
    pub(super) fn new(values: &ArrayRef) -> Result<Self> {
        let failed =
            |error| Error::internal("values of an enumeration have an order").with_source(error);
        let rows =
            RowConverter::new(vec![SortField::new(values.data_type().clone())]).map_err(failed)?;
        let members = rows_of(&rows, values).map_err(failed)?;
        let mut codes = HashMap::with_capacity(members.len());
        for (code, member) in members.into_iter().enumerate() {
            codes.entry(member).or_insert(i64::try_from(code)?);
        }
        let values = values.data_type().clone();
        Ok(Self {
            values,
            rows,
            codes,
            null_code: None,
        })
    }

    /// Lets NULL be stored as `code` (little-endian), unless the enumeration has this code or an earlier call found another
    /// one.
    pub(super) fn store_null_as(&mut self, code: &[u8], signed: bool) {
        if self.null_code.is_some() {
            return;
        }
        let negative = signed && code.last().is_some_and(|byte| *byte & 0x80 != 0);
        let mut wide = [0; 8];
        let known = match wide.get_mut(..code.len()) {
            Some(low) => {
                low.copy_from_slice(code);
                let code = u64::from_le_bytes(wide);
                let count = self
                    .codes
                    .values()
                    .max()
                    .map_or(0, |last| last.unsigned_abs() + 1);
                !negative && code < count
            }
            None => true,
        };
        self.null_code = (!known).then(|| code.to_vec());
    }

    pub(super) fn unknown_values(&self) -> UnknownValues<'_> {
        UnknownValues {
            table: self,
            found: BTreeSet::new(),
        }
    }

    /// Appends the codes of a column, `width` bytes each.
    pub(super) fn append(
        &self,
        column: &ArrayRef,
        nullable: bool,
        width: usize,
        to: &mut Vec<u8>,
    ) -> Result<(), RefusedValue> {
        let failed = |error| RefusedValue {
            row: 0,
            why: Error::internal("a column has the values of its enumeration").with_source(error),
        };
        // A dictionary is looked up once for each of its values.
        let (distinct, keys) = match column.as_any_dictionary_opt() {
            Some(dictionary) => {
                let keys = cast(dictionary.keys(), &DataType::Int64).map_err(failed)?;
                (make_array(dictionary.values().to_data()), Some(keys))
            }
            None => (make_array(column.to_data()), None),
        };
        let distinct = cast(&distinct, &self.values).map_err(failed)?;
        let known = rows_of(&self.rows, &distinct)
            .map_err(failed)?
            .iter()
            .map(|value| self.codes.get(value).copied())
            .collect::<Vec<_>>();
        let keys = keys.as_ref().map(|keys| keys.as_primitive::<Int64Type>());
        for row in 0..column.len() {
            let at = match keys {
                Some(keys) if keys.is_valid(row) => usize::try_from(keys.value(row)).ok(),
                Some(_) => None,
                None => Some(row),
            };
            let at = at.filter(|at| distinct.is_valid(*at));
            let code = match at {
                Some(at) => known
                    .get(at)
                    .copied()
                    .flatten()
                    .ok_or_else(|| RefusedValue {
                        row,
                        why: unknown(&distinct, at),
                    })?,
                None if nullable => 0,
                None => match &self.null_code {
                    Some(code) => {
                        to.extend_from_slice(code);
                        continue;
                    }
                    None => {
                        let why = super::null_refused();
                        return Err(RefusedValue { row, why });
                    }
                },
            };
            let bytes = code.to_le_bytes();
            to.extend_from_slice(bytes.get(..width).unwrap_or(&bytes));
        }
        Ok(())
    }
}

impl UnknownValues<'_> {
    /// Looks at the values of a column, which may be a dictionary.
    ///
    /// # Errors
    /// The column is not of the enumeration's type.
    pub fn look_at(&mut self, column: &ArrayRef) -> Result<()> {
        let failed = |error| {
            Error::internal("a column has the values of its enumeration").with_source(error)
        };
        let values = cast(column, &self.table.values).map_err(failed)?;
        let rows = &self.table.rows;
        let rows = rows.convert_columns(std::slice::from_ref(&values));
        for (row, value) in rows.map_err(failed)?.iter().enumerate() {
            let value = value.owned();
            if values.is_valid(row) && !self.table.codes.contains_key(&value) {
                self.found.insert(value);
            }
        }
        Ok(())
    }

    /// The number of different values found.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether none was found.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The values in ascending order.
    ///
    /// # Errors
    /// They cannot become an array.
    pub fn into_values(self) -> Result<ArrayRef> {
        let rows = self.found.iter().map(OwnedRow::row);
        let columns = self.table.rows.convert_rows(rows);
        let column = columns.ok().and_then(|columns| columns.into_iter().next());
        column.ok_or_else(|| Error::internal("values of an enumeration become an array"))
    }
}

fn rows_of(
    converter: &RowConverter,
    values: &ArrayRef,
) -> Result<Vec<OwnedRow>, arrow::error::ArrowError> {
    let rows = converter.convert_columns(std::slice::from_ref(values))?;
    Ok(rows.iter().map(|row| row.owned()).collect())
}

fn unknown(values: &ArrayRef, at: usize) -> Error {
    let shown = cast(&values.slice(at, 1), &DataType::Utf8);
    let shown = shown.ok().filter(|shown| shown.is_valid(0));
    let shown = shown.map_or_else(
        || "the value".to_owned(),
        |shown| format!("'{}'", shown.as_string::<i32>().value(0)),
    );
    Error::invalid(format!("{shown} is not a value of the enumeration")).with_source(UnknownValue)
}
