//! `FROM t FOR SYSTEM_TIME AS OF …` and its like, in the dialects that parse them.
//!
//! The cells of `sparse_overwrite` were written at 1000, 2000 and 3000; `a / 10000` tells which write a cell is of. Of
//! the second write 152 cells are left by the third, and of the first 152 by the second, 114 by both: libtiledb says so.

use datafusion::error::Result;
use datafusion::prelude::SessionContext;

use crate::support::session_shapes::{SHAPES, USUAL};
use crate::support::{golden, neutral_rows};

type Outcome = std::result::Result<(), libtest_mimic::Failed>;

fn array(name: &str) -> String {
    golden::folder().join(name).display().to_string()
}

async fn speaking(ctx: &SessionContext, dialect: &str) -> Result<()> {
    let statement = format!("SET datafusion.sql_parser.dialect = '{dialect}'");
    ctx.sql(&statement).await?.collect().await?;
    Ok(())
}

async fn answer(ctx: &SessionContext, sql: &str) -> Result<Vec<String>> {
    Ok(neutral_rows::rows(&ctx.sql(sql).await?.collect().await?))
}

async fn expect(ctx: &SessionContext, sql: &str, rows: &[&str]) -> Outcome {
    let found = answer(ctx, sql).await.map_err(|e| format!("{sql}: {e}"))?;
    if found == rows {
        Ok(())
    } else {
        Err(format!("{sql}: {found:?}, expected {rows:?}").into())
    }
}

async fn expect_error(ctx: &SessionContext, sql: &str, part: &str) -> Outcome {
    match answer(ctx, sql).await {
        Err(e) if e.to_string().contains(part) => Ok(()),
        other => Err(format!("{sql}: {other:?}, expected an error with {part:?}").into()),
    }
}

trial!(dialects);
async fn dialects() -> Outcome {
    let place = array("sparse_overwrite");
    let clauses = [
        ("databricks", "TIMESTAMP AS OF '1970-01-01T00:00:02'"),
        ("databricks", "VERSION AS OF 2000"),
        ("bigquery", "FOR SYSTEM_TIME AS OF '1970-01-01T00:00:02'"),
        ("mssql", "FOR SYSTEM_TIME AS OF '1970-01-01T00:00:02'"),
        ("snowflake", "FOR SYSTEM_TIME AS OF '1970-01-01T00:00:02'"),
    ];
    for (dialect, clause) in clauses {
        let ctx = USUAL.context()?;
        speaking(&ctx, dialect).await?;
        let sql = format!("SELECT a / 10000 AS k, count(*) FROM \"{place}\" {clause} GROUP BY 1");
        let sql = match dialect {
            // There double quotes are text.
            "bigquery" | "databricks" => sql.replace('"', "`"),
            _ => sql,
        };
        expect(&ctx, &sql, &["[1,152]", "[2,200]"]).await?;
    }
    // Where the clause does not parse, it isn't an alias by mistake.
    let ctx = USUAL.context()?;
    let sql = format!("SELECT count(*) FROM '{place}' VERSION AS OF 2000");
    expect_error(&ctx, &sql, "ParserError").await
}

trial!(sessions);
async fn sessions() -> Outcome {
    let place = array("sparse_overwrite");
    for shape in SHAPES {
        let ctx = shape.context()?;
        speaking(&ctx, "databricks").await?;
        // Two times of one array.
        let sql = format!(
            "SELECT count(*), sum(old.a / 10000), sum(new.a / 10000) FROM '{place}' VERSION AS OF 1000 AS old \
             JOIN '{place}' TIMESTAMP AS OF '1970-01-01T00:00:02' AS new USING (x, y) WHERE old.a <> new.a"
        );
        expect(&ctx, &sql, &["[48,48,96]"]).await?;
    }
    Ok(())
}

trial!(times);
async fn times() -> Outcome {
    let place = array("sparse_overwrite");
    let ctx = USUAL.context()?;
    speaking(&ctx, "databricks").await?;
    let table = format!(
        "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{place}' \
         OPTIONS ('tiledb.system_columns' 'true', 'tiledb.timestamp' '3000')"
    );
    answer(&ctx, &table).await?;
    let of = |time: &str| format!("SELECT count(*), max(a) / 10000 FROM t TIMESTAMP AS OF {time}");
    for time in [
        "2999",
        "'2999'",
        "1000 + 1999",
        "TIMESTAMP '1970-01-01 00:00:02.999'",
        "to_timestamp_millis(2999)",
        "'1970-01-01T01:00:02.999+01:00'",
    ] {
        expect(&ctx, &of(time), &["[352,2]"]).await?;
    }
    expect(&ctx, &of("DATE '1970-01-01'"), &["[0,null]"]).await?;
    expect(&ctx, &of("now() - INTERVAL '1' SECOND"), &["[466,3]"]).await?;
    // The other options of the table stay, and so does its own time outside the clause.
    let sql = "SELECT count(DISTINCT x.__fragment), count(DISTINCT y.__fragment) \
               FROM t VERSION AS OF 1999 x FULL JOIN t y ON x.a = y.a";
    expect(&ctx, sql, &["[1,3]"]).await?;
    let sql = format!("SELECT count(*) FROM '{place}?timestamp_start=1500' VERSION AS OF 2000");
    expect(&ctx, &sql, &["[200]"]).await?;
    // The columns are those of the time.
    let place = array("evolved_sparse");
    let sql = format!("SELECT * FROM '{place}' VERSION AS OF 1000 LIMIT 0");
    let old = ctx.sql(&sql).await?;
    let names = old.schema().fields().iter().map(|f| f.name().as_str());
    if names.collect::<Vec<_>>() == ["d", "a", "gone"] {
        Ok(())
    } else {
        Err(format!("{:?}", old.schema()).into())
    }
}

trial!(refused);
async fn refused() -> Outcome {
    let place = array("sparse_overwrite");
    let ctx = USUAL.context()?;
    speaking(&ctx, "databricks").await?;
    answer(&ctx, "CREATE TABLE m AS SELECT 1 AS a").await?;
    answer(&ctx, &format!("CREATE VIEW v AS SELECT * FROM '{place}'")).await?;
    let only = "only a table of an array has times";
    expect_error(&ctx, "SELECT * FROM m VERSION AS OF 1000", only).await?;
    expect_error(&ctx, "SELECT * FROM v VERSION AS OF 1000", only).await?;
    let sql = format!("WITH c AS (SELECT a FROM '{place}') SELECT * FROM c VERSION AS OF 1000");
    expect_error(&ctx, &sql, only).await?;
    let of = |time: &str| format!("SELECT * FROM '{place}' TIMESTAMP AS OF {time}");
    expect_error(&ctx, &of("'yesterday'"), "which is not a time").await?;
    expect_error(&ctx, &of("NULL"), "the time is NULL").await?;
    expect_error(&ctx, &of("random()"), "the time is not constant").await?;
    expect_error(&ctx, &of("'1960-01-01'"), "before 1970").await?;
    let sql = format!("SELECT * FROM '{place}?timestamp_start=1500' VERSION AS OF 1000");
    expect_error(&ctx, &sql, "the window starts at 1500 ms").await
}
