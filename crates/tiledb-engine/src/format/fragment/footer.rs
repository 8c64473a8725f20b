//! The footer of a fragment's metadata (specification: "Fragment Metadata File", Footer).
//!
//! The footer is never filtered or encrypted. It names the schema that determines the layout of the rest, so it is read
//! in two steps. The subtle thing is its start: the file ends with the footer's length, but in versions 3 to 9 only if
//! a dimension has strings; otherwise the length follows from the schema. Some writers leave bytes after the last
//! field, so a stored length may exceed the fields.

use std::ops::{Range, RangeInclusive};

use super::slots::FieldSlots;
use crate::error::{Error, Result};
use crate::format::cursor::Cursor;
use crate::format::domain_range::{DomainRange, high_end};
use crate::format::encoder::Encoder;
use crate::format::names::check_component;
use crate::format::schema::ArraySchema;
use crate::format::version::FormatVersion;

const WHAT: &str = "fragment footer";
/// Size of the footer's length at the end of the file.
const LENGTH_BYTES: u64 = 8;
/// Since this version, the footer's length is always stored.
const FOOTER_LENGTH_SINCE: u32 = 10;
/// The schema of every fragment before version 10.
pub const OLD_SCHEMA_NAME: &str = "__array_schema.tdb";
/// The optional section with the first and last coordinates of each tile in global order.
const GLOBAL_ORDER_BOUNDS: u64 = 0;

/// The footer of a fragment.
#[derive(Debug, Clone, PartialEq)]
pub struct Footer {
    /// The version of the fragment.
    pub version: FormatVersion,
    /// The file in `__schema` that describes the fragment.
    pub schema_name: String,
    /// Whether the fragment is dense.
    pub dense: bool,
    /// The bounding box of the cells (sparse) or the box that was written (dense); `None` if there are no cells.
    pub non_empty_domain: Option<Vec<DomainRange>>,
    /// The number of tiles of a sparse fragment; 0 for a dense one.
    pub sparse_tile_count: u64,
    /// Number of cells in the last tile.
    pub last_tile_cell_count: u64,
    /// Whether each cell has its own write time.
    pub has_timestamps: bool,
    /// Whether each cell has its own delete time.
    pub has_delete_metadata: bool,
    /// Size of each slot's file of fixed-size values or offsets; 0 if there is no file.
    pub file_sizes: Vec<u64>,
    /// Size of each slot's file of variable-sized data; 0 if there is no file.
    pub var_file_sizes: Vec<u64>,
    /// Size of each slot's validity file; 0 if there is no file.
    pub validity_file_sizes: Vec<u64>,
    /// The offsets of the sections.
    pub sections: SectionOffsets,
}

/// The offset of each section in the metadata file; lists have one entry per slot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SectionOffsets {
    /// The R-tree.
    pub rtree: u64,
    /// Offsets of tiles in the file of fixed-size values or offsets.
    pub tile_offsets: Vec<u64>,
    /// Offsets of tiles in the file of variable-sized data.
    pub var_offsets: Vec<u64>,
    /// Unfiltered sizes of tiles of variable-sized data.
    pub var_sizes: Vec<u64>,
    /// Offsets of tiles in the validity file.
    pub validity_offsets: Vec<u64>,
    /// Minima of tiles.
    pub mins: Vec<u64>,
    /// Maxima of tiles.
    pub maxes: Vec<u64>,
    /// Sums of tiles.
    pub sums: Vec<u64>,
    /// Null counts of tiles.
    pub null_counts: Vec<u64>,
    /// Minimum, maximum, sum and null count of the whole fragment; since version 12.
    pub fragment_statistics: Option<u64>,
    /// The delete conditions that the fragment has processed; since version 16.
    pub processed_conditions: Option<u64>,
    /// First and last coordinates of tiles in global order; since version 23.
    pub global_order_bounds: Option<GlobalOrderBounds>,
}

/// The offsets of the bounds of tiles in global order, one entry per dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlobalOrderBounds {
    /// The first coordinate of each tile.
    pub mins: Vec<u64>,
    /// The last coordinate of each tile.
    pub maxes: Vec<u64>,
}

impl Footer {
    /// Reads the version and the name of the schema, which [`Self::decode`] needs.
    pub fn peek_schema_name(footer: &[u8]) -> Result<(FormatVersion, String)> {
        let mut cursor = Cursor::new(footer, WHAT);
        decode_head(&mut cursor)
    }

    /// Reads a footer whose schema is `schema`. Bytes after the last field are ignored.
    pub fn decode(footer: &[u8], schema: &ArraySchema) -> Result<Self> {
        let mut cursor = Cursor::new(footer, WHAT);
        let cursor = &mut cursor;
        let (version, schema_name) = decode_head(cursor)?;
        let dense = cursor.bool("dense")?;
        let non_empty_domain = decode_non_empty_domain(cursor, schema, version)?;
        let sparse_tile_count = cursor.u64("number of sparse tiles")?;
        let last_tile_cell_count = cursor.u64("cells in the last tile")?;
        let has_timestamps = version.since(14) && cursor.bool("has timestamps")?;
        let has_delete_metadata = version.since(15) && cursor.bool("has delete metadata")?;
        let slots = FieldSlots::new(schema, version, has_timestamps, has_delete_metadata);
        let file_sizes = decode_per_slot(cursor, slots.count(), "file sizes")?;
        let var_file_sizes = decode_per_slot(cursor, slots.var_count(), "var file sizes")?;
        let validity_file_sizes =
            decode_per_slot(cursor, slots.validity_count(), "validity file sizes")?;
        let sections = SectionOffsets::decode(cursor, version, &slots, schema.dimensions.len())?;
        let footer = Self {
            version,
            schema_name,
            dense,
            non_empty_domain,
            sparse_tile_count,
            last_tile_cell_count,
            has_timestamps,
            has_delete_metadata,
            file_sizes,
            var_file_sizes,
            validity_file_sizes,
            sections,
        };
        footer.validate(schema)?;
        Ok(footer)
    }

    /// Writes the footer of a fragment of the version [`FormatVersion::WRITTEN`] and of `schema`, without its length.
    pub fn encode(&self, schema: &ArraySchema) -> Vec<u8> {
        let mut to = Encoder::new();
        to.u32(FormatVersion::WRITTEN.get());
        to.bytes_u64(self.schema_name.as_bytes());
        to.bool(self.dense);
        to.bool(self.non_empty_domain.is_none());
        let ranges = self.non_empty_domain.iter().flatten();
        for (range, dimension) in ranges.zip(&schema.dimensions) {
            if dimension.is_var() {
                range.encode_var(&mut to)
            } else {
                range.encode_fixed(&mut to)
            }
        }
        to.u64(self.sparse_tile_count);
        to.u64(self.last_tile_cell_count);
        to.bool(self.has_timestamps);
        to.bool(self.has_delete_metadata);
        for sizes in [
            &self.file_sizes,
            &self.var_file_sizes,
            &self.validity_file_sizes,
        ] {
            sizes.iter().for_each(|size| to.u64(*size));
        }
        self.sections.encode(&mut to);
        to.finish()
    }

    /// The slots of this fragment's fields; `schema` is the one named by the footer.
    pub fn slots(&self, schema: &ArraySchema) -> FieldSlots {
        FieldSlots::new(
            schema,
            self.version,
            self.has_timestamps,
            self.has_delete_metadata,
        )
    }

    /// The number of cells of a sparse fragment, duplicates and deleted cells included.
    pub fn sparse_cell_count(&self, schema: &ArraySchema) -> u64 {
        match self.sparse_tile_count.checked_sub(1) {
            // Decoding has rejected counts that overflow.
            Some(full) => full
                .saturating_mul(schema.capacity)
                .saturating_add(self.last_tile_cell_count),
            None => 0,
        }
    }

    /// Where the sections start.
    pub fn section_starts(&self) -> SectionStarts {
        let mut starts = self.sections.all().collect::<Vec<_>>();
        starts.sort_unstable();
        SectionStarts(starts)
    }

    /// The range of the footer of a fragment of versions 3 to 9 in a file of this size, if its length is not stored.
    ///
    /// `versions` are those that the fragment's name allows; all of them have the same footer length.
    pub fn range_without_length(
        versions: &RangeInclusive<u32>,
        schema: &ArraySchema,
        file_size: u64,
    ) -> Result<Option<Range<u64>>> {
        if *versions.end() >= FOOTER_LENGTH_SINCE {
            return Ok(None);
        }
        let mut domain_bytes = 0_usize;
        for dimension in &schema.dimensions {
            let Some(size) = dimension.cell_size() else {
                return Ok(None);
            };
            domain_bytes = domain_bytes.saturating_add(2 * size);
        }
        let slots = FieldSlots::new(schema, FormatVersion::new(*versions.start())?, false, false);
        // Version, two flags, two counts, the offset of the R-tree; file sizes and section offsets; offsets of variable
        // sizes.
        let numbers =
            2 * (slots.count() + slots.var_count() + slots.validity_count()) + slots.var_count();
        let length =
            (4 + 2 + 3 * size_of::<u64>() + domain_bytes + numbers * size_of::<u64>()) as u64;
        match file_size.checked_sub(length) {
            Some(start) => Ok(Some(start..file_size)),
            None => Err(Error::corrupt(format!(
                "fragment metadata has {file_size} bytes, expected a footer of {length} at the end: it is corrupt or truncated"
            ))),
        }
    }

    /// The range of the footer, given the last bytes of the file; the last eight of them are the footer's length.
    pub fn footer_range(file_tail: &[u8], file_size: u64) -> Result<Range<u64>> {
        let length = file_tail
            .last_chunk::<8>()
            .map(|bytes| u64::from_le_bytes(*bytes))
            .ok_or_else(|| {
                Error::corrupt(format!(
                    "fragment metadata has {file_size} bytes, expected a footer and its length at the end: the file is truncated"
                ))
            })?;
        let end = file_size.checked_sub(LENGTH_BYTES);
        let start = end.and_then(|end| end.checked_sub(length));
        match (start, end) {
            (Some(start), Some(end)) if length > 0 => Ok(start..end),
            _ => Err(Error::corrupt(format!(
                "fragment metadata claims a footer of {length} bytes, but the file has {file_size}: it is corrupt or truncated"
            ))),
        }
    }

    pub(super) fn validate(&self, schema: &ArraySchema) -> Result<()> {
        if self.dense && !schema.is_dense() {
            return Err(Error::corrupt(
                "the fragment footer says dense, but its array schema is sparse",
            ));
        }
        if self.dense && self.sparse_tile_count != 0 {
            return Err(Error::corrupt(format!(
                "the footer of a dense fragment counts {} sparse tiles, expected 0",
                self.sparse_tile_count
            )));
        }
        let last = self.last_tile_cell_count;
        let capacity = schema.capacity;
        if self.sparse_tile_count > 0 && (last == 0 || last > capacity) {
            return Err(Error::corrupt(format!(
                "the fragment footer counts {last} cells in the last tile, expected 1 to the capacity {capacity}"
            )));
        }
        if self.sparse_tile_count.checked_mul(capacity).is_none() {
            return Err(Error::corrupt(format!(
                "the fragment footer counts {} tiles of {capacity} cells, more than any file holds",
                self.sparse_tile_count
            )));
        }
        Ok(())
    }
}

/// The offsets of all sections, in order.
#[derive(Debug)]
pub struct SectionStarts(Vec<u64>);

impl SectionStarts {
    /// The end of the section that starts at `start`: the start of the next section or of the footer.
    ///
    /// There may be bytes after the section's own tile: version 15 writes processed conditions without an offset.
    pub fn end(&self, start: u64, footer_start: u64) -> u64 {
        let next = self.0.partition_point(|offset| *offset <= start);
        let next = self.0.get(next);
        next.map_or(footer_start, |next| footer_start.min(*next))
    }
}

impl SectionOffsets {
    fn decode(
        cursor: &mut Cursor<'_>,
        version: FormatVersion,
        slots: &FieldSlots,
        dimensions: usize,
    ) -> Result<Self> {
        let with_statistics = if version.since(11) { slots.count() } else { 0 };
        let (slots, var_slots, validity_slots) =
            (slots.count(), slots.var_count(), slots.validity_count());
        Ok(Self {
            rtree: cursor.u64("R-tree offset")?,
            tile_offsets: decode_per_slot(cursor, slots, "tile offsets")?,
            var_offsets: decode_per_slot(cursor, var_slots, "var tile offsets")?,
            var_sizes: decode_per_slot(cursor, var_slots, "var tile sizes")?,
            validity_offsets: decode_per_slot(cursor, validity_slots, "validity tile offsets")?,
            mins: decode_per_slot(cursor, with_statistics, "tile mins")?,
            maxes: decode_per_slot(cursor, with_statistics, "tile maxes")?,
            sums: decode_per_slot(cursor, with_statistics, "tile sums")?,
            null_counts: decode_per_slot(cursor, with_statistics, "tile null counts")?,
            fragment_statistics: if version.since(12) {
                Some(cursor.u64("fragment statistics offset")?)
            } else {
                None
            },
            processed_conditions: if version.since(16) {
                Some(cursor.u64("processed conditions offset")?)
            } else {
                None
            },
            global_order_bounds: if version.since(23) {
                decode_optional_sections(cursor, dimensions)?
            } else {
                None
            },
        })
    }

    fn encode(&self, to: &mut Encoder) {
        to.u64(self.rtree);
        for offsets in [
            &self.tile_offsets,
            &self.var_offsets,
            &self.var_sizes,
            &self.validity_offsets,
            &self.mins,
            &self.maxes,
            &self.sums,
            &self.null_counts,
        ] {
            offsets.iter().for_each(|offset| to.u64(*offset));
        }
        to.u64(self.fragment_statistics.unwrap_or_default());
        to.u64(self.processed_conditions.unwrap_or_default());
    }

    /// The offsets of all sections, in no particular order.
    fn all(&self) -> impl Iterator<Item = u64> {
        let bounds = self.global_order_bounds.iter();
        [
            Some(self.rtree),
            self.fragment_statistics,
            self.processed_conditions,
        ]
        .into_iter()
        .flatten()
        .chain(bounds.flat_map(|bounds| bounds.mins.iter().chain(&bounds.maxes).copied()))
        .chain(
            [
                &self.tile_offsets,
                &self.var_offsets,
                &self.var_sizes,
                &self.validity_offsets,
                &self.mins,
                &self.maxes,
                &self.sums,
                &self.null_counts,
            ]
            .into_iter()
            .flatten()
            .copied(),
        )
    }
}

fn decode_head(cursor: &mut Cursor<'_>) -> Result<(FormatVersion, String)> {
    let version = FormatVersion::new(cursor.u32("version")?)?;
    if !version.since(10) {
        return Ok((version, OLD_SCHEMA_NAME.to_owned()));
    }
    let schema_name = cursor.string_u64("schema name")?;
    check_component(&schema_name, "the schema a fragment names")?;
    Ok((version, schema_name))
}

fn decode_non_empty_domain(
    cursor: &mut Cursor<'_>,
    schema: &ArraySchema,
    version: FormatVersion,
) -> Result<Option<Vec<DomainRange>>> {
    // The reference reader expects no ranges after this flag, although the specification has them.
    if cursor.bool("null non-empty domain")? {
        return Ok(None);
    }
    decode_ranges(cursor, schema, version).map(Some)
}

/// Reads one range per dimension. Invalid ranges are accepted here; whoever uses a range must check it.
pub(super) fn decode_ranges(
    cursor: &mut Cursor<'_>,
    schema: &ArraySchema,
    version: FormatVersion,
) -> Result<Vec<DomainRange>> {
    let mut ranges = Vec::with_capacity(schema.dimensions.len());
    for dimension in &schema.dimensions {
        let range = match dimension.cell_size() {
            Some(size) => DomainRange::decode_fixed(cursor, size)?,
            None => {
                let DomainRange { lo, hi } = DomainRange::decode_var(cursor)?;
                let hi = high_end(version, &lo, &hi).to_vec();
                DomainRange { lo, hi }
            }
        };
        ranges.push(range);
    }
    Ok(ranges)
}

/// Reads one number per slot.
pub(super) fn decode_per_slot(
    cursor: &mut Cursor<'_>,
    slots: usize,
    field: &'static str,
) -> Result<Vec<u64>> {
    let bytes = cursor.bytes(slots.saturating_mul(size_of::<u64>()), field)?;
    let (values, _) = bytes.as_chunks::<8>();
    Ok(values.iter().map(|v| u64::from_le_bytes(*v)).collect())
}

/// Reads the sections that this crate knows and skips the others.
fn decode_optional_sections(
    cursor: &mut Cursor<'_>,
    dimensions: usize,
) -> Result<Option<GlobalOrderBounds>> {
    // A section takes at least its id and its size.
    let count = cursor.count_u32(12, "number of optional sections")?;
    let mut bounds = None;
    for _ in 0..count {
        let id = cursor.u64("optional section id")?;
        let size = cursor.u32("optional section bytes")?;
        let data = cursor.bytes_u64(u64::from(size), "optional section")?;
        if id == GLOBAL_ORDER_BOUNDS {
            let mut data = Cursor::new(data, "global order bounds");
            bounds = Some(GlobalOrderBounds {
                mins: decode_per_slot(&mut data, dimensions, "mins")?,
                maxes: decode_per_slot(&mut data, dimensions, "maxes")?,
            });
        }
    }
    Ok(bounds)
}
