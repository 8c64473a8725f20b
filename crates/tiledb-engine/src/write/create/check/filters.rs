//! Whether filters fit the type of the values they filter, as libtiledb decides when a pipeline is chosen.
//!
//! The subtle thing: each filter sees the type that the one before it makes, so `float_scale` before `delta` is right for
//! floats, and the other way round is not.

use crate::error::{Error, Result, ResultExt};
use crate::format::datatype::Datatype;
use crate::format::filter_list::{Filter, FilterList, FilterSetting, PixelFormat};
use crate::format::schema::{ArraySchema, Attribute, CellValNum, Dimension};
use crate::write::create::types::show;

/// The most lines of an image, and the most pixels of a line, that WebP has.
const MOST_PIXELS: u64 = 16383;

/// Checks the filters of an attribute.
pub(super) fn check_attribute(attribute: &Attribute, schema: &ArraySchema) -> Result<()> {
    let filters = &attribute.filters;
    check_field(filters, attribute.datatype, attribute.cell_val_num)?;
    check_images(attribute, schema).context("filters", || filters)
}

/// Checks the filters of a field.
fn check_field(filters: &FilterList, datatype: Datatype, count: CellValNum) -> Result<()> {
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
        check_no_images(&dimension.filters)?;
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

/// Checks the filters that several fields share. Offsets and validity must come back unchanged.
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
            _ if makes_images(filters) => check_no_images(filters),
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

fn makes_images(filters: &FilterList) -> bool {
    filters.contains(|filter| matches!(filter, Filter::WebP(_)))
}

/// Fails for images of anything but attributes: libtiledb passes the sizes of images to the filters of attributes only.
fn check_no_images(filters: &FilterList) -> Result<()> {
    match makes_images(filters) {
        false => Ok(()),
        true => Err(Error::invalid(
            "webp makes images of an attribute's values, and isn't a filter of coordinates, offsets or validity",
        )
        .with("filters", filters)),
    }
}

/// Checks that the tiles of an attribute can be images, if webp is among its filters.
fn check_images(attribute: &Attribute, schema: &ArraySchema) -> Result<()> {
    let stages = attribute.filters.stages().enumerate();
    let images = stages.filter_map(|(index, (filter, setting))| match (filter, setting) {
        (Filter::WebP(Some(format)), FilterSetting::Image(image)) => Some((index, *format, *image)),
        _ => None,
    });
    for (index, format, image) in images {
        let name = format.name();
        if !image.lossless {
            return Err(Error::unsupported(format!(
                "filter webp with lossy images, which this release reads and does not write: choose webp({name}, lossless)"
            )));
        }
        if index > 0 {
            return Err(Error::invalid(format!(
                "webp is filter {} of the attribute: expected it to be the first one, because it makes an image of the values",
                index + 1
            )));
        }
        if attribute.cell_val_num != CellValNum::Fixed(1) {
            return Err(Error::invalid(format!(
                "webp is a filter of {}: expected UINT8, one value for each cell",
                show(attribute.datatype, attribute.cell_val_num)
            )));
        }
        check_image_size(format, schema)?;
    }
    Ok(())
}

/// Checks that tiles are as large as images can be.
fn check_image_size(format: PixelFormat, schema: &ArraySchema) -> Result<()> {
    if !schema.is_dense() {
        return Err(Error::invalid(
            "webp needs rectangles of cells, and tiledb.array_type is sparse: expected dense",
        ));
    }
    let [lines, line] = schema.dimensions.as_slice() else {
        return Err(Error::invalid(format!(
            "webp needs two dimensions, the lines of an image and the bytes of a line: found {}",
            schema.dimensions.len()
        )));
    };
    let line_bytes = line.extent_steps().unwrap_or_default();
    let pixel = u64::from(format.bytes());
    if line_bytes.checked_rem(pixel) != Some(0) {
        return Err(Error::invalid(format!(
            "tiledb.dim.{}.tile is {line_bytes}: expected a multiple of {pixel}, the bytes of a pixel of webp({})",
            line.name,
            format.name()
        )));
    }
    for (dimension, unit, what) in [(lines, 1, "lines"), (line, pixel, "bytes")] {
        let extent = dimension.extent_steps().unwrap_or_default();
        let most = MOST_PIXELS * unit;
        if extent > most {
            return Err(Error::invalid(format!(
                "tiledb.dim.{}.tile is {extent}: expected {most} {what} at most, because an image of webp has no more than {MOST_PIXELS} by {MOST_PIXELS} pixels",
                dimension.name
            )));
        }
    }
    Ok(())
}

/// Fails for a filter that can only be read.
fn check_known(filters: &FilterList) -> Result<()> {
    let settings = filters.settings.iter();
    let unusual = settings
        .filter(|s| matches!(s, FilterSetting::Stored { .. }))
        .count();
    let unknown = filters.contains(|filter| {
        matches!(
            filter,
            Filter::Unknown(_) | Filter::WebP(None) | Filter::Bitsort | Filter::Aes256Gcm
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
        Filter::WebP(_) if input != Datatype::UInt8 => return refused("UINT8"),
        Filter::WebP(_) => Datatype::Blob,
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

    #[test]
    fn images_are_made_of_bytes() {
        let check = |datatype, text: &str| {
            check_field(
                &FilterList::parse(text).unwrap(),
                datatype,
                CellValNum::Fixed(1),
            )
        };
        check(Datatype::UInt8, "webp(rgb, lossless), positive_delta, zstd").unwrap();
        for (datatype, text, found) in [
            (Datatype::Int8, "webp(rgb, lossless)", "INT8"),
            (
                Datatype::UInt8,
                "webp(rgb, lossless), webp(rgb, lossless)",
                "BLOB",
            ),
        ] {
            let error = check(datatype, text).unwrap_err();
            let expected = format!("filter webp does not take {found}: expected UINT8");
            assert!(error.message().contains(&expected), "{text}: {error}");
        }
    }
}
