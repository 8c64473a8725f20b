//! Whether rows come in the order that their query asks for, as far as the rows show it.

use datafusion::arrow::compute::{
    LexicographicalComparator, SortColumn, SortOptions, concat_batches,
};

use super::ast::{Query, SortKey};
use super::print;
use super::run::Answer;

/// Whether the rows of an answer ascend by the first keys of the query's order, up to the first that is no column of it.
pub fn is_sorted(answer: &Answer, query: &Query) -> bool {
    let output = query.output();
    let keys = query.order.iter().map_while(|key| {
        let text = print::expr(&key.expr);
        let shows = |(alias, expr): &(&str, &_)| *alias == text || print::expr(expr) == text;
        Some((output.iter().position(shows)?, options(key)))
    });
    let keys: Vec<_> = keys.collect();
    let Ok(rows) = concat_batches(&answer.schema, &answer.batches) else {
        return true;
    };
    if keys.is_empty() {
        return true;
    }
    let columns = keys.into_iter().map(|(column, options)| SortColumn {
        values: rows.column(column).clone(),
        options: Some(options),
    });
    let columns: Vec<_> = columns.collect();
    // What cannot be compared proves nothing.
    LexicographicalComparator::try_new(&columns).map_or(true, |order| {
        (1..rows.num_rows()).all(|row| order.compare(row - 1, row).is_le())
    })
}

/// NULL is the greatest value where the key does not say otherwise.
fn options(key: &SortKey) -> SortOptions {
    SortOptions {
        descending: key.descending,
        nulls_first: key.nulls_first.unwrap_or(key.descending),
    }
}
