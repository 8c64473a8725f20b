//! Defects of DataFusion that this crate guards against (`src/optimizer/guards/`, reported in `docs/upstream/README.md`).
//!
//! Each test shows a defect without an array and without this crate's rules. It fails as soon as DataFusion gives the
//! right answer: then the guard that it names, and the report, can go.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, AsArray, Int64Array, ListArray, RecordBatch, TimestampSecondArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::logical_expr::col;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr, lit};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPhase, PushedDown};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use libtest_mimic::Failed;

use crate::{block_on, trial};

/// A test that fails when `defect` says that the answer is right by now.
/// Makes a function that shows a defect a test, with the guard that the defect requires.
macro_rules! still_wrong {
    ($defect:ident, $guard:literal) => {
        trials!([trial(stringify!($defect), || {
            block_on(is_still_wrong($guard, $defect()))
        })]);
    };
}

async fn is_still_wrong(
    guard: &str,
    defect: impl Future<Output = Result<bool>>,
) -> std::result::Result<(), Failed> {
    if defect.await? {
        let message = format!(
            "DataFusion is right: {guard} in src/optimizer/guards/ may not be needed any more"
        );
        return Err(message.into());
    }
    Ok(())
}

async fn answer(ctx: &SessionContext, sql: &str) -> Result<String> {
    let batches = ctx.sql(sql).await?.collect().await?;
    Ok(pretty_format_batches(&batches)?.to_string())
}

fn session(partitions: usize) -> SessionContext {
    SessionContext::new_with_config(SessionConfig::new().with_target_partitions(partitions))
}

fn integers(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

/// A session of one partition with the rows of a query as Parquet table `t`, whose scan takes filters, and the folder that
/// holds it.
async fn parquet(rows: &str) -> Result<(SessionContext, tempfile::TempDir)> {
    let config = SessionConfig::new()
        .with_target_partitions(1)
        .set_bool("datafusion.execution.parquet.pushdown_filters", true);
    let (ctx, folder) = (
        SessionContext::new_with_config(config),
        tempfile::tempdir()?,
    );
    let file = folder.path().join("t.parquet").display().to_string();
    let copy = format!("COPY ({rows}) TO '{file}'");
    ctx.sql(&copy).await?.collect().await?;
    ctx.register_parquet("t", file, ParquetReadOptions::default())
        .await?;
    Ok((ctx, folder))
}

still_wrong!(moved_key, "orders::without_false_keys");
/// `docs/upstream/README.md#projected-constraints`
async fn moved_key() -> Result<bool> {
    let hours = TimestampSecondArray::from_iter_values((0..48).map(|h| h * 3600));
    let columns: [(&str, ArrayRef); 2] = [
        ("ts", Arc::new(hours)),
        ("v", integers((0..48).map(|h| h * 7 % 24))),
    ];
    let batch = RecordBatch::try_from_iter(columns)?;
    let table = MemTable::try_new(batch.schema(), vec![vec![batch]])?
        .with_sort_order(vec![vec![col("ts").sort(true, false)]]);
    let ctx = session(1);
    ctx.register_table("t", Arc::new(table))?;
    let top = "SELECT date_trunc('day', ts) AS day, ts, max(v) AS m FROM t GROUP BY 1, 2 ORDER BY day, m DESC LIMIT 1";
    Ok(answer(&ctx, top).await?.contains(" 23 "))
}

/// Ten Parquet files of one row, `c` = 0 .. 9 and `d` = 1, as table `t`; a partition reads its files one after the other.
async fn ten_files(ctx: &SessionContext, folder: &tempfile::TempDir) -> Result<()> {
    for number in 0..10 {
        let path = folder.path().join(format!("{number}.parquet"));
        let rows = format!("SELECT {number}::BIGINT AS c, 1::BIGINT AS d");
        let copy = format!("COPY ({rows}) TO '{}'", path.display());
        ctx.sql(&copy).await?.collect().await?;
    }
    let folder = folder.path().display().to_string();
    ctx.register_parquet("t", folder, ParquetReadOptions::default())
        .await
}

still_wrong!(bounds_of_some_aggregates, "run_time_filters");
/// `docs/upstream/README.md#aggregate-dynamic-filter`
async fn bounds_of_some_aggregates() -> Result<bool> {
    let (ctx, folder) = (session(2), tempfile::tempdir()?);
    ten_files(&ctx, &folder).await?;
    let found = answer(&ctx, "SELECT min(c), max(c * d) AS most FROM t").await?;
    Ok(found.contains(" 9 "))
}

still_wrong!(bounds_of_an_earlier_iteration, "run_time_filters");
/// `docs/upstream/README.md#aggregate-dynamic-filter`
async fn bounds_of_an_earlier_iteration() -> Result<bool> {
    let (ctx, folder) = (session(2), tempfile::tempdir()?);
    ten_files(&ctx, &folder).await?;
    let iterations = "WITH RECURSIVE r(n, lo) AS (SELECT 0, 5::BIGINT UNION ALL \
                      SELECT n + 1, q.lo FROM r CROSS JOIN (SELECT min(c) AS lo FROM t WHERE c * d >= 0) q WHERE n < 3) \
                      SELECT count(*) AS n FROM r WHERE lo = 0";
    Ok(answer(&ctx, iterations).await?.contains(" 3 "))
}

still_wrong!(filters_of_an_earlier_run, "run_time_filters");
/// `docs/upstream/README.md#filters-of-earlier-runs`
async fn filters_of_an_earlier_run() -> Result<bool> {
    let ctx = session(1);
    ctx.sql("CREATE TABLE t(k BIGINT, x BIGINT) AS VALUES (1, 5), (2, 6), (3, 7)")
        .await?;
    let top = "SELECT k, array_agg(x ORDER BY x) AS xs FROM t GROUP BY k ORDER BY k LIMIT 2";
    let plan = ctx.sql(top).await?.create_physical_plan().await?;
    let rows = |batches: Vec<RecordBatch>| batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    let first = rows(collect(Arc::clone(&plan), ctx.task_ctx()).await?);
    let again = rows(collect(reset_plan_states(plan)?, ctx.task_ctx()).await?);
    assert_eq!(first, 2);
    Ok(again == 2)
}

still_wrong!(filters_below_a_fetch, "run_time_filters");
/// `docs/upstream/README.md#filters-below-a-fetch`
async fn filters_below_a_fetch() -> Result<bool> {
    let schema = RecordBatch::try_from_iter([("a", integers([1]))])?.schema();
    let rows: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(schema).with_partitions(2));
    let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("a", 0));
    let filter = Arc::new(DynamicFilterPhysicalExpr::new(vec![column], lit(true)));
    let filtered: Arc<dyn ExecutionPlan> =
        Arc::new(FilterExec::try_new(lit(true), Arc::clone(&rows))?);
    let gathered: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(rows));
    for plan in [filtered, gathered]
        .iter()
        .filter_map(|plan| plan.with_fetch(Some(1)))
    {
        let filters = vec![Arc::clone(&filter) as _];
        let mut passed = plan
            .gather_filters_for_pushdown(FilterPushdownPhase::Post, filters, &Default::default())?
            .parent_filters()
            .into_iter()
            .flatten();
        if passed.any(|filter| matches!(filter.discriminant, PushedDown::Yes)) {
            return Ok(false);
        }
    }
    Ok(true)
}

still_wrong!(null_in_a_mark, "nullable_in");
/// `docs/upstream/README.md#mark-join-nulls`
async fn null_in_a_mark() -> Result<bool> {
    let ctx = session(1);
    ctx.sql("CREATE TABLE n AS SELECT * FROM (VALUES (1), (NULL)) v(y)")
        .await?
        .collect()
        .await?;
    let found = "SELECT count(*) AS n FROM (VALUES (1), (2)) v(x) WHERE NOT (x IN (SELECT y FROM n)) OR x = 7";
    Ok(answer(&ctx, found).await?.contains(" 0 "))
}

still_wrong!(time_in_from, "table_factors");
/// `docs/upstream/README.md#table-version`
async fn time_in_from() -> Result<bool> {
    let config = SessionConfig::new().set_str("datafusion.sql_parser.dialect", "BigQuery");
    let ctx = SessionContext::new_with_config(config);
    ctx.sql("CREATE TABLE t AS SELECT 1 AS a")
        .await?
        .collect()
        .await?;
    let planned = ctx
        .sql("SELECT * FROM t FOR SYSTEM_TIME AS OF '2000-01-01'")
        .await;
    Ok(planned.is_err())
}

still_wrong!(filters_by_name, "fields::let_through");
/// `docs/upstream/README.md#filters-by-name`
async fn filters_by_name() -> Result<bool> {
    let rows = "SELECT * FROM (VALUES (1, NULL, 2), (2, 5, 1)) v(a, f, r)";
    let (ctx, _folder) = parquet(rows).await?;
    let sum = "SELECT sum(y.r) AS s FROM t x RIGHT JOIN t y ON x.a = y.r WHERE NOT (x.f <> x.f) GROUP BY y.f";
    Ok(answer(&ctx, sum).await?.contains(" 2 "))
}

still_wrong!(zeros_in_joins, "run_time_filters");
/// `docs/upstream/README.md#zeros-in-joins`
async fn zeros_in_joins() -> Result<bool> {
    let rows = "SELECT * FROM (VALUES (-0.0, 1), (2.0, 2)) v(x, n)";
    let (ctx, _folder) = parquet(rows).await?;
    let join = "SELECT t.n FROM (VALUES (0.0), (1.0)) v(y) JOIN t ON v.y = t.x";
    Ok(answer(&ctx, join).await?.contains(" 1 "))
}

still_wrong!(nan_bits, "one_nan");
/// `docs/upstream/README.md#nan-bits`
async fn nan_bits() -> Result<bool> {
    let ctx = session(1);
    // A NaN with a sign, as x86 computes it, on every machine.
    let nan = "SELECT -('NaN'::DOUBLE) = 'NaN'::DOUBLE AS same";
    Ok(answer(&ctx, nan).await?.contains("true"))
}

still_wrong!(limited_distinct, "limits::without_limit");
/// `docs/upstream/README.md#limited-distinct`
async fn limited_distinct() -> Result<bool> {
    let ctx = session(1);
    let rows = "CREATE TABLE m AS SELECT * FROM (VALUES (1, 2), (1, 3), (2, 4), (3, 5)) v(k, v)";
    ctx.sql(rows).await?.collect().await?;
    let one = "SELECT DISTINCT k FROM (SELECT k, sum(v) OVER (PARTITION BY k ORDER BY v) AS s FROM m) WHERE s > 0 LIMIT 1";
    Ok(answer(&ctx, one).await.is_ok())
}

still_wrong!(grouping_sets, "orders::without_claims");
/// `docs/upstream/README.md#grouping-sets`
async fn grouping_sets() -> Result<bool> {
    let ctx = session(1);
    let rows = "CREATE TABLE m AS SELECT * FROM (VALUES (1), (1)) v(k)";
    ctx.sql(rows).await?.collect().await?;
    let sums = "SELECT k, count(*) AS n FROM (SELECT k FROM m ORDER BY k LIMIT 2) GROUP BY ROLLUP (k) ORDER BY k";
    let found = answer(&ctx, sums).await?;
    Ok(found.find("| 1 ") < found.find("|   |"))
}

still_wrong!(order_of_joins, "join_claims");
/// `docs/upstream/README.md#order-of-joins`
async fn order_of_joins() -> Result<bool> {
    let ctx = session(1);
    for rows in [
        "CREATE TABLE l AS SELECT * FROM (VALUES (1, 1), (1, 2), (2, 1), (2, 2)) AS v(k, b)",
        "CREATE TABLE r AS SELECT * FROM (VALUES (1, 7), (2, 7), (1, 7)) AS v(k, a)",
    ] {
        ctx.sql(rows).await?.collect().await?;
    }
    let joined = "SELECT l.b FROM (SELECT * FROM l ORDER BY b LIMIT 10) l JOIN (SELECT * FROM r ORDER BY a LIMIT 10) r \
                  ON l.k = r.k ORDER BY r.a, l.b";
    let found = answer(&ctx, joined).await?;
    Ok(found.rfind("| 1 ") < found.find("| 2 "))
}

still_wrong!(filters_of_merge_joins, "join_claims");
/// `docs/upstream/README.md#filters-of-merge-joins`
async fn filters_of_merge_joins() -> Result<bool> {
    let ctx = session(2);
    for statement in [
        "SET datafusion.optimizer.prefer_hash_join = false",
        "CREATE TABLE f AS SELECT * FROM (VALUES (1, 1), (2, 1), (1, 2), (2, 2)) AS v(b, k)",
        "CREATE TABLE m AS SELECT * FROM (VALUES (1), (2), (1), (2)) AS v(k)",
    ] {
        ctx.sql(statement).await?.collect().await?;
    }
    let joined = "SELECT f.k AS fk, m.k AS mk FROM f LEFT JOIN m ON f.k = m.k AND f.b = 2";
    Ok(answer(&ctx, joined).await?.contains("| 1  | 1  |"))
}

still_wrong!(constants_of_outer_joins, "join_claims");
/// `docs/upstream/README.md#constants-of-outer-joins`
async fn constants_of_outer_joins() -> Result<bool> {
    let ctx = session(1);
    // The rows of one batch that have no match come after those that have one.
    ctx.sql("SET datafusion.execution.batch_size = 2").await?;
    let rows = "CREATE TABLE m AS SELECT * FROM (VALUES (0, 'a'), (1, 'b'), (2, 'c'), (3, 'a'), (4, 'd')) AS v(x, s)";
    ctx.sql(rows).await?.collect().await?;
    let joined = "SELECT l.least FROM (SELECT s, min(x) OVER () AS least FROM m WHERE x IN (0, 2)) AS l RIGHT JOIN m AS r \
                  ON l.s = r.s ORDER BY l.least";
    let found = answer(&ctx, joined).await?;
    Ok(found.rfind("| 0 ") < found.find("|       |"))
}

still_wrong!(casts, "casts::with_bounds_below");
/// `docs/upstream/README.md#statistics-of-casts`
async fn casts() -> Result<bool> {
    let (ctx, _folder) = parquet("SELECT * FROM (VALUES (2), (11)) v(x)").await?;
    let least = "SELECT min(s) AS least FROM (SELECT CAST(x AS VARCHAR) AS s FROM t)";
    Ok(answer(&ctx, least).await?.contains(" 11 "))
}

still_wrong!(sort_below_offset, "orders::above_skipped");
/// `docs/upstream/README.md#sort-below-offset`
async fn sort_below_offset() -> Result<bool> {
    let ctx = session(1);
    let rows = "CREATE TABLE m AS SELECT * FROM (VALUES (1, 7), (2, 5), (3, 5)) t(k, v)";
    ctx.sql(rows).await?.collect().await?;
    let one = "SELECT count(*) OVER (PARTITION BY k ORDER BY v) AS n FROM (SELECT k, v FROM m ORDER BY k LIMIT 1 OFFSET 1)";
    Ok(answer(&ctx, one).await?.contains(" 1 "))
}

still_wrong!(union_fields, "fields::UnionFields");
/// `docs/upstream/README.md#union-fields`
async fn union_fields() -> Result<bool> {
    let ctx = session(1);
    for (table, nullable, kind) in [("a", false, "one"), ("b", true, "another")] {
        let field = Field::new("x", DataType::Int64, nullable);
        let kind = HashMap::from([("kind".to_owned(), kind.to_owned())]);
        let schema = Arc::new(Schema::new(vec![field.with_metadata(kind)]));
        let batch = RecordBatch::try_new(schema, vec![integers([1])])?;
        ctx.register_batch(table, batch)?;
    }
    let union = "SELECT x FROM a UNION SELECT x FROM b";
    Ok(answer(&ctx, union).await.is_ok())
}

still_wrong!(coded_lengths, "casts::PlainNumbers");
/// `docs/upstream/README.md#coded-lengths`
async fn coded_lengths() -> Result<bool> {
    let ctx = session(1);
    for rows in [
        "CREATE TABLE t AS SELECT arrow_cast(value, 'Int32') AS n FROM generate_series(1, 300)",
        "CREATE TABLE m AS SELECT arrow_cast(column1, 'Dictionary(UInt8, Utf8)') AS s FROM (VALUES ('a'), ('bb')) v",
    ] {
        ctx.sql(rows).await?.collect().await?;
    }
    let some = "SELECT count(*) AS c FROM t WHERE n IN (SELECT length(s) FROM m)";
    Ok(answer(&ctx, some)
        .await
        .is_ok_and(|found| found.contains(" 2 ")))
}

still_wrong!(filters_of_semi_joins, "fields::let_through");
/// `docs/upstream/README.md#filters-by-name`
async fn filters_of_semi_joins() -> Result<bool> {
    let rows = "SELECT value AS a, value + 1 AS k, value % 2 AS c FROM generate_series(1, 200)";
    let (ctx, _folder) = parquet(rows).await?;
    let join = "SELECT x.k FROM (VALUES (2), (3)) v(b) JOIN (SELECT * FROM t y WHERE EXISTS \
                (SELECT 1 FROM t z WHERE z.k = y.a AND z.a <> y.c)) x ON v.b = x.a";
    Ok(answer(&ctx, join).await?.contains(" 3 "))
}

still_wrong!(lost_order, "orders::sorted_again");
/// `docs/upstream/README.md#lost-orders`
async fn lost_order() -> Result<bool> {
    let columns = [("x", integers(0..100)), ("v", integers(0..100))];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(n, c)| (n, c, false)))?;
    let table = MemTable::try_new(batch.schema(), vec![vec![batch.clone()]])?
        .with_sort_order(vec![vec![col("x").sort(true, false)]]);
    let ctx = session(2);
    ctx.register_table("t", Arc::new(table))?;
    ctx.register_batch("u", batch.slice(0, 3))?;
    let numbers = "WITH g AS (SELECT x, sum(v) AS s FROM t GROUP BY x) \
                   SELECT row_number() OVER (ORDER BY x, s) FROM g WHERE x IN (SELECT u.x FROM u)";
    Ok(answer(&ctx, numbers).await.is_ok())
}

still_wrong!(unlike_join_keys, "run_time_filters");
/// `docs/upstream/README.md#unlike-join-keys`
async fn unlike_join_keys() -> Result<bool> {
    let rows = "SELECT arrow_cast(column1, 'Int32') AS d, arrow_cast(column1, 'Int16') AS n FROM (VALUES (1), (2)) v";
    let (ctx, _folder) = parquet(rows).await?;
    let join = "SELECT count(*) FROM (SELECT d AS o FROM t UNION ALL SELECT 7::BIGINT) u WHERE EXISTS (SELECT 1 FROM t e WHERE e.n = u.o)";
    Ok(answer(&ctx, join).await.is_ok())
}

still_wrong!(set_twice, "nothing");
/// `written::check_once` may go.
async fn set_twice() -> Result<bool> {
    let ctx = session(1);
    answer(&ctx, "CREATE TABLE t (v INT)").await?;
    Ok(ctx.sql("EXPLAIN UPDATE t SET v = 1, v = 2").await.is_err())
}

still_wrong!(quoted_partitions, "nothing");
/// `written::column_name` may go.
async fn quoted_partitions() -> Result<bool> {
    let copy = "EXPLAIN COPY (SELECT 1 AS \"a b\", 2 AS v) TO 'out.parquet' STORED AS PARQUET PARTITIONED BY (\"a b\")";
    Ok(session(1).sql(copy).await.is_ok())
}

still_wrong!(silent_casts, "nothing");
/// `changes::values` may leave casts alone.
async fn silent_casts() -> Result<bool> {
    let ctx = session(1);
    answer(&ctx, "CREATE TABLE t (v INT)").await?;
    if answer(&ctx, "INSERT INTO t VALUES (78.5)").await.is_err() {
        return Ok(true);
    }
    Ok(!answer(&ctx, "SELECT * FROM t").await?.contains("| 78 |"))
}

still_wrong!(sliced_lists, "lists::from_their_start");
/// `docs/upstream/README.md#sliced-lists`
async fn sliced_lists() -> Result<bool> {
    let lists = [[1, 1], [2, 2]].map(|list| Some(list.map(Some)));
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(lists);
    let item = Field::new_list_field(DataType::Int64, true);
    let pairs = DataType::FixedSizeList(Arc::new(item), 2);
    let found = cast(&lists.slice(1, 1), &pairs)?
        .as_fixed_size_list()
        .value(0);
    Ok(found.as_primitive::<Int64Type>().value(0) == 2)
}

still_wrong!(rounded_literal, "literals");
/// `docs/upstream/README.md#literals-of-times`
async fn rounded_literal() -> Result<bool> {
    let ctx = session(1);
    ctx.sql("CREATE TABLE t AS SELECT arrow_cast('2024-02-29T00:00:00', 'Timestamp(Second, None)') AS t")
        .await?;
    let found = answer(
        &ctx,
        "SELECT count(*) AS n FROM t WHERE t = TIMESTAMP '2024-02-29T00:00:00.5'",
    );
    Ok(found.await?.contains(" 0 "))
}

still_wrong!(literal_without_zone, "literals");
/// `docs/upstream/README.md#literals-of-times`
async fn literal_without_zone() -> Result<bool> {
    let ctx = session(1);
    ctx.sql("SET datafusion.execution.time_zone = 'Asia/Singapore'")
        .await?;
    ctx.sql("CREATE TABLE t AS SELECT arrow_cast('2024-11-01T00:00:00', 'Timestamp(Millisecond, None)') AS t")
        .await?;
    let found = answer(
        &ctx,
        "SELECT count(*) AS n FROM t WHERE t = TIMESTAMPTZ '2024-10-31T16:00:00Z'",
    );
    Ok(found.await?.contains(" 1 "))
}

still_wrong!(empty_subquery, "empty_subqueries");
/// `docs/upstream/README.md#empty-subqueries`
async fn empty_subquery() -> Result<bool> {
    let ctx = session(1);
    ctx.sql("CREATE TABLE t (x BIGINT NOT NULL) AS VALUES (1)")
        .await?;
    let null = answer(
        &ctx,
        "SELECT count(*) AS n FROM t WHERE (SELECT x FROM t WHERE x = 2) IS NULL",
    );
    let right = null.await?.contains(" 1 ");
    let shown = answer(&ctx, "SELECT (SELECT x FROM t WHERE x = 2)").await;
    Ok(right || shown.is_ok())
}

still_wrong!(subquery_in_values, "values_subqueries");
/// `docs/upstream/README.md#subqueries-in-values`
async fn subquery_in_values() -> Result<bool> {
    let ctx = session(1);
    ctx.sql("CREATE TABLE t AS VALUES (1), (2)").await?;
    let shown = answer(&ctx, "VALUES ((SELECT max(column1) FROM t))").await;
    Ok(shown.is_ok_and(|shown| shown.contains(" 2 ")))
}
