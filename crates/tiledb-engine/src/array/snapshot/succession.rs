//! What takes the place of a snapshot some of whose fragments were vacuumed while it was in use.
//!
//! A consolidated fragment holds the cells of those that it replaces. It may also hold cells that the snapshot never showed: a
//! change is committed some time after the time that it is written at, so the consolidation can meet fragments that were
//! committed after the snapshot was taken, but bear an earlier time. A purge may remove cells, too. So a fragment is believed to
//! hold the same cells only if there is proof:
//!
//! - the lists of what it replaces, which vacuum removes last, name exactly the fragments that are gone (or, besides, later ones
//!   whose cells bear later times), and nothing was removed from them; or
//! - after these lists are gone, it keeps every cell with its time, has as many of them as the fragments that are gone, and
//!   nothing was ever deleted that it could leave out.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Snapshot;
use crate::array::directory::MOST_LISTINGS;
use crate::array::fragment::Fragment;
use crate::array::window::{OpenWindow, TimestampMs, WindowVisibility};
use crate::error::{Error, ErrorKind, Result};
use crate::format::names::TimestampedName;

/// A snapshot that takes the place of one some of whose fragments are gone.
#[derive(Debug)]
pub enum SnapshotSuccessor {
    /// The snapshot shows the same cells, from the fragments that hold them by now.
    SameCells(Snapshot),
    /// The snapshot may show other cells: those of the present, or those that are recorded by now for a fixed time.
    OtherCells(Snapshot),
}

/// What has become of a snapshot some of whose fragments are gone.
struct SnapshotSuccession {
    /// One of the fragments that are gone.
    gone: String,
    stand_in: StandIn,
}

/// What shows the cells of fragments that are gone.
enum StandIn {
    /// No fragment shows them any longer at the time of the old snapshot.
    Nothing,
    /// These fragments, and nothing else.
    Same(Snapshot),
    /// These fragments, perhaps with others that the old snapshot did not show.
    Perhaps(Snapshot),
}

impl Snapshot {
    /// What has become of the snapshot; `None` if all of its fragments are still there.
    async fn succession(&self) -> Result<Option<SnapshotSuccession>> {
        for _ in 0..MOST_LISTINGS {
            match self.succession_now().await {
                // A vacuum removed a list before it was read. A new listing shows the array without it.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                found => return found,
            }
        }
        Err(Error::conflict(format!(
            "lists of replaced fragments went {MOST_LISTINGS} times before they were read, because somebody vacuums the array: run \
             the statement again"
        ))
        .with("array", self.storage.uri()))
    }

    /// As [`succession`](Self::succession); fails if a list of replaced fragments goes before it is read.
    async fn succession_now(&self) -> Result<Option<SnapshotSuccession>> {
        let now = Self::open(&self.storage, self.window).await?;
        let (here, known) = (now.names(), self.names());
        let is_gone = |f: &&Arc<Fragment>| !here.contains(f.name.name.as_str());
        let gone = self.fragments.iter().filter(is_gone).collect::<Vec<_>>();
        let Some(first) = gone.first() else {
            return Ok(None);
        };
        // What was consolidated spans the times of what it was made of. If it shows cells of later times, it can't replace it.
        let stands_for = |new: &Fragment, old: &Fragment| {
            let spans = new.name.t1 <= old.name.t1 && old.name.t2 <= new.name.t2;
            spans && (new.visibility == WindowVisibility::Whole || new.footer.has_timestamps)
        };
        let new = now
            .fragments
            .iter()
            .filter(|f| !known.contains(f.name.name.as_str()));
        let mut substitutes = new.collect::<Vec<_>>();
        substitutes.retain(|new| gone.iter().any(|old| stands_for(new, old)));
        let is_replaced =
            |old: &&&Arc<Fragment>| substitutes.iter().any(|new| stands_for(new, old));
        let is_complete = gone.iter().filter(is_replaced).count() == gone.len();
        let stand_in = if !is_complete {
            StandIn::Nothing
        } else if self.hold_cells_of(&substitutes, &gone, &now).await? {
            let names = substitutes.iter().map(|f| f.name.name.as_str());
            let wanted = names.chain(known.iter().copied()).collect();
            let deletes = self.deletes.names().map(str::to_owned).collect::<Vec<_>>();
            StandIn::Same(now.restricted(&wanted, &deletes))
        } else {
            StandIn::Perhaps(now.clone())
        };
        Ok(Some(SnapshotSuccession {
            gone: first.name.name.clone(),
            stand_in,
        }))
    }

    /// Whether it is proven that at the time of this snapshot the fragments `new` of the snapshot `now` show the cells of its
    /// fragments `gone`, and no others.
    async fn hold_cells_of(
        &self,
        new: &[&Arc<Fragment>],
        gone: &[&Arc<Fragment>],
        now: &Self,
    ) -> Result<bool> {
        let is_sparse = !self.schema.is_dense();
        let always = OpenWindow::new(TimestampMs(0), Some(TimestampMs(u64::MAX)))?;
        let commits = now
            .directory
            .commits(&self.storage, &always, is_sparse)
            .await?;
        let end = self.window.end_or_now().0;
        let sources = FragmentSources::of(new, gone, &commits.replaced);
        if !is_sparse {
            return Ok(sources.is_some_and(|s| s.has_all && s.others.is_empty()));
        }

        let oldest = gone.iter().map(|f| f.name.t1).min().unwrap_or(0);
        let nothing_deleted = commits.deletes.iter().all(|d| d.name.t1 < oldest);
        let keeps_all = nothing_deleted && new.iter().all(|f| f.footer.has_timestamps);
        let is_as_many = total_cells(new)? == total_cells(gone)?;
        let Some(sources) = sources else {
            return Ok(keeps_all && is_as_many);
        };
        let is_later = |name: &&str| is_later(name, end);
        if !sources.has_all || !sources.others.iter().all(is_later) {
            return Ok(false);
        }
        let nothing_removed = keeps_all || (sources.others.is_empty() && is_as_many);
        Ok(nothing_removed && (nothing_deleted || self.knows_deletes_of(new).await?))
    }

    /// Whether `new` have processed only deletes that this snapshot has seen, besides those of later times.
    async fn knows_deletes_of(&self, new: &[&Arc<Fragment>]) -> Result<bool> {
        let end = self.window.end_or_now().0;
        for fragment in new.iter().filter(|f| f.footer.has_delete_metadata) {
            let processed = fragment.processed_conditions(&self.storage).await?;
            let mut unknown = processed.iter().filter(|name| !self.deletes.knows(name));
            if !unknown.all(|name| is_later(name, end)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A snapshot that takes the place of this one, some of whose fragments are gone; `None` if none is gone. The new snapshot
    /// shows the same cells if that is proven. Otherwise it shows those of the present, or if the old one is of a `fixed` time,
    /// those that are recorded for that time by now.
    ///
    /// # Errors
    /// The store fails, or the cells of a fixed time are gone.
    pub async fn successor(&self, fixed: bool) -> Result<Option<SnapshotSuccessor>> {
        let Some(SnapshotSuccession { gone, stand_in }) = self.succession().await? else {
            return Ok(None);
        };
        Ok(Some(match stand_in {
            StandIn::Same(now) => SnapshotSuccessor::SameCells(now),
            StandIn::Perhaps(now) if fixed => SnapshotSuccessor::OtherCells(now),
            StandIn::Nothing if fixed => return Err(self.vacuumed(&gone, false)),
            StandIn::Perhaps(_) | StandIn::Nothing => {
                let window = OpenWindow::new(self.window.start, None)?;
                SnapshotSuccessor::OtherCells(Self::open(&self.storage, window).await?)
            }
        }))
    }

    /// The error for a file that is missing, which says so if its fragment was vacuumed since the snapshot was taken.
    pub async fn explain_missing(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::NotFound {
            return error;
        }
        match self.succession().await {
            Ok(Some(SnapshotSuccession { gone, stand_in })) => {
                let is_replaced = !matches!(stand_in, StandIn::Nothing);
                self.vacuumed(&gone, is_replaced).with_source(error)
            }
            Ok(None) => error,
            Err(cause) => Error::new(
                cause.kind(),
                format!("{error}, and the array can't be opened again to see why: {cause}"),
            ),
        }
    }

    fn vacuumed(&self, gone: &str, is_replaced: bool) -> Error {
        let advice = if is_replaced {
            "run the statement again, and vacuum with a min_age that is longer than statements take"
                .to_owned()
        } else {
            format!(
                "nothing shows what the array held at {} ms any longer; run the statement again to read it as it is now, or \
                 at another time",
                self.window.end_or_now()
            )
        };
        Error::conflict(format!(
            "the fragment {gone} was consolidated, and vacuumed while this statement read it: {advice}"
        ))
        .with("array", self.storage.uri())
    }
}

/// Whether a fragment, or a delete, has only times after `end`.
fn is_later(name: &str, end: u64) -> bool {
    TimestampedName::parse(name).is_ok_and(|name| end < name.t1)
}

/// The number of cells of sparse fragments, all versions counted.
fn total_cells(fragments: &[&Arc<Fragment>]) -> Result<u128> {
    let mut total = 0;
    for fragment in fragments {
        total += u128::from(fragment.cell_count()?.unwrap_or(u64::MAX));
    }
    Ok(total)
}

/// The fragments that others were made of.
struct FragmentSources<'a> {
    /// Whether all fragments that are gone are among them.
    has_all: bool,
    /// Those that are not among the fragments that are gone.
    others: Vec<&'a str>,
}

impl<'a> FragmentSources<'a> {
    /// Finds the sources of `new` in the lists `replaced`; `None` if a fragment of `new` has no list. The sources of a source count,
    /// too.
    fn of(
        new: &[&'a Arc<Fragment>],
        gone: &[&Arc<Fragment>],
        replaced: &'a HashMap<String, Vec<String>>,
    ) -> Option<Self> {
        let names = gone.iter().map(|f| f.name.name.as_str());
        let gone = names.collect::<HashSet<_>>();
        let names = new.iter().map(|f| f.name.name.as_str());
        let mut pending = names.collect::<Vec<_>>();
        if !pending.iter().all(|name| replaced.contains_key(*name)) {
            return None;
        }
        let (mut seen, mut others) = (HashSet::new(), Vec::new());
        while let Some(name) = pending.pop() {
            if !seen.insert(name) || gone.contains(name) {
                continue;
            }
            match replaced.get(name) {
                Some(names) => pending.extend(names.iter().map(String::as_str)),
                None => others.push(name),
            }
        }
        Some(Self {
            has_all: gone.iter().all(|name| seen.contains(name)),
            others,
        })
    }
}
