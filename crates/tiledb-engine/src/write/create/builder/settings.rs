//! The choices for an array and its columns, and the options that make them.
//!
//! | Option | of | |
//! |---|---|---|
//! | `array_type`, `cell_order`, `tile_order`, `capacity`, `allows_duplicates` | the array | |
//! | `coords_filters`, `offsets_filters`, `validity_filters` | the array | `byteshuffle, zstd(5)` |
//! | `current_domain` | the array | a range for each dimension: `[0, 9], ["a", "z"]` |
//! | `dim.<name>.domain`, `.tile`, `.filters`, `.type` | a dimension | |
//! | `attr.<name>.filters`, `.type`, `.fill`, `.fill_valid`, `.anonymous` | an attribute | |
//! | `attr.<name>.enumeration`, `.enumeration_name`, `.enumeration_type` | an attribute | `["a", "b"] ordered` |
//!
//! A name may contain dots: the choice is the word behind the last one.

use arrow::datatypes::DataType;

use crate::error::{Error, Result, ResultExt};
use crate::format::filter_list::FilterList;
use crate::format::schema::{ArrayType, Layout};
use crate::write::create::literal::LiteralValue;
use crate::write::create::tokens::{self, ListElement};
use crate::write::create::types::StorageType;

/// The options of the array as a whole.
pub const ARRAY_OPTIONS: [&str; 9] = [
    "array_type",
    "cell_order",
    "tile_order",
    "capacity",
    "allows_duplicates",
    "coords_filters",
    "offsets_filters",
    "validity_filters",
    "current_domain",
];
/// The options of a dimension, behind `dim.<name>.`.
pub const DIMENSION_OPTIONS: [&str; 4] = ["domain", "tile", "filters", "type"];
/// The options of an attribute, behind `attr.<name>.`.
pub const ATTRIBUTE_OPTIONS: [&str; 8] = [
    "filters",
    "type",
    "fill",
    "fill_valid",
    "enumeration",
    "enumeration_name",
    "enumeration_type",
    "anonymous",
];

/// The choices for the array.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ArraySettings {
    pub array_type: Option<ArrayType>,
    pub cell_order: Option<Layout>,
    pub tile_order: Option<Layout>,
    pub capacity: Option<u64>,
    pub allows_duplicates: Option<bool>,
    pub coords_filters: Option<FilterList>,
    pub offsets_filters: Option<FilterList>,
    pub validity_filters: Option<FilterList>,
    pub current_domain: Option<Vec<(LiteralValue, LiteralValue)>>,
}

/// The choices for a dimension.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct DimensionSettings {
    pub stored: Option<TypeName>,
    pub domain: Option<(LiteralValue, LiteralValue)>,
    pub tile: Option<LiteralValue>,
    pub filters: Option<FilterList>,
}

/// The choices for an attribute.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct AttributeSettings {
    pub stored: Option<TypeName>,
    pub filters: Option<FilterList>,
    pub fill: Option<FillSetting>,
    pub fill_valid: Option<bool>,
    pub enumeration: Option<EnumerationMembers>,
    /// Whether values are stored as they are, even if the rows of a COPY suggest an enumeration.
    pub never_enumerated: bool,
    pub enumeration_name: Option<String>,
    pub enumeration_type: Option<TypeName>,
    pub anonymous: Option<bool>,
}

/// A type: its name, where the number of values per cell may follow from the column, or the type itself.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TypeName {
    Text(String),
    Known(StorageType),
}

/// A fill value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FillSetting {
    /// The stored value; for an enumerated attribute, the code.
    Stored(LiteralValue),
    /// The value that the column shows; for an enumerated attribute, one of the values.
    Shown(LiteralValue),
}

/// The values of an enumeration.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EnumerationMembers {
    pub values: Vec<EnumerationMember>,
    pub ordered: bool,
}

/// A value of an enumeration.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum EnumerationMember {
    /// Text as it is, whatever it looks like.
    Verbatim(String),
    /// In the form that the type demands.
    Parsed(LiteralValue),
}

impl TypeName {
    pub fn resolve(&self, declared: &DataType) -> Result<StorageType> {
        match self {
            Self::Text(text) => StorageType::parse(text, declared),
            Self::Known(known) => Ok(*known),
        }
    }
}

impl ArraySettings {
    pub fn set(&mut self, option: &str, value: &str) -> Result<()> {
        match option {
            "array_type" => {
                let types = [("sparse", ArrayType::Sparse), ("dense", ArrayType::Dense)];
                self.array_type = Some(choose(value, &types)?);
            }
            "cell_order" => self.cell_order = Some(choose(value, &ORDERS)?),
            "tile_order" => self.tile_order = Some(choose(value, &ORDERS)?),
            "capacity" => {
                let capacity = value.trim().parse();
                self.capacity = Some(capacity.map_err(|_| expected(value, "a number of cells"))?);
            }
            "allows_duplicates" => self.allows_duplicates = Some(flag(value)?),
            "coords_filters" => self.coords_filters = Some(FilterList::parse(value)?),
            "offsets_filters" => self.offsets_filters = Some(FilterList::parse(value)?),
            "validity_filters" => self.validity_filters = Some(FilterList::parse(value)?),
            "current_domain" => {
                let ranges = tokens::lists(value)?
                    .into_iter()
                    .map(|list| range(&list, value));
                self.current_domain = Some(ranges.collect::<Result<_>>()?);
            }
            _ => return Err(unknown(option, &ARRAY_OPTIONS)),
        }
        Ok(())
    }
}

impl DimensionSettings {
    pub fn set(&mut self, option: &str, value: &str) -> Result<()> {
        match option {
            "domain" => self.domain = Some(range(&tokens::elements(value)?, value)?),
            "tile" => self.tile = Some(value.into()),
            "filters" => self.filters = Some(FilterList::parse(value)?),
            "type" => self.stored = Some(TypeName::Text(value.to_owned())),
            _ => return Err(unknown(option, &DIMENSION_OPTIONS)),
        }
        Ok(())
    }
}

impl AttributeSettings {
    pub fn set(&mut self, option: &str, value: &str) -> Result<()> {
        match option {
            "filters" => self.filters = Some(FilterList::parse(value)?),
            "type" => self.stored = Some(TypeName::Text(value.to_owned())),
            "fill" => self.fill = Some(FillSetting::Stored(value.into())),
            "fill_valid" => self.fill_valid = Some(flag(value)?),
            "enumeration" => {
                self.never_enumerated = value.trim().eq_ignore_ascii_case("none");
                self.enumeration = if self.never_enumerated {
                    None
                } else {
                    Some(EnumerationMembers::parse(value)?)
                };
            }
            "enumeration_name" => self.enumeration_name = Some(value.to_owned()),
            "enumeration_type" => self.enumeration_type = Some(TypeName::Text(value.to_owned())),
            "anonymous" => self.anonymous = Some(flag(value)?),
            _ => return Err(unknown(option, &ATTRIBUTE_OPTIONS)),
        }
        Ok(())
    }

    /// Whether the values of the attribute are codes.
    pub fn is_enumerated(&self) -> bool {
        self.enumeration.is_some() || self.enumeration_name.is_some()
    }
}

impl EnumerationMembers {
    /// Parses `["a", "b"]`, or `["a", "b"] ordered`.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = || {
            expected(
                text,
                "values in brackets, such as [\"a\", \"b\"] or [], and perhaps the word ordered behind them",
            )
        };
        let (elements, after) = tokens::one_list(text).ok_or_else(wrong)?;
        let ordered = match after.trim() {
            "" => false,
            word if word.eq_ignore_ascii_case("ordered") => true,
            _ => return Err(wrong()),
        };
        let values = elements.into_iter().map(|element| match element {
            ListElement::Quoted(text) => EnumerationMember::Verbatim(text),
            ListElement::Plain(text) => EnumerationMember::Parsed(text.into()),
        });
        Ok(Self {
            values: values.collect(),
            ordered,
        })
    }
}

const ORDERS: [(&str, Layout); 5] = [
    ("row-major", Layout::RowMajor),
    ("col-major", Layout::ColMajor),
    ("hilbert", Layout::Hilbert),
    ("row_major", Layout::RowMajor),
    ("col_major", Layout::ColMajor),
];

/// The low and the high end of a range.
fn range(elements: &[ListElement], text: &str) -> Result<(LiteralValue, LiteralValue)> {
    let value = |element: &ListElement| match element {
        // A quoted end is text. It keeps its quotes, so that it is parsed as text.
        ListElement::Quoted(text) => {
            LiteralValue::from(crate::write::create::literal::quoted(text))
        }
        ListElement::Plain(text) => LiteralValue::from(text.as_str()),
    };
    match elements {
        [low, high] => Ok((value(low), value(high))),
        _ => Err(expected(
            text,
            "a low and a high end in brackets, such as [0, 99]",
        )),
    }
}

fn flag(value: &str) -> Result<bool> {
    choose(value, &[("true", true), ("false", false)])
}

fn choose<T: Copy + PartialEq>(value: &str, choices: &[(&str, T)]) -> Result<T> {
    let wanted = value.trim();
    let found = choices
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(wanted));
    found.map(|(_, choice)| *choice).ok_or_else(|| {
        let mut names: Vec<&str> = Vec::new();
        for (index, (name, choice)) in choices.iter().enumerate() {
            // The first of several spellings is shown.
            if choices.iter().position(|(_, other)| other == choice) == Some(index) {
                names.push(name);
            }
        }
        expected(value, &names.join(" or "))
    })
}

fn expected(value: &str, what: &str) -> Error {
    Error::invalid(format!("'{value}': expected {what}"))
}

fn unknown(option: &str, known: &[&str]) -> Error {
    Error::invalid(format!(
        "there is no option '{option}' here; the options are {}",
        known.join(", ")
    ))
}

/// An option's key, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionKey<'a> {
    /// Of the array.
    Array(&'a str),
    /// Of a dimension: the column and the choice.
    Dimension(&'a str, &'a str),
    /// Of an attribute: the column and the choice.
    Attribute(&'a str, &'a str),
}

impl<'a> OptionKey<'a> {
    /// Takes a key without the prefix `tiledb.` apart; `None` if it does not describe an array to be created.
    pub fn parse(key: &'a str) -> Option<Self> {
        if ARRAY_OPTIONS.contains(&key) {
            return Some(Self::Array(key));
        }
        let of_column = |prefix| key.strip_prefix(prefix)?.rsplit_once('.');
        if let Some((column, option)) = of_column("dim.") {
            return Some(Self::Dimension(column, option));
        }
        let (column, option) = of_column("attr.")?;
        Some(Self::Attribute(column, option))
    }
}

/// Adds the option to an error.
pub(super) fn in_option<T>(result: Result<T>, key: &str) -> Result<T> {
    result.context("option", || format!("tiledb.{key}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_hold_names_with_dots() {
        assert_eq!(
            OptionKey::parse("capacity"),
            Some(OptionKey::Array("capacity"))
        );
        assert_eq!(
            OptionKey::parse("dim.a.b.domain"),
            Some(OptionKey::Dimension("a.b", "domain"))
        );
        assert_eq!(
            OptionKey::parse("attr..fill"),
            Some(OptionKey::Attribute("", "fill"))
        );
        assert_eq!(OptionKey::parse("dim.domain"), None);
        assert_eq!(OptionKey::parse("timestamp"), None);
    }

    #[test]
    fn wrong_values_say_what_is_expected() {
        let array = |option, value| ArraySettings::default().set(option, value).unwrap_err();
        for (option, value, why) in [
            ("array_type", "thick", "sparse or dense"),
            ("cell_order", "random", "row-major or col-major or hilbert"),
            ("capacity", "-1", "a number of cells"),
            ("allows_duplicates", "maybe", "true or false"),
            ("current_domain", "[1]", "a low and a high end"),
            ("offsets_filters", "snappy", "no filter 'snappy'"),
            (
                "nonsense",
                "1",
                "no option 'nonsense' here; the options are array_type",
            ),
        ] {
            let error = array(option, value);
            assert!(error.message().contains(why), "{option}: {error}");
        }
        let error = DimensionSettings::default().set("fill", "1").unwrap_err();
        assert!(error.message().contains("domain, tile, filters, type"));
        let error = AttributeSettings::default().set("enumeration", "[a] odd");
        assert!(error.unwrap_err().message().contains("the word ordered"));
    }

    #[test]
    fn orders_have_two_spellings() {
        let mut settings = ArraySettings::default();
        settings.set("cell_order", "COL_MAJOR").unwrap();
        assert_eq!(settings.cell_order, Some(Layout::ColMajor));
    }
}
