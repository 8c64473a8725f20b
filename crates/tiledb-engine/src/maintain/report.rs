//! What maintenance did, or would do: the same rows of the same columns, dry or wet.

/// One thing that was done, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportRow {
    /// What is cared for: fragments, commits, …
    pub mode: &'static str,
    /// What is done with it.
    pub action: &'static str,
    /// The file or folder that comes into being or goes, relative to the array.
    pub object: String,
    /// The number of files or folders that are read or replaced.
    pub inputs: u64,
    /// Bytes that are read.
    pub bytes_read: u64,
    /// Bytes that were written; `None` if that is not known before.
    pub bytes_written: Option<u64>,
    /// Bytes that are removed, or that a vacuum will remove.
    pub bytes_freed: u64,
    /// What is better afterwards.
    pub gain: String,
    /// Whether it was done.
    pub outcome: StepOutcome,
}

/// Whether something was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepOutcome {
    /// It would be.
    Planned,
    /// It was.
    Done,
    /// It was not, for this reason, and nothing has changed.
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
