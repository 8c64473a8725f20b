//! Statements on arrays with a cell whose coordinate is NaN.

use libtest_mimic::Failed;

use super::{found, run, sound};
use crate::support::array_files::Files;
use crate::support::session_shapes::USUAL;

/// Which rows survive a statement on an array with NaN coordinates, or why it is refused.
type OnNan = (&'static str, Result<&'static str, &'static str>);

const HAS_NAN: &str = "cells whose coordinate \"f\" is NaN";

const WRITES_NAN: &str = "is NaN, which isn't a coordinate";

/// What is so whether or not an array allows duplicates.
const ON_NAN: [OnNan; 14] = [
    ("DELETE FROM t WHERE v = 3", Ok("v <> 3")),
    ("DELETE FROM t WHERE f = 3", Ok("f <> 3")),
    (
        "DELETE FROM t WHERE f IN (1, 2, 7)",
        Ok("f NOT IN (1, 2, 7)"),
    ),
    ("DELETE FROM t WHERE f >= 3", Ok("f < 3")),
    ("DELETE FROM t WHERE f > 100", Ok("f < 100")),
    // Only NaNs lie beyond the domain.
    ("DELETE FROM t WHERE f > 1e30", Ok("f < 1e30")),
    (
        "DELETE FROM t WHERE f = 1 OR f > 1e30",
        Ok("f <> 1 AND f < 1e30"),
    ),
    ("DELETE FROM t", Ok("false")),
    ("TRUNCATE TABLE t", Ok("false")),
    (
        "INSERT OVERWRITE t SELECT f, v FROM t WHERE f < 3",
        Ok("f < 3"),
    ),
    ("UPDATE t SET v = v WHERE f = 3", Ok("true")),
    ("DELETE FROM t WHERE f < 3", Err(HAS_NAN)),
    ("DELETE FROM t WHERE f BETWEEN 1 AND 3", Err(HAS_NAN)),
    ("DELETE FROM t WHERE f <= 'inf'", Err(HAS_NAN)),
];

/// Rows are changed by their coordinates where there are no duplicates.
const ON_NAN_BY_COORDINATES: [OnNan; 4] = [
    ("DELETE FROM t WHERE f + 0 < 3", Ok("NOT f < 3")),
    ("UPDATE t SET v = v WHERE f < 3", Ok("true")),
    ("UPDATE t SET f = f WHERE f < 3", Ok("true")),
    ("UPDATE t SET v = v WHERE f >= 3", Err(WRITES_NAN)),
];

/// Where there are, all that a range holds is replaced.
const ON_NAN_BY_RANGES: [OnNan; 2] = [
    ("UPDATE t SET v = v WHERE f < 3", Err(HAS_NAN)),
    ("UPDATE t SET v = v WHERE f >= 3", Err(WRITES_NAN)),
];

trial!(nan_coordinates);
/// A stored comparison deletes NaN coordinates whatever it says, and SQL does not.
async fn nan_coordinates() -> Result<(), Failed> {
    for (array, statements) in [
        ("nan_line", ON_NAN.as_slice()),
        ("nan_line", &ON_NAN_BY_COORDINATES),
        ("nan_single", &ON_NAN),
        ("nan_single", &ON_NAN_BY_RANGES),
    ] {
        for (statement, survivors) in statements {
            on_nan(array, statement, *survivors)
                .await
                .map_err(|e| format!("{array}, {statement}: {e:?}"))?;
        }
    }
    Ok(())
}

async fn on_nan(
    golden: &str,
    statement: &str,
    survivors: Result<&str, &str>,
) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let array = folder.path().join("array");
    Files::golden(golden).write(&array);
    let ctx = USUAL.context()?;
    let path = array.display();
    let open = format!("CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{path}'");
    run(&ctx, &open).await?;
    run(&ctx, "CREATE TABLE m AS SELECT * FROM t").await?;
    let expected = format!("SELECT * FROM m WHERE {}", survivors.unwrap_or("true"));
    let expected = found(&ctx, &expected).await?;
    let done = run(&ctx, statement).await;
    let says = format!("{done:?}").replace('\\', "");
    let as_told = match survivors {
        Ok(_) => done.is_ok(),
        Err(why) => done.is_err() && says.contains(why),
    };
    let rows = found(&ctx, "SELECT * FROM t").await?;
    if !as_told || rows != expected {
        return Err(format!("{says}; {rows:?}, expected {expected:?}").into());
    }
    sound(&ctx, &array).await
}
