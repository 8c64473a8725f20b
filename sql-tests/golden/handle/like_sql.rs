//! Scans and the statements that ask for the same.

use std::ops::Bound;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::prelude::SessionContext;
use datafusion_tiledb::{Array, TileDbTable};
use futures::TryStreamExt;
use libtest_mimic::Failed;
use tiledb_engine::ArrayScan;

use super::{expect, open_with, path};
use crate::hostile::encryption;
use crate::support::neutral_rows;
use crate::support::trials::SqlTrial;
use crate::{block_on, trial};

trials!(each_case());

fn each_case() -> Vec<SqlTrial> {
    let cases = CASES.iter().enumerate().map(|(number, case)| {
        let name = format!("{number}_{}", case.array);
        trial(name, move || block_on(like_sql(case)))
    });
    cases.collect()
}

/// A scan and the statement that asks for the same; `$` stands for the array.
struct Case {
    array: &'static str,
    options: &'static [(&'static str, &'static str)],
    sql: &'static str,
    scan: fn(ArrayScan) -> ArrayScan,
}

const CASES: &[Case] = &[
    Case {
        array: "dense_partial_unaligned",
        options: &[],
        sql: "SELECT * FROM $",
        scan: |scan| scan,
    },
    Case {
        array: "dense_partial_unaligned",
        options: &[],
        sql: "SELECT s, y FROM $ WHERE y BETWEEN 3 AND 5 AND x < 6",
        scan: |scan| scan.columns(["s", "y"]).range("y", 3..=5).range("x", ..6),
    },
    Case {
        array: "dense_partial_unaligned",
        options: &[("empty_cells", "null")],
        sql: "SELECT * FROM $ WHERE x > 3 AND y <> 5",
        scan: |scan| scan.range("y", ..5).range("y", 6..).range("x", "4"..),
    },
    Case {
        array: "dense_partial_unaligned",
        options: &[("empty_cells", "skip")],
        sql: "SELECT x FROM $ WHERE y = 3 OR y = 5 OR y = 6 OR y > 7",
        scan: |scan| {
            scan.columns(["x"])
                .range("y", 3..=3)
                .range("y", 5..7)
                .range("y", 8..)
        },
    },
    Case {
        array: "dense_datetime_2d",
        options: &[],
        sql: "SELECT * FROM $ WHERE seen >= '2023-11-14T22:13:25' AND valid < to_timestamp(1700000003)",
        scan: |scan| {
            scan.range("seen", "2023-11-14T22:13:25"..)
                .range("valid", .."2023-11-14T22:13:23")
        },
    },
    Case {
        array: "dim_dense_datetime_week",
        options: &[],
        sql: "SELECT a FROM $ WHERE d BETWEEN DATE '1969-12-18' AND DATE '1970-01-29'",
        scan: |scan| scan.columns(["a"]).range("d", "1969-12-18"..="1970-01-29"),
    },
    Case {
        array: "dim_dense_time_ms",
        options: &[],
        sql: "SELECT * FROM $ WHERE d < TIME '00:00:00.012'",
        scan: |scan| scan.range("d", .."00:00:00.012"),
    },
    Case {
        array: "dim_sparse_everything",
        options: &[],
        sql: "SELECT a, u, s FROM $ WHERE s >= 'k1' AND s <= 'k5' AND f > -1 AND i IN (1, 2, 3, -5) AND u < 200",
        scan: |scan| {
            scan.columns(["a", "u", "s"])
                .range("s", "k1"..="k5")
                .range::<f64>("f", (Bound::Excluded(-1.0), Bound::Unbounded))
                .range("i", 1..=3)
                .range("i", -5..=-5)
                .range("u", ..200)
        },
    },
    Case {
        array: "sparse_strings",
        options: &[],
        sql: "SELECT * FROM $ WHERE k > 'a' AND k <= 'b'",
        scan: |scan| scan.range::<&str>("k", (Bound::Excluded("a"), Bound::Included("b"))),
    },
    Case {
        array: "sparse_strings",
        options: &[],
        sql: "SELECT * FROM $ WHERE k >= 'a' AND k < 'c' OR k = ''",
        scan: |scan| scan.range("k", "a".."c").range("k", ""..=""),
    },
    Case {
        array: "nan_line",
        options: &[],
        sql: "SELECT * FROM $ WHERE f >= 2",
        scan: |scan| scan.range("f", 2.0..),
    },
    Case {
        array: "nan_line",
        options: &[],
        sql: "SELECT * FROM $ WHERE isnan(f)",
        scan: |scan| scan.range("f", f64::NAN..=f64::NAN),
    },
    Case {
        array: "dim_sparse_floats",
        options: &[],
        sql: "SELECT * FROM $ WHERE x >= 0.1 AND y <= 1e300",
        scan: |scan| scan.range("x", 0.1..).range("y", ..=1e300),
    },
    Case {
        array: "dim_sparse_uint8",
        options: &[],
        sql: "SELECT * FROM $ WHERE d < 200 AND e >= 1",
        scan: |scan| scan.range("d", 0..200_u64).range("e", 1..=255),
    },
    Case {
        array: "quickstart_sparse",
        options: &[],
        sql: "SELECT * FROM $ WHERE false",
        scan: |scan| scan.range("rows", 3..3),
    },
    Case {
        array: "sparse_empty",
        options: &[],
        sql: "SELECT s, k FROM $ WHERE x > 0",
        scan: |scan| scan.columns(["s", "k"]).range("x", 1..),
    },
    Case {
        array: "dense_empty",
        options: &[],
        sql: "SELECT * FROM $",
        scan: |scan| scan,
    },
    Case {
        array: "versions_square",
        options: &[("timestamp_end", "1999")],
        sql: "SELECT a, n FROM $ WHERE x >= 2",
        scan: |scan| scan.columns(["a", "n"]).range("x", 2..).at(1999),
    },
    Case {
        array: "versions_square",
        options: &[("timestamp_start", "1500"), ("timestamp_end", "2500")],
        sql: "SELECT a, n FROM $ WHERE y < 3",
        scan: |scan| scan.columns(["a", "n"]).range("y", ..3).at(2500),
    },
    Case {
        array: "evolved_sparse",
        options: &[("timestamp_end", "1000")],
        sql: "SELECT * FROM $",
        scan: |scan| scan.at(1000),
    },
    Case {
        array: "encrypted_sparse",
        options: &[("encryption_key", encryption::KEY)],
        sql: "SELECT * FROM $ WHERE k >= 'k2'",
        scan: |scan| scan.range("k", "k2"..),
    },
    Case {
        array: "enum_strings",
        options: &[],
        sql: "SELECT e_int8, d FROM $",
        scan: |scan| scan.columns(["e_int8", "d"]),
    },
    Case {
        array: "versions_square",
        options: &[("all_versions", "true"), ("system_columns", "true")],
        sql: "SELECT __fragment, x, a FROM $ WHERE x BETWEEN 2 AND 3",
        scan: |scan| scan.columns(["__fragment", "x", "a"]).range("x", 2..=3),
    },
    Case {
        array: "weather_stations",
        options: &[],
        sql: "SELECT * FROM $ WHERE station IN ('Bergen', 'Cairo') AND time < '2024-01-15'",
        scan: |scan| {
            scan.range("station", "Bergen"..="Bergen")
                .range("station", "Cairo"..="Cairo")
                .range("time", .."2024-01-15")
        },
    },
];

/// The scan of each case gives the rows and the columns of the statement, however it runs.
async fn like_sql(case: &Case) -> Result<(), Failed> {
    let ctx = SessionContext::new();
    let mut table = TileDbTable::builder(path(case.array));
    let mut options = Vec::new();
    let scan = (case.scan)(Array::open(path("quickstart_dense")).await?.scan());
    let travels = format!("{scan:?}").contains("at: Some");
    for (key, value) in case.options {
        table = table.option(key, value)?;
        if !(travels && *key == "timestamp_end") {
            options.push((*key, *value));
        }
    }
    ctx.register_table("t", Arc::new(table.open().await?))?;
    let frame = ctx.sql(&case.sql.replace('$', "t")).await?;
    let schema = frame.schema().as_arrow().clone();
    let wanted = neutral_rows::rows(&frame.collect().await?);

    let array = open_with(&path(case.array), options).await?;
    let shapes: [fn(ArrayScan) -> ArrayScan; 3] = [
        |scan| scan,
        |scan| scan.partitions(1).batch_size(1),
        |scan| scan.partitions(5).batch_size(7),
    ];
    for shape in shapes {
        let scan = shape((case.scan)(array.scan()));
        let most = if format!("{scan:?}").contains("batch_size: Some(1)") {
            1
        } else {
            8192
        };
        let stream = scan.clone().stream().await?;
        expect(
            &format!("columns of {scan:?}"),
            stream.schema().fields(),
            schema.fields(),
        )?;
        let batches: Vec<RecordBatch> = stream.try_collect().await?;
        assert!(
            batches
                .iter()
                .all(|b| b.num_rows() <= most && b.num_rows() > 0)
        );
        expect(
            &format!("rows of {}", case.sql),
            neutral_rows::rows(&batches),
            wanted.clone(),
        )?;

        let few = scan.clone().limit(3).collect().await?;
        let rows: usize = few.iter().map(RecordBatch::num_rows).sum();
        expect("rows under a limit", rows, wanted.len().min(3))?;
        let kept = neutral_rows::rows(&few)
            .iter()
            .all(|row| wanted.contains(row));
        expect("rows under a limit are rows", kept, true)?;
        let bare = scan.columns([""; 0]).collect().await?;
        let rows: usize = bare.iter().map(RecordBatch::num_rows).sum();
        expect("rows without columns", rows, wanted.len())?;
    }
    Ok(())
}
