//! Whether filters fit the type of what they filter, as libtiledb decides when a pipeline is chosen.
//!
//! The subtle thing: each filter sees the type that the one before it makes, so `float_scale` before `delta` is right for
//! floats, and the other way round is not.

use crate::error::{Error, Result, ResultExt};
use crate::format::datatype::Datatype;
use crate::format::filter_list::{Filter, FilterList, Setting};
use crate::format::schema::{ArraySchema, CellValNum, Dimension};

/// Checks the filters of a field.
pub(super) fn check_field(
    filters: &FilterList,
    datatype: Datatype,
    count: CellValNum,
) -> Result<()> {
    check_known(filters)?;
    let text = matches!(datatype, Datatype::StringAscii | Datatype::StringUtf8) && count.is_var();
    check_text_filters(filters, text)?;
    let mut seen = datatype;
    for filter in &filters.filters {
        seen = output(filter, seen).context("filters", || filters)?;
    }
    Ok(())
}

/// Checks the filters of a dimension: its own, or those of all coordinates.
pub(super) fn check_dimension(dimension: &Dimension, schema: &ArraySchema) -> Result<()> {
    if !dimension.filters.is_empty() {
        return check_field(
            &dimension.filters,
            dimension.datatype,
            dimension.cell_val_num,
        );
    }
    let inherited = &schema.coords_filters;
    let checked = check_field(inherited, dimension.datatype, dimension.cell_val_num);
    checked.context(
        "option",
        || "tiledb.coords_filters, which apply to a dimension without filters of its own",
    )
}

/// Checks the filters that several fields share. Values that no user sees must not change on their way.
pub(super) fn check_shared(schema: &ArraySchema) -> Result<()> {
    for (option, filters, datatype) in [
        ("tiledb.coords_filters", &schema.coords_filters, None),
        (
            "tiledb.offsets_filters",
            &schema.offsets_filters,
            Some(Datatype::UInt64),
        ),
        (
            "tiledb.validity_filters",
            &schema.validity_filters,
            Some(Datatype::UInt8),
        ),
    ] {
        let checked = match datatype {
            None => check_known(filters),
            Some(datatype) if filters.is_lossy() => Err(Error::invalid(format!(
                "float_scale rounds, and {} must come back as they were",
                if datatype == Datatype::UInt8 {
                    "validity bytes"
                } else {
                    "offsets"
                }
            ))
            .with("filters", filters)),
            Some(datatype) => check_field(filters, datatype, CellValNum::Fixed(1)),
        };
        checked.context("option", || option)?;
    }
    Ok(())
}

/// Fails for a filter that can only be read.
fn check_known(filters: &FilterList) -> Result<()> {
    let settings = filters.settings.iter();
    let unusual = settings
        .filter(|s| matches!(s, Setting::Stored { .. }))
        .count();
    let unknown = filters.contains(|filter| {
        matches!(
            filter,
            Filter::Unknown(_) | Filter::WebP(_) | Filter::Bitsort | Filter::Aes256Gcm
        )
    });
    match unknown || unusual > 0 {
        false => Ok(()),
        true => Err(Error::unsupported(
            "this release cannot write one of the filters, or the options it is stored with",
        )
        .with("filters", filters)),
    }
}

/// Run lengths and dictionaries of text encode the offsets as well, which only the first filter can.
fn check_text_filters(filters: &FilterList, text: bool) -> Result<()> {
    for (index, filter) in filters.filters.iter().enumerate() {
        let problem = match filter {
            Filter::Dictionary if !text => {
                "dictionary takes text of any length: STRING_ASCII or STRING_UTF8"
            }
            Filter::Dictionary if index > 0 => "dictionary must come first",
            Filter::Rle if text && index > 0 => "rle of text must come first",
            _ => continue,
        };
        return Err(
            Error::invalid(format!("{problem}, as libtiledb has it")).with("filters", filters)
        );
    }
    Ok(())
}

/// The type that a filter makes of another.
fn output(filter: &Filter, input: Datatype) -> Result<Datatype> {
    let refused = |expected: &str| {
        Err(Error::invalid(format!(
            "filter {filter} does not take {input}: expected {expected}"
        )))
    };
    let bytes = matches!(
        input,
        Datatype::Blob | Datatype::GeomWkb | Datatype::GeomWkt
    );
    let counted = input.is_integer()
        || input == Datatype::Bool
        || input.is_datetime()
        || input.is_time()
        || bytes;
    Ok(match filter {
        Filter::Delta(as_type) | Filter::DoubleDelta(as_type) => {
            let seen = as_type.unwrap_or(input);
            if seen.is_float() {
                return refused("integers, or a type to read the values as, such as INT64");
            }
            if input.size().checked_rem(seen.size()) != Some(0) {
                return refused(&format!("values that are made of whole {seen} values"));
            }
            seen
        }
        Filter::PositiveDelta | Filter::BitWidthReduction if !counted => {
            return refused("integers, dates, times or bytes");
        }
        Filter::ScaleFloat { byte_width, .. } => match (input.size(), byte_width) {
            (4 | 8, 1) => Datatype::Int8,
            (4 | 8, 2) => Datatype::Int16,
            (4 | 8, 4) => Datatype::Int32,
            (4 | 8, 8) => Datatype::Int64,
            _ => return refused("values of 4 or 8 bytes"),
        },
        Filter::Xor => match input.size() {
            1 => Datatype::Int8,
            2 => Datatype::Int16,
            4 => Datatype::Int32,
            _ => Datatype::Int64,
        },
        _ => input,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_filter_sees_what_the_one_before_makes() {
        let one = CellValNum::Fixed(1);
        let check = |datatype, count, text: &str| {
            check_field(&FilterList::parse(text).unwrap(), datatype, count)
        };
        for (datatype, count, text) in [
            (
                Datatype::Float64,
                one,
                "float_scale(0.5, 0, 4), delta, bit_width_reduction",
            ),
            (Datatype::Float64, one, "xor, double_delta, zstd"),
            (Datatype::Float64, one, "delta(INT64), bitshuffle"),
            (Datatype::StringUtf8, CellValNum::Var, "dictionary, zstd"),
            (Datatype::StringAscii, CellValNum::Var, "rle, zstd"),
            (Datatype::Int32, one, "byteshuffle, rle"),
            (
                Datatype::DateTimeMs,
                one,
                "positive_delta, bit_width_reduction(1000)",
            ),
            (Datatype::Blob, CellValNum::Var, "positive_delta"),
        ] {
            check(datatype, count, text).unwrap_or_else(|e| panic!("{datatype} {text}: {e}"));
        }
        for (datatype, count, text, why) in [
            (Datatype::Float64, one, "delta", "does not take FLOAT64"),
            (
                Datatype::Float32,
                one,
                "zstd, double_delta",
                "does not take FLOAT32",
            ),
            (Datatype::Int32, one, "delta(INT64)", "whole INT64 values"),
            (
                Datatype::StringUtf8,
                CellValNum::Var,
                "positive_delta",
                "integers, dates",
            ),
            (
                Datatype::Float32,
                one,
                "bit_width_reduction",
                "integers, dates",
            ),
            (Datatype::Int16, one, "float_scale(1, 0, 2)", "4 or 8 bytes"),
            (
                Datatype::StringUtf8,
                CellValNum::Var,
                "zstd, rle",
                "rle of text must come first",
            ),
            (
                Datatype::StringAscii,
                CellValNum::Var,
                "zstd, dictionary",
                "must come first",
            ),
            (
                Datatype::Int32,
                one,
                "dictionary",
                "takes text of any length",
            ),
            (
                Datatype::StringAscii,
                CellValNum::Fixed(3),
                "dictionary",
                "takes text of any length",
            ),
        ] {
            let error = check(datatype, count, text).unwrap_err();
            assert!(error.message().contains(why), "{datatype} {text}: {error}");
        }
    }
}
