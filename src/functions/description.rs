//! The table provider, the plan and the projection that all describing functions share.
//!
//! A function has a schema, and computes rows when the plan runs. It may use which columns are selected, and must
//! evaluate filters on the columns it names.

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::DFSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt, TryStreamExt};

use super::arguments::{FunctionCall, FunctionTarget, NameResolver};
pub(super) use super::columns::DescriptionRows;
use tiledb_engine::Error;

use super::run_once::{check_writable, once_in_run};
use crate::dml::progress::{MaintenanceWatch, RunningMaintenance};
use crate::error::to_datafusion_error;
use crate::expressions::evaluable::evaluable;
use crate::upstream::boxed_methods::forward_to_boxed;

/// With this option, a function that changes something only reports what it would do.
pub(super) const DRY_RUN: &str = "dry_run";

/// The selection of a query on a description.
#[derive(Debug, Clone)]
pub(super) struct DescriptionRequest {
    projection: Vec<usize>,
    /// A condition on [`DescribeArray::FILTERED`] columns only; rows that do not satisfy it must not be returned.
    pub filter: Option<Arc<dyn PhysicalExpr>>,
    /// The number of rows in a batch.
    pub batch_size: usize,
    /// The function's own options that are switched on.
    pub options: Vec<&'static str>,
    /// The function's own options that have a value.
    pub values: OptionValues,
    /// Those who show how far the maintenance of arrays has come.
    pub watch: Option<Arc<MaintenanceWatch>>,
}

/// Options of a function with their values.
#[derive(Debug, Clone, Default)]
pub(super) struct OptionValues(pub(super) Vec<(&'static str, String)>);

impl OptionValues {
    /// The value of an option, if it is given.
    pub(super) fn get(&self, option: &str) -> Option<&str> {
        let found = self.0.iter().find(|(name, _)| *name == option);
        found.map(|(_, value)| value.as_str())
    }
}

impl DescriptionRequest {
    /// Shows how far a maintenance has come to those who watch.
    pub(super) fn show(&self, maintenance: RunningMaintenance) {
        if let Some(watch) = &self.watch {
            watch.begin(maintenance);
        }
    }

    /// Whether one of these columns of the function's schema is selected.
    pub(super) fn wants(&self, columns: &[usize]) -> bool {
        columns.iter().any(|c| self.projection.contains(c))
    }
}

/// A function that describes an array, or another object that it accepts.
pub(super) trait DescribeArray: Send + Sync + 'static {
    /// Its name in SQL.
    const NAME: &'static str;
    /// The indexes of the columns on which it evaluates filters itself.
    const FILTERED: &'static [usize] = &[];
    /// The options that only this function has, each on or off.
    const OPTIONS: &'static [&'static str] = &[];

    /// The options that only this function has, each with a value.
    const VALUES: &'static [&'static str] = &[];

    /// Fails if the values of its options are none.
    fn check(_values: &OptionValues) -> tiledb_engine::Result<()> {
        Ok(())
    }

    /// Whether a call changes something, unless its option [`DRY_RUN`] is on. Such a call happens [once](super::run_once) in a run of a statement.
    const CHANGES: bool = false;

    /// The columns.
    fn schema() -> SchemaRef;

    /// Computes the rows.
    fn rows(
        target: FunctionTarget,
        request: Arc<DescriptionRequest>,
    ) -> BoxStream<'static, tiledb_engine::Result<DescriptionRows>>;
}

/// A description that is computed as a whole.
pub(super) fn once(
    rows: impl Future<Output = tiledb_engine::Result<DescriptionRows>> + Send + 'static,
) -> BoxStream<'static, tiledb_engine::Result<DescriptionRows>> {
    stream::once(rows).boxed()
}

/// A describing function.
pub(super) struct DescriptionFunction<D>(PhantomData<D>);

impl<D> Default for DescriptionFunction<D> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<D> fmt::Debug for DescriptionFunction<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(type_name::<D>())
    }
}

impl<D: DescribeArray> TableFunctionImpl for DescriptionFunction<D> {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let own = [D::OPTIONS, D::VALUES].concat();
        let call =
            FunctionCall::parse_with(D::NAME, &own, args.exprs()).map_err(to_datafusion_error)?;
        for option in D::OPTIONS {
            call.is_on(option).map_err(to_datafusion_error)?;
        }
        D::check(&values::<D>(&call)).map_err(to_datafusion_error)?;
        Ok(Arc::new(DescriptionTable::<D> {
            call,
            schema: D::schema(),
            describe: PhantomData,
        }))
    }
}

fn values<D: DescribeArray>(call: &FunctionCall) -> OptionValues {
    let given = D::VALUES.iter().filter_map(|option| {
        let value = call.value(option)?;
        Some((*option, value.to_owned()))
    });
    OptionValues(given.collect())
}

/// A call of a describing function, as a table.
struct DescriptionTable<D> {
    call: FunctionCall,
    schema: SchemaRef,
    describe: PhantomData<D>,
}

impl<D> fmt::Debug for DescriptionTable<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.call.fmt(f)
    }
}

impl<D: DescribeArray> DescriptionTable<D> {
    fn scan_boxed<'a>(
        &'a self,
        state: &'a dyn Session,
        projection: Option<&'a Vec<usize>>,
        filters: &'a [Expr],
        limit: Option<usize>,
    ) -> BoxFuture<'a, Result<Arc<dyn ExecutionPlan>>> {
        let target = resolved(state, &self.call);
        let request = self.request(state, projection, filters);
        // The future holds neither the call nor the filters, which are expressions.
        async move {
            let target = target.await;
            let request = request?;
            let target = target.map_err(to_datafusion_error)?;
            request.plan::<D>(target, limit)
        }
        .boxed()
    }

    fn request(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
    ) -> Result<PlannedDescription> {
        let projection = match projection {
            Some(projection) => projection.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let filter = match conjunction(filters.iter().cloned()) {
            Some(filter) => {
                let df_schema = DFSchema::try_from(Arc::clone(&self.schema))?;
                Some(state.create_physical_expr(filter, &df_schema)?)
            }
            None => None,
        };
        Ok(PlannedDescription {
            schema: Arc::new(self.schema.project(&projection)?),
            request: DescriptionRequest {
                projection,
                filter,
                batch_size: state.config().batch_size().max(1),
                options: D::OPTIONS
                    .iter()
                    .copied()
                    .filter(|option| self.call.is_on(option).unwrap_or(false))
                    .collect(),
                values: values::<D>(&self.call),
                watch: state.config().get_extension::<MaintenanceWatch>(),
            },
        })
    }
}

/// Finds what a call names.
fn resolved<'a>(
    state: &'a dyn Session,
    call: &'a FunctionCall,
) -> BoxFuture<'a, tiledb_engine::Result<FunctionTarget>> {
    async move { NameResolver::of(state).resolve(call).await }.boxed()
}

/// A description that a query selects from.
struct PlannedDescription {
    request: DescriptionRequest,
    /// The schema of the selected columns.
    schema: SchemaRef,
}

impl PlannedDescription {
    fn plan<D: DescribeArray>(
        self,
        target: FunctionTarget,
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let partition = DescriptionStream::<D> {
            target,
            request: Arc::new(self.request),
            schema: Arc::clone(&self.schema),
            describe: PhantomData,
        };
        let partitions: Vec<Arc<dyn PartitionStream>> = vec![Arc::new(partition)];
        let plan = StreamingTableExec::try_new(self.schema, partitions, None, None, false, limit)?;
        Ok(Arc::new(plan))
    }
}

impl<D: DescribeArray> TableProvider for DescriptionTable<D> {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let filtered: Vec<&str> = D::FILTERED
            .iter()
            .filter_map(|i| self.schema.fields().get(*i).map(|f| f.name().as_str()))
            .collect();
        filters
            .iter()
            .map(|filter| {
                let columns = filter.column_refs();
                let ours = columns.iter().all(|c| filtered.contains(&c.name.as_str()));
                Ok(if ours && !columns.is_empty() && evaluable(filter)? {
                    TableProviderFilterPushDown::Exact
                } else {
                    TableProviderFilterPushDown::Unsupported
                })
            })
            .collect()
    }

    forward_to_boxed!(TableProvider: scan);
}

/// The only partition of a description.
struct DescriptionStream<D> {
    target: FunctionTarget,
    request: Arc<DescriptionRequest>,
    /// The schema of the selected columns.
    schema: SchemaRef,
    describe: PhantomData<D>,
}

impl<D> fmt::Debug for DescriptionStream<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.target.storage.uri().fmt(f)
    }
}

impl<D: DescribeArray> DescriptionStream<D> {
    /// The rows of a call that changes something. There are only a few.
    fn changed(
        &self,
        context: Arc<TaskContext>,
        mut rows: BoxStream<'static, tiledb_engine::Result<DescriptionRows>>,
    ) -> BoxStream<'static, tiledb_engine::Result<DescriptionRows>> {
        let (target, request) = (&self.target, &self.request);
        let (uri, options) = (target.storage.uri(), &target.options);
        let call = format!(
            "{} {uri} {options:?} {:?} {:?}",
            D::NAME,
            request.options,
            request.values
        );
        let is_dry = request.options.contains(&DRY_RUN);
        once(async move {
            if !is_dry {
                check_writable(&context)?;
            }
            let doing = async move {
                let report = rows.next().await;
                report.unwrap_or_else(|| Err(Error::internal("a change has a report")))
            };
            once_in_run(&context, call, doing).await
        })
    }
}

impl<D: DescribeArray> PartitionStream for DescriptionStream<D> {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let request = Arc::clone(&self.request);
        let schema = Arc::clone(&self.schema);
        let rows = D::rows(self.target.clone(), Arc::clone(&request));
        let rows = if D::CHANGES {
            self.changed(context, rows)
        } else {
            rows
        };
        let batches = rows
            .map_err(to_datafusion_error)
            .and_then(move |rows| {
                let batch = project(rows, &request, &schema);
                let batches = batch.map(|batch| slices(batch, request.batch_size));
                async { batches }
            })
            .map_ok(|batches| stream::iter(batches).map(Ok::<_, DataFusionError>))
            .try_flatten();
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            batches,
        ))
    }
}

/// The selected columns.
fn project(
    rows: DescriptionRows,
    request: &DescriptionRequest,
    schema: &SchemaRef,
) -> Result<RecordBatch> {
    let columns = request
        .projection
        .iter()
        .filter_map(|i| rows.columns.get(*i).cloned())
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &options,
    )?)
}

/// Splits a batch into slices of at most `rows` rows.
fn slices(batch: RecordBatch, rows: usize) -> Vec<RecordBatch> {
    let starts = (0..batch.num_rows()).step_by(rows);
    starts
        .map(|start| batch.slice(start, rows.min(batch.num_rows() - start)))
        .collect()
}
