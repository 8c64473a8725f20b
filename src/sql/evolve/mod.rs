//! Statements and functions that change what an array or a group is made of, and no cells.
//!
//! | Statement or function | |
//! |---|---|
//! | [`ALTER TABLE`](alter) | adds and drops columns, sets the current domain |
//! | [`tiledb_evolve`](functions) | the same, for locations and with all options |
//! | [`tiledb_extend_enumeration`](functions) | adds values to the enumeration of a column |
//! | [`tiledb_set_metadata`, `tiledb_delete_metadata`](metadata) | the key-value metadata of an array or a group |
//! | [`tiledb_create_group`, `tiledb_add_member`, `tiledb_remove_member`](groups) | groups |
//!
//! The functions change something when the statement that calls them runs, and exactly once; see `once`. Each gives one row:
//!
//! | Column | |
//! |---|---|
//! | `uri` | the array or the group |
//! | `changes` | what was changed; empty if it was as wanted |
//! | `file` | the file that makes the change visible; NULL if nothing was written |

pub mod alter;
pub mod functions;
pub mod groups;
pub mod metadata;
mod once;

use datafusion::catalog::TableFunction;
use datafusion::prelude::SessionContext;

use self::alter::AlterTable;
use crate::error::Result;
use crate::sql::catalog::GroupStatement;

/// All functions that change something, with their names.
pub(super) fn all() -> [TableFunction; 7] {
    [
        once::function::<functions::Evolve>(),
        once::function::<functions::ExtendEnumeration>(),
        once::function::<metadata::SetMetadata>(),
        once::function::<metadata::DeleteMetadata>(),
        once::function::<groups::CreateGroup>(),
        once::function::<groups::AddMember>(),
        once::function::<groups::RemoveMember>(),
    ]
}

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
