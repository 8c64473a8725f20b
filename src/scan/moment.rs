//! The moment of a statement: all of its scans of one array show the same snapshot, even if others commit during planning.
//!
//! Otherwise, a self-join of an array could find rows without a partner, and an UPDATE that moves rows could meet its own rows
//! at new coordinates. Scans of one table share its snapshot. Tables that were opened separately, as each path in FROM is,
//! share neither keys nor credentials: each table opens the array itself, and shows the state that the first one has seen.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tiledb_engine::Result;
use tiledb_engine::array::snapshot::{Snapshot, SnapshotContents};
use tiledb_engine::array::window::{OpenWindow, TimestampMs};
use tiledb_engine::format::domain_range::DomainRange;

use crate::scan::scan_box::scan_box;
use crate::scan::source::TileDbSource;

/// The identity of a table.
pub(crate) type TableIdentity = Arc<dyn Any + Send + Sync>;

/// The snapshots that the scans of one statement share.
#[derive(Debug)]
pub(crate) struct StatementSnapshots {
    /// How often the statement scans each array, by its URI.
    counts: HashMap<String, usize>,
    /// The scans that have been planned.
    scans: Mutex<Vec<StatementScan>>,
    /// The snapshots by the URI of the array. Scans of different arrays don't wait for each other.
    arrays: Mutex<HashMap<String, Arc<ArraySnapshots>>>,
}

/// A scan of the present state of an array.
#[derive(Debug, Clone)]
pub(crate) struct StatementScan {
    /// The URI of the array.
    pub(crate) uri: String,
    /// The fragments and deletes that the scan sees.
    pub(crate) seen: SnapshotContents,
    /// Whether it only looks up rows at coordinates that the statement writes.
    pub(crate) is_lookup: bool,
    /// A box around the cells that it selects; `None` if it may select any cell.
    pub(crate) selected: Option<Vec<DomainRange>>,
}

impl StatementScan {
    /// A scan; `None` if it shows the past, or only a window of time, which no statement changes.
    pub(crate) fn of(source: &TileDbSource) -> Option<Self> {
        let spec = &source.plan().spec;
        let snapshot = &spec.table.snapshot;
        let is_present = source.shows_present() && snapshot.window.start == TimestampMs(0);
        let whole = spec.subarray.is_all();
        is_present.then(|| Self {
            uri: snapshot.storage.uri().to_owned(),
            seen: snapshot.seen(),
            is_lookup: false,
            selected: scan_box(source).filter(|_| !whole),
        })
    }
}

/// The snapshots of one array that a statement shows, one for each table.
type ArraySnapshots = tokio::sync::Mutex<Vec<TableSnapshot>>;

#[derive(Debug)]
struct TableSnapshot {
    table: TableIdentity,
    /// The requested window.
    asked: OpenWindow,
    snapshot: Snapshot,
}

impl StatementSnapshots {
    /// For a statement that scans arrays with these URIs.
    pub(crate) fn new(scanned: &[String]) -> Self {
        let mut counts = HashMap::new();
        for uri in scanned {
            *counts.entry(uri.clone()).or_default() += 1;
        }
        Self {
            counts,
            scans: Mutex::default(),
            arrays: Mutex::default(),
        }
    }

    /// Whether the statement scans an array in one place.
    pub(crate) fn is_scanned_once(&self, uri: &str) -> bool {
        self.counts.get(uri) == Some(&1)
    }

    /// Records a planned scan.
    pub(crate) fn record(&self, source: &TileDbSource, is_lookup: bool) {
        let scan = StatementScan::of(source);
        let scan = scan.map(|scan| StatementScan { is_lookup, ..scan });
        let mut scans = self.scans.lock().unwrap_or_else(PoisonError::into_inner);
        scans.extend(scan);
    }

    /// The scans of an array that have been planned.
    pub(crate) fn scans(&self, uri: &str) -> Vec<StatementScan> {
        let scans = self.scans.lock().unwrap_or_else(PoisonError::into_inner);
        scans
            .iter()
            .filter(|scan| scan.uri == uri)
            .cloned()
            .collect()
    }

    /// The snapshot that a table shows in this statement: the one that this or another table of the array has shown in it, or
    /// the one that `open` returns. The flag is true if the snapshot is complete.
    ///
    /// What was `found` when the statement was planned saves opening the array. It may be older than what another table has shown,
    /// and then isn't used.
    ///
    /// # Errors
    /// The array cannot be opened.
    pub(crate) async fn snapshot(
        &self,
        uri: &str,
        table: TableIdentity,
        asked: OpenWindow,
        found: Option<Snapshot>,
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
        let opened = match found {
            Some(found) if first.is_none() => found,
            _ => open.await?,
        };
        let (mut snapshot, mut whole) = (opened.clone(), true);
        if let Some(seen) = first {
            match opened.only(&seen) {
                Ok(only) => {
                    whole = false;
                    snapshot = only;
                    snapshot.window = seen.window;
                }
                // The rest was vacuumed. Statements that change rows notice that before their commit.
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
