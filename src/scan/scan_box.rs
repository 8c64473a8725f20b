//! The box around the cells that a scan selects, with or without cells in it.

use tiledb_engine::Result;
use tiledb_engine::format::domain_range::DomainRange;
use tiledb_engine::format::schema::Dimension;
use tiledb_engine::geometry::key;
use tiledb_engine::geometry::subarray::DimRanges;

use crate::scan::source::TileDbSource;

/// No text has such a byte.
const ABOVE_TEXT: [u8; 16] = [0xff; 16];

/// For each dimension, the range that contains all rows of a scan; `None` if the ranges aren't known.
pub(crate) fn scan_box(source: &TileDbSource) -> Option<Vec<DomainRange>> {
    let spec = &source.plan().spec;
    let dimensions = spec
        .table
        .snapshot
        .schema
        .dimensions
        .iter()
        .zip(spec.subarray.dims());
    let ranges = dimensions.map(|(dimension, ranges)| around(dimension, ranges).ok()?);
    ranges.collect()
}

fn around(dimension: &Dimension, ranges: &DimRanges) -> Result<Option<DomainRange>> {
    let datatype = dimension.datatype;
    if !key::has_key(datatype) {
        let ranges = ranges.bytes_ranges();
        let ends = ranges.first().zip(ranges.last());
        return Ok(ends.map(|(first, last)| DomainRange {
            lo: first.start.clone(),
            hi: last.end.clone().unwrap_or_else(|| ABOVE_TEXT.to_vec()),
        }));
    }
    let (mut lo, mut hi) = (key::min_key(datatype), key::max_key(datatype));
    if let Some((first, last)) = &dimension.domain {
        (lo, hi) = (key::key(datatype, first)?, key::key(datatype, last)?);
    }
    let touched = ranges.overlapping_keys(lo, hi);
    let ends = touched.first().zip(touched.last());
    Ok(ends.map(|(first, last)| DomainRange {
        lo: key::from_key(datatype, first.lo.max(lo)),
        hi: key::from_key(datatype, last.hi.min(hi)),
    }))
}
