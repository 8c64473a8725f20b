//! Arrays in an object store, read by workers with an environment of their own.

use std::collections::BTreeSet;

use datafusion::prelude::SessionContext;
use datafusion_tiledb::cluster::trust::ClusterTrust;
use datafusion_tiledb::execute;
use libtest_mimic::Failed;

use crate::support::cloud::{S3Cloud, session, tried};
use crate::support::cluster_workers::{TestWorker, with_workers};

/// An array of many fragments.
const FRAGMENTS: usize = 60;
const ARRAY: &str = "s3://data/many";
const QUERY: &str =
    "SELECT v % 7 AS k, count(*) AS n, sum(v) AS s FROM 's3://data/many' GROUP BY k ORDER BY k";

async fn arrange(cloud: &S3Cloud) -> Result<(), Failed> {
    let ctx = cloud.session();
    let create = format!(
        "CREATE EXTERNAL TABLE t (x BIGINT, v BIGINT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '{ARRAY}' \
         OPTIONS ('tiledb.dim.x.domain' '[0, 1000000]', 'tiledb.capacity' '100')"
    );
    execute(&ctx, &create).await?.collect().await?;
    for fragment in 0..FRAGMENTS {
        let (first, last) = (fragment * 1000, fragment * 1000 + 999);
        let sql =
            format!("INSERT INTO t SELECT value, value * 3 FROM generate_series({first}, {last})");
        execute(&ctx, &sql).await?.collect().await?;
    }
    Ok(())
}

fn coordinate(ctx: &SessionContext, workers: &[TestWorker]) -> Result<(), Failed> {
    let urls: Vec<_> = workers.iter().map(|worker| worker.url.as_str()).collect();
    with_workers(ctx, urls.join(",").parse()?, ClusterTrust::default())?;
    Ok(())
}

/// Whether a request reads what says where cells lie, and no cells.
fn is_metadata(path: &str) -> bool {
    [
        "__schema",
        "__commits",
        "__fragment_metadata",
        "__fragment_meta",
        "__meta",
    ]
    .iter()
    .any(|name| path.contains(name))
}

trial!(shares_of_metadata);
/// Workers list nothing, and together read about as much metadata as one process: each only the fragments of its share.
async fn shares_of_metadata() -> Result<(), Failed> {
    let cloud = S3Cloud::start();
    arrange(&cloud).await?;
    cloud.server.clear();
    let expected = tried(&cloud.session(), QUERY).await?;
    let requests = cloud.server.requests();
    let alone = requests
        .iter()
        .filter(|r| is_metadata(&r.path) || r.query.contains("list-type"));
    let alone = alone.count();
    // Planning is a process's, too. What comes in excess of that is read by workers.
    let explained = format!("EXPLAIN {QUERY}");
    cloud.server.clear();
    let workers: Vec<_> = (0..4)
        .map(|_| TestWorker::start_in(&cloud.session()))
        .collect();
    let ctx = cloud.session();
    coordinate(&ctx, &workers)?;
    let plan = tried(&ctx, &explained).await?;
    if !plan.contains("tasks=4") {
        return Err(format!("the query isn't cut\n{plan}").into());
    }
    cloud.server.clear();
    let found = tried(&ctx, QUERY).await?;
    if found != expected {
        return Err(format!("{found}\nexpected\n{expected}").into());
    }
    let requests = cloud.server.requests();
    let lists = requests.iter().filter(|r| r.query.contains("list-type"));
    let lists = lists.count();
    let read = requests
        .iter()
        .filter(|r| is_metadata(&r.path) && !r.query.contains("list-type"));
    let read: Vec<_> = read.map(|r| r.path.as_str()).collect();
    // The session lists the array anew; its cache has the metadata.
    if lists > 4 || read.len() * 2 > alone * 3 {
        return Err(format!(
            "{lists} listings and {} reads of metadata, one process has {alone} in all: {read:?}",
            read.len()
        )
        .into());
    }
    let fragments: BTreeSet<_> = read
        .iter()
        .filter(|path| path.contains("__fragments"))
        .collect();
    let of_fragments = read
        .iter()
        .filter(|path| path.contains("__fragments"))
        .count();
    // Neighbouring shares may have a fragment in common.
    if of_fragments > fragments.len() + 2 * workers.len() {
        return Err(format!("workers read the same fragments: {read:?}").into());
    }
    Ok(())
}

trial!(workers_without_keys);
/// A worker that may not read the array says so, and names itself, the array and the remedy.
async fn workers_without_keys() -> Result<(), Failed> {
    let cloud = S3Cloud::start();
    arrange(&cloud).await?;
    let mut wrong = cloud.endpoint();
    wrong.push(("AWS_ACCESS_KEY_ID", "owner".to_owned()));
    wrong.push(("AWS_SECRET_ACCESS_KEY", "another-secret".to_owned()));
    let workers = [
        TestWorker::start_in(&cloud.session()),
        TestWorker::start_in(&session(wrong)),
    ];
    let ctx = cloud.session();
    coordinate(&ctx, &workers)?;
    let error = match tried(&ctx, QUERY).await {
        Ok(rows) => return Err(format!("a worker without keys reads\n{rows}").into()),
        Err(error) => error,
    };
    for part in [workers[1].url.as_str(), "s3://data/many", "AWS_"] {
        if !error.contains(part) {
            return Err(format!("{error:?} doesn't say {part:?}").into());
        }
    }
    for secret in ["owner-secret", "another-secret"] {
        if error.contains(secret) {
            return Err(format!("the error holds a secret: {error}").into());
        }
    }
    Ok(())
}
