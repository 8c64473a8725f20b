//! Plans whose fragments were consolidated and vacuumed before their first row give the answer all the same; afterwards they say
//! what has happened, and give no wrong rows.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::error::Result;
use datafusion::physical_plan::{ExecutionPlan, collect, execute_stream_partitioned};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::{Array, register};
use futures::{StreamExt, TryStreamExt};
use libtest_mimic::Failed;
use object_store::ObjectStore;
use object_store::memory::InMemory;

use crate::support::faulty_store::{self, Faulty, Meeting, copy_of};
use crate::support::neutral_rows;
use crate::support::trials::SqlTrial;
use crate::support::turns;
use crate::{block_on, trial};

trials!(late_runs());

fn late_runs() -> Vec<SqlTrial> {
    let kinds = KINDS.map(|(kind, create)| {
        let mut trials = Vec::new();
        for (store, is_local) in [("local", true), ("memory", false)] {
            trials.push(trial(format!("late_{kind}_{store}"), move || {
                block_on(late(create, is_local))
            }));
        }
        trials.push(trial(format!("too_late_{kind}"), move || {
            block_on(too_late(create))
        }));
        trials.push(trial(format!("late_at_a_time_{kind}"), move || {
            block_on(late_at_a_time(kind, create))
        }));
        trials.push(trial(format!("late_without_sql_{kind}"), move || {
            block_on(late_without_sql(kind, create))
        }));
        trials.push(trial(format!("late_after_changes_{kind}"), move || {
            block_on(late_after_changes(create))
        }));
        trials.push(trial(format!("late_at_each_request_{kind}"), move || {
            block_on(late_at_each_request(create))
        }));
        trials
    });
    turns::one_way_each(kinds.into())
}

pub(super) const KINDS: [(&str, &str); 3] = [
    ("sparse", "'tiledb.capacity' '$TILE'"),
    (
        "duplicates",
        "'tiledb.capacity' '$TILE', 'tiledb.allows_duplicates' 'true'",
    ),
    (
        "dense",
        "'tiledb.array_type' 'dense', 'tiledb.dim.x.domain' '[0, $LAST]', 'tiledb.dim.x.tile' '$TILE'",
    ),
];

/// Queries whose scans go different ways.
const QUERIES: [&str; 9] = [
    "SELECT x, v FROM t WHERE v % 3 = 1",
    "SELECT sum(v), min(v), max(v), count(*) FROM t",
    "SELECT sum(v), count(*) FROM t WHERE x BETWEEN 35 AND 1800",
    "SELECT x, v FROM t ORDER BY v DESC LIMIT 5",
    "SELECT x, v FROM t ORDER BY x LIMIT 5",
    "SELECT x, max(v) FROM t WHERE v > 7 GROUP BY x",
    "SELECT x, row_number() OVER (ORDER BY x) FROM t WHERE v < 9000",
    "SELECT count(*), max(t.v) FROM t JOIN (SELECT k FROM unnest(range(0, 10007, 5)) AS u(k)) n ON t.v = n.k",
    "SELECT count(*) FROM (SELECT v FROM t WHERE v > 20 LIMIT 10)",
];

/// The rows of most arrays here, which are read at once.
const FEW: usize = 4000;

/// An array of four fragments, in a folder or in a store in memory.
pub(super) struct ShelvedArray {
    uri: String,
    store: Option<Arc<dyn ObjectStore>>,
    _folder: tempfile::TempDir,
}

impl ShelvedArray {
    /// Creates the array and fills it with so many rows.
    pub(super) async fn new(create: &str, rows: usize, is_local: bool) -> Result<Self, Failed> {
        let folder = tempfile::tempdir()?;
        let uri = if is_local {
            folder.path().join("array").display().to_string()
        } else {
            "shelf://store/array".to_owned()
        };
        let store = (!is_local).then(|| Arc::new(InMemory::new()) as Arc<dyn ObjectStore>);
        let shelf = Self {
            uri,
            store,
            _folder: folder,
        };
        let ctx = shelf.session(2)?;
        let tile = (rows / 200).to_string();
        let create = create
            .replace("$TILE", &tile)
            .replace("$LAST", &(rows - 1).to_string());
        let table = format!(
            "CREATE EXTERNAL TABLE t (x BIGINT NOT NULL, v BIGINT NOT NULL, PRIMARY KEY (x)) STORED AS TILEDB \
             LOCATION '{}' OPTIONS ({create})",
            shelf.uri
        );
        ctx.sql(&table).await?.collect().await?;
        for first in (0..rows).step_by(rows / 4) {
            let end = first + rows / 4;
            let insert = format!(
                "INSERT INTO t SELECT i, (i * 7919) % 10007 FROM unnest(range({first}, {end})) AS u(i)"
            );
            ctx.sql(&insert).await?.collect().await?;
        }
        Ok(shelf)
    }

    fn session(&self, partitions: usize) -> Result<SessionContext, Failed> {
        let config = SessionConfig::new()
            .with_target_partitions(partitions)
            .with_batch_size(64);
        let ctx = SessionContext::new_with_config(config);
        register(&ctx)?;
        if let Some(store) = &self.store {
            let url = url::Url::parse("shelf://store")?;
            ctx.register_object_store(&url, Arc::clone(store));
        }
        Ok(ctx)
    }

    /// A session that has opened the array.
    pub(super) async fn open(
        &self,
        partitions: usize,
        options: &str,
    ) -> Result<SessionContext, Failed> {
        let ctx = self.session(partitions)?;
        let table = format!(
            "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{}' {options}",
            self.uri
        );
        ctx.sql(&table).await?.collect().await?;
        Ok(ctx)
    }

    pub(super) fn uri(&self) -> &str {
        &self.uri
    }

    /// Another session makes one fragment of all, and removes them.
    pub(super) async fn vacuum(&self) -> Result<(), Failed> {
        let ctx = self.session(2)?;
        let uri = &self.uri;
        for call in [
            format!("tiledb_consolidate('{uri}')"),
            format!("tiledb_vacuum('{uri}', min_age => '0')"),
        ] {
            let call = format!("SELECT outcome FROM {call}");
            let done = sorted(&ctx.sql(&call).await?.collect().await?);
            let is_done = |outcome: &String| outcome.contains("done");
            assert!(
                !done.is_empty() && done.iter().all(is_done),
                "{call}: {done:?}"
            );
        }
        Ok(())
    }
}

pub(super) fn sorted(batches: &[datafusion::arrow::array::RecordBatch]) -> Vec<String> {
    let mut rows = neutral_rows::rows(batches);
    rows.sort_unstable();
    rows
}

/// A query, a plan of it that has not begun, and its rows when it was planned.
type Waiting = (&'static str, Arc<dyn ExecutionPlan>, Vec<String>);

async fn planned(ctx: &SessionContext) -> Result<Vec<Waiting>, Failed> {
    let mut plans = Vec::new();
    for query in QUERIES {
        let rows = ctx.sql(query).await?.collect().await?;
        let plan = ctx.sql(query).await?.create_physical_plan().await?;
        plans.push((query, plan, sorted(&rows)));
    }
    Ok(plans)
}

/// The files go between planning and running.
async fn late(create: &str, is_local: bool) -> Result<(), Failed> {
    for partitions in [1, 4] {
        let shelf = ShelvedArray::new(create, FEW, is_local).await?;
        let ctx = shelf.open(partitions, "").await?;
        let plans = planned(&ctx).await?;
        shelf.vacuum().await?;
        for (query, plan, expected) in plans {
            let found = collect(plan, ctx.task_ctx())
                .await
                .map_err(|e| format!("{query}, {partitions} partitions: {e}"))?;
            assert_eq!(sorted(&found), expected, "{query}, {partitions}");
        }
    }
    Ok(())
}

/// The rows that another writer has written by the time a plan runs: none, rows within the bounds that were told of the old
/// ones, rows beyond these, and as many rows as there were. Nothing shows the old ones any longer. Each change comes with the
/// numbers of the queries that its rows answer at least, because nothing that was told of the old rows is untrue of them.
const CHANGES: [(Range<i64>, &[usize]); 4] = [
    (0..0, &[0, 5, 6, 8]),
    (100..300, &[0, 5, 6, 8]),
    (3990..4010, &[8]),
    (0..4000, &[0, 2, 3, 4, 5, 6, 7, 8]),
];

/// The statements that write them, and remove the old ones.
fn change(uri: &str, rows: &Range<i64>) -> [String; 3] {
    [
        "TRUNCATE TABLE t".to_owned(),
        format!(
            "INSERT INTO t SELECT i, 5000 + i FROM unnest(range({}, {})) AS u(i)",
            rows.start, rows.end
        ),
        format!("SELECT * FROM tiledb_vacuum('{uri}', min_age => '0')"),
    ]
}

/// The rows go between planning and running. A plan gives the rows that were there, or those that are there by now, or says
/// that it is to run again.
async fn late_after_changes(create: &str) -> Result<(), Failed> {
    // The third change is beyond the bounds of the dimension only if its domain goes on.
    let create = create.replace("[0, $LAST]", "[0, 4019]");
    for (number, (rows, answers)) in CHANGES.iter().enumerate() {
        for partitions in [1, 4] {
            let shelf = ShelvedArray::new(&create, FEW, number % 2 == 0).await?;
            let ctx = shelf.open(partitions, "").await?;
            let plans = planned(&ctx).await?;
            let other = shelf.open(2, "").await?;
            for statement in change(&shelf.uri, rows) {
                other.sql(&statement).await?.collect().await?;
            }
            let mut answered = Vec::new();
            for (number, (query, plan, before)) in plans.into_iter().enumerate() {
                let after = sorted(&other.sql(query).await?.collect().await?);
                match collect(plan, ctx.task_ctx()).await {
                    Ok(found) if sorted(&found) == after => answered.push(number),
                    Ok(found) => assert_eq!(sorted(&found), before, "{rows:?}: {query}"),
                    Err(error) => {
                        let text = error.to_string();
                        let told = text.contains("run the statement again");
                        assert!(
                            told && text.contains(&shelf.uri),
                            "{rows:?}: {query}: {text}"
                        );
                    }
                }
                // The advice is true.
                let again = ctx.sql(query).await?.collect().await?;
                assert_eq!(sorted(&again), after, "{rows:?}: {query}");
            }
            for number in *answers {
                let query = QUERIES[*number];
                assert!(answered.contains(number), "{rows:?}: no answer to {query}");
            }
        }
    }
    Ok(())
}

const OPEN: &str = "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION 'crash://store/array'";
const QUERY: &str = "SELECT count(*), sum(v) FROM t WHERE x > 35 AND v % 3 = 1";
const TIDY: [&str; 2] = [
    "SELECT * FROM tiledb_consolidate('crash://store/array')",
    "SELECT * FROM tiledb_vacuum('crash://store/array', min_age => '0')",
];

/// Somebody consolidates the array, or rewrites it, before the n-th request of a session that opens and queries it, for every
/// n. The answer is that of before or of afterwards; as long as the session opens and plans, there is one.
async fn late_at_each_request(create: &str) -> Result<(), Failed> {
    let quiet = |store: &Arc<InMemory>| {
        let nothing: Meeting = Box::new(|| Box::pin(async {}));
        Faulty::meeting(Arc::clone(store), usize::MAX, nothing)
    };
    let before = Arc::new(InMemory::new());
    let ctx = faulty_store::session(&quiet(&before))?;
    let create = create.replace("$TILE", "20").replace("$LAST", "3999");
    let table = format!(
        "CREATE EXTERNAL TABLE t (x BIGINT NOT NULL, v BIGINT NOT NULL, PRIMARY KEY (x)) STORED AS TILEDB LOCATION \
         'crash://store/array' OPTIONS ({create})"
    );
    faulty_store::execute(&ctx, &table).await?;
    for first in (0..4000).step_by(1000) {
        let insert = format!(
            "INSERT INTO t SELECT i, (i * 7919) % 10007 FROM unnest(range({first}, {first} + 1000)) AS u(i)"
        );
        faulty_store::execute(&ctx, &insert).await?;
    }
    let old = sorted(&ctx.sql(QUERY).await?.collect().await?);
    let tidy = TIDY.map(str::to_owned).to_vec();
    let overwrite = change("crash://store/array", &CHANGES[1].0).to_vec();
    for beside in [tidy, overwrite] {
        let meet = async |n: usize| {
            let inner = Arc::new(copy_of(&before).await?);
            let (others, statements) = (quiet(&inner), beside.clone());
            let meeting: Meeting = Box::new(move || {
                let (others, statements) = (Arc::clone(&others), statements.clone());
                // On a stack of its own: that of the query is deep already.
                let met = tokio::spawn(async move {
                    let ctx = faulty_store::session(&others).unwrap();
                    let statements = statements.iter().map(String::as_str);
                    for statement in [OPEN].into_iter().chain(statements) {
                        faulty_store::execute(&ctx, statement).await.unwrap();
                    }
                });
                Box::pin(async move { met.await.unwrap() })
            });
            let store = Faulty::meeting(Arc::clone(&inner), n, meeting);
            let ctx = faulty_store::session(&store)?;
            let requests = || store.requests.count.load(Ordering::SeqCst);
            ctx.sql(OPEN).await?.collect().await?;
            let plan = ctx.sql(QUERY).await?.create_physical_plan().await?;
            let to_plan = requests();
            let found = collect(plan, ctx.task_ctx()).await;
            let requests = requests();
            let ctx = faulty_store::session(&quiet(&inner))?;
            faulty_store::execute(&ctx, OPEN).await?;
            let new = sorted(&ctx.sql(QUERY).await?.collect().await?);
            let is_answered = match found {
                Ok(found) => {
                    let found = sorted(&found);
                    assert!(found == old || found == new, "{beside:?} at {n}: {found:?}");
                    true
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(
                        text.contains("run the statement again"),
                        "{beside:?} at {n}: {text}"
                    );
                    false
                }
            };
            assert!(
                is_answered || n >= to_plan,
                "{beside:?} at {n} of {to_plan}: not answered"
            );
            Ok::<_, Failed>(requests)
        };
        let requests = meet(usize::MAX).await?;
        for n in 0..requests {
            meet(n).await?;
        }
    }
    Ok(())
}

/// The files go when one of the partitions has given its rows.
async fn too_late(create: &str) -> Result<(), Failed> {
    const MANY: usize = 400_000;
    for is_local in [true, false] {
        let shelf = ShelvedArray::new(create, MANY, is_local).await?;
        let ctx = shelf.open(2, "").await?;
        // Otherwise the first one reads everything.
        let apart = "SET datafusion.execution.enable_file_stream_work_stealing = false";
        ctx.sql(apart).await?.collect().await?;
        let query = "SELECT x, v FROM t WHERE v % 3 > 0";
        let plan = ctx.sql(query).await?.create_physical_plan().await?;
        let mut streams = execute_stream_partitioned(plan, ctx.task_ctx())?.into_iter();
        let (Some(first), Some(second)) = (streams.next(), streams.next()) else {
            return Err("fewer than two partitions".into());
        };
        let rows = first
            .collect::<Vec<_>>()
            .await
            .into_iter()
            .collect::<Result<Vec<_>>>()?;
        assert!(!rows.is_empty());
        shelf.vacuum().await?;
        let ended = second.collect::<Vec<_>>().await;
        let error = ended.into_iter().find_map(Result::err);
        let text = error.ok_or("rows of files that are gone")?.to_string();
        for part in [
            "vacuumed while this statement read it: run the statement again",
            "the fragment __",
            shelf.uri.as_str(),
            ".tdb does not exist",
        ] {
            assert!(text.contains(part), "no {part:?} in {text}");
        }
        // The advice is true.
        let again = ctx.sql("SELECT count(*) FROM t").await?.collect().await?;
        assert_eq!(sorted(&again), [format!("[{MANY}]")]);
    }
    Ok(())
}

/// A sparse fragment knows when its cells were written, so it still shows what the array held before; a dense one does not. Nothing
/// proves that it shows nothing else, so the scan doesn't go on with it.
async fn late_at_a_time(kind: &str, create: &str) -> Result<(), Failed> {
    let shelf = ShelvedArray::new(create, FEW, true).await?;
    let ctx = shelf.session(4)?;
    let second = format!(
        "SELECT CAST(max(time) AS BIGINT) FROM \
         (SELECT timestamp_start AS time FROM tiledb_fragments('{}') ORDER BY time LIMIT 2)",
        shelf.uri
    );
    let second = ctx
        .sql(&second)
        .await?
        .collect()
        .await?
        .first()
        .ok_or("no time")?
        .column(0)
        .clone()
        .as_primitive::<Int64Type>()
        .value(0);
    let at = format!("OPTIONS ('tiledb.timestamp' '{second}')");
    let ctx = shelf.open(4, &at).await?;
    let query = "SELECT x, v FROM t WHERE v % 3 > 0";
    let expected = ctx.sql(query).await?.collect().await?;
    assert!(sorted(&expected).len() > 1000);
    let plan = ctx.sql(query).await?.create_physical_plan().await?;
    shelf.vacuum().await?;
    let error = collect(plan, ctx.task_ctx()).await.err();
    let text = error.ok_or("rows without proof")?.to_string();
    let advice = match kind {
        "dense" => "nothing shows what the array held at",
        _ => "run the statement again, and vacuum with",
    };
    assert!(text.contains(advice) && text.contains(&shelf.uri), "{text}");
    if kind != "dense" {
        let again = ctx.sql(query).await?.collect().await?;
        assert_eq!(sorted(&again), sorted(&expected));
    }
    Ok(())
}

/// An array stays as it was opened, or says that it cannot.
async fn late_without_sql(kind: &str, create: &str) -> Result<(), Failed> {
    for partitions in [1, 4] {
        let shelf = ShelvedArray::new(create, FEW, true).await?;
        let array = Array::open(&shelf.uri).await?;
        let scan = || array.scan().columns(["x", "v"]).partitions(partitions);
        let expected = sorted(&scan().collect().await?);
        let stream = scan().stream().await?;
        shelf.vacuum().await?;
        let other = shelf.open(1, "").await?;
        let more = "INSERT INTO t VALUES (17, 1)";
        other.sql(more).await?.collect().await?;
        let streamed = stream.try_collect::<Vec<_>>().await;
        for found in [streamed, scan().collect().await] {
            match (found, kind) {
                (Ok(found), "sparse" | "duplicates") => assert_eq!(sorted(&found), expected),
                // Nothing proves that a dense fragment holds nothing but what it was made of.
                (Err(error), "dense") => {
                    let error = error.to_string();
                    assert!(error.contains("open it again"), "{error}");
                }
                (found, _) => return Err(format!("{found:?}").into()),
            }
        }
        // What was vacuumed without a substitute is missed, and nothing else is shown for it.
        other.sql("TRUNCATE TABLE t").await?.collect().await?;
        let vacuum = format!(
            "SELECT * FROM tiledb_vacuum('{}', min_age => '0')",
            shelf.uri
        );
        other.sql(&vacuum).await?.collect().await?;
        let ended = scan().collect().await;
        let error = ended.err().ok_or("rows of nothing")?.to_string();
        assert!(
            error.contains("nothing shows what the array held"),
            "{error}"
        );
    }
    Ok(())
}
