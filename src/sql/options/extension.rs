//! [`TileDbTableOptions`]: the options of a table in DataFusion's session.

use std::any::Any;

use datafusion::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::error::DataFusionError;

use super::keys::{KNOWN, PREFIX, is_creation};
use super::{AggregateFrom, TableOptions};
use crate::arrow::{InvalidUtf8, TimeAs};
use crate::scan::EmptyCells;

/// [`TableOptions`] as an extension of DataFusion's table options, under the prefix `tiledb`.
#[derive(Debug, Clone, Default)]
pub struct TileDbTableOptions(TableOptions);

impl TileDbTableOptions {
    /// The options.
    pub fn options(&self) -> &TableOptions {
        &self.0
    }
}

impl ConfigExtension for TileDbTableOptions {
    const PREFIX: &'static str = PREFIX;
}

impl ExtensionOptions for TileDbTableOptions {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> datafusion::error::Result<()> {
        // These describe one array, and stay with its statement.
        if is_creation(key) {
            return Ok(());
        }
        self.0
            .set(key, value)
            .map_err(|e| DataFusionError::External(Box::new(e)))
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        KNOWN
            .iter()
            .map(|(key, description)| ConfigEntry {
                key: format!("{PREFIX}.{key}"),
                value: self.0.value(key),
                description,
            })
            .collect()
    }
}

impl TableOptions {
    fn value(&self, key: &str) -> Option<String> {
        let word = match key {
            "timestamp_start" => return self.timestamp_start.map(|ms| ms.to_string()),
            "timestamp_end" => return self.timestamp_end.map(|ms| ms.to_string()),
            "empty_cells" => match self.empty_cells {
                EmptyCells::Fill => "fill",
                EmptyCells::Null => "null",
                EmptyCells::Skip => "skip",
            },
            "invalid_utf8" => match self.invalid_utf8 {
                InvalidUtf8::Error => "error",
                InvalidUtf8::Binary => "binary",
                InvalidUtf8::Lossy => "lossy",
            },
            "time_as" => match self.time_as {
                TimeAs::TimeOfDay => "time",
                TimeAs::Duration => "duration",
            },
            "aggregate_from" => match self.aggregate_from {
                AggregateFrom::Metadata => "metadata",
                AggregateFrom::ExactMetadata => "exact_metadata",
                AggregateFrom::Cells => "cells",
            },
            "system_columns" => yes_or_no(self.system_columns),
            "all_versions" => yes_or_no(self.all_versions),
            // Other values are not shown, in particular the key.
            _ => return None,
        };
        Some(word.to_owned())
    }
}

fn yes_or_no(set: bool) -> &'static str {
    if set { "true" } else { "false" }
}
