//! Prints results: the format, the number of rows, and the lines below them.
//!
//! Rows go to stdout, or where `\o` sends them. Everything else goes to stderr unless stdout is a terminal, so that a file or a
//! program gets rows alone.

mod expanded;
mod markdown;
mod nested;
mod output;
mod pager;
mod records;
mod table;
mod types;

pub use output::ResultOutput;
pub use pager::Pager;
use pager::PagerOutcome;
use records::RecordFormat;
use table::TableRows;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use console::Term;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions as ArrowOptions};
use datafusion::config::FormatOptions;
use datafusion::error::Result;
use datafusion_cli::object_storage::instrumented::{
    InstrumentedObjectStoreMode, InstrumentedObjectStoreRegistry, RequestSummaries,
};
use datafusion_cli::print_options::MaxRows;

use crate::interrupt::Interruptible;

/// A format of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum OutputFormat {
    Csv,
    Tsv,
    Table,
    Json,
    NdJson,
    Markdown,
    /// A table.
    Automatic,
}

/// How wide tables may be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TableWidth {
    /// As wide as the terminal, if they are printed to one.
    #[default]
    Terminal,
    /// As wide as their rows.
    Unlimited,
    /// At most this many characters.
    Columns(usize),
}

/// How results are printed.
#[derive(Debug)]
pub struct Printing {
    pub format: OutputFormat,
    /// Whether tables are printed as one block for each row.
    pub expanded: bool,
    /// Whether only results are printed.
    pub quiet: bool,
    /// Whether the time of a statement is printed; by default, unless only results are.
    pub timing: Option<bool>,
    pub max_rows: MaxRows,
    pub width: TableWidth,
    /// Whether the syntax of typed text is highlighted.
    pub color: bool,
    pub pager: Pager,
    pub output: ResultOutput,
    /// Counts the requests made to storage.
    pub stores: Arc<InstrumentedObjectStoreRegistry>,
}

/// The rows of a statement, as many as are shown.
pub struct PrintedRows<'a> {
    pub schema: SchemaRef,
    /// The first rows, or all of them.
    pub head: &'a [RecordBatch],
    /// The last rows, if those in the middle aren't shown.
    pub tail: &'a [RecordBatch],
    /// The number of rows, shown or not.
    pub count: usize,
    /// Whether the rows describe the session, a table or a plan. They are shown whole, and without types.
    pub is_description: bool,
}

impl PrintedRows<'_> {
    /// How many rows are shown at the beginning, and how many at the end.
    fn shown(&self) -> (usize, usize) {
        let rows = |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).sum();
        (rows(self.head), rows(self.tail))
    }
}

/// The format in which the rows of a statement are printed.
enum ResultShape {
    Expanded,
    Markdown,
    Table,
    Records(RecordFormat),
}

impl Printing {
    /// The largest number of rows that are shown. Only tables, which people read, are cut; programs read the other formats.
    pub fn most_rows(&self) -> MaxRows {
        match self.format {
            OutputFormat::Table | OutputFormat::Automatic if self.output.is_stdout() => {
                self.max_rows
            }
            _ => MaxRows::Unlimited,
        }
    }

    /// The maximum width of a table, in characters; `None` means any width.
    fn widest_table(&self) -> Option<usize> {
        match self.width {
            TableWidth::Unlimited => None,
            TableWidth::Columns(columns) => Some(columns),
            TableWidth::Terminal => {
                let is_terminal = self.output.is_stdout() && io::stdout().is_terminal();
                is_terminal.then(|| Term::stdout().size().1.into())
            }
        }
    }

    /// Whether people read the results, and not programs.
    pub fn is_for_people(&self) -> bool {
        !matches!(self.shape(), ResultShape::Records(_))
    }

    fn shape(&self) -> ResultShape {
        match self.format {
            OutputFormat::Table | OutputFormat::Automatic if self.expanded => ResultShape::Expanded,
            OutputFormat::Table | OutputFormat::Automatic => ResultShape::Table,
            OutputFormat::Markdown => ResultShape::Markdown,
            OutputFormat::Csv => ResultShape::Records(RecordFormat::Csv),
            OutputFormat::Tsv => ResultShape::Records(RecordFormat::Tsv),
            OutputFormat::Json => ResultShape::Records(RecordFormat::Json),
            OutputFormat::NdJson => ResultShape::Records(RecordFormat::NdJson),
        }
    }

    /// Prints rows, and the lines below them for a statement that began at a time.
    pub fn print(
        &self,
        running: &Interruptible,
        rows: &PrintedRows<'_>,
        began: Instant,
        options: &FormatOptions,
    ) -> Result<()> {
        // The time must not include the user's reading in a pager.
        let elapsed = began.elapsed();
        let hidden_columns = self.print_only(running, rows, options)?;
        // A pager takes Ctrl-C as an ordinary key, so only later signals interrupt.
        let after = Interruptible::begin();
        let mut out = after.output(details_output());
        self.print_details(&mut out, &Self::details(rows, hidden_columns), elapsed)
    }

    /// Prints rows without the lines below them; returns the number of columns that were left out.
    pub fn print_only(
        &self,
        running: &Interruptible,
        rows: &PrintedRows<'_>,
        options: &FormatOptions,
    ) -> Result<usize> {
        let mut hidden_columns = 0;
        let mut print = |out: &mut dyn Write| {
            hidden_columns = self.print_rows(out, rows, options)?;
            Ok(())
        };
        match self.output.writer() {
            Some(out) => {
                let mut out = running.output(BufWriter::new(out));
                print(&mut out)?;
                out.flush()?;
            }
            None => {
                if self.pager.show(&mut running.stdout(), print)? == PagerOutcome::UntilInterrupt {
                    running.take_signal_on_its_way();
                }
            }
        }
        Ok(hidden_columns)
    }

    /// Prints rows; returns the number of columns that were left out.
    fn print_rows(
        &self,
        mut out: &mut dyn Write,
        rows: &PrintedRows<'_>,
        options: &FormatOptions,
    ) -> Result<usize> {
        let all = || [rows.head, rows.tail].concat();
        match self.shape() {
            ResultShape::Expanded => {
                let first_of_tail = rows.count - rows.shown().1 + 1;
                let parts = [(1, rows.head), (first_of_tail, rows.tail)];
                expanded::print(&mut out, &parts, options)?;
            }
            ResultShape::Markdown => markdown::print(&mut out, &rows.schema, &all(), options)?,
            ResultShape::Table => {
                let table = TableRows {
                    schema: &rows.schema,
                    head: rows.head,
                    tail: rows.tail,
                    shows_types: options.types_info && !rows.is_description,
                    width: self.widest_table().filter(|_| !rows.is_description),
                };
                return table::print(out, &table, options);
            }
            ResultShape::Records(format) => format.print(out, &rows.schema, &all(), true)?,
        }
        Ok(0)
    }

    /// The line with the number of rows, and what isn't shown of them.
    fn details(rows: &PrintedRows<'_>, hidden_columns: usize) -> String {
        let mut line = format!("{} row(s) fetched.", rows.count);
        if let (first, last @ 1..) = rows.shown() {
            line.push_str(&format!(
                " (First {first} and last {last} shown; \\maxrows changes that.)"
            ));
        }
        if hidden_columns > 0 {
            let columns = rows.schema.fields().len();
            let shown = columns - hidden_columns;
            line.push_str(&format!(
                " ({shown} of {columns} columns shown; \\x or \\width off shows all.)"
            ));
        }
        line
    }

    /// Prints some rows of a result that never ends, as CSV, because the layout of a table needs all rows.
    pub fn print_part(
        &self,
        running: &Interruptible,
        batch: &RecordBatch,
        is_first: bool,
    ) -> Result<()> {
        let out: Box<dyn Write + '_> = match self.output.writer() {
            Some(out) => Box::new(out),
            None => Box::new(io::stdout().lock()),
        };
        let mut out = running.output(BufWriter::new(out));
        let format = match self.shape() {
            ResultShape::Records(format) => format,
            ResultShape::Table | ResultShape::Expanded | ResultShape::Markdown => RecordFormat::Csv,
        };
        let batches = std::slice::from_ref(batch);
        format.print(&mut out, &batch.schema(), batches, is_first)?;
        Ok(out.flush()?)
    }

    /// Prints the choices that the rows of a statement made.
    pub fn print_choices(&self, choices: &[String]) -> Result<()> {
        if self.quiet || choices.is_empty() {
            return Ok(());
        }
        let mut out = details_output();
        writeln!(out, "Chosen from the data:")?;
        for choice in choices {
            writeln!(out, "  {choice}")?;
        }
        Ok(out.flush()?)
    }

    /// Prints the number of rows of a result that never ends, after the user has ended it.
    pub fn print_count(&self, count: usize, elapsed: Duration) -> Result<()> {
        let line = format!("{count} row(s) fetched.");
        self.print_details(&mut details_output(), &line, elapsed)
    }

    /// Prints a line about the rows, and the time.
    fn print_details(&self, out: &mut impl Write, line: &str, elapsed: Duration) -> Result<()> {
        let seconds = elapsed.as_secs_f64();
        if !self.quiet {
            writeln!(out, "{line}")?;
        }
        if self.timing.unwrap_or(!self.quiet) {
            writeln!(out, "Elapsed {seconds:.3} seconds.")?;
        }
        if !self.quiet {
            writeln!(out)?;
            self.print_requests(out)?;
        }
        Ok(out.flush()?)
    }

    /// Prints the requests made to storage since the last time, if they are counted.
    fn print_requests(&self, out: &mut impl Write) -> Result<()> {
        let mode = self.stores.instrument_mode();
        if mode == InstrumentedObjectStoreMode::Disabled {
            return Ok(());
        }
        writeln!(out, "Object Store Profiling")?;
        for store in self.stores.stores() {
            let requests = store.take_requests();
            if requests.is_empty() {
                continue;
            }
            writeln!(out, "{store}")?;
            if mode == InstrumentedObjectStoreMode::Trace {
                for request in &requests {
                    writeln!(out, "{request}")?;
                }
                writeln!(out)?;
            }
            let summaries = RequestSummaries::new(&requests);
            writeln!(out, "Summaries:\n{summaries}")?;
        }
        Ok(())
    }
}

/// Where everything but rows goes: to stdout if it is a terminal, to stderr otherwise.
pub fn details_output() -> Box<dyn Write> {
    if io::stdout().is_terminal() {
        Box::new(io::stdout())
    } else {
        Box::new(io::stderr())
    }
}

/// The rows of a batch as texts, each with a cell for every column.
pub fn text_rows(batch: &RecordBatch, options: &FormatOptions) -> Result<Vec<Vec<String>>> {
    let options: ArrowOptions<'_> = options.try_into()?;
    let columns = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
        .collect::<Result<Vec<_>, _>>()?;
    let cell = |column: &ArrayFormatter<'_>, row| column.value(row).try_to_string();
    let row = |row| columns.iter().map(|column| cell(column, row)).collect();
    let rows = (0..batch.num_rows()).map(row);
    Ok(rows.collect::<Result<_, _>>()?)
}
