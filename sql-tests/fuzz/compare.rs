//! Compares two answers: as lists where their order is settled, as multisets otherwise.
//!
//! Every value is a text that tells it from all others; sums and averages of floats are numbers beside it.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

use super::run::Answer;

/// Sums of floats may differ by so much of their size, or by so much.
const RELATIVE: f64 = 1e-6;
const ABSOLUTE: f64 = 1e-3;
const SHOWN: usize = 8;

#[derive(Debug, Clone, PartialEq, PartialOrd)]
struct Row {
    exact: String,
    approximate: Vec<f64>,
}

/// How `found` differs from `expected`. `approximate` says which columns need only be near.
pub fn difference(
    expected: &Answer,
    found: &Answer,
    approximate: &[bool],
    ordered: bool,
) -> Option<String> {
    let types = |answer: &Answer| {
        let fields = answer.schema.fields().iter();
        fields.map(|f| plain(f.data_type())).collect::<Vec<_>>()
    };
    if types(expected) != types(found) {
        return Some(format!(
            "expected columns {:?}\nfound columns {:?}",
            types(expected),
            types(found)
        ));
    }
    let (mut wanted, mut got) = (rows(expected, approximate), rows(found, approximate));
    if ordered && wanted.len() == got.len() {
        let at = wanted.iter().zip(&got).position(|(w, g)| !same(w, g))?;
        let order = format!(
            "row {at}: expected {}\nrow {at}: found    {}",
            shown(&wanted[at]),
            shown(&got[at])
        );
        return Some(match multisets(&mut wanted, &mut got) {
            Some(rows) => format!("{order}\n{rows}"),
            None => format!("the same rows in another order\n{order}"),
        });
    }
    multisets(&mut wanted, &mut got)
}

fn multisets(wanted: &mut [Row], got: &mut [Row]) -> Option<String> {
    let order = |a: &Row, b: &Row| {
        let numbers = a
            .approximate
            .iter()
            .zip(&b.approximate)
            .map(|(a, b)| a.total_cmp(b));
        a.exact
            .cmp(&b.exact)
            .then(numbers.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then))
    };
    wanted.sort_by(order);
    got.sort_by(order);
    if wanted.len() == got.len() && wanted.iter().zip(got.iter()).all(|(w, g)| same(w, g)) {
        return None;
    }
    let (mut missing, mut more) = (Vec::new(), Vec::new());
    let (mut w, mut g) = (0, 0);
    while w < wanted.len() || g < got.len() {
        match (wanted.get(w), got.get(g)) {
            (Some(a), Some(b)) if same(a, b) => (w, g) = (w + 1, g + 1),
            (Some(a), b) if b.is_none_or(|b| order(a, b).is_lt()) => {
                missing.push(a);
                w += 1;
            }
            (_, Some(b)) => {
                more.push(b);
                g += 1;
            }
            (_, None) => w += 1,
        }
    }
    let list = |rows: &[&Row]| {
        let rows = rows
            .iter()
            .take(SHOWN)
            .map(|row| format!("\n  {}", shown(row)));
        rows.collect::<String>()
    };
    Some(format!(
        "{} rows expected, {} found\n{} missing:{}\n{} that should not be there:{}",
        wanted.len(),
        got.len(),
        missing.len(),
        list(&missing),
        more.len(),
        list(&more)
    ))
}

fn shown(row: &Row) -> String {
    match row.approximate.as_slice() {
        [] => row.exact.clone(),
        numbers => format!("{} ~ {numbers:?}", row.exact),
    }
}

fn same(a: &Row, b: &Row) -> bool {
    let near = |a: f64, b: f64| {
        a.total_cmp(&b).is_eq()
            || (a.is_nan() && b.is_nan())
            || (a - b).abs() <= ABSOLUTE + RELATIVE * a.abs().max(b.abs())
    };
    a.exact == b.exact
        && a.approximate
            .iter()
            .zip(&b.approximate)
            .all(|(a, b)| near(*a, *b))
}

/// A type without the flavour of its texts, and whether they are in a dictionary.
fn plain(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain(values),
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary => DataType::Binary,
        DataType::List(item) => {
            let item = item.as_ref().clone().with_nullable(true);
            let data_type = plain(item.data_type());
            DataType::List(Arc::new(
                item.with_data_type(data_type)
                    .with_metadata(Default::default()),
            ))
        }
        DataType::FixedSizeList(item, n) => {
            let item = item.as_ref().clone().with_nullable(true);
            let data_type = plain(item.data_type());
            let item = item
                .with_data_type(data_type)
                .with_metadata(Default::default());
            DataType::FixedSizeList(Arc::new(item), *n)
        }
        other => other.clone(),
    }
}

fn rows(answer: &Answer, approximate: &[bool]) -> Vec<Row> {
    let mut rows = Vec::new();
    for batch in &answer.batches {
        let first = rows.len();
        rows.extend((0..batch.num_rows()).map(|_| Row {
            exact: String::new(),
            approximate: Vec::new(),
        }));
        for (index, column) in batch.columns().iter().enumerate() {
            match cast(column, &DataType::Float64) {
                Ok(floats) if approximate.get(index) == Some(&true) => {
                    let floats = floats.as_primitive::<Float64Type>();
                    for (row, value) in rows[first..].iter_mut().zip(floats) {
                        match value {
                            Some(value) => row.approximate.push(value),
                            None => row.exact.push_str("NULL | "),
                        }
                    }
                }
                _ => exact(column, &mut rows[first..]),
            }
        }
    }
    rows
}

fn exact(column: &ArrayRef, rows: &mut [Row]) {
    // Times are shown as the numbers they are, because not all of them have a date.
    let number = match column.data_type() {
        DataType::Date32 | DataType::Time32(_) => cast(column, &DataType::Int32).ok(),
        DataType::Timestamp(..) | DataType::Time64(_) | DataType::Duration(_) => {
            cast(column, &DataType::Int64).ok()
        }
        _ => None,
    };
    let column = number.as_ref().unwrap_or(column);
    let quoted = matches!(plain(column.data_type()), DataType::Utf8);
    let options = FormatOptions::default().with_null("NULL");
    let format = ArrayFormatter::try_new(column, &options).expect("every type is shown");
    for (index, row) in rows.iter_mut().enumerate() {
        let value = format.value(index).to_string();
        if quoted && column.is_valid(index) {
            row.exact.push_str(&format!("{value:?} | "));
        } else {
            row.exact.push_str(&value);
            row.exact.push_str(" | ");
        }
    }
}
