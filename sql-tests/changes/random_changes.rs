//! Random DELETE, UPDATE, MERGE, INSERT, INSERT OVERWRITE and TRUNCATE statements on arrays: rows and counts are those of the
//! same SQL over the same rows in memory, every earlier state can still be read, and nothing that was written is wrong. Then the
//! array is consolidated and vacuumed, and holds what it held.
//!
//! What a statement leaves is asked of the rows in memory by a query of its own, because DataFusion's statements on tables in
//! memory lose parts of WHERE. libtiledb evaluates the conditions of random deletes to the same cells. `CHANGED=<n>` tries n
//! seeds of each array instead of a few.

use std::path::Path;
use std::time::{Duration, SystemTime};

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::UInt64Type;
use datafusion::prelude::SessionContext;
use libtest_mimic::Failed;
use tiledb_engine::format::delete_condition::{Comparison, Condition, Test};

use crate::support::array_files::{Files, contents};
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
    let seeds = std::env::var("CHANGED").ok().and_then(|n| n.parse().ok());
    let seeds: u64 = seeds.unwrap_or(4);
    let all = KINDS
        .iter()
        .flat_map(|kind| (0..seeds).map(move |seed| (kind, seed)));
    let histories = all.map(|(kind, seed)| {
        let name = format!("{}_{seed}", kind.name);
        trial(name, move || block_on(history(kind, seed)))
    });
    histories.collect()
}

trials!([false, true].map(|duplicates| {
    let name = format!("stored_deletes_in_libtiledb_{duplicates}");
    trial(name, move || block_on(stored_deletes(duplicates)))
}));

/// Rows for random deletes: `x`, `y`, `v`, and a text of one letter.
type RandomCell = (i32, i32, i32, u8);

/// libtiledb, which evaluates trees in its own way, evaluates the stored condition to the cells that WHERE selects. `CHANGED`
/// tries ten times as many conditions.
async fn stored_deletes(duplicates: bool) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let array = folder.path().join("array");
    let ctx = USUAL.context()?;
    let create = format!(
        "CREATE EXTERNAL TABLE t (x INT NOT NULL, y INT NOT NULL, v INT NOT NULL, s VARCHAR NOT NULL, PRIMARY KEY (x, y)) \
         STORED AS TILEDB LOCATION '{}' OPTIONS ('tiledb.allows_duplicates' '{duplicates}', 'tiledb.capacity' '5')",
        array.display()
    );
    run(&ctx, &create).await?;
    let cells = (0..7)
        .flat_map(|x| (0..5).map(move |y| (x, y, (x * 3 + y * 7) % 8, b'a' + (x + y) as u8 % 5)));
    let cells = cells.collect::<Vec<RandomCell>>();
    let rows = cells
        .iter()
        .map(|(x, y, v, s)| format!("({x}, {y}, {v}, '{}')", char::from(*s)));
    let rows = rows.collect::<Vec<_>>().join(", ");
    run(&ctx, &format!("INSERT INTO t VALUES {rows}")).await?;
    run(&ctx, "CREATE TABLE m AS SELECT * FROM t").await?;
    let mut rng = Rng::new(20, u64::from(duplicates));
    let tries = std::env::var("CHANGED").map_or(40, |_| 400);
    let (mut stored, mut nested) = (0, 0);
    for _ in 0..tries {
        let depth = rng.below(4);
        let condition = random_where(&mut rng, depth);
        let survivors = survivors_of(&ctx, &array, &cells, &condition).await;
        let survivors = survivors.map_err(|e| format!("{condition}: {e:?}"))?;
        stored += usize::from(survivors.is_some());
        nested += usize::from(survivors.is_some_and(|tree| matches!(tree, Condition::Any(_))));
    }
    match stored > tries / 2 && nested > tries / 8 {
        true => Ok(()),
        false => Err(format!("{stored} conditions, {nested} with alternatives").into()),
    }
}

/// Deletes by a condition, compares the remaining rows, and reverts the delete. Returns the stored condition if anything was
/// deleted.
async fn survivors_of(
    ctx: &SessionContext,
    array: &Path,
    cells: &[RandomCell],
    condition: &str,
) -> Result<Option<Condition>, Failed> {
    const ROW: &str = "((x * 100 + y) * 100 + v) * 1000 + ascii(s)";
    run(ctx, &format!("DELETE FROM t WHERE {condition}")).await?;
    let left = found(ctx, &format!("SELECT {ROW} FROM t")).await?;
    let expected = format!("SELECT {ROW} FROM m WHERE ({condition}) IS NOT TRUE");
    let expected = found(ctx, &expected).await?;
    if left != expected {
        return Err(format!("{} rows are left, expected {}", left.len(), expected.len()).into());
    }
    let commits = std::fs::read_dir(array.join("__commits"))?;
    let paths = commits.map(|entry| Ok(entry?.path()));
    let mut deletes = paths.collect::<std::io::Result<Vec<_>>>()?;
    deletes.retain(|path| path.extension().is_some_and(|extension| extension == "del"));
    let [delete] = deletes.as_slice() else {
        return match expected.len() == cells.len() && deletes.is_empty() {
            true => Ok(None),
            false => Err(format!("{deletes:?} were stored").into()),
        };
    };
    let tree = Condition::decode_delete(&contents(&std::fs::read(delete)?))?;
    std::fs::remove_file(delete)?;
    let read = cells
        .iter()
        .filter(|cell| in_libtiledb(&tree, cell, true, false));
    let read =
        read.map(|(x, y, v, s)| format!("[{}]", ((x * 100 + y) * 100 + v) * 1000 + i32::from(*s)));
    let mut read = read.collect::<Vec<_>>();
    read.sort();
    match read == expected && tree.clone().flat() == tree {
        true => Ok(Some(tree)),
        false => Err(format!("libtiledb reads {read:?}, not {expected:?}: {tree:?}").into()),
    }
}

/// Whether a cell survives in libtiledb 2.30. libtiledb keeps one flag for each cell. A test clears the flag, or sets it if the
/// test is one of several alternatives. A group of alternatives can only clear the flag, even inside another group, so
/// alternatives nested in alternatives lose cells.
fn in_libtiledb(tree: &Condition, cell: &RandomCell, so_far: bool, or: bool) -> bool {
    let each = |start: bool, or: bool, nodes: &[Condition]| {
        nodes
            .iter()
            .fold(start, |so_far, node| in_libtiledb(node, cell, so_far, or))
    };
    match tree {
        Condition::Test { field, test } if or => so_far | holds(field, test, cell),
        Condition::Test { field, test } => so_far & holds(field, test, cell),
        Condition::All(nodes) if or => so_far | each(true, false, nodes),
        Condition::All(nodes) => each(so_far, false, nodes),
        Condition::Any(nodes) => so_far & each(false, true, nodes),
    }
}

fn holds(field: &str, test: &Test, (x, y, v, s): &RandomCell) -> bool {
    let number = |bytes: &[u8]| match bytes {
        [letter] => i32::from(*letter),
        bytes => i32::from_le_bytes(bytes.try_into().expect("a number")),
    };
    let cell = match field {
        "x" => *x,
        "y" => *y,
        "v" => *v,
        _ => i32::from(*s),
    };
    match test {
        Test::Compare(comparison, value) => {
            let value = number(value);
            match comparison {
                Comparison::Lt => cell < value,
                Comparison::Le => cell <= value,
                Comparison::Gt => cell > value,
                Comparison::Ge => cell >= value,
                Comparison::Eq => cell == value,
                Comparison::Ne => cell != value,
            }
        }
        Test::Member { members, negated } => {
            members.iter().any(|member| number(member) == cell) != *negated
        }
        Test::Always(always) => *always,
    }
}

/// Comparisons, sets and ranges under AND, OR and NOT.
fn random_where(rng: &mut Rng, depth: usize) -> String {
    if depth > 0 && rng.chance(15) {
        return format!("NOT ({})", random_where(rng, depth - 1));
    }
    if depth > 0 {
        let word = rng.pick(&[" AND ", " OR "]);
        let parts = (0..rng.between(2, 4)).map(|_| format!("({})", random_where(rng, depth - 1)));
        return parts.collect::<Vec<_>>().join(word);
    }
    let column = *rng.pick(&["x", "y", "v", "s"]);
    let mut value = || match column {
        "s" => format!("'{}'", char::from(b'a' + rng.below(5) as u8)),
        _ => rng.below(8).to_string(),
    };
    let [a, b, c] = [value(), value(), value()];
    match rng.below(10) {
        0 => format!("{column} BETWEEN {a} AND {b}"),
        1 => format!("{column} NOT BETWEEN {a} AND {b}"),
        2 => format!("{column} IN ({a}, {b}, {c})"),
        3 => format!("{column} NOT IN ({a}, {b}, {c})"),
        _ => format!(
            "{column} {} {a}",
            rng.pick(&["=", "<>", "<", "<=", ">", ">="])
        ),
    }
}

/// Which rows survive a statement on an array with NaN coordinates, or why it is refused.
type OnNan = (&'static str, Result<&'static str, &'static str>);

const HAS_NAN: &str = "cells whose coordinate \"f\" is NaN";
const WRITES_NAN: &str = "is NaN, which is no coordinate";

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

const STATEMENTS: usize = 14;

async fn history(kind: &Kind, seed: u64) -> Result<(), Failed> {
    let mut rng = Rng::new(seed, kind.name.len() as u64);
    let folder = tempfile::tempdir()?;
    let array = folder.path().join("array");
    let shapes = [USUAL].into_iter().chain(SHAPES);
    let shapes = shapes.filter(|shape| !shape.wraps_tables());
    let shapes = shapes.collect::<Vec<Shape>>();
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
    run(&ctx, &format!("SELECT * FROM tiledb_vacuum('{path}')")).await?;
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

/// A statement, and what it must do.
struct Step {
    statement: String,
    /// A query for its count.
    count: String,
    /// A query for the rows afterwards.
    rows: String,
    /// A query for the keys of rows that the statement would change twice, or make twice.
    twice: String,
}

impl Step {
    fn random(kind: &Kind, rng: &mut Rng) -> Self {
        let number = rng.below(12).to_string();
        let condition = rng.pick(kind.conditions).replace("{}", &number);
        let all = kind.columns.join(", ");
        let keys = kind.columns[..kind.dimensions].join(", ");
        let twice =
            |rows: &str| format!("SELECT {keys} FROM ({rows}) GROUP BY {keys} HAVING count(*) > 1");
        let hit = format!("SELECT {keys} FROM m AS t WHERE {condition}");
        let kept = match kind.name {
            "duplicates" => format!("SELECT {all} FROM m AS t WHERE ({condition}) IS NOT TRUE"),
            _ => format!(
                "SELECT m.* FROM m LEFT ANTI JOIN ({hit}) s ON {}",
                same(kind, "m")
            ),
        };
        let count = format!("SELECT count(*) FROM m AS t WHERE {condition}");
        match rng.below(20) {
            0 => Self {
                statement: "TRUNCATE TABLE t".to_owned(),
                count: "SELECT count(*) FROM m".to_owned(),
                rows: "SELECT * FROM m WHERE false".to_owned(),
                twice: twice("SELECT * FROM m WHERE false"),
            },
            1 => {
                let rows = format!(
                    "SELECT {all} FROM ({} FROM unnest(range({number}, 60)) AS u(i))",
                    kind.rows
                );
                Self {
                    statement: format!("INSERT OVERWRITE t {rows}"),
                    count: format!("SELECT count(*) FROM ({rows})"),
                    twice: twice(&rows),
                    rows,
                }
            }
            2..=8 => Self {
                statement: format!("DELETE FROM t WHERE {condition}"),
                count,
                twice: twice(&kept),
                rows: kept,
            },
            9..=11 => Self::merge(kind, rng),
            12 => {
                let rows = format!(
                    "SELECT {all} FROM ({} FROM unnest(range({number}, 30)) AS u(i))",
                    kind.rows
                );
                let others = match kind.name {
                    "duplicates" => "SELECT * FROM m".to_owned(),
                    _ => format!(
                        "SELECT m.* FROM m LEFT ANTI JOIN ({rows}) s ON {}",
                        same(kind, "m")
                    ),
                };
                Self {
                    statement: format!("INSERT INTO t {rows}"),
                    count: format!("SELECT count(*) FROM ({rows})"),
                    twice: twice(&rows),
                    rows: format!("{others} UNION ALL {rows}"),
                }
            }
            _ => {
                let (column, value) = *rng.pick(kind.assignments);
                let set = kind.columns[column];
                let changed = kind.columns.iter().enumerate();
                let changed = changed.map(|(i, name)| match i == column {
                    true => format!("{value} AS {name}"),
                    false => format!("t.{name}"),
                });
                let changed = changed.collect::<Vec<_>>().join(", ");
                let rows =
                    format!("{kept} UNION ALL SELECT {changed} FROM m AS t WHERE {condition}");
                Self {
                    statement: format!("UPDATE t SET {set} = {value} WHERE {condition}"),
                    count,
                    twice: twice(&rows),
                    rows,
                }
            }
        }
    }

    /// Some rows are new, others replace what is there, and others remove it.
    fn merge(kind: &Kind, rng: &mut Rng) -> Self {
        let (from, every) = (rng.below(80), rng.between(1, 4));
        let source = format!(
            "SELECT *, i FROM ({}, i FROM unnest(range({from}, 150, {every})) AS u(i))",
            kind.rows
        );
        let last = kind.columns.len() - 1;
        let (last, source) = (
            kind.columns[last],
            source.replace("SELECT *, i", "SELECT *"),
        );
        let on = same(kind, "t");
        let all = kind.columns.join(", ");
        let values = kind.columns.iter().map(|name| format!("s.{name}"));
        let values = values.collect::<Vec<_>>().join(", ");
        let updated = kind.columns.iter().map(|name| match *name == last {
            true => format!("s.{name}"),
            false => format!("t.{name}"),
        });
        let updated = updated.collect::<Vec<_>>().join(", ");
        let keys = kind.columns[..kind.dimensions]
            .iter()
            .map(|name| format!("t.{name}"));
        let keys = keys.collect::<Vec<_>>().join(", ");
        let joined = format!("m AS t JOIN ({source}) s ON {on} WHERE s.i % 3");
        let new = format!("SELECT {values} FROM ({source}) s LEFT ANTI JOIN m AS t ON {on}");
        let others = format!(
            "SELECT m.* FROM m LEFT ANTI JOIN (SELECT {keys} FROM {joined} < 2) s ON {}",
            same(kind, "m")
        );
        let plain = kind.columns[..kind.dimensions].join(", ");
        let changes =
            format!("SELECT {keys} FROM {joined} < 2 UNION ALL SELECT {plain} FROM ({new})");
        Self {
            statement: format!(
                "MERGE INTO t USING ({source}) s ON {on} WHEN MATCHED AND s.i % 3 = 0 THEN DELETE \
                 WHEN MATCHED AND s.i % 3 = 1 THEN UPDATE SET {last} = s.{last} \
                 WHEN NOT MATCHED THEN INSERT ({all}) VALUES ({values})"
            ),
            count: format!("SELECT count(*) FROM ({changes})"),
            rows: format!("{others} UNION ALL SELECT {updated} FROM {joined} = 1 UNION ALL {new}"),
            twice: format!("SELECT {plain} FROM ({changes}) GROUP BY {plain} HAVING count(*) > 1"),
        }
    }

    async fn check(&self, ctx: &SessionContext, kind: &Kind) -> Result<(), Failed> {
        let expected_count = found(ctx, &self.count).await?;
        let twice = !found(ctx, &self.twice).await?.is_empty();
        let before = found(ctx, "SELECT * FROM t").await?;
        let done = ctx.sql(&self.statement).await;
        let done = match done {
            Ok(plan) => plan.collect().await,
            Err(error) => Err(error),
        };
        let count = match done {
            Ok(_) if twice && kind.name != "duplicates" => {
                return Err("a row is changed or made twice, and nobody says so".into());
            }
            Ok(batches) => batches[0].column(0).as_primitive::<UInt64Type>().value(0),
            Err(error) => {
                let rightly = self.is_refused(ctx, kind, &error.to_string()).await?;
                let unchanged = found(ctx, "SELECT * FROM t").await? == before;
                return match rightly && unchanged {
                    true => Ok(()),
                    false => Err(format!("{error} (unchanged: {unchanged})").into()),
                };
            }
        };
        run(ctx, &format!("CREATE OR REPLACE TABLE m AS {}", self.rows)).await?;
        let (expected, rows) = (
            found(ctx, "SELECT * FROM m").await?,
            found(ctx, "SELECT * FROM t").await?,
        );
        if rows != expected {
            let differing = rows.iter().zip(&expected).find(|(a, b)| a != b);
            return Err(format!(
                "{} rows, expected {}: {differing:?}",
                rows.len(),
                expected.len()
            )
            .into());
        }
        match expected_count == [format!("[{count}]")] {
            true => Ok(()),
            false => Err(format!("{count} rows changed, expected {expected_count:?}").into()),
        }
    }

    /// Whether the statement has to be refused: for the kind of the array, or because a row is changed twice or two rows would
    /// have one key.
    async fn is_refused(
        &self,
        ctx: &SessionContext,
        kind: &Kind,
        error: &str,
    ) -> Result<bool, Failed> {
        let told = [
            "would take the coordinates",
            "more than once",
            "allows no duplicates",
        ];
        Ok(kind.refused.iter().any(|why| error.contains(why))
            || told.iter().any(|why| error.contains(why))
                && !found(ctx, &self.twice).await?.is_empty())
    }
}

fn same(kind: &Kind, table: &str) -> String {
    let keys = kind.columns[..kind.dimensions].iter();
    let keys = keys.map(|name| format!("{table}.{name} = s.{name}"));
    keys.collect::<Vec<_>>().join(" AND ")
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
    let batches = ctx.sql(query).await.map_err(|e| format!("{query}: {e}"))?;
    let batches = batches
        .collect()
        .await
        .map_err(|e| format!("{query}: {e}"))?;
    Ok(neutral_rows::rows(&batches))
}
