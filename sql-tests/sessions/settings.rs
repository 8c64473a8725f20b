//! The settings of a session: each switches off what it says, and nothing else is lost.

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::Result;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::SessionContext;
use datafusion_tiledb::optimizer::physical_optimizer_rules;
use datafusion_tiledb::options::settings::TileDbSettings;
use libtest_mimic::Failed;

use crate::support::golden;
use crate::{block_on, trial};

/// Settings, a statement over `$ARRAYS` that they concern, and what is in its plan unless they are off.
const CONCERNED: [(&str, &str, &str); 8] = [
    (
        "enable_metadata_aggregates",
        "SELECT sum(height) FROM '$ARRAYS/elevation'",
        "TileDbAggregateExec",
    ),
    (
        "enable_enumerated_groups",
        "SELECT e_int8, count(*) AS n FROM '$ARRAYS/enum_strings' GROUP BY e_int8",
        "codes(e_int8",
    ),
    (
        "enable_first_cells",
        "SELECT y, x, height FROM '$ARRAYS/elevation' WHERE x > 3 ORDER BY y DESC, x LIMIT 3",
        "subarray=y in [63]",
    ),
    (
        "enable_range_partitions",
        "SELECT y, max(height) FROM '$ARRAYS/elevation' GROUP BY y",
        "ranges_of=y",
    ),
    (
        "enable_ordered_scans",
        "SELECT y, x, height FROM '$ARRAYS/elevation' ORDER BY y, x",
        "ordered_by=[y ASC, x ASC]",
    ),
    (
        "enable_best_tiles_first",
        "SELECT height FROM '$ARRAYS/elevation' ORDER BY height DESC LIMIT 3",
        "best_first=",
    ),
    (
        "enable_run_groups",
        "SELECT y, max(height) FROM '$ARRAYS/elevation' GROUP BY y",
        "TileDbGroupsExec",
    ),
    (
        "enable_elements_in_place",
        "SELECT d, p[1] AS a FROM '$ARRAYS/sparse_nullable'",
        "tiledb_element(",
    ),
];

trials!(CONCERNED.map(|(setting, sql, sign)| {
    trial(setting, move || block_on(switches_off(setting, sql, sign)))
}));

fn session() -> Result<SessionContext, Failed> {
    let ctx = SessionContext::new().enable_url_table();
    datafusion_tiledb::register(&ctx)?;
    Ok(ctx)
}

async fn text(ctx: &SessionContext, sql: &str) -> Result<String, Failed> {
    let batches = ctx.sql(sql).await?.collect().await?;
    Ok(pretty_format_batches(&batches)?.to_string())
}

async fn switches_off(setting: &str, sql: &str, sign: &str) -> Result<(), Failed> {
    let sql = sql.replace("$ARRAYS", &golden::folder().display().to_string());
    let explain = format!("EXPLAIN FORMAT INDENT {sql}");
    let ctx = session()?;
    let (plan, rows) = (text(&ctx, &explain).await?, text(&ctx, &sql).await?);
    text(&ctx, &format!("SET tiledb.{setting} = false")).await?;
    let (without, same) = (text(&ctx, &explain).await?, text(&ctx, &sql).await?);
    if !plan.contains(sign) || without.contains(sign) {
        return Err(format!("'{sign}' belongs into the first of\n{plan}\n{without}").into());
    }
    let sorted = |rows: &str| {
        let mut lines = rows.lines().map(str::to_owned).collect::<Vec<_>>();
        lines.sort();
        lines
    };
    if sorted(&rows) == sorted(&same) {
        Ok(())
    } else {
        Err(format!("different answers:\n{rows}\n{same}").into())
    }
}

trial!(are_listed);
async fn are_listed() -> Result<(), Failed> {
    let ctx = session()?;
    ctx.sql("SET datafusion.catalog.information_schema = true")
        .await?
        .collect()
        .await?;
    let all = text(&ctx, "SHOW ALL").await?;
    for name in TileDbSettings::NAMES {
        if !all.contains(&format!("| tiledb.{name} ")) {
            return Err(format!("SHOW ALL lacks tiledb.{name}").into());
        }
    }
    let unknown = ctx.sql("SET tiledb.enable_magic = true").await;
    let message = unknown.err().map(|e| e.to_string()).unwrap_or_default();
    if message.contains("there is no setting 'tiledb.enable_magic'") {
        Ok(())
    } else {
        Err(format!("another error: {message}").into())
    }
}

trial!(a_missing_anchor);
fn a_missing_anchor() -> Result<(), Failed> {
    let rules = PhysicalOptimizer::new()
        .rules
        .into_iter()
        .filter(|rule| rule.name() != "SanityCheckPlan");
    let message = physical_optimizer_rules(rules.collect())
        .err()
        .map(|e| e.to_string())
        .unwrap_or_default();
    if message.contains("SanityCheckPlan") {
        Ok(())
    } else {
        Err(format!("another error: {message}").into())
    }
}

trial!(other_tables_are_left_alone);
/// Elements of lists of fixed length are read without copying the lists in arrays, and in nothing else.
async fn other_tables_are_left_alone() -> Result<(), Failed> {
    let ctx = session()?;
    let lists =
        "CREATE TABLE m AS SELECT arrow_cast(make_array(1, 2, 3), 'FixedSizeList(3, Int64)') AS p";
    text(&ctx, lists).await?;
    let plan = text(&ctx, "EXPLAIN FORMAT INDENT SELECT p[1] AS a FROM m").await?;
    if plan.contains("tiledb_element") {
        Err(format!("a rule for arrays changed\n{plan}").into())
    } else {
        Ok(())
    }
}
