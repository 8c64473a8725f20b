//! What the columns of a table follow from: the schema and its enumerations, read before anybody asks for rows.
//!
//! Planning a statement needs the columns of the tables it names, and only later, if at all, their rows. So opening lists
//! the schemas alone; commits and fragments are listed when rows are asked for, which may be much later (a view, a prepared
//! statement), so that nothing written in between is missed. The schemas are listed again only if that is more than a
//! moment later, or if a fragment was written by one that was not there: codes of an enumeration, for one, can only be read
//! by a schema as new as the fragment they are in.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::directory::ArrayDirectory;
use super::fragment::Fragment;
use super::snapshot::Snapshot;
use super::window::OpenWindow;
use crate::error::Result;
use crate::format::fragment::footer::OLD_SCHEMA_NAME;
use crate::storage::Storage;

/// What goes on between planning a statement and reading its rows takes no longer. A schema that comes up meanwhile
/// may be taken to come up afterwards, as long as nothing was written by it.
const MOMENT: Duration = Duration::from_secs(1);

/// The columns of an array, and what was listed to find them.
#[derive(Debug)]
pub struct Columns {
    listed: Instant,
    directory: Arc<ArrayDirectory>,
    without_fragments: Snapshot,
}

impl Columns {
    /// Reads the schema that `window` shows; `None` if only opening the whole array tells which it is, or that there is
    /// none.
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

    /// The array as if it had no fragments: of use for its columns, and for nothing else.
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

    /// Whether every fragment was written by a schema that was listed. What is cached of a fragment does not tell by itself.
    fn knows_schemas_of(&self, snapshot: &Snapshot) -> bool {
        let named = |fragment: &Arc<Fragment>| {
            let name = fragment.footer.schema_name.as_str();
            // Fragments before version 10 name none; theirs is in the array's own folder, which has just been listed.
            name.is_empty() || name == OLD_SCHEMA_NAME || self.directory.schema_named(name).is_ok()
        };
        snapshot.fragments.iter().all(named)
    }
}
