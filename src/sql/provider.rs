//! The table provider: an array as a DataFusion table.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{ScanArgs, ScanResult, Session, TableProvider};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, Result};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;

use super::budget::PoolBudget;
use super::labels::{Labels, Mentions};
use super::options::TableOptions;
use super::settings::TileDbSettings;
use super::source::TileDbSource;
use crate::array::columns::Columns;
use crate::array::snapshot::Snapshot;
use crate::array::table::ArrayTable;
use crate::geometry::subarray::Subarray;
use crate::scan::{EmptyCells, Predicate, ScanPlan, ScanSpec, ScanWays};
use crate::sql::expressions::predicate::ExprPredicate;
use crate::sql::expressions::pruning::ExprPruner;
use crate::sql::expressions::ranges::{self, DimensionColumn};
use crate::storage::Storage;
use crate::tile::memory::MemoryBudget;

/// A TileDB array as a table: its dimensions, then its attributes, then its dimension labels, as columns.
///
/// The array is listed anew for every query, so the table is never stale, unless options pin it to a time. One that a path
/// in a statement stands for reads no more than its schema until rows are asked for; what is committed is listed then, however
/// long after the statement was planned, and everything again for every later scan of a view or a prepared statement.
#[derive(Debug)]
pub struct TileDbTable {
    storage: Storage,
    options: TableOptions,
    labels: Labels,
    last: Mutex<Last>,
}

/// What is known of the array from before.
#[derive(Debug, Clone)]
enum Last {
    /// Its columns; nobody asked for rows yet.
    Columns(Arc<Columns>),
    /// The array as the last query saw it, so that the next looks only at what has changed.
    Seen(Arc<Snapshot>),
}

impl TileDbTable {
    pub(super) async fn open_storage(
        storage: Storage,
        options: TableOptions,
    ) -> crate::error::Result<Self> {
        let snapshot = Snapshot::open(&storage, options.window()?).await?;
        let table = snapshot_table(snapshot, &options)?;
        Ok(Self {
            labels: Labels::of_table(&table, options.empty_cells)?,
            last: Mutex::new(Last::Seen(Arc::new(table.snapshot))),
            storage,
            options,
        })
    }

    /// Opens an array that a statement names: its columns now, its fragments when rows are asked for.
    pub(super) async fn open_columns(
        storage: Storage,
        options: TableOptions,
    ) -> crate::error::Result<Self> {
        let Some(columns) = Columns::read(&storage, options.window()?).await? else {
            return Self::open_storage(storage, options).await;
        };
        let table = snapshot_table(columns.without_fragments().clone(), &options)?;
        Ok(Self {
            labels: Labels::of_table(&table, options.empty_cells)?,
            last: Mutex::new(Last::Columns(Arc::new(columns))),
            storage,
            options,
        })
    }

    /// Where the array lies.
    pub(super) fn storage(&self) -> &Storage {
        &self.storage
    }

    /// The options it was opened with.
    pub(super) fn options(&self) -> &TableOptions {
        &self.options
    }

    /// The array as it is now, under the columns it was opened with.
    async fn table(&self) -> crate::error::Result<(ArrayTable, Labels)> {
        let last = self.last().clone();
        let window = self.options.window()?;
        let snapshot = match last {
            Last::Columns(columns) => columns.open(&self.storage, window).await?,
            Last::Seen(last) => last.reopen(&self.storage, window).await?,
        };
        *self.last() = Last::Seen(Arc::new(snapshot.clone()));
        let table = snapshot_table(snapshot, &self.options)?;
        let labels = Labels::of_table(&table, self.options.empty_cells)?;
        if labels.schema() != self.labels.schema() {
            return Err(crate::Error::invalid(
                "the columns of the array changed since the table was created: create the table again",
            )
            .with("array", self.storage.uri()));
        }
        Ok((table, labels))
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_only<T>(&self, statement: &str) -> Result<T> {
        let error = crate::Error::unsupported(format!(
            "{statement} on a TileDB array: this release only reads arrays"
        ));
        Err(DataFusionError::from(
            error.with("array", self.storage.uri()),
        ))
    }

    async fn plan(&self, state: &dyn Session, args: &ScanArgs<'_>) -> Result<TileDbSource> {
        let (table, labels) = self.table().await.map_err(DataFusionError::from)?;
        let table = Arc::new(table);
        let projection = match args.projection() {
            Some(projection) => projection.to_vec(),
            None => (0..labels.schema().fields().len()).collect(),
        };
        let filters = self.split_filters(state, args, &labels)?;
        let looked_at = filters.of_array.iter().flat_map(collect_columns);
        let asked = projection.iter().copied();
        let labelled = filters
            .of_labels
            .iter()
            .map(|(label, _)| labels.column(*label));
        let asked = asked
            .chain(looked_at.map(|column| column.index()))
            .chain(labelled);
        labels
            .check_readable(&table, asked)
            .map_err(DataFusionError::from)?;
        let mut subarray = Subarray::all(table.dimension_count());
        let mut residual = None;
        if let Some(expr) = &filters.of_array {
            let schema = &table.snapshot.schema;
            let dimensions = DimensionColumn::of_array(schema, &table.types, &table.options)
                .map_err(DataFusionError::from)?;
            let split = ranges::split(expr, &dimensions);
            subarray = split.subarray;
            residual = split.residual;
        }

        let used = |label: usize| {
            let filtered = filters.of_labels.iter().any(|(number, _)| *number == label);
            filtered || projection.iter().any(|c| labels.number(*c) == Some(label))
        };
        let runtime = state.runtime_env();
        let open = labels
            .open(&table, runtime, self.options.empty_cells, used)
            .await
            .map_err(|e| DataFusionError::from(labels.how_to_leave_out(e)))?;
        let pool = PoolBudget::named("TileDbLabels", &runtime.memory_pool);
        let memory: Arc<dyn MemoryBudget> = Arc::new(pool);
        let mut label_filters = Vec::new();
        for (label, expr) in &filters.of_labels {
            let narrowed = open.narrow(*label, expr, &table.snapshot, &mut subarray, &memory);
            label_filters.push(narrowed.await.map_err(DataFusionError::from)?);
        }
        let (projection, labelled) = open
            .project(&projection, &table, &subarray)
            .map_err(DataFusionError::from)?;

        let mut predicate = None;
        if let Some(expr) = &residual {
            let schema = labels.schema();
            let pruner = ExprPruner::new(expr, &table);
            let evaluated = ExprPredicate::new(expr, schema)?.with_pruner(pruner);
            predicate = Some(Arc::new(evaluated) as Arc<dyn Predicate>);
        }
        let settings = TileDbSettings::of(state.config_options());
        let spec = ScanSpec {
            table: Arc::clone(&table),
            projection,
            subarray: Arc::new(subarray),
            predicate,
            empty_cells: self.options.empty_cells,
            ways: ScanWays {
                text_search: settings.enable_text_search,
                cell_search: settings.enable_cell_search,
            },
        };
        let planned = ScanPlan::new(spec).await;
        let plan =
            Arc::new(planned.map_err(|e| DataFusionError::from(labels.how_to_leave_out(e)))?);
        let partitions = state.config().target_partitions();
        let source = TileDbSource::new(plan, residual, partitions, args.limit())
            .with_aggregate_from(self.options.aggregate_from)
            .with_settings(settings);
        Ok(source.with_labels(labelled, label_filters))
    }

    fn split_filters(
        &self,
        state: &dyn Session,
        args: &ScanArgs<'_>,
        labels: &Labels,
    ) -> Result<Filters> {
        let schema = DFSchema::try_from(Arc::clone(labels.schema()))?;
        let (mut of_array, mut of_labels) = (Vec::new(), BTreeMap::<_, Vec<_>>::new());
        for filter in args.filters().unwrap_or_default() {
            match labels.mentioned(filter) {
                Mentions::Only(label) => of_labels.entry(label).or_default().push(filter.clone()),
                Mentions::None => of_array.push(filter.clone()),
                Mentions::Among => {
                    let error = crate::Error::internal(format!(
                        "the filter {filter} was not offered by this table"
                    ));
                    return Err(DataFusionError::from(error));
                }
            }
        }
        let together = |filters: Vec<Expr>| {
            conjunction(filters)
                .map(|filter| state.create_physical_expr(filter, &schema))
                .transpose()
        };
        let mut filters = Filters {
            of_array: together(of_array)?,
            of_labels: Vec::with_capacity(of_labels.len()),
        };
        for (label, of_label) in of_labels {
            let expr = together(of_label)?;
            filters.of_labels.extend(expr.map(|expr| (label, expr)));
        }
        Ok(filters)
    }
}

/// The filters of a scan, by what can decide them.
struct Filters {
    /// The conjunction of those on dimensions and attributes.
    of_array: Option<Arc<dyn PhysicalExpr>>,
    /// The conjunction of those on one label, by its number.
    of_labels: Vec<(usize, Arc<dyn PhysicalExpr>)>,
}

fn snapshot_table(snapshot: Snapshot, options: &TableOptions) -> crate::error::Result<ArrayTable> {
    let dense = snapshot.schema.is_dense();
    let table = ArrayTable::new(snapshot, &options.types())?;
    Ok(match options.empty_cells {
        EmptyCells::Null if dense => table.with_nullable_attributes(),
        _ => table,
    })
}

#[async_trait]
impl TableProvider for TileDbTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.labels.schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_table_definition(&self) -> Option<&str> {
        None
    }

    fn get_logical_plan(&self) -> Option<Cow<'_, datafusion::logical_expr::LogicalPlan>> {
        None
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let args = ScanArgs::default()
            .with_projection(projection.map(Vec::as_slice))
            .with_filters(Some(filters))
            .with_limit(limit);
        Ok(DataSourceExec::from_data_source(
            self.plan(state, &args).await?,
        ))
    }

    async fn scan_with_args<'a>(
        &self,
        state: &dyn Session,
        args: ScanArgs<'a>,
    ) -> Result<ScanResult> {
        let plan: Arc<dyn ExecutionPlan> =
            DataSourceExec::from_data_source(self.plan(state, &args).await?);
        Ok(plan.into())
    }

    /// The scan evaluates every row, so every filter it can evaluate at all is exact; so is one on a label alone, which
    /// becomes ranges. Other filters with labels need them beside the rows.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        filters
            .iter()
            .map(|filter| {
                let among = self.labels.mentioned(filter) == Mentions::Among;
                Ok(if !among && evaluable(filter)? {
                    TableProviderFilterPushDown::Exact
                } else {
                    TableProviderFilterPushDown::Unsupported
                })
            })
            .collect()
    }

    async fn delete_from(
        &self,
        _state: &dyn Session,
        _filters: Vec<Expr>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.read_only("DELETE")
    }

    async fn insert_into(
        &self,
        _state: &dyn Session,
        _input: Arc<dyn ExecutionPlan>,
        _insert_op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.read_only("INSERT")
    }

    async fn update(
        &self,
        _state: &dyn Session,
        _assignments: Vec<(String, Expr)>,
        _filters: Vec<Expr>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.read_only("UPDATE")
    }

    async fn truncate(&self, _state: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        self.read_only("TRUNCATE")
    }
}

/// Whether an expression needs nothing but the columns of one row.
pub(super) fn evaluable(filter: &Expr) -> Result<bool> {
    let needs_more = filter.exists(|e| {
        Ok(matches!(
            e,
            Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::OuterReferenceColumn(_, _)
                | Expr::Placeholder(_)
                | Expr::AggregateFunction(_)
                | Expr::WindowFunction(_)
        ))
    })?;
    Ok(!needs_more && !filter.is_volatile())
}
