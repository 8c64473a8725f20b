//! One zero: coordinates of -0.0 are those of 0.0 in each order and each statement.

use std::fs;
use std::path::{Path, PathBuf};

use datafusion::prelude::SessionContext;
use libtest_mimic::Failed;

use super::{found, run, sound};
use crate::support::session_shapes::USUAL;

/// The data files of a dimension.
fn coordinates(array: &Path, dimension: usize) -> Result<Vec<PathBuf>, Failed> {
    let mut files = Vec::new();
    for fragment in fs::read_dir(array.join("__fragments"))? {
        files.push(fragment?.path().join(format!("d{dimension}.tdb")));
    }
    files.sort();
    Ok(files)
}

/// Sets the sign of the zero coordinate in a file, as libtiledb would have stored it.
fn make_negative(file: &Path, size: usize) -> Result<(), Failed> {
    let mut bytes = fs::read(file)?;
    let cells = 2 * size;
    let start = bytes
        .len()
        .checked_sub(cells)
        .ok_or("the file has two cells")?;
    let mut values = bytes[start..].chunks_exact_mut(size);
    let zero = values.find(|value| value.iter().all(|byte| *byte == 0));
    zero.ok_or("one of them is zero")?[size - 1] = 0x80;
    Ok(fs::write(file, bytes)?)
}

fn has_negative_zero(file: &Path, size: usize) -> Result<bool, Failed> {
    let bytes = fs::read(file)?;
    let mut pattern = vec![0; size];
    pattern[size - 1] = 0x80;
    Ok(bytes.rchunks_exact(size).any(|value| value == pattern))
}

/// An array of floats in some order, without filters.
async fn of_floats(
    ctx: &SessionContext,
    array: &Path,
    name: &str,
    ty: &str,
    dimensions: usize,
    order: &str,
) -> Result<(), Failed> {
    let names = ["x", "y"].get(..dimensions).ok_or("one or two")?;
    let columns = names.iter().map(|n| format!("{n} {ty} NOT NULL, "));
    let options = names.iter().map(|n| {
        let tile = match order {
            "hilbert" => String::new(),
            _ => format!(", 'tiledb.dim.{n}.tile' '2.5'"),
        };
        format!(", 'tiledb.dim.{n}.domain' '[-10, 10]', 'tiledb.dim.{n}.filters' 'none'{tile}")
    });
    let create = format!(
        "CREATE EXTERNAL TABLE {name} ({}v INT, PRIMARY KEY ({})) STORED AS TILEDB LOCATION '{}' \
         OPTIONS ('tiledb.cell_order' '{order}'{})",
        columns.collect::<String>(),
        names.join(", "),
        array.display(),
        options.collect::<String>(),
    );
    run(ctx, &create).await
}

trial!(one_zero_in_each_order);
/// Two zeros in several fragments are one cell, and the newest version is shown.
async fn one_zero_in_each_order() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let ctx = USUAL.context()?;
    let orders = ["row-major", "col-major", "hilbert"];
    let types = [("DOUBLE", 8), ("REAL", 4)];
    let all = orders.iter().flat_map(|order| types.map(|ty| (*order, ty)));
    for (number, (order, (ty, size))) in all.enumerate() {
        for dimensions in [1, 2] {
            let name = format!("t{number}_{dimensions}");
            let array = folder.path().join(&name);
            of_floats(&ctx, &array, &name, ty, dimensions, order).await?;
            let second = ["", ", 0"][dimensions - 1];
            let other = ["", ", 3"][dimensions - 1];
            // The versions of the cell, oldest first, and which of their coordinates have a sign.
            let signs: [&[usize]; 4] = match dimensions {
                1 => [&[0], &[], &[0], &[0]],
                _ => [&[0], &[], &[1], &[0, 1]],
            };
            let what = format!("{ty}, {dimensions} dimensions, {order}");
            for (version, negative) in (1..).zip(signs) {
                let beside = format!("({version}{other}, {version})");
                let insert = format!("INSERT INTO {name} VALUES (0{second}, {version}), {beside}");
                run(&ctx, &insert).await?;
                for dimension in negative {
                    let files = coordinates(&array, *dimension)?;
                    make_negative(files.last().ok_or("a fragment was written")?, size)?;
                }
                let query = format!("SELECT CAST(x AS VARCHAR), v FROM {name} WHERE x = 0");
                let expected = format!("[\"0.0\",{version}]");
                assert_eq!(found(&ctx, &query).await?, [expected], "{what}");
                let count = format!("SELECT count(*), count(DISTINCT x), min(x) FROM {name}");
                let zero = ["0000000000000000", "00000000"][usize::from(size == 4)];
                let expected = format!("[{},{},\"{zero}\"]", version + 1, version + 1);
                assert_eq!(found(&ctx, &count).await?, [expected], "{what}");
            }
            let negative = format!("SELECT v FROM {name} WHERE x = '-0.0'");
            assert_eq!(found(&ctx, &negative).await?, ["[4]"], "{what}");
            let before = found(&ctx, &format!("SELECT * FROM {name}")).await?;
            sound(&ctx, &array).await?;
            let place = array.display();
            run(
                &ctx,
                &format!("SELECT * FROM tiledb_consolidate('{place}')"),
            )
            .await?;
            run(
                &ctx,
                &format!("SELECT * FROM tiledb_vacuum('{place}', min_age => '0')"),
            )
            .await?;
            let after = found(&ctx, &format!("SELECT * FROM {name}")).await?;
            assert_eq!(before, after, "{what}");
            sound(&ctx, &array).await?;
            // libtiledb now sees one cell, too.
            for dimension in 0..dimensions {
                for file in coordinates(&array, dimension)? {
                    assert!(!has_negative_zero(&file, size)?, "{what}");
                }
            }
        }
    }
    Ok(())
}

trial!(one_zero_in_each_statement);
/// Each statement finds the row at -0.0 when it looks at 0.0. The row that replaces it keeps the sign, because libtiledb
/// distinguishes cells by it.
async fn one_zero_in_each_statement() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let ctx = USUAL.context()?;
    // Each entry holds a statement, the values of v afterwards, and whether the cell that it writes at zero has the sign.
    let statements: [(&str, &[i32], Option<bool>); 15] = [
        ("INSERT INTO t VALUES (0.0, 5)", &[2, 5], Some(false)),
        ("INSERT INTO t VALUES ('-0.0', 5)", &[2, 5], Some(false)),
        ("UPDATE t SET v = 5 WHERE x = 0", &[2, 5], Some(true)),
        ("UPDATE t SET v = 5 WHERE x = '-0.0'", &[2, 5], Some(true)),
        ("UPDATE t SET v = v + 4 WHERE v = 1", &[2, 5], Some(true)),
        ("UPDATE t SET x = 0 WHERE v = 1", &[1, 2], Some(true)),
        ("UPDATE t SET x = x + 3 WHERE v = 1", &[1, 2], Some(true)),
        ("UPDATE t SET x = -x WHERE x = 1 OR x = 0", &[1, 2], None),
        // The rows swap their coordinates.
        ("UPDATE t SET x = 1 - x", &[1, 2], Some(false)),
        ("DELETE FROM t WHERE x = 0", &[2], None),
        ("DELETE FROM t WHERE x IN (0, 5, 7)", &[2], None),
        ("DELETE FROM t WHERE x < 0.5", &[2], None),
        ("DELETE FROM t WHERE v = 1", &[2], None),
        ("DELETE FROM t WHERE v + 0 = 1", &[2], Some(true)),
        (
            "MERGE INTO t USING (VALUES (0.0, 5)) AS g(a, b) ON t.x = g.a WHEN MATCHED THEN UPDATE SET v = g.b WHEN NOT MATCHED THEN INSERT VALUES (g.a, g.b)",
            &[2, 5],
            Some(true),
        ),
    ];
    for (number, (statement, left, sign)) in statements.into_iter().enumerate() {
        let array = folder.path().join(number.to_string());
        of_floats(&ctx, &array, "t", "DOUBLE", 1, "row-major").await?;
        run(&ctx, "INSERT INTO t VALUES (0, 1), (1, 2)").await?;
        let before = coordinates(&array, 0)?;
        make_negative(&before[0], 8)?;
        run(&ctx, statement).await?;
        let values = found(&ctx, "SELECT v FROM t").await?;
        let left = left.iter().map(|v| format!("[{v}]"));
        assert_eq!(values, left.collect::<Vec<_>>(), "{statement}");
        let zeros = found(
            &ctx,
            "SELECT count(*) FROM t WHERE CAST(x AS VARCHAR) = '-0.0'",
        );
        assert_eq!(zeros.await?, ["[0]"], "{statement}");
        let mut written = coordinates(&array, 0)?;
        written.retain(|file| !before.contains(file));
        if let Some(sign) = sign {
            let written = written.last().ok_or("the statement writes a fragment")?;
            assert_eq!(has_negative_zero(written, 8)?, sign, "{statement}");
        }
        sound(&ctx, &array).await?;
        run(&ctx, "DROP TABLE t").await?;
    }
    let array = folder.path().join("twice");
    of_floats(&ctx, &array, "t", "DOUBLE", 1, "row-major").await?;
    let twice = run(&ctx, "INSERT INTO t VALUES ('-0.0', 1), (0.0, 2)").await;
    let told = format!("{twice:?}");
    assert!(told.contains("allows no duplicates"), "{told}");
    Ok(())
}
