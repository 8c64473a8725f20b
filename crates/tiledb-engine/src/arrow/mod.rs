//! Conversion of TileDB types to Arrow types (specification: "Array Schema", table of datatypes).
//!
//! A [`ColumnType`] is the type of one column: the conversion of an element, the number of elements in a cell, whether
//! cells can be NULL, and the values of an enumeration. [`ColumnType::to_array`] converts unfiltered cells to Arrow; it
//! is used for tiles, fill values, enumerations and generated coordinates alike. Values are converted in place, and
//! unchanged ones (numbers, most timestamps, string bytes) are never copied.

mod bits;
mod column_type;
mod fill;
mod floats;
mod schema;
mod storing;
mod strings;
mod text;
mod tile_buffer;
mod time;

#[cfg(test)]
mod tests;

pub use bits::validity_to_nulls;
pub use column_type::cells::{CellData, UnfilteredCells};
pub use column_type::{CellShape, ColumnType, check_problem};
pub use fill::{chosen_fill, fill_array, repeat, repeated_bytes, stored_values};
pub use floats::{FloatBits, with_one_zero};
pub use schema::{
    ATTRIBUTE_ROLE, ArrayEnumerations, DATATYPE_KEY, DIMENSION_ROLE, ENUMERATION_KEY, LABEL_ROLE,
    LABELLED_KEY, ROLE_KEY, SYSTEM_ROLE, UNREADABLE_KEY, arrow_schema, attribute_type,
    column_names, label_field,
};
use serde::{Deserialize, Serialize};

pub use storing::{CellWriter, NullPolicy, RefusedValue, StoredCells, UnknownValue, UnknownValues};
pub use strings::TileStrings;
pub use tile_buffer::{MemoryHome, TileBuffer, check_memory};

/// The handling of invalid bytes in a text field (option `tiledb.invalid_utf8`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum InvalidUtf8 {
    /// An error that names the cell.
    #[default]
    Error,
    /// Every text column is `BinaryView` and shows the stored bytes.
    Binary,
    /// Invalid bytes are replaced by U+FFFD.
    Lossy,
}

impl InvalidUtf8 {
    /// The word that chooses it in the option `tiledb.invalid_utf8`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Binary => "binary",
            Self::Lossy => "lossy",
        }
    }
}

/// The type of `TIME_*` fields (option `tiledb.time_as`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum TimeAs {
    /// A time of day; a value outside the day is an error.
    #[default]
    TimeOfDay,
    /// A duration of any sign and length.
    Duration,
}

impl TimeAs {
    /// The word that chooses it in the option `tiledb.time_as`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TimeOfDay => "time",
            Self::Duration => "duration",
        }
    }
}

/// How text in cells of a fixed size is shown and stored (option `tiledb.fixed_text`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FixedText {
    /// NUL characters at the end are padding. They are hidden when text is shown, and added when it is stored.
    #[default]
    Trim,
    /// Text is shown and stored unchanged, and must fill its cell.
    Raw,
}

impl FixedText {
    /// The word that chooses it in the option `tiledb.fixed_text`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trim => "trim",
            Self::Raw => "raw",
        }
    }
}

/// The options that change the Arrow type or the values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TypeOptions {
    /// See [`InvalidUtf8`].
    pub invalid_utf8: InvalidUtf8,
    /// See [`TimeAs`].
    pub time_as: TimeAs,
    /// See [`FloatBits`].
    pub float_bits: FloatBits,
    /// Whether dates, times and enumerated values of attributes show as their stored numbers. No number then means NULL.
    pub as_stored: bool,
    /// See [`FixedText`].
    pub fixed_text: FixedText,
}
