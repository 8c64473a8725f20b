//! What the lookups and the scans of one statement share, where opening an array costs round trips.
//!
//! DataFusion looks for one table after the other, and asks a table for its rows later, perhaps much later: then the array must be
//! looked at again. A program that plans and runs a statement at once says so by [`in_one_statement`]. Then all tables of the
//! statement are opened side by side, and what was found serves its scans. A lookup takes no context but a name, so the statement is
//! a variable of the task.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use datafusion::catalog::TableProvider;

use crate::options::TableOptions;

tokio::task_local! {
    /// The statement that the task runs.
    static STATEMENT: Arc<OpenedTables>;
}

/// Plans one statement and its scans without looking at an array in an object store twice.
///
/// Within the future, [`execute`](crate::execute) opens the arrays that its statement names side by side, and the scans that are
/// planned there read what was found then. So the future must be of one statement, and plan its rows at once. Local arrays are
/// opened as always.
///
/// ```
/// use datafusion::prelude::SessionContext;
/// use datafusion_tiledb::execute;
/// use datafusion_tiledb::session::in_one_statement;
///
/// # async fn example() -> datafusion::error::Result<()> {
/// let ctx = SessionContext::new();
/// datafusion_tiledb::register(&ctx).map_err(datafusion_tiledb::to_datafusion_error)?;
/// let sql = "SELECT count(*) FROM './examples/data/weather_stations'";
/// let rows = in_one_statement(async { execute(&ctx, sql).await?.collect().await }).await?;
/// assert_eq!(rows.len(), 1);
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
pub async fn in_one_statement<T>(statement: impl Future<Output = T>) -> T {
    STATEMENT.scope(Arc::default(), statement).await
}

/// The tables of a statement in stores behind a network.
#[derive(Debug, Default)]
pub(crate) struct OpenedTables {
    /// By their places and options.
    tables: Mutex<HashMap<(String, TableOptions), Arc<dyn TableProvider>>>,
    /// Whether lookups only open tables ahead.
    is_ahead: AtomicBool,
}

impl OpenedTables {
    /// Those of the statement that the task runs at once.
    pub fn current() -> Option<Arc<Self>> {
        STATEMENT.try_with(Arc::clone).ok()
    }

    /// Whether these are those of the statement that the task runs.
    pub fn is_current(statement: &Weak<Self>) -> bool {
        let current = Self::current();
        current.is_some_and(|current| std::ptr::eq(Arc::as_ptr(&current), statement.as_ptr()))
    }

    /// Looks up tables only to open them ahead.
    pub async fn ahead(&self, lookups: impl Future<Output = ()>) {
        self.is_ahead.store(true, Ordering::Relaxed);
        lookups.await;
        self.is_ahead.store(false, Ordering::Relaxed);
    }

    /// Whether the running lookup only opens a table ahead. Tables of this machine aren't worth that.
    pub fn is_looking_ahead() -> bool {
        let current = Self::current();
        current.is_some_and(|current| current.is_ahead.load(Ordering::Relaxed))
    }

    /// The table that the statement has opened at `place` already.
    pub fn get(place: &str, options: &TableOptions) -> Option<Arc<dyn TableProvider>> {
        let current = Self::current()?;
        let tables = current.tables.lock();
        let tables = tables.unwrap_or_else(PoisonError::into_inner);
        tables.get(&(place.to_owned(), options.clone())).cloned()
    }

    /// Keeps a table for the other lookups of the statement.
    pub fn keep(place: &str, options: &TableOptions, table: &Arc<dyn TableProvider>) {
        if let Some(current) = Self::current() {
            let mut tables = current
                .tables
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            tables.insert((place.to_owned(), options.clone()), Arc::clone(table));
        }
    }
}
