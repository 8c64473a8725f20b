//! The choice of filters by trial: cells of a sample are filtered in several ways, and the smallest form wins.
//!
//! The sizes are weighed by what reading takes: what is a few per cent smaller and slower to undo is no gain. No filter loses
//! anything or can refuse values that come later: `float_scale` rounds, and `double_delta` cannot take steps of any width.

use super::fields::{WrittenField, WrittenFields};
use crate::arrow::StoredCells;
use crate::error::{Result, ResultExt};
use crate::filter::TileEncoder;
use crate::format::filter_list::FilterList;

/// Ways to filter numbers of several bytes, with the price of each: its size counts as so many hundredths.
const NUMBERS: [(&str, u64); 5] = [
    ("byteshuffle, zstd(3)", 100),
    ("zstd(3)", 100),
    ("bitshuffle, zstd(3)", 105),
    ("xor, byteshuffle, zstd(3)", 105),
    ("", 95),
];
/// Further ways for integers, dates and times.
const INTEGERS: [(&str, u64); 2] = [
    ("delta, byteshuffle, zstd(3)", 103),
    ("bit_width_reduction, zstd(3)", 105),
];
/// Ways to filter bytes and text.
const BYTES: [(&str, u64); 2] = [("zstd(3)", 100), ("", 95)];
/// A further way for text, which stores each value once.
const TEXT: [(&str, u64); 1] = [("dictionary, zstd(3)", 105)];
/// A field's own filters win unless others save so many hundredths.
const WORTH: u64 = 3;

/// The filters that suit a field best.
#[derive(Debug)]
pub struct Best {
    /// The filters.
    pub filters: FilterList,
    /// The bytes of the sample.
    pub before: u64,
    /// The bytes that the filters make of it.
    pub after: u64,
}

/// The filters that suit the cells of a field best; `None` for its own.
///
/// # Errors
/// The field's own filters do not take the cells.
pub fn best_filters(
    fields: &WrittenFields,
    field: &WrittenField,
    cells: &StoredCells,
) -> Result<Option<Best>> {
    if cells.values.is_empty() {
        return Ok(None);
    }
    let own = filtered(fields, field, &field.filters, cells)?;
    let price = |bytes: u64, hundredths: u64| bytes.saturating_mul(hundredths);
    let mut best: Option<(u64, Best)> = None;
    for (text, hundredths) in ways(field) {
        let filters = FilterList::parse(text)?;
        if filters == field.filters {
            continue;
        }
        // What cannot be written is no way.
        let Ok(after) = filtered(fields, field, &filters, cells) else {
            continue;
        };
        let weight = price(after, hundredths);
        if weight < price(own, 100 - WORTH)
            && best.as_ref().is_none_or(|(least, _)| weight < *least)
        {
            let before = cells.bytes() as u64;
            let found = Best {
                filters,
                before,
                after,
            };
            best = Some((weight, found));
        }
    }
    Ok(best.map(|(_, best)| best))
}

fn ways(field: &WrittenField) -> Vec<(&'static str, u64)> {
    let datatype = field.datatype;
    if datatype.is_string() {
        let text = TEXT.iter().filter(|_| field.cell_val_num.is_var());
        return BYTES.iter().chain(text).copied().collect();
    }
    if datatype.size() < 2 {
        return BYTES.to_vec();
    }
    let integers = INTEGERS.iter().filter(|_| !datatype.is_float());
    NUMBERS.iter().chain(integers).copied().collect()
}

/// The bytes of the cells after filtering, offsets included.
fn filtered(
    fields: &WrittenFields,
    field: &WrittenField,
    filters: &FilterList,
    cells: &StoredCells,
) -> Result<u64> {
    let context = field.values_context(&fields.schema)?;
    let mut values = TileEncoder::new(filters, &context).context("field", || field.described())?;
    let Some(starts) = &cells.starts else {
        return Ok(values.encode(&cells.values)?.len() as u64);
    };
    if values.takes_offsets() {
        return Ok(values.encode_strings(&cells.values, starts)?.len() as u64);
    }
    let schema = &fields.schema;
    let offsets = super::fields::offsets_context(schema);
    let mut offsets = TileEncoder::new(&schema.offsets_filters, &offsets)?;
    let bytes = starts.iter().flat_map(|start| start.to_le_bytes());
    let offsets = offsets.encode(&bytes.collect::<Vec<_>>())?.len();
    let data = values.encode_var(&cells.values, starts)?.len();
    Ok(offsets.saturating_add(data) as u64)
}
