//! Which fragments of an array are merged: those that are named, or the groups of a plan.

use std::collections::HashSet;

use super::options::ConsolidateOptions;
use crate::array::fragment::Fragment;
use crate::array::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::format::schema::ArraySchema;
use crate::geometry::domain::KeyBox;
use crate::maintain::plan::{self, Candidate, Terms};

/// The visible fragments, in the order of age.
pub(super) fn candidates(snapshot: &Snapshot) -> Result<Vec<Candidate>> {
    let fragments = snapshot.fragments.iter();
    let candidates = fragments.map(|fragment| {
        Ok(Candidate {
            name: fragment.name.name.clone(),
            t1: fragment.name.t1,
            t2: fragment.name.t2,
            bytes: data_bytes(fragment),
            cells: written_box(fragment)?,
            mergeable: is_mergeable(&snapshot.schema, fragment),
        })
    });
    candidates.collect()
}

/// Whether a fragment can be merged with others and say the same.
///
/// Sparse fragments of old dense arrays are read as they are. Lossy filters move coordinates onto each other: in one
/// fragment these are several cells, and several versions of one in a merged fragment.
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
    let sizes = footer.file_sizes.iter().chain(&footer.var_file_sizes);
    let sizes = sizes.chain(&footer.validity_file_sizes);
    sizes.fold(0, |sum, bytes| sum.saturating_add(*bytes))
}

/// The box of a dense fragment.
fn written_box(fragment: &Fragment) -> Result<Option<KeyBox>> {
    match fragment.footer.dense {
        true => Ok(fragment.dense_tiles()?.map(|tiles| tiles.written().clone())),
        false => Ok(None),
    }
}

/// What makes a set of fragments one that can be merged.
pub(super) fn terms(schema: &ArraySchema, options: &ConsolidateOptions) -> Terms {
    Terms {
        dense: schema.is_dense(),
        allows_duplicates: schema.allows_duplicates,
        timestamps: options.timestamps,
        fills_gaps: options.fills_gaps,
    }
}

/// The groups to merge: indices into the fragments of the snapshot, ascending.
pub(super) fn groups(
    all: &[Candidate],
    options: &ConsolidateOptions,
    terms: Terms,
) -> Result<Vec<Vec<usize>>> {
    let in_time = |candidate: &Candidate| {
        options.start.is_none_or(|start| start <= candidate.t1)
            && options.end.is_none_or(|end| candidate.t2 <= end)
    };
    let among = all.iter().enumerate().filter(|(_, c)| in_time(c));
    let among = among.map(|(index, _)| index).collect::<Vec<_>>();
    if options.fragments.is_empty() {
        return Ok(plan::choose(all, &among, &options.grouping, terms));
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
            .map(|c| &c.name);
        let found = found.collect::<HashSet<_>>();
        let missing = wanted.iter().filter(|name| !found.contains(name));
        let missing = missing.map(String::as_str).collect::<Vec<_>>().join(", ");
        return Err(Error::invalid(format!(
            "the array shows no such fragments in these times: {missing}; tiledb_fragments lists what there is"
        )));
    }
    if group.len() < 2 {
        return Err(Error::invalid("name at least two fragments"));
    }
    match plan::obstacle(all, &group, terms) {
        Some(obstacle) => Err(Error::invalid(format!(
            "these fragments cannot be merged: {obstacle}"
        ))),
        None => Ok(vec![group]),
    }
}
