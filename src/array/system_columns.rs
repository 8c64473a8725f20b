//! Columns that no field of an array supplies: when a cell was written, and by which fragment.
//!
//! They follow the attributes of a table that shows them. A cell's time is its own where the fragment records times, as
//! consolidated ones do; otherwise it is the first time of the fragment's name, by which libtiledb, too, decides which
//! version of a cell is the newest. A cell of a dense array that no fragment wrote has neither.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, StringViewArray, TimestampMillisecondArray};
use arrow::datatypes::Field;

use super::fragment::{Fragment, FragmentField};
use crate::arrow::{ColumnType, ROLE_KEY, SYSTEM_ROLE};
use crate::error::{Error, Result};

/// A column that no field supplies.
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
