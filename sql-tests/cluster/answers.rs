//! Answers of workers beside those of one process.

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use datafusion_tiledb::execute;
use libtest_mimic::Failed;

use super::run_statements;
use crate::support::session_shapes::{Shape, USUAL};
trial!(large_scans);
/// Scans, groups, joins and orders of arrays that are cut.
async fn large_scans() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().display().to_string();
    let plain = USUAL.context()?;
    let statements = [
        "CREATE EXTERNAL TABLE sparse (x BIGINT, kind VARCHAR, v DOUBLE, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '$P/sparse' \
         OPTIONS ('tiledb.capacity' '1000', 'tiledb.dim.x.domain' '[0, 1000000]')",
        "INSERT INTO sparse SELECT value, 'k' || (value % 7), value / 2.0 FROM generate_series(0, 199999)",
        "INSERT INTO sparse SELECT value * 3, 'z', -1.0 FROM generate_series(0, 9999)",
        "DELETE FROM sparse WHERE x % 1000 = 5",
        "COPY (SELECT value AS x, arrow_cast('k' || (value % 7), 'Dictionary(Int8, Utf8)') AS kind, value AS v FROM generate_series(0, 99999)) \
         TO '$P/enumerated' STORED AS TILEDB PARTITIONED BY (x)",
        "CREATE EXTERNAL TABLE dense (y BIGINT, x BIGINT, a DOUBLE, b BIGINT, PRIMARY KEY (y, x)) STORED AS TILEDB LOCATION '$P/dense' \
         OPTIONS ('tiledb.array_type' 'dense', 'tiledb.dim.y.domain' '[0, 399]', 'tiledb.dim.x.domain' '[0, 399]', 'tiledb.dim.y.tile' '20', 'tiledb.dim.x.tile' '20')",
        "INSERT INTO dense SELECT value / 400, value % 400, value AS a, value AS b FROM generate_series(0, 159999)",
        "INSERT INTO dense SELECT value / 50 + 100, value % 50, -1 AS a, -1 AS b FROM generate_series(0, 2499)",
    ];
    run_statements(&plain, &statements, &place).await?;
    let clusters = [1, 2, 4].map(|workers| Shape::with_workers(workers).context());
    let mut distributed = 0;
    for sql in [
        "SELECT count(*) AS n, sum(v) AS s, min(x) AS a, max(x) AS b FROM '$P/sparse'",
        "SELECT count(*) AS n, avg(a) AS m, max(b) AS b FROM '$P/dense' WHERE y BETWEEN 3 AND 377",
        "SELECT kind, count(*) AS n, sum(v) AS s FROM '$P/sparse' GROUP BY kind ORDER BY kind",
        "SELECT kind, count(*) AS n, sum(v) AS s FROM '$P/enumerated' GROUP BY kind ORDER BY kind",
        "SELECT * FROM '$P/sparse' WHERE v < 0 ORDER BY x",
        "SELECT * FROM '$P/sparse' ORDER BY v DESC, x LIMIT 7",
        "SELECT y, sum(a) AS s FROM '$P/dense' GROUP BY y ORDER BY y",
        "SELECT * FROM '$P/dense' WHERE b % 1000 = 7 ORDER BY y, x",
        "SELECT * FROM '$P/dense' ORDER BY y DESC, x DESC LIMIT 5",
        "SELECT s.kind, count(*) AS n, sum(e.v) AS v FROM '$P/sparse' AS s JOIN '$P/enumerated' AS e ON s.x = e.x GROUP BY s.kind ORDER BY 1",
        "SELECT count(*) AS n FROM '$P/sparse' AS s LEFT JOIN '$P/enumerated' AS e ON s.x = e.x AND e.kind = 'k3' WHERE e.x IS NULL",
        "SELECT count(DISTINCT kind) AS n FROM '$P/sparse'",
        "SELECT x, row_number() OVER (PARTITION BY kind ORDER BY x) AS r FROM '$P/sparse' WHERE x < 100 ORDER BY x",
        "SELECT kind FROM '$P/sparse' WHERE x < 10 UNION ALL SELECT kind FROM '$P/enumerated' WHERE x > 99990 ORDER BY kind",
        "SELECT count(*) AS n FROM '$P/sparse' WHERE x IN (SELECT b FROM '$P/dense' WHERE b > 1000)",
        "SELECT count(*) AS n FROM '$P/sparse' WHERE v > (SELECT avg(v) FROM '$P/enumerated')",
    ] {
        let sql = sql.replace("$P", &place);
        let expected = shown(&plain, &sql).await?;
        for ctx in &clusters {
            let ctx = ctx.as_ref().map_err(ToString::to_string)?;
            let found = shown(ctx, &sql)
                .await
                .map_err(|e| format!("{sql}: {}", e.message().unwrap_or_default()))?;
            if found != expected {
                return Err(format!("{sql}\n{found}\nexpected\n{expected}").into());
            }
            let plan = shown(ctx, &format!("EXPLAIN {sql}")).await?;
            distributed += usize::from(plan.contains("tasks=2"));
        }
    }
    if distributed < 12 {
        return Err(format!("only {distributed} queries ran on two workers").into());
    }
    Ok(())
}

trial!(enumerations);
/// Groups by codes of enumerations, which are sent as functions: text, bytes, NULL, other dictionaries behind joins.
async fn enumerations() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().display().to_string();
    let plain = USUAL.context()?;
    let statements = [
        "COPY (SELECT value AS x, arrow_cast(CASE WHEN value % 11 = 3 THEN NULL ELSE 'é' || (value % 7) END, 'Dictionary(Int8, Utf8)') AS kind, \
         arrow_cast(arrow_cast('b' || (value % 3), 'Binary'), 'Dictionary(Int16, Binary)') AS bytes, value AS v FROM generate_series(0, 99999)) \
         TO '$P/one' STORED AS TILEDB PARTITIONED BY (x)",
        "COPY (SELECT value AS x, arrow_cast('é' || ((value + 5) % 9), 'Dictionary(Int8, Utf8)') AS kind FROM generate_series(0, 49999)) \
         TO '$P/other' STORED AS TILEDB PARTITIONED BY (x)",
    ];
    run_statements(&plain, &statements, &place).await?;
    let cluster = Shape::with_workers(2).context()?;
    for sql in [
        "SELECT kind, count(*) AS n, sum(v) AS s FROM '$P/one' GROUP BY kind ORDER BY kind NULLS FIRST",
        "SELECT kind, bytes, count(*) AS n, min(x) AS low FROM '$P/one' GROUP BY kind, bytes ORDER BY low",
        "SELECT kind, v % 4 AS r, count(*) AS n FROM '$P/one' GROUP BY kind, v % 4 ORDER BY kind, r",
        "SELECT o.kind, count(*) AS n FROM '$P/one' AS a JOIN '$P/other' AS o ON a.x = o.x GROUP BY o.kind ORDER BY o.kind",
        "SELECT kind, n FROM (SELECT kind, count(*) AS n FROM '$P/one' WHERE v > 100 GROUP BY kind) WHERE kind > 'é3' ORDER BY kind",
    ] {
        let sql = sql.replace("$P", &place);
        let expected = shown(&plain, &sql).await?;
        let found = shown(&cluster, &sql).await?;
        if found != expected {
            return Err(format!("{sql}\n{found}\nexpected\n{expected}").into());
        }
        let plan = shown(&cluster, &format!("EXPLAIN {sql}")).await?;
        if !plan.contains("codes(") || !plan.contains("tasks=2") {
            return Err(format!("{sql} doesn't group by codes on workers:\n{plan}").into());
        }
    }
    Ok(())
}

async fn shown(ctx: &SessionContext, sql: &str) -> Result<String, Failed> {
    let batches = execute(ctx, sql).await?.collect().await?;
    Ok(pretty_format_batches(&batches)?.to_string())
}

trial!(counters);
/// EXPLAIN ANALYZE counts what all tasks read: as much as one process reads.
async fn counters() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().display().to_string();
    let plain = USUAL.context()?;
    let statements = [
        "CREATE EXTERNAL TABLE sparse (x BIGINT, kind VARCHAR, v DOUBLE, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '$P/sparse' \
         OPTIONS ('tiledb.capacity' '1000', 'tiledb.dim.x.domain' '[0, 1000000]')",
        "INSERT INTO sparse SELECT value, 'k' || (value % 7), value / 2.0 FROM generate_series(0, 199999)",
        "INSERT INTO sparse SELECT value * 3, 'z', -1.0 FROM generate_series(0, 999)",
        "CREATE EXTERNAL TABLE dense (y BIGINT, x BIGINT, a DOUBLE, PRIMARY KEY (y, x)) STORED AS TILEDB LOCATION '$P/dense' \
         OPTIONS ('tiledb.array_type' 'dense', 'tiledb.dim.y.domain' '[0, 999]', 'tiledb.dim.x.domain' '[0, 999]', 'tiledb.dim.y.tile' '100', 'tiledb.dim.x.tile' '100')",
        "INSERT INTO dense SELECT value / 1000, value % 1000, value AS a FROM generate_series(0, 999999)",
    ];
    run_statements(&plain, &statements, &place).await?;
    let workers = Shape::with_workers(3).context()?;
    for sql in [
        "SELECT kind, sum(v) FROM '$P/sparse' GROUP BY kind",
        "SELECT sum(v) FROM '$P/sparse' WHERE x BETWEEN 100 AND 150000 AND kind <> 'k1'",
        "SELECT sum(a * a) FROM '$P/dense' WHERE y BETWEEN 10 AND 890",
        "SELECT sum(a), count(*) FROM '$P/dense' WHERE y BETWEEN 10 AND 890",
    ] {
        let sql = format!("EXPLAIN ANALYZE {}", sql.replace("$P", &place));
        let (found, expected) = (shown(&workers, &sql).await?, shown(&plain, &sql).await?);
        if !found.contains("tasks=3") {
            return Err(format!("{sql} isn't distributed\n{found}").into());
        }
        for counter in [
            "fragments",
            "tiles",
            "tiles_pruned",
            "cells_decoded",
            "bytes_decoded",
            "rows_from_metadata",
        ] {
            let (found, expected) = (counted(&found, counter), counted(&expected, counter));
            if found != expected {
                return Err(format!("{sql}: {counter} is {found:?}, expected {expected:?}").into());
            }
        }
    }
    Ok(())
}

/// The values of a counter among the metrics of a plan.
fn counted(plan: &str, name: &str) -> Vec<String> {
    let metrics = plan.split("metrics=[").skip(1);
    let parts = metrics.flat_map(|rest| rest.split(']').next().unwrap_or_default().split(", "));
    let values = parts.filter_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    values.map(str::to_owned).collect()
}

trial!(what_stays);
/// EXPLAIN says why a query runs in the process, and it runs there.
async fn what_stays() -> Result<(), Failed> {
    let ctx = Shape::with_workers(2).context()?;
    let shelf = url::Url::parse("shelf://memory")?;
    ctx.register_object_store(
        &shelf,
        std::sync::Arc::new(object_store::memory::InMemory::new()),
    );
    for sql in [
        "CREATE EXTERNAL TABLE t (x BIGINT, v BIGINT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION 'shelf://memory/t' OPTIONS ('tiledb.capacity' '100')",
        "INSERT INTO t SELECT value AS x, value AS v FROM generate_series(0, 9999)",
        "CREATE EXTERNAL TABLE secret (x BIGINT, v BIGINT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION 'shelf://memory/secret' \
         OPTIONS ('tiledb.capacity' '100', 'tiledb.encryption_key' '0123456789abcdef0123456789abcdef')",
        "INSERT INTO secret SELECT value AS x, value AS v FROM generate_series(0, 9999)",
    ] {
        execute(&ctx, sql).await?.collect().await?;
    }
    for (sql, reason) in [
        (
            "SELECT v % 7 AS k, count(*) AS n FROM t GROUP BY k",
            "one of this program",
        ),
        (
            "SELECT v % 7 AS k, count(*) AS n FROM secret GROUP BY k",
            "tiledb.encryption_key is secret",
        ),
        (
            "WITH RECURSIVE r(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM r WHERE n < (SELECT count(*) FROM t WHERE x < 3)) SELECT * FROM r",
            "recursive",
        ),
    ] {
        let plan = shown(&ctx, &format!("EXPLAIN {sql}")).await?;
        if !plan.contains(reason) || plan.contains("tasks=") || plan.contains("0123456789") {
            return Err(format!("{sql}\n{plan}").into());
        }
        execute(&ctx, sql).await?.collect().await?;
    }
    stored_rows_stay().await
}

/// Rows that no worker filters or groups stay, unless a setting sends them.
async fn stored_rows_stay() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().join("t").display().to_string();
    let ctx = Shape::with_workers(2).context()?;
    let statements = [
        "CREATE EXTERNAL TABLE t (x BIGINT, v BIGINT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '$P' \
         OPTIONS ('tiledb.capacity' '1000', 'tiledb.dim.x.domain' '[0, 1000000]')",
        "INSERT INTO t SELECT value AS x, value AS v FROM generate_series(0, 199999)",
    ];
    run_statements(&ctx, &statements, &place).await?;
    for (send, sql, sent) in [
        ("false", "SELECT * FROM '$P'", false),
        (
            "false",
            "SELECT v, x FROM '$P' WHERE x BETWEEN 1000 AND 150000",
            false,
        ),
        (
            "false",
            "SELECT row_number() OVER () AS r, v FROM '$P'",
            false,
        ),
        ("false", "SELECT * FROM '$P' WHERE v % 3 = 1", true),
        ("false", "SELECT * FROM '$P' ORDER BY v", true),
        (
            "false",
            "SELECT v % 2 AS m, count(*) AS n FROM '$P' GROUP BY m",
            true,
        ),
        ("true", "SELECT * FROM '$P'", true),
    ] {
        let set = format!("SET tiledb.send_stored_rows = {send}");
        run_statements(&ctx, &[&set], &place).await?;
        let plan = shown(&ctx, &format!("EXPLAIN {}", sql.replace("$P", &place))).await?;
        let expected = match sent {
            true => "tasks=2",
            false => "runs in this process: its rows are returned as they are stored",
        };
        if !plan.contains(expected) {
            return Err(format!("{sql}, {set}: expected {expected}\n{plan}").into());
        }
    }
    Ok(())
}

/// Runs a test on a thread with a deep stack: parsers take one level of it for each of a text, and debug builds take long ones.
fn on_a_deep_stack<F>(test: impl FnOnce() -> F + Send + 'static) -> Result<(), Failed>
where
    F: Future<Output = Result<(), Failed>>,
{
    let thread = std::thread::Builder::new().stack_size(64 << 20);
    let run = || crate::block_on(test()).map_err(|e| format!("{e:?}"));
    let ran = thread.spawn(run)?.join();
    ran.unwrap_or_else(|_| Err("it panics".to_owned()))
        .map_err(Failed::from)
}

trial!(deep_expressions);
/// What is nested more deeply than a worker can read stays in the process.
fn deep_expressions() -> Result<(), Failed> {
    on_a_deep_stack(deep_expressions_on_workers)
}

async fn deep_expressions_on_workers() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().join("t").display().to_string();
    let plain = USUAL.context()?;
    let statements = [
        "CREATE EXTERNAL TABLE t (x BIGINT, v BIGINT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '$P' \
         OPTIONS ('tiledb.capacity' '1000', 'tiledb.dim.x.domain' '[0, 1000000]')",
        "INSERT INTO t SELECT value AS x, value AS v FROM generate_series(0, 99999)",
    ];
    run_statements(&plain, &statements, &place).await?;
    let workers = Shape::with_workers(2).context()?;
    let terms = |count: usize, link: &str| vec!["v"; count].join(link);
    let nested = |count: usize| {
        let mut sql = format!("SELECT x % 9 AS k, v FROM '{place}'");
        for level in 0..count {
            sql = format!("SELECT k, max(v) + {level} AS v FROM ({sql}) GROUP BY k");
        }
        sql
    };
    let mut stayed = 0;
    for sql in [
        format!(
            "SELECT x % 7 AS k, sum({}) AS s FROM '{place}' GROUP BY k ORDER BY k",
            terms(30, " + ")
        ),
        format!(
            "SELECT x % 7 AS k, sum({}) AS s FROM '{place}' GROUP BY k ORDER BY k",
            terms(450, " + ")
        ),
        format!(
            "SELECT x % 7 AS k, count(*) AS n FROM '{place}' WHERE {} > 5 GROUP BY k ORDER BY k",
            terms(450, " + ")
        ),
        format!("SELECT * FROM ({}) ORDER BY k", nested(12)),
        format!("SELECT * FROM ({}) ORDER BY k", nested(22)),
    ] {
        let (found, expected) = (shown(&workers, &sql).await?, shown(&plain, &sql).await?);
        let what: String = sql.chars().take(60).collect();
        if found != expected {
            return Err(format!("{what}…: {found}, expected {expected}").into());
        }
        let plan = shown(&workers, &format!("EXPLAIN {sql}")).await?;
        let stays = !plan.contains("tasks=2");
        if stays && !plan.contains("runs in this process: ") {
            return Err(format!("{what}…: {plan}").into());
        }
        stayed += usize::from(stays);
    }
    if stayed < 2 {
        return Err(format!("{stayed} queries stay").into());
    }
    Ok(())
}

trial!(long_conditions);
/// Conditions of any length travel.
fn long_conditions() -> Result<(), Failed> {
    on_a_deep_stack(long_conditions_on_workers)
}

async fn long_conditions_on_workers() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().join("t").display().to_string();
    let plain = USUAL.context()?;
    let statements = [
        "CREATE EXTERNAL TABLE t (x BIGINT, k VARCHAR, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '$P' \
         OPTIONS ('tiledb.capacity' '1000', 'tiledb.dim.x.domain' '[0, 1000000]')",
        "INSERT INTO t SELECT value, 'k' || (value % 1000) FROM generate_series(0, 199999)",
    ];
    run_statements(&plain, &statements, &place).await?;
    let workers = Shape::with_workers(2).context()?;
    let list = |count: u64, item: &dyn Fn(u64) -> String, link: &str| {
        let items: Vec<_> = (0..count).map(item).collect();
        items.join(link)
    };
    let numbers = list(100_000, &|n| (n * 7).to_string(), ",");
    let terms = list(490, &|n| format!("x = {}", n * 400), " OR ");
    let long = "k".repeat(10 << 20);
    for condition in [
        format!("x IN ({numbers})"),
        terms,
        format!("k <> '{long}'"),
        format!("k < '{long}' AND x > 100"),
    ] {
        let sql = format!(
            "SELECT count(k) AS n, min(x) AS lo, max(x) AS hi, sum(x % 7) AS s FROM '{place}' WHERE {condition}"
        );
        let frame = execute(&workers, &sql).await?;
        let plan = frame.create_physical_plan().await?;
        let travels = plan.name() == "ClusterExec";
        let found = pretty_format_batches(&collect(plan, workers.task_ctx()).await?)?.to_string();
        let expected = shown(&plain, &sql).await?;
        if found != expected || !travels {
            let condition: String = condition.chars().take(60).collect();
            return Err(format!("{condition}…: {found}, expected {expected}").into());
        }
    }
    Ok(())
}
