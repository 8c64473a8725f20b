//! The settings of sessions with workers.

use datafusion::common::config::ConfigEntry;

use super::byte_size;

/// The fewest decoded bytes that are worth another task: a worker decodes them in some tenths of a second, while a task costs tens of
/// milliseconds.
const DEFAULT_BYTES: u64 = 64 << 20;

/// What a query must be like to run on workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClusterSettings {
    /// The decoded bytes of a task.
    bytes_per_task: u64,
    /// Whether workers read rows that are sent to the session as they are stored.
    send_stored_rows: bool,
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            bytes_per_task: DEFAULT_BYTES,
            send_stored_rows: false,
        }
    }
}

impl ClusterSettings {
    /// The names of the settings.
    pub const NAMES: [&str; 2] = ["bytes_per_task", "send_stored_rows"];

    /// The decoded bytes of a task.
    #[cfg(feature = "cluster")]
    pub fn bytes_per_task(self) -> u64 {
        self.bytes_per_task
    }

    /// Whether workers read rows that are sent to the session as they are stored.
    #[cfg(feature = "cluster")]
    pub fn send_stored_rows(self) -> bool {
        self.send_stored_rows
    }

    /// Sets a setting; `None` if there is no such setting here.
    pub fn set(&mut self, name: &str, value: &str) -> Option<Result<(), String>> {
        let [bytes_per_task, send_stored_rows] = Self::NAMES;
        if name == bytes_per_task {
            let bytes = byte_size(value).filter(|bytes| *bytes > 0);
            return Some(
                bytes
                    .map(|bytes| self.bytes_per_task = bytes)
                    .ok_or_else(|| {
                        format!(
                            "is a number of bytes of at least 1, such as 64 MiB, found '{value}'"
                        )
                    }),
            );
        }
        if name == send_stored_rows {
            let switch = value.to_ascii_lowercase().parse();
            return Some(
                switch
                    .map(|switch| self.send_stored_rows = switch)
                    .map_err(|_| format!("is true or false, found '{value}'")),
            );
        }
        None
    }

    /// The settings, for SHOW ALL.
    pub fn entries(self, prefix: &str) -> [ConfigEntry; 2] {
        let [bytes_per_task, send_stored_rows] = Self::NAMES;
        let entry = |name, value, description| ConfigEntry {
            key: format!("{prefix}.{name}"),
            value: Some(value),
            description,
        };
        [
            entry(
                bytes_per_task,
                self.bytes_per_task.to_string(),
                "With workers, a query that decodes fewer bytes runs in one process, and any other has at most one task for each of these.",
            ),
            entry(
                send_stored_rows,
                self.send_stored_rows.to_string(),
                "With workers, a query that returns rows as they are stored runs on workers, too, instead of in one process.",
            ),
        ]
    }
}
