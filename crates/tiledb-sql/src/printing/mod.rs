//! Prints results: the format, the number of rows, and the lines below them.
//!
//! Tables are printed by datafusion-cli's own code, so that results look the same; the other formats are ours.

mod expanded;
mod markdown;
mod nested;
mod pager;
mod records;
mod visible;

pub use pager::Pager;
use pager::PagerOutcome;
use records::RecordFormat;

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions as ArrowOptions};
use datafusion::config::FormatOptions;
use datafusion::error::Result;
use datafusion_cli::object_storage::instrumented::{
    InstrumentedObjectStoreMode, InstrumentedObjectStoreRegistry, RequestSummaries,
};
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::{MaxRows, PrintOptions};

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

/// How results are printed.
#[derive(Debug, Clone)]
pub struct Printing {
    pub format: OutputFormat,
    /// Whether tables are printed as one block for each row.
    pub expanded: bool,
    /// Whether only results are printed.
    pub quiet: bool,
    /// Whether the time of a statement is printed; by default, unless only results are.
    pub timing: Option<bool>,
    pub max_rows: MaxRows,
    /// Whether the syntax of typed text is highlighted.
    pub color: bool,
    pub pager: Pager,
    /// Counts the requests made to storage.
    pub stores: Arc<InstrumentedObjectStoreRegistry>,
}

/// The rows of a statement, as many as are shown.
pub struct PrintedRows<'a> {
    pub schema: SchemaRef,
    pub batches: &'a [RecordBatch],
    /// The number of rows, shown or not.
    pub count: usize,
    /// The most rows that are shown.
    pub most: MaxRows,
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
            OutputFormat::Table | OutputFormat::Automatic => self.max_rows,
            _ => MaxRows::Unlimited,
        }
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
        let print = |out: &mut dyn Write| self.print_rows(out, rows, options);
        if self.pager.show(&mut running.stdout(), print)? == PagerOutcome::UntilInterrupt {
            running.take_signal_on_its_way();
        }
        // A pager takes Ctrl-C as an ordinary key, so only later signals interrupt.
        let after = Interruptible::begin();
        self.print_details(&mut after.stdout(), rows.count, rows.most, elapsed)
    }

    fn print_rows(
        &self,
        mut out: &mut dyn Write,
        rows: &PrintedRows<'_>,
        options: &FormatOptions,
    ) -> Result<()> {
        match self.shape() {
            ResultShape::Expanded => expanded::print(&mut out, rows.batches, rows.most, options),
            ResultShape::Markdown => markdown::print(&mut out, &rows.schema, rows.batches, options),
            ResultShape::Table => {
                let schema = Arc::clone(&rows.schema);
                let batches = rows
                    .batches
                    .iter()
                    .map(|batch| visible::visible_batch(batch, options))
                    .collect::<Result<Vec<_>>>()?;
                let format = PrintFormat::Table;
                format.print_batches(&mut out, schema, &batches, rows.most, true, options)
            }
            ResultShape::Records(format) => format.print(out, &rows.schema, rows.batches, true),
        }
    }

    /// Prints some rows of a result that never ends, as CSV, because the layout of a table needs all rows.
    pub fn print_part(
        &self,
        out: &mut impl Write,
        batch: &RecordBatch,
        is_first: bool,
    ) -> Result<()> {
        let format = match self.shape() {
            ResultShape::Records(format) => format,
            ResultShape::Table | ResultShape::Expanded | ResultShape::Markdown => RecordFormat::Csv,
        };
        let batches = std::slice::from_ref(batch);
        format.print(out, &batch.schema(), batches, is_first)?;
        Ok(out.flush()?)
    }

    /// Prints the choices that the rows of a statement made.
    pub fn print_choices(&self, out: &mut impl Write, choices: &[String]) -> Result<()> {
        if self.quiet || choices.is_empty() {
            return Ok(());
        }
        writeln!(out, "Chosen by the rows:")?;
        for choice in choices {
            writeln!(out, "  {choice}")?;
        }
        Ok(())
    }

    /// Prints the number of rows, and the time.
    pub fn print_details(
        &self,
        out: &mut impl Write,
        count: usize,
        most: MaxRows,
        elapsed: Duration,
    ) -> Result<()> {
        let seconds = elapsed.as_secs_f64();
        if !self.quiet {
            let cut = match most {
                MaxRows::Limited(shown) if shown < count => {
                    format!("(First {shown} displayed. Use --maxrows to adjust)")
                }
                _ => String::new(),
            };
            writeln!(out, "{count} row(s) fetched. {cut}")?;
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

    /// The options with which datafusion-cli prints nothing.
    pub fn silent(&self) -> PrintOptions {
        PrintOptions {
            format: PrintFormat::Table,
            quiet: true,
            maxrows: MaxRows::Unlimited,
            color: self.color,
            instrumented_registry: Arc::clone(&self.stores),
        }
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

/// The number of columns of a terminal that a text takes: East Asian characters take two, combining ones none.
pub fn text_width(text: &str) -> usize {
    console::measure_text_width(text)
}

/// A text with blanks behind it, or before it, up to a width.
pub fn padded(text: &str, to: usize, right: bool) -> String {
    let blanks = " ".repeat(to.saturating_sub(text_width(text)));
    if right {
        format!("{blanks}{text}")
    } else {
        format!("{text}{blanks}")
    }
}
