//! The ways to ask for a check: the shell, memory that is scarce, a check that is given up; and the page that explains the
//! rules.

use std::sync::Arc;

use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::{Array, ErrorKind, TileDbSessionExt, TileDbTable};
use futures::TryStreamExt;
use libtest_mimic::Failed;
use tiledb_engine::Engine;
use tiledb_engine::maintain::check::{CheckOptions, Rule};
use tiledb_engine::storage::Location;

use super::findings;
use crate::repository;
use crate::support::array_files::Files;
use crate::support::shell_place::Place;
use crate::support::{fixtures, golden};

trial!(shell);
fn shell(place: &Place) -> Result<(), Failed> {
    place.array("quickstart_sparse", "good")?;
    let ran = place.run(&["check", "good"])?;
    let said = "1 fragments, 3 tiles, 3 cells checked, ";
    if ran.status != Some(0) || !ran.out.starts_with(said) || !ran.err.is_empty() {
        return Err(ran.text().into());
    }
    place.run(&["-q", "check", "./good"])?.gave("")?;
    let mut files = Files::golden("quickstart_sparse");
    let data = files.find("a0.tdb");
    files.edit(&data, |bytes| bytes.truncate(20));
    files.write(&place.0.join("cut"));
    let ran = place.run(&["check", "cut", "--metadata-only"])?;
    let words = [
        "error file-size: ",
        "/a0.tdb\n  found:    20 bytes\n  expected: 32 bytes, as the footer says of attribute a\n  to do:    ",
        "1 fragments, 0 tiles, 0 cells checked, ",
        ": 1 errors, 0 warnings, 0 leftovers.\n",
    ];
    if ran.status != Some(1) || words.iter().any(|word| !ran.out.contains(word)) {
        return Err(ran.text().into());
    }
    // Warnings and leftovers are no failure.
    place.array("sparse_consolidated_kept", "kept")?;
    let ran = place.run(&["check", "kept"])?;
    if ran.status != Some(0) || !ran.out.contains("leftover replaced-fragment: ") {
        return Err(ran.text().into());
    }
    place.run(&["check", "nowhere"])?.failed(
        "",
        &["not found: neither an array nor a group is here", "nowhere"],
    )
}

trial!(memory);
/// A check takes its memory from the pool and gives it back, also if it must do with little, or with too little.
async fn memory() -> Result<(), Failed> {
    Engine::shared().release_idle();
    for (bytes, suffices) in [(64 << 20, true), (400 << 10, true), (10 << 10, false)] {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::clone(&pool))
            .build_arc()?;
        let ctx = SessionContext::new_with_config_rt(SessionConfig::new(), runtime);
        let path = golden::folder().join("weather_stations");
        let location = ctx.tiledb_location(&path.display().to_string())?;
        let options = CheckOptions::default().with_budget(ctx.tiledb_budget("check"));
        let check = Array::check(location, options)?;
        let found: Result<Vec<_>, _> = check.try_collect().await;
        match found {
            Ok(found) if suffices && found.is_empty() => {}
            Err(e) if !suffices && e.kind() == ErrorKind::OutOfMemory => {}
            other => return Err(format!("{bytes} bytes: {other:?}").into()),
        }
        Engine::shared().release_idle();
        if pool.reserved() != 0 {
            return Err(format!("{} bytes are still reserved", pool.reserved()).into());
        }
    }
    Ok(())
}

trial!(counts);
/// What a check looks at is counted, each cell once.
async fn counts() -> Result<(), Failed> {
    for (array, fragments, cells) in [
        ("weather_stations", 2, 2_060),
        ("rtree_three_levels", 1, 1_000),
        ("dense_ragged", 1, 77),
    ] {
        let path = golden::folder().join(array).display().to_string();
        let mut check = Array::check(&path, CheckOptions::default())?;
        while check.try_next().await?.is_some() {}
        let counts = check.progress().counts();
        let all = (counts.fragments, counts.all_fragments);
        if all != (fragments, fragments) || counts.cells != cells || check.bytes() == 0 {
            return Err(format!("{array}: {counts:?}").into());
        }
        let options = CheckOptions::default().with_metadata_only(true);
        let mut check = Array::check(&path, options)?;
        while check.try_next().await?.is_some() {}
        let counts = check.progress().counts();
        if counts.fragments != fragments || counts.cells != 0 || counts.tiles != 0 {
            return Err(format!("{array}: {counts:?} without cells").into());
        }
    }
    Ok(())
}

trial!(groups);
async fn groups() -> Result<(), Failed> {
    for group in [
        "experiment",
        "changes",
        "version_1",
        "unnamed",
        "missing",
        "cycle",
    ] {
        let path = fixtures::root().join("groups").join(group);
        let location = Location::local(&path.display().to_string())?;
        let found = findings(location, CheckOptions::default()).await?;
        if !found.is_empty() {
            return Err(format!("{group}: {found:?}").into());
        }
    }
    Ok(())
}

trial!(keys);
/// Without its key, or with another, an encrypted array is not damaged, but cannot be checked.
async fn keys() -> Result<(), Failed> {
    let path = golden::folder()
        .join("encrypted_commits")
        .display()
        .to_string();
    for key in [None, Some("0".repeat(64))] {
        let mut builder = TileDbTable::builder(path.clone());
        if let Some(key) = key {
            builder = builder.option("encryption_key", &key)?;
        }
        let check = Array::check(builder.storage()?, CheckOptions::default())?;
        let found: Result<Vec<_>, _> = check.try_collect().await;
        match found {
            Err(e) if e.kind() == ErrorKind::Encryption => {}
            other => return Err(format!("{other:?}").into()),
        }
    }
    Ok(())
}

trial!(explained);
/// The page has a row for each rule, with its severity, and no others.
fn explained() -> Result<(), Failed> {
    let page = repository().join("docs/check.md");
    let page = std::fs::read_to_string(page)?;
    let rows: Vec<(&str, &str)> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .filter_map(|(name, rest)| Some((name, rest.split(" |").next()?)))
        .collect();
    let expected: Vec<(&str, &str)> = Rule::ALL
        .iter()
        .map(|rule| (rule.name(), rule.severity().name()))
        .collect();
    if rows == expected {
        Ok(())
    } else {
        Err(format!("the page has {rows:?}\nexpected {expected:?}").into())
    }
}
