//! The standard input as a file, for `CREATE EXTERNAL TABLE … LOCATION '/dev/stdin'`.
//!
//! A pipe can't be read twice or from its middle, so all of it is kept in memory, in an object store of its own scheme.

use std::io::{self, IsTerminal, Read};
use std::sync::Arc;

use datafusion::error::Result;
use datafusion_cli::object_storage::is_stdin_location;
use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use url::Url;

use crate::report;

/// The scheme of the store.
pub const SCHEME: &str = "stdin";

/// The URL for a location that is the standard input. Listings look for the extension of the format in its name.
pub fn url_of(location: &str, format: &str) -> Option<String> {
    if !is_stdin_location(location) {
        return None;
    }
    let format = format.to_ascii_lowercase();
    Some(match format.as_str() {
        "csv" | "json" | "parquet" => format!("{SCHEME}:///stdin.{format}"),
        _ => format!("{SCHEME}:///stdin"),
    })
}

/// The store for a URL, unless it is registered.
///
/// # Errors
///
/// Fails if the input was read as another format, or isn't data.
pub async fn store(
    url: &Url,
    registered: Option<Arc<dyn ObjectStore>>,
    reads_sql: bool,
) -> Result<Option<Arc<dyn ObjectStore>>> {
    let path = Path::from_url_path(url.path()).map_err(object_store::Error::from)?;
    if let Some(store) = registered {
        if store.head(&path).await.is_ok() {
            return Ok(None);
        }
        let read = store
            .list(None)
            .try_next()
            .await
            .ok()
            .flatten()
            .map_or_else(String::new, |file| format!(" as '{}'", file.location));
        return Err(report::message(format!(
            "an earlier statement has read the standard input{read}: give all tables of it the same STORED AS"
        )));
    }
    let why = if reads_sql {
        "it holds the statements"
    } else if io::stdin().is_terminal() {
        "it is a terminal"
    } else {
        let mut data = Vec::new();
        io::stdin().lock().read_to_end(&mut data)?;
        let store = InMemory::new();
        store.put(&path, data.into()).await?;
        return Ok(Some(Arc::new(store)));
    };
    Err(report::message(format!(
        "the standard input can't be read as a table, because {why}: pipe the data in and give the statements otherwise, as in \
         cat data.csv | tiledb-sql -f query.sql"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_input_has_a_url() {
        let url = |location, format| url_of(location, format);
        assert_eq!(
            url("/dev/stdin", "CSV").as_deref(),
            Some("stdin:///stdin.csv")
        );
        assert_eq!(url("/dev/fd/0", "avro").as_deref(), Some("stdin:///stdin"));
        assert_eq!(url("./stdin.csv", "CSV"), None);
    }
}
