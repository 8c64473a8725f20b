//! The names of tables that are locations, with the options in their query.

use tiledb_engine::Error;
use url::form_urlencoded;

use crate::options::{TableOptions, has_prefix, is_known, is_secret};
use crate::stores::location::{check_no_secret, expand_home};

/// A parsed location: its path, and the options in its query.
#[derive(Debug)]
pub(crate) struct ParsedLocation {
    pub path: String,
    pub pairs: Vec<(String, String)>,
}

impl ParsedLocation {
    pub(crate) fn parse(name: &str) -> tiledb_engine::Result<Self> {
        check_no_secret(name)?;
        let (path, pairs) = split_query(name);
        // Names are shown in plans, errors and listings.
        if pairs.iter().any(|(key, _)| is_secret(key)) {
            return Err(Error::invalid(
                "the name of a table cannot hold a key: name a file that does with tiledb.encryption_key_file, or an \
                 environment variable with tiledb.encryption_key_env",
            ));
        }
        Ok(Self {
            path: expand_home(path).into_owned(),
            pairs,
        })
    }
}

/// A table name that is a location on storage.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TableLocation {
    pub(super) path: String,
    pub(super) options: TableOptions,
    /// Whether the name has a query, which only makes sense for an array.
    pub(super) has_query: bool,
}

impl TableLocation {
    /// `None` if the name is not a location.
    pub(super) fn parse(name: &str) -> tiledb_engine::Result<Option<Self>> {
        if !looks_like_location(name) {
            return Ok(None);
        }
        let ParsedLocation { path, pairs } = ParsedLocation::parse(name)?;
        let pairs_as_text = pairs.iter().map(|(k, v)| (k.as_str(), v.as_str()));
        Ok(Some(Self {
            path,
            options: TableOptions::from_pairs(pairs_as_text)?,
            has_query: !pairs.is_empty(),
        }))
    }

    /// Whether the URL names a file on a web server, judging by its extension.
    pub(super) fn names_web_file(&self) -> bool {
        let is_web = ["http://", "https://"]
            .iter()
            .any(|scheme| self.path.starts_with(scheme));
        let path = self.path.split(['?', '#']).next().unwrap_or_default();
        let is_one_of = |ending: &str, known: &[&str]| known.contains(&ending);
        let mut endings = path.rsplit('.');
        let ending = match endings.next() {
            Some(ending) if is_one_of(ending, &COMPRESSED_ENDINGS) => endings.next(),
            ending => ending,
        };
        is_web && !self.has_query && ending.is_some_and(|ending| is_one_of(ending, &FILE_ENDINGS))
    }
}

/// The extensions of files that DataFusion reads.
const FILE_ENDINGS: [&str; 6] = ["parquet", "csv", "json", "ndjson", "arrow", "avro"];
/// The extensions of compressed files.
const COMPRESSED_ENDINGS: [&str; 4] = ["gz", "bz2", "xz", "zst"];

/// Plain names aren't locations, not even that of a folder in the current directory (`./weather` names it): DataFusion
/// also looks up here whether the table of a CREATE statement exists already, and `CREATE EXTERNAL TABLE weather …
/// LOCATION 'weather'` must not find itself.
pub(crate) fn looks_like_location(name: &str) -> bool {
    name.contains(['/', std::path::MAIN_SEPARATOR]) || name == "~"
}

/// Splits `path?key=value&…`. The query of a web server's URL has our options only if one of its keys is ours: other queries are
/// the server's. The query of any other location always has options.
fn split_query(name: &str) -> (&str, Vec<(String, String)>) {
    let Some((path, query)) = name.rsplit_once('?') else {
        return (name, Vec::new());
    };
    // A plus sign is part of a time zone here, not a space.
    let query = query.replace('+', "%2B");
    let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect();
    let is_word = |key: &str| {
        !key.is_empty()
            && key
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"._".contains(&b))
    };
    let is_web = ["http://", "https://"]
        .iter()
        .any(|scheme| name.starts_with(scheme));
    let ours = if is_web {
        pairs
            .iter()
            .any(|(key, _)| is_known(key) || has_prefix(key))
    } else {
        query.contains('=') && pairs.iter().all(|(key, _)| is_word(key))
    };
    if ours {
        (path, pairs)
    } else {
        (name, Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_of(name: &str) -> Option<(String, Option<u64>)> {
        let location = TableLocation::parse(name).unwrap()?;
        Some((location.path, location.options.timestamp_end))
    }

    #[test]
    fn names_are_not_locations() {
        assert_eq!(path_of("weather"), None);
        assert_eq!(path_of("weather?timestamp=5"), None);
        assert_eq!(path_of("/a/b"), Some(("/a/b".into(), None)));
        assert_eq!(path_of("s3://a/b"), Some(("s3://a/b".into(), None)));
    }

    #[test]
    fn queries_are_options() {
        assert_eq!(path_of("/a/b?timestamp=5"), Some(("/a/b".into(), Some(5))));
        assert_eq!(
            path_of("s3://a/b?tiledb.timestamp=5"),
            Some(("s3://a/b".into(), Some(5)))
        );
        assert_eq!(
            path_of("/a/b?timestamp=1970-01-01T02:00:01+02:00&empty_cells=skip"),
            Some(("/a/b".into(), Some(1000)))
        );
        for name in [
            "/a/b?timestmp=5",
            "s3://a/b?timestmp=5",
            "file:///a/b?timestmp=5",
        ] {
            let error = TableLocation::parse(name).unwrap_err();
            assert!(
                error.message().contains("unknown option \"timestmp\""),
                "{error}"
            );
        }
    }

    #[test]
    fn the_queries_and_globs_of_others_are_left_alone() {
        for name in [
            "https://h/x.parquet?version=a+b",
            "/data/*.parquet",
            "/data/part?.parquet",
            "s3://bucket/part?.parquet",
            "/data/x?=1",
        ] {
            assert_eq!(path_of(name), Some((name.into(), None)));
        }
        // No store takes a signature from there, and the name of a table is shown.
        let error = TableLocation::parse("https://h/x.parquet?sig=hunter2").unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}
