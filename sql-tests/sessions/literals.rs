//! Literals that are finer, wider, zoned, signed, longer or out of range compare as if the column were cast to their type.
//!
//! The tests compute the expected answer row by row with Arrow's own casts and comparisons, outside of any plan: they cast the
//! column and the literal to their common type. Conditions stand in the SELECT list, in WHERE, and in the WHERE of statements
//! that change arrays. By default, the tests try each column with every third literal, and every ninth condition in WHERE;
//! `LITERALS=each` tries all.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Datum, Scalar};
use datafusion::arrow::compute::kernels::cmp;
use datafusion::arrow::compute::{
    CastOptions, and_kleene, cast_with_options, concat_batches, not, or_kleene,
};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::binary::comparison_coercion;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::to_datafusion_error;
use libtest_mimic::Failed;
use tempfile::TempDir;

use crate::support::trials::SqlTrial;
use crate::{block_on, trial};

/// A kind of column: its name, its SQL type, its type in the array, and its values as texts.
type ColumnCase = (
    &'static str,
    &'static str,
    Option<&'static str>,
    &'static [&'static str],
);

const TIMES: [ColumnCase; 8] = [
    (
        "hours",
        "TIMESTAMP(0)",
        Some("DATETIME_HR"),
        &[
            "1969-12-31T23:00:00",
            "1970-01-01T00:00:00",
            "2024-02-29T00:00:00",
            "2024-02-29T08:00:00",
        ],
    ),
    (
        "seconds",
        "TIMESTAMP(0)",
        None,
        &[
            "1960-02-29T23:59:58",
            "1969-12-31T23:59:59",
            "1970-01-01T00:00:00",
            "2024-02-28T23:00:00",
            "2024-02-29T00:00:00",
            "2024-02-29T00:00:01",
        ],
    ),
    (
        "milliseconds",
        "TIMESTAMP(3)",
        None,
        &[
            "1969-12-31T23:59:59.5",
            "1969-12-31T23:59:59.499",
            "2024-02-29T00:00:00.25",
            "2024-02-29T00:00:00.5",
        ],
    ),
    (
        "microseconds",
        "TIMESTAMP(6)",
        None,
        &[
            "1969-12-31T23:59:59.999999",
            "2024-02-29T00:00:00",
            "2024-02-29T00:00:00.5",
        ],
    ),
    (
        "nanoseconds",
        "TIMESTAMP",
        None,
        &[
            "1969-12-31T23:59:59.5",
            "2024-02-29T00:00:00.000000001",
            "2024-02-29T00:00:00.5",
        ],
    ),
    (
        "days",
        "DATE",
        None,
        &[
            "1960-02-29",
            "1969-12-31",
            "1970-01-01",
            "2024-02-28",
            "2024-02-29",
        ],
    ),
    (
        "months",
        "DATE",
        Some("DATETIME_MONTH"),
        &["1969-12-01", "2024-02-01", "2024-03-01"],
    ),
    (
        "of_day",
        "TIME",
        None,
        &["00:00:00", "12:00:00", "12:00:00.000000001"],
    ),
];

const TIME_LITERALS: [&str; 13] = [
    "TIMESTAMP '2024-02-29T00:00:00.5'",
    "TIMESTAMP '2024-02-29T00:00:00'",
    "TIMESTAMP '1969-12-31T23:59:59.5'",
    "TIMESTAMP '1969-12-31T23:59:59.999999999'",
    "'2024-02-29T00:00:00.000000001'",
    "'1969-12-31T23:59:59.5'",
    "CAST('2024-02-29T00:00:00.5' AS TIMESTAMP(3))",
    "to_timestamp('2024-02-29T00:00:00.25')",
    "TIMESTAMP '2024-02-29' + INTERVAL '0.5 seconds'",
    "DATE '2024-02-29'",
    "CAST(NULL AS TIMESTAMP)",
    "TIME '12:00:00.000000001'",
    "arrow_cast('12:00:00', 'Time32(Second)')",
];

const ZONED_LITERALS: [&str; 5] = [
    "TIMESTAMPTZ '2024-02-29T00:00:00Z'",
    "TIMESTAMPTZ '2024-02-29T00:00:00.5'",
    "TIMESTAMPTZ '1970-01-01T00:59:59.5+01:00'",
    "arrow_cast('2024-02-29T00:00:00', 'Timestamp(Microsecond, Some(\"Europe/Oslo\"))')",
    "arrow_cast('2024-02-29T05:30:00.5', 'Timestamp(Millisecond, Some(\"+05:30\"))')",
];

const NUMBERS: [ColumnCase; 10] = [
    ("i8", "TINYINT", None, &["-128", "-7", "5", "100", "126"]),
    ("i16", "SMALLINT", None, &["-32768", "-7", "5", "256"]),
    ("i32", "INT", None, &["-2147483648", "5", "70000"]),
    (
        "i64",
        "BIGINT",
        None,
        &["-9223372036854775807", "5", "9007199254740993"],
    ),
    ("u8", "TINYINT UNSIGNED", None, &["0", "5", "254"]),
    ("u16", "SMALLINT UNSIGNED", None, &["0", "5", "256"]),
    ("u32", "INT UNSIGNED", None, &["0", "5", "3000000000"]),
    (
        "u64",
        "BIGINT UNSIGNED",
        None,
        &["0", "5", "9223372036854775808"],
    ),
    ("f32", "REAL", None, &["-0.5", "2.5", "16777216", "0.1"]),
    (
        "f64",
        "DOUBLE",
        None,
        &["-0.5", "2.5", "0.1", "9007199254740992"],
    ),
];

const NUMBER_LITERALS: [&str; 17] = [
    "5",
    "-7",
    "-1",
    "128",
    "256",
    "70000",
    "3000000000",
    "9223372036854775807",
    "9223372036854775808",
    "2.5",
    "-0.5",
    "0.1",
    "arrow_cast('2.50', 'Decimal128(5, 2)')",
    "arrow_cast('5.00', 'Decimal128(20, 2)')",
    "arrow_cast(5, 'UInt64')",
    "arrow_cast(-7, 'Int8')",
    "'5'",
];

const TEXTS: [ColumnCase; 3] = [
    ("text", "VARCHAR", None, &["", "ab", "abc", "b", "ä"]),
    ("bytes", "BYTEA", None, &["ab", "abc", "b"]),
    ("truth", "BOOLEAN", None, &["false", "true"]),
];

const TEXT_LITERALS: [&str; 6] = [
    "'ab'",
    "'ab '",
    "'abcabcabcabcabcabcabcabcabc'",
    "arrow_cast('b', 'LargeUtf8')",
    "arrow_cast('b', 'Dictionary(Int8, Utf8)')",
    "''",
];

const YEARS: &[&str] = &["1500-01-01", "2024-02-29", "2300-01-01", "3000-01-01"];

const OPERATORS: [&str; 8] = [
    "=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "IS DISTINCT FROM",
    "IS NOT DISTINCT FROM",
];

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

trial!(beyond_nanoseconds);
/// Tests years beyond the range of nanoseconds.
async fn beyond_nanoseconds() -> std::result::Result<(), Failed> {
    let world = LiteralSession::new(None).await?;
    for (name, sql) in [
        ("seconds", "TIMESTAMP(0)"),
        ("microseconds", "TIMESTAMP(6)"),
        ("days", "DATE"),
    ] {
        world.create(name, (name, sql, None, YEARS), false).await?;
        for column in ["d", "a"] {
            if column == "a" && name != "seconds" {
                continue;
            }
            for (literal, below, equal) in [
                ("TIMESTAMP '1500-01-01'", 0, true),
                ("TIMESTAMP '1500-01-01T00:00:00.5'", 1, false),
                ("TIMESTAMP '2024-02-29'", 1, true),
                ("TIMESTAMP '2024-02-28T23:59:59.999999999'", 1, false),
                ("DATE '2300-01-01'", 2, true),
                ("TIMESTAMP '3000-01-01'", 3, true),
                ("TIMESTAMP '9999-12-31T23:59:59.5'", 4, false),
                ("TIMESTAMPTZ '1500-01-01T00:00:00Z'", 0, true),
            ] {
                if sql == "DATE" && literal.starts_with("TIMESTAMPTZ") {
                    continue;
                }
                let texts = [
                    literal.to_owned(),
                    literal.trim_start_matches(|c: char| c != '\'').to_owned(),
                ];
                // A date written as text has no time of day.
                let texts = &texts[..if sql == "DATE" || column == "a" || literal.contains('Z') {
                    1
                } else {
                    2
                }];
                for literal in texts {
                    let (first, second) = (0..below, below + i64::from(equal)..4);
                    let all = |range: std::ops::Range<i64>| range.collect::<Vec<_>>();
                    let only = all(below..below + i64::from(equal));
                    for (operator, expected) in [
                        ("=", only.clone()),
                        ("<", all(first.clone())),
                        ("<=", all(0..second.start)),
                        (">", all(second.clone())),
                        (">=", all(below..4)),
                        ("<>", [all(first), all(second)].concat()),
                    ] {
                        let sql =
                            format!("SELECT id FROM {name} WHERE {column} {operator} {literal}");
                        expect(&world, &sql, &expected).await?;
                    }
                    if literal.contains("TZ") {
                        continue;
                    }
                    let list = format!(
                        "SELECT id FROM {name} WHERE {column} IN ({literal}, {literal}, TIMESTAMP '1400-01-01', TIMESTAMP '1401-01-01')"
                    );
                    expect(&world, &list, &only).await?;
                }
            }
        }
    }
    // Nanoseconds are never out of their own range.
    world.create("nanoseconds", TIMES[4], false).await?;
    expect(&world, "SELECT id FROM nanoseconds WHERE d > TIMESTAMP '1500-01-01' AND a < TIMESTAMP '3000-01-01'", &[0, 1, 2]).await?;
    expect(&world, "SELECT id FROM nanoseconds WHERE d = TIMESTAMP '1500-01-01' OR a NOT BETWEEN '1500-01-01' AND '3000-01-01'", &[]).await?;
    for sql in [
        "UPDATE seconds SET a = TIMESTAMP '1500-01-02' WHERE id = 1",
        "INSERT INTO seconds (d, id, a) VALUES ('1400-01-01', 9, '1600-01-01')",
    ] {
        world
            .ctx
            .sql(sql)
            .await?
            .collect()
            .await
            .map_err(|error| format!("{sql}: {error}"))?;
    }
    expect(&world, "SELECT id FROM seconds WHERE a = TIMESTAMP '1500-01-02' OR d = '1400-01-01' AND a = '1600-01-01'", &[1, 9]).await
}

trial!(wherever_they_stand);
/// Tests expressions that become literals only while the plan is optimized, and literals that don't end up in a condition of a
/// scan.
async fn wherever_they_stand() -> std::result::Result<(), Failed> {
    let world = LiteralSession::new(None).await?;
    world.create("t", TIMES[1], false).await?;
    let half = "TIMESTAMP '2024-02-29T00:00:00.5'";
    for query in [
        "SELECT id FROM t WHERE d = coalesce(HALF, d)",
        "SELECT id FROM t WHERE d = CASE WHEN id >= 0 OR id < 0 THEN HALF ELSE d END",
        "SELECT id FROM (SELECT id, d, HALF AS z FROM t) WHERE d = z",
        "SELECT id FROM t JOIN (VALUES (HALF)) v(z) ON d = z",
        "SELECT id FROM t JOIN (SELECT HALF AS z) ON a = z",
        "SELECT id FROM t WHERE d = (SELECT HALF)",
        "SELECT id FROM t WHERE d IN (SELECT HALF)",
        "SELECT id FROM t WHERE NOT (d <> HALF)",
        "SELECT id FROM t WHERE CASE d WHEN HALF THEN true ELSE false END",
        "SELECT id FROM t WHERE nullif(d, HALF) IS NULL",
        "SELECT max(id) FROM t HAVING max(d) = HALF OR count(*) FILTER (WHERE a = HALF) > 0",
        "SELECT id FROM t o WHERE EXISTS (SELECT 1 FROM t i WHERE i.id = o.id AND o.d = HALF)",
        "SELECT id FROM t WHERE CAST(d AS TIMESTAMP(3)) = HALF",
        "SELECT id FROM t WHERE TRY_CAST(a AS TIMESTAMP) = HALF",
        "SELECT id FROM t WHERE date_trunc('second', d) = HALF",
        "SELECT t.id FROM t JOIN t u ON t.d = u.d AND t.d = HALF",
        "SELECT t.id FROM t LEFT JOIN t u ON t.d = HALF WHERE u.id IS NOT NULL",
        "SELECT id FROM t WHERE array_has([HALF], d)",
        "SELECT id FROM (SELECT id, d FROM t UNION ALL SELECT 7, TIMESTAMP '2024-01-01' - INTERVAL '1 hour') WHERE d = HALF",
    ] {
        expect(&world, &query.replace("HALF", half), &[]).await?;
    }
    let value = ScalarValue::TimestampMillisecond(Some(1_709_164_800_500), None);
    let prepared = world
        .ctx
        .sql("SELECT id FROM t WHERE d <= $1 AND d <> $1")
        .await?;
    let rows = prepared
        .with_param_values(ParamValues::from(vec![value]))?
        .collect()
        .await?;
    let found = rows.iter().map(RecordBatch::num_rows).sum::<usize>();
    assert_eq!(found, 5, "prepared");
    // The column's name doesn't show how the condition was rewritten.
    let named = world
        .rows(&format!("SELECT d = {half}, CAST(d AS TIMESTAMP) FROM t"))
        .await?;
    let schema = named.schema();
    assert_eq!(schema.field(1).name(), "t.d");
    assert!(
        schema.field(0).name().starts_with("t.d = "),
        "{}",
        schema.field(0).name()
    );
    Ok(())
}

trial!(clocks_turned_back);
/// In Oslo, clocks showed 02:30 twice on 2024-10-27, and never on 2024-03-31. Arrow has no instant for either.
async fn clocks_turned_back() -> std::result::Result<(), Failed> {
    let world = LiteralSession::new(Some("Europe/Oslo")).await?;
    let values = &[
        "2024-03-31T01:59:59",
        "2024-03-31T03:00:00",
        "2024-10-27T01:30:00",
        "2024-10-27T03:30:00",
    ];
    world
        .create("t", ("t", "TIMESTAMP(0)", None, values), false)
        .await?;
    for column in ["d", "a"] {
        for (condition, expected) in [
            ("< TIMESTAMPTZ '2024-03-31T01:00:00Z'", &[0][..]),
            (">= TIMESTAMPTZ '2024-03-31T01:00:00Z'", &[1, 2, 3]),
            ("= TIMESTAMPTZ '2024-03-31T00:59:59Z'", &[0]),
            ("= TIMESTAMPTZ '2024-03-31T00:59:59.5Z'", &[]),
            ("<= TIMESTAMPTZ '2024-10-27T00:30:00Z'", &[0, 1, 2]),
            ("> TIMESTAMPTZ '2024-10-27T01:30:00Z'", &[3]),
            (
                "IN (TIMESTAMPTZ '2024-10-27T02:30:00Z', TIMESTAMPTZ '2024-10-26T23:30:00Z')",
                &[2, 3],
            ),
            (
                "BETWEEN TIMESTAMPTZ '2024-03-31T01:00:00Z' AND TIMESTAMPTZ '2024-10-27T00:30:00Z'",
                &[1, 2],
            ),
        ] {
            expect(
                &world,
                &format!("SELECT id FROM t WHERE {column} {condition}"),
                expected,
            )
            .await?;
        }
    }
    world
        .ctx
        .sql("INSERT INTO t (d, id, a) VALUES ('2024-10-27T02:30:00', 9, '2024-10-27T02:30:00')")
        .await?
        .collect()
        .await?;
    // A scan that needs no row of that hour doesn't fail over the ambiguity.
    expect(
        &world,
        "SELECT id FROM t WHERE d < TIMESTAMPTZ '2024-03-31T01:00:00Z'",
        &[0],
    )
    .await?;
    let twice = "SELECT id FROM t WHERE d = TIMESTAMPTZ '2024-10-27T00:30:00Z'";
    let error = world.numbers(twice).await.unwrap_err();
    assert!(
        error.to_string().contains("Cannot cast timezone"),
        "{error}"
    );
    Ok(())
}

trial!(casts_that_lose_something);
/// Casts that map several values to one, or to NULL, aren't moved to the literal.
async fn casts_that_lose_something() -> std::result::Result<(), Failed> {
    let world = LiteralSession::new(None).await?;
    world.create("t", NUMBERS[3], false).await?;
    world.create("f", NUMBERS[9], false).await?;
    world.create("s", TIMES[1], false).await?;
    for (sql, expected) in [
        (
            "SELECT id FROM t WHERE TRY_CAST(d AS TINYINT) <> 4",
            &[1][..],
        ),
        (
            "SELECT id FROM t WHERE TRY_CAST(a AS TINYINT UNSIGNED) IS DISTINCT FROM 5",
            &[0, 2],
        ),
        // Arrow cuts the digits off.
        (
            "SELECT id FROM f WHERE CAST(CAST(a AS DECIMAL(20, 2)) AS BIGINT) = 2",
            &[1],
        ),
        (
            "SELECT id FROM s WHERE CAST(CAST(d AS TIMESTAMPTZ) AS TIMESTAMP) = TIMESTAMP '2024-02-29T00:00:00.5'",
            &[],
        ),
    ] {
        expect(&world, sql, expected).await?;
    }
    Ok(())
}

trial!(in_changes);
/// DELETE, UPDATE and MERGE change the rows that SELECT shows. The condition that a DELETE stores selects the same rows for
/// other readers.
async fn in_changes() -> std::result::Result<(), Failed> {
    let world = LiteralSession::new(None).await?;
    let half = "TIMESTAMP '2024-02-29T00:00:00.5'";
    let old = "'1969-12-31T23:59:59.5'";
    let mut number = 0;
    for column in ["d", "a"] {
        for (condition, expected) in [
            (format!("= {half}"), &[][..]),
            (format!("< {half}"), &[0, 1, 2, 3, 4]),
            (format!(">= {half}"), &[5]),
            (format!("> {old}"), &[2, 3, 4, 5]),
            (format!("<= {old}"), &[0, 1]),
            (format!("<> {half}"), &[0, 1, 2, 3, 4, 5]),
            (
                format!("IN ({half}, {old}, TIMESTAMP '2024-02-29', DATE '1970-01-01')"),
                &[2, 4],
            ),
            (format!("BETWEEN {old} AND {half}"), &[2, 3, 4]),
        ] {
            number += 1;
            if column == "a" && number % 2 == 0 {
                continue;
            }
            let name = format!("t{number}");
            world.create(&name, TIMES[1], false).await?;
            for sql in [
                format!("UPDATE {name} SET hit = 1 WHERE {column} {condition}"),
                format!(
                    "MERGE INTO {name} USING (SELECT 1 AS one) s ON {name}.{column} {condition} WHEN MATCHED THEN UPDATE SET hit = hit + one"
                ),
                format!("DELETE FROM {name} WHERE {column} {condition}"),
            ] {
                let changed = world
                    .rows(&sql)
                    .await
                    .map_err(|error| format!("{sql}: {error}"))?;
                let changed = strict(changed.column(0), &DataType::Int64)?;
                let changed = changed.as_primitive::<Int64Type>().value(0);
                assert_eq!(usize::try_from(changed), Ok(expected.len()), "{sql}");
                let left = match sql.starts_with("DELETE") {
                    true => (0..6).filter(|id| !expected.contains(id)).collect(),
                    false => expected.to_vec(),
                };
                let shown = match sql.split(' ').next() {
                    Some("DELETE") => "true",
                    Some("UPDATE") => "hit = 1",
                    _ => "hit = 2",
                };
                expect(
                    &world,
                    &format!("SELECT id FROM {name} WHERE {shown}"),
                    &left,
                )
                .await?;
            }
        }
    }
    Ok(())
}
