//! Consolidation in pools that are smaller than the fragments.

use std::sync::Arc;

use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::prelude::SessionContext;
use libtest_mimic::Failed;

use super::{expect_empty, numbers, session};
use crate::support::array_files::Files;

trial!(fragments_beyond_the_pool_made_one);
/// Fragments of 14 MB become one in a pool of 4 MB if their cells don't interleave. If their cells interleave, a merge in one
/// round would need 22 MB to hold a tile of each. In a pool of 8 MB it takes several rounds.
async fn fragments_beyond_the_pool_made_one() -> Result<(), Failed> {
    const FRAGMENTS: usize = 36;
    const ROWS: usize = 10_000;
    for place in ["$FRAGMENT * 10000 + i", "i * 40 + $FRAGMENT"] {
        let scratch = tempfile::tempdir()?;
        let path = scratch.path().join("array").display().to_string();
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 30));
        let ctx = session(&pool, 2)?;
        datafusion_tiledb::register(&ctx)?;
        let create = format!(
            "CREATE EXTERNAL TABLE t (x BIGINT NOT NULL, a BIGINT NOT NULL, b BIGINT NOT NULL, c BIGINT NOT NULL, \
             d BIGINT NOT NULL, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '{path}' OPTIONS ('tiledb.capacity' '10000')"
        );
        ctx.sql(&create).await?.collect().await?;
        for fragment in 0..FRAGMENTS {
            let place = place.replace("$FRAGMENT", &fragment.to_string());
            let insert = format!(
                "INSERT INTO t SELECT {place}, i, i * 7, i * i, -i FROM unnest(range(0, {ROWS})) AS u(i)"
            );
            ctx.sql(&insert).await?.collect().await?;
        }
        // The tiles have 600 KB. If the cells interleave, the merge holds ten of them, and those of the output.
        let apart = place.starts_with('$');
        let bytes = if apart { 4 << 20 } else { 8 << 20 };
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
        let small = session(&pool, 2)?;
        datafusion_tiledb::register(&small)?;
        let consolidate = format!("SELECT * FROM tiledb_consolidate('{path}')");
        small.sql(&consolidate).await?.collect().await?;
        expect_empty(&pool, place).await?;
        let fragments = format!("SELECT count(*) FROM tiledb_fragments('{path}') WHERE visible");
        assert_eq!(numbers(&ctx, &fragments).await?, [1], "{place}");
        let rows = numbers(&ctx, "SELECT count(DISTINCT x) FROM t").await?;
        assert_eq!(rows, [(FRAGMENTS * ROWS) as i64]);
    }
    Ok(())
}

trial!(merges_in_pools_of_all_sizes);
/// Wherever the memory ends, whether while an input is opened, fetched, decoded or merged, the merge goes on with less, or the
/// statement fails for lack of memory and leaves the array as it was.
async fn merges_in_pools_of_all_sizes() -> Result<(), Failed> {
    const FRAGMENTS: usize = 16;
    let scratch = tempfile::tempdir()?;
    let path = scratch.path().join("array").display().to_string();
    let plenty: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 30));
    let ctx = session(&plenty, 2)?;
    datafusion_tiledb::register(&ctx)?;
    let create = format!(
        "CREATE EXTERNAL TABLE t (x BIGINT NOT NULL, a BIGINT NOT NULL, s VARCHAR, PRIMARY KEY (x)) STORED AS TILEDB \
         LOCATION '{path}' OPTIONS ('tiledb.capacity' '300')"
    );
    ctx.sql(&create).await?.collect().await?;
    for fragment in 0..FRAGMENTS {
        let insert = format!(
            "INSERT INTO t SELECT i * {FRAGMENTS} + {fragment}, i, repeat('s', i % 9) FROM unnest(range(0, 2000)) AS u(i)"
        );
        ctx.sql(&insert).await?.collect().await?;
    }
    ctx.sql("DELETE FROM t WHERE a BETWEEN 100 AND 120")
        .await?
        .collect()
        .await?;
    let files = Files::of(&scratch.path().join("array"));
    let (mut merged, mut refused) = (0, 0);
    for kilobytes in (1..=24).map(|step| step * step * 8) {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(kilobytes << 10));
        let small = session(&pool, 2)?;
        datafusion_tiledb::register(&small)?;
        let place = scratch.path().join(format!("copy_{kilobytes}"));
        files.write(&place);
        let place = place.display();
        let consolidate = format!("SELECT * FROM tiledb_consolidate('{place}')");
        let ended = match small.sql(&consolidate).await {
            Ok(planned) => planned.collect().await,
            Err(error) => Err(error),
        };
        match ended {
            Ok(_) => merged += 1,
            Err(error) if error.to_string().contains("memory") => refused += 1,
            Err(error) => return Err(format!("{kilobytes} KiB: {error}").into()),
        }
        expect_empty(&pool, &consolidate).await?;
        let rows = format!("SELECT count(*) + sum(a) FROM '{place}'");
        assert_eq!(
            numbers(&ctx, &rows).await?,
            numbers(&ctx, "SELECT count(*) + sum(a) FROM t").await?
        );
    }
    assert!(
        merged > 2 && refused > 2,
        "{merged} merged, {refused} refused"
    );
    Ok(())
}

/// Writes 14 fragments, of which each millisecond has two, and deletes between them.
async fn write_fragments(
    ctx: &SessionContext,
    array: &str,
    duplicates: &str,
) -> Result<(), Failed> {
    const FRAGMENTS: usize = 14;
    let create = format!(
        "CREATE EXTERNAL TABLE t (x BIGINT NOT NULL, a BIGINT NOT NULL, s VARCHAR, PRIMARY KEY (x)) STORED AS TILEDB \
         LOCATION '{array}' OPTIONS ('tiledb.capacity' '4000', 'tiledb.allows_duplicates' '{duplicates}', \
         'tiledb.write_timestamp' '1')"
    );
    ctx.sql(&create).await?.collect().await?;
    for fragment in 0..FRAGMENTS {
        // Each millisecond has two fragments.
        let time = 10 + fragment / 2;
        let table = format!(
            "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{array}' \
             OPTIONS ('tiledb.write_timestamp' '{time}')"
        );
        ctx.sql("DROP TABLE t").await?.collect().await?;
        ctx.sql(&table).await?.collect().await?;
        let insert = format!(
            "INSERT INTO t SELECT i * (1 + {fragment} % 3), i * 100 + {fragment}, repeat('s', {fragment}) \
             FROM unnest(range(0, 4000)) AS u(i)"
        );
        ctx.sql(&insert).await?.collect().await?;
        if fragment % 4 == 3 {
            let delete = format!("DELETE FROM t WHERE x % 7 = {fragment} % 7 AND x < 3000");
            let stored = format!("DELETE FROM t WHERE x BETWEEN {fragment}00 AND {fragment}50");
            let statement = if duplicates == "true" {
                stored
            } else {
                [delete, stored][fragment / 4 % 2].clone()
            };
            // Move on to the next millisecond.
            ctx.sql("DROP TABLE t").await?.collect().await?;
            ctx.sql(&table.replace(&format!("'{time}'"), &format!("'{}'", time + 1)))
                .await?
                .collect()
                .await?;
            ctx.sql(&statement).await?.collect().await?;
        }
    }
    Ok(())
}

trial!(several_rounds_are_as_one);
/// A merge in several rounds, for lack of memory, gives the same result as a merge in one round. The inputs hold several
/// versions of cells, some written in one millisecond, and deletes between them, which all rounds keep or the last round drops.
async fn several_rounds_are_as_one() -> Result<(), Failed> {
    for (duplicates, consolidate) in [
        ("false", "min_fragments => 2"),
        ("false", "purge_deleted => true"),
        ("false", "timestamps => false"),
    ] {
        let scratch = tempfile::tempdir()?;
        let paths = ["one", "several"].map(|name| scratch.path().join(name).display().to_string());
        let plenty: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 30));
        let ctx = session(&plenty, 2)?;
        datafusion_tiledb::register(&ctx)?;
        let [one, several] = &paths;
        write_fragments(&ctx, one, duplicates).await?;
        crate::support::folders::copy_folder(
            std::path::Path::new(one),
            std::path::Path::new(several),
        )?;
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(5 << 20));
        let small = session(&pool, 2)?;
        datafusion_tiledb::register(&small)?;
        let call =
            |path: &str| format!("SELECT * FROM tiledb_consolidate('{path}', {consolidate})");
        ctx.sql(&call(one)).await?.collect().await?;
        small.sql(&call(several)).await?.collect().await?;
        expect_empty(&pool, consolidate).await?;
        let mut read = Vec::new();
        for path in &paths {
            let folders = std::fs::read_dir(format!("{path}/__fragments"))?.count();
            let mut rows = Vec::new();
            for window in [
                "",
                "?timestamp=13",
                "?all_versions=true&system_columns=true",
                "?timestamp_start=12",
            ] {
                let query = if window.contains("system") {
                    format!("SELECT x, a, s, __timestamp FROM '{path}{window}'")
                } else {
                    format!("SELECT x, a, s FROM '{path}{window}'")
                };
                rows.push(crate::support::neutral_rows::rows(
                    &ctx.sql(&query).await?.collect().await?,
                ));
            }
            let deleted =
                format!("SELECT sum(cells) FROM tiledb_fragments('{path}') WHERE visible");
            read.push((folders, rows, numbers(&ctx, &deleted).await?));
        }
        if read[0] != read[1] {
            let same = read[0]
                .1
                .iter()
                .zip(&read[1].1)
                .map(|(a, b)| (a.len(), b.len(), a == b))
                .collect::<Vec<_>>();
            return Err(format!(
                "{consolidate}, duplicates {duplicates}: {same:?}, {:?} {:?}",
                read[0].2, read[1].2
            )
            .into());
        }
    }
    Ok(())
}
