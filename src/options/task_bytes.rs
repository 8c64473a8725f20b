//! The setting of how much a task of a query has to read to be worth a worker.

use datafusion::common::config::ConfigEntry;

use super::byte_size;

/// The least number of decoded bytes for which a task more pays: a worker decodes them in some tenths of a second, while a task costs
/// tens of milliseconds.
const DEFAULT_BYTES: u64 = 64 << 20;

/// The decoded bytes of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskBytes(u64);

impl Default for TaskBytes {
    fn default() -> Self {
        Self(DEFAULT_BYTES)
    }
}

impl TaskBytes {
    /// The names of the settings.
    pub const NAMES: [&str; 1] = ["bytes_per_task"];

    /// The bytes.
    #[cfg(feature = "cluster")]
    pub fn get(self) -> u64 {
        self.0
    }

    /// Sets a setting; `None` if there is no such setting here.
    pub fn set(&mut self, name: &str, value: &str) -> Option<Result<(), String>> {
        let [known] = Self::NAMES;
        if name != known {
            return None;
        }
        Some(match byte_size(value).filter(|bytes| *bytes > 0) {
            Some(bytes) => {
                self.0 = bytes;
                Ok(())
            }
            None => Err(format!(
                "is a number of bytes of at least 1, such as 64 MiB, found '{value}'"
            )),
        })
    }

    /// The settings, for SHOW ALL.
    pub fn entries(self, prefix: &str) -> [ConfigEntry; 1] {
        Self::NAMES.map(|name| ConfigEntry {
            key: format!("{prefix}.{name}"),
            value: Some(self.0.to_string()),
            description: "With workers, a query that decodes fewer bytes runs in one process, and any other has at most one task for each of these.",
        })
    }
}
