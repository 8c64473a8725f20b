//! The table provider: an array as a DataFusion table.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{ScanArgs, ScanResult, Session, TableProvider};
use datafusion::common::{DFSchemaRef, Result};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::dml::{InsertOp, MergeIntoClause};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use futures::FutureExt;
use futures::future::{self, BoxFuture};
use tiledb_engine::array::snapshot::Snapshot;
use tiledb_engine::array::table::{ArrayColumns, ArrayTable};
use tiledb_engine::format::schema::ArraySchema;
use tiledb_engine::storage::Storage;

use crate::create::{column_defaults, statement_of};
use crate::expressions::evaluable::evaluable;
use crate::labels::{LabelColumns, MentionedLabels};
use crate::options::{FloatColumns, TableOptions};
use crate::scan::moment::{StatementSnapshots, TableIdentity};
use crate::scan::planning::shown;
use crate::scan::source::TileDbSource;
use crate::stores::ahead::OpenedTables;
use crate::upstream::boxed_methods::forward_to_boxed;

/// A TileDB array as a table: its dimensions, then its attributes, then its dimension labels, as columns.
///
/// The array is listed again for every query, so the table is never stale, unless options fix its time. For a path in a statement,
/// only the schema is read until the scan starts. Commits are listed then, and again for every later scan of a view.
#[derive(Debug)]
pub struct TileDbTable {
    storage: Storage,
    options: TableOptions,
    labels: LabelColumns,
    last: Arc<Mutex<LastOpened>>,
    /// Whether the columns are known to be others by now.
    outdated: Arc<AtomicBool>,
    /// Whether a statement named the table and has not read or changed the array since.
    unused: Arc<AtomicBool>,
    /// The snapshots that all scans of a statement share, if it has several scans.
    moment: Option<Arc<StatementSnapshots>>,
    /// Whether a statement only looks up rows here, at coordinates that it writes.
    is_lookup: bool,
    /// The name that a statement gave it.
    name: Option<String>,
    /// The statement that creates such an array, once it was requested.
    definition: OnceLock<String>,
    /// The defaults of columns that a statement omits, computed on first use.
    defaults: OnceLock<HashMap<String, Expr>>,
}

/// What is already known about the array.
#[derive(Debug, Clone)]
pub(super) enum LastOpened {
    /// Its columns, if it has not been scanned yet.
    Columns(Arc<ArrayColumns>),
    /// The whole array, as a statement has found it in a store behind a network. It serves the scans of this statement.
    Opened(Arc<ShownArray>, Weak<OpenedTables>),
    /// What the last query saw, so that the next one reads only what has changed.
    Seen(Arc<ShownArray>),
    /// What all queries see.
    Fixed(Arc<ShownArray>),
}

/// An array at a time, and the columns it shows.
#[derive(Debug)]
pub(crate) struct ShownArray {
    pub(crate) table: Arc<ArrayTable>,
    pub(crate) labels: LabelColumns,
}

impl ShownArray {
    pub(crate) fn new(snapshot: Snapshot, options: &TableOptions) -> tiledb_engine::Result<Self> {
        let table = Arc::new(shown(snapshot, options)?);
        let labels = LabelColumns::of_table(&table, options.empty_cells)?;
        Ok(Self { table, labels })
    }

    /// What a later snapshot shows, if its columns are the same.
    fn at(&self, snapshot: &Snapshot) -> Option<Self> {
        let table = Arc::new(self.table.at(snapshot)?);
        let labels = self.labels.clone();
        Some(Self { table, labels })
    }
}

impl TileDbTable {
    pub(crate) async fn open_storage(
        storage: Storage,
        options: TableOptions,
    ) -> tiledb_engine::Result<Self> {
        let snapshot = Snapshot::open(&storage, options.window()?).await?;
        let shown = Arc::new(ShownArray::new(snapshot, &options)?);
        let last = LastOpened::Seen(Arc::clone(&shown));
        Ok(Self::new(storage, options, &shown, last))
    }

    /// A table that always shows this snapshot, whatever is written later.
    pub(crate) fn of_snapshot(
        storage: Storage,
        options: TableOptions,
        snapshot: &Snapshot,
    ) -> tiledb_engine::Result<Self> {
        let shown = Arc::new(ShownArray::new(snapshot.clone(), &options)?);
        let last = LastOpened::Fixed(Arc::clone(&shown));
        Ok(Self::new(storage, options, &shown, last))
    }

    /// Opens an array that a statement names. If the statement runs at once, what is found now serves its scan, too.
    pub(crate) async fn open_whole(
        storage: Storage,
        options: TableOptions,
    ) -> tiledb_engine::Result<Self> {
        let table = Self::open_storage(storage, options).await?;
        let mut last = table.last();
        if let LastOpened::Seen(shown) = &*last
            && let Some(statement) = OpenedTables::current()
            && table.storage.is_remote()
        {
            *last = LastOpened::Opened(Arc::clone(shown), Arc::downgrade(&statement));
        }
        drop(last);
        Ok(table)
    }

    /// Opens an array that a statement names: its columns now, its fragments when it is scanned.
    pub(crate) async fn open_columns(
        storage: Storage,
        options: TableOptions,
    ) -> tiledb_engine::Result<Self> {
        if storage.is_remote() && OpenedTables::current().is_some() {
            // Its fragments come with its columns.
            return Self::open_whole(storage, options).await;
        }
        let Some(columns) = ArrayColumns::read(&storage, options.window()?).await? else {
            return Self::open_storage(storage, options).await;
        };
        let shown = ShownArray::new(columns.without_fragments().clone(), &options)?;
        let last = LastOpened::Columns(Arc::new(columns));
        Ok(Self::new(storage, options, &shown, last))
    }

    fn new(storage: Storage, options: TableOptions, shown: &ShownArray, last: LastOpened) -> Self {
        let table = &shown.table;
        let fields = table.schema.fields().iter().zip(table.types.iter());
        for (field, ty) in fields {
            if let Err(why) = ty.check_readable() {
                let (uri, name) = (storage.uri(), field.name());
                log::warn!("{uri}: the attribute \"{name}\" cannot be read: {why}");
            }
        }
        Self {
            labels: shown.labels.clone(),
            last: Arc::new(Mutex::new(last)),
            outdated: Arc::default(),
            unused: Arc::default(),
            moment: None,
            is_lookup: false,
            storage,
            options,
            name: None,
            definition: OnceLock::new(),
            defaults: OnceLock::new(),
        }
    }

    /// The same with the name that a statement gives it.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// The table in a statement whose scans share `moment`.
    pub(crate) fn at_moment(&self, moment: &Arc<StatementSnapshots>) -> Self {
        Self {
            moment: Some(Arc::clone(moment)),
            ..self.again()
        }
    }

    /// The table in a statement that only looks up rows here, at coordinates that it writes.
    pub(crate) fn for_lookups(&self) -> Self {
        Self {
            is_lookup: true,
            ..self.again()
        }
    }

    /// The same table for another scan.
    fn again(&self) -> Self {
        Self {
            storage: self.storage.clone(),
            options: self.options.clone(),
            labels: self.labels.clone(),
            last: Arc::clone(&self.last),
            outdated: Arc::clone(&self.outdated),
            unused: Arc::clone(&self.unused),
            moment: self.moment.clone(),
            is_lookup: self.is_lookup,
            name: self.name.clone(),
            definition: OnceLock::new(),
            defaults: OnceLock::new(),
        }
    }

    /// Records a planned scan in the statement that it belongs to.
    pub(crate) fn record(&self, source: &TileDbSource) {
        if let Some(moment) = &self.moment {
            moment.record(source, self.is_lookup);
        }
    }

    /// The array as it was last seen, perhaps without its fragments.
    pub(crate) fn last_seen(&self) -> Snapshot {
        match &*self.last() {
            LastOpened::Seen(shown) | LastOpened::Fixed(shown) | LastOpened::Opened(shown, _) => {
                shown.table.snapshot.clone()
            }
            LastOpened::Columns(columns) => columns.without_fragments().clone(),
        }
    }

    /// The statement that creates such an array, or in a comment why there is none.
    fn creation_statement(&self) -> String {
        let array = self.last_seen();
        let name = self.name.as_deref();
        statement_of(&array.schema, &array.enumerations, &array.storage, name)
    }

    /// Whether it shows the array as it is, and not as it was.
    pub(crate) fn shows_present(&self) -> bool {
        !matches!(*self.last(), LastOpened::Fixed(_)) && self.options.timestamp_end.is_none()
    }

    /// Whether no other scan of its statement shows the array.
    pub(crate) fn is_scanned_alone(&self) -> bool {
        let moment = self.moment.as_ref();
        moment.is_none_or(|moment| moment.is_scanned_once(self.storage.uri()))
    }

    /// Makes the next statement that names the table open it again, because the columns are others by now. Plans that hold this
    /// one count its columns as they were, so it keeps them.
    pub(crate) fn set_outdated(&self) {
        self.outdated.store(true, Ordering::Relaxed);
    }

    /// The array opened again for a statement that names the table, if its columns have changed since it was opened.
    ///
    /// A statement that names a column that another writer has added fails before it reads the array, so it cannot notice
    /// that the columns changed. Therefore the columns are compared whenever the statement before has not used the table.
    pub(crate) async fn renewed(&self) -> Option<tiledb_engine::Result<Self>> {
        let is_new = matches!(&*self.last(), LastOpened::Opened(_, statement) if OpenedTables::is_current(statement));
        if is_new {
            return None;
        }
        let unused = self.unused.swap(true, Ordering::Relaxed);
        let outdated = self.outdated.load(Ordering::Relaxed);
        if !(outdated || unused && self.has_other_columns().await) {
            return None;
        }
        let opened = Self::open_storage(self.storage.clone(), self.options.clone()).await;
        let name = self.name.clone();
        Some(opened.map(|table| Self { name, ..table }))
    }

    /// Whether the array's columns have changed. If the array can't be read, the next use of the table reports why.
    async fn has_other_columns(&self) -> bool {
        if matches!(*self.last(), LastOpened::Fixed(_)) {
            return false;
        }
        let now = Self::open_columns(self.storage.clone(), self.options.clone()).await;
        now.is_ok_and(|now| now.labels.schema() != self.labels.schema())
    }

    /// The path or URL of the array.
    pub fn uri(&self) -> &str {
        self.storage.uri()
    }

    /// The storage of the array.
    pub(crate) fn storage(&self) -> &Storage {
        &self.storage
    }

    /// The options it was opened with.
    pub(crate) fn options(&self) -> &TableOptions {
        &self.options
    }

    /// The schema of the array, when it was last looked at.
    pub(crate) fn array_schema(&self) -> Arc<ArraySchema> {
        self.last_seen().schema
    }

    /// The current state of the array, without its labels.
    pub(crate) async fn table(&self) -> tiledb_engine::Result<Arc<ArrayTable>> {
        Ok(Arc::clone(&self.shown().await?.table))
    }

    /// The current state of the array, with the columns it was opened with.
    pub(crate) async fn shown(&self) -> tiledb_engine::Result<Arc<ShownArray>> {
        self.unused.store(false, Ordering::Relaxed);
        let last = self.last().clone();
        let window = self.options.window()?;
        let found = match &last {
            LastOpened::Opened(shown, statement) if OpenedTables::is_current(statement) => {
                Some(shown.table.snapshot.clone())
            }
            _ => None,
        };
        let open = async {
            match &last {
                LastOpened::Columns(columns) => columns.open(&self.storage, window).await,
                LastOpened::Seen(shown)
                | LastOpened::Fixed(shown)
                | LastOpened::Opened(shown, _) => {
                    shown.table.snapshot.reopen(&self.storage, window).await
                }
            }
        };
        let (snapshot, whole) = match (&last, &self.moment) {
            (LastOpened::Fixed(shown), _) => return Ok(Arc::clone(shown)),
            (_, None) => match found {
                Some(found) => (found, true),
                None => (open.await?, true),
            },
            (_, Some(moment)) => {
                let identity: TableIdentity = Arc::clone(&self.last) as _;
                let uri = self.storage.uri();
                moment.snapshot(uri, identity, window, found, open).await?
            }
        };
        let known = match &last {
            LastOpened::Seen(last) | LastOpened::Opened(last, _) => last.at(&snapshot),
            _ => None,
        };
        let shown = match known {
            Some(shown) => shown,
            None => ShownArray::new(snapshot, &self.options)?,
        };
        let shown = Arc::new(shown);
        let mut last = self.last();
        if whole && !matches!(*last, LastOpened::Fixed(_)) {
            *last = LastOpened::Seen(Arc::clone(&shown));
        }
        drop(last);
        if shown.labels.schema() != self.labels.schema() {
            self.set_outdated();
            return Err(tiledb_engine::Error::conflict(
                "the columns of the array changed since the table was opened: run the statement again; a view, a prepared \
                 statement or a table that was opened by other means must be made again",
            )
            .with("array", self.storage.uri()));
        }
        Ok(shown)
    }

    pub(super) fn last(&self) -> MutexGuard<'_, LastOpened> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TileDbTable {
    fn scan_boxed<'a>(
        &'a self,
        state: &'a dyn Session,
        projection: Option<&'a Vec<usize>>,
        filters: &'a [Expr],
        limit: Option<usize>,
    ) -> BoxFuture<'a, Result<Arc<dyn ExecutionPlan>>> {
        async move {
            let args = ScanArgs::default()
                .with_projection(projection.map(Vec::as_slice))
                .with_filters(Some(filters))
                .with_limit(limit);
            let source = self.plan(state, &args, FloatColumns::Shown).await?;
            let plan: Arc<dyn ExecutionPlan> = DataSourceExec::from_data_source(source);
            Ok(plan)
        }
        .boxed()
    }

    fn scan_with_args_boxed<'a>(
        &'a self,
        state: &'a dyn Session,
        args: ScanArgs<'a>,
    ) -> BoxFuture<'a, Result<ScanResult>> {
        async move {
            let plan: Arc<dyn ExecutionPlan> = DataSourceExec::from_data_source(
                self.plan(state, &args, FloatColumns::Shown).await?,
            );
            Ok(plan.into())
        }
        .boxed()
    }

    fn delete_from_boxed<'a>(
        &'a self,
        _state: &'a dyn Session,
        _filters: Vec<Expr>,
    ) -> BoxFuture<'a, Result<Arc<dyn ExecutionPlan>>> {
        future::ready(self.unplanned("DELETE")).boxed()
    }

    fn update_boxed<'a>(
        &'a self,
        _state: &'a dyn Session,
        _assignments: Vec<(String, Expr)>,
        _filters: Vec<Expr>,
    ) -> BoxFuture<'a, Result<Arc<dyn ExecutionPlan>>> {
        future::ready(self.unplanned("UPDATE")).boxed()
    }

    fn truncate_boxed<'a>(
        &'a self,
        state: &'a dyn Session,
    ) -> BoxFuture<'a, Result<Arc<dyn ExecutionPlan>>> {
        self.truncated(state, None).boxed()
    }

    fn insert_into_boxed<'a>(
        &'a self,
        _state: &'a dyn Session,
        input: Arc<dyn ExecutionPlan>,
        insert_op: InsertOp,
    ) -> BoxFuture<'a, Result<Arc<dyn ExecutionPlan>>> {
        async move { self.insert(input, insert_op, None, None).await }.boxed()
    }
}

#[async_trait]
impl TableProvider for TileDbTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.labels.schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// The statement that creates such an array.
    fn get_table_definition(&self) -> Option<&str> {
        Some(self.definition.get_or_init(|| self.creation_statement()))
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        let defaults = || column_defaults(&self.last_seen(), &self.options.types());
        self.defaults.get_or_init(defaults).get(column)
    }

    forward_to_boxed!(TableProvider: scan, scan_with_args, insert_into, delete_from, update, truncate);

    /// The scan evaluates every row, so every filter that it can evaluate is exact. So is a filter on a single label,
    /// which becomes ranges. Other filters with labels are evaluated above the scan.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        filters
            .iter()
            .map(|filter| {
                let among = self.labels.mentioned(filter) == MentionedLabels::Among;
                Ok(if !among && evaluable(filter)? {
                    TableProviderFilterPushDown::Exact
                } else {
                    TableProviderFilterPushDown::Unsupported
                })
            })
            .collect()
    }

    async fn merge_into(
        &self,
        _state: &dyn Session,
        _source: Arc<dyn ExecutionPlan>,
        _merge_schema: DFSchemaRef,
        _on: Expr,
        _clauses: Vec<MergeIntoClause>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.unplanned("MERGE INTO")
    }
}
