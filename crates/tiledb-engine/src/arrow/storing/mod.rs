//! Arrow columns as stored cells: the opposite of [`ColumnType::to_array`](super::ColumnType::to_array).
//!
//! A [`CellWriter`] appends rows of a column to the cells of a tile, which are then filtered. Nothing is approximated: a
//! value that the field cannot hold is refused, with its row.

mod codes;
mod elements;

#[cfg(test)]
mod tests;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;

pub use self::codes::{UnknownValue, UnknownValues};

use self::codes::CodeTable;
use self::elements::NullElement;
use super::column_type::{CellShape, ColumnType, ElementConversion};
use crate::error::{Error, Result};
use crate::format::schema::Attribute;

/// The unfiltered cells of one field of a tile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredCells {
    /// The number of cells.
    pub len: usize,
    /// The concatenated cells.
    pub values: Vec<u8>,
    /// The start of each cell in `values`; only for a variable-sized field.
    pub starts: Option<Vec<u64>>,
    /// 1 for each cell with a value, and 0 for each NULL; only for a nullable field.
    pub validity: Option<Vec<u8>>,
}

impl StoredCells {
    /// No cells of a field.
    pub fn none(var: bool, nullable: bool) -> Self {
        Self {
            len: 0,
            values: Vec::new(),
            starts: var.then(Vec::new),
            validity: nullable.then(Vec::new),
        }
    }

    /// The bytes that the cells take.
    pub fn bytes(&self) -> usize {
        let starts = self
            .starts
            .as_ref()
            .map_or(0, |starts| size_of_val(starts.as_slice()));
        self.values.len() + starts + self.validity.as_ref().map_or(0, Vec::len)
    }

    /// The bytes of a cell; `size` is that of fixed cells.
    pub fn cell(&self, cell: usize, size: usize) -> &[u8] {
        let range = match &self.starts {
            None => cell.saturating_mul(size)..cell.saturating_add(1).saturating_mul(size),
            Some(starts) => {
                let start_of =
                    |cell: usize| starts.get(cell).and_then(|s| usize::try_from(*s).ok());
                let end = start_of(cell.saturating_add(1)).unwrap_or(self.values.len());
                start_of(cell).unwrap_or(end)..end
            }
        };
        self.values.get(range).unwrap_or_default()
    }
}

/// A value that a field cannot hold.
#[derive(Debug)]
pub struct RefusedValue {
    /// The row of the column.
    pub row: usize,
    /// The reason, without row and field.
    pub why: Error,
}

/// What a NULL means in an attribute that isn't nullable, but has values that show as NULL: a missing date or time (NaT), or a
/// code that the enumeration doesn't have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NullPolicy {
    /// The NULL is an error, as in all other fields that aren't nullable.
    Refused,
    /// The NULL was read from the attribute itself, so a number that shows as NULL is stored again.
    Kept,
}

/// Converts one column to the cells of its field.
#[derive(Debug)]
pub struct CellWriter {
    ty: ColumnType,
    nullable: bool,
    nulls: NullPolicy,
    codes: Option<CodeTable>,
}

impl CellWriter {
    /// A writer for columns of `ty`, of a field that is `nullable` by its schema.
    ///
    /// # Errors
    /// The field cannot be read, and so not be written.
    pub fn new(ty: ColumnType, nullable: bool) -> Result<Self> {
        ty.check_readable()?;
        let codes = ty.enumeration.as_ref().map(CodeTable::new).transpose()?;
        Ok(Self {
            ty,
            nullable,
            nulls: NullPolicy::Refused,
            codes,
        })
    }

    /// A writer for columns of an attribute. A kept NULL of an enumerated attribute is stored as its fill value, or as the last
    /// number of its type if the enumeration has the fill value as a code. It then reads as NULL again.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn of_attribute(ty: ColumnType, attribute: &Attribute, nulls: NullPolicy) -> Result<Self> {
        let mut writer = Self::new(ty, attribute.nullable)?;
        writer.nulls = nulls;
        if let (Some(codes), NullPolicy::Kept) = (&mut writer.codes, nulls) {
            let signed = attribute.datatype.is_signed();
            let last = vec![0xff; attribute.fill_value.len()];
            for code in [&attribute.fill_value, &last] {
                codes.store_null_as(code, signed);
            }
        }
        Ok(writer)
    }

    /// Makes a writer for columns that may have NULLs, whatever the schema says of the field.
    #[must_use]
    pub fn with_nulls(self) -> Self {
        Self {
            nullable: true,
            ..self
        }
    }

    /// The type of the columns it takes.
    pub fn column_type(&self) -> &ColumnType {
        &self.ty
    }

    /// Looks for values that the enumeration of the field does not have; `None` without one.
    pub fn unknown_values(&self) -> Option<UnknownValues<'_>> {
        self.codes.as_ref().map(CodeTable::unknown_values)
    }

    /// No cells of the field.
    pub fn no_cells(&self) -> StoredCells {
        StoredCells::none(self.ty.shape() == CellShape::Var, self.nullable)
    }

    /// Appends the rows of a column of [`ColumnType::data_type`]. The cells are of no use after an error.
    pub fn append(&self, column: &ArrayRef, to: &mut StoredCells) -> Result<(), RefusedValue> {
        if column.data_type() != self.ty.data_type() {
            let why = Error::internal(format!(
                "a column of type {} was given for a field of type {}",
                column.data_type(),
                self.ty.data_type()
            ));
            return Err(RefusedValue { row: 0, why });
        }
        to.len = to.len.saturating_add(column.len());
        if let Some(validity) = &mut to.validity {
            match column.logical_nulls() {
                None => validity.resize(validity.len().saturating_add(column.len()), 1),
                Some(nulls) => validity.extend(nulls.iter().map(u8::from)),
            }
        }
        self.append_values(column, to)
    }

    /// What takes the place of a NULL of the field.
    fn null_element(&self) -> NullElement {
        match (self.nullable, self.nulls) {
            (true, _) => NullElement::Zero,
            (false, NullPolicy::Kept) if self.ty.nat_is_null => NullElement::NotATime,
            (false, _) => NullElement::Refused,
        }
    }

    /// Gives the stored cells of a column to `read`. Numbers are stored as they are, so that none are copied.
    pub fn with_stored<T>(
        &self,
        column: &ArrayRef,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, RefusedValue> {
        if self.codes.is_none()
            && self.ty.element == ElementConversion::Number
            && self.ty.shape == CellShape::One
            && column.data_type() == self.ty.data_type()
            && column.null_count() == 0
            && cfg!(target_endian = "little")
        {
            let data = column.to_data();
            if let Some(bytes) = elements::number_bytes(&data, self.ty.datatype.size()) {
                return Ok(read(bytes));
            }
        }
        let mut cells = self.no_cells();
        self.append(column, &mut cells)?;
        Ok(read(&cells.values))
    }

    fn append_values(&self, column: &ArrayRef, to: &mut StoredCells) -> Result<(), RefusedValue> {
        if let Some(codes) = &self.codes {
            let width = self.ty.datatype.size();
            return codes.append(column, self.nullable, width, &mut to.values);
        }
        let is_bytes = matches!(
            self.ty.element,
            ElementConversion::Text(_) | ElementConversion::Bytes
        );
        match (self.ty.shape, is_bytes) {
            (_, true) => self.append_bytes(column, to),
            (CellShape::One, false) => {
                let null = self.null_element();
                elements::append(&self.ty, column.as_ref(), null, &mut to.values)
            }
            (CellShape::Fixed(n), false) => self.append_fixed_lists(column, n, &mut to.values),
            (CellShape::Var, false) => self.append_lists(column, to),
        }
    }

    /// Appends lists of `n` elements, and zeros for NULL ones.
    fn append_fixed_lists(
        &self,
        column: &ArrayRef,
        n: usize,
        values: &mut Vec<u8>,
    ) -> Result<(), RefusedValue> {
        self.check_nulls(column)?;
        let lists = column.as_fixed_size_list();
        let elements = lists.values().slice(0, lists.len().saturating_mul(n));
        let begun = values.len();
        self.append_items(&elements, values, |element| element / n.max(1), column)?;
        if let Some(nulls) = lists.nulls().filter(|nulls| nulls.null_count() > 0) {
            let size = self.ty.cell_bytes().unwrap_or(1).max(1);
            let cells = values.get_mut(begun..).unwrap_or_default();
            for (cell, valid) in cells.chunks_exact_mut(size).zip(nulls) {
                if !valid {
                    cell.fill(0);
                }
            }
        }
        Ok(())
    }

    fn append_lists(&self, column: &ArrayRef, to: &mut StoredCells) -> Result<(), RefusedValue> {
        self.check_nulls(column)?;
        let lists = column.as_list::<i32>();
        let width = self.ty.datatype.size();
        for row in 0..lists.len() {
            if let Some(starts) = &mut to.starts {
                starts.push(to.values.len() as u64);
            }
            if lists.is_valid(row) {
                let items = lists.value(row);
                to.values.reserve(items.len().saturating_mul(width));
                self.append_items(&items, &mut to.values, |_| row, column)?;
            }
        }
        Ok(())
    }

    /// Appends the elements of lists, of which those of a NULL list are never looked at.
    fn append_items(
        &self,
        items: &ArrayRef,
        values: &mut Vec<u8>,
        row_of: impl Fn(usize) -> usize,
        lists: &ArrayRef,
    ) -> Result<(), RefusedValue> {
        let null = match self.ty.nat_is_null {
            true => NullElement::NotATime,
            // The elements of a NULL list may be NULL, too.
            false if lists.null_count() > 0 => NullElement::Zero,
            false => NullElement::Refused,
        };
        elements::append(&self.ty, items.as_ref(), null, values).map_err(|refused| RefusedValue {
            row: row_of(refused.row),
            ..refused
        })
    }

    fn append_bytes(&self, column: &ArrayRef, to: &mut StoredCells) -> Result<(), RefusedValue> {
        self.check_nulls(column)?;
        let encoding = match self.ty.element {
            ElementConversion::Text(encoding) => Some(encoding),
            _ => None,
        };
        let size = self.ty.cell_bytes();
        let mut append = |row: usize, value: &[u8]| {
            if let Some(starts) = &mut to.starts {
                starts.push(to.values.len() as u64);
            }
            let begun = to.values.len();
            elements::append_text(encoding, value, &mut to.values)
                .map_err(|why| RefusedValue { row, why })?;
            let Some(size) = size else {
                return Ok(());
            };
            let found = to.values.len() - begun;
            let is_null = column.is_null(row);
            match self.ty.padded && !is_null {
                true => check_padded(value, found, size),
                false if found == size || (found == 0 && is_null) => Ok(()),
                false => Err(Error::invalid(format!(
                    "the value has {found} bytes, and every cell of the field has {size}"
                ))),
            }
            .map_err(|why| RefusedValue { row, why })?;
            to.values.resize(begun.saturating_add(size), 0);
            Ok(())
        };
        match column.data_type() {
            DataType::Utf8View => {
                let mut values = column.as_string_view().iter().enumerate();
                values.try_for_each(|(row, v)| append(row, v.unwrap_or_default().as_bytes()))
            }
            DataType::BinaryView => {
                let mut values = column.as_binary_view().iter().enumerate();
                values.try_for_each(|(row, v)| append(row, v.unwrap_or_default()))
            }
            DataType::FixedSizeBinary(_) => {
                let mut values = column.as_fixed_size_binary().iter().enumerate();
                values.try_for_each(|(row, v)| append(row, v.unwrap_or_default()))
            }
            other => Err(RefusedValue {
                row: 0,
                why: Error::internal(format!("{other} isn't a type of text or bytes")),
            }),
        }
    }

    /// Fails for a NULL in a field that has none.
    fn check_nulls(&self, column: &ArrayRef) -> Result<(), RefusedValue> {
        let nulls = column.logical_nulls().filter(|_| !self.nullable);
        match nulls.and_then(|nulls| nulls.iter().position(|valid| !valid)) {
            Some(row) => Err(RefusedValue {
                row,
                why: null_refused(),
            }),
            None => Ok(()),
        }
    }
}

/// Fails unless text of `found` stored bytes fits in a cell of `size` and can be distinguished from its padding.
fn check_padded(text: &[u8], found: usize, size: usize) -> Result<()> {
    if found > size {
        return Err(Error::invalid(format!(
            "the text has {found} bytes, and a cell of the field holds {size} at most"
        )));
    }
    if text.ends_with(&[0]) {
        return Err(Error::invalid(
            "the text ends in a NUL character, which would be read as padding: set the option 'tiledb.fixed_text' to \
             'raw' to store it",
        ));
    }
    Ok(())
}

fn null_refused() -> Error {
    Error::invalid("the value is NULL, and the field is not nullable")
}
