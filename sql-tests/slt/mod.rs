//! The `.slt` files: SQL with the answers it must give, one test a file.
//!
//! `$ARRAYS` in a file is the folder of the golden arrays, `$GROUPS` that of the golden groups, `$LARGE` that of arrays with large
//! tiles, `$FUZZ` that of the arrays of `fuzz`, `$SCRATCH` an empty folder of the file's own. Errors in
//! expectations are regular expressions over the message. A plan is shown line by line, its indent as dashes; what
//! differs from run to run or from machine to machine (times, bytes, requests) is shown as `<some>`, or 0 where it is 0.
//! Control characters in answers are shown escaped. `UPDATE_SLT=1` writes the answers found into the files, to be
//! reviewed. With `SLT_STORE`, the arrays are in an object store ([`places`]).

pub mod places;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::DataFusionError;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use datafusion_tiledb::session::in_one_statement;
use libtest_mimic::Failed;
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType, MakeConnection, Runner};

use self::places::SltPlaces;
use crate::sessions::serialized_scans::opened_anew;
use crate::support::allocations;
use crate::support::session_shapes::{self, Shape};
use crate::support::trials::SqlTrial;
use crate::{block_on, repository, trial};

trials!(usual_sessions());

fn usual_sessions() -> Vec<SqlTrial> {
    let files = files().into_iter();
    let trials = files.map(|file| trial(topic(&file), move || block_on(run(&file))));
    trials.collect()
}

/// The files, in order.
pub fn files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(repository().join("sql-tests/slt"))
        .expect("the folder is there")
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "slt"))
        .collect();
    files.sort();
    files
}

/// What a file is about: its name.
pub fn topic(file: &Path) -> String {
    let topic = file.file_stem().unwrap_or_default();
    topic.to_string_lossy().into_owned()
}

async fn run(file: &Path) -> Result<(), Failed> {
    let opening = std::fs::read_to_string(file)?;
    if !opening.starts_with("# ") {
        return Err("the file must open with a comment that says what is wrong if it fails".into());
    }
    let places = Arc::new(SltPlaces::of_environment(&topic(file)).await?);
    let mut runner = runner_in(&places, session_shapes::USUAL);
    if std::env::var_os("UPDATE_SLT").is_some() && !places.are_remote() {
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

/// Runs files in sessions of a shape.
pub fn runner_in(
    places: &Arc<SltPlaces>,
    shape: Shape,
) -> Runner<Session, impl MakeConnection<Conn = Session>> {
    let connected = Arc::clone(places);
    let mut runner = Runner::new(move || {
        let places = Arc::clone(&connected);
        async move { Session::new(shape, places) }
    });
    runner.with_column_validator(sqllogictest::strict_column_validator);
    for label in places.labels() {
        runner.add_label(label);
    }
    runner
}

/// The message of an error, without folders of this machine.
#[derive(Debug)]
pub struct SqlError(String);

impl std::fmt::Display for SqlError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SqlError {}

pub struct Session {
    ctx: SessionContext,
    anew: bool,
    places: Arc<SltPlaces>,
}

impl Session {
    pub fn new(shape: Shape, places: Arc<SltPlaces>) -> Result<Self, SqlError> {
        let ctx = places.session(&shape);
        let ctx = ctx.map_err(|e| SqlError(e.to_string()))?;
        let anew = shape.anew;
        Ok(Self { ctx, anew, places })
    }

    async fn query(&self, sql: &str) -> Result<(SchemaRef, Vec<RecordBatch>), DataFusionError> {
        let frame = datafusion_tiledb::execute(&self.ctx, sql).await?;
        let schema = Arc::clone(frame.schema().inner());
        if !self.anew {
            return Ok((schema, frame.collect().await?));
        }
        let task = Arc::new(frame.task_ctx());
        let plan = frame.create_physical_plan().await?;
        let plan = opened_anew(plan, Arc::clone(&task)).await?;
        Ok((schema, collect(plan, task).await?))
    }

    /// Rows of text.
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
                            self.places.neutral(text)
                        }
                    });
                rows.push(cells.collect::<Vec<_>>());
            }
        }
        let is_plan = |row: &[String]| {
            row.first()
                .is_some_and(|c| c.ends_with("_plan") || c.starts_with("Plan with"))
        };
        if rows.first().is_some_and(|row| is_plan(row)) {
            let plans = rows.iter().filter_map(|row| row.last());
            return Ok(plans
                .flat_map(|p| p.lines())
                .map(|l| vec![plan_line(l)])
                .collect());
        }
        for cell in rows.iter_mut().flatten() {
            if cell.contains(char::is_control) {
                *cell = cell.chars().map(visible).collect();
            }
        }
        Ok(rows)
    }
}

/// A control character escaped, others as they are.
fn visible(c: char) -> String {
    if c.is_control() {
        c.escape_default().to_string()
    } else {
        c.to_string()
    }
}

/// A line of a plan: its indent made visible, measurements hidden.
fn plan_line(line: &str) -> String {
    let text = line.trim_start();
    let indent = "-".repeat(line.len() - text.len());
    let Some((operator, metrics)) = text
        .strip_suffix(']')
        .and_then(|t| t.split_once(", metrics=["))
    else {
        return format!("{indent}{text}");
    };
    let metrics = metrics.split(", ").map(measurement).collect::<Vec<_>>();
    format!("{indent}{operator}, metrics=[{}]", metrics.join(", "))
}

/// Metrics that differ from run to run or from machine to machine.
const MEASURED: [&str; 10] = [
    "elapsed_compute",
    "_time",
    "timestamp",
    "bytes",
    "bytes_fetched",
    "bytes_decoded",
    "bytes_written",
    "requests",
    "_batches",
    "mem_used",
];

/// `name=value`, the value hidden where it is measured.
fn measurement(metric: &str) -> String {
    match metric.split_once('=') {
        Some((name, value))
            if MEASURED.iter().any(|m| name.ends_with(m))
                && !value.trim_start_matches(['0', '.']).is_empty() =>
        {
            format!("{name}=<some>")
        }
        _ => metric.to_owned(),
    }
}

#[async_trait]
impl AsyncDB for Session {
    type Error = SqlError;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, SqlError> {
        let sql = self.places.filled_in(sql);
        let failed = |e: DataFusionError| {
            let message = self.places.neutral(e.strip_backtrace());
            let lines: Vec<String> = message
                .lines()
                .map(|line| line.chars().map(visible).collect())
                .collect();
            SqlError(lines.join("\n"))
        };
        allocations::begin(&sql);
        let answer = if self.places.are_remote() {
            in_one_statement(self.query(&sql)).await
        } else {
            self.query(&sql).await
        };
        allocations::end();
        let (schema, batches) = answer.map_err(failed)?;
        if schema.fields().is_empty() && batches.iter().all(|b| b.num_rows() == 0) {
            return Ok(DBOutput::StatementComplete(0));
        }
        let rows = self.text(&batches).map_err(failed)?;
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
        DataType::Dictionary(_, value) => column_type(value),
        _ => DefaultColumnType::Any,
    }
}
