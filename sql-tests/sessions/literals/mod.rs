//! Literals that are finer, wider, zoned, signed, longer or out of range compare as if the column were cast to their type.
//!
//! The tests compute the expected answer row by row with Arrow's own casts and comparisons, outside of any plan: they cast the
//! column and the literal to their common type. Conditions stand in the SELECT list, in WHERE, and in the WHERE of statements
//! that change arrays. By default, the tests try each column with every third literal, and every ninth condition in WHERE;
//! `LITERALS=each` tries all.

mod cases;
mod edges;

use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Datum, Scalar};
use datafusion::arrow::compute::kernels::cmp;
use datafusion::arrow::compute::{
    CastOptions, and_kleene, cast_with_options, concat_batches, not, or_kleene,
};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::binary::comparison_coercion;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::to_datafusion_error;
use libtest_mimic::Failed;
use tempfile::TempDir;

use self::cases::{
    ColumnCase, NUMBER_LITERALS, NUMBERS, OPERATORS, TEXT_LITERALS, TEXTS, TIME_LITERALS, TIMES,
    ZONED_LITERALS,
};
use crate::support::trials::SqlTrial;
use crate::{block_on, trial};

trials!(times_in_each_zone());

fn times_in_each_zone() -> Vec<SqlTrial> {
    let zones = [
        None,
        Some("Asia/Singapore"),
        Some("Europe/Oslo"),
        Some("+05:30"),
    ];
    let trials = zones.map(|zone| {
        let name = format!("times_in_{}", zone.unwrap_or("no_zone"));
        let literals = zone.map_or(&TIME_LITERALS[..], |_| &TIME_LITERALS[7..8]);
        let literals = [literals, &ZONED_LITERALS[..]].concat();
        trial(name, move || block_on(agree(&TIMES, &literals, zone)))
    });
    trials.into()
}

trial!(numbers);
async fn numbers() -> std::result::Result<(), Failed> {
    agree(&NUMBERS, &NUMBER_LITERALS, None).await
}

trial!(texts);
async fn texts() -> std::result::Result<(), Failed> {
    agree(&TEXTS[..2], &TEXT_LITERALS, None).await?;
    agree(&TEXTS[2..], &["true", "'true'", "'false'"], None).await
}

struct LiteralSession {
    ctx: SessionContext,
    folder: TempDir,
}

impl LiteralSession {
    async fn new(zone: Option<&str>) -> Result<Self> {
        let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
        datafusion_tiledb::register(&ctx).map_err(to_datafusion_error)?;
        if let Some(zone) = zone {
            ctx.sql(&format!("SET datafusion.execution.time_zone = '{zone}'"))
                .await?;
        }
        Ok(Self {
            ctx,
            folder: tempfile::tempdir()?,
        })
    }

    async fn rows(&self, sql: &str) -> Result<RecordBatch> {
        let frame = self.ctx.sql(sql).await?;
        let schema = Arc::new(frame.schema().as_arrow().clone());
        let batches = frame.collect().await?;
        let schema = batches.first().map_or(schema, RecordBatch::schema);
        Ok(concat_batches(&schema, &batches)?)
    }

    /// The first column of a query, sorted.
    async fn numbers(&self, sql: &str) -> Result<Vec<i64>> {
        let rows = self.rows(sql).await?;
        let mut found = rows.column(0).as_primitive::<Int64Type>().values().to_vec();
        found.sort_unstable();
        Ok(found)
    }

    /// Creates the table `name` with the dimension `d`, if dimensions can have the type, the attribute `a`, and the row numbers
    /// `id`. If `a` is nullable, row 0 has NULL in it.
    async fn create(
        &self,
        name: &str,
        (_, sql, stored, values): ColumnCase,
        nullable: bool,
    ) -> Result<()> {
        let has_dimension = !matches!(sql, "BYTEA" | "BOOLEAN");
        let (d, key) = if has_dimension {
            (format!("d {sql},"), "d, id")
        } else {
            (String::new(), "id")
        };
        let null = if nullable { "" } else { "NOT NULL" };
        let location = self.folder.path().join(name);
        let mut create = format!(
            "CREATE EXTERNAL TABLE {name} ({d} id BIGINT, a {sql} {null}, hit INT, PRIMARY KEY ({key})) STORED AS TILEDB LOCATION '{}'",
            location.display()
        );
        if let Some(stored) = stored {
            write!(
                create,
                " OPTIONS ('tiledb.dim.d.type' '{stored}', 'tiledb.attr.a.type' '{stored}')"
            )
            .unwrap();
        }
        self.ctx.sql(&create).await?.collect().await?;
        let values = values.iter().enumerate().map(|(id, value)| {
            let value = format!("CAST('{value}' AS {sql})");
            let d = if has_dimension {
                format!("{value}, ")
            } else {
                String::new()
            };
            let a = if nullable && id == 0 {
                format!("CAST(NULL AS {sql})")
            } else {
                value
            };
            format!("({d}{id}, {a}, NULL)")
        });
        let insert = format!(
            "INSERT INTO {name} VALUES {}",
            values.collect::<Vec<_>>().join(", ")
        );
        self.ctx.sql(&insert).await?.collect().await?;
        Ok(())
    }
}

/// A condition and its answer for each row.
struct ExpectedAnswers {
    condition: String,
    answers: BooleanArray,
}

fn strict(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    Ok(cast_with_options(
        array,
        to,
        &CastOptions {
            safe: false,
            ..Default::default()
        },
    )?)
}

fn compared(operator: &str, left: &dyn Datum, right: &dyn Datum) -> Result<BooleanArray> {
    Ok(match operator {
        "=" => cmp::eq(left, right)?,
        "<>" => cmp::neq(left, right)?,
        "<" => cmp::lt(left, right)?,
        "<=" => cmp::lt_eq(left, right)?,
        ">" => cmp::gt(left, right)?,
        ">=" => cmp::gt_eq(left, right)?,
        "IS DISTINCT FROM" => cmp::distinct(left, right)?,
        _ => cmp::not_distinct(left, right)?,
    })
}

/// The conditions that compare a column with a literal; none if the two can't be compared.
fn conditions(
    name: &str,
    column: &ArrayRef,
    literal: &str,
    value: &ArrayRef,
) -> Result<Vec<ExpectedAnswers>> {
    let Some(common) = comparison_coercion(column.data_type(), value.data_type()) else {
        return Ok(Vec::new());
    };
    let wide = strict(column, &common)?;
    let constant = Scalar::new(strict(value, &common)?);
    let says = |operator: &str| compared(operator, &wide, &constant);
    let mut conditions = Vec::new();
    for operator in OPERATORS {
        conditions.push(ExpectedAnswers {
            condition: format!("{name} {operator} {literal}"),
            answers: says(operator)?,
        });
        let swapped = match operator {
            "<" => ">",
            "<=" => ">=",
            ">" => "<",
            ">=" => "<=",
            other => other,
        };
        conditions.push(ExpectedAnswers {
            condition: format!("{literal} {operator} {name}"),
            answers: says(swapped)?,
        });
    }
    // A value of the column's own type, written so that it keeps this type.
    let own = ScalarValue::try_from_array(column, column.len() - 1)?;
    let last = Scalar::new(strict(&column.slice(column.len() - 1, 1), &common)?);
    let own = match column.data_type() {
        DataType::Utf8View | DataType::BinaryView | DataType::Boolean => return Ok(conditions),
        data_type if data_type.is_numeric() => format!("arrow_cast({own}, '{data_type:?}')"),
        data_type => {
            let text = strict(&own.to_array()?, &DataType::Utf8)?;
            format!(
                "arrow_cast('{}', '{data_type:?}')",
                text.as_string::<i32>().value(0)
            )
        }
    };
    let is_last = compared("=", &wide, &last)?;
    let among = or_kleene(&says("=")?, &is_last)?;
    let list = format!("({own}, {literal}, {own}, {literal})");
    conditions.push(ExpectedAnswers {
        condition: format!("{name} NOT IN {list}"),
        answers: not(&among)?,
    });
    conditions.push(ExpectedAnswers {
        condition: format!("{name} IN {list}"),
        answers: among,
    });
    let between = and_kleene(&says(">=")?, &compared("<=", &wide, &last)?)?;
    let range = format!("{literal} AND {own}");
    conditions.push(ExpectedAnswers {
        condition: format!("{name} NOT BETWEEN {range}"),
        answers: not(&between)?,
    });
    conditions.push(ExpectedAnswers {
        condition: format!("{name} BETWEEN {range}"),
        answers: between,
    });
    Ok(conditions)
}

fn ids(ids: &ArrayRef, answers: &BooleanArray) -> Vec<i64> {
    let ids = ids.as_primitive::<Int64Type>().values();
    let holds = answers
        .iter()
        .zip(ids)
        .filter(|(holds, _)| *holds == Some(true));
    let mut found = holds.map(|(_, id)| *id).collect::<Vec<_>>();
    found.sort_unstable();
    found
}

async fn agree(
    columns: &[ColumnCase],
    literals: &[&str],
    zone: Option<&str>,
) -> std::result::Result<(), Failed> {
    let each = std::env::var("LITERALS").is_ok_and(|how| how == "each");
    let world = LiteralSession::new(zone).await?;
    let (mut number, mut wrong) = (0, String::new());
    for (turn, column) in columns.iter().enumerate() {
        let (name, ..) = *column;
        world.create(name, *column, true).await?;
        let rows = world
            .rows(&format!("SELECT * FROM {name} ORDER BY id"))
            .await?;
        let id = rows.column_by_name("id").unwrap();
        for (index, literal) in literals.iter().enumerate() {
            if !each && (turn + index) % 3 != 0 {
                continue;
            }
            let value = world.rows(&format!("SELECT {literal} AS l")).await?;
            let mut expected = Vec::new();
            for shown in ["d", "a"] {
                if let Some(values) = rows.column_by_name(shown) {
                    // Literals that can't be cast at all aren't compared here.
                    expected.extend(
                        conditions(shown, values, literal, value.column(0)).unwrap_or_default(),
                    );
                }
            }
            if expected.is_empty() {
                continue;
            }
            let list = expected.iter().enumerate();
            let list = list.map(|(number, one)| format!("({}) AS c{number}", one.condition));
            let list = list.collect::<Vec<_>>().join(", ");
            let listed = world
                .rows(&format!("SELECT id, {list} FROM {name} ORDER BY id"))
                .await?;
            let order = id.as_primitive::<Int64Type>();
            for (index, one) in expected.iter().enumerate() {
                let found = listed.column(index + 1).as_boolean();
                let same = (0..order.len()).all(|row| {
                    let at = usize::try_from(order.value(row)).unwrap();
                    let value =
                        |array: &BooleanArray, row| array.is_valid(row).then(|| array.value(row));
                    value(found, at) == value(&one.answers, row)
                });
                if !same {
                    writeln!(
                        wrong,
                        "{name}, {zone:?}: {} in SELECT: {found:?}, expected {:?} of {order:?}",
                        one.condition, one.answers
                    )
                    .unwrap();
                }
                number += 1;
                if each || number % 9 == 0 {
                    let found = world
                        .numbers(&format!("SELECT id FROM {name} WHERE {}", one.condition))
                        .await?;
                    let expected = ids(id, &one.answers);
                    if found != expected {
                        writeln!(
                            wrong,
                            "{name}, {zone:?}: WHERE {}: {found:?}, expected {expected:?}",
                            one.condition
                        )
                        .unwrap();
                    }
                }
            }
        }
    }
    assert!(number > 10, "{number} conditions");
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.into())
    }
}

/// Runs a query and compares its rows.
async fn expect(
    world: &LiteralSession,
    sql: &str,
    expected: &[i64],
) -> std::result::Result<(), Failed> {
    let found = world
        .numbers(sql)
        .await
        .map_err(|error| format!("{sql}: {error}"))?;
    if found != expected {
        return Err(format!("{sql}: {found:?}, expected {expected:?}").into());
    }
    Ok(())
}
