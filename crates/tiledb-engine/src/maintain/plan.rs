//! Chooses which fragments are merged, and computes the gain: pure choices over a description of the fragments.
//!
//! Only neighbours in time are chosen, so that fragments stay in their order; named fragments may lie apart if that changes
//! nothing. A dense fragment owns every cell of its box, so dense fragments are only merged if their boxes fill the box around
//! them: the merged fragment has no cell that nobody wrote.

mod boxes;

use self::boxes::uncovered;
pub use self::boxes::union;
use crate::geometry::domain::KeyBox;

/// A fragment that may be merged.
#[derive(Debug, Clone)]
pub struct MergeCandidate {
    /// The name.
    pub name: String,
    /// The first time of its cells, in ms.
    pub t1: u64,
    /// The last time of its cells, in ms.
    pub t2: u64,
    /// The bytes of its files.
    pub bytes: u64,
    /// The box of a dense fragment.
    pub cells: Option<KeyBox>,
    /// Whether it may be merged at all; others stand between their neighbours.
    pub mergeable: bool,
    /// Whether the fragment is worth rewriting alone, because some of its cells are dropped.
    pub shrinks: bool,
}

/// How many fragments are merged at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct MergeGrouping {
    /// The fewest fragments of a group.
    pub min_fragments: usize,
    /// The most fragments of a group.
    pub max_fragments: usize,
    /// Neighbours of a group differ in size by no more than this: smaller bytes / larger bytes, from 0 to 1.
    pub size_ratio: f64,
    /// The bytes of a group are at most these.
    pub max_bytes: u64,
    /// The most groups.
    pub steps: usize,
}

impl Default for MergeGrouping {
    fn default() -> Self {
        Self {
            min_fragments: 2,
            max_fragments: usize::MAX,
            size_ratio: 0.0,
            max_bytes: u64::MAX,
            steps: usize::MAX,
        }
    }
}

/// The conditions under which a set of fragments can be merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MergeTerms {
    /// The array is dense.
    pub dense: bool,
    /// Cells of the same coordinates are different cells.
    pub allows_duplicates: bool,
    /// Cells keep their times.
    pub timestamps: bool,
    /// Boxes of dense fragments need not fill the box around them.
    pub fills_gaps: bool,
}

/// The reason why a set of fragments cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// This fragment cannot be merged.
    Unmergeable(String),
    /// This fragment, which is not in the set, lies between them in time.
    Between(String),
    /// The box around the fragments has cells that none of them wrote; the number of these cells, if it can be counted.
    Gaps(Option<u128>),
    /// The box around the fragments, with cells that none of them wrote, lies over this older fragment.
    Hidden(String),
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unmergeable(name) => {
                write!(f, "the fragment {name} is of a kind that is not merged")
            }
            Self::Between(name) => write!(
                f,
                "the fragment {name} lies between them in time, and its cells among theirs: name it, too"
            ),
            Self::Gaps(Some(cells)) => write!(
                f,
                "in the box around them are {cells} cells that none of them wrote; 'fill_gaps' writes fill values there"
            ),
            Self::Gaps(None) => write!(
                f,
                "in the box around them are cells that none of them wrote; 'fill_gaps' writes fill values there"
            ),
            Self::Hidden(name) => write!(
                f,
                "fill values between them would hide cells of the older fragment {name}: name it, too"
            ),
        }
    }
}

/// The groups to merge, each in ascending order of age: indices into `all`, which is in the order of age.
pub fn choose(
    all: &[MergeCandidate],
    among: &[usize],
    grouping: &MergeGrouping,
    terms: MergeTerms,
) -> Vec<Vec<usize>> {
    let mut groups = Vec::new();
    for run in runs(all, among) {
        let whole = grouping.size_ratio <= 0.0
            && grouping.max_fragments >= run.len()
            && grouping.max_bytes == u64::MAX;
        if whole {
            merge_whole(all, &run, grouping, terms, &mut groups)
        } else {
            merge_parts(all, &run, grouping, terms, &mut groups)
        }
    }
    groups.truncate(grouping.steps);
    groups
}

/// Neighbours in the order of age that may be merged.
fn runs(all: &[MergeCandidate], among: &[usize]) -> Vec<Vec<usize>> {
    let mut runs: Vec<Vec<usize>> = Vec::new();
    for index in among {
        if !all.get(*index).is_some_and(|c| c.mergeable) {
            runs.push(Vec::new());
            continue;
        }
        match runs.last_mut() {
            Some(run) if run.last().is_some_and(|last| last + 1 == *index) => run.push(*index),
            _ => runs.push(vec![*index]),
        }
    }
    runs.retain(|run| run.len() > 1);
    runs
}

/// The longest groups, from the oldest fragment on.
fn merge_whole(
    all: &[MergeCandidate],
    run: &[usize],
    grouping: &MergeGrouping,
    terms: MergeTerms,
    groups: &mut Vec<Vec<usize>>,
) {
    let mut start = 0;
    while start < run.len() {
        let fits = |end: &usize| {
            let group = run.get(start..*end).unwrap_or_default();
            obstacle(all, group, terms).is_none()
        };
        let least = start + grouping.min_fragments.max(2);
        // A long run is shortened by eighths, so that a choice among thousands of fragments stays cheap.
        let mut ends = Vec::new();
        let mut len = run.len() - start;
        while start + len >= least {
            ends.push(start + len);
            len -= (len / 8).max(1);
        }
        match ends.into_iter().find(fits) {
            Some(end) => {
                groups.push(run.get(start..end).unwrap_or_default().to_vec());
                start = end;
            }
            None => start += 1,
        }
    }
}

/// Groups by size, the cheapest first: it writes the fewest bytes for each fragment that it saves. The older of two groups with
/// about the same cost comes first.
fn merge_parts(
    all: &[MergeCandidate],
    run: &[usize],
    grouping: &MergeGrouping,
    terms: MergeTerms,
    groups: &mut Vec<Vec<usize>>,
) {
    let bytes = |index: usize| all.get(index).map_or(0, |c| c.bytes);
    let alike = |a: usize, b: usize| {
        let (small, large) = (bytes(a).min(bytes(b)), bytes(a).max(bytes(b)));
        small as f64 >= grouping.size_ratio * large as f64
    };
    let least = grouping.min_fragments.max(2);
    // The longest group that begins with each fragment.
    let longest = |start: usize| {
        let (mut end, mut sum) = (start, 0_u64);
        while let Some(index) = run.get(end) {
            let next = sum.saturating_add(bytes(*index));
            let joined = end == start
                || run
                    .get(end - 1)
                    .is_some_and(|before| alike(*before, *index));
            if next > grouping.max_bytes || end - start >= grouping.max_fragments || !joined {
                break;
            }
            (end, sum) = (end + 1, next);
        }
        while end >= start + least {
            let group = run.get(start..end).unwrap_or_default();
            if obstacle(all, group, terms).is_none() {
                return Some((sum, start, end));
            }
            end -= 1;
            sum = sum.saturating_sub(run.get(end).map_or(0, |index| bytes(*index)));
        }
        None
    };
    let mut found = (0..run.len()).filter_map(longest).collect::<Vec<_>>();
    // Bytes to write for each saved fragment; a difference below a quarter does not count.
    let cost = |(sum, start, end): &(u64, usize, usize)| {
        let gained = (end - start - 1).max(1) as f64;
        ((*sum as f64 / gained).max(1.0).ln() / 1.25_f64.ln()).floor()
    };
    found.sort_by(|a, b| cost(a).total_cmp(&cost(b)).then(a.1.cmp(&b.1)));
    let mut taken = vec![false; run.len()];
    for (_, start, end) in found {
        let Some(slots) = taken.get_mut(start..end) else {
            continue;
        };
        if !slots.contains(&true) {
            slots.fill(true);
            groups.push(run.get(start..end).unwrap_or_default().to_vec());
        }
    }
}

/// The obstacle to a merge, if there is one; `group` are indices into `all`, ascending.
pub fn obstacle(all: &[MergeCandidate], group: &[usize], terms: MergeTerms) -> Option<Obstacle> {
    let members = || group.iter().filter_map(|index| all.get(*index));
    if let Some(member) = members().find(|c| !c.mergeable) {
        return Some(Obstacle::Unmergeable(member.name.clone()));
    }
    let (first, last) = (*group.first()?, *group.last()?);
    let others = all
        .iter()
        .enumerate()
        .filter(|(index, _)| !group.contains(index));
    if terms.dense {
        return dense_obstacle(all, group, others, (first, last), terms);
    }
    if terms.allows_duplicates {
        return None;
    }
    let whole = (
        members().map(|c| c.t1).min()?,
        members().map(|c| c.t2).max()?,
    );
    for (_, other) in others {
        let meets = |(t1, t2): (u64, u64)| other.t1 <= t2 && other.t2 >= t1;
        // Where cells keep their times, only cells of one time could change places.
        let between = if terms.timestamps {
            meets(whole) && members().any(|c| meets((c.t1, c.t2)))
        } else {
            meets(whole)
        };
        if between {
            return Some(Obstacle::Between(other.name.clone()));
        }
    }
    None
}

fn dense_obstacle<'a>(
    all: &'a [MergeCandidate],
    group: &[usize],
    others: impl Iterator<Item = (usize, &'a MergeCandidate)>,
    (first, last): (usize, usize),
    terms: MergeTerms,
) -> Option<Obstacle> {
    let members = || group.iter().filter_map(|index| all.get(*index));
    let boxes = members()
        .map(|c| c.cells.as_ref())
        .collect::<Option<Vec<_>>>()?;
    let whole = union(&boxes)?;
    let gaps = uncovered(&whole, &boxes);
    if gaps != Some(0) && !terms.fills_gaps {
        return Some(Obstacle::Gaps(gaps));
    }
    let t1 = all.get(first)?.t1;
    for (index, other) in others {
        let meets = other
            .cells
            .as_ref()
            .is_none_or(|cells| cells.intersects(&whole));
        if !meets {
            continue;
        }
        // The merged fragment has the time of the first, and a name that sorts anywhere among those of this time.
        if (index > first && index < last) || other.t1 == t1 {
            return Some(Obstacle::Between(other.name.clone()));
        }
        if gaps != Some(0) && index < first {
            return Some(Obstacle::Hidden(other.name.clone()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sparse(sizes: &[u64]) -> Vec<MergeCandidate> {
        let numbered = sizes.iter().zip(1..);
        let fragment = |(bytes, t): (&u64, u64)| MergeCandidate {
            name: format!("f{t}"),
            t1: t,
            t2: t,
            bytes: *bytes,
            cells: None,
            mergeable: true,
            shrinks: false,
        };
        numbered.map(fragment).collect()
    }

    fn dense(boxes: &[(u64, u64, u64, u64)]) -> Vec<MergeCandidate> {
        let mut all = sparse(&vec![1; boxes.len()]);
        for (candidate, (x0, x1, y0, y1)) in all.iter_mut().zip(boxes) {
            candidate.cells = KeyBox::new(vec![*x0, *y0], vec![*x1, *y1]);
        }
        all
    }

    const SPARSE: MergeTerms = MergeTerms {
        dense: false,
        allows_duplicates: false,
        timestamps: true,
        fills_gaps: false,
    };
    const DENSE: MergeTerms = MergeTerms {
        dense: true,
        ..SPARSE
    };

    fn all_of(candidates: &[MergeCandidate]) -> Vec<usize> {
        (0..candidates.len()).collect()
    }

    #[test]
    fn everything_becomes_one_unless_something_stands_between() {
        let mut all = sparse(&[5, 1, 9, 2]);
        let among = all_of(&all);
        let grouping = MergeGrouping::default();
        assert_eq!(choose(&all, &among, &grouping, SPARSE), [[0, 1, 2, 3]]);
        all[1].mergeable = false;
        assert_eq!(choose(&all, &among, &grouping, SPARSE), [[2, 3]]);
        assert_eq!(choose(&all, &[0, 2, 3], &grouping, SPARSE), [[2, 3]]);
        assert!(choose(&all, &[0, 2], &grouping, SPARSE).is_empty());
    }

    #[test]
    fn groups_are_cut_by_size_number_and_steps() {
        let all = sparse(&[10, 10, 10, 1000, 10, 10, 900]);
        let among = all_of(&all);
        let by = |grouping| choose(&all, &among, &grouping, SPARSE);
        let default = MergeGrouping::default;
        assert_eq!(
            by(MergeGrouping {
                max_bytes: 100,
                ..default()
            }),
            [vec![0, 1, 2], vec![4, 5]]
        );
        assert_eq!(
            by(MergeGrouping {
                size_ratio: 0.5,
                ..default()
            }),
            [vec![0, 1, 2], vec![4, 5]]
        );
        assert_eq!(
            by(MergeGrouping {
                max_fragments: 2,
                ..default()
            })[..2],
            [[0, 1], [4, 5]]
        );
        assert_eq!(
            by(MergeGrouping {
                max_bytes: 100,
                steps: 1,
                ..default()
            }),
            [[0, 1, 2]]
        );
        assert_eq!(
            by(MergeGrouping {
                max_bytes: 100,
                min_fragments: 3,
                ..default()
            }),
            [[0, 1, 2]]
        );
        assert!(
            by(MergeGrouping {
                min_fragments: 8,
                ..default()
            })
            .is_empty()
        );
    }

    #[test]
    fn cells_of_one_time_stay_in_their_order() {
        let mut all = sparse(&[1, 1, 1]);
        all[2].t1 = 2;
        all[2].t2 = 2;
        let between = |group: &[usize], terms| obstacle(&all, group, terms);
        assert_eq!(
            between(&[0, 1], SPARSE),
            Some(Obstacle::Between("f3".to_owned()))
        );
        assert_eq!(between(&[0, 1, 2], SPARSE), None);
        let duplicates = MergeTerms {
            allows_duplicates: true,
            ..SPARSE
        };
        assert_eq!(between(&[0, 1], duplicates), None);
        let all = sparse(&[1, 1, 1]);
        assert_eq!(obstacle(&all, &[0, 2], SPARSE), None);
        let newest = MergeTerms {
            timestamps: false,
            ..SPARSE
        };
        assert_eq!(
            obstacle(&all, &[0, 2], newest),
            Some(Obstacle::Between("f2".to_owned()))
        );
    }

    #[test]
    fn boxes_must_fill_the_box_around_them() {
        let rows = dense(&[(0, 4, 0, 9), (5, 9, 0, 9), (2, 6, 3, 3)]);
        assert_eq!(obstacle(&rows, &[0, 1, 2], DENSE), None);
        assert_eq!(
            obstacle(&rows, &[0, 2], DENSE),
            Some(Obstacle::Gaps(Some(18)))
        );
        let filling = MergeTerms {
            fills_gaps: true,
            ..DENSE
        };
        assert_eq!(
            obstacle(&rows, &[0, 2], filling),
            Some(Obstacle::Between("f2".to_owned()))
        );
        assert_eq!(
            obstacle(&rows, &[1, 2], filling),
            Some(Obstacle::Hidden("f1".to_owned()))
        );
        let apart = dense(&[(0, 1, 0, 1), (8, 9, 8, 9), (2, 3, 0, 1)]);
        assert_eq!(obstacle(&apart, &[0, 2], DENSE), None);
        assert_eq!(
            choose(&apart, &all_of(&apart), &MergeGrouping::default(), DENSE),
            Vec::<Vec<usize>>::new()
        );
        assert_eq!(
            choose(&apart, &all_of(&apart), &MergeGrouping::default(), filling),
            [[0, 1, 2]]
        );
    }
}
