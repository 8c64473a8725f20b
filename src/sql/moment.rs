//! The moment of a statement: all its scans of one array show the array alike, whatever is committed while they are planned.
//!
//! Otherwise `SELECT` from an array joined with itself would find rows that have no partner, and an UPDATE that moves rows would
//! find its own rows in the way of others. Scans of one table share its snapshot. Tables that were opened on their own, as each
//! path in FROM is, share no keys and no credentials: each opens the array itself, and shows what the first one has seen.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::array::snapshot::Snapshot;
use crate::array::window::OpenWindow;
use crate::error::Result;

/// What tells one table from others.
pub(super) type TableIdentity = Arc<dyn Any + Send + Sync>;

/// The snapshots of one statement.
#[derive(Debug, Default)]
pub(super) struct StatementSnapshots {
    /// By the URI of the array. Scans of several arrays do not wait for each other.
    arrays: Mutex<HashMap<String, Arc<ArraySnapshots>>>,
}

/// The snapshots of one array that a statement shows.
type ArraySnapshots = tokio::sync::Mutex<Vec<TableSnapshot>>;

#[derive(Debug)]
struct TableSnapshot {
    table: TableIdentity,
    /// The window that was asked for.
    asked: OpenWindow,
    snapshot: Snapshot,
}

impl StatementSnapshots {
    /// What a table shows in this statement: what it or another table of the array has shown in it, or what `open` finds. The
    /// flag says whether that is all that is there.
    ///
    /// # Errors
    /// The array cannot be opened.
    pub(super) async fn snapshot(
        &self,
        uri: &str,
        table: TableIdentity,
        asked: OpenWindow,
        open: impl Future<Output = Result<Snapshot>> + Send,
    ) -> Result<(Snapshot, bool)> {
        let looks = {
            let mut arrays = self.arrays.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(arrays.entry(uri.to_owned()).or_default())
        };
        let mut looks = looks.lock().await;
        let mut alike = looks.iter().filter(|look| look.asked == asked);
        if let Some(same) = alike.clone().find(|look| Arc::ptr_eq(&look.table, &table)) {
            return Ok((same.snapshot.clone(), true));
        }
        let first = alike.next().map(|look| look.snapshot.seen());
        let opened = open.await?;
        let (mut snapshot, mut whole) = (opened.clone(), true);
        if let Some(seen) = first {
            match opened.only(&seen) {
                Ok(only) => {
                    whole = false;
                    snapshot = only;
                    snapshot.window = seen.window;
                }
                // The rest was vacuumed, which statements that change rows notice before their commit.
                Err(gone) => log::debug!("{uri}: a statement sees the array at two times: {gone}"),
            }
        }
        looks.push(TableSnapshot {
            table,
            asked,
            snapshot: snapshot.clone(),
        });
        Ok((snapshot, whole))
    }
}
