//! Answers are those of the store, whatever lies on disk.

use std::fs;

use libtest_mimic::Failed;
use object_store::ObjectStoreExt;

use super::{CachedCloud, arrange_sparse, end, expect, files_of, reads};
use crate::support::cloud::{error, rows};

/// Statements that change an array at `$U`.
const CHANGES: [&str; 13] = [
    "CREATE EXTERNAL TABLE t (x BIGINT, v BIGINT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '$U'",
    "INSERT INTO t SELECT value, value AS v FROM generate_series(0, 99)",
    "INSERT INTO t VALUES (5, 1000)",
    "DELETE FROM t WHERE x < 3",
    "UPDATE t SET v = 7 WHERE x = 50",
    "ALTER TABLE t ADD COLUMN w BIGINT DEFAULT 3",
    "DELETE FROM t WHERE v = 60",
    "ALTER TABLE t DROP COLUMN v",
    "SELECT * FROM tiledb_consolidate('$U', mode => 'commits')",
    "SELECT * FROM tiledb_consolidate('$U', mode => 'fragments')",
    "SELECT * FROM tiledb_vacuum('$U', min_age => '0')",
    "INSERT INTO t VALUES (1000, 4)",
    "DROP TABLE t",
];

trial!(changes_are_seen);
/// Neither an old session nor a new one gets old rows after another program changed the array, or made another one in its place.
async fn changes_are_seen() -> Result<(), Failed> {
    let cached = CachedCloud::start()?;
    let url = "s3://data/t";
    let (writer, plain) = (cached.cloud.session(), cached.cloud.session());
    let mut reader = cached.session().await?;
    let sql = format!("SELECT * FROM '{url}' ORDER BY x");
    for life in 0..2 {
        for (step, change) in CHANGES.iter().enumerate() {
            rows(&writer, &change.replace("$U", url)).await?;
            // Dropping a table leaves its array.
            let expected = rows(&plain, &sql).await?;
            if step % 3 == 2 {
                end(&reader).await?;
                reader = cached.session().await?;
            }
            for _ in 0..2 {
                let found = rows(&reader, &sql).await?;
                if found != expected {
                    return Err(
                        format!("life {life}, {change}: {found}\nexpected {expected}").into(),
                    );
                }
            }
        }
        let objects = cached.cloud.server.objects();
        for path in cached.cloud.contents().await?.into_keys() {
            objects.delete(&path).await?;
        }
    }
    Ok(())
}

trial!(a_check_asks_the_store);
/// `tiledb_check` finds damage of the store, although undamaged bytes are on disk.
async fn a_check_asks_the_store() -> Result<(), Failed> {
    let cached = CachedCloud::start()?;
    arrange_sparse(&cached.cloud).await?;
    let sql = "SELECT sum(v) AS s FROM 's3://data/sparse' WHERE v >= 0";
    cached.run(&[sql]).await?;
    let objects = cached.cloud.server.objects();
    for (path, bytes) in cached.cloud.contents().await? {
        if path.as_ref().starts_with("data/sparse/__fragments/")
            && path.as_ref().ends_with("a1.tdb")
        {
            let mut bytes = bytes.to_vec();
            bytes.truncate(bytes.len() - 1);
            objects.put(&path, bytes.into()).await?;
        }
    }
    let check = "SELECT count(*) > 0 AS b FROM tiledb_check('s3://data/sparse')";
    expect(&cached.run(&[check]).await?.0, "| true |")?;
    expect(&cached.run(&[sql]).await?.0, "| 899985000.0 |")
}

trial!(encrypted_arrays_stay_encrypted);
/// The cache has the bytes of the store, so it holds no readable text of an encrypted array, and needs the key.
async fn encrypted_arrays_stay_encrypted() -> Result<(), Failed> {
    let cached = CachedCloud::start()?;
    let writer = cached.cloud.session();
    const KEY: &str = "0123456789abcdeF0123456789abcdeF";
    for (name, options) in [
        ("plain", String::new()),
        (
            "secret",
            format!("OPTIONS ('tiledb.encryption_key' '{KEY}')"),
        ),
    ] {
        // Without filters, text is stored as it is.
        let filters = "'tiledb.attr.v.filters' 'none'";
        let options = if options.is_empty() {
            format!("OPTIONS ({filters})")
        } else {
            options.replace(')', &format!(", {filters})"))
        };
        let create = format!(
            "CREATE EXTERNAL TABLE {name} (x BIGINT, v VARCHAR, PRIMARY KEY (x)) STORED AS TILEDB LOCATION 's3://data/{name}' {options}"
        );
        rows(&writer, &create).await?;
        let insert = format!("INSERT INTO {name} VALUES (1, 'Whitby-{name}-Whitby')");
        rows(&writer, &insert).await?;
    }
    let open = format!(
        "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION 's3://data/secret' OPTIONS ('tiledb.encryption_key' '{KEY}')"
    );
    let secret = [open.as_str(), "SELECT v FROM t WHERE x = 1"];
    for _ in 0..2 {
        let (found, asked) = cached.run(&secret).await?;
        expect(&found, "| Whitby-secret-Whitby |")?;
        cached
            .run(&["SELECT v FROM 's3://data/plain' WHERE x = 1"])
            .await?;
        let holds = |text: &str| -> Result<bool, Failed> {
            let mut found = false;
            for file in files_of(&cached.folder())? {
                let bytes = fs::read(file)?;
                found |= bytes
                    .windows(text.len())
                    .any(|part| part == text.as_bytes());
            }
            Ok(found)
        };
        if !holds("Whitby-plain-Whitby")? || holds("Whitby-secret-Whitby")? || holds(KEY)? {
            return Err(format!("the cache has readable text; {:#?}", reads(&asked)).into());
        }
    }
    let (_, asked) = cached.run(&secret).await?;
    if !reads(&asked).is_empty() {
        return Err(format!("a warm query asks for {:#?}", reads(&asked)).into());
    }
    let ctx = cached.session().await?;
    let refused = error(&ctx, "SELECT v FROM 's3://data/secret' WHERE x = 1").await?;
    expect(&refused, "encrypt")
}

/// What happens to the bytes of a file.
type Damage = fn(Vec<u8>) -> Vec<u8>;

trial!(damage_is_fetched_anew);
/// Files of the cache that were damaged, cut or removed never change an answer.
async fn damage_is_fetched_anew() -> Result<(), Failed> {
    let cached = CachedCloud::start()?;
    arrange_sparse(&cached.cloud).await?;
    let sql = ["SELECT count(v) AS n, sum(v) AS s FROM 's3://data/sparse' WHERE kind <> ''"];
    let damages: [(&str, Damage); 4] = [
        ("changed bytes", |bytes| {
            let flip = |(at, byte): (usize, u8)| if at % 1009 == 8 { byte ^ 0x55 } else { byte };
            bytes.into_iter().enumerate().map(flip).collect()
        }),
        ("zeros", |bytes| vec![0; bytes.len()]),
        ("a shorter file", |mut bytes| {
            bytes.truncate(40_000);
            bytes
        }),
        ("nothing", |_| Vec::new()),
    ];
    for (what, damage) in damages {
        cached.run(&sql).await?;
        for file in files_of(&cached.folder().join("blocks"))? {
            fs::write(&file, damage(fs::read(&file)?))?;
        }
        let (found, asked) = cached.run(&sql).await?;
        expect(&found, "| 60000 | 899985000.0 |")?;
        if reads(&asked).is_empty() {
            return Err(format!("{what} goes unnoticed").into());
        }
        let (found, asked) = cached.run(&sql).await?;
        expect(&found, "| 60000 | 899985000.0 |")?;
        if !reads(&asked).is_empty() {
            return Err(format!("{what} stays: {:#?}", reads(&asked)).into());
        }
    }
    Ok(())
}
