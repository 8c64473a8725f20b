//! The keys of options, our own and those of object stores, and [`TileDbTableOptions`]: the options of a table in
//! DataFusion's session, by their keys.

use std::any::Any;

use datafusion::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::error::DataFusionError;
use tiledb_engine::Error;
use tiledb_engine::write::create::{ARRAY_OPTIONS, OptionKey};

use super::{AggregateFrom, NewValues, TableOptions, most_similar};
use crate::options::encryption::{KEY, KEY_FILE, KEY_VARIABLE, shown_name};
use crate::options::settings::EXTERNAL_MEMBERS;

/// The prefix of our options.
pub(super) const PREFIX: &str = "tiledb";

/// Every option with its possible values.
pub(super) const KNOWN: [(&str, &str); 16] = [
    (
        "timestamp",
        "read the array as of this time: ISO 8601, or milliseconds since 1970",
    ),
    (
        "timestamp_start",
        "ignore what was written before this time",
    ),
    ("timestamp_end", "ignore what was written after this time"),
    (
        "write_timestamp",
        "write as of this time: ISO 8601, or milliseconds since 1970",
    ),
    (
        KEY,
        "the key of an encrypted array: 32 bytes, or 64 hexadecimal digits",
    ),
    (KEY_FILE, "a file with the key of an encrypted array"),
    (
        KEY_VARIABLE,
        "an environment variable with the key of an encrypted array",
    ),
    (
        "empty_cells",
        "dense cells never written: fill, null or skip; or domain, for the fill value in the whole domain",
    ),
    (
        "invalid_utf8",
        "text that is not UTF-8: error, binary or lossy",
    ),
    ("time_as", "TIME_* fields: time or duration"),
    (
        "fixed_text",
        "text in cells of a fixed size: trim the NUL characters that pad it, or raw",
    ),
    (
        "aggregate_from",
        "what answers count, sum, avg, min and max: metadata where they prove the answer, exact_metadata where no digit \
         can differ from that of a scan, or cells",
    ),
    (
        "new_values",
        "values that an enumeration does not have, in rows that are written: error, extend the enumeration, or suggested: extend \
         those that COPY made from the values of its rows",
    ),
    (
        "system_columns",
        "true adds the columns __timestamp and __fragment: when a cell was written, and by which fragment",
    ),
    (
        "all_versions",
        "true shows every version of each cell of a sparse array",
    ),
    (
        EXTERNAL_MEMBERS,
        "members of groups and arrays of labels outside the folder: none, same_store, or URL prefixes with commas between them",
    ),
];

/// Whether `key`, with or without the prefix, describes an array to be created.
pub(crate) fn is_creation(key: &str) -> bool {
    OptionKey::parse(without_prefix(key)).is_some()
}

/// What only COPY takes: what decides where nothing was chosen, and what domains are made of.
pub(crate) const COPY_OPTIONS: [&str; 2] = ["choose_by", "domains_from"];

/// Whether `key`, with or without the prefix, is for COPY alone.
pub(crate) fn is_of_copy(key: &str) -> bool {
    COPY_OPTIONS.contains(&without_prefix(key))
}

/// Whether `key`, with or without the prefix, is one of our options.
pub(crate) fn is_known(key: &str) -> bool {
    let key = without_prefix(key);
    KNOWN.iter().any(|(known, _)| *known == key)
}

/// Whether the value of `key`, with or without the prefix, is a secret.
pub(crate) fn is_secret(key: &str) -> bool {
    without_prefix(key) == KEY
}

/// Whether `key` has our prefix.
pub(crate) fn has_prefix(key: &str) -> bool {
    without_prefix(key).len() != key.len()
}

pub(super) fn without_prefix(key: &str) -> &str {
    key.strip_prefix(PREFIX)
        .and_then(|rest| rest.strip_prefix('.'))
        .unwrap_or(key)
}

pub(super) fn unknown(key: &str) -> Error {
    for (is_elsewhere, what, place) in [
        (
            is_creation(key),
            "creating an array",
            "CREATE EXTERNAL TABLE",
        ),
        (is_of_copy(key), "making an array of a query", "COPY"),
    ] {
        if is_elsewhere {
            return Error::invalid(format!(
                "option \"tiledb.{key}\" is for {what}: it belongs in {place}"
            ));
        }
    }
    // One may stand where the other is meant, so a typo of either is recognized.
    let elsewhere = ARRAY_OPTIONS.iter().chain(&COPY_OPTIONS).copied();
    let names = TableOptions::names().collect::<Vec<_>>();
    match most_similar(key, names.iter().copied().chain(elsewhere)) {
        Some(similar) if !names.contains(&similar) => Error::invalid(format!(
            "unknown option {}; did you mean {PREFIX}.{similar}?",
            shown_name(key).replace('\'', "\"")
        )),
        _ => unknown_of(key, "", &names, PREFIX),
    }
}

/// The error for an option that isn't one of `of`, with or without a prefix.
pub(crate) fn unknown_of(key: &str, of: &str, known: &[&str], prefix: &str) -> Error {
    let prefixed = |known: &str| match prefix {
        "" => known.to_owned(),
        prefix => format!("{prefix}.{known}"),
    };
    let similar = match most_similar(key, known.iter().copied()) {
        Some(similar) => format!("; did you mean {}?", prefixed(similar)),
        None => String::new(),
    };
    let known = known
        .iter()
        .map(|known| prefixed(known))
        .collect::<Vec<_>>();
    Error::invalid(format!(
        "unknown option {}{of}{similar} (the options are {})",
        shown_name(key).replace('\'', "\""),
        known.join(", ")
    ))
}

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
        if is_creation(key) || is_of_copy(key) {
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
    /// The names of the options of a table, without a prefix.
    pub fn names() -> impl Iterator<Item = &'static str> {
        KNOWN.iter().map(|(name, _)| *name)
    }

    fn value(&self, key: &str) -> Option<String> {
        let word = match key {
            "timestamp_start" => return self.timestamp_start.map(|ms| ms.to_string()),
            "timestamp_end" => return self.timestamp_end.map(|ms| ms.to_string()),
            "empty_cells" => self.empty_cells.name(),
            "invalid_utf8" => self.invalid_utf8.name(),
            "time_as" => self.time_as.name(),
            "fixed_text" => self.fixed_text.name(),
            "aggregate_from" => match self.aggregate_from {
                AggregateFrom::Metadata => "metadata",
                AggregateFrom::ExactMetadata => "exact_metadata",
                AggregateFrom::Cells => "cells",
            },
            "new_values" => match self.new_values {
                NewValues::Suggested => "suggested",
                NewValues::Error => "error",
                NewValues::Extend => "extend",
            },
            "system_columns" => yes_or_no(self.system_columns),
            "all_versions" => yes_or_no(self.all_versions),
            EXTERNAL_MEMBERS => return self.external_members.as_ref().map(ToString::to_string),
            // Other values are not shown, in particular the key.
            _ => return None,
        };
        Some(word.to_owned())
    }
}

fn yes_or_no(set: bool) -> &'static str {
    if set { "true" } else { "false" }
}
