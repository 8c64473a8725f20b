//! The metadata file of a fragment (specification: "Fragment Metadata File"): one generic tile for each section, then the
//! footer, which holds the places of the sections, and then the footer's length.

use std::sync::Arc;

use super::fields::WrittenFields;
use super::statistics::{WrittenStatisticsKind, WrittenTileStatistics};
use crate::error::Result;
use crate::filter::{EncryptionKey, generic_tile};
use crate::format::delete_condition::encode_processed_conditions;
use crate::format::domain_range::DomainRange;
use crate::format::fragment::footer::{Footer, SectionOffsets};
use crate::format::fragment::offsets::encode_u64s;
use crate::format::fragment::rtree::Mbrs;
use crate::format::fragment::statistics::{FragmentStatistics, SlotStatistics, TileMinMax};
use crate::format::version::FormatVersion;

/// The metadata of one field.
#[derive(Debug, Default)]
pub(super) struct FieldSections {
    /// Where tiles start in the file of values or offsets.
    pub offsets: Vec<u64>,
    /// Where tiles start in the file of variable-sized data.
    pub var_offsets: Vec<u64>,
    /// Unfiltered bytes of tiles of variable-sized data.
    pub var_sizes: Vec<u64>,
    /// Where tiles start in the validity file.
    pub validity_offsets: Vec<u64>,
    /// The statistics of each tile.
    pub statistics: Vec<WrittenTileStatistics>,
    /// Sizes of the files of values, variable-sized data and validity.
    pub file_bytes: [u64; 3],
}

/// The part of the footer that describes the whole fragment.
#[derive(Debug)]
pub(super) struct FragmentSummary {
    /// The non-empty domain.
    pub domain: Vec<DomainRange>,
    /// The number of tiles of a sparse fragment; 0 for a dense one.
    pub sparse_tiles: u64,
    /// Cells in the last tile.
    pub last_tile_cells: u64,
}

/// Appends sections and returns where they start.
struct WrittenSections {
    bytes: Vec<u8>,
    key: Option<Arc<EncryptionKey>>,
}

impl WrittenSections {
    fn append(&mut self, section: &[u8]) -> Result<u64> {
        let start = self.bytes.len() as u64;
        let tile = generic_tile::encode_with(section, self.key.as_ref())?;
        self.bytes.extend(tile);
        Ok(start)
    }

    /// Appends a section for each slot; `None` is a slot without a field, whose section is empty.
    fn append_each(
        &mut self,
        of_slots: &[Option<(&FieldSections, WrittenStatisticsKind)>],
        section: impl Fn(Option<(&FieldSections, WrittenStatisticsKind)>) -> Vec<u8>,
    ) -> Result<Vec<u64>> {
        let slots = of_slots.iter();
        slots.map(|slot| self.append(&section(*slot))).collect()
    }
}

/// The bytes of the file, and its footer.
pub(super) fn encode(
    fields: &WrittenFields,
    sections: &[FieldSections],
    mbrs: &Mbrs,
    summary: FragmentSummary,
    key: Option<Arc<EncryptionKey>>,
) -> Result<(Vec<u8>, Footer)> {
    let mut of_slots = vec![None; fields.slots.count()];
    for (field, of_field) in fields.fields.iter().zip(sections) {
        if let Some(slot) = of_slots.get_mut(field.slot) {
            *slot = Some((of_field, field.statistics));
        }
    }
    let of_slots = of_slots.as_slice();
    let mut file = WrittenSections {
        bytes: Vec::new(),
        key,
    };
    let list = |list: fn(&FieldSections) -> &Vec<u64>| {
        move |slot: Option<(&FieldSections, WrittenStatisticsKind)>| {
            encode_u64s(slot.map_or(&[], |(sections, _)| list(sections)))
        }
    };
    let rtree = if fields.dense {
        Mbrs::default().encode(&fields.schema)?
    } else {
        mbrs.encode(&fields.schema)?
    };
    let recorded = &fields.recorded;
    let processed = encode_processed_conditions(recorded.deletes.as_deref().unwrap_or_default());
    let offsets = SectionOffsets {
        rtree: file.append(&rtree)?,
        tile_offsets: file.append_each(of_slots, list(|field| &field.offsets))?,
        var_offsets: file.append_each(of_slots, list(|field| &field.var_offsets))?,
        var_sizes: file.append_each(of_slots, list(|field| &field.var_sizes))?,
        validity_offsets: file.append_each(of_slots, list(|field| &field.validity_offsets))?,
        mins: file.append_each(of_slots, |slot| bounds(slot, |tile| &tile.min))?,
        maxes: file.append_each(of_slots, |slot| bounds(slot, |tile| &tile.max))?,
        sums: file.append_each(of_slots, sums)?,
        null_counts: file.append_each(of_slots, null_counts)?,
        fragment_statistics: Some(file.append(&fragment_statistics(of_slots).encode())?),
        processed_conditions: Some(file.append(&processed)?),
        global_order_bounds: None,
    };
    let file_sizes = |part: usize| {
        let sizes = of_slots.iter().map(|slot| {
            let bytes = slot
                .as_ref()
                .and_then(|(field, _)| field.file_bytes.get(part));
            bytes.copied().unwrap_or(0)
        });
        sizes.collect()
    };
    let footer = Footer {
        version: FormatVersion::WRITTEN,
        schema_name: fields.schema_name.clone(),
        dense: fields.dense,
        non_empty_domain: Some(summary.domain),
        sparse_tile_count: summary.sparse_tiles,
        last_tile_cell_count: summary.last_tile_cells,
        has_timestamps: recorded.times,
        has_delete_metadata: recorded.deletes.is_some(),
        file_sizes: file_sizes(0),
        var_file_sizes: file_sizes(1),
        validity_file_sizes: file_sizes(2),
        sections: offsets,
    };
    let mut bytes = file.bytes;
    let encoded = footer.encode(&fields.schema);
    bytes.extend(&encoded);
    bytes.extend((encoded.len() as u64).to_le_bytes());
    Ok((bytes, footer))
}

/// Minima or maxima of all tiles; those of variable-sized fields are preceded by where each starts.
fn bounds(
    slot: Option<(&FieldSections, WrittenStatisticsKind)>,
    bound: fn(&WrittenTileStatistics) -> &Vec<u8>,
) -> Vec<u8> {
    let mut section = TileMinMax::default();
    let with_bounds = slot.filter(|(_, kind)| kind.has_min_max());
    if let Some((sections, kind)) = with_bounds {
        for tile in &sections.statistics {
            if kind.is_var() {
                let start = section.var.len() as u64;
                section.fixed.extend(start.to_le_bytes());
                section.var.extend(bound(tile));
            } else {
                section.fixed.extend(bound(tile));
            }
        }
    }
    section.encode()
}

fn sums(slot: Option<(&FieldSections, WrittenStatisticsKind)>) -> Vec<u8> {
    let with_sums = slot.filter(|(_, kind)| kind.has_sum());
    let tiles = with_sums.map_or(&[][..], |(sections, _)| &sections.statistics);
    let sums = tiles.iter().map(|tile| u64::from_le_bytes(tile.sum));
    encode_u64s(&sums.collect::<Vec<_>>())
}

fn null_counts(slot: Option<(&FieldSections, WrittenStatisticsKind)>) -> Vec<u8> {
    let nullable = slot.filter(|(_, kind)| kind.has_null_count());
    let tiles = nullable.map_or(&[][..], |(sections, _)| &sections.statistics);
    let counts = tiles.iter().map(|tile| tile.null_count);
    encode_u64s(&counts.collect::<Vec<_>>())
}

fn fragment_statistics(
    of_slots: &[Option<(&FieldSections, WrittenStatisticsKind)>],
) -> FragmentStatistics {
    let slots = of_slots.iter().map(|slot| match slot {
        Some((sections, kind)) => kind.of_tiles(&sections.statistics),
        None => SlotStatistics::default(),
    });
    FragmentStatistics {
        slots: slots.collect(),
    }
}
