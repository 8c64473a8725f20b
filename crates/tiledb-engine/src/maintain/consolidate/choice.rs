//! Chooses which fragments of an array are merged: the named ones, or the groups of a plan. A single fragment is written again
//! if the consolidation drops deleted cells and the fragment has any.

use std::collections::HashSet;

use super::cells::deleted::NEVER;
use super::options::ConsolidateOptions;
use crate::array::fragment::statistics::{FieldStatistics, StatisticsWanted};
use crate::array::fragment::{Fragment, FragmentField};
use crate::array::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::format::schema::ArraySchema;
use crate::geometry::domain::KeyBox;
use crate::maintain::plan::{self, MergeCandidate, MergeGrouping, MergeTerms};

/// The visible fragments, in the order of age.
pub(super) fn candidates(snapshot: &Snapshot) -> Result<Vec<MergeCandidate>> {
    let fragments = snapshot.fragments.iter();
    let candidates = fragments.map(|fragment| {
        Ok(MergeCandidate {
            name: fragment.name.name.clone(),
            t1: fragment.name.t1,
            t2: fragment.name.t2,
            bytes: data_bytes(fragment),
            cells: written_box(fragment)?,
            mergeable: is_mergeable(&snapshot.schema, fragment),
            shrinks: false,
        })
    });
    candidates.collect()
}

/// Marks the fragments whose deleted cells a consolidation drops.
pub(super) async fn mark_shrinking(
    snapshot: &Snapshot,
    options: &ConsolidateOptions,
    candidates: &mut [MergeCandidate],
) -> Result<()> {
    if !options.purge_deleted || snapshot.schema.is_dense() {
        return Ok(());
    }
    for (candidate, fragment) in candidates.iter_mut().zip(snapshot.fragments.iter()) {
        let is_pending = !snapshot.deletes.of(fragment).is_empty();
        candidate.shrinks = is_pending || has_deleted_cells(snapshot, fragment).await?;
    }
    Ok(())
}

/// Whether a fragment records deletions of its cells.
async fn has_deleted_cells(snapshot: &Snapshot, fragment: &Fragment) -> Result<bool> {
    if !fragment.footer.has_delete_metadata {
        return Ok(false);
    }
    let wanted = StatisticsWanted {
        min_max: true,
        ..StatisticsWanted::default()
    };
    let field = [FragmentField::DeleteTimestamps];
    let found = fragment
        .statistics(&snapshot.storage, &field, wanted)
        .await?;
    let first_times = found.first().and_then(FieldStatistics::mins::<8>);
    // Without statistics, the fragment may have deleted cells.
    Ok(first_times.is_none_or(|times| times.iter().any(|time| u64::from_le_bytes(*time) != NEVER)))
}

/// Whether a fragment can be merged with others without a change of meaning.
///
/// Sparse fragments of old dense arrays can only be read as they are. Lossy filters move coordinates onto each other: in one
/// fragment these are several cells, and in a merged fragment several versions of one cell.
fn is_mergeable(schema: &ArraySchema, fragment: &Fragment) -> bool {
    let version = fragment.footer.version;
    let lossy = (0..schema.dimensions.len()).any(|d| {
        let filters = fragment.schema.dimension_filters(d, version);
        filters.is_lossy() || schema.dimension_filters(d, version).is_lossy()
    });
    let sparse = !fragment.footer.dense;
    fragment.footer.dense == schema.is_dense() && !(sparse && lossy && !schema.allows_duplicates)
}

/// The bytes of a fragment's data files.
pub(super) fn data_bytes(fragment: &Fragment) -> u64 {
    let footer = &fragment.footer;
    let sizes = footer
        .file_sizes
        .iter()
        .chain(&footer.var_file_sizes)
        .chain(&footer.validity_file_sizes);
    sizes.fold(0, |sum, bytes| sum.saturating_add(*bytes))
}

/// The box of a dense fragment.
fn written_box(fragment: &Fragment) -> Result<Option<KeyBox>> {
    if fragment.footer.dense {
        Ok(fragment.dense_tiles()?.map(|tiles| tiles.written().clone()))
    } else {
        Ok(None)
    }
}

/// The conditions under which a set of fragments can be merged.
pub(super) fn terms(schema: &ArraySchema, options: &ConsolidateOptions) -> MergeTerms {
    MergeTerms {
        dense: schema.is_dense(),
        allows_duplicates: schema.allows_duplicates,
        timestamps: options.timestamps,
        fills_gaps: options.fills_gaps,
    }
}

/// The groups to merge: indices into the fragments of the snapshot, ascending.
pub(super) fn groups(
    all: &[MergeCandidate],
    options: &ConsolidateOptions,
    terms: MergeTerms,
) -> Result<Vec<Vec<usize>>> {
    let in_time = |candidate: &MergeCandidate| {
        options.start.is_none_or(|start| start <= candidate.t1)
            && options.end.is_none_or(|end| candidate.t2 <= end)
    };
    let among = all
        .iter()
        .enumerate()
        .filter(|(_, c)| in_time(c))
        .map(|(index, _)| index)
        .collect::<Vec<_>>();
    if options.fragments.is_empty() {
        let mut groups = plan::choose(all, &among, &options.grouping, terms);
        shrink_others(all, &among, &options.grouping, terms, &mut groups);
        groups.truncate(options.grouping.steps);
        return Ok(groups);
    }
    let short = |name: &String| {
        name.trim_end_matches('/')
            .rsplit('/')
            .next()
            .map(str::to_owned)
    };
    let wanted = options
        .fragments
        .iter()
        .filter_map(short)
        .collect::<HashSet<_>>();
    let named = |index: &usize| all.get(*index).is_some_and(|c| wanted.contains(&c.name));
    let group = among.into_iter().filter(named).collect::<Vec<_>>();
    if group.len() != wanted.len() {
        let found = group
            .iter()
            .filter_map(|index| all.get(*index))
            .map(|c| &c.name)
            .collect::<HashSet<_>>();
        let missing = wanted
            .iter()
            .filter(|name| !found.contains(name))
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", ");
        return Err(Error::invalid(format!(
            "the array shows no such fragments in these times: {missing}; tiledb_fragments lists what there is"
        )));
    }
    let shrinks = |index: &usize| all.get(*index).is_some_and(|c| c.shrinks);
    if group.len() < 2 && !group.iter().any(shrinks) {
        return Err(Error::invalid(
            "name at least two fragments, or one with deleted cells that 'purge_deleted' drops",
        ));
    }
    match plan::obstacle(all, &group, terms) {
        Some(obstacle) => Err(Error::invalid(format!(
            "these fragments cannot be merged: {obstacle}"
        ))),
        None => Ok(vec![group]),
    }
}

/// Groups of a single fragment that isn't in any other group and shrinks.
fn shrink_others(
    all: &[MergeCandidate],
    among: &[usize],
    grouping: &MergeGrouping,
    terms: MergeTerms,
    groups: &mut Vec<Vec<usize>>,
) {
    if grouping.min_fragments > MergeGrouping::default().min_fragments {
        return;
    }
    let taken = groups.iter().flatten().copied().collect::<HashSet<_>>();
    let shrinks = |candidate: &MergeCandidate| {
        candidate.shrinks && candidate.mergeable && candidate.bytes <= grouping.max_bytes
    };
    let alone = among.iter().filter(|index| {
        let shrinks = all.get(**index).is_some_and(shrinks);
        shrinks && !taken.contains(index) && plan::obstacle(all, &[**index], terms).is_none()
    });
    groups.extend(alone.map(|index| vec![*index]));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maintain::consolidate::options::ConsolidateMode;

    #[test]
    fn what_shrinks_is_written_again_alone() {
        let fragment = |(t, bytes)| MergeCandidate {
            name: format!("f{t}"),
            t1: t,
            t2: t,
            bytes,
            cells: None,
            mergeable: true,
            shrinks: t == 3,
        };
        let mut all = [(1, 10), (2, 20), (3, 30)].map(fragment).to_vec();
        let terms = MergeTerms {
            dense: false,
            allows_duplicates: false,
            timestamps: true,
            fills_gaps: false,
        };
        let by = |all: &[MergeCandidate], change: &dyn Fn(&mut MergeGrouping)| {
            let mut options = ConsolidateOptions::new(ConsolidateMode::Fragments);
            change(&mut options.grouping);
            groups(all, &options, terms).unwrap()
        };
        let none = Vec::<Vec<usize>>::new();
        assert_eq!(by(&all, &|_| {}), [[0, 1, 2]]);
        assert_eq!(by(&all[2..], &|_| {}), [[0]]);
        assert_eq!(by(&all[..2], &|_| {}), [[0, 1]]);
        assert_eq!(by(&all, &|g| g.max_bytes = 30), [vec![0, 1], vec![2]]);
        assert_eq!(by(&all, &|g| (g.max_bytes, g.steps) = (30, 1)), [[0, 1]]);
        assert_eq!(by(&all[2..], &|g| g.max_bytes = 29), none);
        assert_eq!(by(&all[1..], &|g| g.min_fragments = 3), none);
        all[2].t2 = 9;
        all.push(all[2].clone());
        let overlapping = by(&all[2..], &|g| g.max_bytes = 30);
        assert_eq!(overlapping, none);
    }
}
