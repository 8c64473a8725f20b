//! Random DELETE, UPDATE, MERGE, INSERT, INSERT OVERWRITE and TRUNCATE statements on arrays: rows and counts are those of the
//! same SQL over the same rows in memory, every earlier state can still be read, and nothing that was written is wrong. Then the
//! array is consolidated and vacuumed, and holds what it held.
//!
//! What a statement leaves is asked of the rows in memory by a query of its own, because DataFusion's statements on tables in
//! memory lose parts of WHERE. libtiledb evaluates the conditions of random deletes to the same cells. `CHANGED=<n>` tries n
//! seeds of each array instead of a few.

mod nan_coordinates;
mod step;
mod stored_deletes;

use std::path::Path;
use std::time::{Duration, SystemTime};

use datafusion::prelude::SessionContext;
use libtest_mimic::Failed;

use self::step::Step;
use crate::support::neutral_rows;
use crate::support::rng::Rng;
use crate::support::session_shapes::{SHAPES, Shape, USUAL};
use crate::support::trials::SqlTrial;
use crate::{block_on, trial};

/// An array, and how its columns are compared and set.
struct Kind {
    name: &'static str,
    create: &'static str,
    /// The columns, dimensions first.
    columns: &'static [&'static str],
    dimensions: usize,
    /// Rows to begin with.
    rows: &'static str,
    /// Conditions on `t`.
    conditions: &'static [&'static str],
    /// Assignments of a column, by its index.
    assignments: &'static [(usize, &'static str)],
    /// What statements may be refused for.
    refused: &'static [&'static str],
}

const KINDS: [Kind; 5] = [
    Kind {
        name: "sparse",
        create: "(x INT NOT NULL, y BIGINT NOT NULL, v INT, f DOUBLE NOT NULL, s VARCHAR NOT NULL, n VARCHAR, \
                 PRIMARY KEY (x, y)) STORED AS TILEDB LOCATION '{}' OPTIONS ('tiledb.capacity' '7', \
                 'tiledb.dim.x.domain' '[-50, 200]', 'tiledb.dim.x.tile' '10')",
        columns: &["x", "y", "v", "f", "s", "n"],
        dimensions: 2,
        rows: "SELECT i / 10 - 5 AS x, i % 10 AS y, CASE WHEN i % 3 = 0 THEN NULL ELSE i END AS v, \
               CAST(CASE i % 7 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0.0' WHEN 2 THEN '0.0' ELSE CAST(i - 50 AS VARCHAR) END AS DOUBLE) AS f, \
               'é' || (i % 5) AS s, CASE WHEN i % 4 = 0 THEN NULL ELSE substr('abcdef', i % 6, 2) END AS n",
        conditions: &[
            "t.x = {}",
            "t.x > {} AND t.y <= 4",
            "t.x IN ({}, 1, 200)",
            "t.x NOT BETWEEN -3 AND {}",
            "t.y = {} OR t.x = 2",
            "t.x + t.y > {}",
            "t.v > {}",
            "NOT (t.v > {})",
            "t.v IS NULL",
            "t.v = NULL",
            "t.v IN ({}, NULL)",
            "t.v NOT IN (1, 2, {})",
            "t.f > {}",
            "t.f < {}",
            "t.f = 0.0",
            "t.f = {}",
            "t.f <> {}",
            "t.s = 'é{}'",
            "t.s > 'é{}' AND t.x < 3",
            "t.s IN ('é0', 'é{}')",
            "t.s LIKE 'é%' AND t.y = {}",
            "t.n = 'bc'",
            "t.n IS NOT NULL AND t.y = {}",
            "1 = 0",
            "t.x IN (SELECT k FROM other)",
            "t.x NOT IN (SELECT k FROM other)",
            "t.x NOT IN (SELECT k FROM other WHERE k IS NOT NULL)",
            "EXISTS (SELECT 1 FROM other o WHERE o.k = t.y)",
            "NOT EXISTS (SELECT 1 FROM other o WHERE o.k = t.y) AND t.x > {}",
            "t.v > (SELECT avg(k) FROM other)",
            "t.v = (SELECT max(k) FROM other WHERE k > 1000)",
        ],
        assignments: &[
            (2, "t.x * 2"),
            (2, "NULL"),
            (3, "t.f + 1.5"),
            (4, "t.s || '!'"),
            (4, "''"),
            (5, "t.s"),
            (1, "9 - t.y"),
            (0, "t.x + 60"),
            (0, "t.x + 1"),
            (0, "-t.x"),
            (0, "3"),
        ],
        refused: &[],
    },
    Kind {
        name: "text",
        create: "(k VARCHAR NOT NULL, v BIGINT, PRIMARY KEY (k)) STORED AS TILEDB LOCATION '{}' OPTIONS \
                 ('tiledb.capacity' '5')",
        columns: &["k", "v"],
        dimensions: 1,
        rows: "SELECT CASE WHEN i = 0 THEN '' ELSE 'key' || (i * 7 % 100) END AS k, i - 50 AS v",
        conditions: &[
            "t.k = 'key{}'",
            "t.k = ''",
            "t.k > 'key{}'",
            "t.k <= 'key{}' AND t.v > 0",
            "t.k LIKE 'key{}%'",
            "t.k IN ('', 'key{}', 'none')",
            "t.v < {}",
            "t.k NOT LIKE 'key1%'",
        ],
        assignments: &[
            (0, "t.k || 'x'"),
            (0, "upper(t.k)"),
            (0, "'key5'"),
            (1, "-t.v"),
        ],
        refused: &[],
    },
    Kind {
        name: "hilbert",
        create: "(lon DOUBLE NOT NULL, ts TIMESTAMP NOT NULL, v SMALLINT NOT NULL, PRIMARY KEY (lon, ts)) STORED AS TILEDB \
                 LOCATION '{}' OPTIONS ('tiledb.cell_order' 'hilbert', 'tiledb.dim.lon.domain' '[-180, 180]', \
                 'tiledb.dim.ts.domain' '[1960-01-01, 2100-01-01]', 'tiledb.capacity' '6')",
        columns: &["lon", "ts", "v"],
        dimensions: 2,
        rows: "SELECT (i - 50) * 1.5 AS lon, to_timestamp(86400 * (i - 31)) AS ts, i AS v",
        conditions: &[
            "t.lon > {}",
            "t.lon < {} AND t.ts >= '1970-01-01'",
            "t.lon = 0",
            "t.lon <> 0 AND t.v < {}",
            "t.ts BETWEEN '1969-12-20' AND '1970-01-05'",
            "t.v = {}",
            "t.v % 2 = 0",
        ],
        assignments: &[
            (0, "0.0 - t.lon"),
            (1, "t.ts + INTERVAL '1' HOUR"),
            (2, "t.v + 1"),
            (0, "t.lon / 2"),
        ],
        refused: &["outside its domain"],
    },
    Kind {
        name: "duplicates",
        create: "(x INT NOT NULL, v INT, w INT NOT NULL, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '{}' OPTIONS \
                 ('tiledb.allows_duplicates' 'true', 'tiledb.capacity' '9')",
        columns: &["x", "v", "w"],
        dimensions: 1,
        rows: "SELECT i / 3 AS x, CASE WHEN i % 3 = 0 THEN NULL ELSE i END AS v, i % 10 AS w",
        conditions: &[
            "t.x = {}",
            "t.x > {}",
            "t.w = {}",
            "t.w IN (1, {}) OR t.x < 3",
            "NOT (t.w < {} AND t.x > 5)",
            "t.v = {}",
            "t.x IN (SELECT k FROM other)",
            "t.w <> {}",
        ],
        assignments: &[(1, "t.x"), (2, "t.w + 1"), (0, "t.x + 1")],
        refused: &["allows duplicates"],
    },
    Kind {
        name: "dense",
        create: "(x INT NOT NULL, y INT NOT NULL, v INT, s VARCHAR NOT NULL, PRIMARY KEY (x, y)) STORED AS TILEDB LOCATION \
                 '{}' OPTIONS ('tiledb.array_type' 'dense', 'tiledb.dim.x.domain' '[0, 9]', 'tiledb.dim.y.domain' '[0, 9]', \
                 'tiledb.dim.x.tile' '4', 'tiledb.dim.y.tile' '3')",
        columns: &["x", "y", "v", "s"],
        dimensions: 2,
        rows: "SELECT i / 10 AS x, i % 10 AS y, CASE WHEN i % 3 = 0 THEN NULL ELSE i END AS v, 's' || i AS s",
        conditions: &[
            "t.x = {}",
            "t.v > {}",
            "t.x = t.y",
            "t.v IS NULL",
            "t.s LIKE 's{}%'",
            "1 = 0",
        ],
        assignments: &[
            (2, "t.x - t.y"),
            (2, "NULL"),
            (3, "t.s || '+'"),
            (0, "t.x + 1"),
        ],
        refused: &["dense array", "INSERT OVERWRITE do not give every cell"],
    },
];

trials!(histories());

fn histories() -> Vec<SqlTrial> {
    let seeds: u64 = std::env::var("CHANGED")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(2);
    let all = KINDS
        .iter()
        .flat_map(|kind| (0..seeds).map(move |seed| (kind, seed)));
    let histories = all.map(|(kind, seed)| {
        let name = format!("{}_{seed}", kind.name);
        trial(name, move || block_on(history(kind, seed)))
    });
    histories.collect()
}

const STATEMENTS: usize = 14;

async fn history(kind: &Kind, seed: u64) -> Result<(), Failed> {
    let mut rng = Rng::new(seed, kind.name.len() as u64);
    let folder = tempfile::tempdir()?;
    let array = folder.path().join("array");
    let shapes = [USUAL]
        .into_iter()
        .chain(SHAPES)
        .filter(|shape| !shape.wraps_tables())
        .collect::<Vec<Shape>>();
    let ctx = rng.pick(&shapes).context()?;
    let create = kind.create.replace("{}", &array.display().to_string());
    run(&ctx, &format!("CREATE EXTERNAL TABLE t {create}")).await?;
    let rows = format!("{} FROM unnest(range(0, 100)) AS u(i)", kind.rows);
    run(
        &ctx,
        "CREATE TABLE other AS VALUES (1), (3), (NULL), (7), (3)",
    )
    .await?;
    run(
        &ctx,
        "CREATE OR REPLACE TABLE other AS SELECT column1 AS k FROM other",
    )
    .await?;
    run(&ctx, &format!("INSERT INTO t {rows}")).await?;
    run(&ctx, "CREATE TABLE m AS SELECT * FROM t").await?;
    let mut states = Vec::new();
    let mut truncated = 0;
    for _ in 0..STATEMENTS {
        states.push((now(), found(&ctx, "SELECT * FROM t").await?));
        tokio::time::sleep(Duration::from_millis(3)).await;
        let step = Step::random(kind, &mut rng);
        step.check(&ctx, kind)
            .await
            .map_err(|e| format!("{}: {e:?}", step.statement))?;
        if step.statement.starts_with("TRUNCATE") {
            truncated = states.len();
        }
    }
    states.push((now(), found(&ctx, "SELECT * FROM t").await?));
    readable(&ctx, &array, &states).await?;
    sound(&ctx, &array).await?;
    consolidated(&ctx, &array, &states)
        .await
        .map_err(|e| format!("consolidated: {e:?}"))?;
    let path = array.display();
    run(
        &ctx,
        &format!("SELECT * FROM tiledb_vacuum('{path}', min_age => '0')"),
    )
    .await?;
    // What TRUNCATE hid is gone, and so is what consolidation without times of cells merged.
    let kept = match kind.name {
        "dense" => states.len() - 1,
        _ => truncated,
    };
    readable(&ctx, &array, &states[kept..])
        .await
        .map_err(|e| format!("vacuumed: {e:?}"))?;
    sound(&ctx, &array).await
}

/// What the array held at a time, in milliseconds since 1970.
type State = (u128, Vec<String>);

/// Consolidation says that it verified what it wrote, leaves what is visible, and every state.
async fn consolidated(ctx: &SessionContext, array: &Path, states: &[State]) -> Result<(), Failed> {
    let path = array.display();
    let fragments = format!("SELECT count(*) FROM tiledb_fragments('{path}') WHERE visible");
    let before = found(ctx, &fragments).await?;
    run(
        ctx,
        &format!("SELECT * FROM tiledb_consolidate('{path}', verify => true)"),
    )
    .await?;
    let after = found(ctx, &fragments).await?;
    if before != after && after != ["[1]"] {
        return Err(format!("{before:?} fragments became {after:?}").into());
    }
    readable(ctx, array, states).await?;
    sound(ctx, array).await
}

/// The states are still those that the array had.
async fn readable(ctx: &SessionContext, array: &Path, states: &[State]) -> Result<(), Failed> {
    for (time, expected) in states {
        let query = format!(
            "SELECT * FROM tiledb_scan('{}', timestamp_end => '{time}')",
            array.display()
        );
        if found(ctx, &query).await? != *expected {
            return Err(format!("the state at {time} is no longer what it was").into());
        }
    }
    match states.last() {
        Some((_, last)) if found(ctx, "SELECT * FROM t").await? != *last => {
            Err("the table is no longer what it was".into())
        }
        _ => Ok(()),
    }
}

async fn sound(ctx: &SessionContext, array: &Path) -> Result<(), Failed> {
    let findings = format!(
        "SELECT rule, object, found FROM tiledb_check('{}') WHERE severity <> 'leftover'",
        array.display()
    );
    match found(ctx, &findings).await?.as_slice() {
        [] => Ok(()),
        findings => Err(format!("check finds {findings:?}").into()),
    }
}

fn now() -> u128 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_millis()
}

async fn run(ctx: &SessionContext, statement: &str) -> Result<(), Failed> {
    let done = ctx
        .sql(statement)
        .await
        .map_err(|e| format!("{statement}: {e}"))?;
    done.collect()
        .await
        .map_err(|e| format!("{statement}: {e}"))?;
    Ok(())
}

async fn found(ctx: &SessionContext, query: &str) -> Result<Vec<String>, Failed> {
    let batches = ctx
        .sql(query)
        .await
        .map_err(|e| format!("{query}: {e}"))?
        .collect()
        .await
        .map_err(|e| format!("{query}: {e}"))?;
    Ok(neutral_rows::rows(&batches))
}
