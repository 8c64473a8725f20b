//! The object stores of statements that only the shell has: the standard input as a file, and the files of this machine, counted.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::error::Result;
use datafusion_tiledb::{StatementStores, StoreRequest};
use object_store::ObjectStore;

use crate::stdin;

/// Makes the stores of the shell.
#[derive(Debug, Default)]
pub struct ShellStores {
    /// Whether the shell reads its statements from the standard input.
    pub reads_sql_from_stdin: bool,
}

#[async_trait]
impl StatementStores for ShellStores {
    async fn store(&self, request: StoreRequest<'_>) -> Result<Option<Arc<dyn ObjectStore>>> {
        let StoreRequest {
            url, registered, ..
        } = request;
        match (url.scheme(), registered) {
            (stdin::SCHEME, registered) => {
                stdin::store(url, registered, self.reads_sql_from_stdin).await
            }
            // The session counts the requests of the stores that it gets, and it didn't get the store of files.
            ("file", Some(files)) => Ok(Some(files).filter(|files| !is_counted(files.as_ref()))),
            _ => Ok(None),
        }
    }

    fn replace(&self, location: &str, format: &str) -> Option<String> {
        stdin::url_of(location, format)
    }
}

/// Whether the session counts the requests of a store.
fn is_counted(store: &dyn ObjectStore) -> bool {
    store.to_string().starts_with("Instrumented")
}
