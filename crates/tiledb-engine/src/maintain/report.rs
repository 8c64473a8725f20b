//! The report of maintenance: one row for each thing that was done, or would be done in a dry run.

/// A thing that was done, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportRow {
    /// The kind of files: fragments, commits, …
    pub mode: &'static str,
    /// The action.
    pub action: &'static str,
    /// The file or folder that is created or removed, relative to the array.
    pub object: String,
    /// The number of files or folders that are read or replaced.
    pub inputs: u64,
    /// Bytes that are read.
    pub bytes_read: u64,
    /// Bytes that were written; `None` if the number isn't known in advance.
    pub bytes_written: Option<u64>,
    /// Bytes that are removed, or that a vacuum will remove.
    pub bytes_freed: u64,
    /// The benefit.
    pub gain: String,
    /// Whether it was done.
    pub outcome: StepOutcome,
}

/// Whether something was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepOutcome {
    /// It would be done.
    Planned,
    /// It was done.
    Done,
    /// It was not done, for this reason, and nothing has changed.
    Skipped(String),
}

impl std::fmt::Display for StepOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Planned => f.write_str("planned"),
            Self::Done => f.write_str("done"),
            Self::Skipped(why) => write!(f, "skipped: {why}"),
        }
    }
}
