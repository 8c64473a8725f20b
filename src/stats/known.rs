//! What a fragment's metadata tell of the values of a column, as far as they are true.
//!
//! Which statistics are wrong, and for which types and versions, says [`crate::array::fragment::statistics`]; this is where
//! it is acted on. What cannot be trusted is not known, and neither are statistics that are damaged: they save work,
//! and nothing is lost without them.

use arrow::array::ArrayRef;

use crate::array::fragment::statistics::{FieldStatistics, StatisticsWanted, Sum};
use crate::array::fragment::{Fragment, FragmentField, TileIdx};
use crate::array::table::ArrayTable;
use crate::array::table::{fill_column, stored_field};
use crate::arrow::{ColumnType, Shape};
use crate::error::{Error, ErrorKind, Result};
use crate::format::datatype::Datatype;
use crate::format::schema::Attribute;
use crate::stats::trust::keeps_validity;

/// Nullable strings of fixed size have true statistics in dense fragments since this version.
const FIXED_STRINGS_SINCE: u32 = 21;

/// What is known of some columns of a fragment.
#[derive(Debug, Default)]
pub struct KnownStatistics {
    columns: Vec<(usize, Known)>,
}

/// What is known of one column.
#[derive(Debug)]
pub(super) enum Known {
    /// Nothing.
    Nothing,
    /// The fragment does not store the column: every cell has this one value.
    Fill(ArrayRef),
    /// The statistics of its tiles, and how to take them.
    Stored(StoredStatistics),
}

/// Statistics of tiles as they are stored, with what is to be known about them.
#[derive(Debug)]
pub(super) struct StoredStatistics {
    pub statistics: FieldStatistics,
    /// Whether cells can be NULL by the fragment's schema.
    nullable: bool,
    float: bool,
    /// Compared up to the first NUL byte.
    pub text: bool,
}

impl KnownStatistics {
    /// Loads what a fragment knows of `columns`.
    pub async fn load(table: &ArrayTable, fragment: &Fragment, columns: &[usize]) -> Result<Self> {
        let mut known = Vec::with_capacity(columns.len());
        let (mut fields, mut places) = (Vec::new(), Vec::new());
        for column in columns {
            if *column < table.dimension_count() {
                continue;
            }
            let (field, of_column) = describe(table, fragment, *column)?;
            if let Some(field) = field {
                fields.push(field);
                places.push(known.len());
            }
            known.push((*column, of_column));
        }
        if fields.is_empty() {
            return Ok(Self { columns: known });
        }
        let storage = &table.snapshot.storage;
        let loaded = fragment.statistics(storage, &fields, StatisticsWanted::ALL);
        let loaded = match loaded.await {
            Ok(loaded) => loaded,
            Err(e) if e.kind() == ErrorKind::Corrupt => Vec::new(),
            Err(e) => return Err(e),
        };
        let mut loaded = fields.into_iter().zip(loaded);
        for place in places {
            let Some((_, of_column)) = known.get_mut(place) else {
                continue;
            };
            *of_column = match loaded.next() {
                Some((FragmentField::Attribute(number), statistics)) => {
                    let attribute = fragment.schema.attributes.get(number);
                    let attribute =
                        attribute.ok_or_else(|| Error::internal("there is no such attribute"))?;
                    Known::Stored(StoredStatistics {
                        statistics,
                        nullable: attribute.nullable,
                        float: attribute.datatype.is_float(),
                        text: is_text(attribute.datatype),
                    })
                }
                _ => Known::Nothing,
            };
        }
        Ok(Self { columns: known })
    }

    pub(super) fn column(&self, column: usize) -> &Known {
        let found = self.columns.iter().find(|(c, _)| *c == column);
        found.map_or(&Known::Nothing, |(_, known)| known)
    }
}

/// What is known of a column without reading statistics, and the field whose statistics tell more.
fn describe(
    table: &ArrayTable,
    fragment: &Fragment,
    column: usize,
) -> Result<(Option<FragmentField>, Known)> {
    let Some(ty) = table.types.get(column) else {
        return Err(Error::internal(format!("the table has no column {column}")));
    };
    match stored_field(table, fragment, column)? {
        None => {
            // A fill value that cannot be read is an error when cells are read, not here.
            let fill = fill_column(table, column, 1);
            Ok((None, fill.map_or(Known::Nothing, Known::Fill)))
        }
        Some(field @ FragmentField::Attribute(number)) => {
            let attribute = fragment.schema.attributes.get(number);
            let trusted = attribute.is_some_and(|a| trusted(fragment, a, ty));
            Ok((trusted.then_some(field), Known::Nothing))
        }
        Some(_) => Ok((None, Known::Nothing)),
    }
}

fn is_text(datatype: Datatype) -> bool {
    matches!(datatype, Datatype::Char | Datatype::StringAscii)
}

/// Whether smallest and largest values and numbers of nulls can be true at all.
fn trusted(fragment: &Fragment, attribute: &Attribute, ty: &ColumnType) -> bool {
    // Statistics are of what was written, and not of what such a filter left of it.
    if attribute.filters.is_lossy() || (attribute.nullable && !keeps_validity(fragment)) {
        return false;
    }
    let dense = fragment.footer.dense;
    // Dense writers and consolidations miscount NULLs, and take bounds without the cells around them.
    if dense && attribute.nullable {
        return false;
    }
    let datatype = attribute.datatype;
    let number = datatype.is_integer()
        || datatype.is_float()
        || datatype.is_datetime()
        || datatype.is_time()
        || datatype == Datatype::Bool;
    match (ty.shape(), is_text(datatype)) {
        // Other types have none, and not even their nulls are counted right. Single characters are compared as signed
        // numbers.
        (Shape::One, _) => number,
        (_, false) => false,
        // What replaces bytes that are no text has another place in the order.
        (_, true) if ty.is_lossy() => false,
        // The first tile of a write has those of all its tiles, the others have none.
        (Shape::Var, true) => !dense,
        (Shape::Fixed(_), true) => {
            !(dense && attribute.nullable) || fragment.footer.version.since(FIXED_STRINGS_SINCE)
        }
    }
}

impl StoredStatistics {
    /// How many of the `cells` cells of a tile are NULL on storage.
    pub(super) fn null_count(&self, tile: TileIdx) -> Option<u64> {
        if self.nullable {
            self.statistics.null_count(tile)
        } else {
            Some(0)
        }
    }

    /// The smallest and the largest value of a tile of `cells` cells, as stored, if they prove anything.
    pub(super) fn min_max(&self, tile: TileIdx, cells: u64) -> Option<(&[u8], &[u8])> {
        // A tile of nulls has no values, whatever is stored in their place.
        if self.nullable && self.null_count(tile)? >= cells {
            return None;
        }
        if self.float && !self.proves_floats(tile) {
            return None;
        }
        self.statistics.min(tile).zip(self.statistics.max(tile))
    }

    /// A NaN resets the running minimum and maximum and shows in the sum, unless the sum had reached its limit before.
    fn proves_floats(&self, tile: TileIdx) -> bool {
        match self.statistics.sum(tile) {
            Some(Sum::Float(sum)) => sum.is_finite() && sum.abs() < f64::MAX,
            _ => false,
        }
    }
}
