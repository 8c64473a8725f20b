//! What must still hold when a change is committed: that nobody has written meanwhile to the cells it depends on.
//!
//! Two writers that look at what is committed, and then commit, would both miss the other. So a change looks at what is
//! complete and not committed, too: its own files are complete before it looks, so of two changes at least one sees the
//! other. Of the two, the one with the later time withdraws, and the other waits for that.

use std::collections::HashSet;
use std::time::Duration;

use super::clock::Clock;
use super::delete::deletes_nothing;
use super::fragment::StagedFragment;
use crate::array::deletes::Delete;
use crate::array::fragment::Fragment;
use crate::array::snapshot::{DEAD_AFTER_MS, Seen, Snapshot};
use crate::array::window::{OpenWindow, TimestampMs};
use crate::error::{Error, Result};
use crate::format::datatype::Datatype;
use crate::format::domain_range::{DomainRange, show_value};
use crate::geometry::domain::{Bounds, KeyBox};
use crate::geometry::key;
use crate::tile::deletes::FragmentDeletes;

/// How long a change waits for a later one, which withdraws as soon as it sees this one.
const PATIENCE: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(2);

/// The cells that a change depends on.
#[derive(Debug, Clone, Copy)]
pub enum Region<'a> {
    /// Every cell of the array.
    Everything,
    /// The non-empty domains of the fragments that it writes.
    Written,
    /// These boxes, which were filled with what the array showed.
    Filled(&'a [KeyBox]),
}

/// What a change depends on.
#[derive(Debug)]
pub struct Requirement<'a> {
    /// What it has seen of the array.
    pub read: &'a [Seen],
    /// The cells that nobody may have changed since.
    pub region: Region<'a>,
    /// Whether only changes of this time or later matter, which have not seen what is written now and would hide it.
    pub later_than: Option<TimestampMs>,
    /// Whether only consolidated fragments matter whose cells have lost their times. They hide rows of a time among those of
    /// their inputs, as no writer would who ran before or after this one.
    pub only_without_times: bool,
}

/// The fragments or deletes of others that meet a change.
struct Check<'a> {
    snapshot: &'a Snapshot,
    requirement: &'a Requirement<'a>,
    /// The ranges of the dimensions of each region; `None` is everything.
    regions: Option<Vec<Vec<DomainRange>>>,
}

/// Fails if somebody has changed, since the rows of a change were read, the cells that it depends on, or is about to: the
/// change would hide that.
///
/// # Errors
/// There is such a fragment or delete, or the array cannot be listed.
pub async fn check(
    snapshot: &Snapshot,
    requirement: &Requirement<'_>,
    written: &[StagedFragment],
    clock: &Clock,
) -> Result<()> {
    let regions = match requirement.region {
        Region::Everything => None,
        Region::Written => {
            let domains = written.iter();
            let domains = domains.map(|staged| staged.footer.non_empty_domain.clone());
            domains.collect()
        }
        Region::Filled(boxes) => Some(boxes.iter().map(|cells| ranges(snapshot, cells)).collect()),
    };
    if regions.as_ref().is_some_and(Vec::is_empty) {
        return Ok(());
    }
    let check = Check {
        snapshot,
        requirement,
        regions,
    };
    let ours = written.iter().map(|staged| staged.name.name.as_str());
    let ours = ours.collect::<HashSet<_>>();
    let first = written.iter().map(StagedFragment::age).min();
    let mut waited = Duration::ZERO;
    loop {
        // Others take this change for dead soon, and no longer wait for it.
        let now = TimestampMs::now().0;
        let completed = written.iter().map(|staged| staged.completed.0);
        if completed
            .into_iter()
            .any(|then| now.saturating_sub(then) > DEAD_AFTER_MS / 2)
        {
            return Err(Error::conflict(
                "the statement did not come to its commit for so long that others may have overtaken it: run the statement again",
            )
            .with("array", snapshot.storage.uri()));
        }
        let window = OpenWindow::new(TimestampMs(0), None)?;
        let now = snapshot.reopen(&snapshot.storage, window).await?;
        check.committed(&now)?;
        let rivals = now.staged(&ours).await?;
        let met = |rival| Some((rival, check.met_by(rival, &now)?));
        let Some((rival, region)) = rivals.iter().find_map(met) else {
            return Ok(());
        };
        let is_later = first.is_some_and(|first| first < (rival.name.t1, &rival.name.name));
        if requirement.later_than.is_some() {
            // It is a change only perhaps, and withdraws then, so an insert goes on at last.
            if waited >= PATIENCE {
                return Ok(());
            }
        } else if !is_later || waited >= PATIENCE {
            return Err(check.overtaken(
                "the fragment",
                &rival.name.name,
                "is about to be",
                region,
            ));
        }
        clock.wait(TICK).await;
        waited += TICK;
    }
}

impl Check<'_> {
    fn committed(&self, now: &Snapshot) -> Result<()> {
        for fragment in now.fragments.iter() {
            if self.is_unseen(&fragment.name.name, |seen| &seen.fragments)
                && let Some(region) = self.met_by(fragment, now)
                && (self.requirement.later_than.is_none() || !now.schema.allows_duplicates)
            {
                return Err(self.overtaken("the fragment", &fragment.name.name, "was", region));
            }
        }
        for delete in now.deletes.iter() {
            if self.is_unseen(&delete.name, |seen| &seen.deletes)
                && let Some(region) = self.deleted_by(delete)
            {
                return Err(self.overtaken("the delete", &delete.name, "was", region));
            }
        }
        Ok(())
    }

    fn is_unseen(&self, name: &str, names: fn(&Seen) -> &[String]) -> bool {
        let mut read = self.requirement.read.iter();
        read.any(|seen| !names(seen).iter().any(|known| known == name))
    }

    fn matters(&self, time: u64) -> bool {
        let since = self.requirement.later_than;
        since.is_none_or(|since| since.0 <= time)
    }

    /// The region of the change that has cells in common with a fragment of somebody else.
    fn met_by(&self, fragment: &Fragment, now: &Snapshot) -> Option<Option<&[DomainRange]>> {
        if !self.matters(fragment.name.t2) || self.is_harmless(fragment, now) {
            return None;
        }
        let Some(regions) = &self.regions else {
            return Some(None);
        };
        let datatypes = fragment.dimension_datatypes();
        let theirs = fragment.footer.non_empty_domain.as_deref();
        let mut regions = regions.iter();
        let met = regions.find(|ours| {
            theirs.is_none_or(|theirs| {
                let pairs = datatypes.iter().zip(theirs).zip(ours.iter());
                let apart = |((datatype, a), b): ((&Datatype, &DomainRange), &DomainRange)| {
                    let bounds = [a, b].map(|range| Bounds::from_range(*datatype, range));
                    matches!(bounds, [Ok(a), Ok(b)] if !a.intersects(&b))
                };
                !pairs.into_iter().any(apart)
            })
        });
        met.map(|ours| Some(ours.as_slice()))
    }

    /// Whether only consolidated fragments without times matter, and this is none. After a vacuum any may be one.
    fn is_harmless(&self, fragment: &Fragment, now: &Snapshot) -> bool {
        if !self.requirement.only_without_times {
            return false;
        }
        let name = fragment.name.name.as_str();
        let is_consolidated = || now.replaces_others(name) || self.is_vacuumed(now);
        fragment.footer.has_timestamps || !is_consolidated()
    }

    /// Whether some fragment that was seen is no longer there.
    fn is_vacuumed(&self, now: &Snapshot) -> bool {
        let names = now.fragments.iter().map(|f| f.name.name.as_str());
        let names = names.collect::<HashSet<_>>();
        let seen = self
            .requirement
            .read
            .iter()
            .flat_map(|seen| &seen.fragments);
        seen.into_iter().any(|name| !names.contains(name.as_str()))
    }

    /// The region of the change in which a delete of somebody else may find a cell.
    fn deleted_by(&self, delete: &Delete) -> Option<Option<&[DomainRange]>> {
        let schema = &self.snapshot.schema;
        let is_harmless = self.requirement.only_without_times || !self.matters(delete.time);
        if is_harmless || deletes_nothing(schema, &delete.condition) {
            return None;
        }
        let Some(regions) = &self.regions else {
            return Some(None);
        };
        let mut regions = regions.iter();
        let met = regions.find(|ours| !FragmentDeletes::spare(schema, &delete.condition, ours));
        met.map(|ours| Some(ours.as_slice()))
    }

    fn overtaken(
        &self,
        what: &str,
        name: &str,
        when: &str,
        region: Option<&[DomainRange]>,
    ) -> Error {
        let region = region.map_or_else(|| "all cells".to_owned(), |region| self.show(region));
        Error::conflict(format!(
            "{what} {name} {when} committed by somebody else while this statement ran, over cells that it depends on \
             ({region}): run the statement again"
        ))
        .with("array", self.snapshot.storage.uri())
    }

    /// A region for messages: `x = 1 to 5, y = 2 to 3`.
    fn show(&self, region: &[DomainRange]) -> String {
        let dimensions = self.snapshot.schema.dimensions.iter();
        let parts = dimensions.zip(region).map(|(dimension, range)| {
            let [lo, hi] = [&range.lo, &range.hi].map(|end| show_value(dimension.datatype, end));
            format!("{} = {lo} to {hi}", dimension.name)
        });
        parts.collect::<Vec<_>>().join(", ")
    }
}

fn ranges(snapshot: &Snapshot, cells: &KeyBox) -> Vec<DomainRange> {
    let ranges = cells.ranges().zip(&snapshot.schema.dimensions);
    let ranges = ranges.map(|((lo, hi), dimension)| DomainRange {
        lo: key::from_key(dimension.datatype, lo),
        hi: key::from_key(dimension.datatype, hi),
    });
    ranges.collect()
}

/// Fails unless dense fragments give every cell that the array has, so that nothing of it stays.
///
/// # Errors
/// Some cell of the array is in none of them.
pub fn check_covered(
    snapshot: &Snapshot,
    written: &[StagedFragment],
    filled: &[KeyBox],
) -> Result<()> {
    let schema = &snapshot.schema;
    let datatypes = schema.dimensions.iter().map(|dimension| dimension.datatype);
    let datatypes = datatypes.collect::<Vec<_>>();
    let boxed = |domain: &Option<Vec<DomainRange>>| {
        let domain = domain.as_ref();
        let cells = domain.map(|domain| KeyBox::from_ranges(&datatypes, domain));
        cells.transpose()
    };
    let only = match written {
        [only] if filled.is_empty() => boxed(&only.footer.non_empty_domain)?,
        _ => None,
    };
    for fragment in snapshot.fragments.iter() {
        let there = boxed(&fragment.footer.non_empty_domain)?;
        let covered = only.as_ref().zip(there.as_ref());
        if !covered.is_some_and(|(only, there)| only.contains(there)) {
            return Err(Error::unsupported(
                "the rows of INSERT OVERWRITE do not give every cell of the dense array's non-empty domain, and those that \
                 they leave out cannot be removed: TRUNCATE the array first, or give all cells",
            )
            .with("array", snapshot.storage.uri()));
        }
    }
    Ok(())
}
