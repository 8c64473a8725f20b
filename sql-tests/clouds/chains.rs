//! How many round trips a query takes, one after the other, and how many requests.
//!
//! The server delays every request, so that requests which are sent at once overlap.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use datafusion::prelude::SessionContext;
use libtest_mimic::Failed;
use object_store::ObjectStoreExt;

use crate::support::cloud::{S3Cloud, rows};
use crate::support::s3::RequestFault;

/// The delay of each request.
const LATENCY: Duration = Duration::from_millis(50);
/// The delay where so many requests are sent at once that sending them takes some time. A listing that takes half a second may
/// have changed meanwhile, and is repeated.
const LONG_LATENCY: Duration = Duration::from_millis(250);

/// What a query costs at most.
struct ChainLimit<'a> {
    what: &'a str,
    sql: &'a str,
    /// A part of its rows.
    gives: &'a str,
    chain: usize,
    requests: usize,
}

/// Makes arrays in the bucket, without delays.
async fn arranged(cloud: &S3Cloud) -> Result<(), Failed> {
    let ctx = cloud.session();
    for sql in [
        "CREATE EXTERNAL TABLE sparse (x BIGINT, kind VARCHAR, v DOUBLE, PRIMARY KEY (x)) STORED AS TILEDB LOCATION 's3://data/sparse' \
         OPTIONS ('tiledb.capacity' '1000', 'tiledb.dim.x.domain' '[0, 1000000]')",
        "INSERT INTO sparse SELECT value, 'k' || (value % 7), value / 2.0 FROM generate_series(0, 49999)",
        "COPY (SELECT value AS x, arrow_cast('k' || (value % 7), 'Dictionary(Int8, Utf8)') AS kind, value AS v FROM generate_series(0, 19999)) \
         TO 's3://data/enumerated' STORED AS TILEDB PARTITIONED BY (x)",
        "CREATE EXTERNAL TABLE dense (y BIGINT, x BIGINT, a DOUBLE, b BIGINT, PRIMARY KEY (y, x)) STORED AS TILEDB LOCATION 's3://data/dense' \
         OPTIONS ('tiledb.array_type' 'dense', 'tiledb.dim.y.domain' '[0, 199]', 'tiledb.dim.x.domain' '[0, 199]', 'tiledb.dim.y.tile' '20', 'tiledb.dim.x.tile' '20')",
        "INSERT INTO dense SELECT value / 200, value % 200, value AS a, value AS b FROM generate_series(0, 39999)",
    ] {
        rows(&ctx, sql).await?;
    }
    Ok(())
}

/// How often a query is measured. On a machine with other work, requests that are sent at once begin so late that they seem to
/// follow each other, so the shortest chain counts.
const TRIES: usize = 3;

/// The complaint if a statement costs too much, in a new session after other statements.
async fn measured(
    cloud: &S3Cloud,
    before: &[&str],
    limit: &ChainLimit<'_>,
) -> Result<Option<String>, Failed> {
    let mut complaint = None;
    for _ in 0..TRIES {
        let ctx = cloud.session();
        for sql in before {
            rows(&ctx, sql).await?;
        }
        complaint = measured_once(cloud, &ctx, limit).await?;
        if complaint.is_none() {
            break;
        }
    }
    Ok(complaint)
}

async fn measured_once(
    cloud: &S3Cloud,
    ctx: &SessionContext,
    limit: &ChainLimit<'_>,
) -> Result<Option<String>, Failed> {
    cloud.server.clear();
    let found = rows(ctx, limit.sql).await?;
    if !found.contains(limit.gives) {
        return Err(format!("{}: {found}", limit.sql).into());
    }
    let requests = cloud.server.requests();
    let chain = cloud.server.chain();
    if chain <= limit.chain && requests.len() <= limit.requests {
        return Ok(None);
    }
    let begin = requests.iter().map(|request| request.begin).min();
    let log = requests.iter().map(|request| {
        let at = begin.map(|begin| request.begin - begin).unwrap_or_default();
        format!(
            "  {at:>9.1?} {} {} {} {:?} {}",
            request.method, request.path, request.query, request.range, request.bytes_sent
        )
    });
    Ok(Some(format!(
        "{}: a chain of {chain} with {} requests, expected {} with {}\n{}",
        limit.what,
        requests.len(),
        limit.chain,
        limit.requests,
        log.collect::<Vec<_>>().join("\n")
    )))
}

/// The arrays of a group, and fragments of an array, in numbers that show whether they are read one after the other.
const MANY: usize = 50;

trial!(listed_anew);
/// What one statement has found serves no other: a view, a prepared statement and the next statement see what others wrote.
async fn listed_anew() -> Result<(), Failed> {
    let cloud = S3Cloud::start();
    let (ctx, other) = (cloud.session(), cloud.session());
    let create = "CREATE EXTERNAL TABLE t (x BIGINT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION 's3://data/g/t'";
    rows(&other, create).await?;
    let group = "SELECT * FROM tiledb_create_group('s3://data/g')";
    rows(&other, group).await?;
    let add = "SELECT * FROM tiledb_add_member('s3://data/g', 's3://data/g/t', name => 't')";
    rows(&other, add).await?;
    for sql in [
        "ATTACH 's3://data/g' AS g",
        "CREATE VIEW v AS SELECT count(*) AS n FROM 's3://data/g/t'",
        "CREATE VIEW w AS SELECT count(*) AS n FROM g.t",
        "PREPARE p AS SELECT count(*) AS n FROM 's3://data/g/t'",
        "CREATE EXTERNAL TABLE named STORED AS TILEDB LOCATION 's3://data/g/t'",
    ] {
        rows(&ctx, sql).await?;
    }
    for written in 1..=3 {
        rows(&other, &format!("INSERT INTO t VALUES ({written})")).await?;
        for sql in [
            "SELECT * FROM v",
            "SELECT * FROM w",
            "EXECUTE p",
            "SELECT count(*) AS n FROM named",
            "SELECT count(*) AS n FROM 's3://data/g/t'",
            "SELECT count(*) AS n FROM g.t",
            "SELECT a.n FROM v AS a JOIN w AS b ON a.n = b.n JOIN 's3://data/g/t' AS c ON c.x = b.n",
        ] {
            let found = rows(&ctx, sql).await?;
            if !found.contains(&format!("| {written} |")) {
                return Err(format!("{sql} after {written} rows: {found}").into());
            }
        }
    }
    Ok(())
}

trial!(one_moment);
/// Two tables of an array show it at one moment, though one was opened before another writer's commit, and the other after it.
async fn one_moment() -> Result<(), Failed> {
    let cloud = S3Cloud::start();
    let (ctx, other) = (cloud.session(), cloud.session());
    let create = "CREATE EXTERNAL TABLE t (x BIGINT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION 's3://data/t'";
    rows(&other, create).await?;
    rows(&other, "INSERT INTO t VALUES (1)").await?;
    rows(
        &ctx,
        "CREATE EXTERNAL TABLE named STORED AS TILEDB LOCATION 's3://data/t'",
    )
    .await?;
    let before = cloud.contents().await?;
    rows(&other, "INSERT INTO t VALUES (2)").await?;
    let mut late = cloud.contents().await?;
    late.retain(|path, _| !before.contains_key(path));
    for [first, second] in [["named", "'s3://data/t'"], ["'s3://data/t'", "named"]] {
        for path in late.keys() {
            cloud.server.objects().delete(path).await?;
        }
        // The commit comes between the lookup of the path and the scan of the named table.
        let (objects, late) = (cloud.server.objects(), late.clone());
        let listings = AtomicUsize::new(0);
        cloud.server.set_faults(move |head| {
            let is_listing = head.query.contains("__commits");
            if is_listing && listings.fetch_add(1, Ordering::Relaxed) == 1 {
                for (path, bytes) in &late {
                    let put = objects.put(path, bytes.clone().into());
                    futures::executor::block_on(put).expect("memory takes all");
                }
            }
            RequestFault::None
        });
        let sql = format!(
            "SELECT a.n AS a, b.n AS b FROM (SELECT count(*) AS n, min(x) AS m FROM {first} WHERE x > 0) AS a \
             JOIN (SELECT count(*) AS n, min(x) AS m FROM {second} WHERE x > 0) AS b ON a.m = b.m"
        );
        let found = rows(&ctx, &sql).await?;
        cloud.server.clear_faults();
        if !found.contains("| 1 | 1 |") && !found.contains("| 2 | 2 |") {
            return Err(format!("{sql}: {found}").into());
        }
        let found = rows(&ctx, "SELECT count(*) AS n FROM named").await?;
        if !found.contains("| 2 |") {
            return Err(format!("the commit did not come in time: {found}").into());
        }
    }
    Ok(())
}

trial!(groups);
async fn groups() -> Result<(), Failed> {
    let cloud = S3Cloud::start();
    let ctx = cloud.session();
    rows(&ctx, "SELECT * FROM tiledb_create_group('s3://data/g')").await?;
    for number in 0..MANY {
        let copy = format!(
            "COPY (SELECT 1 AS x, {number} AS v) TO 's3://data/g/a{number}' STORED AS TILEDB PARTITIONED BY (x)"
        );
        rows(&ctx, &copy).await?;
        let add = format!(
            "SELECT * FROM tiledb_add_member('s3://data/g', 's3://data/g/a{number}', name => 'a{number}')"
        );
        rows(&ctx, &add).await?;
    }
    rows(
        &ctx,
        "SELECT * FROM tiledb_consolidate('s3://data/g', 'mode', 'metadata')",
    )
    .await
    .ok();
    cloud.server.set_latency(LONG_LATENCY);
    let all: Vec<_> = (0..MANY)
        .map(|number| format!("SELECT v FROM g.a{number}"))
        .collect();
    let sum = format!("SELECT sum(v) AS s FROM ({})", all.join(" UNION ALL "));
    let mut wrong = Vec::new();
    let attach = "ATTACH 's3://data/g' AS g";
    let limit = ChainLimit {
        what: "attach a group",
        sql: attach,
        gives: "",
        chain: 3,
        requests: 60,
    };
    wrong.extend(measured(&cloud, &[], &limit).await?);
    let limit = ChainLimit {
        what: "sum over its arrays",
        sql: &sum,
        gives: "| 1225 |",
        chain: 7,
        requests: 560,
    };
    wrong.extend(measured(&cloud, &[attach], &limit).await?);
    if wrong.is_empty() {
        return Ok(());
    }
    Err(wrong.join("\n").into())
}

trial!(many_fragments);
async fn many_fragments() -> Result<(), Failed> {
    const FRAGMENTS: usize = 100;
    let cloud = S3Cloud::start();
    let ctx = cloud.session();
    let create = "CREATE EXTERNAL TABLE many (x BIGINT, v BIGINT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION 's3://data/many'";
    rows(&ctx, create).await?;
    for number in 0..FRAGMENTS {
        rows(
            &ctx,
            &format!("INSERT INTO many VALUES ({number}, {number})"),
        )
        .await?;
    }
    cloud.server.set_latency(LONG_LATENCY);
    let count = |what, chain, requests| ChainLimit {
        what,
        sql: "SELECT count(*) AS n FROM 's3://data/many'",
        gives: "| 100 |",
        chain,
        requests,
    };
    let mut wrong = Vec::new();
    let limit = count("count of many fragments", 8, 4 + FRAGMENTS + 10);
    wrong.extend(measured(&cloud, &[], &limit).await?);
    cloud.server.set_latency(Duration::ZERO);
    rows(&ctx, "SELECT * FROM tiledb_consolidate('s3://data/many')").await?;
    cloud.server.set_latency(LONG_LATENCY);
    let limit = count("the same, consolidated", 3, 12);
    wrong.extend(measured(&cloud, &[], &limit).await?);
    let objects = cloud.contents().await?.len();
    let limit = ChainLimit {
        what: "vacuum",
        sql: "SELECT count(*) AS n FROM tiledb_vacuum('s3://data/many', min_age => '0') WHERE outcome = 'done'",
        // For each fragment its commit and its folder; and the list of them.
        gives: "| 201 |",
        chain: usize::MAX,
        requests: 22,
    };
    let ctx = cloud.session();
    wrong.extend(measured_once(&cloud, &ctx, &limit).await?);
    let left = cloud.contents().await?.len();
    if objects - left < 4 * FRAGMENTS {
        wrong.push(format!("{left} of {objects} objects are left"));
    }
    let limit = count("the same, vacuumed", 3, 12);
    wrong.extend(measured(&cloud, &[], &limit).await?);
    if wrong.is_empty() {
        return Ok(());
    }
    Err(wrong.join("\n").into())
}

trial!(many_commits);
/// A folder of commits that takes two pages is proven to be as it was listed while the files are read.
async fn many_commits() -> Result<(), Failed> {
    const REPLACED: usize = 1200;
    let cloud = S3Cloud::start();
    let ctx = cloud.session();
    for sql in [
        "CREATE EXTERNAL TABLE many (x BIGINT, v BIGINT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION 's3://data/many'",
        "INSERT INTO many VALUES (1, 1), (2, 2)",
        "INSERT INTO many VALUES (3, 3)",
        "SELECT * FROM tiledb_consolidate('s3://data/many')",
    ] {
        rows(&ctx, sql).await?;
    }
    // As if as many more fragments had been consolidated, and only their commits were left.
    let objects = cloud.server.objects();
    let contents = cloud.contents().await?;
    let list = contents.keys().find(|path| path.as_ref().ends_with(".vac"));
    let list = list.ok_or("no list of replaced fragments")?.clone();
    let name = list.filename().unwrap_or_default().to_owned();
    let time = name
        .split('_')
        .nth(2)
        .ok_or("a name without a time")?
        .to_owned();
    let mut lines = contents[&list].to_vec();
    for number in 0..REPLACED {
        let fragment = format!("__{time}_{time}_{number:032x}_22");
        lines.extend(format!("/__fragments/{fragment}\n").bytes());
        let commit = format!("data/many/__commits/{fragment}.wrt");
        objects.put(&commit.into(), Vec::new().into()).await?;
    }
    objects.put(&list, lines.into()).await?;
    cloud.server.set_latency(LATENCY);
    let count = "SELECT count(*) AS n FROM 's3://data/many'";
    let limit = |what, chain| ChainLimit {
        what,
        sql: count,
        gives: "| 3 |",
        chain,
        requests: 14,
    };
    // The second page follows the first. The pages of the proof come together, and beside what the listing names. Then come the cells.
    let mut wrong = Vec::new();
    wrong.extend(measured(&cloud, &[], &limit("count of many commits", 4)).await?);
    wrong.extend(measured(&cloud, &[count], &limit("the same again", 4)).await?);
    if wrong.is_empty() {
        return Ok(());
    }
    Err(wrong.join("\n").into())
}

trial!(limit);
/// A query with LIMIT leaves most of a remote array unread.
async fn limit() -> Result<(), Failed> {
    let cloud = S3Cloud::start();
    let ctx = cloud.session();
    for sql in [
        "CREATE EXTERNAL TABLE t (x BIGINT, v BIGINT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION 's3://data/t' \
         OPTIONS ('tiledb.attr.v.filters' 'none')",
        "INSERT INTO t SELECT value AS x, value AS v FROM generate_series(0, 799999)",
    ] {
        rows(&ctx, sql).await?;
    }
    let bytes = async |sql: &str, gives: &str| {
        let ctx = cloud.session();
        cloud.server.clear();
        let found = rows(&ctx, sql).await?;
        assert!(found.contains(gives), "{sql}: {found}");
        // What was asked for counts, because the answers end when nobody wants them any longer.
        let requests = cloud.server.requests();
        let ranges = requests
            .iter()
            .filter_map(|request| request.range.as_deref());
        let bytes = ranges.filter_map(|range| {
            let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
            Some(last.parse::<u64>().ok()? - first.parse::<u64>().ok()? + 1)
        });
        Ok::<_, Failed>(bytes.sum::<u64>())
    };
    let all = bytes("SELECT max(v + x) FROM 's3://data/t'", "1599998").await?;
    let few = bytes(
        "SELECT count(*) AS n FROM (SELECT v, x FROM 's3://data/t' WHERE v % 7 = 3 LIMIT 5)",
        "| 5 |",
    )
    .await?;
    if few * 2 > all {
        return Err(format!("{few} of {all} bytes").into());
    }
    Ok(())
}

trial!(queries);
async fn queries() -> Result<(), Failed> {
    let cloud = S3Cloud::start();
    arranged(&cloud).await?;
    cloud.server.set_latency(LATENCY);
    let mut wrong = Vec::new();
    for limit in [
        ChainLimit {
            what: "columns of a dense array",
            sql: "DESCRIBE 's3://data/dense'",
            gives: "| b ",
            chain: 2,
            requests: 6,
        },
        ChainLimit {
            what: "count of a sparse array",
            sql: "SELECT count(*) AS n FROM 's3://data/sparse'",
            gives: "| 50000 |",
            chain: 3,
            requests: 12,
        },
        ChainLimit {
            what: "a slice of a sparse array",
            sql: "SELECT sum(v) AS s FROM 's3://data/sparse' WHERE x BETWEEN 10000 AND 10499",
            gives: "| 2562375.0 |",
            chain: 3,
            requests: 13,
        },
        ChainLimit {
            what: "a slice with a condition",
            sql: "SELECT count(*) AS n FROM 's3://data/sparse' WHERE x BETWEEN 10000 AND 10499 AND kind = 'k3'",
            gives: "| 71 |",
            chain: 3,
            requests: 13,
        },
        ChainLimit {
            // The column that the condition may leave unread costs less than a round trip.
            what: "a slice with a condition on another column",
            sql: "SELECT sum(v) AS s FROM 's3://data/sparse' WHERE x BETWEEN 10000 AND 10499 AND kind = 'k3'",
            gives: "| 363910.5 |",
            chain: 3,
            requests: 14,
        },
        ChainLimit {
            what: "groups of an enumeration",
            sql: "SELECT kind, count(*) AS n FROM 's3://data/enumerated' GROUP BY kind ORDER BY kind",
            gives: "| k0   | 2858 |",
            chain: 3,
            requests: 14,
        },
        ChainLimit {
            what: "two columns of a dense array",
            sql: "SELECT sum(a) AS a, sum(b) AS b FROM 's3://data/dense' WHERE y < 20",
            gives: "| 7998000.0 | 7998000 |",
            chain: 3,
            requests: 13,
        },
    ] {
        wrong.extend(measured(&cloud, &[], &limit).await?);
        if limit.what.starts_with("count") {
            let again = ChainLimit {
                what: "the same again",
                chain: 1,
                requests: 4,
                ..limit
            };
            wrong.extend(measured(&cloud, &[limit.sql], &again).await?);
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(wrong.join("\n").into())
}
