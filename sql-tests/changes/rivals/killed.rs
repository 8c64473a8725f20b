//! Processes that are killed in the middle of a statement: the array holds the state before it or after it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use datafusion::prelude::SessionContext;
use libtest_mimic::Failed;

use super::{Kind, nothing_wrong, run, session};
use crate::support::array_files::Files;
use crate::support::neutral_rows;
use crate::support::rng::Rng;
use crate::support::shell_place::PROGRAM;
use crate::{block_on, trial};

/// What is killed, and whether it changes rows.
const KILLED: [(&str, &str); 7] = [
    (
        "insert",
        "INSERT INTO t SELECT i, 1 AS w, 1 AS s, i AS v FROM unnest(range(1500, 9000)) AS u(i)",
    ),
    ("update", "UPDATE t SET v = v + 1 WHERE x % 3 = 0"),
    ("move", "UPDATE t SET x = x + 10000 WHERE x % 3 = 0"),
    ("delete", "DELETE FROM t WHERE v + 0 > 700"),
    (
        "copy",
        "COPY (SELECT * FROM t) TO 'copy' STORED AS TILEDB PARTITIONED BY (x)",
    ),
    ("consolidate", "SELECT * FROM tiledb_consolidate('array')"),
    (
        "vacuum",
        "SELECT * FROM tiledb_vacuum('array', min_age => '0')",
    ),
];

async fn write_fragments(ctx: &SessionContext, array: &Path) -> Result<(), Failed> {
    run(ctx, &Kind::Sparse.create(array)).await?;
    for first in [0, 1000, 500] {
        let insert = format!(
            "INSERT INTO t SELECT i, 0 AS w, 0 AS s, i AS v FROM unnest(range({first}, {})) AS u(i)",
            first + 1000
        );
        run(ctx, &insert).await?;
    }
    Ok(())
}

trials!([trial("killed", || block_on(killed())).with_ignored_flag(PROGRAM.is_none())]);

/// `tiledb-sql` is killed at a random moment: the array holds what it held before or what the statement makes of it.
async fn killed() -> Result<(), Failed> {
    let times = std::env::var("RIVALS_KILLED")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(10);
    let folder = tempfile::tempdir()?;
    let array = folder.path().join("array");
    let ctx = session()?;
    write_fragments(&ctx, &array).await?;
    let many = Files::of(&array);
    run(
        &ctx,
        &format!("SELECT * FROM tiledb_consolidate('{}')", array.display()),
    )
    .await?;
    let replaced = Files::of(&array);
    let seed = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)?
        .as_nanos() as u64;
    let mut rng = Rng::new(seed, 0);
    let mut counts = BTreeMap::<(&str, &str), usize>::new();
    let mut expected = BTreeMap::new();
    for number in 0..times {
        let (name, statement) = KILLED[number % KILLED.len()];
        let before = if name == "vacuum" { &replaced } else { &many };
        if !expected.contains_key(name) {
            let place = tempfile::tempdir()?;
            before.write(&place.path().join("array"));
            let held = held(place.path()).await?;
            let begun = Instant::now();
            let ended = start(place.path(), "SELECT 1")?.wait()?;
            let opened = begun.elapsed();
            let begun = Instant::now();
            let ended = (
                ended.success(),
                start(place.path(), statement)?.wait()?.success(),
            );
            if ended != (true, true) {
                return Err(format!("{statement} fails").into());
            }
            let after = self::held(place.path()).await?;
            expected.insert(name, (held, after, opened, begun.elapsed()));
        }
        let (was, after, opened, whole) = &expected[name];
        let place = tempfile::tempdir()?;
        before.write(&place.path().join("array"));
        let mut child = start(place.path(), statement)?;
        let from = opened.as_micros() as usize * 7 / 10;
        let until = whole.as_micros() as usize * 11 / 10;
        let wait = rng.between(from, until.max(from));
        tokio::time::sleep(Duration::from_micros(wait as u64)).await;
        child.kill()?;
        let ended = child.wait()?.success();
        let found = held(place.path()).await?;
        let state =
            match (ended, found == *was, found == *after) {
                (_, true, true) => "as before and after",
                (_, false, true) => "as after",
                (false, true, false) => "as before",
                _ => return Err(format!(
                    "{name}, seed {seed}, killed after {wait} us, success {ended}, left {found:?}"
                )
                .into()),
            };
        tidied(place.path(), &found).await.map_err(|error| {
            format!(
                "{name}, seed {seed}, killed after {wait} us: {}",
                error.message().unwrap_or_default()
            )
        })?;
        *counts.entry((name, state)).or_default() += 1;
    }
    println!("{counts:?}");
    Ok(())
}

fn start(place: &Path, statement: &str) -> Result<std::process::Child, Failed> {
    let program = PROGRAM.ok_or("the shell was not built")?;
    let open = "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION 'array'";
    let child = Command::new(program)
        .args(["-q", "-c", open, "-c", statement])
        .current_dir(place)
        .env("HOME", place)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Ok(child?)
}

/// The number and sums of the rows of the array, and of its copy if there is one.
async fn held(place: &Path) -> Result<Vec<String>, Failed> {
    let ctx = session()?;
    let mut held = Vec::new();
    for name in ["array", "copy"] {
        let array = place.join(name);
        let query = format!(
            "SELECT count(*), count(DISTINCT x), sum(x), sum(x * v), sum(v * w), sum(s) FROM '{}'",
            array.display()
        );
        match ctx.sql(&query).await {
            Ok(found) => held.extend(neutral_rows::rows(&found.collect().await?)),
            Err(error) if name == "copy" => {
                let text = error.to_string();
                if !text.contains("not found") && !text.contains("not a TileDB array") {
                    return Err(error.into());
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(held)
}

/// What a killed statement left is listed and removed, and nothing else is wrong.
async fn tidied(place: &Path, expected: &[String]) -> Result<(), Failed> {
    let ctx = session()?;
    let array = place.join("array");
    nothing_wrong(&ctx, &array, false).await?;
    // A consolidation that was committed is completed by the next vacuum.
    for mode in ["leftovers", "fragments", "commits", "leftovers"] {
        let vacuum = format!(
            "SELECT * FROM tiledb_vacuum('{}', mode => '{mode}', min_age => '0')",
            array.display()
        );
        run(&ctx, &vacuum).await?;
    }
    nothing_wrong(&ctx, &array, true).await?;
    let found = held(place).await?;
    if found == expected {
        Ok(())
    } else {
        Err(format!("{expected:?} became {found:?}").into())
    }
}
