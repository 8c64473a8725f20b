//! The requirement of a change at its commit: nobody has written meanwhile to the cells it depends on.
//!
//! Two writers that look at what is committed, and then commit, would both miss the other. So a change looks at what is
//! complete and not committed, too: before it looks, its own files are complete, and a change without files is [announced]. So
//! at least one of two changes sees the other. The change with the later time withdraws, and the other one waits for that.
//!
//! Rows that another statement only inserted aren't an obstacle if the statements still have a serial order: an insert comes
//! first or last, whatever its time. The names of fragments show which ones hold such rows.
//!
//! [announced]: super::announcement

use std::collections::HashSet;
use std::sync::OnceLock;
use std::time::Duration;

use super::clock::Clock;
use super::delete::deletes_nothing;
use super::staged_change::StagedChange;
use crate::array::deletes::TimedDelete;
use crate::array::fragment::Fragment;
use crate::array::snapshot::{AnnouncedChange, DEAD_AFTER_MS, Snapshot, SnapshotContents};
use crate::array::window::{OpenWindow, TimestampMs};
use crate::error::{Error, Result};
use crate::format::datatype::Datatype;
use crate::format::domain_range::{DomainRange, show_value};
use crate::format::names::TimestampedName;
use crate::geometry::domain::{DimensionExtent, KeyBox};
use crate::geometry::key;
use crate::tile::deletes::FragmentDeletes;

/// How long a change waits for a later one, which withdraws as soon as it sees this one.
const PATIENCE: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(2);

/// The cells that a change depends on.
#[derive(Debug, Clone, Copy)]
pub enum RequiredRegion<'a> {
    /// Every cell of the array.
    Everything,
    /// The non-empty domains of the fragments that it writes.
    Written,
    /// These boxes, which were filled with what the array showed.
    Filled(&'a [KeyBox]),
    /// Boxes that the statement selects, with or without cells in them: the ranges of the dimensions of each.
    Selected(&'a [Vec<DomainRange>]),
}

/// What a change depends on.
#[derive(Debug)]
pub struct Requirement<'a> {
    /// The contents of the array that it has read.
    pub read: &'a [SnapshotContents],
    /// The cells that nobody may have changed since.
    pub region: RequiredRegion<'a>,
    /// Whether only changes of this time or later matter, which have not seen what is written now and would hide it.
    pub later_than: Option<TimestampMs>,
    /// Rows that others only inserted, at this time or later, don't matter. Other rows of a fragment do matter: rows that a
    /// statement computed from rows it had read, and consolidated cells, which may have lost their times.
    pub inserts_since: Option<TimestampMs>,
    /// Whether deletes by a stored condition matter. Such a delete depends on all cells that its condition may select. If it can't
    /// delete a cell that this change writes, it comes after this change.
    pub deletes_matter: bool,
}

impl<'a> Requirement<'a> {
    /// Requires that nobody has changed cells of a region since the change has `read` them.
    pub fn unchanged(read: &'a [SnapshotContents], region: RequiredRegion<'a>) -> Self {
        Self {
            read,
            region,
            later_than: None,
            inserts_since: None,
            deletes_matter: true,
        }
    }

    /// The requirement of rows of a `time` that a statement only inserts. A statement that replaces cells at a later time, and
    /// hasn't seen these rows, would hide or delete them. If both statements only insert, the rows of the later time are shown,
    /// as if their statement came after this one. So inserts of others don't matter, if `tolerates_inserts`.
    pub fn of_insert(
        opened: &'a [SnapshotContents],
        time: Option<TimestampMs>,
        tolerates_inserts: bool,
    ) -> Self {
        Self {
            later_than: time,
            inserts_since: tolerates_inserts.then_some(TimestampMs(0)),
            ..Self::unchanged(opened, RequiredRegion::Written)
        }
    }
}

/// The fragments or deletes of others that meet a change.
struct RequirementCheck<'a> {
    snapshot: &'a Snapshot,
    requirement: &'a Requirement<'a>,
    /// The ranges of the dimensions of each region; `None` is everything.
    regions: Option<Vec<Vec<DomainRange>>>,
    /// The box whose cells a dense array showed to the change, once a fragment is compared with it.
    seen_box: OnceLock<Option<KeyBox>>,
}

/// Fails if another writer has changed the cells that a change depends on since its rows were read, or is about to: the
/// change would hide that.
///
/// # Errors
/// There is such a fragment or delete, or the array cannot be listed.
pub async fn check(
    snapshot: &Snapshot,
    requirements: &[Requirement<'_>],
    offered: StagedChange<'_>,
    clock: &Clock,
) -> Result<()> {
    let checks = requirements.iter();
    let checks =
        checks.filter_map(|requirement| RequirementCheck::of(snapshot, requirement, offered));
    let checks = checks.collect::<Vec<_>>();
    if checks.is_empty() {
        return Ok(());
    }
    let (ours, first) = (offered.names(), offered.age());
    let mut waited = Duration::ZERO;
    loop {
        in_time(snapshot, offered)?;
        let window = OpenWindow::new(TimestampMs(0), None)?;
        let now = snapshot.reopen(&snapshot.storage, window).await?;
        for check in &checks {
            check.committed(&now)?;
        }
        let announced = now.announced(&ours).await?;
        let running = now.staged(&ours).await?;
        let Some(announced) = announced else {
            if waited >= PATIENCE {
                return Err(unsettled(snapshot));
            }
            clock.wait(TICK).await;
            waited += TICK;
            continue;
        };
        let mut has_rival = false;
        for check in &checks {
            let Some(rival) = check.rival(&announced, &running, &now) else {
                continue;
            };
            let is_later = first.is_some_and(|first| first < rival.age);
            if !check.depends_on_seen() {
                // The other statement may be a change, which then withdraws, so an insert finally proceeds.
                has_rival |= waited < PATIENCE;
            } else if !is_later || waited >= PATIENCE {
                return Err(check.overtaken(
                    rival.what,
                    rival.age.1,
                    "is about to be",
                    rival.region,
                ));
            } else {
                has_rival = true;
            }
        }
        if !has_rival {
            return Ok(());
        }
        clock.wait(TICK).await;
        waited += TICK;
    }
}

/// Fails if others will soon consider a change dead, and no longer wait for it.
fn in_time(snapshot: &Snapshot, offered: StagedChange<'_>) -> Result<()> {
    let now = TimestampMs::now().0;
    match offered.since() {
        Some(since) if now.saturating_sub(since) > DEAD_AFTER_MS / 2 => Err(Error::conflict(
            "the statement took so long to reach its commit that another writer may have overtaken it: run the statement again",
        )
        .with("array", snapshot.storage.uri())),
        _ => Ok(()),
    }
}

fn unsettled(snapshot: &Snapshot) -> Error {
    Error::conflict(
        "other writers keep changing the array without a pause: run the statement again",
    )
    .with("array", snapshot.storage.uri())
}

/// A commit that another writer is about to make.
struct PendingCommit<'a> {
    what: &'static str,
    /// The time and name of the commit.
    age: (u64, &'a str),
    /// The region in which the commit meets the change.
    region: Option<&'a [DomainRange]>,
}

impl<'a> RequirementCheck<'a> {
    /// The check of a requirement; `None` if its region is empty.
    fn of(
        snapshot: &'a Snapshot,
        requirement: &'a Requirement<'a>,
        offered: StagedChange<'_>,
    ) -> Option<Self> {
        let regions = match requirement.region {
            RequiredRegion::Everything => None,
            RequiredRegion::Written => {
                let domains = offered
                    .fragments
                    .iter()
                    .map(|staged| staged.footer.non_empty_domain.clone());
                domains.collect()
            }
            RequiredRegion::Filled(boxes) => {
                Some(boxes.iter().map(|cells| ranges(snapshot, cells)).collect())
            }
            RequiredRegion::Selected(boxes) => Some(boxes.to_vec()),
        };
        let is_empty = regions.as_ref().is_some_and(Vec::is_empty);
        (!is_empty).then_some(Self {
            snapshot,
            requirement,
            regions,
            seen_box: OnceLock::new(),
        })
    }

    /// A pending commit of another writer that meets the change.
    fn rival<'b>(
        &'b self,
        announced: &'b [AnnouncedChange],
        running: &'b [Fragment],
        now: &Snapshot,
    ) -> Option<PendingCommit<'b>> {
        let mut announced = announced.iter();
        let announced = announced.find_map(|other| {
            let (what, region) = match other {
                AnnouncedChange::Delete(delete) => ("the delete", self.deleted_by(delete)?),
                AnnouncedChange::Removal { fragments, .. } => {
                    let depends = self.depends_on_seen() && self.has_seen(fragments);
                    ("the removal", depends.then_some(None)?)
                }
            };
            let age = other.age();
            Some(PendingCommit { what, age, region })
        });
        let running = || {
            let mut running = running.iter();
            running.find_map(|fragment| {
                Some(PendingCommit {
                    what: "the fragment",
                    age: (fragment.name.t1, &fragment.name.name),
                    region: self.met_by(fragment, now)?,
                })
            })
        };
        announced.or_else(running)
    }

    /// Whether the change depends on existing cells, and not only on later ones.
    fn depends_on_seen(&self) -> bool {
        self.requirement.later_than.is_none()
    }

    fn has_seen(&self, fragments: &[String]) -> bool {
        let mut seen = self
            .requirement
            .read
            .iter()
            .flat_map(|seen| &seen.fragments);
        seen.any(|name| fragments.contains(name))
    }

    /// Fails if a fragment that the change has seen is gone, and no other fragment holds its cells.
    fn none_removed(&self, now: &Snapshot) -> Result<()> {
        let names = now
            .fragments
            .iter()
            .map(|f| f.name.name.as_str())
            .collect::<HashSet<_>>();
        let seen = self
            .requirement
            .read
            .iter()
            .flat_map(|seen| &seen.fragments);
        for gone in seen.filter(|name| !names.contains(name.as_str())) {
            let gone = TimestampedName::parse(gone)?;
            let holds = |new: &Fragment| {
                let spans = new.name.t1 <= gone.t1 && gone.t2 <= new.name.t2;
                let is_new = self.is_unseen(&new.name.name, |seen| &seen.fragments);
                spans
                    && is_new
                    && (new.name.t1 < new.name.t2 || now.replaces_others(&new.name.name))
            };
            if !now.fragments.iter().any(|new| holds(new)) {
                return Err(self.overtaken("the removal of", &gone.name, "was", None));
            }
        }
        Ok(())
    }

    fn committed(&self, now: &Snapshot) -> Result<()> {
        if self.depends_on_seen() {
            self.none_removed(now)?;
        }
        for fragment in now.fragments.iter() {
            if self.is_unseen(&fragment.name.name, |seen| &seen.fragments)
                && let Some(region) = self.met_by(fragment, now)
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

    fn is_unseen(&self, name: &str, names: fn(&SnapshotContents) -> &[String]) -> bool {
        let mut read = self.requirement.read.iter();
        read.any(|seen| !names(seen).iter().any(|known| known == name))
    }

    fn matters(&self, time: u64) -> bool {
        let since = self.requirement.later_than;
        since.is_none_or(|since| since.0 <= time)
    }

    /// The region of the change that has cells in common with another writer's fragment.
    fn met_by(&self, fragment: &Fragment, now: &Snapshot) -> Option<Option<&[DomainRange]>> {
        // No fragment hides an insert into an array with duplicates; only a delete does. A statement that replaces all rows also
        // depends on later changes, which have read rows that it replaces.
        let replaces_all = matches!(self.requirement.region, RequiredRegion::Everything);
        let only_deletes = !self.depends_on_seen() && now.schema.allows_duplicates && !replaces_all;
        if only_deletes || !self.matters(fragment.name.t2) || self.is_harmless(fragment, now) {
            return None;
        }
        let Some(regions) = &self.regions else {
            return Some(None);
        };
        let datatypes = fragment.dimension_datatypes();
        let theirs = fragment.footer.non_empty_domain.as_deref();
        let seen = self.seen_box.get_or_init(|| self.find_seen_box(now));
        let mut regions = regions.iter();
        let met = regions.find(|ours| {
            theirs.is_none_or(|theirs| {
                if seen
                    .as_ref()
                    .is_some_and(|seen| grows_into(seen, theirs, ours, &datatypes))
                {
                    return true;
                }
                let pairs = datatypes.iter().zip(theirs).zip(ours.iter());
                let apart = |((datatype, a), b): ((&Datatype, &DomainRange), &DomainRange)| {
                    let bounds = [a, b].map(|range| DimensionExtent::from_range(*datatype, range));
                    matches!(bounds, [Ok(a), Ok(b)] if !a.intersects(&b))
                };
                !pairs.into_iter().any(apart)
            })
        });
        met.map(|ours| Some(ours.as_slice()))
    }

    /// The box whose cells a dense array showed to a change that depends on them, if there was one.
    fn find_seen_box(&self, now: &Snapshot) -> Option<KeyBox> {
        // Cells between those of an insert get the fill value, whether the array shows them or not.
        let is_filled = matches!(self.requirement.region, RequiredRegion::Filled(_));
        if !now.schema.is_dense() || !self.depends_on_seen() || is_filled {
            return None;
        }
        let seen = now.fragments.iter();
        let seen = seen.filter(|f| !self.is_unseen(&f.name.name, |seen| &seen.fragments));
        let boxes = seen.filter_map(|fragment| {
            let domain = fragment.footer.non_empty_domain.as_deref()?;
            KeyBox::from_ranges(&fragment.dimension_datatypes(), domain).ok()
        });
        boxes.reduce(|all, one| all.union(&one).unwrap_or(all))
    }

    /// Whether a fragment holds only inserted rows that don't matter. After a vacuum, any fragment may have been consolidated.
    fn is_harmless(&self, fragment: &Fragment, now: &Snapshot) -> bool {
        let name = &fragment.name;
        let since = self.requirement.inserts_since;
        let only_inserts = since.is_some_and(|since| since.0 <= name.t1)
            && name.t1 == name.t2
            && !name.is_of_change();
        only_inserts && !now.replaces_others(&name.name) && !self.is_vacuumed(now)
    }

    /// Whether some fragment that was seen is no longer there.
    fn is_vacuumed(&self, now: &Snapshot) -> bool {
        let names = now
            .fragments
            .iter()
            .map(|f| f.name.name.as_str())
            .collect::<HashSet<_>>();
        let seen = self
            .requirement
            .read
            .iter()
            .flat_map(|seen| &seen.fragments);
        seen.into_iter().any(|name| !names.contains(name.as_str()))
    }

    /// The region of the change in which another writer's delete may find a cell.
    fn deleted_by(&self, delete: &TimedDelete) -> Option<Option<&[DomainRange]>> {
        let schema = &self.snapshot.schema;
        let matters = self.requirement.deletes_matter && self.matters(delete.time);
        if !matters || deletes_nothing(schema, &delete.condition) {
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
            "{what} {name} {when} committed by another writer while this statement ran, over cells that it depends on \
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

/// Whether a dense array shows more cells of a region with a new fragment: it shows all cells of the box around its fragments,
/// which was `seen` before.
fn grows_into(
    seen: &KeyBox,
    fragment: &[DomainRange],
    region: &[DomainRange],
    datatypes: &[Datatype],
) -> bool {
    let boxed = |ranges: &[DomainRange]| KeyBox::from_ranges(datatypes, ranges).ok();
    let (Some(fragment), Some(region)) = (boxed(fragment), boxed(region)) else {
        return true;
    };
    let grown = seen.union(&fragment);
    let shown = grown.and_then(|grown| grown.intersect(&region));
    shown.is_some_and(|shown| !seen.contains(&shown))
}

fn ranges(snapshot: &Snapshot, cells: &KeyBox) -> Vec<DomainRange> {
    let ranges = cells
        .ranges()
        .zip(&snapshot.schema.dimensions)
        .map(|((lo, hi), dimension)| DomainRange {
            lo: key::from_key(dimension.datatype, lo),
            hi: key::from_key(dimension.datatype, hi),
        });
    ranges.collect()
}
