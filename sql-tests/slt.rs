//! The `.slt` files: SQL with the answers it must give, one test a file.
//!
//! `$ARRAYS` in a file is the folder of the golden arrays, `$SCRATCH` an empty folder of the file's own. Errors in
//! expectations are regular expressions. `UPDATE_SLT=1` writes the answers found into the files, to be reviewed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::DataFusionError;
use datafusion::prelude::{SessionConfig, SessionContext};
use libtest_mimic::{Failed, Trial};
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType, Runner};

use crate::{block_on, golden, here, trial};

pub fn trials() -> Vec<Trial> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(here())
        .expect("the folder is there")
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "slt"))
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|file| {
            let topic = file
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            trial(format!("slt::{topic}"), move || block_on(run(&file)))
        })
        .collect()
}

async fn run(file: &Path) -> Result<(), Failed> {
    let scratch = tempfile::tempdir()?;
    let mut runner = Runner::new(|| {
        let scratch = scratch.path().to_owned();
        async move { Session::new(scratch) }
    });
    runner.with_column_validator(sqllogictest::strict_column_validator);
    if std::env::var_os("UPDATE_SLT").is_some() {
        let normalize = sqllogictest::default_normalizer;
        runner
            .update_test_file(
                file,
                "\t",
                sqllogictest::default_validator,
                normalize,
                sqllogictest::strict_column_validator,
            )
            .await
            .map_err(|e| e.to_string())?;
        return Ok(());
    }
    runner
        .run_file_async(file)
        .await
        .map_err(|e| Failed::from(e.display(false).to_string()))
}

struct Session {
    ctx: SessionContext,
    scratch: PathBuf,
}

impl Session {
    fn new(scratch: PathBuf) -> Result<Self, DataFusionError> {
        let config = SessionConfig::new()
            .with_information_schema(true)
            .with_target_partitions(2)
            .set_str("datafusion.explain.physical_plan_only", "true")
            .set_str("datafusion.explain.format", "indent");
        let ctx = SessionContext::new_with_config(config).enable_url_table();
        datafusion_tiledb::register(&ctx).map_err(|e| DataFusionError::External(Box::new(e)))?;
        Ok(Self { ctx, scratch })
    }

    fn places(&self) -> [(String, &'static str); 2] {
        [
            (golden::folder().display().to_string(), "$ARRAYS"),
            (self.scratch.display().to_string(), "$SCRATCH"),
        ]
    }

    async fn query(&self, sql: &str) -> Result<(SchemaRef, Vec<RecordBatch>), DataFusionError> {
        let frame = self.ctx.sql(sql).await?;
        let schema = Arc::clone(frame.schema().inner());
        Ok((schema, frame.collect().await?))
    }

    /// Rows of text; folders of this machine and measured values are replaced.
    fn text(&self, batches: &[RecordBatch]) -> Result<Vec<Vec<String>>, DataFusionError> {
        let options = FormatOptions::default().with_null("NULL");
        let mut rows = Vec::new();
        for batch in batches {
            let columns = batch
                .columns()
                .iter()
                .map(|c| ArrayFormatter::try_new(c.as_ref(), &options))
                .collect::<Result<Vec<_>, _>>()?;
            for row in 0..batch.num_rows() {
                let cells = columns
                    .iter()
                    .zip(batch.columns())
                    .map(|(formatter, column)| {
                        let text = formatter.value(row).to_string();
                        if text.is_empty() && column.is_valid(row) {
                            "(empty)".to_owned()
                        } else {
                            text
                        }
                    });
                rows.push(cells.collect::<Vec<_>>());
            }
        }
        let places = self.places();
        let is_plan = rows.first().is_some_and(|r| {
            r.first()
                .is_some_and(|c| c.ends_with("_plan") || c.starts_with("Plan with"))
        });
        let rows = rows.into_iter().flat_map(|row| {
            let row: Vec<String> = row
                .into_iter()
                .map(|cell| {
                    places
                        .iter()
                        .fold(cell, |text, (place, name)| text.replace(place, name))
                })
                .collect();
            if !is_plan {
                return vec![row];
            }
            // A plan is one cell of many lines; each becomes a row, its indent kept visible.
            let plan = row.last().cloned().unwrap_or_default();
            plan.lines()
                .map(|line| {
                    let depth = line.len() - line.trim_start().len();
                    vec![format!("{}{}", "-".repeat(depth), line.trim_start())]
                })
                .collect()
        });
        Ok(rows.collect())
    }
}

#[async_trait]
impl AsyncDB for Session {
    type Error = DataFusionError;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, DataFusionError> {
        let sql = self
            .places()
            .iter()
            .fold(sql.to_owned(), |sql, (place, name)| {
                sql.replace(name, place)
            });
        let (schema, batches) = self.query(&sql).await?;
        if schema.fields().is_empty() && batches.iter().all(|b| b.num_rows() == 0) {
            return Ok(DBOutput::StatementComplete(0));
        }
        let rows = self.text(&batches)?;
        let types = if rows.iter().all(|r| r.len() == schema.fields().len()) {
            schema
                .fields()
                .iter()
                .map(|f| column_type(f.data_type()))
                .collect()
        } else {
            vec![DefaultColumnType::Text]
        };
        Ok(DBOutput::Rows { types, rows })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "datafusion-tiledb"
    }
}

fn column_type(data_type: &DataType) -> DefaultColumnType {
    match data_type {
        t if t.is_integer() => DefaultColumnType::Integer,
        t if t.is_floating() => DefaultColumnType::FloatingPoint,
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => DefaultColumnType::Text,
        _ => DefaultColumnType::Any,
    }
}
