//! The columns of a table, from the schema and its enumerations, which are read before any rows.
//!
//! Planning a statement needs the columns of the tables it names, and their rows only later, if at all. So opening
//! lists only the schemas; commits and fragments are listed when rows are read, which may be much later (a view, a
//! prepared statement), so that nothing written in between is missed. The schemas are listed again only if that is more
//! than a moment later, or if a fragment was written with a schema that is not in the list: codes of an enumeration,
//! for example, can only be read with a schema as new as their fragment.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::directory::ArrayDirectory;
use super::fragment::Fragment;
use super::snapshot::Snapshot;
use super::window::OpenWindow;
use crate::error::Result;
use crate::format::fragment::footer::OLD_SCHEMA_NAME;
use crate::storage::Storage;

/// Reading the rows of a statement starts within this time after planning it. A schema that is added within this time,
/// and that no fragment was written with, may be treated as added later.
const MOMENT: Duration = Duration::from_secs(1);

/// The columns of an array, and the listing they were found by.
#[derive(Debug)]
pub struct Columns {
    listed: Instant,
    directory: Arc<ArrayDirectory>,
    without_fragments: Snapshot,
}

impl Columns {
    /// Reads the schema that `window` shows; `None` if only opening the whole array can tell which one it is, or that
    /// there is none.
    pub async fn read(storage: &Storage, window: OpenWindow) -> Result<Option<Self>> {
        let listed = Instant::now();
        let window = OpenWindow::new(window.start, Some(window.end_or_now()))?;
        let Some(directory) = ArrayDirectory::list_schemas(storage, &window).await? else {
            return Ok(None);
        };
        let directory = Arc::new(directory);
        let without_fragments =
            Snapshot::without_fragments(storage, window, Arc::clone(&directory)).await?;
        Ok(Some(Self {
            listed,
            directory,
            without_fragments,
        }))
    }

    /// The array as if it had no fragments, only for its columns.
    pub fn without_fragments(&self) -> &Snapshot {
        &self.without_fragments
    }

    /// Opens the array as seen through `window` now.
    pub async fn open(&self, storage: &Storage, window: OpenWindow) -> Result<Snapshot> {
        if self.listed.elapsed() < MOMENT
            && let Ok(snapshot) = self.open_rest(storage, window).await
            && self.knows_schemas_of(&snapshot)
        {
            return Ok(snapshot);
        }
        Snapshot::open(storage, window).await
    }

    async fn open_rest(&self, storage: &Storage, window: OpenWindow) -> Result<Snapshot> {
        let window = OpenWindow::new(window.start, Some(window.end_or_now()))?;
        let directory = self.directory.list_rest(storage).await?;
        Snapshot::open_listed(storage, window, directory).await
    }

    /// Whether every fragment was written with a listed schema. A cached fragment does not show that by itself.
    fn knows_schemas_of(&self, snapshot: &Snapshot) -> bool {
        let named = |fragment: &Arc<Fragment>| {
            let name = fragment.footer.schema_name.as_str();
            // Fragments before version 10 name no schema; theirs is in the array's own folder, which has just been
            // listed.
            name.is_empty() || name == OLD_SCHEMA_NAME || self.directory.schema_named(name).is_ok()
        };
        snapshot.fragments.iter().all(named)
    }
}
