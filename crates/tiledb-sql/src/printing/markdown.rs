//! Results as tables of Markdown, to be pasted into a document; numbers are aligned to the right.

use std::io::Write;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::config::FormatOptions;
use datafusion::error::Result;

use crate::text::{padded, text_width};

/// Prints all rows; without rows, only the heading.
pub fn print(
    out: &mut impl Write,
    schema: &SchemaRef,
    batches: &[RecordBatch],
    options: &FormatOptions,
) -> Result<()> {
    if schema.fields().is_empty() {
        return Ok(());
    }
    let mut rows = Vec::new();
    for batch in batches {
        rows.extend(super::text_rows(batch, options)?);
    }
    for cell in rows.iter_mut().flatten() {
        *cell = escaped(cell);
    }
    let fields = schema.fields().iter();
    let mut columns = fields
        .map(|field| MarkdownColumn {
            name: escaped(field.name()),
            width: 0,
            right: field.data_type().is_numeric(),
        })
        .collect::<Vec<_>>();
    for (index, column) in columns.iter_mut().enumerate() {
        let cells = rows.iter().filter_map(|row| row.get(index));
        let widths = cells.chain([&column.name]).map(|cell| text_width(cell));
        // A rule has at least three characters.
        column.width = widths.max().unwrap_or_default().max(3);
    }
    let names = columns.iter().map(|column| column.name.as_str());
    writeln!(out, "{}", line(&columns, names))?;
    let rules = columns.iter().map(MarkdownColumn::rule);
    writeln!(out, "| {} |", rules.collect::<Vec<_>>().join(" | "))?;
    for row in &rows {
        writeln!(out, "{}", line(&columns, row.iter().map(String::as_str)))?;
    }
    Ok(())
}

struct MarkdownColumn {
    name: String,
    width: usize,
    right: bool,
}

impl MarkdownColumn {
    fn rule(&self) -> String {
        if self.right {
            format!("{}:", "-".repeat(self.width.saturating_sub(1)))
        } else {
            "-".repeat(self.width)
        }
    }
}

fn line<'a>(columns: &[MarkdownColumn], cells: impl Iterator<Item = &'a str>) -> String {
    let cells = columns
        .iter()
        .zip(cells)
        .map(|(column, cell)| padded(cell, column.width, column.right));
    format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
}

/// A cell is one line, and ends at a bar.
fn escaped(cell: &str) -> String {
    let cell = cell.replace('\\', "\\\\").replace('|', "\\|");
    cell.replace("\r\n", "<br>").replace('\n', "<br>")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Int64Array, StringArray};

    use super::*;

    #[test]
    fn cells_are_aligned_and_cannot_end_a_cell() {
        let texts = StringArray::from(vec!["a|b", "two\nlines", "京都"]);
        let numbers = Int64Array::from(vec![1, 20, -300]);
        let columns = [
            ("text", Arc::new(texts) as _),
            ("n", Arc::new(numbers) as _),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut out = Vec::new();
        let options = FormatOptions::default();
        let schema = batch.schema();
        print(
            &mut out,
            &schema,
            &[batch.clone(), batch.slice(0, 0)],
            &options,
        )
        .unwrap();
        let expected = "\
            | text         |    n |\n\
            | ------------ | ---: |\n\
            | a\\|b         |    1 |\n\
            | two<br>lines |   20 |\n\
            | 京都         | -300 |\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn without_rows_there_is_a_heading() {
        let column = Arc::new(Int64Array::from(vec![1])) as _;
        let schema = RecordBatch::try_from_iter([("n", column)])
            .unwrap()
            .schema();
        let mut out = Vec::new();
        print(&mut out, &schema, &[], &FormatOptions::default()).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "|   n |\n| --: |\n");
    }
}
