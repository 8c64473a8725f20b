//! Planning a sparse scan: the tiles whose MBRs touch the subarray, split into disjoint and overlapping ones.

use std::sync::Arc;

use futures::future::try_join_all;

use super::boxes::TileBounds;
use super::overlap::{OverlappingTile, OverlappingUnit, TileOverlaps};
use super::pruning::TilePruning;
use super::sparse_units::{CellVersions, SparseUnit, TileRef, group_disjoint, unit_cells};
use super::unfit::unfit;
use super::versions::{TileNeighbourhood, copies_within};
use super::{PlanCounts, PlanUnits, ScanPlan, needed_columns};
use crate::array::fragment::boxes::{TileBoxes, TileRange};
use crate::array::fragment::{Fragment, TileIdx};
use crate::array::window::WindowVisibility;
use crate::error::{Result, ResultExt};
use crate::format::schema::{ArraySchema, Layout};
use crate::geometry::key;
use crate::geometry::subarray::Subarray;
use crate::scan::spec::ScanSpec;
use crate::storage::Storage;
use crate::tile::deletes::{self, DeleteTrees, FragmentDeletes};
use crate::tile::fields::FragmentScan;

/// Plans a scan of a sparse array.
pub(super) async fn plan(spec: ScanSpec) -> Result<ScanPlan> {
    let mut state = SparsePlan {
        spec,
        counts: PlanCounts::default(),
    };
    state.plan().await
}

/// Plans the reading of units of these fragments, which another plan has made.
pub(super) async fn plan_share(
    spec: ScanSpec,
    fragments: Vec<Arc<Fragment>>,
    units: Vec<Arc<SparseUnit>>,
) -> Result<ScanPlan> {
    let mut state = SparsePlan {
        spec,
        counts: PlanCounts::default(),
    };
    let pruning = TilePruning::new(&state.spec);
    let resolves = units.iter().any(|unit| unit.versions != CellVersions::None);
    let reads = |d: usize| pruning.reads_dimension(d);
    let boxes = state.boxes(&fragments, resolves, &reads).await?;
    check_units(&state.spec, &fragments, &boxes, &units)?;
    let mut candidates = boxes
        .into_iter()
        .map(|boxes| SparseCandidates {
            boxes: Arc::new(boxes),
            tiles: Vec::new(),
        })
        .collect::<Vec<_>>();
    let deletes = state.deletes(&fragments, &mut candidates)?;
    let boxes = candidates.into_iter().map(|c| c.boxes).collect();
    let fragments = fragments.into_iter().zip(deletes).collect();
    let cells = units.iter().flat_map(|unit| &unit.tiles);
    let cells = cells.fold(0_u64, |sum, tile| sum.saturating_add(tile.cells as u64));
    state.planned(fragments, boxes, units, (None, cells), pruning)
}

/// Fails unless the tiles of units exist, and have as many cells as the units say.
fn check_units(
    spec: &ScanSpec,
    fragments: &[Arc<Fragment>],
    boxes: &[TileBoxes],
    units: &[Arc<SparseUnit>],
) -> Result<()> {
    for tile in units.iter().flat_map(|unit| unit.all_tiles()) {
        let known = fragments
            .get(tile.fragment)
            .zip(boxes.get(tile.fragment))
            .filter(|(_, boxes)| tile.tile.get() < boxes.len());
        let (fragment, _) = known.ok_or_else(|| unfit("it names a tile that there isn't"))?;
        if fragment.sparse_tile_cells(tile.tile)? != tile.cells {
            return Err(unfit("a tile has another number of cells"));
        }
    }
    for unit in units {
        let cells = unit.tiles.first().map_or(0, |tile| tile.cells);
        let within = unit.within.as_ref();
        let lies_within =
            within.is_none_or(|w| unit.tiles.len() == 1 && w.start <= w.end && w.end <= cells);
        let dimensions = spec.subarray.ndim();
        let clips = unit.clip.as_ref().is_none_or(|c| c.ndim() == dimensions);
        if !lies_within || !clips {
            return Err(unfit("a unit has cells beyond its tiles"));
        }
    }
    Ok(())
}

/// The state of planning.
struct SparsePlan {
    spec: ScanSpec,
    counts: PlanCounts,
}

/// The tiles of one fragment that the subarray touches.
struct SparseCandidates {
    boxes: Arc<TileBoxes>,
    tiles: Vec<TileRef>,
}

impl SparsePlan {
    async fn plan(&mut self) -> Result<ScanPlan> {
        let table = Arc::clone(&self.spec.table);
        let snapshot = &table.snapshot;
        self.counts.fragments = snapshot.fragments.len() as u64;
        let touched = snapshot
            .fragments
            .iter()
            .filter(|f| f.footer.sparse_tile_count > 0 && f.touches(&self.spec.subarray))
            .cloned()
            .collect::<Vec<_>>();
        self.counts.fragments_pruned = self.counts.fragments - touched.len() as u64;
        let mut pruning = TilePruning::new(&self.spec);
        let resolves = self.spec.hides_older_versions()
            && (touched.len() > 1 || touched.iter().any(|f| f.footer.has_timestamps));
        let reads = |d: usize| pruning.reads_dimension(d);
        let boxes = self.boxes(&touched, resolves, &reads).await?;
        let mut left = Vec::with_capacity(touched.len());
        for (fragment, boxes) in touched.into_iter().zip(boxes) {
            let tiles = self.candidate_tiles(&fragment, &boxes)?;
            left.push((fragment, Arc::new(boxes), tiles));
        }
        pruning.by_coordinates(&mut left, &mut self.counts)?;
        if resolves {
            pruning.oldest(&mut left, &mut self.counts)?;
        }
        left.retain(|(_, _, tiles)| !tiles.is_empty());
        let mut fragments = Vec::with_capacity(left.len());
        let mut candidates = Vec::with_capacity(left.len());
        for (number, (fragment, boxes, mut tiles)) in left.into_iter().enumerate() {
            tiles.iter_mut().for_each(|tile| tile.fragment = number);
            candidates.push(SparseCandidates { boxes, tiles });
            fragments.push(fragment);
        }
        let deletes = self.deletes(&fragments, &mut candidates)?;
        let units = self.units(&fragments, &candidates, &mut pruning).await?;
        let proven = pruning.all_proven(&self.spec, &units);
        let rows = self.row_bounds(&fragments, &candidates, &units, proven);
        let boxes = candidates.into_iter().map(|c| c.boxes).collect();
        let fragments = fragments.into_iter().zip(deletes).collect();
        let units = units.into_iter().map(Arc::new).collect();
        self.planned(fragments, boxes, units, rows, pruning)
    }

    /// The plan of units of these fragments.
    fn planned(
        &self,
        fragments: Vec<(Arc<Fragment>, FragmentDeletes)>,
        boxes: Vec<Arc<TileBoxes>>,
        units: Vec<Arc<SparseUnit>>,
        (exact_rows, max_rows): (Option<u128>, u64),
        pruning: TilePruning,
    ) -> Result<ScanPlan> {
        let table = &self.spec.table;
        let schema = &table.snapshot.schema;
        let compares = units.iter().any(|u| u.versions != CellVersions::None);
        let tested = |column: usize| {
            let is_dimension = column < schema.dimensions.len();
            is_dimension && (compares || !self.spec.subarray.dim(column).is_all())
        };
        let needed = needed_columns(&self.spec, tested);
        let partly_visible = |f: &Fragment| f.visibility == WindowVisibility::ByCell;
        let needs_timestamps = compares || fragments.iter().any(|(f, _)| partly_visible(f));
        let fragments = fragments
            .into_iter()
            .zip(&boxes)
            .map(|((fragment, deletes), boxes)| {
                FragmentScan::new(table, fragment, &needed, needs_timestamps)?
                    .with_boxes(Arc::clone(boxes))
                    .with_deletes(table, deletes)
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(ScanPlan {
            spec: self.spec.clone(),
            fragments: Arc::new(fragments),
            boxes,
            statistics_cache: Arc::new(pruning.statistics_cache),
            prunes_late: pruning.prunes_late,
            units: PlanUnits::Sparse(units),
            counts: self.counts,
            exact_rows,
            max_rows,
        })
    }

    /// The boxes of the tiles of fragments, as far as a plan of them needs.
    async fn boxes(
        &self,
        fragments: &[Arc<Fragment>],
        resolves: bool,
        pruned_by: &(dyn Fn(usize) -> bool + Sync),
    ) -> Result<Vec<TileBoxes>> {
        let storage = &self.spec.table.snapshot.storage;
        let known = KnownOf {
            subarray: &self.spec.subarray,
            pruned_by,
            resolves,
        };
        try_join_all(fragments.iter().map(|f| known.boxes(f, storage))).await
    }

    /// Finds the delete conditions that apply to each fragment, and the tiles in which none of them can match a cell.
    fn deletes(
        &mut self,
        fragments: &[Arc<Fragment>],
        candidates: &mut [SparseCandidates],
    ) -> Result<Vec<FragmentDeletes>> {
        let snapshot = &self.spec.table.snapshot;
        let pending = fragments
            .iter()
            .map(|f| snapshot.deletes.of(f))
            .collect::<Vec<_>>();
        self.counts.deletes = deletes::distinct(pending.iter().flatten());
        let mut all = Vec::with_capacity(fragments.len());
        let mut trees = DeleteTrees::default();
        for ((fragment, pending), candidates) in fragments.iter().zip(&pending).zip(candidates) {
            let deletes = FragmentDeletes::new(&snapshot.schema, fragment, pending, &mut trees)
                .context("fragment", || &fragment.name.name)?;
            let boxes = &candidates.boxes;
            for tile in &mut candidates.tiles {
                let range = |d| stored_range(&fragment.schema, boxes, tile.tile, d);
                tile.no_deletes = deletes.match_none(range);
            }
            all.push(deletes);
        }
        Ok(all)
    }

    /// The tiles of a fragment whose boxes the subarray touches.
    fn candidate_tiles(&mut self, fragment: &Fragment, boxes: &TileBoxes) -> Result<Vec<TileRef>> {
        let mut tiles = Vec::new();
        for tile in 0..boxes.len() {
            let idx = TileIdx(tile as u64);
            let (touched, covered) = boxes.touches_and_lies_in(tile, &self.spec.subarray);
            if touched {
                let cells = fragment.sparse_tile_cells(idx)?;
                tiles.push(TileRef {
                    fragment: 0,
                    tile: idx,
                    cells,
                    covered,
                    no_deletes: true,
                    proven: false,
                });
            }
        }
        self.counts.tiles += boxes.len() as u64;
        self.counts.tiles_pruned += (boxes.len() - tiles.len()) as u64;
        Ok(tiles)
    }

    /// Splits the tiles into disjoint and overlapping ones, and groups both into units.
    async fn units(
        &mut self,
        fragments: &[Arc<Fragment>],
        candidates: &[SparseCandidates],
        pruning: &mut TilePruning,
    ) -> Result<Vec<SparseUnit>> {
        let table = Arc::clone(&self.spec.table);
        let schema = &table.snapshot.schema;
        let boxes = candidates
            .iter()
            .map(|c| Arc::clone(&c.boxes))
            .collect::<Vec<_>>();
        let hides = self.spec.hides_older_versions();
        let versions = if hides {
            let fragments = fragments.iter().zip(&boxes);
            fragments
                .map(|(f, boxes)| copies_within(f, boxes))
                .collect()
        } else {
            Ok(vec![CellVersions::None; fragments.len()])
        };
        let versions: Vec<CellVersions> = versions?;
        let any_copies = versions.iter().any(|c| *c != CellVersions::None);
        let may_share = hides && (fragments.len() > 1 || any_copies);
        let mut tiles = candidates
            .iter()
            .flat_map(|c| c.tiles.iter().copied())
            .collect::<Vec<_>>();
        if !may_share {
            let counts = &mut self.counts;
            pruning
                .disjoint(fragments, &boxes, &mut tiles, counts)
                .await?;
            return Ok(group_disjoint(&tiles, unit_cells(&tiles)));
        }
        let of_tiles = candidates
            .iter()
            .flat_map(SparseCandidates::of_tiles)
            .collect::<Vec<_>>();
        let bounds = TileBounds::new(schema, &of_tiles);
        let split = TileOverlaps::new(&tiles, &bounds, &versions).split();
        let pick = |i: &usize| tiles.get(*i).copied();
        let mut disjoint = split.disjoint.iter().filter_map(pick).collect::<Vec<_>>();
        self.counts.tiles_overlapping = (tiles.len() - disjoint.len()) as u64;
        let counts = &mut self.counts;
        pruning
            .disjoint(fragments, &boxes, &mut disjoint, counts)
            .await?;
        let unit_cells = unit_cells(&disjoint);
        let mut units = Vec::new();
        let neighbourhood = TileNeighbourhood::new(&tiles, &bounds);
        for of_fragment in disjoint.chunk_by(|a, b| a.fragment == b.fragment) {
            let fragment = of_fragment.first().map(|tile| tile.fragment);
            let versions = fragment.and_then(|fragment| versions.get(fragment));
            units.extend(match versions {
                Some(CellVersions::Neighbours) => neighbourhood.units(of_fragment),
                _ => group_disjoint(of_fragment, unit_cells),
            });
        }
        units.extend(self.overlapping_units(split.units, &tiles, &bounds));
        Ok(units)
    }

    /// Groups the overlapping tiles into units.
    fn overlapping_units(
        &self,
        overlapping: Vec<OverlappingUnit>,
        tiles: &[TileRef],
        bounds: &TileBounds,
    ) -> Vec<SparseUnit> {
        let mut units = Vec::with_capacity(overlapping.len());
        for OverlappingUnit {
            members,
            clip,
            versions,
            cells,
        } in overlapping
        {
            let clip = bounds.subarray(&clip);
            let clip = self.spec.subarray.intersect(&clip);
            let those = |is_comparison_tile: bool| {
                let members = members
                    .iter()
                    .filter(move |m| m.is_comparison_tile == is_comparison_tile);
                let tiles = members.filter_map(|OverlappingTile { tile, inside, .. }| {
                    let tile = tiles.get(*tile).copied()?;
                    Some(TileRef {
                        covered: tile.covered && *inside,
                        ..tile
                    })
                });
                tiles.collect()
            };
            units.push(SparseUnit {
                cells,
                tiles: those(false),
                comparison_tiles: those(true),
                clip: Some(Arc::new(clip)),
                within: None,
                versions,
            });
        }
        units
    }

    /// The exact number of rows if the metadata proves it, and an upper bound.
    fn row_bounds(
        &self,
        fragments: &[Arc<Fragment>],
        candidates: &[SparseCandidates],
        units: &[SparseUnit],
        proven: bool,
    ) -> (Option<u128>, u64) {
        let cells = |tiles: &mut dyn Iterator<Item = &TileRef>| {
            tiles.fold(0_u64, |sum, t| sum.saturating_add(t.cells as u64))
        };
        let no_copies = units.iter().all(|u| u.versions == CellVersions::None);
        if self.counts.tiles_overlapping == 0 {
            let tiles = || units.iter().flat_map(|u| &u.tiles);
            let max = cells(&mut tiles());
            let exact = proven
                && no_copies
                && tiles().all(|t| t.covered && t.no_deletes)
                && fragments
                    .iter()
                    .all(|f| f.visibility == WindowVisibility::Whole);
            return (exact.then_some(max.into()), max);
        }
        let tiles = || candidates.iter().flat_map(|c| &c.tiles);
        let max = cells(&mut tiles());
        let exact = no_copies
            && self.spec.predicate.is_none()
            && tiles().all(|t| t.covered && t.no_deletes)
            && fragments
                .iter()
                .all(|f| f.visibility == WindowVisibility::Whole);
        (exact.then_some(max.into()), max)
    }
}

impl SparseCandidates {
    fn of_tiles(&self) -> impl Iterator<Item = (&TileBoxes, usize)> {
        self.tiles
            .iter()
            .map(|t| (self.boxes.as_ref(), t.tile.get()))
    }
}

/// What decides which dimensions of tile boxes are checked for NaN.
struct KnownOf<'a> {
    /// The ranges that select tiles.
    subarray: &'a Subarray,
    /// The dimensions that the pruner reads.
    pruned_by: &'a (dyn Fn(usize) -> bool + Sync),
    /// Whether tiles of several fragments may hold versions of a cell.
    resolves: bool,
}

impl KnownOf<'_> {
    /// The boxes of a fragment's tiles. Dimensions of floats are checked for NaN where it matters, which takes one more
    /// request for each fragment, the first time.
    async fn boxes(&self, fragment: &Fragment, storage: &Storage) -> Result<TileBoxes> {
        let boxes = fragment.boxes(storage).await?;
        let doubtful = boxes.in_doubt(self.subarray, 0..boxes.len());
        // The order of cells matters only for plans made from this one, when nothing more is read. NaN in one dimension
        // breaks the order by the others; in Hilbert order only tiles are ordered, by the leading dimension.
        let hilbert = fragment.schema.cell_order == Layout::Hilbert;
        let orders = |d: usize| boxes.len() > 1 && (d == 0 || !hilbert);
        let decides =
            |d: &usize| self.resolves || orders(*d) || doubtful.contains(d) || (self.pruned_by)(*d);
        let mut looked_at = boxes.floats();
        looked_at.retain(decides);
        boxes.look_for_nan(fragment, storage, &looked_at).await?;
        Ok(boxes)
    }
}

/// The ends of a tile's box in a dimension as stored values, if they are known.
fn stored_range(
    schema: &ArraySchema,
    boxes: &TileBoxes,
    tile: TileIdx,
    d: usize,
) -> Option<(Vec<u8>, Vec<u8>)> {
    match boxes.range(tile.get(), d) {
        TileRange::Bytes { lo, hi } => Some((lo.to_vec(), hi.to_vec())),
        range => {
            let (lo, hi) = range.keys()?;
            let datatype = schema.dimensions.get(d)?.datatype;
            Some((key::from_key(datatype, lo), key::from_key(datatype, hi)))
        }
    }
}
