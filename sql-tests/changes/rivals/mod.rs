//! Many writers of one array at once, and writers that are killed: nothing is lost, nothing is there twice, and every reader
//! finds a state that existed.
//!
//! `RIVALS=<seconds>` lets [`laws`] run longer, and `RIVALS_KILLED=<n>` kills so many processes.

mod killed;
mod laws;
mod meetings;

use std::path::Path;

use datafusion::arrow::array::RecordBatch;
use datafusion::error::DataFusionError;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::register;
use libtest_mimic::Failed;

use crate::support::neutral_rows;

const WRITERS: i64 = 8;
/// Rows of a batch.
const BATCH: i64 = 5;

/// An array, and how its rows may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sparse,
    Duplicates,
    Dense,
}

impl Kind {
    fn create(self, array: &Path) -> String {
        let options = match self {
            Self::Sparse => "'tiledb.capacity' '16'",
            Self::Duplicates => "'tiledb.capacity' '16', 'tiledb.allows_duplicates' 'true'",
            Self::Dense => {
                "'tiledb.array_type' 'dense', 'tiledb.dim.x.domain' '[0, 999]', 'tiledb.dim.x.tile' '20'"
            }
        };
        format!(
            "CREATE EXTERNAL TABLE t (x BIGINT NOT NULL, w BIGINT NOT NULL, s BIGINT NOT NULL, v BIGINT NOT NULL, \
             PRIMARY KEY (x)) STORED AS TILEDB LOCATION '{}' OPTIONS ({options})",
            array.display()
        )
    }

    /// Where the rows of a writer's batch lie. The cells of the writers of a dense array lie among each other, and each batch
    /// takes the place of the one before.
    fn cell(self, writer: i64, batch: i64, row: i64) -> i64 {
        match self {
            Self::Sparse => 1_000_000 * (writer + 1) + batch * BATCH + row,
            // Rows of all writers have the same coordinates.
            Self::Duplicates => 1000 + row,
            Self::Dense => 100 + row * WRITERS + writer,
        }
    }
}

fn session() -> Result<SessionContext, Failed> {
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    register(&ctx)?;
    Ok(ctx)
}

async fn open(array: &Path) -> Result<SessionContext, Failed> {
    let ctx = session()?;
    let table = format!(
        "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{}'",
        array.display()
    );
    ctx.sql(&table).await?.collect().await?;
    Ok(ctx)
}

async fn run(ctx: &SessionContext, sql: &str) -> Result<Vec<RecordBatch>, DataFusionError> {
    ctx.sql(sql).await?.collect().await
}

/// The rows of a query, as text.
async fn rows(ctx: &SessionContext, sql: &str) -> Result<Vec<String>, Failed> {
    let rows = neutral_rows::rows(&run(ctx, sql).await?);
    let rows = rows
        .iter()
        .map(|row| row.trim_matches(['[', ']']).to_owned());
    Ok(rows.collect())
}

/// The auditor finds nothing but what consolidation has left, or nothing at all.
async fn nothing_wrong(ctx: &SessionContext, array: &Path, at_all: bool) -> Result<(), Failed> {
    let only = if at_all {
        ""
    } else {
        "WHERE severity <> 'leftover'"
    };
    let findings = format!("SELECT * FROM tiledb_check('{}') {only}", array.display());
    let findings = rows(ctx, &findings).await?;
    if findings.is_empty() {
        Ok(())
    } else {
        Err(format!("{findings:?}").into())
    }
}
