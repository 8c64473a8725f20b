//! The type of one column in TileDB and in Arrow.
//!
//! The subtle thing: date/time attributes, enumerated attributes and those of CHAR with the usual fill value are nullable
//! whatever the schema says, because NaT, codes outside the enumeration and that fill value are NULL; dimensions are
//! never nullable, so there NaT stays a number.

pub(super) mod cells;
mod enumerated;
mod system;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Field, TimeUnit};

use super::floats::{FloatBits, FloatForm};
use super::text::{Encoding, TextForm};
use super::time::{DateUnit, TimeConversion};
use super::{FixedText, InvalidUtf8, TimeAs, TypeOptions};
use crate::error::{Error, Result, ResultExt};
use crate::format::datatype::Datatype;
use crate::format::enumeration::Enumeration;
use crate::format::schema::{Attribute, CellValNum, Dimension};

/// The number of elements in a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CellShape {
    /// One element.
    One,
    /// A fixed number of elements, more than one.
    Fixed(usize),
    /// Any number of elements.
    Var,
}

/// The conversion of one stored element to Arrow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ElementConversion {
    /// The bytes are the Arrow value.
    Number,
    /// A byte becomes a bit.
    Bool,
    /// An `i64` stays an `i64`, scaled or checked; `i64::MIN` may mean NULL.
    Time(TimeConversion),
    /// An `i64` becomes days in an `i32`; `i64::MIN` may mean NULL.
    Date(DateUnit),
    /// A cell's elements form a string.
    Text(Encoding),
    /// A cell's elements form a byte string.
    Bytes,
}

/// The conversion of a field's stored bytes to Arrow.
#[derive(Debug, Clone)]
pub struct ColumnType {
    pub(super) datatype: Datatype,
    pub(super) element: ElementConversion,
    pub(super) element_type: DataType,
    pub(super) shape: CellShape,
    /// Whether `i64::MIN` in a date or time is NULL.
    pub(super) nat_is_null: bool,
    pub(super) lossy: bool,
    pub(super) floats: FloatForm,
    /// Whether NUL characters at the end of text are padding.
    pub(super) padded: bool,
    /// The bytes of a text cell that is NULL because it was never written.
    pub(super) null_text: Option<Arc<[u8]>>,
    /// The values of the enumeration, by code.
    pub(super) enumeration: Option<ArrayRef>,
    nullable: bool,
    data_type: DataType,
    /// The reason why no cell can be shown, if so.
    unreadable: Option<Arc<Error>>,
}

impl ColumnType {
    /// The type of a dimension's column.
    pub fn of_dimension(dimension: &Dimension, options: &TypeOptions) -> Result<Self> {
        let mut ty = Self::plain(dimension.datatype, dimension.cell_val_num, false, options)
            .context("dimension", || &dimension.name)?;
        ty.nat_is_null = false;
        ty.nullable = false;
        if ty.floats == FloatForm::OneNan {
            ty.floats = FloatForm::OneNanAndZero;
        }
        Ok(ty)
    }

    /// The type of an attribute's column; `enumeration` is the one the attribute names, if it names one.
    pub fn of_attribute(
        attribute: &Attribute,
        enumeration: Option<&Enumeration>,
        options: &TypeOptions,
    ) -> Result<Self> {
        check_problem(attribute)?;
        let ty = Self::plain(
            attribute.datatype,
            attribute.cell_val_num,
            attribute.nullable,
            options,
        )
        .context("attribute", || &attribute.name)?;
        match (&attribute.enumeration, enumeration) {
            (codes, _) if options.as_stored => ty.into_stored(attribute.nullable, codes.is_some()),
            (None, _) => Ok(ty.with_null_text(attribute)),
            (Some(_), Some(enumeration)) => ty
                .enumerated(enumeration, options)
                .context("attribute", || &attribute.name),
            (Some(name), None) => Err(Error::internal(format!(
                "enumeration \"{name}\" was not loaded before it was needed"
            ))
            .with("attribute", &attribute.name)),
        }
    }

    /// Shows dates, times and codes as their stored numbers.
    fn into_stored(mut self, nullable: bool, is_code: bool) -> Result<Self> {
        let number = match self.element {
            ElementConversion::Time(_) | ElementConversion::Date(_) => DataType::Int64,
            // The cell is one byte of any value.
            ElementConversion::Bool if is_code => DataType::UInt8,
            _ => return Ok(self),
        };
        self.data_type = list_type(&number, self.shape, false)?;
        (self.element, self.element_type) = (ElementConversion::Number, number);
        self.nat_is_null = false;
        self.nullable = nullable;
        Ok(self)
    }

    /// The type of a field without enumeration.
    pub fn plain(
        datatype: Datatype,
        cell_val_num: CellValNum,
        nullable: bool,
        options: &TypeOptions,
    ) -> Result<Self> {
        let shape = match cell_val_num {
            CellValNum::Var => CellShape::Var,
            CellValNum::Fixed(0) => {
                return Err(Error::corrupt("values per cell is 0, expected at least 1"));
            }
            CellValNum::Fixed(1) => CellShape::One,
            CellValNum::Fixed(n) => CellShape::Fixed(usize::try_from(n)?),
        };
        let (element, element_type) = element_of(datatype, options);
        let is_time = matches!(
            element,
            ElementConversion::Time(_) | ElementConversion::Date(_)
        );
        let data_type = match element {
            ElementConversion::Bytes if !datatype.is_string() => binary_type(shape)?,
            ElementConversion::Text(_) | ElementConversion::Bytes => element_type.clone(),
            _ => list_type(&element_type, shape, is_time)?,
        };
        Ok(Self {
            datatype,
            element,
            element_type,
            shape,
            nat_is_null: is_time,
            lossy: options.invalid_utf8 == InvalidUtf8::Lossy,
            floats: match options.float_bits {
                FloatBits::Shown => FloatForm::OneNan,
                FloatBits::Stored => FloatForm::AsStored,
            },
            padded: matches!(element, ElementConversion::Text(_))
                && shape != CellShape::Var
                && options.fixed_text == FixedText::Trim,
            null_text: None,
            enumeration: None,
            nullable: nullable || (is_time && shape == CellShape::One),
            data_type,
            unreadable: None,
        })
    }

    /// The type of an attribute's or label's column that cannot be read, with the reason. The column stays among the
    /// others, so that their indices do not change; reading it is an error.
    ///
    /// It shows as `BinaryView`, because only its stored bytes are known. The integer type of an unreadable enumeration
    /// would promise codes, which are not what the column shows when it is intact, and Arrow's `Null` would promise
    /// NULLs, from which a query could be answered without reading.
    pub fn unreadable(datatype: Datatype, why: Error) -> Self {
        Self {
            datatype,
            element: ElementConversion::Bytes,
            element_type: DataType::BinaryView,
            shape: CellShape::Var,
            nat_is_null: false,
            lossy: false,
            floats: FloatForm::AsStored,
            padded: false,
            null_text: None,
            enumeration: None,
            nullable: true,
            data_type: DataType::BinaryView,
            unreadable: Some(Arc::new(why)),
        }
    }

    /// Returns the type with cells that were never written as NULL, if the attribute's fill value isn't text.
    fn with_null_text(mut self, attribute: &Attribute) -> Self {
        if matches!(self.element, ElementConversion::Text(_)) && attribute.fills_with_no_text() {
            let elements = self.cell_bytes().unwrap_or(1);
            self.null_text = Some(attribute.datatype.default_fill().repeat(elements).into());
            self.nullable = true;
        }
        self
    }

    /// Fails if no cell can be shown.
    pub fn check_readable(&self) -> Result<()> {
        match &self.unreadable {
            None => Ok(()),
            Some(why) => Err(why.again()),
        }
    }

    fn enumerated(mut self, enumeration: &Enumeration, options: &TypeOptions) -> Result<Self> {
        // libtiledb also allows booleans as codes: one byte each.
        if self.datatype == Datatype::Bool {
            (self.element, self.element_type) = (ElementConversion::Number, DataType::UInt8);
        }
        if !self.code_datatype().is_integer() || self.shape != CellShape::One {
            return Err(Error::corrupt(format!(
                "an attribute with the enumeration \"{}\" has {:?} value(s) of type {} per cell, expected one integer or boolean",
                enumeration.name, self.shape, self.datatype
            )));
        }
        let values = enumerated::values_of(enumeration, options)
            .context("enumeration", || &enumeration.name)?;
        self.data_type = cells::column_type(&self.element_type, values.data_type());
        self.enumeration = Some(values);
        self.nullable = true;
        Ok(self)
    }

    /// The Arrow type.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// The TileDB type of one element.
    pub fn datatype(&self) -> Datatype {
        self.datatype
    }

    /// How many elements form a cell.
    pub fn shape(&self) -> CellShape {
        self.shape
    }

    /// Whether the column can hold NULL.
    pub fn nullable(&self) -> bool {
        self.nullable
    }

    /// The values of the enumeration by their codes, if the attribute has one. A value can be NULL: an invalid time.
    pub fn enumeration_values(&self) -> Option<&ArrayRef> {
        self.enumeration.as_ref()
    }

    /// The type of the codes of an enumerated attribute, as numbers.
    pub fn code_datatype(&self) -> Datatype {
        match self.datatype {
            Datatype::Bool => Datatype::UInt8,
            other => other,
        }
    }

    /// Whether the column is a dictionary, whose keys are the codes of the enumeration.
    pub fn is_dictionary(&self) -> bool {
        matches!(self.data_type, DataType::Dictionary(..))
    }

    /// Whether the cells are floats, each of them a single number.
    pub fn has_floats(&self) -> bool {
        self.element == ElementConversion::Number
            && self.datatype.is_float()
            && self.enumeration.is_none()
    }

    /// Whether a stored `i64::MIN` reads as NULL.
    pub fn nat_is_null(&self) -> bool {
        self.nat_is_null
    }

    /// Whether a stored fill value reads as NULL because it isn't text.
    pub fn fill_is_null(&self) -> bool {
        self.null_text.is_some()
    }

    /// How text cells are shown.
    pub(super) fn text_form(&self, encoding: Encoding) -> TextForm<'_> {
        TextForm {
            encoding,
            lossy: self.lossy,
            padded: self.padded,
            null: self.null_text.as_deref(),
        }
    }

    /// Whether invalid text is shown with replacement characters.
    pub fn is_lossy(&self) -> bool {
        self.lossy
    }

    /// Size of a stored cell, if all cells have the same size.
    pub fn cell_bytes(&self) -> Option<usize> {
        match self.shape {
            CellShape::One => Some(self.datatype.size()),
            CellShape::Fixed(n) => n.checked_mul(self.datatype.size()),
            CellShape::Var => None,
        }
    }

    /// Whether any bytes are a valid value, so that cells that are not needed may be undefined.
    pub fn takes_any_bytes(&self) -> bool {
        let taken = matches!(
            self.element,
            ElementConversion::Number | ElementConversion::Time(TimeConversion::AsIs)
        );
        taken && self.enumeration.is_none()
    }

    /// Whether cells of `datatype` and `cell_val_num`, as an older schema may have them, can be read as this type.
    pub fn reads(&self, datatype: Datatype, cell_val_num: CellValNum) -> bool {
        let same_shape = match (self.shape, cell_val_num) {
            (CellShape::One, CellValNum::Fixed(1)) | (CellShape::Var, CellValNum::Var) => true,
            (CellShape::Fixed(n), CellValNum::Fixed(m)) => usize::try_from(m).is_ok_and(|m| m == n),
            _ => false,
        };
        same_shape && self.datatype == datatype
    }

    /// About how many bytes decoding `cells` cells takes at its peak; `var_bytes` is the size of their unfiltered
    /// variable-sized data.
    pub fn decoded_bytes(&self, cells: usize, var_bytes: usize) -> usize {
        const VIEW_AND_OFFSET_BYTES: usize = 24;
        let stored = self
            .cell_bytes()
            .unwrap_or(0)
            .saturating_mul(cells)
            .saturating_add(var_bytes);
        let validity = cells.saturating_add(cells / 8);
        let gathered = self.enumeration.is_some() && !self.is_dictionary();
        let extra = match (self.element, self.shape) {
            _ if gathered => cells.saturating_mul(self.data_type.primitive_width().unwrap_or(1)),
            // Transcoding keeps both forms in memory; two bytes of UTF-16 can become three of UTF-8.
            (ElementConversion::Text(Encoding::Utf16 | Encoding::Utf32), _) => cells
                .saturating_mul(VIEW_AND_OFFSET_BYTES)
                .saturating_add(stored.saturating_add(stored / 2)),
            (ElementConversion::Text(_), _) | (_, CellShape::Var) => {
                cells.saturating_mul(VIEW_AND_OFFSET_BYTES)
            }
            (ElementConversion::Date(_), _) => stored / 2,
            (ElementConversion::Bool, _) => stored / 8,
            _ => 0,
        };
        stored.saturating_add(extra).saturating_add(validity)
    }
}

/// Fails if the schema shows that the attribute cannot be read.
pub fn check_problem(attribute: &Attribute) -> Result<()> {
    match &attribute.problem {
        None => Ok(()),
        Some(problem) => Err(Error::corrupt(problem.clone()).with("attribute", &attribute.name)),
    }
}

fn element_of(datatype: Datatype, options: &TypeOptions) -> (ElementConversion, DataType) {
    use Datatype as D;
    let text = |encoding| match options.invalid_utf8 {
        InvalidUtf8::Binary => (ElementConversion::Bytes, DataType::BinaryView),
        InvalidUtf8::Error | InvalidUtf8::Lossy => {
            (ElementConversion::Text(encoding), DataType::Utf8View)
        }
    };
    match datatype {
        D::Int8 => (ElementConversion::Number, DataType::Int8),
        D::Int16 => (ElementConversion::Number, DataType::Int16),
        D::Int32 => (ElementConversion::Number, DataType::Int32),
        D::Int64 => (ElementConversion::Number, DataType::Int64),
        D::UInt8 => (ElementConversion::Number, DataType::UInt8),
        D::UInt16 => (ElementConversion::Number, DataType::UInt16),
        D::UInt32 => (ElementConversion::Number, DataType::UInt32),
        D::UInt64 => (ElementConversion::Number, DataType::UInt64),
        D::Float32 => (ElementConversion::Number, DataType::Float32),
        D::Float64 => (ElementConversion::Number, DataType::Float64),
        D::Bool => (ElementConversion::Bool, DataType::Boolean),
        D::Char | D::StringAscii | D::StringUtf8 | D::GeomWkt => text(Encoding::Utf8),
        D::StringUtf16 | D::StringUcs2 => text(Encoding::Utf16),
        D::StringUtf32 | D::StringUcs4 => text(Encoding::Utf32),
        D::Blob | D::GeomWkb | D::Any => (ElementConversion::Bytes, DataType::BinaryView),
        D::DateTimeYear => (ElementConversion::Date(DateUnit::Year), DataType::Date32),
        D::DateTimeMonth => (ElementConversion::Date(DateUnit::Month), DataType::Date32),
        D::DateTimeWeek => (ElementConversion::Date(DateUnit::Week), DataType::Date32),
        D::DateTimeDay => (ElementConversion::Date(DateUnit::Day), DataType::Date32),
        D::DateTimeHr => scaled(3600, DataType::Timestamp(TimeUnit::Second, None)),
        D::DateTimeMin => scaled(60, DataType::Timestamp(TimeUnit::Second, None)),
        D::DateTimeSec => as_is(DataType::Timestamp(TimeUnit::Second, None)),
        D::DateTimeMs => as_is(DataType::Timestamp(TimeUnit::Millisecond, None)),
        D::DateTimeUs => as_is(DataType::Timestamp(TimeUnit::Microsecond, None)),
        D::DateTimeNs => as_is(DataType::Timestamp(TimeUnit::Nanosecond, None)),
        D::DateTimePs | D::DateTimeFs | D::DateTimeAs | D::TimePs | D::TimeFs | D::TimeAs => {
            as_is(DataType::Int64)
        }
        D::TimeHr | D::TimeMin | D::TimeSec | D::TimeMs | D::TimeUs | D::TimeNs => {
            match options.time_as {
                TimeAs::TimeOfDay => time_of_day(datatype),
                TimeAs::Duration => duration(datatype),
            }
        }
    }
}

fn as_is(data_type: DataType) -> (ElementConversion, DataType) {
    (ElementConversion::Time(TimeConversion::AsIs), data_type)
}

fn scaled(factor: i64, data_type: DataType) -> (ElementConversion, DataType) {
    (
        ElementConversion::Time(TimeConversion::Scale(factor)),
        data_type,
    )
}

fn time_of_day(datatype: Datatype) -> (ElementConversion, DataType) {
    let nanoseconds = match datatype {
        Datatype::TimeHr => 3_600_000_000_000,
        Datatype::TimeMin => 60_000_000_000,
        Datatype::TimeSec => 1_000_000_000,
        Datatype::TimeMs => 1_000_000,
        Datatype::TimeUs => 1_000,
        _ => 1,
    };
    let conversion = TimeConversion::TimeOfDay { nanoseconds };
    (
        ElementConversion::Time(conversion),
        DataType::Time64(TimeUnit::Nanosecond),
    )
}

fn duration(datatype: Datatype) -> (ElementConversion, DataType) {
    match datatype {
        Datatype::TimeHr => scaled(3600, DataType::Duration(TimeUnit::Second)),
        Datatype::TimeMin => scaled(60, DataType::Duration(TimeUnit::Second)),
        Datatype::TimeSec => as_is(DataType::Duration(TimeUnit::Second)),
        Datatype::TimeMs => as_is(DataType::Duration(TimeUnit::Millisecond)),
        Datatype::TimeUs => as_is(DataType::Duration(TimeUnit::Microsecond)),
        _ => as_is(DataType::Duration(TimeUnit::Nanosecond)),
    }
}

fn binary_type(shape: CellShape) -> Result<DataType> {
    match shape {
        CellShape::Var => Ok(DataType::BinaryView),
        CellShape::One => Ok(DataType::FixedSizeBinary(1)),
        CellShape::Fixed(n) => Ok(DataType::FixedSizeBinary(arrow_len(n)?)),
    }
}

fn list_type(element: &DataType, shape: CellShape, nullable_items: bool) -> Result<DataType> {
    let item = || {
        Arc::new(Field::new(
            Field::LIST_FIELD_DEFAULT_NAME,
            element.clone(),
            nullable_items,
        ))
    };
    match shape {
        CellShape::One => Ok(element.clone()),
        CellShape::Fixed(n) => Ok(DataType::FixedSizeList(item(), arrow_len(n)?)),
        CellShape::Var => Ok(DataType::List(item())),
    }
}

/// A length as Arrow's `i32`.
pub(super) fn arrow_len(n: usize) -> Result<i32> {
    i32::try_from(n).map_err(|_| {
        Error::unsupported(format!(
            "{n} elements in one value are more than {}, the most Arrow can hold",
            i32::MAX
        ))
    })
}
