//! The options of a table: what `OPTIONS ('tiledb.…' '…')`, a URL's query and the builder may set.
//!
//! [`TableOptions`] is the plain result, shared by all of them. [`TileDbTableOptions`] is the same thing
//! registered with DataFusion under the prefix `tiledb`, because some fronts (datafusion-cli among them)
//! apply all options of a statement to the session's table options before any factory sees them, and an
//! unregistered prefix fails there. The subtle thing: DataFusion hands keys over with the prefix in one
//! place and without it in another, so both are taken everywhere.

use std::any::Any;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use datafusion::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::error::DataFusionError;

use super::encryption::{self, KEY, KEY_FILE, KEY_VARIABLE};
use crate::array::window::{OpenWindow, TimestampMs};
use crate::arrow::{InvalidUtf8, TimeAs, TypeOptions};
use crate::error::{Error, Result};
use crate::filter::EncryptionKey;
use crate::scan::EmptyCells;

/// The prefix of our options.
pub(crate) const PREFIX: &str = "tiledb";

/// Prefixes of options that configure object stores; they are for somebody else.
const STORE_PREFIXES: [&str; 5] = ["aws.", "gcp.", "azure.", "http.", "stdin."];

/// Every option, with what it takes.
const KNOWN: [(&str, &str); 11] = [
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
        "dense cells never written: fill, null or skip",
    ),
    (
        "invalid_utf8",
        "text that is not UTF-8: error, binary or lossy",
    ),
    ("time_as", "TIME_* fields: time or duration"),
    (
        "aggregate_from",
        "what answers count, sum, avg, min and max: metadata where they prove the answer, exact_metadata where no digit \
         can differ from that of a scan, or cells",
    ),
    ("system_columns", "true adds __timestamp and __fragment"),
];

/// Options that describe an array to be created.
const CREATION: [&str; 6] = [
    "array_type",
    "capacity",
    "cell_order",
    "tile_order",
    "allows_duplicates",
    "offsets_filters",
];

/// What aggregates may be answered from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AggregateFrom {
    /// Metadata where they prove the answer; floats are summed tile by tile.
    #[default]
    Metadata,
    /// Metadata, but where the last digits or the sign of a zero could differ from those of a scan.
    ExactMetadata,
    /// Cells alone.
    Cells,
}

/// The options of a table, parsed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct TableOptions {
    /// The first millisecond since 1970 whose writes are seen.
    pub timestamp_start: Option<u64>,
    /// The last millisecond since 1970 whose writes are seen.
    pub timestamp_end: Option<u64>,
    /// Dense cells that were never written.
    pub empty_cells: EmptyCells,
    /// Text that is not UTF-8.
    pub invalid_utf8: InvalidUtf8,
    /// The Arrow type of times.
    pub time_as: TimeAs,
    /// What aggregates may be answered from.
    pub aggregate_from: AggregateFrom,
    /// The key of an encrypted array.
    pub encryption_key: Option<Arc<EncryptionKey>>,
}

impl TableOptions {
    pub(super) fn window(&self) -> Result<OpenWindow> {
        let start = TimestampMs(self.timestamp_start.unwrap_or(0));
        OpenWindow::new(start, self.timestamp_end.map(TimestampMs))
    }

    /// How columns show what is stored.
    pub(super) fn types(&self) -> TypeOptions {
        TypeOptions {
            invalid_utf8: self.invalid_utf8,
            time_as: self.time_as,
        }
    }
}

impl TableOptions {
    /// Sets one option; `key` may carry the prefix `tiledb.`.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let key = without_prefix(key);
        match key {
            "timestamp" | "timestamp_end" => self.timestamp_end = Some(parse_end(key, value)?),
            "timestamp_start" => self.timestamp_start = Some(parse_start(key, value)?),
            "empty_cells" => {
                self.empty_cells = choose(
                    key,
                    value,
                    &[
                        ("fill", EmptyCells::Fill),
                        ("null", EmptyCells::Null),
                        ("skip", EmptyCells::Skip),
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
            "system_columns" => {
                if choose(key, value, &[("true", true), ("false", false)])? {
                    return Err(Error::unsupported(
                        "option \"tiledb.system_columns\" is not supported yet",
                    ));
                }
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
            // Some options say the same thing in different ways.
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

    /// Parses the options of a CREATE EXTERNAL TABLE statement, where DataFusion lower-cases keys and writes
    /// a key without a dot as `format.<key>`. Options of object stores pass by unread.
    pub fn from_statement(options: &HashMap<String, String>) -> Result<Self> {
        let ours = options
            .iter()
            .map(|(key, value)| (key.strip_prefix("format.").unwrap_or(key), value.as_str()))
            .filter(|(key, _)| !is_store_option(key));
        // In a fixed order, so that of several mistakes the same one is always reported.
        let mut ours: Vec<_> = ours.collect();
        ours.sort_unstable();
        Self::from_pairs(ours)
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

/// Whether `key` configures an object store.
pub(crate) fn is_store_option(key: &str) -> bool {
    STORE_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

/// Whether `key`, with or without the prefix, is an option of ours.
pub(crate) fn is_known(key: &str) -> bool {
    let key = without_prefix(key);
    KNOWN.iter().any(|(known, _)| *known == key)
}

/// Whether the value of `key`, with or without the prefix, is a secret.
pub(crate) fn is_secret(key: &str) -> bool {
    without_prefix(key) == KEY
}

/// Whether `key` carries our prefix.
pub(crate) fn has_prefix(key: &str) -> bool {
    without_prefix(key).len() != key.len()
}

fn without_prefix(key: &str) -> &str {
    key.strip_prefix(PREFIX)
        .and_then(|rest| rest.strip_prefix('.'))
        .unwrap_or(key)
}

fn unknown(key: &str) -> Error {
    if CREATION.contains(&key) || key.starts_with("dim.") || key.starts_with("attr.") {
        return Error::unsupported(format!(
            "option \"tiledb.{key}\" is for creating an array, which this release does not do"
        ));
    }
    let known: Vec<_> = KNOWN
        .iter()
        .map(|(known, _)| format!("tiledb.{known}"))
        .collect();
    Error::invalid(format!(
        "unknown option \"{key}\"; the options are {}",
        known.join(", ")
    ))
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

/// A time as the last millisecond of a window: what follows within the millisecond is not seen.
fn parse_end(key: &str, value: &str) -> Result<u64> {
    parse_time(key, value, |nanos| nanos.div_euclid(NANOS_PER_MS))
}

/// A time as the first millisecond of a window: a millisecond already begun is not seen.
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

/// [`TableOptions`] as an extension of DataFusion's table options, under the prefix `tiledb`.
#[derive(Debug, Clone, Default)]
pub struct TileDbTableOptions(TableOptions);

impl TileDbTableOptions {
    /// The options as they are set.
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
        let word = match (key, self) {
            ("timestamp_start", _) => return self.timestamp_start.map(|ms| ms.to_string()),
            ("timestamp_end", _) => return self.timestamp_end.map(|ms| ms.to_string()),
            (
                "empty_cells",
                Self {
                    empty_cells: EmptyCells::Fill,
                    ..
                },
            ) => "fill",
            (
                "empty_cells",
                Self {
                    empty_cells: EmptyCells::Null,
                    ..
                },
            ) => "null",
            (
                "empty_cells",
                Self {
                    empty_cells: EmptyCells::Skip,
                    ..
                },
            ) => "skip",
            (
                "invalid_utf8",
                Self {
                    invalid_utf8: InvalidUtf8::Error,
                    ..
                },
            ) => "error",
            (
                "invalid_utf8",
                Self {
                    invalid_utf8: InvalidUtf8::Binary,
                    ..
                },
            ) => "binary",
            (
                "invalid_utf8",
                Self {
                    invalid_utf8: InvalidUtf8::Lossy,
                    ..
                },
            ) => "lossy",
            (
                "time_as",
                Self {
                    time_as: TimeAs::TimeOfDay,
                    ..
                },
            ) => "time",
            (
                "time_as",
                Self {
                    time_as: TimeAs::Duration,
                    ..
                },
            ) => "duration",
            ("aggregate_from", options) => match options.aggregate_from {
                AggregateFrom::Metadata => "metadata",
                AggregateFrom::ExactMetadata => "exact_metadata",
                AggregateFrom::Cells => "cells",
            },
            ("system_columns", _) => "false",
            // Least of all the key.
            _ => return None,
        };
        Some(word.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn end(value: &str) -> Result<u64> {
        parse_end("timestamp", value)
    }

    #[test]
    fn times_are_milliseconds_or_iso() {
        assert_eq!(end("1000").unwrap(), 1000);
        assert_eq!(end(" 0 ").unwrap(), 0);
        assert_eq!(end("18446744073709551615").unwrap(), u64::MAX);
        assert_eq!(end("1970-01-02").unwrap(), 86_400_000);
        assert_eq!(end("2024-05-01T00:00:00Z").unwrap(), 1_714_521_600_000);
        assert_eq!(end("2024-05-01 00:00:00").unwrap(), 1_714_521_600_000);
        assert_eq!(
            end("2024-05-01T02:00:00.250+02:00").unwrap(),
            1_714_521_600_250
        );
    }

    #[test]
    fn windows_are_whole_milliseconds_inside_the_times() {
        assert_eq!(end("1970-01-01T00:00:00.000999Z").unwrap(), 0);
        assert_eq!(
            parse_start("timestamp_start", "1970-01-01T00:00:00.000999Z").unwrap(),
            1
        );
        assert_eq!(
            parse_start("timestamp_start", "1970-01-01T00:00:00.001Z").unwrap(),
            1
        );
    }

    #[test]
    fn wrong_times_say_what_is_expected() {
        for (value, why) in [
            ("", "not a time"),
            ("yesterday", "not a time"),
            ("2024-13-01", "not a time"),
            ("-5", "not a time"),
            ("1960-01-01", "before 1970"),
            ("99999999999999999999", "too large"),
        ] {
            let error = end(value).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.message().contains(why), "{error}");
            assert!(
                error.message().contains("expected milliseconds since 1970"),
                "{error}"
            );
        }
    }

    #[test]
    fn keys_come_with_and_without_prefix() {
        let with = TableOptions::from_pairs([
            ("tiledb.empty_cells", "Skip"),
            ("tiledb.time_as", "duration"),
        ]);
        let without = TableOptions::from_pairs([("empty_cells", "skip"), ("time_as", "duration")]);
        assert_eq!(with.unwrap(), without.unwrap());
    }

    #[test]
    fn unknown_keys_and_values_list_the_known_ones() {
        let error = TableOptions::from_pairs([("tiledb.timestmp", "1")]).unwrap_err();
        assert!(
            error.message().contains("unknown option \"timestmp\""),
            "{error}"
        );
        assert!(
            error.message().contains("tiledb.timestamp_start"),
            "{error}"
        );
        let error = TableOptions::from_pairs([("empty_cells", "zero")]).unwrap_err();
        assert!(
            error.message().ends_with("expected fill or null or skip"),
            "{error}"
        );
    }

    #[test]
    fn what_is_not_there_yet_says_so() {
        for (key, value) in [
            ("system_columns", "true"),
            ("dim.x.tile", "8"),
            ("capacity", "100"),
        ] {
            let error = TableOptions::from_pairs([(key, value)]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{key}");
        }
        assert!(TableOptions::from_pairs([("system_columns", "false")]).is_ok());
    }

    #[test]
    fn a_key_is_taken_and_never_told() {
        const SECRET: &str = "0123456789abcdeF0123456789abcdeF";
        let options = TableOptions::from_pairs([("tiledb.encryption_key", SECRET)]).unwrap();
        let key = EncryptionKey::from_text(SECRET.as_bytes()).unwrap();
        assert_eq!(options.encryption_key.as_deref(), Some(&key));
        let mut extension = TileDbTableOptions::default();
        extension.set("encryption_key", SECRET).unwrap();
        let entries: Vec<_> = extension
            .entries()
            .into_iter()
            .map(|entry| (entry.key, entry.value))
            .collect();
        for shown in [
            format!("{options:?} {options:#?}"),
            format!("{extension:?} {entries:?}"),
        ] {
            assert!(!shown.contains("0123"), "{shown}");
        }
        let error = TableOptions::from_pairs([("encryption_key", "hunter2")]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(!error.to_string().contains("hunter2"), "{error}");
        for other in ["encryption_key_env", "encryption_key_file"] {
            let both = TableOptions::from_pairs([("encryption_key", SECRET), (other, SECRET)]);
            assert!(!both.unwrap_err().to_string().contains(SECRET));
        }
    }

    #[test]
    fn windows_must_make_sense() {
        assert!(TableOptions::from_pairs([("timestamp", "1"), ("timestamp_end", "2")]).is_err());
        assert!(TableOptions::from_pairs([("timestamp", "1"), ("tiledb.timestamp", "1")]).is_err());
        assert!(
            TableOptions::from_pairs([("timestamp_start", "3"), ("timestamp_end", "2")]).is_err()
        );
        let options =
            TableOptions::from_pairs([("timestamp_start", "2"), ("timestamp_end", "2")]).unwrap();
        assert_eq!(
            (options.timestamp_start, options.timestamp_end),
            (Some(2), Some(2))
        );
    }

    #[test]
    fn statements_carry_options_of_others() {
        let options = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect::<HashMap<_, _>>()
        };
        let parsed = TableOptions::from_statement(&options(&[
            ("aws.region", "eu-west-1"),
            ("format.timestamp", "7"),
        ]));
        assert_eq!(parsed.unwrap().timestamp_end, Some(7));
        assert!(TableOptions::from_statement(&options(&[("tiledbb.timestamp", "7")])).is_err());
    }

    #[test]
    fn the_extension_takes_keys_both_ways() {
        let mut table_options = datafusion::config::TableOptions::default();
        table_options
            .extensions
            .insert(TileDbTableOptions::default());
        table_options.set("tiledb.timestamp", "5").unwrap();
        assert!(table_options.set("tiledb.nonsense", "5").is_err());
        let extension = table_options
            .extensions
            .get::<TileDbTableOptions>()
            .unwrap();
        assert_eq!(extension.options().timestamp_end, Some(5));

        let mut extension = TileDbTableOptions::default();
        extension.set("timestamp", "6").unwrap();
        assert_eq!(extension.options().timestamp_end, Some(6));
        assert_eq!(extension.entries().len(), KNOWN.len());
    }
}
