//! A scan that is longer than a round trip keeps several requests on the way, and no more bytes than its memory holds.

use std::time::{Duration, Instant};

use libtest_mimic::Failed;

use crate::support::cloud::{S3Cloud, rows};
use crate::support::s3::ServedRequest;

/// What the server sends in a second. A busy machine measures more, because bytes wait in the system until it reads them.
const BANDWIDTH: u64 = 16 << 20;
const LATENCY: Duration = Duration::from_millis(30);
/// The memory of the session, which bounds what is on the way whatever was measured.
const MEMORY: &str = "SET datafusion.runtime.memory_limit = '12M'";
const MOST_IN_FLIGHT: u64 = 12 << 20;
const LEAST_IN_FLIGHT: u64 = 2 << 20;

trial!(bytes_in_flight);
async fn bytes_in_flight() -> Result<(), Failed> {
    let cloud = S3Cloud::start();
    let ctx = cloud.session();
    for sql in [
        "CREATE EXTERNAL TABLE t (x BIGINT, v BIGINT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION 's3://data/t' \
         OPTIONS ('tiledb.attr.v.filters' 'none', 'tiledb.dim.x.filters' 'none')",
        "INSERT INTO t SELECT value AS x, value AS v FROM generate_series(0, 2999999)",
    ] {
        rows(&ctx, sql).await?;
    }
    cloud.server.set_latency(LATENCY);
    cloud.server.set_bandwidth(Some(BANDWIDTH));
    cloud.server.clear();
    let ctx = cloud.session();
    rows(&ctx, MEMORY).await?;
    let sum = "SELECT sum(v) AS s FROM 's3://data/t' WHERE v % 2 = 0";
    let found = rows(&ctx, sum).await?;
    assert!(found.contains("| 2249998500000 |"), "{found}");

    let requests = cloud.server.requests();
    let of_cells = requests.iter().filter(|r| r.path.ends_with("a0.tdb"));
    let of_cells = of_cells.map(RangeRequest::of).collect::<Option<Vec<_>>>();
    let of_cells = of_cells.ok_or("a request without a range")?;
    let bytes = of_cells.iter().map(|request| request.bytes).sum::<u64>();
    let distinct = distinct_bytes(&of_cells);
    assert!(
        (24_000_000..25_000_000).contains(&distinct),
        "{distinct} bytes"
    );
    // What is on the way when memory runs out is read again, which a busy machine may bring about.
    assert!(
        bytes - distinct <= MOST_IN_FLIGHT,
        "{distinct} bytes in {bytes}"
    );
    let in_flight = of_cells.iter().map(|request| {
        let others = of_cells.iter().filter(|other| other.runs_at(request.begin));
        others.map(|other| other.bytes).sum::<u64>()
    });
    let most = in_flight.max().unwrap_or(0);
    assert!(
        (LEAST_IN_FLIGHT..=MOST_IN_FLIGHT).contains(&most),
        "{most} bytes on the way in {} requests",
        of_cells.len()
    );
    Ok(())
}

/// A request for a range of a file.
struct RangeRequest {
    first: u64,
    bytes: u64,
    begin: Instant,
    end: Instant,
}

impl RangeRequest {
    fn of(request: &ServedRequest) -> Option<Self> {
        let range = request.range.as_deref()?.strip_prefix("bytes=")?;
        let (first, last) = range.split_once('-')?;
        let (first, last) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
        Some(Self {
            first,
            bytes: last + 1 - first,
            begin: request.begin,
            end: request.end,
        })
    }

    fn runs_at(&self, time: Instant) -> bool {
        self.begin <= time && time < self.end
    }
}

/// The bytes of the file that were asked for, each once.
fn distinct_bytes(requests: &[RangeRequest]) -> u64 {
    let mut ranges = requests
        .iter()
        .map(|request| (request.first, request.first + request.bytes))
        .collect::<Vec<_>>();
    ranges.sort_unstable();
    let (mut bytes, mut reached) = (0, 0);
    for (first, end) in ranges {
        bytes += end.saturating_sub(first.max(reached));
        reached = reached.max(end);
    }
    bytes
}
