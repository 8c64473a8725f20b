//! `SUMMARIZE table` and `SUMMARIZE query`, which DuckDB has, too: a row for each column, with its range, its mean and its gaps.
//!
//! All rows are read once. Numbers of different values and quantiles are approximate.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt64Array,
};
use datafusion::arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema, UInt64Type};
use datafusion::common::{Column, Result, ScalarValue, exec_datafusion_err};
use datafusion::dataframe::DataFrame;
use datafusion::functions_aggregate::expr_fn::{
    approx_distinct, approx_percentile_cont, avg, count, max, min, stddev,
};
use datafusion::logical_expr::{Expr, cast, lit};
use datafusion::prelude::SessionContext;

use crate::catalog::{first_word, first_word_range};

const WORD: &str = "SUMMARIZE";
const QUERIES: [&str; 4] = ["SELECT", "WITH", "FROM", "VALUES"];
const QUANTILES: [f64; 3] = [0.25, 0.5, 0.75];
/// The aggregates of one column.
const PER_COLUMN: usize = 9;

/// The query whose rows a statement summarizes; `None` if the statement is another one. Blanks take the place of the word, so that the
/// places in error messages stay those of the statement.
pub(super) fn summarized(sql: &str) -> Option<String> {
    let word = first_word_range(sql);
    if !sql.get(word.clone())?.eq_ignore_ascii_case(WORD) {
        return None;
    }
    let (before, query) = (sql.get(..word.start)?, sql.get(word.end..)?);
    let first = first_word(query);
    let is_query = query.trim_start().starts_with('(')
        || QUERIES.iter().any(|word| word.eq_ignore_ascii_case(first));
    let instead = if is_query {
        " ".repeat(WORD.len())
    } else {
        "SELECT * FROM".to_owned()
    };
    Some(format!("{before}{instead}{query}"))
}

/// Reads all rows of a query, and returns the summary of its columns.
pub(super) async fn summarize(ctx: &SessionContext, rows: DataFrame) -> Result<DataFrame> {
    let schema = rows.schema().clone();
    let columns = schema.iter().map(|(table, field)| {
        let column = Expr::Column(Column::new(table.cloned(), field.name()));
        (column, Arc::clone(field))
    });
    let columns = columns.collect::<Vec<_>>();
    let mut aggregates = vec![count(lit(1_i64)).alias("rows")];
    for (number, (column, field)) in columns.iter().enumerate() {
        for (which, aggregate) in of_column(column, field.data_type()).into_iter().enumerate() {
            aggregates.push(aggregate.alias(format!("{number} {which}")));
        }
    }
    let batches = rows.aggregate(Vec::new(), aggregates)?.collect().await?;
    let found = batches
        .iter()
        .find(|batch| batch.num_rows() == 1)
        .ok_or_else(|| exec_datafusion_err!("an aggregate without groups has one row"))?;
    let rows = integer(found.column(0))?.unwrap_or_default();
    let mut summary = SummaryColumns::default();
    for (number, (_, field)) in columns.iter().enumerate() {
        let begin = 1 + number * PER_COLUMN;
        let values = found.columns().get(begin..begin + PER_COLUMN);
        summary.push(field, rows, values.unwrap_or_default())?;
    }
    ctx.read_batch(summary.into_batch()?)
}

/// The aggregates of a column; NULL where its type has none.
fn of_column(column: &Expr, data_type: &DataType) -> [Expr; PER_COLUMN] {
    let value_type = match data_type {
        DataType::Dictionary(_, values) => values.as_ref(),
        other => other,
    };
    let column = || match data_type {
        DataType::Dictionary(..) => cast(column.clone(), value_type.clone()),
        _ => column.clone(),
    };
    let text = |value: Expr| cast(value, DataType::Utf8);
    let none = |data_type: &DataType| {
        let null = ScalarValue::try_from(data_type).unwrap_or(ScalarValue::Null);
        // An aggregate has aggregates alone.
        max(Expr::Literal(null, None))
    };
    let has_order = !value_type.is_nested() && !value_type.is_null();
    let (least, most) = if has_order {
        (min(column()), max(column()))
    } else {
        (none(&DataType::Utf8), none(&DataType::Utf8))
    };
    let different = match value_type {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => {
            approx_distinct(text(column()))
        }
        _ => approx_distinct(column()),
    };
    let number = || cast(column(), DataType::Float64);
    let is_number = value_type.is_numeric();
    let of_numbers = |aggregate: fn(Expr) -> Expr| {
        if is_number {
            aggregate(number())
        } else {
            none(&DataType::Float64)
        }
    };
    let quantile = |part: f64| {
        if is_number {
            approx_percentile_cont(number().sort(true, false), lit(part), None)
        } else {
            none(&DataType::Float64)
        }
    };
    let [first, second, third] = QUANTILES.map(quantile);
    [
        least,
        most,
        different,
        of_numbers(avg),
        of_numbers(stddev),
        first,
        second,
        third,
        count(column()),
    ]
}

/// The columns of a summary, row by row.
#[derive(Default)]
struct SummaryColumns {
    names: Vec<String>,
    types: Vec<String>,
    least: Vec<Option<String>>,
    most: Vec<Option<String>>,
    different: Vec<Option<i64>>,
    numbers: [Vec<Option<f64>>; 5],
    counts: Vec<i64>,
    gaps: Vec<Option<f64>>,
}

impl SummaryColumns {
    fn push(&mut self, field: &Field, rows: i64, values: &[ArrayRef]) -> Result<()> {
        let [least, most, different, numbers @ .., valid] = values else {
            return Err(exec_datafusion_err!(
                "a column has {} aggregates",
                values.len()
            ));
        };
        self.names.push(field.name().clone());
        self.types.push(field.data_type().to_string());
        self.least.push(text(least)?);
        self.most.push(text(most)?);
        self.different.push(integer(different)?);
        for (column, value) in self.numbers.iter_mut().zip(numbers) {
            let value = value.as_primitive_opt::<Float64Type>();
            column.push(value.filter(|v| v.is_valid(0)).map(|v| v.value(0)));
        }
        let valid = integer(valid)?.unwrap_or_default();
        self.counts.push(rows);
        #[expect(clippy::cast_precision_loss, reason = "a share of the rows is rounded")]
        let share = (rows > 0).then(|| 100.0 * (rows - valid) as f64 / rows as f64);
        self.gaps
            .push(share.map(|share| (share * 100.0).round() / 100.0));
        Ok(())
    }

    fn into_batch(self) -> Result<RecordBatch> {
        let [mean, deviation, first, second, third] = self.numbers;
        let number = |values: Vec<Option<f64>>| Arc::new(Float64Array::from(values)) as ArrayRef;
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("column_name", Arc::new(StringArray::from(self.names))),
            ("column_type", Arc::new(StringArray::from(self.types))),
            ("min", Arc::new(StringArray::from(self.least))),
            ("max", Arc::new(StringArray::from(self.most))),
            ("approx_unique", Arc::new(Int64Array::from(self.different))),
            ("avg", number(mean)),
            ("std", number(deviation)),
            ("q25", number(first)),
            ("q50", number(second)),
            ("q75", number(third)),
            ("count", Arc::new(Int64Array::from(self.counts))),
            ("null_percentage", number(self.gaps)),
        ];
        let fields = columns
            .iter()
            .map(|(name, values)| Field::new(*name, values.data_type().clone(), true));
        let schema = Schema::new(fields.collect::<Vec<_>>());
        let columns = columns.into_iter().map(|(_, values)| values);
        Ok(RecordBatch::try_new(Arc::new(schema), columns.collect())?)
    }
}

/// The only value as text.
fn text(values: &ArrayRef) -> Result<Option<String>> {
    if values.is_null(0) {
        return Ok(None);
    }
    let options = datafusion::arrow::util::display::FormatOptions::default();
    let shown = datafusion::arrow::util::display::ArrayFormatter::try_new(values, &options)?;
    Ok(Some(shown.value(0).try_to_string()?))
}

/// The only value as a count.
fn integer(values: &ArrayRef) -> Result<Option<i64>> {
    if values.is_null(0) {
        return Ok(None);
    }
    if let Some(values) = values.as_primitive_opt::<Int64Type>() {
        return Ok(Some(values.value(0)));
    }
    let unsigned: Option<&UInt64Array> = values.as_primitive_opt::<UInt64Type>();
    let value = unsigned.and_then(|values| i64::try_from(values.value(0)).ok());
    value
        .map(Some)
        .ok_or_else(|| exec_datafusion_err!("a count is {}", values.data_type()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_queries_are_summarized() {
        for (sql, expected) in [
            ("SUMMARIZE t;", Some("SELECT * FROM t;")),
            ("summarize './a'", Some("SELECT * FROM './a'")),
            (
                "-- summarize\nSummarize SELECT 1",
                Some("-- summarize\n          SELECT 1"),
            ),
            (
                "/* SUMMARIZE */ SUMMARIZE t",
                Some("/* SUMMARIZE */ SELECT * FROM t"),
            ),
            ("SUMMARIZE (SELECT 1)", Some("          (SELECT 1)")),
            ("SUMMARIZE from t", Some("          from t")),
            ("SELECT summarize", None),
            ("SUMMARIZED", None),
        ] {
            assert_eq!(summarized(sql).as_deref(), expected, "{sql}");
        }
    }

    /// The summary of each column, row by row, as text.
    async fn summary(sql: &str) -> Vec<Vec<String>> {
        let ctx = SessionContext::new();
        crate::register(&ctx).unwrap();
        let frame = crate::execute(&ctx, sql).await.unwrap();
        let batches = frame.collect().await.unwrap();
        let mut rows = Vec::new();
        let options = datafusion::arrow::util::display::FormatOptions::default().with_null("-");
        for batch in batches {
            for row in 0..batch.num_rows() {
                let cells = batch.columns().iter().map(|column| {
                    let shown =
                        datafusion::arrow::util::display::ArrayFormatter::try_new(column, &options);
                    shown.unwrap().value(row).to_string()
                });
                rows.push(cells.collect());
            }
        }
        rows
    }

    #[tokio::test]
    async fn columns_of_all_types_are_summarized() {
        let rows = summary(
            "SUMMARIZE SELECT * FROM (VALUES \
             (1, 1.5::DOUBLE, 'b', true, TIMESTAMP '1969-12-31 23:00:00', [1], arrow_cast('x', 'Dictionary(Int32, Utf8)')), \
             (2, -0.5, NULL, false, TIMESTAMP '2024-01-01 00:00:00', [2, 3], NULL), \
             (3, 2.0, 'é', NULL, NULL, NULL, arrow_cast('y', 'Dictionary(Int32, Utf8)')), \
             (NULL, NULL, '', true, NULL, [1], NULL)) AS t(i, f, s, b, t, l, e)",
        )
        .await;
        // The name, least, most, number of values, mean, count and share of NULL.
        let shown = rows.iter().map(|row| {
            let kept = [0, 2, 3, 4, 5, 10, 11];
            kept.map(|at| row[at].as_str()).join(" ")
        });
        let expected = [
            "i 1 3 3 2.0 4 25.0",
            "f -0.5 2.0 3 1.0 4 25.0",
            "s  é 3 - 4 25.0",
            "b false true 2 - 4 25.0",
            "t 1969-12-31T23:00:00 2024-01-01T00:00:00 2 - 4 50.0",
            "l - - 2 - 4 25.0",
            "e x y 2 - 4 50.0",
        ];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
        // The deviation, and the quartiles, of which only the median of three values is exact.
        let [deviation, first, second, third] = [6, 7, 8, 9].map(|at| rows[0][at].parse::<f64>());
        assert_eq!((deviation, second), (Ok(1.0), Ok(2.0)));
        assert!((1.0..=2.0).contains(&first.unwrap()) && (2.0..=3.0).contains(&third.unwrap()));
    }

    #[tokio::test]
    async fn no_rows_and_no_values_are_summarized() {
        let rows = summary("SUMMARIZE SELECT 1 AS a, NULL AS n, 'x' AS s WHERE false").await;
        assert_eq!(rows.len(), 3);
        for row in &rows {
            assert_eq!(row[10..], ["0", "-"], "{row:?}");
            assert_eq!(row[2..4], ["-", "-"], "{row:?}");
        }
        let nan = summary("summarize select 'NaN'::DOUBLE as f, 9223372036854775807 as i").await;
        assert_eq!(nan[0][2..4], ["NaN", "NaN"]);
        assert_eq!(nan[1][2..4], ["9223372036854775807", "9223372036854775807"]);
    }

    #[tokio::test]
    async fn an_array_is_summarized() {
        let rows = summary("SUMMARIZE './examples/data/weather_stations'").await;
        let wind = rows.iter().find(|row| row[0] == "wind").unwrap();
        assert_eq!(wind[2..4], ["0.1", "25.7"]);
        assert_eq!(wind[10..], ["2000", "3.45"]);
        let error = async |sql: &str| {
            let ctx = SessionContext::new();
            crate::register(&ctx).unwrap();
            crate::execute(&ctx, sql).await.unwrap_err().to_string()
        };
        assert!(error("SUMMARIZE nowhere").await.contains("nowhere"));
        assert!(error("SUMMARIZE").await.contains("Expected"));
        assert!(
            error("SUMMARIZE a; DROP TABLE b")
                .await
                .contains("2 statements")
        );
    }
}
