//! Writing to a store whose answers are late, lost or refused.

use std::time::Duration;

use libtest_mimic::Failed;
use tiledb_engine::storage::{Location, Storage};

use crate::support::cloud::{S3Cloud, error, rows};
use crate::support::s3::{RequestFault, RequestHead};

const CREATE: &str = "CREATE EXTERNAL TABLE t (x BIGINT, v BIGINT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION 's3://data/t' \
                      OPTIONS ('tiledb.attr.v.filters' 'none')";
const COUNT: &str = "SELECT count(*) AS n FROM 's3://data/t'";
/// A data file of it has more than one part.
const LARGE: &str = "INSERT INTO t SELECT value + 10, value FROM generate_series(0, 1999999)";

fn expect(found: &str, part: &str) -> Result<(), Failed> {
    if found.contains(part) {
        return Ok(());
    }
    Err(format!("{found}\ndoes not contain {part}").into())
}

trial!(failed_uploads);
/// A statement that fails leaves the array as it was, and no upload open.
async fn failed_uploads() -> Result<(), Failed> {
    let cloud = S3Cloud::start();
    let ctx = cloud.session();
    rows(&ctx, "SET tiledb.retries = 1").await?;
    rows(&ctx, CREATE).await?;
    rows(&ctx, "INSERT INTO t VALUES (1, 1)").await?;
    let is_part = |head: &RequestHead| head.query.contains("partNumber=2");
    cloud.server.set_faults(move |head| match is_part(head) {
        true => RequestFault::Status {
            status: 403,
            code: "AccessDenied",
            message: "Access Denied",
        },
        false => RequestFault::None,
    });
    expect(&error(&ctx, LARGE).await?, "s3:PutObject")?;
    cloud.server.clear_faults();
    cloud.no_upload_is_open().await?;
    expect(&rows(&ctx, COUNT).await?, "| 1 |")?;
    rows(&ctx, LARGE).await?;
    cloud.no_upload_is_open().await?;
    expect(&rows(&ctx, COUNT).await?, "| 2000001 |")
}

trial!(lost_answers);
/// Each write is done once, though its answer is lost and it is sent again.
async fn lost_answers() -> Result<(), Failed> {
    let cloud = S3Cloud::start();
    let ctx = cloud.session();
    cloud.server.set_faults(|head| match head.method.as_str() {
        "PUT" | "POST" if head.number % 2 == 0 => RequestFault::AnswerLost,
        _ => RequestFault::None,
    });
    rows(&ctx, CREATE).await?;
    for number in 0..4 {
        rows(&ctx, &format!("INSERT INTO t VALUES ({number}, 1)")).await?;
    }
    rows(&ctx, LARGE).await?;
    rows(&ctx, "DELETE FROM t WHERE x = 2").await?;
    cloud.server.clear_faults();
    cloud.no_upload_is_open().await?;
    expect(&rows(&ctx, COUNT).await?, "| 2000003 |")
}

trial!(parts_at_once);
/// While a part is on the way, others are sent, but not too many of them.
async fn parts_at_once() -> Result<(), Failed> {
    const PART: usize = 8 << 20;
    let cloud = S3Cloud::start();
    cloud.server.set_latency(Duration::from_millis(500));
    let location = Location::open("s3://data/t", &cloud.engine())?;
    let mut upload = Storage::in_engine(location, &cloud.engine()).upload("a.tdb");
    let mut written = Vec::new();
    for number in 0..6_u8 {
        let part = vec![number; PART + usize::from(number)];
        written.extend_from_slice(&part);
        upload.append(part.into()).await?;
    }
    upload.finish().await?;
    let requests = cloud.server.requests();
    let parts = requests.iter().filter(|r| r.query.contains("partNumber"));
    let parts: Vec<_> = parts.collect();
    let at_once = parts.iter().map(|part| {
        let others = parts.iter();
        let others = others.filter(|other| other.begin <= part.begin && part.begin < other.end);
        others.count()
    });
    let at_once = at_once.max().unwrap_or(0);
    if parts.len() != 7 || !(2..=4).contains(&at_once) {
        return Err(format!("{at_once} of {} parts at once", parts.len()).into());
    }
    let contents = cloud.contents().await?;
    assert!(
        contents
            .values()
            .next()
            .is_some_and(|found| *found == written)
    );
    cloud.no_upload_is_open().await
}

trial!(many_writers);
async fn many_writers() -> Result<(), Failed> {
    let cloud = S3Cloud::start();
    rows(&cloud.session(), CREATE).await?;
    let writers = (0..16).map(|number| {
        let ctx = cloud.session();
        async move {
            let insert = format!("INSERT INTO 's3://data/t' VALUES ({number}, {number})");
            rows(&ctx, &insert).await
        }
    });
    for written in futures::future::join_all(writers).await {
        written?;
    }
    let sum = "SELECT count(*) AS n, sum(v) AS s FROM 's3://data/t'";
    expect(&rows(&cloud.session(), sum).await?, "| 16 | 120 |")
}

trial!(slow_answers);
/// An answer that makes progress may take longer than the limit of silence; one that ends early is no answer.
async fn slow_answers() -> Result<(), Failed> {
    let cloud = S3Cloud::start();
    let ctx = cloud.session();
    for setting in [
        "SET tiledb.request_timeout = '700ms'",
        "SET tiledb.retry_time = '3s'",
    ] {
        rows(&ctx, setting).await?;
    }
    rows(&ctx, CREATE).await?;
    rows(
        &ctx,
        "INSERT INTO t SELECT value AS x, value AS v FROM generate_series(0, 199999)",
    )
    .await?;
    cloud.server.set_bandwidth(Some(1 << 20));
    let sum = "SELECT sum(v) AS s FROM 's3://data/t' WHERE v % 2 = 0";
    let began = std::time::Instant::now();
    expect(&rows(&ctx, sum).await?, "| 9999900000 |")?;
    if began.elapsed() < Duration::from_millis(1000) {
        return Err("the answer was not slow".into());
    }
    cloud.server.set_bandwidth(None);
    cloud
        .server
        .set_faults(|head| match head.path.ends_with(".tdb") {
            true => RequestFault::TruncateBody(100),
            false => RequestFault::None,
        });
    let found = error(&cloud.session(), sum).await?;
    expect(&found, "s3://data/t")
}
