//! What must still hold when a change is committed: that nobody has written meanwhile to the cells it depends on.

use std::collections::HashSet;

use super::fragment::StagedFragment;
use crate::array::fragment::Fragment;
use crate::array::snapshot::{Seen, Snapshot};
use crate::array::window::{OpenWindow, TimestampMs};
use crate::error::{Error, Result};
use crate::format::domain_range::DomainRange;
use crate::geometry::domain::{Bounds, KeyBox};

/// Fails if somebody has written since `snapshot` to one of the boxes that were filled from it: the new fragment would hide
/// that.
///
/// # Errors
/// There is such a fragment, or the array cannot be listed.
pub async fn check_unchanged(snapshot: &Snapshot, filled: &[KeyBox]) -> Result<()> {
    if filled.is_empty() {
        return Ok(());
    }
    let window = OpenWindow::new(TimestampMs(0), None)?;
    let now = snapshot.reopen(&snapshot.storage, window).await?;
    let known = snapshot
        .fragments
        .iter()
        .map(|fragment| fragment.name.name.as_str());
    let known = known.collect::<HashSet<_>>();
    let newer = now
        .fragments
        .iter()
        .filter(|f| !known.contains(f.name.name.as_str()));
    for fragment in newer {
        let datatypes = fragment.dimension_datatypes();
        let domain = fragment.footer.non_empty_domain.as_ref();
        let domain = domain
            .map(|domain| KeyBox::from_ranges(&datatypes, domain))
            .transpose()?;
        if domain.is_none_or(|domain| filled.iter().any(|cells| cells.intersects(&domain))) {
            return Err(Error::conflict(format!(
                "the fragment {} was written meanwhile over cells that this statement copies to fill a tile: run the \
                 statement again",
                fragment.name.name
            ))
            .with("array", snapshot.storage.uri()));
        }
    }
    Ok(())
}

/// Fails if somebody has written, since the rows of a change were read, to the region that it changes: the change would hide
/// that. `read` is what the scans of the change have seen.
///
/// # Errors
/// There is such a fragment or delete, or the array cannot be listed.
pub async fn check_not_overtaken(
    snapshot: &Snapshot,
    read: &[Seen],
    changed: &[StagedFragment],
) -> Result<()> {
    check(snapshot, read, |fragment| {
        changed.iter().any(|change| meets(fragment, change))
    })
    .await
}

/// As [`check_not_overtaken`], for a change that depends on all cells.
///
/// # Errors
/// There is such a fragment or delete, or the array cannot be listed.
pub async fn check_not_overtaken_anywhere(snapshot: &Snapshot, read: &[Seen]) -> Result<()> {
    check(snapshot, read, |_| true).await
}

async fn check(
    snapshot: &Snapshot,
    read: &[Seen],
    concerns: impl Fn(&Fragment) -> bool,
) -> Result<()> {
    let window = OpenWindow::new(TimestampMs(0), None)?;
    let now = snapshot.reopen(&snapshot.storage, window).await?;
    let unseen = |name: &str, names: fn(&Seen) -> &[String]| {
        read.iter()
            .any(|seen| !names(seen).iter().any(|known| known == name))
    };
    for fragment in now.fragments.iter() {
        if unseen(&fragment.name.name, |seen| &seen.fragments) && concerns(fragment) {
            return Err(overtaken(snapshot, "fragment", &fragment.name.name));
        }
    }
    let mut deletes = now.deletes.names();
    match deletes.find(|name| unseen(name, |seen| &seen.deletes)) {
        Some(delete) => Err(overtaken(snapshot, "delete", delete)),
        None => Ok(()),
    }
}

fn overtaken(snapshot: &Snapshot, what: &str, name: &str) -> Error {
    Error::conflict(format!(
        "the {what} {name} was committed while this statement read the cells that it changes: run the statement again"
    ))
    .with("array", snapshot.storage.uri())
}

/// Whether the cells of a fragment and of one that is to be committed lie in a common region.
fn meets(fragment: &Fragment, change: &StagedFragment) -> bool {
    let datatypes = fragment.dimension_datatypes();
    let domains =
        [&fragment.footer, &change.footer].map(|footer| footer.non_empty_domain.as_deref());
    let [Some(theirs), Some(ours)] = domains else {
        return true;
    };
    let apart = |((datatype, a), b): ((_, &DomainRange), &DomainRange)| {
        let bounds = [a, b].map(|range| Bounds::from_range(datatype, range));
        matches!(bounds, [Ok(a), Ok(b)] if !a.intersects(&b))
    };
    !datatypes.into_iter().zip(theirs).zip(ours).any(apart)
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
