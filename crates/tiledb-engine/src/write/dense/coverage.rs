//! Whether dense fragments cover everything that an array shows, as INSERT OVERWRITE requires.

use crate::array::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::format::domain_range::DomainRange;
use crate::geometry::domain::KeyBox;
use crate::write::fragment::StagedFragment;

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
    let datatypes = schema
        .dimensions
        .iter()
        .map(|dimension| dimension.datatype)
        .collect::<Vec<_>>();
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
                "the rows of INSERT OVERWRITE do not give every cell of the dense array's non-empty domain, and a dense array cannot \
                 remove the others: TRUNCATE the array first, or give all cells",
            )
            .with("array", snapshot.storage.uri()));
        }
    }
    Ok(())
}
