//! The options of a table, set by `OPTIONS ('tiledb.…' '…')`, a URL's query or the builder.
//!
//! [`TableOptions`] is the parsed result, which all of them share. [`TileDbTableOptions`] is the same registered with
//! DataFusion under the prefix `tiledb`, because some programs (datafusion-cli among them) apply all options of a
//! statement to the session's table options before any factory sees them, which fails for an unregistered prefix. The
//! subtle thing: DataFusion passes keys with the prefix to some functions and without it to others, so both are always
//! accepted.

mod byte_sizes;
mod cluster_settings;
mod disk_cache;
pub(crate) mod encryption;
mod home;
mod keys;
pub(crate) mod names;
mod network;
mod read_only;
pub mod secrets;
pub mod settings;

#[cfg(test)]
mod tests;

pub use disk_cache::cache_bytes;
pub use keys::TileDbTableOptions;
pub use read_only::ReadOnly;
pub use tiledb_stores::most_similar;

pub(crate) use byte_sizes::{byte_size, scaled};
pub(crate) use cluster_settings::ClusterSettings;
pub(crate) use disk_cache::DiskCacheSettings;
pub(crate) use home::expand_home;
pub(crate) use network::SharedLimits;

pub(crate) use keys::{
    COPY_OPTIONS, has_prefix, is_creation, is_known, is_of_copy, is_secret, unknown_of,
};

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use serde::{Deserialize, Serialize};
use tiledb_engine::array::window::{OpenWindow, TimestampMs};
use tiledb_engine::arrow::{FixedText, FloatBits, InvalidUtf8, TimeAs, TypeOptions};
use tiledb_engine::filter::EncryptionKey;
use tiledb_engine::scan::EmptyCells;
use tiledb_engine::storage::ExternalMembers;
use tiledb_engine::{Error, OpenOptions, Result, ResultExt};
use tiledb_stores::StoreOptions;

use self::encryption::{KEY, KEY_FILE, KEY_VARIABLE};
use self::keys::{unknown, without_prefix};
use crate::options::settings::EXTERNAL_MEMBERS;

/// The values of options that are on or off.
const YES_OR_NO: [(&str, bool); 2] = [("true", true), ("false", false)];

/// The data that aggregates may be answered from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum AggregateFrom {
    /// Metadata, where they prove the answer; floats are summed tile by tile.
    #[default]
    Metadata,
    /// Metadata, except where the last digits or the sign of a zero could differ from those of a scan.
    ExactMetadata,
    /// Only cells.
    Cells,
}

/// What becomes of a value that the enumeration of its column does not have, when rows with it are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum NewValues {
    /// An enumeration that COPY made from the values of its rows is extended; with any other, the statement fails.
    #[default]
    Suggested,
    /// The statement fails.
    Error,
    /// The enumeration is extended first.
    Extend,
}

/// How a table shows floats. Users can't choose it: it serves statements that write values back that they read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub(crate) enum FloatColumns {
    /// Floats with one NaN, and one zero among coordinates.
    #[default]
    Shown,
    /// Floats bit by bit as stored.
    Stored,
    /// Like [`Self::Shown`], with the stored floats in more columns after the others.
    Both,
}

/// The options of a table, parsed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TableOptions {
    /// The start of the window of time, in milliseconds since 1970.
    pub timestamp_start: Option<u64>,
    /// The end of the window of time, in milliseconds since 1970.
    pub timestamp_end: Option<u64>,
    /// The values of dense cells that were never written.
    pub empty_cells: EmptyCells,
    /// The handling of text that is not UTF-8.
    pub invalid_utf8: InvalidUtf8,
    /// The Arrow type of times.
    pub time_as: TimeAs,
    /// How text in cells of a fixed size is padded.
    pub fixed_text: FixedText,
    /// The data that aggregates may be answered from.
    pub aggregate_from: AggregateFrom,
    /// The time at which INSERT writes, in milliseconds since 1970; the present if not set.
    pub write_timestamp: Option<u64>,
    /// The handling of values that an enumeration does not have, when they are written.
    pub new_values: NewValues,
    /// Whether the table has the columns `__timestamp` and `__fragment`.
    pub system_columns: bool,
    /// Whether every version of a cell of a sparse array is a row, instead of the newest one.
    pub all_versions: bool,
    /// Where members of groups and arrays of labels may lie outside the folder that is opened; as the session says if not
    /// set.
    pub external_members: Option<ExternalMembers>,
    /// How floats are shown.
    #[serde(default)]
    pub(crate) floats: FloatColumns,
    /// Whether attributes show their stored numbers, for statements that write them again.
    #[serde(skip)]
    pub(crate) as_stored: bool,
    /// The key of an encrypted array. It is not among what is sent to other machines.
    #[serde(skip)]
    pub encryption_key: Option<Arc<EncryptionKey>>,
}

impl TableOptions {
    /// The window of time.
    pub(crate) fn window(&self) -> Result<OpenWindow> {
        let start = TimestampMs(self.timestamp_start.unwrap_or(0));
        OpenWindow::new(start, self.timestamp_end.map(TimestampMs))
    }

    /// Fails unless a table with these options shows the whole present array. With other options, a statement would change
    /// cells that the table doesn't show.
    pub(crate) fn check_changeable(&self, statement: &str) -> Result<()> {
        let problem = if self.timestamp_end.is_some() {
            "shows the past: create a table without a timestamp, and set tiledb.write_timestamp to write at another time than \
             the present"
        } else if self.timestamp_start.is_some_and(|start| start > 0) {
            "shows a window of time: create a table without tiledb.timestamp_start, and set tiledb.write_timestamp to write at \
             another time than the present"
        } else if self.all_versions {
            "shows all versions of its cells: create a table without tiledb.all_versions"
        } else {
            return Ok(());
        };
        Err(Error::unsupported(format!(
            "{statement} on a table that {problem}"
        )))
    }

    /// The options for the types of columns.
    pub(crate) fn types(&self) -> TypeOptions {
        TypeOptions {
            invalid_utf8: self.invalid_utf8,
            time_as: self.time_as,
            float_bits: match self.floats {
                FloatColumns::Stored => FloatBits::Stored,
                FloatColumns::Shown | FloatColumns::Both => FloatBits::Shown,
            },
            as_stored: self.as_stored,
            fixed_text: self.fixed_text,
        }
    }
}

/// The options that also apply without SQL.
impl From<&TableOptions> for OpenOptions {
    fn from(options: &TableOptions) -> Self {
        let mut open = Self::new()
            .invalid_utf8(options.invalid_utf8)
            .time_as(options.time_as)
            .fixed_text(options.fixed_text)
            .empty_cells(options.empty_cells);
        if let Some(ms) = options.timestamp_start {
            open = open.timestamp_start(ms);
        }
        if let Some(ms) = options.timestamp_end {
            open = open.timestamp_end(ms);
        }
        if let Some(ms) = options.write_timestamp {
            open = open.write_timestamp(ms);
        }
        if options.all_versions {
            open = open.all_versions();
        }
        if options.system_columns {
            open = open.system_columns();
        }
        match &options.encryption_key {
            Some(key) => open.encryption_key(Arc::clone(key)),
            None => open,
        }
    }
}

impl TableOptions {
    /// Sets one option; `key` may have the prefix `tiledb.`.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let key = without_prefix(key);
        match key {
            "timestamp" | "timestamp_end" => self.timestamp_end = Some(parse_end(key, value)?),
            "timestamp_start" => self.timestamp_start = Some(parse_start(key, value)?),
            "write_timestamp" => self.write_timestamp = Some(parse_start(key, value)?),
            "empty_cells" => {
                self.empty_cells = choose(
                    key,
                    value,
                    &[
                        ("fill", EmptyCells::Fill),
                        ("null", EmptyCells::Null),
                        ("skip", EmptyCells::Skip),
                        ("domain", EmptyCells::Domain),
                    ],
                )?;
            }
            "invalid_utf8" => {
                self.invalid_utf8 = choose(
                    key,
                    value,
                    &[
                        ("error", InvalidUtf8::Error),
                        ("binary", InvalidUtf8::Binary),
                        ("lossy", InvalidUtf8::Lossy),
                    ],
                )?;
            }
            "time_as" => {
                self.time_as = choose(
                    key,
                    value,
                    &[("time", TimeAs::TimeOfDay), ("duration", TimeAs::Duration)],
                )?;
            }
            "fixed_text" => {
                let choices = [("trim", FixedText::Trim), ("raw", FixedText::Raw)];
                self.fixed_text = choose(key, value, &choices)?;
            }
            "aggregate_from" => {
                self.aggregate_from = choose(
                    key,
                    value,
                    &[
                        ("metadata", AggregateFrom::Metadata),
                        ("exact_metadata", AggregateFrom::ExactMetadata),
                        ("cells", AggregateFrom::Cells),
                    ],
                )?;
            }
            "new_values" => {
                let choices = [
                    ("suggested", NewValues::Suggested),
                    ("error", NewValues::Error),
                    ("extend", NewValues::Extend),
                ];
                self.new_values = choose(key, value, &choices)?;
            }
            "system_columns" => self.system_columns = choose(key, value, &YES_OR_NO)?,
            "all_versions" => self.all_versions = choose(key, value, &YES_OR_NO)?,
            EXTERNAL_MEMBERS => {
                let members: Result<ExternalMembers> = value.parse();
                self.external_members =
                    Some(members.context("option", || format!("tiledb.{key}"))?);
            }
            KEY | KEY_FILE | KEY_VARIABLE => {
                self.encryption_key = Some(encryption::key_of_option(key, value)?);
            }
            _ => return Err(unknown(key)),
        }
        Ok(())
    }

    /// Parses keys and values, each key at most once.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self> {
        let mut options = Self::default();
        let mut seen = HashMap::new();
        for (key, value) in pairs {
            let key = without_prefix(key);
            options.set(key, value)?;
            // Some options are alternatives for the same setting.
            let slot = match key {
                "timestamp" => "timestamp_end",
                KEY_FILE | KEY_VARIABLE => KEY,
                _ => key,
            };
            match seen.entry(slot) {
                Entry::Vacant(vacant) => vacant.insert(key),
                Entry::Occupied(other) if *other.get() == key => {
                    return Err(Error::invalid(format!(
                        "option \"tiledb.{key}\" is given twice"
                    )));
                }
                Entry::Occupied(other) => {
                    let (first, second) = (key.min(other.get()), key.max(other.get()));
                    return Err(Error::invalid(format!(
                        "options \"tiledb.{first}\" and \"tiledb.{second}\" exclude each other"
                    )));
                }
            };
        }
        options.check()?;
        Ok(options)
    }

    /// Parses the options of a CREATE EXTERNAL TABLE statement, where DataFusion lower-cases keys and writes a key
    /// without a dot as `format.<key>`. Options of object stores, and those that describe an array to be created, are
    /// ignored.
    pub fn from_statement(options: &HashMap<String, String>) -> Result<Self> {
        let ours = of_arrays(options).into_iter();
        Self::from_pairs(ours.filter(|(key, _)| !is_creation(key)))
    }

    /// The options of a statement, and apart from them those that describe an array to be created, without prefix, sorted.
    pub(crate) fn split_statement(
        options: &HashMap<String, String>,
    ) -> Result<(Self, Vec<(String, String)>)> {
        let ours = of_arrays(options).into_iter();
        let mut creation: Vec<_> = ours
            .filter(|(key, _)| is_creation(key))
            .map(|(key, value)| (without_prefix(key), value))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        creation.sort_unstable();
        let twice = creation.windows(2).find_map(|pair| match pair {
            [(key, _), (other, _)] if key == other => Some(key),
            _ => None,
        });
        match twice {
            None => Ok((Self::from_statement(options)?, creation)),
            Some(key) => Err(Error::invalid(format!(
                "option \"tiledb.{key}\" is given twice"
            ))),
        }
    }

    fn check(&self) -> Result<()> {
        match (self.timestamp_start, self.timestamp_end) {
            (Some(start), Some(end)) if start > end => Err(Error::invalid(format!(
                "option \"tiledb.timestamp_start\" ({start} ms) is later than \"tiledb.timestamp_end\" ({end} ms)"
            ))),
            _ => Ok(()),
        }
    }
}

/// The options of a statement that are not those of object stores. The order is fixed, so that of several mistakes the same one is
/// always reported.
fn of_arrays(options: &HashMap<String, String>) -> Vec<(&str, &str)> {
    let mut ours: Vec<_> = options
        .iter()
        .map(|(key, value)| (key.strip_prefix("format.").unwrap_or(key), value.as_str()))
        .filter(|(key, _)| !StoreOptions::is_store_option(key))
        .collect();
    ours.sort_unstable();
    ours
}

fn choose<T: Copy>(key: &str, value: &str, choices: &[(&str, T)]) -> Result<T> {
    let wanted = value.trim();
    if let Some((_, choice)) = choices
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(wanted))
    {
        return Ok(*choice);
    }
    let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
    Err(Error::invalid(format!(
        "option \"tiledb.{key}\" is \"{value}\", expected {}",
        names.join(" or ")
    )))
}

const NANOS_PER_MS: i64 = 1_000_000;

/// A time as the last millisecond of a window; the rest of that millisecond is outside.
fn parse_end(key: &str, value: &str) -> Result<u64> {
    parse_time(key, value, |nanos| nanos.div_euclid(NANOS_PER_MS))
}

/// A time as the first millisecond of a window; a millisecond that has started already is outside.
fn parse_start(key: &str, value: &str) -> Result<u64> {
    parse_time(key, value, |nanos| {
        nanos.div_euclid(NANOS_PER_MS) + i64::from(nanos.rem_euclid(NANOS_PER_MS) > 0)
    })
}

fn parse_time(key: &str, value: &str, to_ms: impl Fn(i64) -> i64) -> Result<u64> {
    let text = value.trim();
    let wrong = |why: &str| {
        Error::invalid(format!(
            "option \"tiledb.{key}\" is \"{value}\", {why}; expected milliseconds since 1970 or an ISO 8601 \
             time such as 2024-05-01, 2024-05-01T12:30:00Z or 2024-05-01T12:30:00.250+02:00 (UTC without an offset)"
        ))
    };
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().map_err(|_| wrong("which is too large"));
    }
    let nanos = string_to_timestamp_nanos(text).map_err(|_| wrong("which is not a time"))?;
    u64::try_from(to_ms(nanos)).map_err(|_| wrong("which is before 1970"))
}
