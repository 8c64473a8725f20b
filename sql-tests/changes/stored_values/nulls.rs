//! No NULL gets into a NOT NULL column, and NULLs are kept in others.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, new_null_array};
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion_tiledb::Array;
use libtest_mimic::Failed;

use crate::support::array_files::Files;
use crate::support::golden;
use crate::support::session_folder::SessionFolder;
use crate::support::trials::SqlTrial;
use crate::{block_on, trial};

trials!(nulls());

fn nulls() -> Vec<SqlTrial> {
    let required = REQUIRED.iter().enumerate().map(|(number, column)| {
        let name = format!("null_in_not_null_{number}");
        trial(name, move || block_on(null_is_refused(column)))
    });
    let kept = [
        "sparse_dates",
        "enum_strings",
        "enum_numbers",
        "enum_dense",
        "dense_default_fills",
    ]
    .map(|array| {
        let name = format!("kept_nulls_{array}");
        trial(name, move || block_on(nulls_are_kept(array)))
    });
    required.chain(kept).collect()
}

/// A NOT NULL column: its type, a value, and options.
struct RequiredColumn {
    ty: &'static str,
    value: &'static str,
    options: &'static str,
}

const fn required(ty: &'static str, value: &'static str, options: &'static str) -> RequiredColumn {
    RequiredColumn { ty, value, options }
}

const REQUIRED: [RequiredColumn; 21] = [
    required("INT", "7", ""),
    required("BIGINT UNSIGNED", "7", ""),
    required("DOUBLE", "0.5", ""),
    required("BOOLEAN", "true", ""),
    required("VARCHAR", "'a'", ""),
    required("BYTEA", "x'00ff'", ""),
    required("INT[]", "[1, 2]", ""),
    required("REAL[2]", "[1.0, 2.0]", ""),
    required("DATE", "'2020-01-01'", ""),
    required(
        "DATE",
        "'2020-01-01'",
        "'tiledb.attr.v.type' 'DATETIME_MONTH'",
    ),
    required(
        "DATE",
        "'2020-01-01'",
        "'tiledb.attr.v.type' 'DATETIME_YEAR'",
    ),
    required("TIMESTAMP(0)", "'2020-01-01'", ""),
    required(
        "TIMESTAMP(0)",
        "'2020-01-01'",
        "'tiledb.attr.v.type' 'DATETIME_HR'",
    ),
    required("TIMESTAMP(3)", "'2020-01-01'", ""),
    required("TIMESTAMP", "'2020-01-01'", ""),
    required("TIME", "'12:00:00'", ""),
    required("VARCHAR", "'a'", "'tiledb.attr.v.enumeration' '[\"a\"]'"),
    required(
        "VARCHAR",
        "'a'",
        "'tiledb.attr.v.enumeration' '[\"a\", \"b\"]', 'tiledb.attr.v.fill' '1', 'tiledb.attr.v.type' 'UINT8'",
    ),
    required(
        "INT",
        "10",
        "'tiledb.attr.v.enumeration' '[10]', 'tiledb.attr.v.enumeration_type' 'INT32'",
    ),
    required(
        "DATE",
        "'2020-01-01'",
        "'tiledb.attr.v.enumeration' '[\"2020-01-01\"]', 'tiledb.attr.v.enumeration_type' 'DATETIME_DAY'",
    ),
    required(
        "BOOLEAN",
        "true",
        "'tiledb.attr.v.enumeration' '[true, false]', 'tiledb.attr.v.enumeration_type' 'BOOL'",
    ),
];

/// Ways in which a NULL could get into the column `v` of row 2, or of row 1, which exists.
const NULLS: [&str; 16] = [
    "INSERT INTO t VALUES (2, 0, NULL)",
    "INSERT INTO t VALUES (3, 0, $VALUE), (2, 0, NULL)",
    "INSERT INTO t (k, n) VALUES (2, 0)",
    "INSERT INTO t VALUES (2, 0, DEFAULT)",
    "REPLACE INTO t VALUES (2, 0, NULL)",
    "INSERT OVERWRITE t VALUES (2, 0, NULL)",
    "INSERT INTO t SELECT 2, 0, NULL",
    "INSERT INTO t SELECT k + 1, n, CASE WHEN n > 5 THEN v END FROM t",
    "INSERT INTO t SELECT k, n, v FROM '$DESK/rows.parquet'",
    "UPDATE t SET v = NULL",
    "UPDATE t SET v = DEFAULT WHERE k = 1",
    "UPDATE t SET v = CASE WHEN n > 5 THEN v END",
    "UPDATE t SET k = 2, v = NULL",
    "MERGE INTO t USING (VALUES (2)) AS s(k) ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k, n) VALUES (s.k, 0)",
    "MERGE INTO t USING (VALUES (2)) AS s(k) ON t.k = s.k WHEN NOT MATCHED THEN INSERT VALUES (s.k, 0, NULL)",
    "MERGE INTO t USING (VALUES (1)) AS s(k) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = NULL",
];

async fn null_is_refused(column: &RequiredColumn) -> Result<(), Failed> {
    let RequiredColumn { ty, value, options } = column;
    let desk = SessionFolder::open()?;
    let create = format!(
        "CREATE EXTERNAL TABLE t (k INT NOT NULL, n INT NOT NULL, v {ty} NOT NULL, PRIMARY KEY (k)) STORED AS TILEDB LOCATION '$DESK/t' OPTIONS ({}{options})",
        if options.is_empty() {
            "'tiledb.capacity' '100'"
        } else {
            ""
        }
    );
    desk.run(&create).await?;
    desk.run(&format!("INSERT INTO t VALUES (1, 0, {value})"))
        .await?;
    let parquet = "COPY (SELECT 2 AS k, 0 AS n, CASE WHEN n > 5 THEN v END AS v FROM t) TO '$DESK/rows.parquet' STORED AS PARQUET";
    desk.run(parquet).await?;
    let before = desk.shown("SELECT * FROM t").await?;
    // A chosen fill value is a default.
    let has_default = options.contains(".fill");
    for null in NULLS {
        let sql = null.replace("$VALUE", value);
        let leaves_out = sql.contains("DEFAULT")
            || !sql.contains('v') && !sql.contains("NULL")
            || sql.contains("(k, n)");
        if has_default && leaves_out {
            continue;
        }
        desk.refused(&sql, &["NULL", "v"]).await?;
        let after = desk.shown("SELECT * FROM t").await?;
        if after != before {
            return Err(format!("{sql}\n{before}\n{after}").into());
        }
    }
    let array = Array::open(desk.path("t").display().to_string()).await?;
    let schema = array.schema();
    let fields = schema
        .fields()
        .iter()
        .map(|f| Field::clone(f).with_nullable(true));
    let rows = desk.run("SELECT k + 1 AS k, n FROM t").await?;
    let null = new_null_array(schema.field(2).data_type(), 1);
    let (k, n) = (Arc::clone(rows[0].column(0)), Arc::clone(rows[0].column(1)));
    let k = datafusion::arrow::compute::cast(&k, schema.field(0).data_type())?;
    let rows = RecordBatch::try_new(
        Arc::new(Schema::new(fields.collect::<Vec<_>>())),
        vec![k, n, null],
    )?;
    match array.insert().batches([rows]).await {
        Err(error) if error.to_string().contains("NULL") => {}
        other => return Err(format!("{other:?}").into()),
    }
    added_later(&desk, column).await
}

/// An added column must not show NULL in existing rows.
async fn added_later(desk: &SessionFolder, column: &RequiredColumn) -> Result<(), Failed> {
    let RequiredColumn { ty, value, options } = column;
    let has_null = ty.contains("DATE") || ty.contains("TIME");
    if options.is_empty() && has_null {
        let add = format!("ALTER TABLE t ADD COLUMN w {ty} NOT NULL");
        desk.refused(&add, &["NOT NULL", "w", "DEFAULT"]).await?;
        desk.run(&format!("{add} DEFAULT {value}")).await?;
        match desk
            .number("SELECT count(*) FROM t WHERE w IS NULL")
            .await?
        {
            0 => {}
            other => return Err(format!("{other} rows have no w").into()),
        }
    }
    Ok(())
}

/// Rows stay the same if they are written again, whatever shows as NULL in columns that aren't nullable.
async fn nulls_are_kept(array: &str) -> Result<(), Failed> {
    let desk = SessionFolder::open()?;
    Files::of(&golden::folder().join(array)).write(&desk.path("t"));
    desk.run("CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '$DESK/t'")
        .await?;
    let table = desk.ctx.table_provider("t").await?;
    let schema = table.schema();
    let fields = schema.fields().iter();
    let name = |f: &Field| format!("\"{}\"", f.name());
    let attribute = fields.clone().find(|f| {
        f.metadata()
            .get("tiledb.role")
            .is_some_and(|r| r == "attribute")
    });
    let attribute = name(attribute.ok_or("no attribute")?);
    let nulls = fields
        .clone()
        .filter(|f| f.is_nullable())
        .map(|f| format!("count(*) - count({})", name(f)))
        .collect::<Vec<_>>()
        .join(" + ");
    if desk.number(&format!("SELECT {nulls} FROM t")).await? == 0 {
        return Err("nothing shows as NULL".into());
    }
    let rows = "SELECT * FROM t ORDER BY 1, 2";
    let before = desk.shown(rows).await?;
    desk.run(&format!("UPDATE t SET {attribute} = {attribute}"))
        .await?;
    let after = desk.shown(rows).await?;
    if before == after {
        Ok(())
    } else {
        Err(format!("{before}\n{after}").into())
    }
}
