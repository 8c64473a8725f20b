//! Several fragments become one: the plan, the new fragment, its verification and its commit, group by group.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::cells::KeptVersions;
use super::cells::deleted::InputDeletes;
use super::cells::dense::{DenseInput, DenseMerge};
use super::cells::source::DropsDeleted;
use super::choice;
use super::options::{ConsolidateMode, ConsolidateOptions};
use super::replace;
use super::rounds::{self, MergePolicy, MergeRounds, SparseInput, unopened};
use crate::array::fragment::Fragment;
use crate::array::snapshot::Snapshot;
use crate::array::window::{OpenWindow, TimestampMs};
use crate::error::{Error, Result};
use crate::format::names::TimestampedName;
use crate::geometry::domain::KeyBox;
use crate::maintain::plan::{self, MergeCandidate};
use crate::maintain::report::{ReportRow, StepOutcome};
use crate::storage::Storage;
use crate::write::fields::RecordedFields;
use crate::write::fragment::StagedFragment;

/// Since this version, a sparse fragment shows some of its cells even if others are outside the window of time.
const PARTLY_VISIBLE_SINCE: u32 = 15;

/// Consolidates fragments, or reports what that would do.
pub(super) async fn consolidate(
    storage: &Storage,
    options: &ConsolidateOptions,
) -> Result<Vec<ReportRow>> {
    let mut rows = replace::complete(storage, options.dry_run).await?;
    let window = OpenWindow::new(TimestampMs(0), None)?;
    let snapshot = Snapshot::open(storage, window).await?;
    let mut all = choice::candidates(&snapshot)?;
    choice::mark_shrinking(&snapshot, options, &mut all).await?;
    let terms = choice::terms(&snapshot.schema, options);
    let groups = choice::groups(&all, options, terms)?;
    let cells = |index: &usize| cells_of(&snapshot, *index);
    for group in &groups {
        options.progress.expect(group.iter().map(cells).sum());
    }
    for group in groups {
        let step = MergeStep {
            snapshot: &snapshot,
            all: &all,
            group: &group,
            options,
        };
        rows.push(step.run().await?);
        if !options.dry_run {
            options.progress.finish(group.iter().map(cells).sum());
        }
    }
    Ok(rows)
}

fn cells_of(snapshot: &Snapshot, index: usize) -> u64 {
    let fragment = snapshot.fragments.get(index);
    let cells = fragment.and_then(|f| f.cell_count().ok().flatten());
    cells.unwrap_or(0)
}

/// One group of fragments.
struct MergeStep<'a> {
    snapshot: &'a Snapshot,
    all: &'a [MergeCandidate],
    group: &'a [usize],
    options: &'a ConsolidateOptions,
}

impl MergeStep<'_> {
    async fn run(&self) -> Result<ReportRow> {
        let (t1, t2) = self.times();
        let bytes = self
            .members()
            .map(|c| c.bytes)
            .fold(0_u64, u64::saturating_add);
        let mut row = ReportRow {
            mode: ConsolidateMode::Fragments.name(),
            action: match self.group.len() {
                1 => "purge",
                _ => "merge",
            },
            object: format!("__fragments/__{t1}_{t2}"),
            inputs: self.group.len() as u64,
            bytes_read: bytes,
            bytes_written: None,
            bytes_freed: bytes,
            gain: self.gain(),
            outcome: StepOutcome::Planned,
        };
        if let Some(obstacle) = self.obstacle_to_dropping() {
            row.outcome = StepOutcome::Skipped(obstacle);
            return Ok(row);
        }
        if self.options.dry_run {
            return Ok(row);
        }
        let options = self.options;
        let name = options
            .clock
            .fresh_fragment_name(TimestampMs(t1), TimestampMs(t2))?;
        let written = if self.snapshot.schema.is_dense() {
            Some(self.write_dense(&name).await?)
        } else {
            self.write_sparse(&name, t2).await?
        };
        let Some(staged) = written else {
            let why = "all their cells are deleted, and a fragment has at least one";
            row.outcome = StepOutcome::Skipped(why.to_owned());
            return Ok(row);
        };
        staged.folder().clone_into(&mut row.object);
        row.bytes_written = Some(staged.bytes);
        replace::replace(self.snapshot, self.group, staged, options).await?;
        row.outcome = StepOutcome::Done;
        Ok(row)
    }

    fn members(&self) -> impl Iterator<Item = &MergeCandidate> {
        self.group.iter().filter_map(|index| self.all.get(*index))
    }

    fn fragments(&self) -> impl Iterator<Item = &Arc<Fragment>> {
        let fragments = &self.snapshot.fragments;
        self.group.iter().filter_map(|index| fragments.get(*index))
    }

    /// The times of the new fragment. Cells without times of their own take the time of the last.
    fn times(&self) -> (u64, u64) {
        let t1 = self.members().map(|c| c.t1).min().unwrap_or(0);
        let t2 = self.members().map(|c| c.t2).max().unwrap_or(0);
        if self.options.timestamps || self.snapshot.schema.is_dense() {
            (t1, t2)
        } else {
            (t2, t2)
        }
    }

    fn gain(&self) -> String {
        let cells = self
            .group
            .iter()
            .map(|index| cells_of(self.snapshot, *index))
            .fold(0_u64, u64::saturating_add);
        match self.group.len() {
            1 => format!("deleted cells of 1 fragment are dropped, of {cells} cells"),
            several => format!("{several} fragments become 1, of {cells} cells"),
        }
    }

    /// Whether deleted or replaced cells are dropped.
    fn drops(&self) -> bool {
        self.options.purge_deleted || !self.options.timestamps
    }

    fn has_deletes(&self) -> bool {
        self.fragments()
            .any(|f| f.footer.has_delete_metadata || !self.snapshot.deletes.of(f).is_empty())
    }

    /// The reason why deleted cells cannot be dropped: they hide cells of an older fragment, which would show again.
    fn obstacle_to_dropping(&self) -> Option<String> {
        let schema = &self.snapshot.schema;
        if schema.is_dense() || schema.allows_duplicates || !self.drops() || !self.has_deletes() {
            return None;
        }
        let last = self.members().map(|c| c.t2).max()?;
        let others = self.all.iter().enumerate();
        let mut older = others.filter(|(i, c)| !self.group.contains(i) && c.t1 <= last);
        older.next().map(|(_, other)| {
            format!(
                "deleted cells hide older ones of the fragment {}, and so are not dropped without it",
                other.name
            )
        })
    }

    async fn write_sparse(&self, name: &str, t2: u64) -> Result<Option<StagedFragment>> {
        let options = self.options;
        let storage = &self.snapshot.storage;
        let until = if options.timestamps { u64::MAX } else { t2 };
        let mut inputs = Vec::new();
        let mut markers = BTreeSet::new();
        for fragment in self.fragments() {
            let pending = self.snapshot.deletes.of(fragment);
            markers.extend(pending.iter().map(|delete| delete.delete.marker.clone()));
            let processed = if fragment.footer.has_delete_metadata {
                Some(fragment.processed_paths(storage).await?)
            } else {
                None
            };
            markers.extend(processed.iter().flatten().cloned());
            inputs.push(SparseInput {
                time: self.cell_time(fragment),
                fragment: Arc::clone(fragment),
                pending,
                processed,
            });
        }
        let markers = markers.into_iter().collect::<Vec<_>>();
        // If cells have no times, deletes before the time of the fragment are done with it. A delete of that time may belong to a
        // change whose new rows it spares, and readers would apply it to them, so the fragment records it.
        let later = markers.iter().any(|marker| delete_time(marker) >= until);
        let records = self.has_deletes() && (options.timestamps || later);
        let goal = MergePolicy {
            recorded: RecordedFields {
                times: options.timestamps,
                deletes: records.then(|| markers.clone()),
            },
            drops_deleted: self.drops().then_some(DropsDeleted { until }),
            versions: match (options.timestamps, options.purge_deleted) {
                (true, false) => KeptVersions::All,
                (true, true) => KeptVersions::Alive,
                (false, _) => KeptVersions::Newest,
            },
        };
        let rounds = MergeRounds {
            snapshot: self.snapshot,
            options,
            markers: &markers,
        };
        rounds.write(inputs, &goal, name).await
    }

    async fn write_dense(&self, name: &str) -> Result<StagedFragment> {
        let options = self.options;
        let output = rounds::output(self.snapshot, RecordedFields::default(), None)?;
        let numbered = self.fragments().zip(0_u32..).zip(self.members());
        let inputs = numbered
            .map(|((fragment, age), member)| {
                let cells = member
                    .cells
                    .clone()
                    .ok_or_else(|| Error::internal("a dense fragment has no box"))?;
                let (fragment, time) = (Arc::clone(fragment), self.cell_time(fragment));
                let source = unopened(fragment, age, time, &output, InputDeletes::default());
                Ok(DenseInput { source, cells })
            })
            .collect::<Result<Vec<_>>>()?;
        let boxes = inputs
            .iter()
            .map(|input| &input.cells)
            .collect::<Vec<&KeyBox>>();
        let whole = plan::union(&boxes);
        let storage = &self.snapshot.storage;
        let merge = DenseMerge {
            storage: storage.clone(),
            cells: whole.ok_or_else(|| Error::internal("nothing is merged"))?,
            inputs,
            output: Arc::clone(&output),
            budget: Arc::clone(&options.budget),
            width: rounds::width(),
            progress: Arc::clone(&options.progress),
        };
        let (staged, _) = merge.write(name).await?;
        let verified = async {
            let written = rounds::reopened(storage, &staged).await?;
            if options.verify {
                let deletes = InputDeletes::default();
                let written = unopened(Arc::new(written), 0, 0, &output, deletes);
                merge.compare(written).await?;
            }
            Ok(())
        };
        rounds::kept_if(verified.await, staged).await
    }

    /// The time of the cells of a fragment that has none for each. Before format 15 such a fragment shows only if all its times
    /// do, so its cells have the last one, unless that would put them before the cells of another fragment.
    fn cell_time(&self, fragment: &Fragment) -> u64 {
        let name = &fragment.name;
        let between = |other: &MergeCandidate| name.t1 < other.t1 && other.t1 <= name.t2;
        let old = !fragment.footer.version.since(PARTLY_VISIBLE_SINCE);
        if old && !self.all.iter().any(between) {
            name.t2
        } else {
            name.t1
        }
    }
}

/// The time of a delete, by its file.
fn delete_time(marker: &str) -> u64 {
    TimestampedName::parse(marker).map_or(0, |name| name.t1)
}
