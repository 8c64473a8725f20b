//! Pruning of the tiles of a sparse plan, before they are grouped into units.
//!
//! Every tile may be pruned by its coordinates, before tiles are compared with each other; only disjoint tiles may be
//! pruned by their attributes. Planning does not wait for the statistics of many fragments: then each tile is evaluated
//! when it is about to be read.

use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};

use super::PlanCounts;
use crate::array::fragment::Fragment;
use crate::array::fragment::boxes::TileBoxes;
use crate::error::{Error, Result};
use crate::scan::plan::sparse_units::{SparseUnit, TileRef};
use crate::scan::spec::ScanSpec;
use crate::stats::pruner::{TilePruner, Verdict};
use crate::stats::{CandidateTile, KnownStatistics, StatisticsCache, TileExtent};

/// With more fragments than this, statistics are loaded when tiles are about to be read.
const MOST_FRAGMENTS: usize = 256;
/// Fragments whose statistics are read at the same time.
const CONCURRENCY: usize = 16;

/// Prunes tiles while a scan is planned.
pub(super) struct TilePruning {
    /// The statistics of tiles that have been loaded.
    pub statistics_cache: StatisticsCache,
    /// Whether pruning by attributes is left to the scan.
    pub prunes_late: bool,
    pruner: Option<Arc<dyn TilePruner>>,
}

/// A fragment, the boxes of its tiles, and the tiles that are left.
pub(super) type PrunedFragment = (Arc<Fragment>, Arc<TileBoxes>, Vec<TileRef>);

impl TilePruning {
    /// Pruning by the predicate of a scan.
    pub fn new(spec: &ScanSpec) -> Self {
        Self {
            statistics_cache: StatisticsCache::new(&spec.table),
            prunes_late: false,
            pruner: spec.predicate.as_ref().and_then(|p| p.pruner()),
        }
    }

    fn by_attributes(&self) -> Option<Arc<dyn TilePruner>> {
        let reads = |p: &&Arc<dyn TilePruner>| self.statistics_cache.reads_attributes(p.as_ref());
        self.pruner.as_ref().filter(reads).map(Arc::clone)
    }

    /// Whether the pruner reads a dimension.
    pub fn reads_dimension(&self, dimension: usize) -> bool {
        let columns = self.pruner.as_ref().map(|p| p.columns());
        columns.is_some_and(|columns| columns.contains(&dimension))
    }

    /// Prunes tiles by their coordinates.
    pub fn by_coordinates(
        &self,
        left: &mut [PrunedFragment],
        counts: &mut PlanCounts,
    ) -> Result<()> {
        let reads = |p: &&Arc<dyn TilePruner>| self.statistics_cache.reads_dimensions(p.as_ref());
        let Some(pruner) = self.pruner.as_ref().filter(reads) else {
            return Ok(());
        };
        let candidates = left.iter().flat_map(|(_, boxes, tiles)| {
            tiles.iter().map(|tile| CandidateTile {
                tile: tile.tile,
                cells: tile.cells as u64,
                extent: TileExtent::Box(boxes),
                known: None,
            })
        });
        let candidates = candidates.collect::<Vec<_>>();
        let verdicts = self
            .statistics_cache
            .evaluate(pruner.as_ref(), &candidates)?;
        let mut verdicts = verdicts.into_iter();
        for (_, _, tiles) in left {
            let before = tiles.len();
            tiles.retain_mut(|tile| {
                let verdict = verdicts.next().unwrap_or(Verdict::Something);
                tile.proven = verdict == Verdict::Everything;
                counts.tiles_proven += u64::from(tile.proven);
                verdict != Verdict::Nothing
            });
            counts.tiles_pruned += (before - tiles.len()) as u64;
        }
        Ok(())
    }

    /// Prunes the oldest fragments, as long as their names and times prove that none of their cells matches. Their cells can
    /// only hide cells of older fragments, which don't match either.
    pub fn oldest(&self, left: &mut [PrunedFragment], counts: &mut PlanCounts) -> Result<()> {
        let statistics = &self.statistics_cache;
        let reads = |p: &&Arc<dyn TilePruner>| statistics.reads_system_columns(p.as_ref());
        let Some(pruner) = self.pruner.as_ref().filter(reads) else {
            return Ok(());
        };
        let known = left.iter().map(|(fragment, _, _)| {
            KnownStatistics::of_system_columns(statistics.table(), fragment, pruner.columns())
        });
        let known = known.collect::<Result<Vec<_>>>()?;
        let candidates = left
            .iter()
            .zip(&known)
            .flat_map(|((_, boxes, tiles), known)| {
                tiles.iter().map(move |tile| CandidateTile {
                    tile: tile.tile,
                    cells: tile.cells as u64,
                    extent: TileExtent::Box(boxes),
                    known: Some(known),
                })
            });
        let candidates = candidates.collect::<Vec<_>>();
        let verdicts = statistics.evaluate(pruner.as_ref(), &candidates)?;
        let matches = |verdict: &Verdict| *verdict != Verdict::Nothing;
        let mut gone = verdicts.iter().position(matches).unwrap_or(verdicts.len());
        for (_, _, tiles) in left {
            if tiles.len() > gone {
                break;
            }
            gone -= tiles.len();
            counts.tiles_pruned_statistics += tiles.len() as u64;
            tiles.clear();
        }
        Ok(())
    }

    /// Prunes disjoint tiles by their attributes.
    pub async fn disjoint(
        &mut self,
        fragments: &[Arc<Fragment>],
        boxes: &[Arc<TileBoxes>],
        tiles: &mut Vec<TileRef>,
        counts: &mut PlanCounts,
    ) -> Result<()> {
        let Some(pruner) = self.by_attributes().filter(|_| !tiles.is_empty()) else {
            return Ok(());
        };
        let mut numbers = tiles.iter().map(|t| t.fragment).collect::<Vec<_>>();
        numbers.dedup();
        if numbers.len() > MOST_FRAGMENTS {
            self.prunes_late = true;
            return Ok(());
        }
        let statistics = &self.statistics_cache;
        let load = async |number: usize| -> Result<(usize, Arc<KnownStatistics>)> {
            let fragment = fragments.get(number).ok_or_else(unplanned)?;
            let known = statistics.of_fragment(number, fragment, pruner.columns());
            Ok((number, known.await?))
        };
        let known = stream::iter(numbers.into_iter().map(load)).buffered(CONCURRENCY);
        let known = known.try_collect::<Vec<_>>().await?;
        let mut known = known.iter().peekable();
        let candidates = tiles.iter().map(|tile| {
            while known.peek().is_some_and(|(n, _)| *n != tile.fragment) {
                known.next();
            }
            Ok(CandidateTile {
                tile: tile.tile,
                cells: tile.cells as u64,
                extent: TileExtent::Box(boxes.get(tile.fragment).ok_or_else(unplanned)?),
                known: known.peek().map(|(_, known)| known.as_ref()),
            })
        });
        let candidates = candidates.collect::<Result<Vec<_>>>()?;
        let verdicts = statistics.evaluate(pruner.as_ref(), &candidates)?;
        let (before, mut verdicts) = (tiles.len(), verdicts.into_iter());
        tiles.retain_mut(|tile| {
            let verdict = verdicts.next().unwrap_or(Verdict::Something);
            let proven = verdict == Verdict::Everything;
            counts.tiles_proven += u64::from(proven && !tile.proven);
            tile.proven |= proven;
            verdict != Verdict::Nothing
        });
        counts.tiles_pruned_statistics += (before - tiles.len()) as u64;
        Ok(())
    }

    /// Whether every row of the units is known to satisfy the predicate.
    pub fn all_proven(&self, spec: &ScanSpec, units: &[SparseUnit]) -> bool {
        let mut tiles = units.iter().flat_map(|u| &u.tiles);
        spec.predicate.is_none() || tiles.all(|t| t.proven)
    }
}

pub(super) fn unplanned() -> Error {
    Error::internal("a tile names a fragment that was not planned")
}
