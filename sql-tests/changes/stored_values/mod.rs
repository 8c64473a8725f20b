//! Values that statements store in columns: no NULL gets into a NOT NULL column, no value changes unless the statement casts
//! it, and omitted columns have their defaults.

mod nulls;

use datafusion_tiledb::Array;
use libtest_mimic::Failed;

use crate::support::session_folder::SessionFolder;
use crate::support::trials::SqlTrial;
use crate::{block_on, trial};

trials!(losses());

fn losses() -> Vec<SqlTrial> {
    let ways = WAYS.iter().enumerate().map(|(number, way)| {
        let name = format!("lossy_{number}");
        trial(name, move || block_on(nothing_is_lost(way)))
    });
    ways.collect()
}

trial!(kept_numbers_in_dense_boxes);
/// If a statement writes a dense box, the cells between the given ones keep their stored numbers: NaT in an attribute whose
/// fill value is another date, and a code that the enumeration doesn't have.
async fn kept_numbers_in_dense_boxes() -> Result<(), Failed> {
    let desk = SessionFolder::open()?;
    let create = |name: &str, not_null: &str| {
        format!(
            "CREATE EXTERNAL TABLE {name} (x INT, d DATE {not_null} DEFAULT '1999-12-31', e VARCHAR {not_null}, a INT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '$DESK/{name}' \
             OPTIONS ('tiledb.array_type' 'dense', 'tiledb.dim.x.domain' '[1, 4]', 'tiledb.dim.x.tile' '4', 'tiledb.attr.e.enumeration' '[\"a\", \"b\"]', 'tiledb.attr.e.fill' '1')"
        )
    };
    desk.run(&create("t", "NOT NULL")).await?;
    desk.run("INSERT INTO t VALUES (1, '2020-01-01', 'a', 1), (2, '2020-01-02', 'a', 2), (3, '2020-01-03', 'a', 3), (4, '2020-01-04', 'a', 4)").await?;
    desk.run("INSERT INTO t VALUES (1, '2021-01-01', 'b', 10), (3, '2021-01-03', 'b', 30)")
        .await?;
    let shown = desk.shown("SELECT * FROM t ORDER BY x").await?;
    let expected = "\
+---+------------+---+----+
| x | d          | e | a  |
+---+------------+---+----+
| 1 | 2021-01-01 | b | 10 |
| 2 | 2020-01-02 | a | 2  |
| 3 | 2021-01-03 | b | 30 |
| 4 | 2020-01-04 | a | 4  |
+---+------------+---+----+";
    if shown == expected {
        Ok(())
    } else {
        Err(shown.into())
    }
}

/// A form of statement that stores a value in the column `v`.
struct AssignmentForm {
    /// The statements; `$VALUE` stands for the value, `$FROM` for a table whose column `v` holds it.
    statement: &'static str,
    /// Whether the value is an expression, which can be written as a CAST.
    written: bool,
}

const WAYS: [AssignmentForm; 8] = [
    AssignmentForm {
        statement: "INSERT INTO t VALUES (2, $VALUE)",
        written: true,
    },
    AssignmentForm {
        statement: "INSERT INTO t SELECT 2, $VALUE",
        written: true,
    },
    AssignmentForm {
        statement: "INSERT INTO t SELECT 2, v FROM $FROM",
        written: false,
    },
    AssignmentForm {
        statement: "INSERT INTO t (v, k) SELECT v, 2 FROM $FROM WHERE v IS NOT NULL",
        written: false,
    },
    AssignmentForm {
        statement: "UPDATE t SET v = $VALUE WHERE k = 1",
        written: true,
    },
    AssignmentForm {
        statement: "UPDATE t SET v = (SELECT max(v) FROM $FROM) WHERE k = 1",
        written: false,
    },
    AssignmentForm {
        statement: "MERGE INTO t USING (SELECT 2 AS k, v AS w FROM $FROM) s ON t.k = s.k WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.w)",
        written: false,
    },
    AssignmentForm {
        statement: "MERGE INTO t USING (SELECT 1 AS k) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = $VALUE",
        written: true,
    },
];

/// A column's type, a value of another type that it can't hold, and a value that it can hold, with its stored form.
const LOSSY: [(&str, &str, &str); 28] = [
    ("INT", "78.5", "78.0"),
    (
        "INT",
        "CAST(2.5 AS DECIMAL(3, 1))",
        "CAST(2.0 AS DECIMAL(3, 1))",
    ),
    ("INT", "3000000000", "-2147483648"),
    ("INT", "'7.5'", "'7'"),
    ("TINYINT", "200", "-128"),
    ("TINYINT", "CAST(200 AS SMALLINT)", "CAST(100 AS SMALLINT)"),
    ("SMALLINT UNSIGNED", "-1", "65535"),
    (
        "BIGINT",
        "CAST(9223372036854775808 AS BIGINT UNSIGNED)",
        "CAST(9223372036854775807 AS BIGINT UNSIGNED)",
    ),
    ("BIGINT", "CAST(1e19 AS DOUBLE)", "CAST(1e18 AS DOUBLE)"),
    ("BIGINT UNSIGNED", "-0.5", "-0.0"),
    ("BIGINT", "CAST('NaN' AS DOUBLE)", "CAST(-3 AS REAL)"),
    ("DOUBLE", "9007199254740993", "9007199254740994"),
    ("REAL", "16777217", "16777218"),
    ("REAL", "CAST(1e300 AS DOUBLE)", "CAST(0.1 AS DOUBLE)"),
    ("REAL", "'1e39'", "'-inf'"),
    ("REAL", "CAST(-1e300 AS DOUBLE)", "CAST('NaN' AS DOUBLE)"),
    ("BOOLEAN", "2", "1"),
    (
        "DATE",
        "TIMESTAMP '2020-01-01 12:00:00'",
        "TIMESTAMP '2020-01-01 00:00:00'",
    ),
    ("DATE", "'2020-01-01 12:00:00'", "'2020-01-01'"),
    (
        "TIMESTAMP(0)",
        "TIMESTAMP '1969-12-31 23:59:59.5'",
        "TIMESTAMP '1969-12-31 23:59:59'",
    ),
    (
        "TIMESTAMP(0)",
        "'2020-01-01 00:00:00.5'",
        "'2020-01-01 00:00:00.000'",
    ),
    (
        "TIMESTAMP(3)",
        "TIMESTAMP '2020-01-01 00:00:00.0001'",
        "TIMESTAMP '2020-01-01 00:00:00.001'",
    ),
    (
        "TIMESTAMP(6)",
        "'2020-01-01 00:00:00.1234567'",
        "'2020-01-01 00:00:00.1234560'",
    ),
    ("TIMESTAMP", "DATE '5000-01-01'", "DATE '2020-01-01'"),
    (
        "TIMESTAMP",
        "CAST('5000-01-01' AS TIMESTAMP(0))",
        "CAST('2020-01-01' AS TIMESTAMP(0))",
    ),
    (
        "TIME",
        "TIMESTAMP '2020-01-01 12:00:00'",
        "'12:00:00.123456789'",
    ),
    ("INT[]", "[1.0, 2.5]", "[1.0, 2.0]"),
    ("REAL[2]", "[1.0, 1e300]", "[0.1, 2.0]"),
];

async fn nothing_is_lost(way: &AssignmentForm) -> Result<(), Failed> {
    let desk = SessionFolder::open()?;
    for (number, (ty, lossy, exact)) in LOSSY.iter().enumerate() {
        let create = format!(
            "CREATE OR REPLACE EXTERNAL TABLE t (k INT NOT NULL, v {ty}, PRIMARY KEY (k)) STORED AS TILEDB LOCATION '$DESK/t{number}'"
        );
        desk.run(&create).await?;
        desk.run("INSERT INTO t (k) VALUES (1)").await?;
        let of = |value: &str| {
            let from = format!("(SELECT {value} AS v) f");
            way.statement
                .replace("$FROM", &from)
                .replace("$VALUE", value)
        };
        // DataFusion has no greatest list.
        if ty.contains('[') && way.statement.contains("max") {
            continue;
        }
        desk.refused(&of(lossy), &[])
            .await
            .map_err(|e| format!("{ty}: {e}"))?;
        let nothing = desk.number("SELECT count(v) FROM t").await?;
        if nothing != 0 {
            return Err(format!("{ty}: {} left something behind", of(lossy)).into());
        }
        desk.run(&of(exact))
            .await
            .map_err(|e| format!("{ty}: {e}"))?;
        let same =
            format!("SELECT count(*) FROM t WHERE v IS NOT DISTINCT FROM CAST({exact} AS {ty})");
        if desk.number(&same).await? != 1 {
            let shown = desk.shown("SELECT * FROM t").await?;
            return Err(format!("{ty}: {} gave\n{shown}", of(exact)).into());
        }
        // A written CAST may change any value that SQL can cast.
        let cast = format!("CAST({lossy} AS {ty})");
        if way.written && desk.run(&format!("SELECT {cast}")).await.is_ok() {
            desk.run(
                &of(&cast)
                    .replace("(2, ", "(3, ")
                    .replace("SELECT 2", "SELECT 3"),
            )
            .await?;
        }
    }
    Ok(())
}

trial!(defaults);
/// Tests omitted columns, and DEFAULT.
async fn defaults() -> Result<(), Failed> {
    let desk = SessionFolder::open()?;
    desk.run(
        "CREATE EXTERNAL TABLE t (k INT NOT NULL, a INT NOT NULL DEFAULT 42, b VARCHAR DEFAULT 'b', c DATE NOT NULL DEFAULT '2024-02-29', \
         d VARCHAR NOT NULL DEFAULT 'two', e DOUBLE, PRIMARY KEY (k)) STORED AS TILEDB LOCATION '$DESK/t' OPTIONS ('tiledb.attr.d.enumeration' '[one, two]')",
    )
    .await?;
    for (number, sql) in [
        "INSERT INTO t (k) VALUES ($K)",
        "INSERT INTO t VALUES ($K, DEFAULT, default, DEFAULT, DEFAULT, DEFAULT)",
        "INSERT INTO t (b, k) SELECT 'b', $K",
        "MERGE INTO t USING (SELECT $K AS k) s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k)",
        "MERGE INTO t USING (SELECT $K AS k) s ON t.k = s.k WHEN NOT MATCHED THEN INSERT VALUES (s.k, DEFAULT, DEFAULT, DEFAULT, DEFAULT, DEFAULT)",
    ]
    .iter()
    .enumerate()
    {
        desk.run(&sql.replace("$K", &number.to_string())).await?;
    }
    desk.run("INSERT INTO t VALUES (5, 1, NULL, '2000-01-01', 'one', 1)")
        .await?;
    desk.run(
        "UPDATE t SET a = DEFAULT, b = DEFAULT, c = DEFAULT, d = DEFAULT, e = DEFAULT WHERE k = 5",
    )
    .await?;
    desk.run("INSERT INTO t VALUES (6, 1, NULL, '2000-01-01', 'one', 1)")
        .await?;
    desk.run("MERGE INTO t USING (SELECT 6 AS k) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET a = DEFAULT, b = DEFAULT, c = DEFAULT, d = DEFAULT, e = DEFAULT").await?;
    desk.run("PREPARE p AS INSERT INTO t VALUES ($1, DEFAULT, DEFAULT, DEFAULT, DEFAULT, DEFAULT)")
        .await?;
    desk.run("EXECUTE p(7)").await?;
    let array = Array::open(desk.path("t").display().to_string()).await?;
    let rows = desk.run("SELECT CAST(8 AS INT) AS k").await?;
    array.insert().batches(rows).await?;
    let wrong = "SELECT count(*) FROM t WHERE a = 42 AND b = 'b' AND c = '2024-02-29' AND d = 'two' AND e IS NULL";
    match desk.number(wrong).await? {
        9 => {}
        other => return Err(format!("{other}\n{}", desk.shown("SELECT * FROM t").await?).into()),
    }
    // A dimension has no default, and DEFAULT can't be part of an expression.
    desk.refused("INSERT INTO t DEFAULT VALUES", &["NULL", "k"])
        .await?;
    desk.refused("INSERT INTO t (k, a) VALUES (9, DEFAULT + 1)", &[])
        .await?;
    Ok(())
}

trial!(prepared);
/// Prepared statements take the types of their columns.
async fn prepared() -> Result<(), Failed> {
    let desk = SessionFolder::open()?;
    desk.run("CREATE EXTERNAL TABLE t (k INT NOT NULL, v INT, PRIMARY KEY (k)) STORED AS TILEDB LOCATION '$DESK/t'").await?;
    desk.run("PREPARE p AS INSERT INTO t VALUES ($1, $2)")
        .await?;
    desk.run("EXECUTE p(1, 2)").await?;
    desk.run("PREPARE c AS INSERT INTO t VALUES ($1, CAST(2.5 AS INT))")
        .await?;
    desk.run("EXECUTE c(2)").await?;
    desk.refused("EXECUTE p('x', 2)", &[]).await?;
    desk.run("PREPARE u AS UPDATE t SET v = $1 WHERE k = $2")
        .await?;
    desk.run("PREPARE s AS INSERT INTO t SELECT $1, $2").await?;
    desk.run(
        "PREPARE m AS MERGE INTO t USING (SELECT 1 AS k) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = $1",
    )
    .await?;
    desk.run("PREPARE two AS INSERT INTO t VALUES (8, $1), ($2, 2)")
        .await?;
    for lossy in [
        "p(5, 2.7)",
        "p(5.5, 2)",
        "u(2.7, 1)",
        "s(5, 2.7)",
        "m(2.7)",
        "two(0.5, 9)",
        "two(0, 9.5)",
    ] {
        desk.refused(&format!("EXECUTE {lossy}"), &["would become", "CAST("])
            .await?;
    }
    desk.run("EXECUTE u(2.0, 1)").await?;
    // A condition compares with the parameter's value as given.
    desk.run("EXECUTE u(7, 1.5)").await?;
    desk.run("PREPARE declared(INT, INT) AS UPDATE t SET v = $1 WHERE k = $2")
        .await?;
    desk.run("EXECUTE declared(2.7, 1)").await?;
    match desk.number("SELECT sum(v) FROM t").await? {
        4 => Ok(()),
        other => Err(format!("{other}").into()),
    }
}

trial!(set_twice);
/// A statement can set a column only once.
async fn set_twice() -> Result<(), Failed> {
    let desk = SessionFolder::open()?;
    desk.run("CREATE EXTERNAL TABLE t (k INT NOT NULL, v INT, w INT, PRIMARY KEY (k)) STORED AS TILEDB LOCATION '$DESK/t'").await?;
    desk.run("INSERT INTO t VALUES (1, 1, 1)").await?;
    for sql in [
        "UPDATE t SET v = 1, v = 2",
        "UPDATE t SET v = 1, w = 2, \"v\" = 3",
        "UPDATE t SET v = 1, V = 2",
        "EXPLAIN UPDATE t SET v = 1, v = 2",
        "UPDATE t SET v = 1, t.v = 2",
        "MERGE INTO t USING (SELECT 1 AS k) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = 1, v = 2",
        "MERGE INTO t USING (SELECT 2 AS k) s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k, v, v) VALUES (s.k, 1, 2)",
        "INSERT INTO t (k, v, v) VALUES (2, 1, 2)",
    ] {
        desk.refused(sql, &["v"]).await?;
    }
    match desk.shown("SELECT * FROM t").await? {
        shown if shown.contains("| 1 | 1 | 1 |") && shown.lines().count() == 5 => Ok(()),
        shown => Err(shown.into()),
    }
}
