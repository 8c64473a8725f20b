//! Rows one below the other, as psql's `\x` shows them: for tables that are wider than the terminal.
//!
//! ```text
//! -[ RECORD 1 ]----------
//! station     | Bergen
//! temperature | 3.4
//! ```

use std::io::Write;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::config::FormatOptions;
use datafusion::error::Result;

use crate::text::{padded, text_width, visible};

/// Prints runs of rows, each with the number of its first row.
pub fn print(
    out: &mut impl Write,
    runs: &[(usize, &[RecordBatch])],
    options: &FormatOptions,
) -> Result<()> {
    let (mut names, mut rows) = (Vec::new(), Vec::new());
    for (first, batches) in runs {
        let mut numbers = *first..;
        for batch in *batches {
            let texts = super::text_rows(batch, options)?;
            rows.extend(numbers.by_ref().zip(texts.into_iter().map(visible_row)));
            if names.is_empty() {
                let fields = batch.schema_ref().fields().iter();
                names = fields
                    .map(|field| field.name().replace('\n', " "))
                    .collect();
            }
        }
    }
    let layout = ExpandedLayout::new(&names, &rows);
    for (number, row) in &rows {
        layout.print_row(out, &names, *number, row)?;
    }
    Ok(())
}

fn visible_row(row: Vec<String>) -> Vec<String> {
    let cells = row.into_iter();
    cells.map(|cell| visible(&cell).into_owned()).collect()
}

/// The widths of the parts of a record, in columns of the terminal.
struct ExpandedLayout {
    names: usize,
    values: usize,
}

impl ExpandedLayout {
    fn new(names: &[String], rows: &[(usize, Vec<String>)]) -> Self {
        let names = names.iter().map(|name| text_width(name));
        let values = rows.iter().flat_map(|(_, row)| row);
        let lines = values.flat_map(|value| value.lines());
        Self {
            names: names.max().unwrap_or_default(),
            values: lines.map(text_width).max().unwrap_or_default(),
        }
    }

    fn print_row(
        &self,
        out: &mut impl Write,
        names: &[String],
        number: usize,
        row: &[String],
    ) -> Result<()> {
        writeln!(out, "{}", self.heading(number))?;
        for (name, value) in names.iter().zip(row) {
            let mut name = name.as_str();
            // The first line of a value, which may be empty, stands beside its name.
            for line in value.split('\n') {
                let line = format!("{} | {line}", padded(name, self.names, false));
                writeln!(out, "{}", line.trim_end())?;
                name = "";
            }
        }
        Ok(())
    }

    /// The line above a row. If there is room, a plus sign continues the line between names and values.
    fn heading(&self, number: usize) -> String {
        let mut heading = format!("-[ RECORD {number} ]-");
        let whole = self.names + " | ".len() + self.values;
        let cross = self.names + 1;
        if heading.len() <= cross {
            heading.push_str(&"-".repeat(cross - heading.len()));
            heading.push('+');
        }
        let rest = whole.saturating_sub(heading.len());
        heading + &"-".repeat(rest)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;

    /// All rows, or the first and the last ones.
    fn printed(columns: Vec<(&str, ArrayRef)>, ends: Option<(usize, usize)>) -> String {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut out = Vec::new();
        let options = FormatOptions {
            null: "NULL".to_owned(),
            ..FormatOptions::default()
        };
        let rows = batch.num_rows();
        let (first, last) = ends.unwrap_or((rows, 0));
        let (head, tail) = ([batch.slice(0, first)], [batch.slice(rows - last, last)]);
        let runs: [(usize, &[RecordBatch]); 2] = [(1, &head), (rows - last + 1, &tail)];
        print(&mut out, &runs, &options).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn weather() -> Vec<(&'static str, ArrayRef)> {
        let stations = StringArray::from(vec![Some("Bergen"), Some("京都"), None]);
        let winds = Int64Array::from(vec![Some(3), None, Some(5)]);
        vec![
            ("station", Arc::new(stations) as _),
            ("the wind in the evening", Arc::new(winds) as _),
        ]
    }

    #[test]
    fn each_row_is_a_block() {
        let rule = "-[ RECORD 1 ]-----------+-------";
        let text = printed(weather(), None);
        let expected = format!(
            "{rule}\nstation                 | Bergen\nthe wind in the evening | 3\n{}\nstation                 | 京都\nthe wind in the evening | NULL\n{}\nstation                 | NULL\nthe wind in the evening | 5\n",
            rule.replace('1', "2"),
            rule.replace('1', "3"),
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn blocks_keep_their_numbers() {
        let text = printed(weather(), Some((1, 1)));
        assert!(text.starts_with("-[ RECORD 1 ]-"), "{text}");
        assert!(text.contains("\n-[ RECORD 3 ]-"), "{text}");
        assert_eq!(text.matches("RECORD").count(), 2);
        assert_eq!(printed(weather(), Some((0, 0))), "");
    }

    #[test]
    fn lines_of_a_value_stay_behind_its_name() {
        let column = Arc::new(StringArray::from(vec!["one\n\nthree"])) as _;
        let text = printed(vec![("a", column)], None);
        assert_eq!(text, "-[ RECORD 1 ]-\na | one\n  |\n  | three\n");
    }
}
