//! The options of a consolidation, and its progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::maintain::mode::mode_of_name;
use crate::maintain::plan::MergeGrouping;
use crate::memory::budget::{MemoryBudget, UnlimitedBudget};
use crate::write::clock::Clock;
use crate::write::pipeline::WrittenCounts;

/// The kinds of consolidation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConsolidateMode {
    /// Cells: several fragments become one.
    Fragments,
    /// Commits: one file lists those of all fragments, and holds all deletes.
    Commits,
    /// Footers of fragments: one file has copies of all.
    FragmentMetadata,
    /// The key-value metadata of an array or a group: one file has all values.
    ArrayMetadata,
    /// The conditions of deletes: nested alternatives become one list of alternatives.
    Deletes,
}

impl ConsolidateMode {
    /// Every mode.
    pub const ALL: [Self; 5] = [
        Self::Fragments,
        Self::Commits,
        Self::FragmentMetadata,
        Self::ArrayMetadata,
        Self::Deletes,
    ];

    /// The name in options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fragments => "fragments",
            Self::Commits => "commits",
            Self::FragmentMetadata => "fragment_metadata",
            Self::ArrayMetadata => "array_metadata",
            Self::Deletes => "deletes",
        }
    }

    /// The mode with a name; the mode of an array's metadata has another name for groups.
    ///
    /// # Errors
    /// The mode doesn't exist.
    pub fn of_name(name: &str) -> Result<Self> {
        mode_of_name(&Self::ALL, Self::name, name)
    }
}

/// The options of a consolidation.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConsolidateOptions {
    /// The kind of consolidation.
    pub mode: ConsolidateMode,
    /// Whether the plan is only reported.
    pub dry_run: bool,
    /// Whether all cells of a new fragment are compared with those of its inputs before it replaces them.
    pub verify: bool,
    /// Whether cells of a sparse array keep the times at which they were written, so that the array can be read as of any
    /// of them; otherwise only the newest version of a cell remains.
    pub timestamps: bool,
    /// Whether deleted cells are dropped, with their history.
    pub purge_deleted: bool,
    /// Whether cells that nobody wrote, between the boxes of dense fragments, become fill values.
    pub fills_gaps: bool,
    /// Only fragments that were written at this time, in ms, or later.
    pub start: Option<u64>,
    /// Only fragments that were written until this time, in ms.
    pub end: Option<u64>,
    /// Exactly the fragments with these names; without names, the fragments that the other options choose.
    pub fragments: Vec<String>,
    /// How many fragments are merged at a time.
    pub grouping: MergeGrouping,
    /// The progress.
    pub progress: Arc<ConsolidateProgress>,
    /// The memory that may be used.
    pub budget: Arc<dyn MemoryBudget>,
    /// The source of times and names.
    #[doc(hidden)]
    pub clock: Clock,
}

impl ConsolidateOptions {
    /// Consolidates everything of a kind that can be merged without a change for any reader.
    pub fn new(mode: ConsolidateMode) -> Self {
        Self {
            mode,
            dry_run: false,
            verify: false,
            timestamps: true,
            purge_deleted: false,
            fills_gaps: false,
            start: None,
            end: None,
            fragments: Vec::new(),
            grouping: MergeGrouping::default(),
            progress: Arc::default(),
            budget: Arc::new(UnlimitedBudget),
            clock: Clock::system(),
        }
    }

    /// Fails if options contradict each other.
    pub fn check(&self) -> Result<()> {
        let grouping = &self.grouping;
        let problem = if self.mode != ConsolidateMode::Fragments
            && (self.verify || self.purge_deleted || self.fills_gaps || !self.timestamps)
        {
            "'verify', 'timestamps', 'purge_deleted' and 'fill_gaps' are about cells: they belong to the mode 'fragments'"
        } else if self.mode != ConsolidateMode::Fragments
            && (!self.fragments.is_empty() || *grouping != MergeGrouping::default())
        {
            "the choice of fragments belongs to the mode 'fragments'"
        } else if !self.fragments.is_empty() && *grouping != MergeGrouping::default() {
            "fragments are either named or chosen by size"
        } else if !(0.0..=1.0).contains(&grouping.size_ratio) {
            "'size_ratio' is a number from 0 to 1"
        } else if grouping.min_fragments > grouping.max_fragments {
            "'min_fragments' is above 'max_fragments'"
        } else if self
            .start
            .zip(self.end)
            .is_some_and(|(start, end)| start > end)
        {
            "'start' is after 'end'"
        } else {
            return Ok(());
        };
        Err(Error::invalid(problem))
    }
}

/// Numbers of cells, tiles and bytes, which grow while a consolidation runs.
#[derive(Debug, Default)]
pub struct ConsolidateProgress {
    total: AtomicU64,
    before: AtomicU64,
    read: AtomicU64,
    fragments: AtomicU64,
    written: Arc<WrittenCounts>,
}

impl ConsolidateProgress {
    /// The cells of all inputs.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// The cells that were merged so far.
    pub fn done(&self) -> u64 {
        let before = self.before.load(Ordering::Relaxed);
        before.saturating_add(self.read.load(Ordering::Relaxed))
    }

    /// The fragments that were made so far.
    pub fn fragments(&self) -> u64 {
        self.fragments.load(Ordering::Relaxed)
    }

    /// The tiles and bytes that were written so far.
    pub fn written(&self) -> &Arc<WrittenCounts> {
        &self.written
    }

    pub(super) fn expect(&self, cells: u64) {
        self.total.fetch_add(cells, Ordering::Relaxed);
    }

    pub(super) fn set(&self, cells: u64) {
        self.read.store(cells, Ordering::Relaxed);
    }

    /// Records that cells were merged and will be merged again.
    pub(super) fn advance(&self, cells: u64) {
        self.read.store(0, Ordering::Relaxed);
        self.before.fetch_add(cells, Ordering::Relaxed);
    }

    /// Records that a step has ended: all its cells were merged.
    pub(super) fn finish(&self, cells: u64) {
        self.read.store(0, Ordering::Relaxed);
        self.before.fetch_add(cells, Ordering::Relaxed);
        self.fragments.fetch_add(1, Ordering::Relaxed);
    }
}
