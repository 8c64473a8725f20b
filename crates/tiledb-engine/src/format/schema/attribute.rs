//! One attribute (specification: "Array Schema File", Attribute).
//!
//! The subtle thing: the fill value of a fixed-size attribute is a whole cell, that of a variable-sized one a sequence
//! of elements, by default *one* element and not an empty value.

use super::CellValNum;
use crate::error::{Error, Result};
use crate::format::cursor::Cursor;
use crate::format::datatype::Datatype;
use crate::format::encoder::Encoder;
use crate::format::filter_list::FilterList;
use crate::format::version::FormatVersion;

/// The largest fill value that is made of the one element that a schema before version 6 implies. The few bytes of such a schema
/// can claim cells of any size.
const MOST_REPEATED_BYTES: usize = 16 << 20;

/// The order of values that a dimension label promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DataOrder {
    /// No order.
    Unordered,
    /// Values never decrease.
    Increasing,
    /// Values never increase.
    Decreasing,
}

impl DataOrder {
    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        match cursor.u8("data order")? {
            0 => Ok(Self::Unordered),
            1 => Ok(Self::Increasing),
            2 => Ok(Self::Decreasing),
            other => Err(cursor.invalid("data order", other, "0 to 2")),
        }
    }
}

impl DataOrder {
    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Unordered => 0,
            Self::Increasing => 1,
            Self::Decreasing => 2,
        }
    }
}

/// Fails for a field with a problem, because what was read of it is not all that is stored.
pub(super) fn check_known(problem: Option<&String>, kind: &str, name: &str) -> Result<()> {
    match problem {
        None => Ok(()),
        Some(problem) => Err(Error::unsupported(format!(
            "the {kind} \"{name}\" cannot be written: {problem}"
        ))),
    }
}

/// The datatype with a code; for an unknown code, ANY and the problem.
pub(super) fn known_or_any(code: u8) -> (Datatype, Option<String>) {
    match Datatype::from_code(code) {
        Ok(datatype) => (datatype, None),
        Err(e) => (Datatype::Any, Some(e.message().to_owned())),
    }
}

/// The name that releases 1.x stored for an attribute without a name. Later releases accept no name that begins with it.
const STORED_UNNAMED: &str = "__attr";

/// An attribute.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    /// The name; one attribute of an array may have an empty one, for which releases 1.x stored `__attr`.
    pub name: String,
    /// The type of an element.
    pub datatype: Datatype,
    /// Elements per cell.
    pub cell_val_num: CellValNum,
    /// The filters of its values.
    pub filters: FilterList,
    /// The value of a cell that was never written: a whole cell, or one or more elements if variable-sized. Schemas
    /// before version 6 store none, so it is the default element, repeated to fill the cell.
    pub fill_value: Vec<u8>,
    /// Whether cells may be null.
    pub nullable: bool,
    /// Whether a cell that was never written is valid; if not, it is null.
    pub fill_valid: bool,
    /// The promised order of values.
    pub order: DataOrder,
    /// The enumeration whose members the values index.
    pub enumeration: Option<String>,
    /// The problem because of which no cell of the attribute can be read, if there is one. Other fields are not
    /// affected. If the type is unknown, `datatype` is ANY.
    pub problem: Option<String>,
}

impl Attribute {
    /// Whether the attribute has no name.
    pub fn is_unnamed(&self) -> bool {
        matches!(self.name.as_str(), "" | STORED_UNNAMED)
    }

    /// Whether unwritten cells have the usual fill value of CHAR, which isn't text. Other usual fill values are valid values of
    /// their types.
    pub fn fills_with_no_text(&self) -> bool {
        let usual = Datatype::Char.default_fill();
        let is_usual = |fill: &[u8]| fill.chunks(usual.len().max(1)).all(|byte| byte == usual);
        let cells = match self.cell_val_num {
            CellValNum::Var => self.fill_value.len() == usual.len(),
            CellValNum::Fixed(_) => !self.fill_value.is_empty(),
        };
        self.datatype == Datatype::Char && cells && is_usual(&self.fill_value)
    }

    pub(super) fn decode(cursor: &mut Cursor<'_>, version: FormatVersion) -> Result<Self> {
        let name = cursor.string_u32("attribute name")?;
        let decoded = Self::decode_body(cursor, version, &name);
        decoded.map_err(|e| e.with("attribute", &name))
    }

    fn decode_body(cursor: &mut Cursor<'_>, version: FormatVersion, name: &str) -> Result<Self> {
        let code = cursor.u8("attribute datatype")?;
        let (datatype, mut problem) = known_or_any(code);
        let count = CellValNum::of_count(cursor.u32("cell_val_num")?);
        let cell_val_num = count.unwrap_or(CellValNum::Fixed(1));
        if count.is_none() {
            problem = Some("values per cell is 0, expected at least 1".to_owned());
        }
        let filters = FilterList::decode(cursor, version)?;
        let fill_value = if version.since(6) {
            let fill_bytes = cursor.u64("fill value bytes")?;
            cursor.bytes_u64(fill_bytes, "fill value")?.to_vec()
        } else {
            datatype.default_fill()
        };
        let nullable = version.since(7) && cursor.bool("nullable")?;
        let fill_valid = version.since(7) && cursor.bool("fill validity")?;
        let order = if version.since(17) {
            DataOrder::decode(cursor)?
        } else {
            DataOrder::Unordered
        };
        let enumeration = if version.since(20) {
            Some(cursor.string_u32("enumeration name")?).filter(|name| !name.is_empty())
        } else {
            None
        };
        Ok(Self {
            name: name.to_owned(),
            datatype,
            cell_val_num,
            filters,
            fill_value,
            nullable,
            fill_valid,
            order,
            enumeration,
            problem,
        })
    }

    pub(super) fn encode(&self, to: &mut Encoder) -> Result<()> {
        check_known(self.problem.as_ref(), "attribute", &self.name)?;
        to.bytes_u32(self.name.as_bytes(), "attribute name")?;
        to.u8(self.datatype.code());
        to.u32(self.cell_val_num.count());
        self.filters.encode(to)?;
        self.encode_fill_value(to)?;
        to.bool(self.nullable);
        to.bool(self.fill_valid);
        to.u8(self.order.code());
        let enumeration = self.enumeration.as_deref().unwrap_or_default();
        to.bytes_u32(enumeration.as_bytes(), "enumeration name")
    }

    /// Writes the fill value: a whole cell, of which schemas before version 6 imply only one element.
    fn encode_fill_value(&self, to: &mut Encoder) -> Result<()> {
        let cell = self
            .cell_val_num
            .cell_size(self.datatype)?
            .unwrap_or(self.fill_value.len());
        let repeated = cell.checked_div(self.fill_value.len()).unwrap_or(0);
        if repeated > 1 && cell > MOST_REPEATED_BYTES {
            return Err(Error::unsupported(format!(
                "attribute \"{}\" has cells of {cell} bytes and a schema before version 6, which implies their fill value; a \
                 schema with a fill value of more than {MOST_REPEATED_BYTES} bytes is not written: drop the attribute",
                self.name
            )));
        }
        to.bytes_u64(&self.fill_value.repeat(repeated));
        Ok(())
    }

    /// Whether cells differ in size.
    pub fn is_var(&self) -> bool {
        self.cell_val_num.is_var()
    }

    /// Size of a cell; `None` if cells differ in size.
    pub fn cell_size(&self) -> Option<usize> {
        // An overflowing cell size is a problem of the attribute, which then cannot be read.
        self.cell_val_num.cell_size(self.datatype).ok().flatten()
    }
}
