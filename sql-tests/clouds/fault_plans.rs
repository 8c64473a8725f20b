//! Random faults of the network: each statement gives the right answer or one clear error, and a change is made whole or not at
//! all.
//!
//! `FAULT_PLANS=1000 FAULT_SEED=7 cargo test --test sql-tests -- fault_plans` runs more plans, of another seed.

use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use object_store::ObjectStoreExt;

use crate::support::cloud::{KEYS, S3Cloud, rows, tried};
use crate::support::rng::Rng;
use crate::support::s3::{RequestFault, RequestHead};

/// What a statement does, and what the array holds afterwards: the number of its rows, and their sum.
struct FaultyStatement {
    sql: &'static str,
    /// A part of its rows.
    gives: &'static str,
    after: (i64, i64),
}

/// The rows and their sum before any statement.
const BEFORE: (i64, i64) = (1003, 501_506);

const STATEMENTS: [FaultyStatement; 9] = [
    FaultyStatement {
        sql: "SELECT count(*) AS n, sum(v) AS s FROM 's3://data/t'",
        gives: "| 1003 | 501506 |",
        after: BEFORE,
    },
    FaultyStatement {
        sql: "SELECT k, v FROM 's3://data/t' WHERE x = 1001",
        gives: "| zwei | 1002 |",
        after: BEFORE,
    },
    FaultyStatement {
        sql: "SELECT count(*) AS n FROM tiledb_fragments('s3://data/t')",
        gives: "| 2 |",
        after: BEFORE,
    },
    FaultyStatement {
        sql: "INSERT INTO 's3://data/t' VALUES (5000, 'neu', 1)",
        gives: "| 1     |",
        after: (1004, 501_507),
    },
    FaultyStatement {
        sql: "INSERT INTO 's3://data/t' SELECT value + 10000, 'viel', 1 FROM generate_series(0, 1199999)",
        gives: "| 1200000 |",
        after: (1_201_003, 1_701_506),
    },
    FaultyStatement {
        sql: "DELETE FROM 's3://data/t' WHERE x > 1000",
        gives: "| 2     |",
        after: (1001, 500_500),
    },
    FaultyStatement {
        sql: "UPDATE 's3://data/t' SET v = v + 1 WHERE x > 1000",
        gives: "| 2     |",
        after: (1003, 501_508),
    },
    FaultyStatement {
        sql: "SELECT count(*) AS n FROM tiledb_consolidate('s3://data/t')",
        gives: "| n",
        after: BEFORE,
    },
    FaultyStatement {
        sql: "SELECT count(*) AS n FROM tiledb_vacuum('s3://data/t', min_age => '0')",
        gives: "| 0 |",
        after: BEFORE,
    },
];

/// The longest time of a statement: the limit of retries, for each of the rounds in which it asks the store.
const LONGEST: Duration = Duration::from_secs(30);

fn number(name: &str, otherwise: u64) -> u64 {
    let given = std::env::var(name).ok();
    given
        .and_then(|text| text.parse().ok())
        .unwrap_or(otherwise)
}

trial!(fault_plans);
async fn fault_plans() -> Result<(), Failed> {
    let (plans, seed) = (number("FAULT_PLANS", 27), number("FAULT_SEED", 1));
    let cloud = S3Cloud::start();
    arrange(&cloud).await?;
    let before = cloud.contents().await?;
    let mut answered = 0;
    for plan in 0..plans {
        let mut rng = Rng::new(seed, plan);
        let statement = &STATEMENTS[plan as usize % STATEMENTS.len()];
        let followed = follow(&cloud, statement, &mut rng).await;
        answered += u64::from(followed.map_err(|failed| {
            let why = failed.message().unwrap_or_default().to_owned();
            format!("FAULT_SEED={seed}, plan {plan}: {}: {why}", statement.sql)
        })?);
        // The next one finds the array as this one did.
        for path in cloud.contents().await?.into_keys() {
            cloud.server.objects().delete(&path).await?;
        }
        for (path, bytes) in &before {
            let objects = cloud.server.objects();
            objects.put(path, bytes.clone().into()).await?;
        }
    }
    // Faults that are rare are survived, and others are not.
    if answered < plans / 4 || answered == plans {
        return Err(format!("{answered} of {plans} statements were answered").into());
    }
    Ok(())
}

async fn arrange(cloud: &S3Cloud) -> Result<(), Failed> {
    let ctx = cloud.session();
    for sql in [
        "CREATE EXTERNAL TABLE t (x BIGINT, k VARCHAR, v BIGINT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION 's3://data/t' \
         OPTIONS ('tiledb.capacity' '100', 'tiledb.attr.v.filters' 'none')",
        "INSERT INTO t SELECT value AS x, 'k' || value, value AS v FROM generate_series(0, 1000)",
        "INSERT INTO t VALUES (1001, 'zwei', 1002), (1002, 'drei', 4)",
    ] {
        rows(&ctx, sql).await?;
    }
    Ok(())
}

/// Runs a statement while requests fail at random, and checks what it leaves. Returns whether it had an answer.
async fn follow(
    cloud: &S3Cloud,
    statement: &FaultyStatement,
    rng: &mut Rng,
) -> Result<bool, Failed> {
    let ctx = cloud.session();
    for setting in [
        "SET tiledb.request_timeout = '300ms'",
        "SET tiledb.retries = 4",
        "SET tiledb.retry_time = '5s'",
    ] {
        rows(&ctx, setting).await?;
    }
    let often = *rng.pick(&[1, 5, 20, 60, 100]);
    let stream = rng.next();
    cloud.server.set_faults(move |head| {
        let mut rng = Rng::new(stream, head.number as u64);
        match rng.chance(often) {
            true => fault(head, &mut rng),
            false => RequestFault::None,
        }
    });
    let began = Instant::now();
    let ran = tried(&ctx, statement.sql).await;
    let took = began.elapsed();
    cloud.server.clear_faults();
    if took > LONGEST {
        return Err(format!("it took {took:.1?}").into());
    }
    match &ran {
        Ok(found) if !found.contains(statement.gives) => {
            return Err(format!("it gave {found}").into());
        }
        Ok(_) => {}
        Err(error) => is_clear(error)?,
    }
    cloud.no_upload_is_open().await?;
    let sum = "SELECT count(*) AS n, sum(v) AS s FROM 's3://data/t'";
    let left = rows(&cloud.session(), sum).await?;
    let holds = |(count, sum): (i64, i64)| left.contains(&format!("| {count} | {sum} |"));
    let is_changed = statement.after != BEFORE && holds(statement.after);
    // If all answers after the commit are lost, nobody can know whether it came.
    let is_unknown = ran.is_err() && is_changed && often >= 60;
    let is_right = match ran.is_ok() {
        true => holds(statement.after),
        false => holds(BEFORE),
    };
    if !is_right && !is_unknown {
        return Err(format!("{ran:?} leaves {left}").into());
    }
    Ok(ran.is_ok())
}

/// What goes wrong with a request.
fn fault(head: &RequestHead, rng: &mut Rng) -> RequestFault {
    let bytes = rng.below(3000);
    let status = |status, code| RequestFault::Status {
        status,
        code,
        message: "It is not to be.",
    };
    match rng.below(10) {
        0 | 1 => RequestFault::CutBeforeHeaders,
        2 => RequestFault::CutBody(bytes),
        3 => RequestFault::StallBeforeHeaders,
        4 => RequestFault::StallBody(bytes),
        5 => RequestFault::AnswerLost,
        6 => RequestFault::SLOW_DOWN,
        7 => status(500, "InternalError"),
        8 => status(429, "TooManyRequests"),
        _ if head.method == hyper::Method::GET => RequestFault::CutBody(0),
        _ => status(502, "BadGateway"),
    }
}

/// An error names the place, and shows neither what the store sent nor secrets.
fn is_clear(error: &str) -> Result<(), Failed> {
    let wrong = [KEYS.1, "<?xml", "<Error", "Internal error", "panicked"];
    let wrong = wrong.into_iter().find(|part| error.contains(part));
    if wrong.is_some() || !error.contains("s3://data/t") || error.len() > 1500 {
        return Err(format!("the error isn't clear ({wrong:?}): {error}").into());
    }
    Ok(())
}
