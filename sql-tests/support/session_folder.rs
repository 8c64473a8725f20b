//! A session with a folder of its own.

use std::path::PathBuf;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;
use datafusion_tiledb::execute;
use libtest_mimic::Failed;

use crate::support::session_shapes;

/// A session, and a folder for its arrays.
pub struct SessionFolder {
    pub ctx: SessionContext,
    pub folder: tempfile::TempDir,
}

impl SessionFolder {
    pub fn open() -> Result<Self, Failed> {
        Ok(Self {
            ctx: session_shapes::USUAL.context()?,
            folder: tempfile::tempdir()?,
        })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a statement as the shell does.
    pub async fn run(&self, sql: &str) -> Result<Vec<RecordBatch>, String> {
        let sql = sql.replace("$DESK", &self.folder.path().display().to_string());
        let run = async { execute(&self.ctx, &sql).await?.collect().await };
        let ran: datafusion::error::Result<_> = run.await;
        ran.map_err(|e| format!("{e}\nin {sql}"))
    }

    pub async fn shown(&self, sql: &str) -> Result<String, String> {
        let batches = self.run(sql).await?;
        let shown = pretty_format_batches(&batches).map_err(|e| e.to_string())?;
        Ok(shown.to_string())
    }

    /// The single number that a query returns.
    pub async fn number(&self, sql: &str) -> Result<i64, String> {
        let batches = self.run(&format!("SELECT ({sql})::BIGINT")).await?;
        Ok(batches[0].column(0).as_primitive::<Int64Type>().value(0))
    }

    /// Runs a statement that must fail with an error that contains these words.
    pub async fn refused(&self, sql: &str, words: &[&str]) -> Result<(), String> {
        let Err(error) = self.run(sql).await else {
            return Err(format!("{sql}: nothing was refused"));
        };
        let message = error.split("\nin ").next().unwrap_or_default();
        if words.iter().all(|word| message.contains(word)) {
            Ok(())
        } else {
            Err(format!("{words:?} are not in: {error}"))
        }
    }
}
