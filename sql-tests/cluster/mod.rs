//! Queries over workers: the answers are those of one process.

mod answers;
mod clouds;
mod failures;
mod golden_arrays;
mod slt_on_workers;
mod vacuumed;

use datafusion::prelude::SessionContext;
use datafusion_tiledb::execute;
use libtest_mimic::Failed;

/// Runs statements in which `$P` stands for a place.
async fn run_statements(
    ctx: &SessionContext,
    statements: &[&str],
    place: &str,
) -> Result<(), Failed> {
    for sql in statements {
        let sql = sql.replace("$P", place);
        execute(ctx, &sql).await?.collect().await?;
    }
    Ok(())
}
