//! The footer, against the schema it names and against the fragment's name. What keeps it from being decoded was told
//! before.

use crate::array::fragment::Fragment;
use crate::geometry::tile_grid::TileGrid;
use crate::maintain::check::report::Reporter;
use crate::maintain::check::rule::Rule;

/// Checks the counts and flags.
pub fn check(fragment: &Fragment, report: &Reporter) {
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
