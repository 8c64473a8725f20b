//! Descriptions of an array, in Arrow's types, that need no cells: fragments, non-empty domain, metadata.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, BinaryViewArray};
use arrow::datatypes::DataType;
use arrow::util::display::array_value_to_string;

use crate::array::fragment::Fragment;
use crate::array::metadata::MetadataItem;
use crate::array::snapshot::Snapshot;
use crate::arrow::{ColumnType, TypeOptions, stored_values};
use crate::error::Result;
use crate::format::datatype::Datatype;
use crate::format::domain_range::{DomainRange, compare_values};
use crate::format::schema::{ArraySchema, CellValNum};

/// One value of an Arrow type, as an array of length 1. NULL isn't one.
#[derive(Debug, Clone)]
pub struct ArrowValue(ArrayRef);

impl PartialEq for ArrowValue {
    fn eq(&self, other: &Self) -> bool {
        *self.0 == *other.0
    }
}

impl ArrowValue {
    /// The type of the value.
    pub fn data_type(&self) -> &DataType {
        self.0.data_type()
    }

    /// The value as an array of length 1.
    pub fn as_array(&self) -> &ArrayRef {
        &self.0
    }

    /// A stored value as a value of its column; its bytes if the column can't show it.
    fn of_stored(ty: Option<&ColumnType>, bytes: &[u8]) -> Self {
        let shown = ty.and_then(|ty| {
            let values = std::iter::once(Some(bytes));
            stored_values(ty, values, None).ok()?
        });
        let shown = shown.filter(|value| value.len() == 1 && value.logical_null_count() == 0);
        let stored = || Arc::new(BinaryViewArray::from_iter_values([bytes])) as ArrayRef;
        Self(shown.unwrap_or_else(stored))
    }
}

impl fmt::Display for ArrowValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = array_value_to_string(&self.0, 0).map_err(|_| fmt::Error)?;
        f.write_str(&text)
    }
}

/// A fragment: the result of one write, or of the consolidation of several.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FragmentInfo {
    /// The name of its folder.
    pub name: String,
    /// When the first of its cells was written, in milliseconds since 1970.
    pub timestamp_start: u64,
    /// When the last of its cells was written; later than the start only if it is consolidated.
    pub timestamp_end: u64,
    /// The version of the format it was written in.
    pub format_version: u32,
    /// Whether it stores a box of cells, instead of a list of cells. Old releases wrote sparse fragments into dense
    /// arrays.
    pub is_dense: bool,
    /// The number of written cells, including deleted ones and every version of a cell; for a dense fragment those of
    /// its box. `None` if it does not fit in a `u64`.
    pub cells: Option<u64>,
    /// The box around its cells, one range for each dimension; `None` if it has no cells.
    /// [`Array::non_empty_domain`](super::Array::non_empty_domain) explains how far it can be trusted.
    pub non_empty_domain: Option<Vec<DimensionRange>>,
}

/// The range of one dimension, both ends inclusive.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DimensionRange {
    /// The dimension.
    pub dimension: String,
    /// The smallest coordinate, of the type of the dimension's column. If that type can't hold it (text that isn't
    /// UTF-8, dates beyond Arrow's range), it is the stored bytes as `BinaryView`.
    pub low: ArrowValue,
    /// The largest coordinate, in the same form.
    pub high: ArrowValue,
}

impl fmt::Display for DimensionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {} to {}", self.dimension, self.low, self.high)
    }
}

impl FragmentInfo {
    pub(super) fn of(
        fragment: &Fragment,
        dimensions: &[String],
        types: &TypeOptions,
    ) -> Result<Self> {
        let footer = &fragment.footer;
        let name = &fragment.name;
        let ranges = footer.non_empty_domain.as_ref();
        Ok(Self {
            name: name.name.clone(),
            timestamp_start: name.t1,
            timestamp_end: name.t2,
            format_version: footer.version.get(),
            is_dense: footer.dense,
            cells: fragment
                .cell_count()
                .map_err(|e| e.with("fragment", &name.name))?,
            non_empty_domain: ranges
                .map(|ranges| shown_box(&fragment.schema, dimensions, ranges, types)),
        })
    }
}

/// The box around all fragments.
pub(super) fn non_empty_domain(
    snapshot: &Snapshot,
    dimensions: &[String],
    types: &TypeOptions,
) -> Option<Vec<DimensionRange>> {
    let fragments = snapshot.fragments.iter();
    let mut boxes = fragments.filter_map(|f| f.footer.non_empty_domain.clone());
    let schema = &snapshot.schema;
    let mut around = boxes.next()?;
    for next in boxes {
        let sides = around.iter_mut().zip(next).zip(&schema.dimensions);
        for ((side, next), dimension) in sides {
            widen(dimension.datatype, side, next);
        }
    }
    Some(shown_box(schema, dimensions, &around, types))
}

/// Extends a range to contain another. An end that is NaN is replaced by a number.
fn widen(datatype: Datatype, side: &mut DomainRange, other: DomainRange) {
    let gives_way = |known: &[u8], other: &[u8], wanted: Ordering| {
        let is_nan = compare_values(datatype, known, known).is_none();
        is_nan || compare_values(datatype, other, known) == Some(wanted)
    };
    if gives_way(&side.lo, &other.lo, Ordering::Less) {
        side.lo = other.lo;
    }
    if gives_way(&side.hi, &other.hi, Ordering::Greater) {
        side.hi = other.hi;
    }
}

fn shown_box(
    schema: &ArraySchema,
    dimensions: &[String],
    ranges: &[DomainRange],
    types: &TypeOptions,
) -> Vec<DimensionRange> {
    let stored = schema.dimensions.iter().zip(ranges).zip(dimensions);
    let shown = stored.map(|((dimension, range), name)| {
        let ty = ColumnType::of_dimension(dimension, types).ok();
        DimensionRange {
            dimension: name.clone(),
            low: ArrowValue::of_stored(ty.as_ref(), &range.lo),
            high: ArrowValue::of_stored(ty.as_ref(), &range.hi),
        }
    });
    shown.collect()
}

/// A key of metadata and its value.
pub(super) fn key_and_value(item: MetadataItem) -> (String, ArrowValue) {
    let value = item.value;
    let in_pieces = value.datatype.is_string() || value.datatype.is_binary() || value.count != 1;
    let values = if in_pieces {
        CellValNum::Var
    } else {
        CellValNum::Fixed(1)
    };
    let ty = ColumnType::plain(value.datatype, values, false, &TypeOptions::default());
    let value = ArrowValue::of_stored(ty.ok().as_ref(), &value.bytes);
    (text_of_key(&item.key), value)
}

/// A key as text; bytes that aren't UTF-8 show as `\x80`.
fn text_of_key(key: &[u8]) -> String {
    let pieces = key.utf8_chunks().map(|chunk| {
        let escaped = chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}"));
        format!("{}{}", chunk.valid(), escaped.collect::<String>())
    });
    pieces.collect()
}
