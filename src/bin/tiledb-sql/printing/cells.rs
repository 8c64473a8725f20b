//! Cells as text.

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions as ArrowOptions};
use datafusion::config::FormatOptions;
use datafusion::error::Result;

/// The rows of a batch as texts, each with a cell for every column.
pub fn rows(batch: &RecordBatch, options: &FormatOptions) -> Result<Vec<Vec<String>>> {
    let options: ArrowOptions<'_> = options.try_into()?;
    let columns = batch.columns().iter();
    let columns = columns.map(|column| ArrayFormatter::try_new(column.as_ref(), &options));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let cell = |column: &ArrayFormatter<'_>, row| column.value(row).try_to_string();
    let row = |row| columns.iter().map(|column| cell(column, row)).collect();
    let rows = (0..batch.num_rows()).map(row);
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The number of columns of a terminal that a text takes: East Asian characters take two, combining ones none.
pub fn width(text: &str) -> usize {
    console::measure_text_width(text)
}

/// A text with blanks behind it, or before it, up to a width.
pub fn padded(text: &str, to: usize, right: bool) -> String {
    let blanks = " ".repeat(to.saturating_sub(width(text)));
    match right {
        true => format!("{blanks}{text}"),
        false => format!("{text}{blanks}"),
    }
}
