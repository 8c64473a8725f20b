//! From what a query asks of an array to the scan of it.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use tiledb_engine::Engine;
use tiledb_engine::array::snapshot::{Snapshot, SnapshotSuccessor};
use tiledb_engine::array::table::ArrayTable;
use tiledb_engine::geometry::subarray::Subarray;
use tiledb_engine::memory::budget::MemoryBudget;
use tiledb_engine::scan::plan::share::ScanShare;
use tiledb_engine::scan::shown::ShownColumns;
use tiledb_engine::scan::{Predicate, ScanPlan, ScanSpec, ScanWays};
use tiledb_engine::storage::Storage;

use crate::error::is_conflict;
use crate::error::to_datafusion_error;
use crate::expressions::predicate::ExprPredicate;
use crate::expressions::pruning::ExprPruner;
use crate::expressions::ranges::{self, DimensionColumn};
use crate::labels::{LabelColumns, LabelSurroundings};
use crate::options::{FloatColumns, TableOptions};
use crate::scan::query::{ScanQuery, ScanRequest};
#[cfg(feature = "cluster")]
use crate::scan::source::task::{ScanTask, TaskUnits};
use crate::scan::source::{MOST_RENEWALS, PlannedScan, ScanRenewal, ScanValue, TileDbSource};
use crate::scan::statistics::{remain_true, statistics};
use crate::stores::budget::PoolBudget;
use crate::stores::location::{group_storage, locate};
use crate::stores::runtime::ArrayRuntime;

impl ScanValue {
    /// Opens the array through the object stores of `runtime`, with the fragments that the scan saw, and plans it as it was
    /// planned.
    ///
    /// Fails if one of the fragments is gone.
    pub async fn open(self, runtime: &RuntimeEnv) -> tiledb_engine::Result<TileDbSource> {
        self.open_in(runtime, &Engine::shared()).await
    }

    /// As [`Self::open`], in an engine other than the shared one.
    pub async fn open_in(
        self,
        runtime: &RuntimeEnv,
        engine: &Engine,
    ) -> tiledb_engine::Result<TileDbSource> {
        let runtime = ArrayRuntime::new(Arc::new(runtime.clone()), engine.clone());
        self.request.open(&runtime).await?.with_mode_of(self)
    }
}

#[cfg(feature = "cluster")]
impl ScanTask {
    /// Opens the files of the task, and plans the reading of its units.
    pub(crate) async fn open(&self, runtime: &ArrayRuntime) -> tiledb_engine::Result<TileDbSource> {
        let request = &self.scan.request;
        let storage = request.storage(runtime)?;
        let snapshot = Snapshot::of_files(&storage, self.part.files.clone()).await?;
        let (table, labels) = request.table(snapshot)?;
        let share = match &self.part.units {
            TaskUnits::Share(share) => Some(share.clone()),
            TaskUnits::Ranges { .. } => None,
        };
        let query = Arc::new(request.query.clone());
        let planned = query.planned_units(Arc::new(table), &labels, share, runtime);
        let planned = Box::pin(planned).await.map_err(unplanned)?;
        TileDbSource::new(query, planned).for_task(self)
    }
}

impl ScanRequest {
    /// Opens the array and plans the scan, with the fragments that are named alone.
    pub(crate) async fn open(&self, runtime: &ArrayRuntime) -> tiledb_engine::Result<TileDbSource> {
        let storage = self.storage(runtime)?;
        let snapshot = Snapshot::open(&storage, self.seen.window).await?;
        let (table, labels) = self.table(snapshot.only(&self.seen)?)?;
        let query = Arc::new(self.query.clone());
        let source = query.plan(Arc::new(table), &labels, runtime).await;
        source.map_err(unplanned)
    }

    /// Where the array lies.
    pub(crate) fn storage(&self, runtime: &ArrayRuntime) -> tiledb_engine::Result<Storage> {
        let options = &self.query.options;
        let storage = group_storage(locate(&self.root, runtime)?, options, runtime)?;
        Ok(if self.root == self.uri {
            storage
        } else {
            storage.of_member(locate(&self.uri, runtime)?)
        })
    }

    /// The table of a snapshot of the array; fails if it has other columns than the request was made for.
    pub(crate) fn table(
        &self,
        snapshot: Snapshot,
    ) -> tiledb_engine::Result<(ArrayTable, LabelColumns)> {
        let options = &self.query.options;
        let table = shown(snapshot, options)?;
        let labels = LabelColumns::of_table(&table, options.empty_cells)?;
        if labels.schema() != &self.query.schema {
            return Err(tiledb_engine::Error::conflict(
                "the columns of the array are not those that the scan was planned for; plan the query again",
            )
            .with("array", &self.uri));
        }
        Ok((table, labels))
    }
}

/// The error for a scan that is planned from values.
pub(crate) fn unplanned(error: DataFusionError) -> tiledb_engine::Error {
    tiledb_engine::Error::invalid("the scan cannot be planned again").with_source(error)
}

/// A snapshot as the table that the options make of it.
pub(crate) fn shown(
    snapshot: Snapshot,
    options: &TableOptions,
) -> tiledb_engine::Result<ArrayTable> {
    let shown = ShownColumns {
        types: options.types(),
        empty_cells: options.empty_cells,
        all_versions: options.all_versions,
        system_columns: options.system_columns,
        stored_floats: options.floats == FloatColumns::Both,
    };
    ArrayTable::shown(snapshot, &shown)
}

/// A condition as it is evaluated on rows, which also prunes tiles.
fn predicate(
    expr: &Arc<dyn PhysicalExpr>,
    table: &ArrayTable,
    labels: &LabelColumns,
) -> Result<Arc<dyn Predicate>> {
    let pruner = ExprPruner::new(expr, table);
    let evaluated = ExprPredicate::new(expr, labels.schema())?.with_pruner(pruner);
    Ok(Arc::new(evaluated))
}

impl ScanQuery {
    /// Plans the scan of an array with its labels.
    pub(crate) async fn plan(
        self: Arc<Self>,
        table: Arc<ArrayTable>,
        labels: &LabelColumns,
        runtime: &ArrayRuntime,
    ) -> Result<TileDbSource> {
        let planned = self.planned(table, labels, runtime).await?;
        Ok(TileDbSource::new(self, planned))
    }

    /// As [`plan`](Self::plan), and planned again if files of the array are gone since it was listed. So is the scan as long as
    /// it has given no rows.
    pub(crate) async fn plan_renewed(
        self: Arc<Self>,
        table: &Arc<ArrayTable>,
        labels: &LabelColumns,
        renewal: ScanRenewal,
        runtime: &ArrayRuntime,
    ) -> Result<TileDbSource> {
        let mut table = Arc::clone(table);
        let mut renewals = 0;
        loop {
            let planned = self.planned(Arc::clone(&table), labels, runtime).await;
            let error = match planned {
                Err(error) if is_conflict(&error) && renewals < MOST_RENEWALS => error,
                planned => return Ok(TileDbSource::new(self, planned?).with_renewal(renewal)),
            };
            let successor = table
                .snapshot
                .successor(!renewal.shows_present)
                .await
                .map_err(to_datafusion_error)?;
            let snapshot = match successor {
                Some(SnapshotSuccessor::SameCells(snapshot)) => snapshot,
                Some(SnapshotSuccessor::OtherCells(snapshot)) if renewal.is_alone => snapshot,
                Some(SnapshotSuccessor::OtherCells(_)) | None => return Err(error),
            };
            let new = shown(snapshot, &self.options).map_err(to_datafusion_error)?;
            if new.schema != table.schema {
                return Err(error);
            }
            table = Arc::new(new);
            renewals += 1;
        }
    }

    /// Plans the scan again after some of its fragments are gone; `None` if none is gone, or if what a plan above the
    /// scan may rely on is not true any longer.
    pub(crate) async fn anew(
        &self,
        old: &PlannedScan,
        renewal: ScanRenewal,
        runtime: &ArrayRuntime,
    ) -> Result<Option<PlannedScan>> {
        let known = &old.plan.spec.table;
        let successor = known.snapshot.successor(!renewal.shows_present).await;
        let (snapshot, same_cells) = match successor.map_err(to_datafusion_error)? {
            Some(SnapshotSuccessor::SameCells(snapshot)) => (snapshot, true),
            Some(SnapshotSuccessor::OtherCells(snapshot)) if renewal.is_alone => (snapshot, false),
            Some(SnapshotSuccessor::OtherCells(_)) | None => return Ok(None),
        };
        let same_columns = match (known.snapshot.schema_name(), snapshot.schema_name()) {
            (Ok(old), Ok(new)) => old == new,
            _ => false,
        };
        let table = Arc::new(shown(snapshot, &self.options).map_err(to_datafusion_error)?);
        let labels = LabelColumns::of_table(&table, self.options.empty_cells)
            .map_err(to_datafusion_error)?;
        let new = self.planned(table, &labels, runtime).await?;
        let told = statistics(&old.plan, &old.schema);
        // Less may be known of the same cells where they lie now, but what is known of them remains true.
        let is_true = same_columns
            && new.schema == old.schema
            && (same_cells || remain_true(&told, &statistics(&new.plan, &new.schema)));
        if !is_true {
            let uri = known.snapshot.storage.uri();
            log::debug!(
                "{uri}: files are gone, and what was planned does not suit the array as it is by now"
            );
        }
        Ok(is_true.then_some(new))
    }

    async fn planned(
        &self,
        table: Arc<ArrayTable>,
        labels: &LabelColumns,
        runtime: &ArrayRuntime,
    ) -> Result<PlannedScan> {
        self.planned_units(table, labels, None, runtime).await
    }

    /// As [`planned`](Self::planned), with the units of a share, if there is one.
    pub(crate) async fn planned_units(
        &self,
        table: Arc<ArrayTable>,
        labels: &LabelColumns,
        share: Option<ScanShare>,
        runtime: &ArrayRuntime,
    ) -> Result<PlannedScan> {
        self.check_readable(&table, labels)?;
        let (mut subarray, residual) = self.ranges(&table)?;
        let of_labels = &self.filters.of_labels;
        let used = |label: usize| {
            let filtered = of_labels.iter().any(|(number, _)| *number == label);
            filtered
                || self
                    .projection
                    .iter()
                    .any(|c| labels.number(*c) == Some(label))
        };
        let empty_cells = self.options.empty_cells;
        let unplanned = |e| to_datafusion_error(labels.how_to_leave_out(e));
        let surroundings = LabelSurroundings {
            runtime,
            external: self.external_members(),
        };
        let open = labels
            .open(&table, &surroundings, empty_cells, used)
            .await
            .map_err(unplanned)?;
        let pool = PoolBudget::named(
            "TileDbLabels",
            &runtime.memory_pool,
            table.snapshot.storage.engine(),
        );
        let memory: Arc<dyn MemoryBudget> = Arc::new(pool);
        let mut label_filters = Vec::with_capacity(of_labels.len());
        for (label, expr) in of_labels {
            let narrowed = open.narrow(*label, expr, &table.snapshot, &mut subarray, &memory);
            label_filters.push(narrowed.await.map_err(to_datafusion_error)?);
        }
        let (projection, labelled) = open
            .project(&self.projection, &table, &subarray)
            .map_err(to_datafusion_error)?;

        let predicate = residual
            .as_ref()
            .map(|expr| predicate(expr, &table, labels));
        let predicate = predicate.transpose()?;
        let spec = ScanSpec {
            table,
            projection,
            subarray: Arc::new(subarray),
            predicate,
            empty_cells,
            all_versions: self.options.all_versions,
            ways: ScanWays {
                text_search: self.settings.enable_text_search,
                cell_search: self.settings.enable_cell_search,
            },
        };
        let plan = match share {
            Some(share) => ScanPlan::of_share(spec, share).await,
            None => ScanPlan::new(spec).await,
        };
        let mut plan = plan.map_err(unplanned)?;
        if let Some((order, rows)) = &self.first_cells {
            plan = plan.first_cells(order, *rows).unwrap_or(plan);
        }
        let schema = match &labelled {
            Some(labels) => Arc::clone(labels.schema()),
            None => plan.spec.output_schema(),
        };
        Ok(PlannedScan {
            plan: Arc::new(plan),
            predicate: residual,
            labels: labelled.map(Arc::new),
            label_filters: label_filters.into(),
            schema,
        })
    }

    /// Fails if a requested column can't be read, whatever its cells.
    fn check_readable(&self, table: &ArrayTable, labels: &LabelColumns) -> Result<()> {
        let filters = &self.filters;
        let looked_at = filters.of_array.iter().flat_map(collect_columns);
        let asked = self.projection.iter().copied();
        let labelled = filters
            .of_labels
            .iter()
            .map(|(label, _)| labels.column(*label));
        let asked = asked
            .chain(looked_at.map(|column| column.index()))
            .chain(labelled);
        labels
            .check_readable(table, asked)
            .map_err(to_datafusion_error)
    }

    /// The coordinates that the filters leave, and the condition that rows must meet besides.
    fn ranges(&self, table: &ArrayTable) -> Result<(Subarray, Option<Arc<dyn PhysicalExpr>>)> {
        let Some(expr) = &self.filters.of_array else {
            return Ok((Subarray::all(table.dimension_count()), None));
        };
        let schema = &table.snapshot.schema;
        let dimensions = DimensionColumn::of_array(schema, &table.types, &table.options)
            .map_err(to_datafusion_error)?;
        let split = ranges::split(expr, &dimensions);
        Ok((split.subarray, split.residual))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use datafusion::arrow::record_batch::RecordBatch;
    use datafusion::error::DataFusionError;
    use datafusion::physical_plan::collect;
    use datafusion::prelude::SessionContext;
    use object_store::memory::InMemory;
    use tiledb_engine::growth::grows_in_proportion;
    use tokio::runtime::Runtime;
    use url::Url;

    use super::*;

    /// A session with an array `t` of `attributes` attributes and one cell.
    async fn session(attributes: usize) -> SessionContext {
        let ctx = SessionContext::new();
        let store = Url::parse("memory:///").unwrap();
        ctx.register_object_store(&store, Arc::new(InMemory::new()));
        crate::register(&ctx).unwrap();
        let (mut columns, mut values) = (String::new(), String::new());
        for n in 0..attributes {
            write!(columns, "a{n} INT NOT NULL, ").unwrap();
            write!(values, ", {n}").unwrap();
        }
        for statement in [
            format!(
                "CREATE EXTERNAL TABLE t (x BIGINT NOT NULL, y BIGINT NOT NULL, {columns} PRIMARY KEY (x, y)) \
                 STORED AS TILEDB LOCATION 'memory:///array'"
            ),
            format!("INSERT INTO t VALUES (5, 5{values})"),
        ] {
            ctx.sql(&statement).await.unwrap().collect().await.unwrap();
        }
        ctx
    }

    /// Conditions of terms that are put together by a word, `$` being their number, and how many terms there are.
    const CONDITIONS: [(&str, &str, usize); 8] = [
        ("x = $", " OR ", 125),
        ("x <> $ + 10", " AND ", 100),
        ("a0 = $ - 5", " OR ", 125),
        ("a0 < $", " OR ", 100),
        ("x BETWEEN $ AND $ + 2", " OR ", 50),
        ("(x = $ AND y = $)", " OR ", 50),
        ("(x = $ AND a1 = $ - 4)", " OR ", 50),
        ("a0 IN ($, 0)", " OR ", 50),
    ];

    #[test]
    fn planning_takes_time_in_proportion_to_the_terms_of_a_condition() {
        let runtime = Runtime::new().unwrap();
        let ctx = runtime.block_on(session(2));
        for (term, link, count) in CONDITIONS {
            let condition = |count: usize| {
                let terms = (0..count)
                    .map(|n| term.replace('$', &n.to_string()))
                    .collect::<Vec<_>>()
                    .join(link);
                format!("SELECT * FROM t WHERE {terms}")
            };
            grows_in_proportion(count, condition, |statement| {
                let rows = runtime.block_on(async { ctx.sql(statement).await?.count().await });
                assert_eq!(rows.unwrap(), 1, "{term}");
            });
        }
        let list = |count: usize| {
            let numbers = (0..count)
                .map(|n| n.to_string())
                .collect::<Vec<_>>()
                .join(", ");
            format!("SELECT * FROM t WHERE x IN ({numbers}) AND a0 IN ({numbers})")
        };
        grows_in_proportion(750, list, |statement| {
            let rows = runtime.block_on(async { ctx.sql(statement).await?.count().await });
            assert_eq!(rows.unwrap(), 1);
        });
    }

    #[test]
    fn scans_take_time_in_proportion_to_the_attributes() {
        let runtime = Runtime::new().unwrap();
        let array = |count: usize| (runtime.block_on(session(count)), count);
        grows_in_proportion(125, array, |(ctx, count)| {
            let columns = runtime.block_on(async {
                let table = ctx.table_provider("t").await?;
                let plan = table.scan(&ctx.state(), None, &[], None).await?;
                let batches = collect(plan, ctx.task_ctx()).await?;
                Ok::<_, DataFusionError>(batches.first().map(RecordBatch::num_columns))
            });
            assert_eq!(columns.unwrap(), Some(count + 2));
            let one = format!("SELECT a0 FROM t WHERE a{} >= 0", count - 1);
            let rows = runtime.block_on(async { ctx.sql(&one).await?.count().await });
            assert_eq!(rows.unwrap(), 1);
        });
    }
}
