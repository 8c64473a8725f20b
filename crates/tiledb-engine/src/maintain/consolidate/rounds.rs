//! Merges sparse fragments into one, in several rounds if memory isn't enough for a single round.
//!
//! A merge holds a tile of each input whose cells interleave with those of others. If that takes too much memory, a round
//! merges fewer inputs at a time, always neighbours in age, and the next round merges the results. The intermediate fragments
//! keep everything that the last round may need: every version of a cell, when it was written, and when and by which delete it
//! was deleted. The result of neighbours takes their place in the order of age, so the last round sees the versions of a cell
//! in the same order as a single round would. Nobody commits the intermediate fragments. They are removed at the end, or by the
//! vacuum of leftovers after a crash.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use tokio::sync::OnceCell;

use super::cells::deleted::InputDeletes;
use super::cells::feed::UnopenedInput;
use super::cells::order::MergeOrder;
use super::cells::source::{ConsolidatedOutput, DropsDeleted};
use super::cells::sparse::SparseMerge;
use super::cells::{KeptVersions, MergedCells};
use super::options::ConsolidateOptions;
use crate::array::deletes::PendingDelete;
use crate::array::directory::{ArrayDirectory, CommittedFragment};
use crate::array::fragment::{Fragment, METADATA_FILE};
use crate::array::snapshot::{Snapshot, open_alone};
use crate::array::window::{TimestampMs, WindowVisibility};
use crate::error::{Error, ErrorKind, Result};
use crate::storage::Storage;
use crate::tile::deletes::DeleteTrees;
use crate::write::fields::{RecordedFields, WrittenFields};
use crate::write::fragment::StagedFragment;

/// A fragment to merge with others.
#[derive(Debug, Clone)]
pub(super) struct SparseInput {
    pub(super) fragment: Arc<Fragment>,
    /// The time of all cells, if the fragment doesn't record one for each.
    pub(super) time: u64,
    /// The deletes that apply to the fragment.
    pub(super) pending: Vec<PendingDelete>,
    /// The deletes that the fragment has processed, if it records when its cells were deleted.
    pub(super) processed: Option<Vec<String>>,
}

/// How a merge treats cells: which facts about them it records, which ones it drops, and which versions it keeps.
#[derive(Debug, Clone)]
pub(super) struct MergePolicy {
    pub(super) recorded: RecordedFields,
    pub(super) drops_deleted: Option<DropsDeleted>,
    pub(super) versions: KeptVersions,
}

/// A merge of sparse fragments.
pub(super) struct MergeRounds<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) options: &'a ConsolidateOptions,
    /// The deletes of all inputs.
    pub(super) markers: &'a [String],
}

/// The inputs of a round. If an input is an intermediate fragment, its second part holds the staged fragment, which is removed
/// when no longer needed.
type MergeRound = Vec<(SparseInput, Option<StagedFragment>)>;

impl MergeRounds<'_> {
    /// Merges inputs, in the order of their age, into the fragment `name`; `None` if no cells are left.
    pub(super) async fn write(
        &self,
        inputs: Vec<SparseInput>,
        goal: &MergePolicy,
        name: &str,
    ) -> Result<Option<StagedFragment>> {
        let mut round: MergeRound = inputs.into_iter().map(|input| (input, None)).collect();
        let written = loop {
            let inputs = round.iter().map(|(input, _)| input);
            match self.merge(inputs, goal, name).await {
                Err(error) if error.kind() == ErrorKind::OutOfMemory && round.len() > 2 => {}
                written => break written,
            }
            match self.next_round(&mut round).await {
                Ok(next) => withdraw(std::mem::replace(&mut round, next)).await,
                Err(error) => break Err(error),
            }
        };
        withdraw(round).await;
        written
    }

    /// Merges neighbours, and returns the inputs of the next round, which are fewer. The merged inputs remain in `round`.
    async fn next_round(&self, round: &mut MergeRound) -> Result<MergeRound> {
        let count = round.len();
        let mut fan = count.div_ceil(2);
        let goal = self.keeping_all();
        let (mut next, mut merged): (MergeRound, MergeRound) = (Vec::new(), Vec::new());
        let mut waiting = VecDeque::from(std::mem::take(round));
        while !waiting.is_empty() {
            let part = fan.min(waiting.len());
            if part == 1 {
                next.extend(waiting.pop_front());
                continue;
            }
            let inputs = waiting.iter().take(part).map(|(input, _)| input);
            match self.merge_in_between(inputs, &goal).await {
                Ok(between) => {
                    merged.extend(waiting.drain(..part));
                    next.extend(between);
                }
                Err(error) if error.kind() == ErrorKind::OutOfMemory && fan > 2 => {
                    fan = part.min(fan).div_ceil(2).max(2);
                }
                Err(error) => {
                    merged.extend(next);
                    merged.extend(waiting);
                    *round = merged;
                    return Err(error);
                }
            }
        }
        *round = merged;
        let uri = self.snapshot.storage.uri();
        log::info!(
            "{uri}: {count} fragments became {} in a round, for lack of memory",
            next.len()
        );
        Ok(next)
    }

    /// The policy of an intermediate fragment, which keeps all that is known about its cells.
    fn keeping_all(&self) -> MergePolicy {
        MergePolicy {
            recorded: RecordedFields {
                times: true,
                deletes: (!self.markers.is_empty()).then(|| self.markers.to_vec()),
            },
            drops_deleted: None,
            versions: KeptVersions::All,
        }
    }

    async fn merge_in_between<'i>(
        &self,
        inputs: impl Iterator<Item = &'i SparseInput> + Clone,
        goal: &MergePolicy,
    ) -> Result<Option<(SparseInput, Option<StagedFragment>)>> {
        let names = inputs.clone().map(|input| &input.fragment.name);
        let t1 = names.clone().map(|name| name.t1).min().unwrap_or(0);
        let t2 = names.map(|name| name.t2).max().unwrap_or(0);
        let clock = &self.options.clock;
        let name = clock.fresh_fragment_name(TimestampMs(t1), TimestampMs(t2))?;
        let progress = &self.options.progress;
        let cells = inputs
            .clone()
            .map(|input| input.fragment.sparse_cells())
            .fold(0_u64, u64::saturating_add);
        let Some(staged) = self.merge(inputs, goal, &name).await? else {
            return Ok(None);
        };
        progress.expect(cells);
        progress.advance(cells);
        let fragment = match reopened(&self.snapshot.storage, &staged).await {
            Ok(fragment) => Arc::new(fragment),
            Err(error) => {
                staged.withdraw().await;
                return Err(error);
            }
        };
        let input = SparseInput {
            fragment,
            time: t1,
            pending: Vec::new(),
            processed: goal.recorded.deletes.clone(),
        };
        Ok(Some((input, Some(staged))))
    }

    /// Merges inputs in one round.
    async fn merge<'i>(
        &self,
        inputs: impl Iterator<Item = &'i SparseInput> + Clone,
        goal: &MergePolicy,
        name: &str,
    ) -> Result<Option<StagedFragment>> {
        let output = self.output(goal.recorded.clone(), goal.drops_deleted)?;
        let storage = &self.snapshot.storage;
        let merge = SparseMerge {
            storage: storage.clone(),
            inputs: self.unopened(inputs.clone(), &output)?,
            output: Arc::clone(&output),
            versions: goal.versions,
            budget: Arc::clone(&self.options.budget),
            width: width(),
            progress: Arc::clone(&self.options.progress),
            trust: AtomicUsize::new(0),
        };
        let (staged, counts) = merge.write(name).await?;
        let expected = inputs
            .map(|input| input.fragment.sparse_cells())
            .fold(0_u64, u64::saturating_add);
        let Some(staged) = staged else {
            return Ok(None);
        };
        let verified = async {
            check_counts(&staged, counts, expected)?;
            let written = reopened(storage, &staged).await?;
            if self.options.verify {
                self.verify(&merge, written, goal).await
            } else {
                Ok(())
            }
        };
        kept_if(verified.await, staged).await.map(Some)
    }

    /// Merges again, and compares the result with the written fragment.
    async fn verify(
        &self,
        merge: &SparseMerge,
        written: Fragment,
        goal: &MergePolicy,
    ) -> Result<()> {
        // The second merge doesn't count dropped cells again.
        let keeping = self.output(goal.recorded.clone(), None)?;
        let written = SparseInput {
            time: written.name.t2,
            fragment: Arc::new(written),
            pending: Vec::new(),
            processed: goal.recorded.deletes.clone(),
        };
        for written in self.unopened(std::iter::once(&written), &keeping)? {
            merge.compare(written).await?;
        }
        Ok(())
    }

    fn output(
        &self,
        recorded: RecordedFields,
        drops_deleted: Option<DropsDeleted>,
    ) -> Result<Arc<ConsolidatedOutput>> {
        output(self.snapshot, recorded, drops_deleted)
    }

    fn unopened<'i>(
        &self,
        inputs: impl Iterator<Item = &'i SparseInput>,
        output: &Arc<ConsolidatedOutput>,
    ) -> Result<Vec<Arc<UnopenedInput>>> {
        let schema = &self.snapshot.schema;
        let mut trees = DeleteTrees::default();
        let inputs = inputs.zip(0_u32..).map(|(input, age)| {
            let (fragment, pending) = (&input.fragment, input.pending.as_slice());
            let processed = input.processed.as_deref();
            let deletes = InputDeletes::new(
                schema,
                fragment,
                pending,
                &mut trees,
                processed,
                self.markers,
            )
            .map_err(|e| e.with("fragment", &fragment.name.name))?;
            Ok(unopened(
                Arc::clone(fragment),
                age,
                input.time,
                output,
                deletes,
            ))
        });
        inputs.collect()
    }
}

async fn withdraw(round: MergeRound) {
    for staged in round.into_iter().filter_map(|(_, staged)| staged) {
        staged.withdraw().await;
    }
}

/// The fields of a fragment with these records.
pub(super) fn output(
    snapshot: &Snapshot,
    recorded: RecordedFields,
    drops_deleted: Option<DropsDeleted>,
) -> Result<Arc<ConsolidatedOutput>> {
    let schema = &snapshot.schema;
    let fields = WrittenFields::new(schema, snapshot.schema_name()?);
    Ok(Arc::new(ConsolidatedOutput {
        fields: Arc::new(fields.with_times(recorded)),
        order: MergeOrder::new(schema)?,
        drops_deleted,
    }))
}

pub(super) fn unopened(
    fragment: Arc<Fragment>,
    age: u32,
    time: u64,
    output: &Arc<ConsolidatedOutput>,
    deletes: InputDeletes,
) -> Arc<UnopenedInput> {
    Arc::new(UnopenedInput {
        fragment,
        age,
        time,
        output: Arc::clone(output),
        deletes: Arc::new(deletes),
        source: OnceCell::new(),
    })
}

/// Fails unless the merge received every cell.
fn check_counts(staged: &StagedFragment, counts: MergedCells, expected: u64) -> Result<()> {
    if counts.read != expected || counts.written != staged.cells {
        return Err(Error::internal(format!(
            "{} cells of {expected} were read, and {} of {} written: nothing was committed",
            counts.read, staged.cells, counts.written
        )));
    }
    Ok(())
}

/// Opens the written fragment as a reader does, and fails unless its metadata describe what was written.
pub(super) async fn reopened(storage: &Storage, staged: &StagedFragment) -> Result<Fragment> {
    let directory = ArrayDirectory::list(storage).await?;
    let path = format!("{}/{METADATA_FILE}", staged.folder());
    let file = storage
        .head(&path)
        .await?
        .ok_or_else(|| Error::storage(format!("{path} is not there")))?;
    let committed = CommittedFragment {
        name: staged.name.clone(),
        folder: staged.folder().to_owned(),
        visibility: WindowVisibility::Whole,
        commit: file,
        listed: false,
        has_coords_file: false,
    };
    let fragment = open_alone(storage, &directory, committed).await?;
    let same = *fragment.footer == staged.footer && fragment.tile_count()? == staged.tiles();
    if same {
        Ok(fragment)
    } else {
        Err(Error::storage(format!(
            "{path} says something else than was written to it: nothing was committed"
        )))
    }
}

/// Returns the fragment if it was verified, and removes it otherwise.
pub(super) async fn kept_if(
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

/// How many tiles are filtered at the same time.
pub(super) fn width() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    processors.saturating_mul(2)
}
