//! A scan is a value: written as bytes and made of them anew, it gives the same rows, whoever opens it.

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::physical_planning_context::ScalarSubqueryResults;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use datafusion_proto::physical_plan::{DefaultPhysicalExtensionCodec, PhysicalPlanDecodeContext};
use datafusion_tiledb::scan::source::{ScanValue, TileDbSource};
use datafusion_tiledb::to_datafusion_error;
use futures::FutureExt;
use futures::future::BoxFuture;
use libtest_mimic::Failed;

use crate::support::array_files::Files;
use crate::support::golden;
use crate::support::session_shapes::USUAL;
use crate::{block_on, trial};

const CODEC: DefaultPhysicalExtensionCodec = DefaultPhysicalExtensionCodec {};

/// Statements whose scans go each of the ways there are: how the request and mode of the scan show it.
const WAYS: [(&str, &str, &str); 8] = [
    (
        "plain",
        "SELECT y, x, height FROM '$ARRAYS/elevation' WHERE height % 7 = 3 AND x < 20",
        "mode: Plain",
    ),
    (
        "best_first",
        "SELECT height FROM '$ARRAYS/elevation' ORDER BY height LIMIT 10",
        "mode: BestFirst",
    ),
    (
        "ordered",
        "SELECT y, x, height FROM '$ARRAYS/elevation' WHERE x > 3 ORDER BY y DESC, x LIMIT 3",
        "mode: Ordered",
    ),
    (
        "ranges",
        "SELECT y, max(height) FROM '$ARRAYS/elevation' GROUP BY y",
        "mode: Ranges { cuts",
    ),
    (
        "ordered_ranges",
        "SELECT y, x, row_number() OVER (PARTITION BY y ORDER BY x) AS n FROM '$ARRAYS/elevation'",
        "order: Some(RowOrder",
    ),
    (
        "remaining",
        "SELECT sum(height), min(height), count(*) FROM '$ARRAYS/elevation' WHERE y BETWEEN 10 AND 50 AND x < 48",
        "mode: Remaining",
    ),
    (
        "first_cells",
        "SELECT x, y FROM '$ARRAYS/elevation' ORDER BY x, y LIMIT 70",
        "first_cells: Some",
    ),
    (
        "labels",
        "SELECT d, rank FROM '$ARRAYS/dimension_labels' WHERE depth > 1 AND rank > 2 AND a < 100",
        "of_labels: [(",
    ),
];

trials!(WAYS.map(|(name, sql, shows)| trial(name, move || block_on(way(sql, shows)))));

/// The plan with every scan of an array written as bytes, read back and opened, as another machine would.
pub async fn opened_anew(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
) -> Result<Arc<dyn ExecutionPlan>> {
    anew(plan, context, None).await
}

/// Opens the scans of a plan anew; `results` are those of the scalar subqueries that a node above it computes.
fn anew(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    results: Option<ScalarSubqueryResults>,
) -> BoxFuture<'static, Result<Arc<dyn ExecutionPlan>>> {
    async move {
        if let Some(source) = source(&plan) {
            let sent = source.value();
            let bytes = sent.to_bytes(&CODEC).map_err(to_datafusion_error)?;
            let mut decoding = PhysicalPlanDecodeContext::new(&context, &CODEC);
            if let Some(results) = results {
                decoding = decoding.with_scalar_subquery_results(results);
            }
            let mut value =
                ScanValue::from_bytes(&bytes, &decoding).map_err(to_datafusion_error)?;
            assert_eq!(value.request.query.options.encryption_key, None);
            // Keys are not sent.
            value.request.query.options = sent.request.query.options.clone();
            assert_eq!(value.request.query.schema, sent.request.query.schema);
            assert_eq!(shown(&value), shown(&sent));
            let opened = value.open(&context.runtime_env()).await;
            return Ok(DataSourceExec::from_data_source(opened.map_err(to_datafusion_error)?) as _);
        }
        if plan.children().is_empty() {
            return Ok(plan);
        }
        let subqueries = plan.downcast_ref::<ScalarSubqueryExec>();
        let results = subqueries.map(|s| s.results().clone()).or(results);
        let mut children = Vec::new();
        for child in plan.children() {
            let (child, context) = (Arc::clone(child), Arc::clone(&context));
            children.push(anew(child, context, results.clone()).await?);
        }
        plan.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }
    .boxed()
}

/// All that a value says, but for the columns of the table.
fn shown(value: &ScanValue) -> String {
    let mut value = value.clone();
    let query = &mut value.request.query;
    // Metadata of fields come in any order.
    query.schema = Arc::new(Schema::empty());
    let filters = std::mem::take(&mut query.filters);
    let of_array = filters.of_array.map(|expr| expr.to_string());
    let of_labels: Vec<_> = filters
        .of_labels
        .into_iter()
        .map(|(l, expr)| (l, expr.to_string()))
        .collect();
    let later: Vec<_> = std::mem::take(&mut value.filters)
        .iter()
        .map(|expr| expr.to_string())
        .collect();
    format!("{value:?} of_array: {of_array:?} of_labels: {of_labels:?} later: {later:?}")
}

fn source(plan: &Arc<dyn ExecutionPlan>) -> Option<&TileDbSource> {
    let scan = plan.downcast_ref::<DataSourceExec>()?;
    scan.data_source().downcast_ref()
}

/// The first scan of a plan.
fn first_source(plan: &Arc<dyn ExecutionPlan>) -> Option<&TileDbSource> {
    source(plan).or_else(|| plan.children().into_iter().find_map(first_source))
}

async fn planned(ctx: &SessionContext, sql: &str) -> Result<Arc<dyn ExecutionPlan>> {
    let sql = sql.replace("$ARRAYS", &golden::folder().display().to_string());
    ctx.sql(&sql).await?.create_physical_plan().await
}

/// The rows of a plan as text, sorted.
async fn rows(ctx: &SessionContext, plan: Arc<dyn ExecutionPlan>) -> Result<Vec<String>> {
    let batches = collect(plan, ctx.task_ctx()).await?;
    let table = pretty_format_batches(&batches)?.to_string();
    let mut rows: Vec<String> = table.lines().map(str::to_owned).collect();
    rows.sort_unstable();
    Ok(rows)
}

async fn way(sql: &str, shows: &str) -> Result<(), Failed> {
    let ctx = USUAL.context()?;
    let plan = planned(&ctx, sql).await?;
    let source = first_source(&plan).ok_or("no scan")?;
    let value = shown(&source.value());
    if !value.contains(shows) {
        return Err(format!("no {shows:?} in {value}").into());
    }
    let anew = opened_anew(Arc::clone(&plan), ctx.task_ctx()).await?;
    let again = first_source(&anew).ok_or("no scan")?;
    assert_eq!(value, shown(&again.value()));
    // Operators of a plan keep what they found out in a run, so another plan tells what is right.
    let expected = rows(&ctx, planned(&ctx, sql).await?).await?;
    let found = rows(&ctx, anew).await?;
    assert!(expected.len() > 4, "no rows");
    assert_eq!(expected, found);
    Ok(())
}

trial!(bytes_of_others);
/// Bytes that were cut, changed or written by another release are an error, or a scan; never a panic.
async fn bytes_of_others() -> Result<(), Failed> {
    let ctx = USUAL.context()?;
    let task = ctx.task_ctx();
    let task = PhysicalPlanDecodeContext::new(&task, &CODEC);
    let (mut refused, mut read) = (0, 0);
    for (_, sql, _) in WAYS {
        let plan = planned(&ctx, sql).await?;
        let source = first_source(&plan).ok_or("no scan")?;
        let bytes = source.value().to_bytes(&CODEC)?;
        for length in 0..bytes.len() {
            assert!(ScanValue::from_bytes(&bytes[..length], &task).is_err());
            let mut changed = bytes.clone();
            changed[length] ^= 1 << (length % 8);
            match ScanValue::from_bytes(&changed, &task) {
                Ok(value) => {
                    read += 1;
                    // The changed bytes may name other columns, or columns that do not exist.
                    let _ = value.open(&ctx.runtime_env()).await;
                }
                Err(_) => refused += 1,
            }
        }
        let mut other = bytes.clone();
        other[2] = b'X';
        let error = ScanValue::from_bytes(&other, &task)
            .err()
            .map(|e| e.to_string())
            .unwrap_or_default();
        assert!(error.contains("the same release"), "{error}");
    }
    assert!(
        refused > 100 && read > 100,
        "{refused} refused, {read} read"
    );
    Ok(())
}

trial!(what_was_seen);
/// What was committed since is not seen, though its time be earlier, and what is gone is missed.
async fn what_was_seen() -> Result<(), Failed> {
    let files = Files::golden("delete_always");
    let (writes, deletes) = (files.find_all(".wrt"), files.find_all(".del"));
    let folder = tempfile::tempdir()?;
    let array = folder.path().join("array");
    let mut before = files.clone();
    let late = [&writes[1], &deletes[0]];
    before.0.retain(|path, _| !late.contains(&path));
    before.write(&array);

    let ctx = USUAL.context()?;
    let sql = format!("SELECT * FROM '{}'", array.display());
    let plan = ctx.sql(&sql).await?.create_physical_plan().await?;
    let expected = rows(&ctx, Arc::clone(&plan)).await?;
    files.write(&array);
    let anew = opened_anew(Arc::clone(&plan), ctx.task_ctx()).await?;
    assert_eq!(expected, rows(&ctx, anew).await?);
    let now = ctx.sql(&sql).await?.create_physical_plan().await?;
    assert_ne!(expected, rows(&ctx, now).await?);

    for gone in [&writes[0], &deletes[1]] {
        std::fs::remove_file(array.join(gone))?;
        let error = opened_anew(Arc::clone(&plan), ctx.task_ctx())
            .await
            .err()
            .map(|e| e.to_string())
            .unwrap_or_default();
        assert!(error.contains("conflict: "), "{error}");
        assert!(error.contains("is no longer there"), "{error}");
        files.write(&array);
    }
    Ok(())
}
