//! Random conditions of stored deletes: libtiledb evaluates them to the same cells.

use std::path::Path;

use datafusion::prelude::SessionContext;
use libtest_mimic::Failed;
use tiledb_engine::format::delete_condition::{Comparison, ConditionTest, DeleteCondition};

use super::{found, run};
use crate::support::array_files::contents;
use crate::support::rng::Rng;
use crate::support::session_shapes::USUAL;
use crate::{block_on, trial};

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
        .flat_map(|x| (0..5).map(move |y| (x, y, (x * 3 + y * 7) % 8, b'a' + (x + y) as u8 % 5)))
        .collect::<Vec<RandomCell>>();
    let rows = cells
        .iter()
        .map(|(x, y, v, s)| format!("({x}, {y}, {v}, '{}')", char::from(*s)))
        .collect::<Vec<_>>()
        .join(", ");
    run(&ctx, &format!("INSERT INTO t VALUES {rows}")).await?;
    run(&ctx, "CREATE TABLE m AS SELECT * FROM t").await?;
    let mut rng = Rng::new(20, u64::from(duplicates));
    let tries = std::env::var("CHANGED").map_or(40, |_| 400);
    let (mut stored, mut nested) = (0, 0);
    for _ in 0..tries {
        let depth = rng.below(4);
        let condition = random_where(&mut rng, depth);
        let survivors = survivors_of(&ctx, &array, &cells, &condition)
            .await
            .map_err(|e| format!("{condition}: {e:?}"))?;
        stored += usize::from(survivors.is_some());
        nested +=
            usize::from(survivors.is_some_and(|tree| matches!(tree, DeleteCondition::Any(_))));
    }
    if stored > tries / 2 && nested > tries / 8 {
        Ok(())
    } else {
        Err(format!("{stored} conditions, {nested} with alternatives").into())
    }
}

/// Deletes by a condition, compares the remaining rows, and reverts the delete. Returns the stored condition if anything was
/// deleted.
async fn survivors_of(
    ctx: &SessionContext,
    array: &Path,
    cells: &[RandomCell],
    condition: &str,
) -> Result<Option<DeleteCondition>, Failed> {
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
        return if expected.len() == cells.len() && deletes.is_empty() {
            Ok(None)
        } else {
            Err(format!("{deletes:?} were stored").into())
        };
    };
    let tree = DeleteCondition::decode_delete(&contents(&std::fs::read(delete)?))?;
    std::fs::remove_file(delete)?;
    let read = cells
        .iter()
        .filter(|cell| in_libtiledb(&tree, cell, true, false));
    let read =
        read.map(|(x, y, v, s)| format!("[{}]", ((x * 100 + y) * 100 + v) * 1000 + i32::from(*s)));
    let mut read = read.collect::<Vec<_>>();
    read.sort();
    if read == expected && tree.clone().flat() == tree {
        Ok(Some(tree))
    } else {
        Err(format!("libtiledb reads {read:?}, not {expected:?}: {tree:?}").into())
    }
}

/// Whether a cell survives in libtiledb 2.30. libtiledb keeps one flag for each cell. A test clears the flag, or sets it if the
/// test is one of several alternatives. A group of alternatives can only clear the flag, even inside another group, so
/// alternatives nested in alternatives lose cells.
fn in_libtiledb(tree: &DeleteCondition, cell: &RandomCell, so_far: bool, or: bool) -> bool {
    let each = |start: bool, or: bool, nodes: &[DeleteCondition]| {
        nodes
            .iter()
            .fold(start, |so_far, node| in_libtiledb(node, cell, so_far, or))
    };
    match tree {
        DeleteCondition::Test { field, test } if or => so_far | holds(field, test, cell),
        DeleteCondition::Test { field, test } => so_far & holds(field, test, cell),
        DeleteCondition::All(nodes) if or => so_far | each(true, false, nodes),
        DeleteCondition::All(nodes) => each(so_far, false, nodes),
        DeleteCondition::Any(nodes) => so_far & each(false, true, nodes),
    }
}

fn holds(field: &str, test: &ConditionTest, (x, y, v, s): &RandomCell) -> bool {
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
        ConditionTest::Compare(comparison, value) => {
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
        ConditionTest::Member { members, negated } => {
            members.iter().any(|member| number(member) == cell) != *negated
        }
        ConditionTest::Always(always) => *always,
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
