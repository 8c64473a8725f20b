//! Several fragments become one: what is planned, written, verified and committed, group by group.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use tokio::sync::OnceCell;

use super::cells::deleted::InputDeletes;
use super::cells::dense::{DenseInput, DenseMerge};
use super::cells::feed::Unopened;
use super::cells::order::Order;
use super::cells::source::{DropsDeleted, Output};
use super::cells::sparse::SparseMerge;
use super::cells::{MergedCells, Versions};
use super::choice;
use super::options::{ConsolidateOptions, Mode};
use super::replace;
use crate::array::deletes::PendingDelete;
use crate::array::directory::{ArrayDirectory, CommittedFragment};
use crate::array::fragment::Fragment;
use crate::array::snapshot::{Snapshot, open_alone};
use crate::array::window::{OpenWindow, TimestampMs, Visibility};
use crate::error::{Error, Result};
use crate::format::names::TimestampedName;
use crate::geometry::domain::KeyBox;
use crate::maintain::plan::{self, Candidate};
use crate::maintain::report::{Outcome, ReportRow};
use crate::storage::Storage;
use crate::tile::deletes::DeleteTrees;
use crate::write::fields::{Recorded, WrittenFields};
use crate::write::fragment::StagedFragment;

/// Since this version, sparse fragments show some of their cells where others are outside the window of time.
const PARTLY_VISIBLE_SINCE: u32 = 15;

/// Consolidates fragments, or tells what that would do.
pub(super) async fn consolidate(
    storage: &Storage,
    options: &ConsolidateOptions,
) -> Result<Vec<ReportRow>> {
    let mut rows = replace::complete(storage, options.dry_run).await?;
    let window = OpenWindow::new(TimestampMs(0), None)?;
    let snapshot = Snapshot::open(storage, window).await?;
    let all = choice::candidates(&snapshot)?;
    let terms = choice::terms(&snapshot.schema, options);
    let groups = choice::groups(&all, options, terms)?;
    let cells = |index: &usize| cells_of(&snapshot, *index);
    for group in &groups {
        options.progress.expect(group.iter().map(cells).sum());
    }
    for group in groups {
        let step = Step {
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
struct Step<'a> {
    snapshot: &'a Snapshot,
    all: &'a [Candidate],
    group: &'a [usize],
    options: &'a ConsolidateOptions,
}

impl Step<'_> {
    async fn run(&self) -> Result<ReportRow> {
        let (t1, t2) = self.times();
        let bytes = self
            .members()
            .map(|c| c.bytes)
            .fold(0_u64, u64::saturating_add);
        let mut row = ReportRow {
            mode: Mode::Fragments.name(),
            action: "merge",
            object: format!("__fragments/__{t1}_{t2}"),
            inputs: self.group.len() as u64,
            bytes_read: bytes,
            bytes_written: None,
            bytes_freed: bytes,
            gain: self.gain(),
            outcome: Outcome::Planned,
        };
        if let Some(obstacle) = self.obstacle_to_dropping() {
            row.outcome = Outcome::Skipped(obstacle);
            return Ok(row);
        }
        if self.options.dry_run {
            return Ok(row);
        }
        let options = self.options;
        let name = options
            .clock
            .fresh_fragment_name(TimestampMs(t1), TimestampMs(t2))?;
        let written = match self.snapshot.schema.is_dense() {
            true => Some(self.write_dense(&name).await?),
            false => self.write_sparse(&name, t2).await?,
        };
        let Some(staged) = written else {
            let why = "all their cells are deleted, and a fragment has at least one";
            row.outcome = Outcome::Skipped(why.to_owned());
            return Ok(row);
        };
        staged.folder().clone_into(&mut row.object);
        row.bytes_written = Some(staged.bytes);
        replace::replace(self.snapshot, self.group, staged, options).await?;
        row.outcome = Outcome::Done;
        Ok(row)
    }

    fn members(&self) -> impl Iterator<Item = &Candidate> {
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
        match self.options.timestamps || self.snapshot.schema.is_dense() {
            true => (t1, t2),
            false => (t2, t2),
        }
    }

    fn gain(&self) -> String {
        let cells = self
            .group
            .iter()
            .map(|index| cells_of(self.snapshot, *index));
        format!(
            "{} fragments become 1, of {} cells",
            self.group.len(),
            cells.fold(0_u64, u64::saturating_add)
        )
    }

    /// Whether cells are dropped that are deleted or replaced.
    fn drops(&self) -> bool {
        self.options.purge_deleted || !self.options.timestamps
    }

    fn has_deletes(&self) -> bool {
        self.fragments()
            .any(|f| f.footer.has_delete_metadata || !self.snapshot.deletes.of(f).is_empty())
    }

    /// Why deleted cells cannot be dropped: they hide cells of an older fragment, which would show again.
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
        let until = match options.timestamps {
            true => u64::MAX,
            false => t2,
        };
        let mut deletes = Vec::new();
        let mut markers = BTreeSet::new();
        for fragment in self.fragments() {
            let pending = self.snapshot.deletes.of(fragment);
            markers.extend(pending.iter().map(|delete| delete.delete.marker.clone()));
            let processed = match fragment.footer.has_delete_metadata {
                true => Some(fragment.processed_paths(storage).await?),
                false => None,
            };
            markers.extend(processed.iter().flatten().cloned());
            deletes.push((pending, processed));
        }
        let markers = markers.into_iter().collect::<Vec<_>>();
        // Where cells have no times, deletes until the time of the fragment are done with it.
        let later = markers.iter().any(|marker| delete_time(marker) > until);
        let records = self.has_deletes() && (options.timestamps || later);
        let recorded = Recorded {
            times: options.timestamps,
            deletes: records.then(|| markers.clone()),
        };
        let output = self.output(recorded, self.drops().then_some(DropsDeleted { until }))?;
        let inputs = self.unopened(&output, deletes, &markers)?;
        let merge = SparseMerge {
            storage: storage.clone(),
            inputs,
            output: Arc::clone(&output),
            versions: match (options.timestamps, options.purge_deleted) {
                (true, false) => Versions::All,
                (true, true) => Versions::Alive,
                (false, _) => Versions::Newest,
            },
            budget: Arc::clone(&options.budget),
            width: width(),
            progress: Arc::clone(&options.progress),
            trust: AtomicUsize::new(0),
        };
        let (staged, counts) = merge.write(name).await?;
        let Some(staged) = staged else {
            return Ok(None);
        };
        let verified = async {
            self.check_counts(&staged, counts)?;
            let written = self.reopen(&staged).await?;
            if options.verify {
                let recorded = match records {
                    true => Some(markers.as_slice()),
                    false => None,
                };
                let schema = &self.snapshot.schema;
                let deletes = InputDeletes::new(
                    schema,
                    &written,
                    &[],
                    &mut DeleteTrees::default(),
                    recorded,
                    &markers,
                )?;
                // What was dropped is not dropped once more.
                let keeping = self.output(output.fields.recorded.clone(), None)?;
                let written = unopened(Arc::new(written), 0, t2, &keeping, deletes);
                merge.compare(written).await?;
            }
            Ok(())
        };
        self.kept_if(verified.await, staged).await.map(Some)
    }

    async fn write_dense(&self, name: &str) -> Result<StagedFragment> {
        let options = self.options;
        let output = self.output(Recorded::default(), None)?;
        let deletes = self.group.iter().map(|_| (Vec::new(), None)).collect();
        let inputs = self.unopened(&output, deletes, &[])?.into_iter();
        let boxes = self.members().map(|c| c.cells.clone());
        let inputs = inputs.zip(boxes).map(|(source, cells)| {
            let cells = cells.ok_or_else(|| Error::internal("a dense fragment has no box"))?;
            Ok(DenseInput { source, cells })
        });
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let boxes = inputs
            .iter()
            .map(|input| &input.cells)
            .collect::<Vec<&KeyBox>>();
        let whole = plan::union(&boxes);
        let merge = DenseMerge {
            storage: self.snapshot.storage.clone(),
            cells: whole.ok_or_else(|| Error::internal("nothing is merged"))?,
            inputs,
            output: Arc::clone(&output),
            budget: Arc::clone(&options.budget),
            width: width(),
            progress: Arc::clone(&options.progress),
        };
        let (staged, _) = merge.write(name).await?;
        let verified = async {
            let written = self.reopen(&staged).await?;
            if options.verify {
                let deletes = InputDeletes::default();
                let written = unopened(Arc::new(written), 0, 0, &output, deletes);
                merge.compare(written).await?;
            }
            Ok(())
        };
        self.kept_if(verified.await, staged).await
    }

    fn output(
        &self,
        recorded: Recorded,
        drops_deleted: Option<DropsDeleted>,
    ) -> Result<Arc<Output>> {
        let schema = &self.snapshot.schema;
        let fields = WrittenFields::new(schema, self.snapshot.schema_name()?);
        Ok(Arc::new(Output {
            fields: Arc::new(fields.with_times(recorded)),
            order: Order::new(schema)?,
            drops_deleted,
        }))
    }

    fn unopened(
        &self,
        output: &Arc<Output>,
        deletes: Vec<(Vec<PendingDelete>, Option<Vec<String>>)>,
        markers: &[String],
    ) -> Result<Vec<Arc<Unopened>>> {
        let schema = &self.snapshot.schema;
        let mut trees = DeleteTrees::default();
        let numbered = self.fragments().zip(0_u32..).zip(deletes);
        let inputs = numbered.map(|((fragment, age), (pending, processed))| {
            let processed = processed.as_deref();
            let deletes =
                InputDeletes::new(schema, fragment, &pending, &mut trees, processed, markers);
            let deletes = deletes.map_err(|e| e.with("fragment", &fragment.name.name))?;
            let time = self.cell_time(fragment);
            Ok(unopened(Arc::clone(fragment), age, time, output, deletes))
        });
        inputs.collect()
    }

    /// The time of the cells of a fragment that has none for each. Before format 15 such a fragment shows when all its times
    /// do, so its cells have the last one, unless that would put them before those of another fragment.
    fn cell_time(&self, fragment: &Fragment) -> u64 {
        let name = &fragment.name;
        let between = |other: &Candidate| name.t1 < other.t1 && other.t1 <= name.t2;
        let old = !fragment.footer.version.since(PARTLY_VISIBLE_SINCE);
        match old && !self.all.iter().any(between) {
            true => name.t2,
            false => name.t1,
        }
    }

    /// Fails unless every cell arrived.
    fn check_counts(&self, staged: &StagedFragment, counts: MergedCells) -> Result<()> {
        let expected = self.fragments().map(|fragment| fragment.sparse_cells());
        let expected = expected.fold(0_u64, u64::saturating_add);
        if counts.read != expected || counts.written != staged.cells {
            return Err(Error::internal(format!(
                "{} cells of {expected} were read, and {} of {} written: nothing was committed",
                counts.read, staged.cells, counts.written
            )));
        }
        Ok(())
    }

    /// Opens the written fragment as a reader will, and fails unless it says what was written.
    async fn reopen(&self, staged: &StagedFragment) -> Result<Fragment> {
        let storage = &self.snapshot.storage;
        let directory = ArrayDirectory::list(storage).await?;
        let path = format!(
            "{}/{}",
            staged.folder(),
            crate::array::fragment::METADATA_FILE
        );
        let file = storage.head(&path).await?;
        let file = file.ok_or_else(|| Error::storage(format!("{path} is not there")))?;
        let committed = CommittedFragment {
            name: staged.name.clone(),
            folder: staged.folder().to_owned(),
            visibility: Visibility::Whole,
            commit: file,
            listed: false,
            has_coords_file: false,
        };
        let fragment = open_alone(storage, &directory, committed).await?;
        let same = *fragment.footer == staged.footer && fragment.tile_count()? == staged.tiles();
        match same {
            true => Ok(fragment),
            false => Err(Error::storage(format!(
                "{path} says something else than was written to it: nothing was committed"
            ))),
        }
    }

    /// The fragment if it was verified; otherwise it is removed.
    async fn kept_if(
        &self,
        verified: Result<()>,
        staged: StagedFragment,
    ) -> Result<StagedFragment> {
        match verified {
            Ok(()) => Ok(staged),
            Err(e) => {
                staged.withdraw().await;
                Err(e)
            }
        }
    }
}

fn unopened(
    fragment: Arc<Fragment>,
    age: u32,
    time: u64,
    output: &Arc<Output>,
    deletes: InputDeletes,
) -> Arc<Unopened> {
    Arc::new(Unopened {
        fragment,
        age,
        time,
        output: Arc::clone(output),
        deletes: Mutex::new(Some(deletes)),
        source: OnceCell::new(),
    })
}

/// The time of a delete, by its file.
fn delete_time(marker: &str) -> u64 {
    TimestampedName::parse(marker).map_or(0, |name| name.t1)
}

/// Tiles that are filtered at the same time.
fn width() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    processors.saturating_mul(2)
}
