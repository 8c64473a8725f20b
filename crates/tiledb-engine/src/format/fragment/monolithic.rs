//! Fragment metadata of versions 1 and 2: one generic tile with all sections (specification: "Fragment Metadata File",
//! history).
//!
//! `u32 version, u64 domain bytes, domain, rectangles, bounding coordinates`, the offsets and sizes of all tiles slot
//! by slot, `u64 cells in the last tile`, the sizes of the files. The subtle thing: the metadata do not say whether the
//! fragment is dense; it is if its folder has no file of coordinates.

use std::sync::Arc;

use super::data_files::coords_file;
use super::footer::{Footer, OLD_SCHEMA_NAME, SectionOffsets, decode_per_slot, decode_ranges};
use super::rtree::Mbrs;
use super::slots::FieldSlots;
use crate::error::{Error, Result};
use crate::format::cursor::Cursor;
use crate::format::schema::ArraySchema;
use crate::format::version::FormatVersion;

/// The last version whose metadata is one tile.
pub const LAST_MONOLITHIC: u32 = 2;

/// All metadata of a fragment of version 1 or 2.
#[derive(Debug, Clone, PartialEq)]
pub struct MonolithicMetadata {
    /// The contents of a footer of later versions; it has no sections.
    pub footer: Arc<Footer>,
    /// The rectangle of every tile; empty if the fragment is dense.
    pub mbrs: Arc<Mbrs>,
    /// The offset of each tile in the file of fixed-size values or offsets, by slot.
    pub tile_offsets: Vec<Arc<Vec<u64>>>,
    /// The offset of each tile in the file of variable-sized data, by slot.
    pub var_offsets: Vec<Arc<Vec<u64>>>,
    /// The unfiltered size of each tile of variable-sized data, by slot.
    pub var_sizes: Vec<Arc<Vec<u64>>>,
}

impl MonolithicMetadata {
    /// Reads the metadata of a fragment of `schema`; `dense` means that it has no file of coordinates.
    pub fn decode(tile: &[u8], schema: &ArraySchema, dense: bool) -> Result<Self> {
        let mut cursor = Cursor::new(tile, "fragment metadata");
        let cursor = &mut cursor;
        let version = FormatVersion::new(cursor.u32("version")?)?;
        if version.since(LAST_MONOLITHIC + 1) {
            return Err(cursor.invalid("version", version, "1 or 2, as the fragment's name says"));
        }
        let slots = FieldSlots::new(schema, version, false, false);
        let domain_bytes = cursor.u64("domain bytes")?;
        let domain = cursor.bytes_u64(domain_bytes, "non-empty domain")?;
        let non_empty_domain = if domain.is_empty() {
            None
        } else {
            let mut domain = Cursor::new(domain, "non-empty domain");
            Some(decode_ranges(&mut domain, schema, version)?)
        };
        let mbrs = Mbrs::decode_leaves(cursor, schema, version)?;
        skip_bounding_coordinates(cursor, schema)?;
        let tile_offsets = decode_lists(cursor, slots.count(), "tile offsets")?;
        let var_offsets = decode_lists(cursor, slots.var_count(), "var tile offsets")?;
        let var_sizes = decode_lists(cursor, slots.var_count(), "var tile sizes")?;
        let last_tile_cell_count = cursor.u64("cells in the last tile")?;
        let file_sizes = decode_per_slot(cursor, slots.count(), "file sizes")?;
        let var_file_sizes = decode_per_slot(cursor, slots.var_count(), "var file sizes")?;
        if dense && !mbrs.is_empty() {
            return Err(Error::corrupt(format!(
                "the metadata has {} rectangles, as of a sparse fragment, but there is no file {}",
                mbrs.len(),
                coords_file()
            )));
        }
        let footer = Footer {
            version,
            schema_name: OLD_SCHEMA_NAME.to_owned(),
            dense,
            non_empty_domain,
            sparse_tile_count: mbrs.len() as u64,
            last_tile_cell_count,
            has_timestamps: false,
            has_delete_metadata: false,
            file_sizes,
            var_file_sizes,
            validity_file_sizes: Vec::new(),
            sections: SectionOffsets::default(),
        };
        footer.validate(schema)?;
        Ok(Self {
            footer: Arc::new(footer),
            mbrs: Arc::new(mbrs),
            tile_offsets,
            var_offsets,
            var_sizes,
        })
    }

    /// Size in memory, for caches.
    pub fn memory_bytes(&self) -> usize {
        let lists = [&self.tile_offsets, &self.var_offsets, &self.var_sizes];
        let numbers: usize = lists.into_iter().flatten().map(|list| list.len()).sum();
        self.mbrs
            .memory_bytes()
            .saturating_add(numbers.saturating_mul(size_of::<u64>()))
    }
}

/// Skips the first and last cell of each tile, which add nothing to the rectangles.
fn skip_bounding_coordinates(cursor: &mut Cursor<'_>, schema: &ArraySchema) -> Result<()> {
    let cell_bytes = schema.dimensions.iter().filter_map(|d| d.cell_size());
    let pair_bytes = cell_bytes.sum::<usize>().saturating_mul(2);
    let count = cursor.count_u64(pair_bytes, "number of bounding coordinates")?;
    cursor.bytes(count.saturating_mul(pair_bytes), "bounding coordinates")?;
    Ok(())
}

/// Reads one list of numbers per slot, each with its length.
fn decode_lists(
    cursor: &mut Cursor<'_>,
    slots: usize,
    field: &'static str,
) -> Result<Vec<Arc<Vec<u64>>>> {
    let mut lists = Vec::new();
    for _ in 0..slots {
        let count = cursor.count_u64(size_of::<u64>(), field)?;
        lists.push(Arc::new(decode_per_slot(cursor, count, field)?));
    }
    Ok(lists)
}
