//! The statements that DataFusion's planner does not take, in one place.

use datafusion::prelude::SessionContext;

use super::alter::AlterTable;
use crate::error::Result;
use crate::sql::catalog::GroupStatement;

/// Runs `sql` if it is `ATTACH` or `DETACH` of a group, or `ALTER TABLE` of an array; returns whether it was. A program passes
/// every statement here first, and to [`SessionContext::sql`] if it was not.
///
/// ```
/// use datafusion::prelude::SessionContext;
/// use datafusion_tiledb::run_statement;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("readings").display().to_string();
/// let ctx = SessionContext::new();
/// datafusion_tiledb::register(&ctx)?;
/// let create = format!(
///     "CREATE EXTERNAL TABLE readings (id BIGINT NOT NULL, PRIMARY KEY (id)) STORED AS TILEDB LOCATION '{path}'"
/// );
/// ctx.sql(&create).await?.collect().await?;
/// assert!(run_statement(&ctx, "ALTER TABLE readings ADD COLUMN note VARCHAR DEFAULT 'none'").await?);
/// assert_eq!(ctx.table("readings").await?.schema().fields().len(), 2);
/// assert!(!run_statement(&ctx, "SELECT 1").await?);
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
///
/// # Errors
/// The statement fails.
pub async fn run_statement(ctx: &SessionContext, sql: &str) -> Result<bool> {
    if let Some(statement) = GroupStatement::parse(sql)? {
        statement.run(ctx).await?;
        return Ok(true);
    }
    match AlterTable::parse(ctx, sql)? {
        Some(statement) => statement.run(ctx).await,
        None => Ok(false),
    }
}
