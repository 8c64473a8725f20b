//! Runs a case on the arrays and on the same rows in plain DataFusion, and says who is right.
//!
//! What is expected is the answer of a session without anything of this project, over rows in memory, in one partition,
//! without run-time filters and with every sort done ([`session`](super::session)). Where the arrays' answer differs,
//! the same rows in memory are asked in a plain session of the shape in question: if they differ as well, the fault is
//! DataFusion's own. Parquet files are asked too, and what they say is told: that DataFusion's run-time filters are wrong
//! does not excuse a scan that takes them.

use std::fs::File;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use tempfile::TempDir;

use super::arrays::Loaded;
use super::ast::{Body, Distinct, Query, Statement};
use super::case::Case;
use super::compare::difference;
use super::determined::is_ordered;
use super::print;
use super::run::{Answer, Fault, Runner};
use super::session::Parts;

/// Rows of a batch of tables in memory, for sessions of a shape: few, so that every partition has some, and many.
const SCATTERED: [usize; 2] = [100, 100_000];

/// What is said of arrays that give no answer where the reference does.
pub const SLOW: &str = "no answer in time";

/// How often such a session is asked, for some mistakes show now and then.
const TRIES: usize = 6;

/// What came of a case.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The answers agree.
    Same,
    /// Neither has an answer.
    NeitherAnswers(String),
    /// The session's memory did not suffice.
    Memory,
    /// One of them met a value that an expression fails on, the other did not.
    Value(String),
    /// DataFusion itself answers differently in this shape.
    Upstream(String),
    /// The arrays give another answer.
    Wrong(String),
}

type Answers = Result<Vec<Answer>, Fault>;

/// Judges a case.
pub fn judge(case: &Case, runner: &mut Runner, parts: &Parts) -> Verdict {
    let expected = expected(case, runner, parts);
    let arrays = case
        .tables
        .iter()
        .map(|table| Arc::clone(&table.table))
        .collect();
    let mut found = in_shape(case, runner, parts, arrays, true, &[]);
    let doubtful = match &found {
        // A busy machine is slow once.
        Err(Fault::Slow) => expected.is_ok(),
        // A task of the statement before may have outlived it.
        Err(Fault::Panic(what)) => is_in_datafusion(what),
        _ => false,
    };
    if doubtful {
        let arrays = case
            .tables
            .iter()
            .map(|table| Arc::clone(&table.table))
            .collect();
        found = in_shape(case, runner, parts, arrays, true, &[]);
    }
    match compare(case, &expected, &found) {
        Verdict::Wrong(what) => match in_memory(case, runner, parts, &expected) {
            Some(same) => Verdict::Upstream(format!("{what}\n{same}")),
            None => Verdict::Wrong(what),
        },
        verdict => verdict,
    }
}

/// Whether all of the panics happened in code of DataFusion.
fn is_in_datafusion(panics: &str) -> bool {
    let mut locations = panics.lines().filter(|line| line.contains("panicked at"));
    locations.all(|line| line.contains("/datafusion-") && !line.contains("/datafusion-tiledb"))
}

fn expected(case: &Case, runner: &mut Runner, parts: &Parts) -> Answers {
    let memory = case.tables.iter().map(|table| table.memory()).collect();
    match parts.reference() {
        Ok(ctx) => runner.answers(ctx, memory, print::statement(&case.statement), false),
        Err(e) => Err(Fault::Error(e.to_string())),
    }
}

/// How plain DataFusion differs over Parquet files, which unlike memory take run-time filters, if it does. Whoever looks
/// for a way around it must know whose mistake it is.
pub fn in_parquet(case: &Case, runner: &mut Runner, parts: &Parts) -> Option<String> {
    let files = ParquetFiles::of(&case.tables)?;
    let settings = [
        ("datafusion.execution.parquet.pushdown_filters", "true"),
        ("datafusion.execution.collect_statistics", "false"),
    ];
    let expected = expected(case, runner, parts);
    let answers = in_shape(case, runner, parts, files.tables()?, false, &settings);
    match compare(case, &expected, &answers) {
        Verdict::Wrong(what) => Some(what),
        _ => None,
    }
}

fn in_shape(
    case: &Case,
    runner: &mut Runner,
    parts: &Parts,
    tables: Vec<Arc<dyn TableProvider>>,
    arrays: bool,
    settings: &[(&'static str, &'static str)],
) -> Answers {
    let mut shape = case.shape.clone();
    shape.settings.extend(settings);
    match shape.context(parts, arrays) {
        Ok(ctx) => runner.answers(ctx, tables, print::statement(&case.statement), shape.twice),
        Err(e) => Err(Fault::Error(e.to_string())),
    }
}

/// How plain DataFusion differs over rows in memory, if it does.
fn in_memory(
    case: &Case,
    runner: &mut Runner,
    parts: &Parts,
    expected: &Answers,
) -> Option<String> {
    let mut tries = SCATTERED
        .into_iter()
        .cycle()
        .take(SCATTERED.len() * TRIES)
        .enumerate();
    tries.find_map(|(number, batch)| {
        let tables = case.tables.iter();
        let (partitions, backwards) = (case.shape.partitions, number % 4 >= 2);
        let tables = tables.map(|table| table.scattered(partitions, batch, backwards));
        let answers = in_shape(case, runner, parts, tables.collect(), false, &[]);
        match compare(case, expected, &answers) {
            Verdict::Wrong(what) => Some(format!("rows in memory differ too: {what}")),
            _ => None,
        }
    })
}

fn compare(case: &Case, expected: &Answers, found: &Answers) -> Verdict {
    let (expected, found) = match (expected, found) {
        (_, Err(Fault::Panic(what))) if is_known_panic(what) => {
            return Verdict::Upstream(what.clone());
        }
        (_, Err(Fault::Panic(what))) => return Verdict::Wrong(format!("a panic: {what}")),
        (Err(Fault::Slow), _) => return Verdict::NeitherAnswers("too slow".to_owned()),
        (_, Err(Fault::Memory(_))) => return Verdict::Memory,
        (Err(e), Err(_)) => return Verdict::NeitherAnswers(format!("{e:?}")),
        (Err(Fault::Value(e)), Ok(_)) | (Ok(_), Err(Fault::Value(e))) => {
            return Verdict::Value(e.clone());
        }
        (Err(e), Ok(_)) => return Verdict::Upstream(format!("the reference fails: {e:?}")),
        (Ok(_), Err(Fault::Slow)) => return Verdict::Wrong(SLOW.to_owned()),
        (Ok(_), Err(Fault::Error(e))) if is_known_error(e) => {
            return Verdict::Upstream(e.clone());
        }
        (Ok(_), Err(e)) => return Verdict::Wrong(format!("an error: {e:?}")),
        (Ok(expected), Ok(found)) => (expected, found),
    };
    let ordered = is_ordered(&case.statement.query, &case.keys());
    let approximate = case.approximate();
    for (run, answer) in found.iter().enumerate() {
        if let Some(what) = difference(&expected[0], answer, &approximate, ordered) {
            let again = if run > 0 { "when run again: " } else { "" };
            return Verdict::Wrong(format!("{again}{what}"));
        }
    }
    Verdict::Same
}

/// Whether a statement skips rows of a query inside it: a sort for what stands around it moves below the OFFSET.
///
/// The session that tells what is expected would be wrong as well, or right by chance. Where a statement need not be
/// made, it is not; where it must be, a difference that looks like the defect is not told.
pub fn skips_inside(statement: &Statement) -> bool {
    let mut skipping = 0;
    let mut count = |query: &Query| skipping += usize::from(query.offset > 0);
    for (_, view) in &statement.views {
        view.visit(&mut count, &mut |_| {});
    }
    statement.query.visit(&mut count, &mut |_| {});
    skipping > usize::from(statement.query.offset > 0)
}

/// Whether a limit cuts groups: a top-k over groups shows the zero that came first, whatever else groups shows 0.0.
pub fn keeps_first_zero(query: &Query) -> bool {
    let Body::Select(select) = &query.body else {
        return false;
    };
    let groups = select.group.is_some() || select.distinct == Distinct::All;
    groups && query.limit.is_some()
}

/// Whether an error says what DataFusion cannot do, whatever the tables.
fn is_known_error(error: &str) -> bool {
    error.contains("null_aware anti join only supports single column join key")
}

/// Whether a panic is one that DataFusion meets whatever the tables: of a key that comes twice in the order of an aggregate,
/// one half of it counts two, the other one.
fn is_known_panic(panics: &str) -> bool {
    let mut locations = panics
        .lines()
        .filter(|line| line.contains("panicked at"))
        .peekable();
    panics.contains("assertion `left == right` failed")
        && locations.peek().is_some()
        && locations.all(|line| {
            line.contains("/datafusion-functions-aggregate-") && line.contains("/first_last.rs")
        })
}

/// The float that a literal is.
pub fn float(text: &str) -> Option<f64> {
    let digits = text
        .trim_start_matches("CAST(")
        .trim_end_matches(" AS DOUBLE)");
    digits.trim_matches('\'').parse().ok()
}

const ROW_GROUP: usize = 64;

/// A folder with a file for each table, for as long as it lives.
#[derive(Debug)]
pub struct ParquetFiles {
    folder: TempDir,
    tables: Vec<Arc<Loaded>>,
}

impl ParquetFiles {
    /// Writes tables; `None` if Parquet cannot hold a type of theirs.
    pub fn of(tables: &[Arc<Loaded>]) -> Option<Self> {
        let folder = tempfile::tempdir().ok()?;
        for (number, table) in tables.iter().enumerate() {
            let file = File::create(folder.path().join(format!("{number}.parquet"))).ok()?;
            let groups = ROW_GROUP.max(table.rows.num_rows() / 20);
            let properties = WriterProperties::builder()
                .set_max_row_group_row_count(Some(groups))
                .build();
            let mut writer =
                ArrowWriter::try_new(file, table.rows.schema(), Some(properties)).ok()?;
            writer.write(&table.rows).ok()?;
            writer.close().ok()?;
        }
        let tables = tables.to_vec();
        Some(Self { folder, tables })
    }

    /// A table of each file.
    pub fn tables(&self) -> Option<Vec<Arc<dyn TableProvider>>> {
        let tables = self.tables.iter().enumerate().map(|(number, table)| {
            let path = self.folder.path().join(format!("{number}.parquet"));
            let url = ListingTableUrl::parse(path.to_str()?).ok()?;
            let options = ListingOptions::new(Arc::new(ParquetFormat::default()));
            let config = ListingTableConfig::new(url)
                .with_listing_options(options)
                .with_schema(table.rows.schema());
            Some(Arc::new(ListingTable::try_new(config).ok()?) as Arc<dyn TableProvider>)
        });
        tables.collect()
    }
}
