//! The metadata of a fragment: footer, files, sections. No cell is read.

mod domain;
mod fields;
mod files;
mod lists;

use std::sync::Arc;

pub use self::domain::{ShownRange, compared_oddly};
pub use self::fields::{CheckedField, FieldKind, StoredFieldStatistics};
use self::files::CheckedSections;
use self::lists::FieldLists;
use crate::array::fragment::Fragment;
use crate::error::Result;
use crate::format::commit::path_name;
use crate::format::delete_condition::decode_processed_conditions;
use crate::format::fragment::rtree::Mbrs;
use crate::format::fragment::statistics::FragmentStatistics;
use crate::format::names::TimestampedName;
use crate::geometry::tile_grid::TileGrid;
use crate::maintain::check::report::FindingReporter;
use crate::maintain::check::rule::Rule;
use crate::storage::Storage;

/// A fragment whose metadata are sound enough to check its cells.
#[derive(Debug)]
pub struct SoundFragment {
    pub fragment: Arc<Fragment>,
    pub tiles: u64,
    /// The fields whose tiles can be found.
    pub fields: Vec<(CheckedField, StoredFieldStatistics)>,
    /// The rectangles of a sparse fragment, if they decode.
    pub mbrs: Option<Mbrs>,
    /// The statistics of the fragment, by slot.
    pub statistics: Option<FragmentStatistics>,
    /// The delete conditions it has processed; `None` if they are not known.
    pub processed: Option<Vec<String>>,
}

impl SoundFragment {
    /// Size in memory.
    pub fn memory_bytes(&self) -> usize {
        let fields = self
            .fields
            .iter()
            .map(|(_, statistics)| statistics.memory_bytes());
        let mbrs = self.mbrs.as_ref().map_or(0, Mbrs::memory_bytes);
        fields.fold(mbrs, usize::saturating_add)
    }
}

/// Checks the metadata of a fragment; `None` if they are too damaged to check its cells.
pub async fn check(
    storage: &Storage,
    fragment: Arc<Fragment>,
    report: &FindingReporter,
) -> Result<Option<SoundFragment>> {
    report.progress.add_fragment();
    let listing = storage.list(&fragment.folder).await?;
    let fields = fields::of(&fragment);
    let files_fit = files::check(&fragment, &fields, &listing, report);
    footer(&fragment, report);
    let tiles = match fragment.tile_count() {
        Ok(tiles) => tiles,
        Err(e) => {
            let expected = "as many tiles as the files have room for";
            report.tell(
                Rule::TileCount,
                fragment.metadata_path(),
                e.message(),
                expected,
            );
            return Ok(None);
        }
    };
    let sections = CheckedSections::open(storage, &fragment, &listing, report).await?;
    let Some(sections) = sections else {
        return Ok(None);
    };
    let mbrs = domain::check_tree(&sections, tiles).await?;
    domain::check(&fragment, mbrs.as_ref(), report);
    let mut located = Vec::with_capacity(fields.len());
    for field in fields.into_iter().filter(|field| !field.unknown) {
        let Some(lists) = FieldLists::read(&sections, &field).await? else {
            continue;
        };
        if let Some(statistics) = lists.check(&sections, &field, tiles) {
            located.push((field, statistics));
        }
    }
    let statistics = fragment_statistics(&sections).await?;
    if let Some(statistics) = &statistics {
        for (field, _) in &located {
            lists::check_fragment_sizes(&sections, field, statistics);
        }
    }
    let processed = processed_conditions(&sections).await?;
    // Tiles of truncated files are reported once, with the file.
    Ok(files_fit.then_some(SoundFragment {
        fragment,
        tiles,
        fields: located,
        mbrs,
        statistics,
        processed,
    }))
}

/// Checks the counts and flags of the footer against the schema it names.
fn footer(fragment: &Fragment, report: &FindingReporter) {
    let (footer, schema) = (&fragment.footer, &fragment.schema);
    let path = fragment.metadata_path();
    if footer.dense {
        if footer.has_timestamps || footer.has_delete_metadata {
            let found = "the footer of a dense fragment says that cells have times of their own";
            report.tell(
                Rule::FragmentKind,
                &path,
                found,
                "neither times nor deletes",
            );
        }
        let grid = TileGrid::new(schema).map(|grid| grid.cells_per_tile());
        if let Ok(cells) = grid
            && cells != footer.last_tile_cell_count
        {
            let found = format!(
                "the footer says {} cells per tile",
                footer.last_tile_cell_count
            );
            let expected = format!("{cells}, the product of the extents");
            report.tell(Rule::TileCount, &path, found, expected);
        }
    }
    if schema.is_dense() && footer.has_delete_metadata {
        let found = "the fragment records deletes";
        report.tell(
            Rule::FragmentKind,
            &path,
            found,
            "none, as the array is dense",
        );
    }
    if footer.non_empty_domain.is_none() {
        let found = "the footer says that there are no cells";
        report.tell(
            Rule::NonEmptyDomain,
            &path,
            found,
            "the box around the cells",
        );
    }
}

async fn fragment_statistics(sections: &CheckedSections<'_>) -> Result<Option<FragmentStatistics>> {
    const WHAT: &str = "fragment statistics";
    let footer = &sections.fragment.footer;
    let Some(start) = footer.sections.fragment_statistics else {
        return Ok(None);
    };
    let slots = footer.file_sizes.len();
    let decode = |tile: &[u8]| FragmentStatistics::decode(tile, slots);
    sections.decoded(start, WHAT, decode).await
}

async fn processed_conditions(sections: &CheckedSections<'_>) -> Result<Option<Vec<String>>> {
    const WHAT: &str = "processed conditions";
    let Some(start) = sections.fragment.footer.sections.processed_conditions else {
        return Ok(None);
    };
    let decode = decode_processed_conditions;
    let conditions = sections.decoded(start, WHAT, decode).await?;
    let named = |path: &&String| TimestampedName::parse(path_name(path)).is_err();
    if let Some(odd) = conditions.iter().flatten().find(named) {
        sections.unreadable(WHAT, &format!("\"{odd}\" isn't a name of a delete"));
    }
    Ok(conditions)
}
