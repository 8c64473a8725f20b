//! The door for statements: every statement that this crate supports, from its text to its rows.
//!
//! DataFusion's own `SessionContext::sql` plans most statements on arrays. It refuses ATTACH, DETACH and ALTER TABLE, and needs help
//! with some others ([`plan_statement`]).

use std::sync::Arc;

use datafusion::common::{DFSchema, Result};
use datafusion::dataframe::DataFrame;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{EmptyRelation, LogicalPlan};
use datafusion::prelude::SessionContext;

use crate::catalog::GroupStatement;
use crate::error::to_datafusion_error;
use crate::evolve::alter::AlterTable;
use crate::options::secrets::StatementSecrets;
use crate::session::plan::{plan_statement, with_home_expanded};

/// Executes a statement in a session with [`register`](crate::register). It takes everything that `SessionContext::sql` takes,
/// and `ATTACH` and `DETACH` of groups, `ALTER TABLE` of arrays, DEFAULT as a value, and quoted names in `COPY … PARTITIONED
/// BY`. See [`plan_statement`] for what else it plans better.
///
/// CREATE, DROP, SET, ATTACH, DETACH and ALTER TABLE run at once and return an empty DataFrame. Queries run when you collect their
/// DataFrame. So do statements that change rows, which return the number of changed rows.
///
/// ```
/// use datafusion::prelude::SessionContext;
/// use datafusion_tiledb::execute;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("readings").display().to_string();
/// let ctx = SessionContext::new();
/// datafusion_tiledb::register(&ctx)?;
/// let create = format!(
///     "CREATE EXTERNAL TABLE readings (id BIGINT NOT NULL, PRIMARY KEY (id)) STORED AS TILEDB LOCATION '{path}'"
/// );
/// execute(&ctx, &create).await?;
/// execute(&ctx, "ALTER TABLE readings ADD COLUMN note VARCHAR DEFAULT 'none'").await?;
/// execute(&ctx, "INSERT INTO readings VALUES (1, DEFAULT), (2, 'new')").await?.collect().await?;
/// assert_eq!(execute(&ctx, "SELECT * FROM readings WHERE note = 'none'").await?.count().await?, 1);
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
///
/// # Errors
///
/// Fails if the text isn't a single statement, or if the statement fails. ATTACH with options of an object store fails, too:
/// register the store with `SessionContext::register_object_store` instead.
pub async fn execute(ctx: &SessionContext, sql: &str) -> Result<DataFrame> {
    if let Some(statement) = GroupStatement::parse(sql).map_err(to_datafusion_error)? {
        Box::pin(statement.run(ctx))
            .await
            .map_err(to_datafusion_error)?;
        return Ok(without_rows(ctx));
    }
    if let Some(statement) = AlterTable::parse(ctx, sql).map_err(to_datafusion_error)?
        && Box::pin(statement.run(ctx))
            .await
            .map_err(to_datafusion_error)?
    {
        return Ok(without_rows(ctx));
    }
    let state = ctx.state();
    let dialect = state.config_options().sql_parser.dialect;
    let statement = state.sql_to_statement(sql, &dialect);
    let statement = statement.map_err(|error| without_secrets(error, sql))?;
    let plan = Box::pin(plan_statement(&state, statement)).await?;
    drop(state);
    Box::pin(ctx.execute_logical_plan(with_home_expanded(plan))).await
}

fn without_rows(ctx: &SessionContext) -> DataFrame {
    let nothing = EmptyRelation {
        produce_one_row: false,
        schema: Arc::new(DFSchema::empty()),
    };
    DataFrame::new(ctx.state(), LogicalPlan::EmptyRelation(nothing))
}

/// The parser quotes the text where it gives up, which may be part of a secret.
fn without_secrets(error: DataFusionError, sql: &str) -> DataFusionError {
    let shown = error.to_string();
    let masked = StatementSecrets::of(sql).masked(&shown);
    match masked == shown {
        true => error,
        false => DataFusionError::Plan(masked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session, and a folder for new arrays.
    fn session() -> (SessionContext, tempfile::TempDir) {
        let ctx = SessionContext::new();
        crate::register(&ctx).unwrap();
        (ctx, tempfile::tempdir().unwrap())
    }

    async fn rows(ctx: &SessionContext, sql: &str) -> Result<usize> {
        let frame = execute(ctx, sql).await?;
        let batches = frame.collect().await?;
        Ok(batches.iter().map(|batch| batch.num_rows()).sum())
    }

    #[tokio::test]
    async fn statements_of_all_kinds_go_through_one_door() {
        let (ctx, folder) = session();
        let array = folder.path().join("a b").display().to_string();
        let files = folder.path().join("files").display().to_string();
        let run = async |sql: &str, expected: usize| {
            let sql = sql.replace("$A", &array).replace("$F", &files);
            let found = rows(&ctx, &sql).await;
            assert_eq!(
                found.unwrap_or_else(|e| panic!("{sql}: {e}")),
                expected,
                "{sql}"
            );
        };
        run("CREATE EXTERNAL TABLE t (x INT, v INT DEFAULT 7, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '$A'", 0).await;
        run("INSERT INTO t VALUES (1, DEFAULT), (2, 5)", 1).await;
        run(
            "ALTER TABLE t ADD COLUMN \"a note\" VARCHAR DEFAULT 'none'",
            0,
        )
        .await;
        run("SELECT * FROM t WHERE v = 7 AND \"a note\" = 'none'", 1).await;
        run("UPDATE t SET v = DEFAULT WHERE x = 2", 1).await;
        run("SELECT * FROM '$A' WHERE v = 7", 2).await;
        run(
            "COPY (SELECT * FROM t) TO '$F/' STORED AS CSV PARTITIONED BY (\"a note\")",
            1,
        )
        .await;
        run("ATTACH './examples/data/experiment' AS exp", 0).await;
        run("SELECT 1 FROM exp.obs LIMIT 1", 1).await;
        run("DETACH exp", 0).await;
        run("DROP TABLE t", 0).await;
        run("SET datafusion.execution.batch_size = 10", 0).await;
    }

    #[tokio::test]
    async fn errors_show_no_secret_and_no_option_is_dropped() {
        let (ctx, _folder) = session();
        let cut = "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION 'x' OPTIONS ('tiledb.encryption_key' 0123abcd4567)";
        let error = execute(&ctx, cut).await.unwrap_err().to_string();
        assert!(!error.contains("abcd4567"), "{error}");
        let attach = "ATTACH 's3://bucket/group' AS e ('aws.region' 'eu-west-1', 'aws.secret_access_key' 'hush')";
        let error = execute(&ctx, attach).await.unwrap_err().to_string();
        assert!(
            error.contains("aws.region") && error.contains("register_object_store"),
            "{error}"
        );
        assert!(!error.contains("hush"), "{error}");
        assert!(execute(&ctx, "SELECT 1; SELECT 2").await.is_err());
        assert!(execute(&ctx, "").await.is_err());
    }
}
