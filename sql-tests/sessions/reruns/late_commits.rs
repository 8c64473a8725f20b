//! Changes that bear a time before that of a plan, and are committed after it was made. A consolidation takes them in, so its fragment
//! does not stand for those that it replaces. A plan gives the rows of before or of afterwards, or says that it is to run again.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use datafusion::error::Result;
use datafusion::physical_plan::{collect, execute_stream_partitioned};
use datafusion::prelude::SessionContext;
use datafusion_tiledb::Array;
use futures::TryStreamExt;
use libtest_mimic::Failed;
use object_store::memory::InMemory;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt};

use super::late::{KINDS, ShelvedArray, sorted};
use crate::support::faulty_store::{self, Faulty, Meeting, copy_of};
use crate::support::trials::SqlTrial;
use crate::support::turns;
use crate::{block_on, trial};

trials!(late_commits());

fn late_commits() -> Vec<SqlTrial> {
    let kinds = KINDS.map(|(kind, create)| {
        let mut trials = Vec::new();
        for (number, change) in CHANGES.iter().enumerate() {
            trials.push(trial(format!("late_commit_{kind}_{number}"), move || {
                block_on(late_commit(create, change))
            }));
        }
        trials.push(trial(format!("two_states_{kind}"), move || {
            block_on(two_states(create))
        }));
        trials.push(trial(format!("lists_go_{kind}"), move || {
            block_on(lists_go(create))
        }));
        trials
    });
    turns::one_way_each(kinds.into())
}

/// Changes whose commit is late: other rows, other values of the same number of rows, and both.
const CHANGES: [&[&str]; 3] = [
    &["INSERT INTO t SELECT i, -i FROM unnest(range(100, 300)) AS u(i)"],
    &["UPDATE t SET v = -1 WHERE x BETWEEN 110 AND 120"],
    &[
        "INSERT INTO t VALUES (7, -7)",
        "UPDATE t SET v = v + 20000 WHERE x > 600",
    ],
];

/// How the fragments are replaced by others. Vacuum may have removed the lists of what was replaced, or is about to.
const CONSOLIDATIONS: [&str; 3] = [
    "tiledb_consolidate('$A')",
    "tiledb_consolidate('$A', purge_deleted => true)",
    "tiledb_consolidate('$A', timestamps => false)",
];

const QUERIES: [&str; 4] = [
    "SELECT x, v FROM t",
    "SELECT sum(v), min(v), max(v), count(*) FROM t",
    "SELECT x, v FROM t WHERE x BETWEEN 50 AND 115",
    "SELECT count(*), sum(a.v - b.v) FROM t a JOIN t b ON a.x = b.x + 3",
];

const ROWS: usize = 800;

async fn late_commit(create: &str, change: &[&str]) -> Result<(), Failed> {
    for consolidation in CONSOLIDATIONS {
        for keeps_lists in [false, true] {
            let at = format!("{consolidation}, lists: {keeps_lists}");
            let shelf = ShelvedArray::new(create, ROWS, true).await?;
            let other = shelf.open(2, "").await?;
            let early = commits(shelf.uri())?;
            for statement in change {
                run(&other, statement).await?;
            }
            let late = hide_commits(shelf.uri(), &early)?;
            assert!(!late.is_empty());

            let ctx = shelf.open(2, "").await?;
            let array = Array::open(shelf.uri()).await?;
            let mut plans = Vec::new();
            for query in QUERIES {
                let before = run(&ctx, query).await?;
                let plan = ctx.sql(query).await?.create_physical_plan().await?;
                plans.push((query, plan, before));
            }
            let of_array = sorted(&array.scan().columns(["x", "v"]).collect().await?);
            assert_eq!(of_array, plans[0].2, "{at}");

            put_back(late)?;
            consolidate(&other, shelf.uri(), consolidation, keeps_lists).await?;
            for (query, plan, before) in plans {
                let after = run(&other, query).await?;
                match collect(plan, ctx.task_ctx()).await {
                    Ok(found) => {
                        let found = sorted(&found);
                        assert!(found == before || found == after, "{at}: {query}");
                    }
                    Err(error) => says_to_run_again(&error.to_string(), &format!("{at}: {query}")),
                }
                assert_eq!(run(&ctx, query).await?, after, "{at}: {query}");
            }
            match array.scan().columns(["x", "v"]).collect().await {
                Ok(found) => assert_eq!(sorted(&found), of_array, "{at}: the array"),
                Err(error) => {
                    let error = error.to_string();
                    let advice = ["open it again", "nothing shows what the array held"];
                    let is_clear = advice.iter().any(|part| error.contains(part));
                    assert!(is_clear, "{at}: {error}");
                }
            }
        }
    }
    Ok(())
}

/// One scan of a statement has given its rows when the files of another go: both show one state.
async fn two_states(create: &str) -> Result<(), Failed> {
    for keeps_lists in [false, true] {
        let shelf = ShelvedArray::new(create, ROWS, true).await?;
        let other = shelf.open(2, "").await?;
        let early = commits(shelf.uri())?;
        run(
            &other,
            "INSERT INTO t SELECT i, -i FROM unnest(range(100, 300)) AS u(i)",
        )
        .await?;
        let late = hide_commits(shelf.uri(), &early)?;
        let ctx = shelf.open(1, "").await?;
        let query =
            "SELECT x, v FROM t WHERE v < 20000 UNION ALL SELECT x, v FROM t WHERE v < 20001";
        let before = run(&ctx, query).await?;
        let plan = ctx.sql(query).await?.create_physical_plan().await?;
        let mut streams = execute_stream_partitioned(plan, ctx.task_ctx())?.into_iter();
        let (Some(first), Some(second)) = (streams.next(), streams.next()) else {
            return Err("fewer than two partitions".into());
        };
        let mut found = first.try_collect::<Vec<_>>().await?;
        put_back(late)?;
        consolidate(&other, shelf.uri(), CONSOLIDATIONS[0], keeps_lists).await?;
        match second.try_collect::<Vec<_>>().await {
            Ok(rest) => {
                found.extend(rest);
                assert_eq!(sorted(&found), before);
            }
            Err(error) => says_to_run_again(&error.to_string(), query),
        }
    }
    Ok(())
}

const OPEN: &str = "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION 'crash://store/array'";
const QUERY: &str = "SELECT count(*), sum(v) FROM t WHERE x > 35 AND v % 3 = 1";

/// The files of a planned scan are gone, and the lists of what was replaced go before one of the requests of its run, for each of them.
async fn lists_go(create: &str) -> Result<(), Failed> {
    let before = Arc::new(InMemory::new());
    let ctx = faulty_store::session(&quiet(&before))?;
    let create = create.replace("$TILE", "20").replace("$LAST", "399");
    let table = format!(
        "CREATE EXTERNAL TABLE t (x BIGINT NOT NULL, v BIGINT NOT NULL, PRIMARY KEY (x)) STORED AS TILEDB LOCATION \
         'crash://store/array' OPTIONS ({create})"
    );
    faulty_store::execute(&ctx, &table).await?;
    for first in (0..400).step_by(100) {
        let insert = format!(
            "INSERT INTO t SELECT i, (i * 7919) % 10007 FROM unnest(range({first}, {first} + 100)) AS u(i)"
        );
        faulty_store::execute(&ctx, &insert).await?;
    }
    let expected = run(&ctx, QUERY).await?;
    // Runs the query while the lists go before the n-th request. Returns the requests until it was planned, and all of them.
    let meet = async |n: usize| {
        let inner = Arc::new(copy_of(&before).await?);
        let lists = Arc::clone(&inner);
        let meeting: Meeting = Box::new(move || {
            let lists = Arc::clone(&lists);
            Box::pin(async move {
                for (path, _) in saved_lists(&lists).await.unwrap() {
                    lists.delete(&path).await.unwrap();
                }
            })
        });
        let store = Faulty::meeting(Arc::clone(&inner), n, meeting);
        let ctx = faulty_store::session(&store)?;
        faulty_store::execute(&ctx, OPEN).await?;
        let plan = ctx.sql(QUERY).await?.create_physical_plan().await?;
        let to_plan = store.requests.count.load(Ordering::SeqCst);
        let other = faulty_store::session(&quiet(&inner))?;
        run(
            &other,
            "SELECT * FROM tiledb_consolidate('crash://store/array')",
        )
        .await?;
        let lists = saved_lists(&inner).await?;
        assert!(!lists.is_empty());
        run(
            &other,
            "SELECT * FROM tiledb_vacuum('crash://store/array', min_age => '0')",
        )
        .await?;
        for (path, bytes) in lists {
            inner.put(&path, bytes.into()).await?;
        }
        match collect(plan, ctx.task_ctx()).await {
            Ok(found) => assert_eq!(sorted(&found), expected, "{n}"),
            Err(error) => says_to_run_again(&error.to_string(), &format!("before request {n}")),
        }
        Ok::<_, Failed>((to_plan, store.requests.count.load(Ordering::SeqCst)))
    };
    let (to_plan, all) = meet(usize::MAX).await?;
    assert!(to_plan < all);
    for n in to_plan..all {
        meet(n).await?;
    }
    Ok(())
}

fn quiet(store: &Arc<InMemory>) -> Arc<Faulty> {
    let nothing: Meeting = Box::new(|| Box::pin(async {}));
    Faulty::meeting(Arc::clone(store), usize::MAX, nothing)
}

/// The lists of replaced fragments in a store.
async fn saved_lists(store: &InMemory) -> object_store::Result<Vec<(ObjectPath, Bytes)>> {
    let folder = ObjectPath::from("array/__commits");
    let mut lists = Vec::new();
    for file in store.list(Some(&folder)).try_collect::<Vec<_>>().await? {
        if file.location.as_ref().contains(".vac") {
            let bytes = store.get(&file.location).await?.bytes().await?;
            lists.push((file.location, bytes));
        }
    }
    Ok(lists)
}

/// A file, and its bytes.
type SavedFile = (PathBuf, Vec<u8>);

fn saved(path: PathBuf) -> Result<SavedFile, Failed> {
    let bytes = fs::read(&path)?;
    Ok((path, bytes))
}

/// The files of commits.
fn commits(uri: &str) -> Result<BTreeSet<PathBuf>, Failed> {
    let entries = fs::read_dir(Path::new(uri).join("__commits"))?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    paths.collect()
}

/// Takes away the commits that are not among the `early` ones.
fn hide_commits(uri: &str, early: &BTreeSet<PathBuf>) -> Result<Vec<SavedFile>, Failed> {
    let mut hidden = Vec::new();
    for path in commits(uri)?.difference(early) {
        hidden.push(saved(path.clone())?);
        fs::remove_file(path)?;
    }
    Ok(hidden)
}

fn put_back(files: Vec<SavedFile>) -> Result<(), Failed> {
    for (path, bytes) in files {
        fs::write(path, bytes)?;
    }
    Ok(())
}

/// Consolidates the array, `$A` in the call, and removes what was replaced; the lists of it, too, unless they are to be kept.
async fn consolidate(
    ctx: &SessionContext,
    uri: &str,
    call: &str,
    keeps_lists: bool,
) -> Result<(), Failed> {
    let call = call.replace("$A", uri);
    run(ctx, &format!("SELECT * FROM {call}")).await?;
    let is_list = |path: &PathBuf| path.to_string_lossy().contains(".vac");
    let lists = commits(uri)?.into_iter().filter(is_list).map(saved);
    let lists = lists.collect::<Result<Vec<_>, _>>()?;
    assert!(!lists.is_empty(), "{call}");
    let vacuum = format!("SELECT * FROM tiledb_vacuum('{uri}', min_age => '0')");
    run(ctx, &vacuum).await?;
    if keeps_lists {
        put_back(lists)?;
    }
    Ok(())
}

async fn run(ctx: &SessionContext, sql: &str) -> Result<Vec<String>> {
    Ok(sorted(&ctx.sql(sql).await?.collect().await?))
}

fn says_to_run_again(error: &str, at: &str) {
    assert!(error.contains("run the statement again"), "{at}: {error}");
}
