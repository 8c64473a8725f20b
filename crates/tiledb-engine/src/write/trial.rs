//! The choice of filters by trial: cells of a sample are filtered in several ways, and the cheapest to read wins.
//!
//! The price of a way is the time that reading takes, in picoseconds: to fetch what is stored, and to decode it. The time to
//! decode follows from what was encoded, not from a clock, so that the same rows always get the same filters. No filter loses
//! anything or can refuse values that come later: `float_scale` rounds, and `double_delta` cannot take steps of any width.

use super::fields::{WrittenField, WrittenFields};
use crate::arrow::StoredCells;
use crate::error::{Result, ResultExt};
use crate::filter::{DecodeWork, TileEncoder};
use crate::format::filter_list::{Filter, FilterList};

/// Ways to filter numbers of several bytes.
const NUMBERS: [&str; 8] = [
    "byteshuffle, zstd(3)",
    "zstd(3)",
    "bitshuffle, zstd(3)",
    "bitshuffle, lz4",
    "xor, byteshuffle, zstd(3)",
    "xor, bitshuffle, zstd(3)",
    "xor, bitshuffle, lz4",
    "",
];
/// Further ways for integers, dates and times.
const INTEGERS: [&str; 2] = [
    "delta, byteshuffle, zstd(3)",
    "bit_width_reduction, zstd(3)",
];
/// Ways to filter bytes and text.
const BYTES: [&str; 2] = ["zstd(3)", ""];
/// A further way for text, which stores each value once.
const TEXT: [&str; 1] = ["dictionary, zstd(3)"];
/// The percentage that other filters must save to replace a field's own.
const WORTH: u64 = 3;

/// The price of a stored byte: a disk or a network gives 170 MB in a second.
const STORED_BYTE: u64 = 6000;
/// The price of a byte that comes out of an entropy coder.
const LITERAL: u64 = 600;
/// The price of a part that a compressor copies.
const SEQUENCE: u64 = 9000;
/// The price of a byte that any filter puts out.
const MOVED_BYTE: u64 = 70;

/// The filters that suit a field best.
#[derive(Debug)]
pub struct BestFilters {
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
) -> Result<Option<BestFilters>> {
    if cells.values.is_empty() {
        return Ok(None);
    }
    let own = tried(fields, field, &field.filters, cells)?;
    let mut best: Option<(u64, BestFilters)> = None;
    for text in ways(field) {
        let filters = FilterList::parse(text)?;
        if filters == field.filters {
            continue;
        }
        // A stack of filters that can't write these values isn't a candidate.
        let Ok(TrialOutput { bytes, price }) = tried(fields, field, &filters, cells) else {
            continue;
        };
        if price.saturating_mul(100) < own.price.saturating_mul(100 - WORTH)
            && best.as_ref().is_none_or(|(least, _)| price < *least)
        {
            let found = BestFilters {
                filters,
                before: cells.bytes() as u64,
                after: bytes,
            };
            best = Some((price, found));
        }
    }
    Ok(best.map(|(_, best)| best))
}

fn ways(field: &WrittenField) -> Vec<&'static str> {
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

/// The cells after filtering, offsets included.
struct TrialOutput {
    bytes: u64,
    price: u64,
}

/// Filters the cells.
fn tried(
    fields: &WrittenFields,
    field: &WrittenField,
    filters: &FilterList,
    cells: &StoredCells,
) -> Result<TrialOutput> {
    let context = field.values_context(&fields.schema)?;
    let mut values = TileEncoder::new(filters, &context)
        .context("field", || field.described())?
        .measuring();
    let stages = filters.stages().filter(|(f, _)| !matches!(f, Filter::None));
    let moved = (cells.values.len() as u64).saturating_mul(stages.count() as u64 + 1);
    let Some(starts) = &cells.starts else {
        let bytes = values.encode(&cells.values)?.len() as u64;
        let price = price(bytes, moved, values.work());
        return Ok(TrialOutput { bytes, price });
    };
    if values.takes_offsets() {
        let bytes = values.encode_strings(&cells.values, starts)?.len() as u64;
        let price = price(bytes, moved, values.work());
        return Ok(TrialOutput { bytes, price });
    }
    let schema = &fields.schema;
    let context = super::fields::offsets_context(schema);
    let mut offsets = TileEncoder::new(&schema.offsets_filters, &context)?.measuring();
    let start_bytes = starts.iter().flat_map(|start| start.to_le_bytes());
    let of_offsets = offsets.encode(&start_bytes.collect::<Vec<_>>())?.len() as u64;
    let of_values = values.encode_var(&cells.values, starts)?.len() as u64;
    let moved_offsets = size_of_val(starts.as_slice()) as u64;
    Ok(TrialOutput {
        bytes: of_offsets.saturating_add(of_values),
        price: price(of_values, moved, values.work()).saturating_add(price(
            of_offsets,
            moved_offsets,
            offsets.work(),
        )),
    })
}

/// The cost of reading `stored` bytes, from which filters make `moved` bytes.
fn price(stored: u64, moved: u64, work: DecodeWork) -> u64 {
    let parts = [
        (stored, STORED_BYTE),
        (work.literals, LITERAL),
        (work.sequences, SEQUENCE),
        (moved, MOVED_BYTE),
    ];
    let prices = parts.map(|(count, price)| count.saturating_mul(price));
    prices.into_iter().fold(0, u64::saturating_add)
}
