//! Literals beyond the range of a type, in every place of a statement, at the edges of time zones, and in statements that change
//! arrays.

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{ParamValues, ScalarValue};
use libtest_mimic::Failed;

use super::cases::{NUMBERS, TIMES, YEARS};
use super::{LiteralSession, expect, strict};

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
                let changed = strict(changed.column(0), &DataType::Int64)?
                    .as_primitive::<Int64Type>()
                    .value(0);
                assert_eq!(usize::try_from(changed), Ok(expected.len()), "{sql}");
                let left = if sql.starts_with("DELETE") {
                    (0..6).filter(|id| !expected.contains(id)).collect()
                } else {
                    expected.to_vec()
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
