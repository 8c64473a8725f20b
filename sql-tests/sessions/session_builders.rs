//! Sessions that were equipped with arrays before they were built plan and answer as those that were taught them later.

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::{TileDbTableFactory, equip, register};
use libtest_mimic::Failed;

use crate::support::{golden, neutral_rows};

/// One of each kind; `$` stands for the folder of arrays.
const STATEMENTS: [&str; 9] = [
    "SELECT count(*), min(temperature) FROM weather",
    "SELECT * FROM '$/quickstart_dense?timestamp=2000000000000' WHERE rows > 2",
    "SELECT name, role, type FROM tiledb_schema('$/weather_stations')",
    "SELECT count(*) FROM tiledb_scan('$/versions_square', 'tiledb.timestamp', '1999')",
    // A guard keeps NULL from being taken for false.
    "SELECT station FROM weather WHERE NOT (temperature IN (SELECT CASE WHEN temperature > 0 THEN temperature END \
     FROM weather)) OR wind < 1",
    "SELECT station, time, temperature FROM weather ORDER BY station, time LIMIT 5",
    "SELECT station, count(*), avg(temperature) FROM weather GROUP BY station",
    "SELECT d, int16[1] FROM '$/types_integers_multi_sparse'",
    "SHOW tiledb.enable_run_groups",
];

fn config() -> SessionConfig {
    SessionConfig::new()
        .with_target_partitions(3)
        .with_information_schema(true)
}

async fn prepared(ctx: SessionContext) -> Result<SessionContext, Failed> {
    let folder = golden::folder().display().to_string();
    let table = format!(
        "CREATE EXTERNAL TABLE weather STORED AS TILEDB LOCATION '{folder}/weather_stations' \
         OPTIONS ('tiledb.timestamp' '2024-05-01')"
    );
    ctx.sql(&table).await?;
    Ok(ctx)
}

async fn answers(ctx: &SessionContext, sql: &str) -> Result<Vec<String>, Failed> {
    let sql = sql.replace('$', &golden::folder().display().to_string());
    Ok(neutral_rows::rows(&ctx.sql(&sql).await?.collect().await?))
}

trial!(statements);
async fn statements() -> Result<(), Failed> {
    let builder = SessionStateBuilder::new_with_default_features().with_config(config());
    let equipped = SessionContext::new_with_state(equip(equip(builder)?)?.build());
    let taught = SessionContext::new_with_config(config());
    register(&taught)?;
    let (equipped, taught) = (prepared(equipped).await?, prepared(taught).await?);
    for sql in STATEMENTS {
        let wanted = answers(&taught, sql)
            .await
            .map_err(|e| format!("{sql}: {e:?}"))?;
        assert!(!wanted.is_empty(), "{sql}");
        assert_eq!(answers(&equipped, sql).await?, wanted, "{sql}");
        let explain = format!("EXPLAIN {sql}");
        if !sql.starts_with("SHOW") {
            let plans = answers(&taught, &explain).await?;
            assert_eq!(answers(&equipped, &explain).await?, plans, "{sql}");
        }
    }
    Ok(())
}

trial!(registered_besides);
/// Teaching an equipped session adds nothing and forgets nothing.
async fn registered_besides() -> Result<(), Failed> {
    let builder = SessionStateBuilder::new_with_default_features().with_config(config());
    let ctx = SessionContext::new_with_state(equip(builder)?.build());
    let ctx = prepared(ctx).await?;
    let rules = |ctx: &SessionContext| {
        let state = ctx.state();
        let physical = state
            .physical_optimizers()
            .iter()
            .map(|rule| rule.name().to_owned());
        let logical = state.optimizers().iter().map(|rule| rule.name().to_owned());
        let analyzer = state
            .analyzer()
            .rules
            .iter()
            .map(|rule| rule.name().to_owned());
        physical.chain(logical).chain(analyzer).collect::<Vec<_>>()
    };
    let before = (rules(&ctx), ctx.session_id());
    ctx.sql("PREPARE cold AS SELECT count(*) FROM weather WHERE temperature < $1")
        .await?;
    register(&ctx)?;
    assert_eq!((rules(&ctx), ctx.session_id()), before);
    assert_eq!(answers(&ctx, "EXECUTE cold(1000)").await?.len(), 1);
    answers(&ctx, STATEMENTS[1]).await?;
    Ok(())
}

trial!(by_hand);
/// The factory alone, under a name of the user's.
async fn by_hand() -> Result<(), Failed> {
    let state = SessionStateBuilder::new_with_default_features()
        .with_table_factory("ARRAY".to_owned(), Arc::new(TileDbTableFactory))
        .build();
    let ctx = SessionContext::new_with_state(state);
    let place = golden::folder().join("quickstart_dense");
    let sql = format!(
        "CREATE EXTERNAL TABLE t STORED AS ARRAY LOCATION '{}'",
        place.display()
    );
    ctx.sql(&sql).await?;
    assert_eq!(answers(&ctx, "SELECT count(*) FROM t").await?, ["[16]"]);
    Ok(())
}

trial!(missing_rules);
/// Rules of ours need some of DataFusion's to stand next to.
fn missing_rules() -> Result<(), Failed> {
    let rules = PhysicalOptimizer::new()
        .rules
        .into_iter()
        .filter(|rule| rule.name() != "EnsureRequirements");
    let builder = SessionStateBuilder::new_with_default_features()
        .with_physical_optimizer_rules(rules.collect());
    match equip(builder) {
        Ok(_) => Err("a session without EnsureRequirements was equipped".into()),
        Err(e) if e.to_string().contains("EnsureRequirements") => Ok(()),
        Err(e) => Err(e.into()),
    }
}
