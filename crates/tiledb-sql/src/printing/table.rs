//! Tables: the names of the columns with their types, then the rows, between lines.
//!
//! ```text
//! +---------+-------------+
//! | station | temperature |
//! | text    | float64     |
//! +---------+-------------+
//! | Bergen  | 3.4         |
//! | …       | …           |
//! | Zurich  | -1.0        |
//! +---------+-------------+
//! ```
//!
//! A table that is wider than the terminal gets narrower in two steps. First, long values are cut, down to [`LEAST_WIDTH`]. If the
//! table still doesn't fit, columns in its middle are left out, and one column of dots stands for them.

use std::io::Write;

use console::truncate_str;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::config::FormatOptions;
use datafusion::error::Result;

use crate::text::{padded, text_width, visible};

use super::types::type_name;

/// What stands for rows, columns and parts of values that aren't shown.
const DOTS: &str = "…";
/// The width to which values are cut before columns are left out.
const LEAST_WIDTH: usize = 16;
/// The blanks and the line beside each column.
const BESIDE: usize = 3;

/// The rows of a table.
pub struct TableRows<'a> {
    pub schema: &'a SchemaRef,
    /// The first rows, or all of them.
    pub head: &'a [RecordBatch],
    /// The last rows, if those in the middle aren't shown.
    pub tail: &'a [RecordBatch],
    /// Whether types stand below the names of columns.
    pub shows_types: bool,
    /// The width of the terminal; `None` if the table may have any width.
    pub width: Option<usize>,
}

/// Prints the rows; returns the number of columns that were left out.
pub fn print(out: &mut dyn Write, table: &TableRows<'_>, options: &FormatOptions) -> Result<usize> {
    let fields = table.schema.fields();
    if fields.is_empty() {
        return Ok(0);
    }
    let mut columns = fields
        .iter()
        .map(|field| {
            let mut heading = vec![lines(field.name())];
            if table.shows_types {
                heading.push(vec![type_name(field.data_type())]);
            }
            TextColumn {
                heading,
                rows: Vec::new(),
            }
        })
        .collect::<Vec<_>>();
    push_rows(&mut columns, table.head, options)?;
    if !table.tail.is_empty() {
        for column in &mut columns {
            column.rows.push(vec![DOTS.to_owned()]);
        }
        push_rows(&mut columns, table.tail, options)?;
    }
    let natural = columns.iter().map(TextColumn::width).collect::<Vec<_>>();
    let layout = TableLayout::new(&natural, table.width);
    let shown = layout.shown(columns);
    let rule = rule(&shown);
    writeln!(out, "{rule}")?;
    print_rows(out, &shown, |column| &column.heading)?;
    writeln!(out, "{rule}")?;
    print_rows(out, &shown, |column| &column.rows)?;
    if shown.iter().any(|(column, _)| !column.rows.is_empty()) {
        writeln!(out, "{rule}")?;
    }
    Ok(layout.left_out)
}

/// A column as text. A cell is a list of lines.
struct TextColumn {
    heading: Vec<Vec<String>>,
    rows: Vec<Vec<String>>,
}

impl TextColumn {
    fn width(&self) -> usize {
        let lines = self.heading.iter().chain(&self.rows).flatten();
        let widths = lines.map(|line| text_width(line));
        widths.max().unwrap_or_default()
    }

    /// The column that stands for those that are left out.
    fn dots(like: &Self) -> Self {
        let dots = |_: &Vec<String>| vec![DOTS.to_owned()];
        Self {
            heading: like.heading.iter().map(dots).collect(),
            rows: like.rows.iter().map(dots).collect(),
        }
    }
}

/// The lines of a text, with escapes in place of control characters.
fn lines(text: &str) -> Vec<String> {
    let text = visible(text);
    text.split('\n').map(str::to_owned).collect()
}

fn push_rows(
    columns: &mut [TextColumn],
    batches: &[RecordBatch],
    options: &FormatOptions,
) -> Result<()> {
    for batch in batches {
        for row in super::text_rows(batch, options)? {
            for (column, cell) in columns.iter_mut().zip(&row) {
                column.rows.push(lines(cell));
            }
        }
    }
    Ok(())
}

/// Which columns are shown, and how wide.
#[derive(Debug, PartialEq, Eq)]
struct TableLayout {
    /// The widths of the first columns.
    first: Vec<usize>,
    left_out: usize,
    /// The widths of the last columns.
    last: Vec<usize>,
}

impl TableLayout {
    fn new(natural: &[usize], limit: Option<usize>) -> Self {
        let all = |widths: Vec<usize>| Self {
            first: widths,
            left_out: 0,
            last: Vec::new(),
        };
        let Some(limit) = limit.filter(|limit| total(natural) > *limit) else {
            return all(natural.to_vec());
        };
        if let Some(widths) = fitted(natural, limit) {
            return all(widths);
        }
        // One column always stays, even if the terminal is narrower.
        let (mut first, mut last) = (1, 0);
        let room = limit.saturating_sub(DOTS.chars().count() + BESIDE);
        let least = |first: usize, last: usize| {
            let kept = kept(natural, first, last);
            let widths = kept.map(|width| width.min(LEAST_WIDTH));
            total(&widths.collect::<Vec<_>>())
        };
        while first + last + 1 < natural.len() {
            let (more_first, more_last) = if first > last {
                (first, last + 1)
            } else {
                (first + 1, last)
            };
            if least(more_first, more_last) > room {
                break;
            }
            (first, last) = (more_first, more_last);
        }
        let kept = kept(natural, first, last).collect::<Vec<_>>();
        let widths = fitted(&kept, room).unwrap_or_else(|| {
            let widest = room.saturating_sub(BESIDE + 1).max(1);
            kept.iter().map(|width| (*width).min(widest)).collect()
        });
        let (begin, end) = widths.split_at_checked(first).unwrap_or((&widths, &[]));
        Self {
            first: begin.to_vec(),
            left_out: natural.len() - first - last,
            last: end.to_vec(),
        }
    }

    /// The columns that are shown, with their widths.
    fn shown(&self, columns: Vec<TextColumn>) -> Vec<(TextColumn, usize)> {
        let behind = columns.len() - self.last.len();
        let mut shown = Vec::with_capacity(columns.len());
        for (index, column) in columns.into_iter().enumerate() {
            if let Some(width) = self.first.get(index) {
                shown.push((column, *width));
            } else if let Some(width) = index.checked_sub(behind).and_then(|at| self.last.get(at)) {
                shown.push((column, *width));
            } else if index == self.first.len() {
                shown.push((TextColumn::dots(&column), DOTS.chars().count()));
            }
        }
        shown
    }
}

/// The first and the last widths.
fn kept(natural: &[usize], first: usize, last: usize) -> impl Iterator<Item = usize> {
    let behind = natural.len() - last;
    let is_kept = move |index: usize| index < first || index >= behind;
    let each = natural.iter().copied().enumerate();
    each.filter(move |(index, _)| is_kept(*index))
        .map(|(_, width)| width)
}

/// The width of a table with columns of these widths.
fn total(widths: &[usize]) -> usize {
    widths.iter().map(|width| width + BESIDE).sum::<usize>() + 1
}

/// The widths after the widest columns were cut, so that the table fits; `None` if they would be narrower than
/// [`LEAST_WIDTH`].
fn fitted(natural: &[usize], limit: usize) -> Option<Vec<usize>> {
    // No column fits that is wider than the table.
    let widest = natural.iter().copied().max().unwrap_or_default().min(limit);
    let cut_at = |most: usize| {
        natural
            .iter()
            .map(|width| (*width).min(most))
            .collect::<Vec<_>>()
    };
    let fits = |most: &usize| total(&cut_at(*most)) <= limit;
    (LEAST_WIDTH..=widest.max(LEAST_WIDTH))
        .rev()
        .find(fits)
        .map(cut_at)
}

fn rule(columns: &[(TextColumn, usize)]) -> String {
    let mut rule = String::from("+");
    for (_, width) in columns {
        rule.push_str(&"-".repeat(width + 2));
        rule.push('+');
    }
    rule
}

fn print_rows<'a>(
    out: &mut dyn Write,
    columns: &'a [(TextColumn, usize)],
    rows: impl Fn(&'a TextColumn) -> &'a Vec<Vec<String>>,
) -> Result<()> {
    let count = columns.first().map_or(0, |(column, _)| rows(column).len());
    for row in 0..count {
        let cell = |column: &'a TextColumn| rows(column).get(row).map_or(&[][..], Vec::as_slice);
        let height = columns.iter().map(|(column, _)| cell(column).len()).max();
        for line in 0..height.unwrap_or_default() {
            out.write_all(b"|")?;
            for (column, width) in columns {
                let text = cell(column).get(line).map_or("", String::as_str);
                let text = truncate_str(text, *width, DOTS);
                write!(out, " {} |", padded(&text, *width, false))?;
            }
            out.write_all(b"\n")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, Int64Array, StringArray};
    use datafusion::arrow::datatypes::Schema;

    use super::*;

    fn printed(batch: &RecordBatch, tail: &[RecordBatch], width: Option<usize>) -> (String, usize) {
        let options = FormatOptions {
            null: "NULL".to_owned(),
            ..FormatOptions::default()
        };
        let table = TableRows {
            schema: &batch.schema(),
            head: std::slice::from_ref(batch),
            tail,
            shows_types: true,
            width,
        };
        let mut out = Vec::new();
        let left_out = print(&mut out, &table, &options).unwrap();
        (String::from_utf8(out).unwrap(), left_out)
    }

    fn weather() -> RecordBatch {
        let stations = StringArray::from(vec![Some("Bergen"), Some("京都"), None]);
        let notes = StringArray::from(vec!["two\nlines", "a\ttab", ""]);
        let winds = Int64Array::from(vec![Some(3), None, Some(5)]);
        let columns: [(&str, ArrayRef); 3] = [
            ("station", Arc::new(stations)),
            ("note", Arc::new(notes)),
            ("wind", Arc::new(winds)),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    #[test]
    fn columns_have_types_and_cells_have_lines() {
        let expected = "\
            +---------+--------+-------+\n\
            | station | note   | wind  |\n\
            | text    | text   | int64 |\n\
            +---------+--------+-------+\n\
            | Bergen  | two    | 3     |\n\
            |         | lines  |       |\n\
            | 京都    | a\\ttab | NULL  |\n\
            | NULL    |        | 5     |\n\
            +---------+--------+-------+\n";
        assert_eq!(printed(&weather(), &[], None), (expected.to_owned(), 0));
        assert_eq!(printed(&weather(), &[], Some(28)), (expected.to_owned(), 0));
    }

    #[test]
    fn dots_stand_for_rows_in_the_middle() {
        let tail = weather().slice(2, 1);
        let (text, _) = printed(&weather().slice(0, 1), &[tail], None);
        let end = "\
            |         | lines |       |\n\
            | …       | …     | …     |\n\
            | NULL    |       | 5     |\n\
            +---------+-------+-------+\n";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn without_rows_there_is_a_heading() {
        let (text, _) = printed(&weather().slice(0, 0), &[], None);
        assert_eq!(text.lines().count(), 4, "{text}");
        let nothing = RecordBatch::new_empty(Arc::new(Schema::empty()));
        assert_eq!(printed(&nothing, &[], None), (String::new(), 0));
    }

    #[test]
    fn long_values_are_cut_first_and_then_columns_are_left_out() {
        let long: ArrayRef = Arc::new(StringArray::from(vec!["0123456789".repeat(3)]));
        let columns = ["a", "b", "c", "d"].map(|name| (name, Arc::clone(&long)));
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let widest = |text: &str| text.lines().map(text_width).max().unwrap();
        for (limit, left_out, width) in [
            (200, 0, 133),
            (132, 0, 129),
            (100, 0, 97),
            (77, 0, 77),
            (76, 1, 74),
            (60, 2, 59),
            (40, 3, 38),
            (5, 3, 9),
        ] {
            let (text, found) = printed(&batch, &[], Some(limit));
            assert_eq!((found, widest(&text)), (left_out, width), "{limit}\n{text}");
            assert_eq!(text.contains("| …"), left_out > 0, "{text}");
            assert_eq!(text.contains("…"), limit < 133, "{text}");
        }
    }
}
