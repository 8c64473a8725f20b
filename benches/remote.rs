//! What do queries and changes of arrays in an object store cost, and what would they cost at best?
//!
//! ```text
//! cargo bench -p tiledb-sql --bench remote              # 30 ms and 100 MB/s
//! cargo bench -p tiledb-sql --bench remote -- 50 200    # 50 ms and 200 MB/s
//! cargo bench -p tiledb-sql --bench remote -- "1,000"   # only the rows with this in their names, with each request
//! ```
//!
//! An S3 server in this process delays each request and limits the bytes per second. Each row is run in a session that
//! knows nothing of the array. `chain` is the number of round trips, one after the other. The ideal is the shortest chain that
//! the format allows, and the time to send the bytes. `local` is the time of the same query on a disk of this machine. A row
//! is good if it takes at most 1.3 times the ideal, the local time, and 10 ms. The best of three runs counts.

#![allow(
    missing_docs,
    dead_code,
    unused_imports,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::indexing_slicing,
    reason = "a benchmark prints, and stops at the first surprise"
)]

#[path = "../sql-tests/support/cloud.rs"]
mod cloud;
#[path = "../sql-tests/support/s3/mod.rs"]
mod s3;

use std::path::Path;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;

use self::cloud::{S3Cloud, rows, session};
use self::s3::ServedRequest;

/// The fragments of an array, and the arrays of a group.
const FRAGMENTS: usize = 1000;
const MEMBERS: usize = 50;
const RUNS: usize = 3;

/// A statement to measure.
struct RemoteCase {
    what: &'static str,
    sql: String,
    /// The shortest chain that the format allows.
    chain: u32,
    /// A statement that comes before, and isn't measured.
    before: Option<String>,
    /// Whether it changes the array, and so runs once.
    writes: bool,
}

impl RemoteCase {
    fn query(what: &'static str, chain: u32, sql: impl Into<String>) -> Self {
        Self {
            what,
            sql: sql.into(),
            chain,
            before: None,
            writes: false,
        }
    }

    fn after(mut self, sql: &str) -> Self {
        self.before = Some(sql.to_owned());
        self
    }

    fn writing(mut self) -> Self {
        self.writes = true;
        self
    }
}

/// The arrays, in the folder of placeholders.
async fn arrange(cloud: &S3Cloud) -> Result<(), Failed> {
    let ctx = cloud.session();
    for sql in [
        "CREATE EXTERNAL TABLE sparse (x BIGINT, kind VARCHAR, v DOUBLE, PRIMARY KEY (x)) STORED AS TILEDB LOCATION 's3://data/sparse' \
         OPTIONS ('tiledb.dim.x.domain' '[0, 10000000]')",
        "INSERT INTO sparse SELECT value, 'k' || (value % 7), sqrt(value) FROM generate_series(0, 999999)",
        "COPY (SELECT value AS x, arrow_cast('k' || (value % 7), 'Dictionary(Int8, Utf8)') AS kind, value AS v FROM generate_series(0, 999999)) \
         TO 's3://data/enumerated' STORED AS TILEDB PARTITIONED BY (x)",
        "CREATE EXTERNAL TABLE dense (y BIGINT, x BIGINT, a DOUBLE, b DOUBLE, PRIMARY KEY (y, x)) STORED AS TILEDB LOCATION 's3://data/dense' \
         OPTIONS ('tiledb.array_type' 'dense', 'tiledb.dim.y.domain' '[0, 1999]', 'tiledb.dim.x.domain' '[0, 1999]', \
         'tiledb.dim.y.tile' '100', 'tiledb.dim.x.tile' '100')",
        "INSERT INTO dense SELECT value / 2000, value % 2000, sqrt(value) AS a, sqrt(value + 1) AS b FROM generate_series(0, 3999999)",
        "CREATE EXTERNAL TABLE many (x BIGINT, v BIGINT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION 's3://data/many'",
        "SELECT * FROM tiledb_create_group('s3://data/g')",
        "CREATE EXTERNAL TABLE upload (x BIGINT, v DOUBLE, PRIMARY KEY (x)) STORED AS TILEDB LOCATION 's3://data/upload' \
         OPTIONS ('tiledb.attr.v.filters' 'none', 'tiledb.dim.x.domain' '[0, 100000000]')",
    ] {
        rows(&ctx, sql).await?;
    }
    for number in 0..FRAGMENTS {
        let insert = format!("INSERT INTO many VALUES ({number}, {number})");
        rows(&ctx, &insert).await?;
    }
    for number in 0..MEMBERS {
        let array = format!("s3://data/g/a{number}");
        let copy = format!(
            "COPY (SELECT 1 AS x, {number} AS v) TO '{array}' STORED AS TILEDB PARTITIONED BY (x)"
        );
        rows(&ctx, &copy).await?;
        let add = format!(
            "SELECT * FROM tiledb_add_member('s3://data/g', '{array}', name => 'a{number}')"
        );
        rows(&ctx, &add).await?;
    }
    Ok(())
}

fn cases() -> Vec<RemoteCase> {
    let members: Vec<_> = (0..MEMBERS)
        .map(|number| format!("SELECT v FROM g.a{number}"))
        .collect();
    let sum = format!("SELECT sum(v) FROM ({})", members.join(" UNION ALL "));
    let count = "SELECT count(*) FROM 's3://data/sparse'";
    let many = "SELECT count(*) FROM 's3://data/many'";
    vec![
        RemoteCase::query("open, dense", 2, "DESCRIBE 's3://data/dense'"),
        RemoteCase::query("count, sparse", 3, count),
        RemoteCase::query("the same again", 1, count).after(count),
        RemoteCase::query(
            "1 % slice, sparse",
            3,
            "SELECT sum(v) FROM 's3://data/sparse' WHERE x BETWEEN 500000 AND 509999",
        ),
        RemoteCase::query(
            "condition, sparse",
            3,
            "SELECT sum(v) FROM 's3://data/sparse' WHERE kind = 'k3'",
        ),
        RemoteCase::query(
            "LIMIT 5, dense",
            3,
            "SELECT a, b FROM 's3://data/dense' LIMIT 5",
        ),
        RemoteCase::query(
            "two columns, dense",
            3,
            "SELECT max(a * b) FROM 's3://data/dense'",
        ),
        RemoteCase::query(
            "groups of an enumeration",
            3,
            "SELECT kind, count(*) FROM 's3://data/enumerated' GROUP BY kind",
        ),
        RemoteCase::query("attach a group of 50", 3, "ATTACH 's3://data/g' AS g"),
        RemoteCase::query("sum over its arrays", 7, sum).after("ATTACH 's3://data/g' AS g"),
        RemoteCase::query("1,000 fragments", 8, many),
        RemoteCase::query(
            "consolidate them",
            12,
            "SELECT * FROM tiledb_consolidate('s3://data/many')",
        )
        .writing(),
        RemoteCase::query("the same, consolidated", 3, many),
        RemoteCase::query(
            "vacuum them",
            15,
            "SELECT * FROM tiledb_vacuum('s3://data/many', min_age => '0')",
        )
        .writing(),
        RemoteCase::query("the same, vacuumed", 3, many),
        RemoteCase::query(
            "insert 10 million rows",
            12,
            "INSERT INTO 's3://data/upload' SELECT value, CAST(value AS DOUBLE) FROM generate_series(0, 9999999)",
        )
        .writing(),
    ]
}

/// A run.
struct RemoteRun {
    requests: Vec<ServedRequest>,
    bytes: usize,
    chain: usize,
    time: Duration,
}

async fn run(cloud: &S3Cloud, case: &RemoteCase) -> Result<RemoteRun, Failed> {
    let ctx = cloud.session();
    if let Some(before) = &case.before {
        rows(&ctx, before).await?;
    }
    cloud.server.clear();
    let began = Instant::now();
    rows(&ctx, &case.sql).await?;
    let time = began.elapsed();
    let requests = cloud.server.requests();
    let bytes = requests.iter().map(|r| r.bytes_sent + r.bytes_received);
    Ok(RemoteRun {
        bytes: bytes.sum(),
        requests,
        chain: cloud.server.chain(),
        time,
    })
}

/// The objects of the server as files below `folder`.
async fn copy(cloud: &S3Cloud, folder: &Path) -> Result<(), Failed> {
    for (path, bytes) in cloud.contents().await? {
        let file = folder.join(path.as_ref());
        std::fs::create_dir_all(file.parent().expect("a bucket"))?;
        std::fs::write(file, bytes)?;
    }
    Ok(())
}

/// The time of the case on the files in `folder`.
async fn local_time(folder: &Path, case: &RemoteCase) -> Result<Duration, Failed> {
    let place = format!("{}/data/", folder.display());
    let local = |sql: &str| sql.replace("s3://data/", &place);
    let ctx = session(Vec::new());
    if let Some(before) = &case.before {
        rows(&ctx, &local(before)).await?;
    }
    let began = Instant::now();
    rows(&ctx, &local(&case.sql)).await?;
    Ok(began.elapsed())
}

/// Prints when each request began and ended.
fn print_requests(requests: &[ServedRequest]) {
    let Some(first) = requests.first() else {
        return;
    };
    for request in requests {
        let ms = |time: Instant| (time - first.begin).as_secs_f64() * 1e3;
        println!(
            "    {:>7.1} – {:>7.1} ms {} {} {} {} {}",
            ms(request.begin),
            ms(request.end),
            request.method,
            request.path,
            request.query,
            request.range.as_deref().unwrap_or_default(),
            request.bytes_sent
        );
    }
}

/// What the command line says.
struct RemoteOptions {
    latency: Duration,
    bandwidth: u64,
    /// A part of the names of the rows to measure.
    only: Option<String>,
}

impl RemoteOptions {
    fn parse() -> Self {
        let arguments = std::env::args().skip(1);
        let arguments = arguments.filter(|argument| !argument.starts_with("--"));
        let (numbers, texts): (Vec<_>, Vec<_>) =
            arguments.partition(|argument| argument.parse::<u64>().is_ok());
        let mut numbers = numbers
            .iter()
            .filter_map(|argument| argument.parse::<u64>().ok());
        Self {
            latency: Duration::from_millis(numbers.next().unwrap_or(30)),
            bandwidth: numbers.next().unwrap_or(100) * 1_000_000,
            only: texts.into_iter().next(),
        }
    }

    fn wants(&self, case: &RemoteCase) -> bool {
        // What changes the arrays comes first for other rows.
        let only = self.only.as_deref();
        case.writes || only.is_none_or(|only| case.what.contains(only))
    }
}

async fn measure(options: &RemoteOptions) -> Result<(), Failed> {
    let (latency, bandwidth) = (options.latency, options.bandwidth);
    let cloud = S3Cloud::start();
    arrange(&cloud).await?;
    println!(
        "| {:<24} | requests |       MB | chain |       ms |    ideal |    local | of the limit |",
        "what"
    );
    println!(
        "|:{:-<24}-|---------:|---------:|------:|---------:|---------:|---------:|-------------:|",
        ""
    );
    for case in cases().into_iter().filter(|case| options.wants(case)) {
        let folder = tempfile::tempdir()?;
        cloud.server.set_latency(Duration::ZERO);
        cloud.server.set_bandwidth(None);
        copy(&cloud, folder.path()).await?;
        let mut local = Duration::MAX;
        let runs = if case.writes { 1 } else { RUNS };
        for _ in 0..runs {
            local = local.min(local_time(folder.path(), &case).await?);
        }
        cloud.server.set_latency(latency);
        cloud.server.set_bandwidth(Some(bandwidth));
        let mut best: Option<RemoteRun> = None;
        for _ in 0..runs {
            let run = run(&cloud, &case).await?;
            if best.as_ref().is_none_or(|best| run.time < best.time) {
                best = Some(run);
            }
        }
        let best = best.expect("at least one run");
        let sending = Duration::from_secs_f64(best.bytes as f64 / bandwidth as f64);
        let ideal = latency * case.chain + sending;
        let limit = ideal.mul_f64(1.3) + local + Duration::from_millis(10);
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        println!(
            "| {:<24} | {:>8} | {:>8.3} | {:>5} | {:>8.1} | {:>8.1} | {:>8.1} | {:>10.0} % |",
            case.what,
            best.requests.len(),
            best.bytes as f64 / 1e6,
            best.chain,
            ms(best.time),
            ms(ideal),
            ms(local),
            best.time.as_secs_f64() / limit.as_secs_f64() * 100.0
        );
        if options.only.is_some() {
            print_requests(&best.requests);
        }
    }
    Ok(())
}

fn main() -> Result<(), Failed> {
    let options = RemoteOptions::parse();
    println!(
        "{} ms for each request, {} MB/s\n",
        options.latency.as_millis(),
        options.bandwidth / 1_000_000
    );
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(measure(&options))
}
