//! Folders and sizes that can't be used, and several users of one folder.

use std::fs;
use std::path::PathBuf;

use libtest_mimic::Failed;

use super::{CachedCloud, arrange_sparse, end, engine, expect, keep_in, reads};
use crate::support::cloud::{error, rows};

trial!(useless_folders_only_warn);
/// A file, a folder that can't be created and a folder in use give one warning each, and the query goes on.
async fn useless_folders_only_warn() -> Result<(), Failed> {
    let cached = CachedCloud::start()?;
    arrange_sparse(&cached.cloud).await?;
    let file = cached.folder.path().join("file");
    fs::write(&file, "text")?;
    let sql = "SELECT v FROM 's3://data/sparse' WHERE x = 31234";
    let owner = cached.session().await?;
    rows(&owner, sql).await?;
    for (folder, expected) in [
        (file.clone(), "isn't one"),
        (
            file.join("below"),
            "choose a folder that you can read and write",
        ),
        (
            PathBuf::from("/proc/cache"),
            "choose a folder that you can read and write",
        ),
        (cached.folder(), "in use by another process"),
    ] {
        let ctx = cached.cloud.session();
        keep_in(&ctx, &folder).await?;
        let warnings = engine(&ctx)?.take_disk_cache_warnings();
        if !warnings.is_empty() {
            return Err(format!("a folder that nobody needs yet: {warnings:?}").into());
        }
        for query in 0..3 {
            expect(&rows(&ctx, sql).await?, "| 15617.0 |")?;
            let warnings = engine(&ctx)?.take_disk_cache_warnings();
            let is_right = match warnings.as_slice() {
                [] => query > 0,
                [one] => query == 0 && one.contains(expected) && one.contains("go on without"),
                _ => false,
            };
            if !is_right {
                return Err(format!("{}, query {query}: {warnings:?}", folder.display()).into());
            }
        }
    }
    if fs::read_to_string(&file)? != "text" {
        return Err("the file was changed".into());
    }
    // Once the folder is free, the other session gets it by setting it again.
    let late = cached.cloud.session();
    keep_in(&late, &cached.folder()).await?;
    rows(&late, sql).await?;
    end(&owner).await?;
    keep_in(&late, &cached.folder()).await?;
    cached.cloud.server.clear();
    let other = "SELECT v FROM 's3://data/sparse' WHERE x = 3123";
    rows(&late, other).await?;
    end(&late).await?;
    let (_, asked) = cached.run(&[other]).await?;
    if !reads(&asked).is_empty() {
        return Err(format!("the folder isn't used: {:#?}", reads(&asked)).into());
    }
    Ok(())
}

trial!(wrong_settings);
/// A size or a folder that can't be meant is an error, and there is no cache. The last folder of an engine counts.
async fn wrong_settings() -> Result<(), Failed> {
    let cached = CachedCloud::start()?;
    let ctx = cached.cloud.session();
    for (setting, parts) in [
        (
            "cache_size = 'much'",
            &["tiledb.cache_size", "found 'much'", "at least 16 MiB"],
        ),
        (
            "cache_size = '0'",
            &["tiledb.cache_size", "found '0'", "10 GB"],
        ),
        (
            "cache_dir = 's3://data/cache'",
            &["tiledb.cache_dir", "folder of this machine", "found 's3:"],
        ),
        (
            "cache_dirs = 'x'",
            &["did you mean", "tiledb.cache_dir'", "cache_size"],
        ),
    ] {
        let refused = error(&ctx, &format!("SET tiledb.{setting}")).await?;
        for part in parts {
            expect(&refused, part)?;
        }
    }
    if engine(&ctx)?.disk_cache().is_some() {
        return Err("there is a cache".into());
    }
    for folder in ["one", "other"] {
        keep_in(&ctx, &cached.folder.path().join(folder)).await?;
    }
    let options = engine(&ctx)?.disk_cache().ok_or("no cache")?;
    if options.folder != cached.folder.path().join("other") || options.capacity_bytes != 64 << 20 {
        return Err(format!("{options:?}").into());
    }
    rows(&ctx, "SET tiledb.cache_dir = ''").await?;
    if engine(&ctx)?.disk_cache().is_some() {
        return Err("there still is a cache".into());
    }
    Ok(())
}
