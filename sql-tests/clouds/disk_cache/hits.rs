//! What is found on disk.

use std::fs;

use libtest_mimic::Failed;

use super::{CachedCloud, arrange, arrange_sparse, expect, reads};

/// Statements, with a part of their rows.
const QUERIES: [(&[&str], &str); 11] = [
    (
        &["SELECT count(v) AS n, sum(v) AS s FROM 's3://data/sparse' WHERE kind <> ''"],
        "| 60000 | 899985000.0 |",
    ),
    (
        &["SELECT v FROM 's3://data/sparse' WHERE x = 31234"],
        "| 15617.0 |",
    ),
    (
        &[
            "SELECT kind, sum(v) AS s FROM 's3://data/enumerated' WHERE v >= 0 GROUP BY kind ORDER BY kind LIMIT 1",
        ],
        "| k0   | 28578571 |",
    ),
    (
        &["SELECT sum(a) AS s FROM 's3://data/dense' WHERE y BETWEEN 30 AND 31 AND x < 5"],
        "| 61020.0 |",
    ),
    (
        &["SELECT sum(b) AS s FROM 's3://data/dense' WHERE b % 2 = 0"],
        "| 399980000 |",
    ),
    (
        &["SELECT count(*) AS n, sum(v) AS s, sum(w) AS w FROM 's3://data/changed' WHERE x >= 0"],
        "| 91 | 3961 | 92 |",
    ),
    (
        &["SELECT count(*) AS n, sum(v) AS s FROM 's3://data/merged' WHERE v >= 0"],
        "| 190 | 17955 |",
    ),
    (
        &["SELECT count(*) AS n FROM tiledb_schema('s3://data/dense')"],
        "| 4 |",
    ),
    (
        &["SELECT count(*) AS n FROM tiledb_fragments('s3://data/sparse')"],
        "| 2 |",
    ),
    (
        &["ATTACH 's3://data/group' AS g", "SELECT v FROM g.m"],
        "| 50 |",
    ),
    (
        &["SELECT count(*) AS n FROM 's3://data/sparse'"],
        "| 60000 |",
    ),
];

trial!(warm_queries_only_list);
/// A repeated query in a new process makes its listings and nothing else.
async fn warm_queries_only_list() -> Result<(), Failed> {
    let cached = CachedCloud::start()?;
    arrange(&cached.cloud).await?;
    for (sql, gives) in QUERIES {
        // Each query begins with an empty cache, because it shares bytes with those before it.
        let _ = fs::remove_dir_all(cached.folder());
        let (cold, asked) = cached.run(sql).await?;
        expect(&cold, gives)?;
        if reads(&asked).is_empty() {
            return Err(format!("{sql:?} asks for nothing at first").into());
        }
        let (warm, listed) = cached.run(sql).await?;
        expect(&warm, gives)?;
        let read = reads(&listed);
        if !read.is_empty() || listed.is_empty() {
            return Err(format!("{sql:?} asks for {read:#?}").into());
        }
    }
    Ok(())
}

trial!(neighbours_do_not_matter);
/// A tile is found again although it was fetched with others, and only the tiles that are missing are fetched.
async fn neighbours_do_not_matter() -> Result<(), Failed> {
    let cached = CachedCloud::start()?;
    arrange_sparse(&cached.cloud).await?;
    let all =
        "SELECT sum(v * 2) AS s FROM 's3://data/sparse' WHERE x BETWEEN 10000 AND 19999 AND v >= 0";
    let one =
        "SELECT sum(v * 2) AS s FROM 's3://data/sparse' WHERE x BETWEEN 15000 AND 15999 AND v >= 0";
    let more =
        "SELECT sum(v * 2) AS s FROM 's3://data/sparse' WHERE x BETWEEN 15000 AND 20999 AND v >= 0";
    expect(&cached.run(&[all]).await?.0, "| 149995000.0 |")?;
    let (found, asked) = cached.run(&[one]).await?;
    expect(&found, "| 15499500.0 |")?;
    let read = reads(&asked);
    if !read.is_empty() {
        return Err(format!("one tile asks for {read:#?}").into());
    }
    let (found, asked) = cached.run(&[more]).await?;
    expect(&found, "| 107997000.0 |")?;
    let read = reads(&asked);
    // One new tile of the coordinate, the value and its validity, and neither the end of a file nor a schema.
    if read.is_empty() || read.len() > 3 {
        return Err(format!("a new tile asks for {read:#?}").into());
    }
    Ok(())
}

trial!(explained);
/// EXPLAIN ANALYZE shows what came from disk, and doesn't count it as fetched.
async fn explained() -> Result<(), Failed> {
    let cached = CachedCloud::start()?;
    arrange_sparse(&cached.cloud).await?;
    let sql = "EXPLAIN ANALYZE SELECT v FROM 's3://data/sparse' WHERE x = 31234";
    let (cold, _) = cached.run(&[sql]).await?;
    expect(&cold, "bytes_fetched=")?;
    for part in ["disk_cache", "bytes_fetched=0,", "requests=0,"] {
        if cold.contains(part) {
            return Err(format!("{part} without a cache: {cold}").into());
        }
    }
    let (warm, _) = cached.run(&[sql]).await?;
    for part in [
        "disk_cache_hits=3,",
        "bytes_from_disk_cache=",
        "bytes_fetched=0,",
        "requests=0,",
    ] {
        expect(&warm, part)?;
    }
    Ok(())
}
