//! Findings, their way to the caller, and the counts of what was checked.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::channel::mpsc::UnboundedSender;

use super::rule::{Rule, Severity};

/// What was checked so far, and what was found.
#[derive(Debug, Default)]
pub struct CheckProgress {
    all_fragments: AtomicU64,
    fragments: AtomicU64,
    tiles: AtomicU64,
    cells: AtomicU64,
    errors: AtomicU64,
    warnings: AtomicU64,
    leftovers: AtomicU64,
}

/// The counts of a [`CheckProgress`] at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CheckCounts {
    /// Fragments that were found so far; an array with dimension labels has some in each label, which are found later.
    pub all_fragments: u64,
    /// Fragments whose metadata were checked.
    pub fragments: u64,
    /// Tiles whose cells were checked, of all fields together.
    pub tiles: u64,
    /// Cells that were checked, each once for all its fields.
    pub cells: u64,
    /// Findings that are errors.
    pub errors: u64,
    /// Findings that are warnings.
    pub warnings: u64,
    /// Findings that are leftovers.
    pub leftovers: u64,
}

impl CheckProgress {
    /// The counts now.
    pub fn counts(&self) -> CheckCounts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CheckCounts {
            all_fragments: get(&self.all_fragments),
            fragments: get(&self.fragments),
            tiles: get(&self.tiles),
            cells: get(&self.cells),
            errors: get(&self.errors),
            warnings: get(&self.warnings),
            leftovers: get(&self.leftovers),
        }
    }

    pub(super) fn expect_fragments(&self, fragments: usize) {
        let fragments = u64::try_from(fragments).unwrap_or(u64::MAX);
        self.all_fragments.fetch_add(fragments, Ordering::Relaxed);
    }

    pub(super) fn add_fragment(&self) {
        self.fragments.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_tile(&self, fields: u64, cells: u64) {
        self.tiles.fetch_add(fields, Ordering::Relaxed);
        self.cells.fetch_add(cells, Ordering::Relaxed);
    }
}

/// Takes findings about the objects of one array or group.
#[derive(Debug, Clone)]
pub struct FindingReporter {
    uri: Arc<str>,
    to: UnboundedSender<Finding>,
    pub(super) progress: Arc<CheckProgress>,
}

impl FindingReporter {
    pub(super) fn new(
        uri: &str,
        to: UnboundedSender<Finding>,
        progress: Arc<CheckProgress>,
    ) -> Self {
        Self {
            uri: uri.trim_end_matches('/').into(),
            to,
            progress,
        }
    }

    /// A reporter for another array or group, with the same receiver.
    pub(super) fn of(&self, uri: &str) -> Self {
        Self::new(uri, self.to.clone(), Arc::clone(&self.progress))
    }

    /// Reports a broken rule; `object` is relative to the array.
    pub(super) fn tell(
        &self,
        rule: Rule,
        object: impl fmt::Display,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) {
        let progress = &self.progress;
        let counter = match rule.severity() {
            Severity::Error => &progress.errors,
            Severity::Warning => &progress.warnings,
            Severity::Leftover => &progress.leftovers,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let relative = object.to_string();
        let object = if relative.is_empty() {
            self.uri.to_string()
        } else {
            format!("{}/{relative}", self.uri)
        };
        // If nobody listens any longer, the check is about to be dropped.
        let _ = self.to.unbounded_send(Finding {
            rule,
            object,
            found: found.into(),
            expected: expected.into(),
        });
    }
}

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// The broken object: the URI of a file or a folder, then the field and the tile.
    pub object: String,
    /// What was found.
    pub found: String,
    /// What was expected.
    pub expected: String,
}

impl Finding {
    /// How bad it is.
    pub const fn severity(&self) -> Severity {
        self.rule.severity()
    }

    /// What to do about it.
    pub const fn advice(&self) -> &'static str {
        self.rule.advice()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}: {}: {}; expected {}; {}",
            self.severity(),
            self.rule,
            self.object,
            self.found,
            self.expected,
            self.advice()
        )
    }
}
