//! Shares of a scan: the units that one of several machines reads.
//!
//! A share is a run of units of the plan, so that orders and ranges hold within it. It names the units themselves: the machine that
//! reads a share opens only the fragments that its units touch, and decides nothing anew. What metadata showed while the scan was
//! planned is in the units; so are the counts of the plan, in the first share only, so that all shares together count as much as
//! the plan.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::dense::{self, DenseUnits};
use super::sparse;
use super::sparse_units::{SparseUnit, TileRef};
use super::unfit::unfit;
use super::{PlanCounts, PlanUnits, ScanPlan};
use crate::array::fragment::Fragment;
use crate::error::Result;
use crate::scan::spec::ScanSpec;

/// Some units of a scan, as values. See [`ScanPlan::share`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanShare {
    /// The fragments that the units refer to, by number.
    fragments: Vec<String>,
    units: ShareUnits,
    counts: PlanCounts,
    prunes_late: bool,
    unit_count: u64,
    bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum ShareUnits {
    Sparse(Vec<Arc<SparseUnit>>),
    Dense(DenseUnits),
}

impl ScanShare {
    /// The names of the fragments that the units touch.
    pub fn fragments(&self) -> HashSet<&str> {
        self.fragments.iter().map(String::as_str).collect()
    }

    /// The number of units.
    pub fn unit_count(&self) -> u64 {
        self.unit_count
    }

    /// About how many bytes the units take, decoded.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl ScanPlan {
    /// About how many bytes all units take, decoded.
    pub fn all_bytes(&self) -> u64 {
        match &self.units {
            PlanUnits::Dense(dense) => self.unit_bytes(0).saturating_mul(dense.unit_count()),
            PlanUnits::Sparse(_) => (0..self.unit_count())
                .map(|unit| self.unit_bytes(unit))
                .fold(0, u64::saturating_add),
        }
    }

    /// Cuts the units into as many runs as there are tasks, each of about equally many bytes. Some are empty if there are fewer units
    /// than tasks.
    pub fn cut_into_shares(&self, tasks: usize) -> Vec<Range<u64>> {
        let count = self.unit_count();
        match &self.units {
            PlanUnits::Dense(_) => {
                let tasks = tasks.max(1) as u64;
                let runs = (0..tasks)
                    .map(|i| super::share(count, i, tasks)..super::share(count, i + 1, tasks));
                runs.collect()
            }
            PlanUnits::Sparse(_) => {
                let costs = (0..count).map(|unit| self.unit_bytes(unit));
                cut_evenly(&costs.collect::<Vec<_>>(), tasks)
            }
        }
    }

    /// The share with these units, which are the `number`th of all shares; `None` if some of the plan's tiles aren't read, or its
    /// units follow from a condition that comes only while it runs.
    pub fn share(&self, units: Range<u64>, number: usize) -> Option<ScanShare> {
        let bytes = match &self.units {
            PlanUnits::Dense(_) => self
                .unit_bytes(units.start)
                .saturating_mul(units.end.saturating_sub(units.start)),
            PlanUnits::Sparse(_) => units
                .clone()
                .map(|unit| self.unit_bytes(unit))
                .fold(0, u64::saturating_add),
        };
        let unit_count = units.end.saturating_sub(units.start);
        let (touched, units) = match &self.units {
            PlanUnits::Sparse(all) => {
                let (from, to) = (
                    usize::try_from(units.start).ok()?,
                    usize::try_from(units.end).ok()?,
                );
                let all = all.get(from..to)?;
                let (touched, units) = renumbered(all)?;
                (touched, ShareUnits::Sparse(units))
            }
            PlanUnits::Dense(plan) => {
                let (touched, units) = plan.share(units)?;
                (touched, ShareUnits::Dense(units))
            }
        };
        let name = |number: &usize| {
            let scan = self.fragments.get(*number)?;
            Some(scan.fragment.name.name.clone())
        };
        Some(ScanShare {
            fragments: touched.iter().map(name).collect::<Option<_>>()?,
            units,
            counts: match number {
                0 => self.counts,
                _ => PlanCounts::default(),
            },
            prunes_late: self.prunes_late,
            unit_count,
            bytes,
        })
    }

    /// The plan of a share: `spec` is that of the whole scan, of a snapshot with the fragments of the share.
    ///
    /// # Errors
    /// The snapshot has other fragments, the share doesn't fit them, or their metadata can't be read.
    pub async fn of_share(spec: ScanSpec, share: ScanShare) -> Result<Self> {
        let table = Arc::clone(&spec.table);
        let uri = table.snapshot.storage.uri().to_owned();
        let planned = Box::pin(Self::planned_share(spec, share)).await;
        match planned {
            Err(e) => Err(table.snapshot.explain_missing(e).await.with("array", uri)),
            planned => planned,
        }
    }

    async fn planned_share(spec: ScanSpec, share: ScanShare) -> Result<Self> {
        let table = Arc::clone(&spec.table);
        let snapshot = &table.snapshot;
        let fragments = in_order_of(&snapshot.fragments, &share.fragments)?;
        let counts = share.counts;
        let mut plan = match share.units {
            ShareUnits::Sparse(units) if snapshot.schema.is_dense() => {
                if !units.is_empty() {
                    return Err(unfit("its units are those of a sparse array"));
                }
                dense::empty(spec, counts)
            }
            ShareUnits::Sparse(units) => sparse::plan_share(spec, fragments, units).await?,
            ShareUnits::Dense(_) if !snapshot.schema.is_dense() => {
                return Err(unfit("its units are those of a dense array"));
            }
            ShareUnits::Dense(units) => dense::plan_share(spec, units).await?,
        };
        plan.counts = counts;
        plan.prunes_late = share.prunes_late;
        plan.exact_rows = None;
        if plan.unit_count() != share.unit_count {
            return Err(unfit("it has another number of units"));
        }
        Ok(plan)
    }
}

/// The fragments of a snapshot in the order of `names`, which have to be all of them.
fn in_order_of(fragments: &[Arc<Fragment>], names: &[String]) -> Result<Vec<Arc<Fragment>>> {
    let known: HashMap<&str, &Arc<Fragment>> = fragments
        .iter()
        .map(|fragment| (fragment.name.name.as_str(), fragment))
        .collect();
    if known.len() != names.len() {
        return Err(unfit("it names other fragments than its files"));
    }
    names
        .iter()
        .map(|name| {
            let fragment = known.get(name.as_str()).copied().cloned();
            fragment.ok_or_else(|| unfit("it names a fragment without files"))
        })
        .collect()
}

/// The units, with the fragments that they touch numbered in order, and the numbers that these have in the plan.
fn renumbered(units: &[Arc<SparseUnit>]) -> Option<(Vec<usize>, Vec<Arc<SparseUnit>>)> {
    let tiles = units.iter().flat_map(|unit| unit.all_tiles());
    let mut touched = tiles.map(|tile| tile.fragment).collect::<Vec<_>>();
    touched.sort_unstable();
    touched.dedup();
    let tile = |tile: &TileRef| {
        Some(TileRef {
            fragment: touched.binary_search(&tile.fragment).ok()?,
            ..*tile
        })
    };
    let units = units.iter().map(|unit| {
        Some(Arc::new(SparseUnit {
            tiles: unit.tiles.iter().map(tile).collect::<Option<_>>()?,
            comparison_tiles: unit
                .comparison_tiles
                .iter()
                .map(tile)
                .collect::<Option<_>>()?,
            ..SparseUnit::clone(unit)
        }))
    });
    let units = units.collect::<Option<_>>()?;
    Some((touched, units))
}

/// Cuts costs into runs, each cut next to where an even share would end.
fn cut_evenly(costs: &[u64], runs: usize) -> Vec<Range<u64>> {
    let runs = runs.max(1) as u64;
    let total = costs
        .iter()
        .fold(0, |sum: u64, cost| sum.saturating_add(*cost));
    let mut ends = Vec::new();
    let (mut spent, mut unit) = (0_u64, 0_u64);
    for run in 1..runs {
        let wanted = super::share(total, run, runs);
        while let Some(cost) = usize::try_from(unit).ok().and_then(|unit| costs.get(unit)) {
            // The unit goes where most of it lies.
            if spent.saturating_add(cost / 2) >= wanted {
                break;
            }
            spent = spent.saturating_add(*cost);
            unit += 1;
        }
        ends.push(unit);
    }
    ends.push(costs.len() as u64);
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(&ends).map(|(start, end)| start..*end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_even_and_no_unit_is_lost() {
        let check = |costs: &[u64], runs: usize| {
            let cut = cut_evenly(costs, runs);
            assert_eq!(cut.len(), runs.max(1));
            assert_eq!(cut.first().map(|run| run.start), Some(0));
            assert_eq!(cut.last().map(|run| run.end), Some(costs.len() as u64));
            assert!(cut.windows(2).all(|w| w[0].end == w[1].start), "{cut:?}");
            let mean = costs.iter().map(|c| u128::from(*c)).sum::<u128>() / cut.len() as u128;
            let largest = u128::from(costs.iter().copied().max().unwrap_or(0));
            for run in &cut {
                let (from, to) = (run.start as usize, run.end as usize);
                let bytes: u128 = costs[from..to].iter().map(|c| u128::from(*c)).sum();
                assert!(bytes.abs_diff(mean) <= largest + 1, "{cut:?} of {costs:?}");
            }
        };
        check(&[], 3);
        check(&[7], 4);
        check(&[1; 100], 7);
        check(&[5, 0, 0, 7, 9, 1, 0, 3], 3);
        let mut state = 1_u64;
        for runs in 1..=16 {
            let costs: Vec<u64> = (0..runs * 37)
                .map(|_| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    state >> 40
                })
                .collect();
            check(&costs, runs);
        }
        // Sums of forged costs don't overflow.
        let cut = cut_evenly(&[u64::MAX, u64::MAX, 1], 2);
        assert_eq!(cut.last().map(|run| run.end), Some(3));
    }
}
