//! Subarrays as text, for EXPLAIN: `x in [1, 5] or [9], name in ["a", "b")`.
//!
//! The text is pure ASCII, because DataFusion's drawing of a plan as a tree cuts lines by bytes.

use std::fmt::Write;

use super::Subarray;
use super::dim_ranges::DimRanges;
use super::ranges::{BytesRange, KeyRange, successor};
use crate::format::datatype::Datatype;
use crate::format::schema::ArraySchema;
use crate::geometry::key;

/// The most ranges shown of one dimension, and the most bytes of one string.
const SHOWN_RANGES: usize = 8;
const SHOWN_BYTES: usize = 64;

impl Subarray {
    /// The constrained dimensions by name, with values as numbers, ISO 8601 dates and quoted strings.
    pub fn describe(&self, schema: &ArraySchema) -> String {
        let dims = schema.dimensions.iter().zip(&self.dims);
        let parts: Vec<String> = dims
            .filter(|(_, ranges)| !ranges.is_all())
            .map(|(dimension, ranges)| {
                format!(
                    "{} in {}",
                    dimension.name.escape_default(),
                    ranges.describe(dimension.datatype)
                )
            })
            .collect();
        if parts.is_empty() {
            "all".to_string()
        } else {
            parts.join(", ")
        }
    }
}

impl DimRanges {
    /// The ranges as text, limited to the first few.
    pub fn describe(&self, datatype: Datatype) -> String {
        let mut text = String::new();
        let shown = match self {
            Self::All => return "all".to_string(),
            Self::Keys(ranges) => list(&mut text, ranges.as_slice(), |text, range| {
                describe_keys(text, datatype, *range)
            }),
            Self::Bytes(ranges) => list(&mut text, ranges.as_slice(), describe_bytes),
        };
        match self.len().saturating_sub(shown) {
            0 if shown == 0 => "nothing".to_string(),
            0 => text,
            more => format!("{text} or {} more", thousands(more)),
        }
    }
}

fn list<R>(text: &mut String, ranges: &[R], describe: impl Fn(&mut String, &R)) -> usize {
    let mut shown = 0;
    for range in ranges.iter().take(SHOWN_RANGES) {
        if shown > 0 {
            text.push_str(" or ");
        }
        describe(text, range);
        shown += 1;
    }
    shown
}

fn describe_keys(text: &mut String, datatype: Datatype, range: KeyRange) {
    let (min, max) = (key::min_key(datatype), key::max_key(datatype));
    let show = |k: u64| key::show(datatype, k.clamp(min, max));
    // Writing to a string cannot fail.
    let _ = match (range.lo <= min, range.hi >= max) {
        _ if range.lo == range.hi => write!(text, "[{}]", show(range.lo)),
        (true, false) => write!(text, "(-inf, {}]", show(range.hi)),
        (false, true) => write!(text, "[{}, inf)", show(range.lo)),
        _ => write!(text, "[{}, {}]", show(range.lo), show(range.hi)),
    };
}

fn describe_bytes(text: &mut String, range: &BytesRange) {
    let start = quoted(&range.start);
    let _ = match &range.end {
        None => write!(text, "[{start}, inf)"),
        Some(end) if *end == successor(&range.start) => write!(text, "[{start}]"),
        // An end just above a string is shown as that string, which is easier to read.
        Some(end) => match end.split_last() {
            Some((0, last)) => write!(text, "[{start}, {}]", quoted(last)),
            _ => write!(text, "[{start}, {})", quoted(end)),
        },
    };
}

fn quoted(bytes: &[u8]) -> String {
    let head = bytes.get(..SHOWN_BYTES).unwrap_or(bytes);
    let dots = if head.len() < bytes.len() { "..." } else { "" };
    let text: String = head
        .utf8_chunks()
        .flat_map(|chunk| {
            let valid = chunk.valid().escape_default().to_string();
            let invalid: String = chunk
                .invalid()
                .iter()
                .map(|byte| format!("\\x{byte:02x}"))
                .collect();
            [valid, invalid]
        })
        .collect();
    format!("\"{text}{dots}\"")
}

fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
