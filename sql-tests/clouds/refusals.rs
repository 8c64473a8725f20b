//! A failure says what was refused, where the credentials came from, and what to do.

use libtest_mimic::Failed;

use crate::support::cloud::{BUCKET, S3Cloud, error, rows, session};
use crate::support::s3::{RequestFault, S3Action, S3ServerOptions, S3User};

/// Variables of the environment, a URL, and parts of the error.
type RefusedCase = (
    Vec<(&'static str, String)>,
    &'static str,
    &'static [&'static str],
);

/// What the store refuses.
fn refused(cloud: &S3Cloud) -> Vec<RefusedCase> {
    let keys = |key: &str, secret: &str, token: &str| {
        let mut variables = cloud.endpoint();
        variables.push(("AWS_ACCESS_KEY_ID", key.to_owned()));
        variables.push(("AWS_SECRET_ACCESS_KEY", secret.to_owned()));
        variables.push(("AWS_SESSION_TOKEN", token.to_owned()));
        variables
    };
    const ORIGIN: &str = "the keys of the environment (AWS_ACCESS_KEY_ID)";
    vec![
        (
            keys("owner", "wrong-hush", ""),
            "s3://data/a",
            &[
                "cannot list s3://data/a",
                "secret key doesn't belong",
                "403",
                ORIGIN,
            ],
        ),
        (
            keys("stranger", "wrong-hush", ""),
            "s3://data/a",
            &["doesn't know the access key", ORIGIN],
        ),
        (
            keys("blind", "blind-secret", ""),
            "s3://data/a",
            &["s3:ListBucket on bucket 'data'", "403", ORIGIN],
        ),
        (
            keys("expired", "expired-secret", "old-hush"),
            "s3://data/a",
            &["session token has expired", "new credentials"],
        ),
    ]
}

/// What can't be reached, or isn't there.
fn unreachable(cloud: &S3Cloud) -> Vec<RefusedCase> {
    vec![
        (
            cloud.variables(),
            "s3://missing-bucket/a",
            &["there is no bucket 'missing-bucket'", "404"],
        ),
        (
            cloud.variables(),
            "s3://data/nothing",
            &["s3://data/nothing", "not found"],
        ),
        (
            cloud.variables(),
            "s3://data/files/",
            &["not a TileDB array"],
        ),
        (
            vec![
                ("AWS_ENDPOINT", "http://127.0.0.1:1".to_owned()),
                ("AWS_ALLOW_HTTP", "true".to_owned()),
                ("AWS_SKIP_SIGNATURE", "true".to_owned()),
            ],
            "s3://data/a",
            &["no connection could be made", "endpoint"],
        ),
        (
            cloud.variables(),
            "http://127.0.0.1:1/a",
            &["no connection could be made"],
        ),
        (
            vec![("AWS_ENDPOINT", "http://u:hush@127.0.0.1:1".to_owned())],
            "s3://data/a",
            &["has a password"],
        ),
        (
            vec![("AWS_ENDPOINT", "http://127.0.0.1:1".to_owned())],
            "s3://data/a",
            &["aws.allow_http"],
        ),
        (
            vec![("AWS_ACCESS_KEY_ID", "AK".to_owned())],
            "s3://data/a",
            &["needs AWS_SECRET_ACCESS_KEY"],
        ),
        (cloud.variables(), "tiledb://namespace/a", &["TileDB Cloud"]),
        (cloud.variables(), "ftp://host/a", &["scheme ftp://"]),
    ]
}

trial!(words);
async fn words() -> Result<(), Failed> {
    let blind = S3User::new("blind", "blind-secret").with_grants(&[S3Action::Read], BUCKET);
    let expired = S3User::new("expired", "expired-secret").with_session_token("fresh");
    let options = S3ServerOptions::default();
    let cloud = S3Cloud::with(options.with_user(blind).with_user(expired));
    let copy = "COPY (SELECT 1 AS x) TO 's3://data/files/f.parquet'";
    rows(&cloud.session(), copy).await?;
    let cases = refused(&cloud).into_iter().chain(unreachable(&cloud));
    for (variables, url, expected) in cases {
        let ctx = session(variables);
        for sql in [format!("SELECT * FROM tiledb_fragments('{url}')")] {
            for retries in ["SET tiledb.retries = 1", "SET tiledb.retry_time = '1s'"] {
                rows(&ctx, retries).await?;
            }
            let found = error(&ctx, &sql).await?;
            for part in expected {
                if !found.contains(part) {
                    return Err(format!("{sql}: {found}\ndoes not contain {part}").into());
                }
            }
            for secret in ["hush", "-secret", "<", "Error performing"] {
                if found.contains(secret) {
                    return Err(format!("{sql}: {found}\ncontains {secret}").into());
                }
            }
        }
    }
    Ok(())
}

trial!(overloaded);
/// A store that fails for a while is asked again; one that fails for good is an error.
async fn overloaded() -> Result<(), Failed> {
    let cloud = S3Cloud::start();
    let ctx = cloud.session();
    for limit in [
        "SET tiledb.request_timeout = '300ms'",
        "SET tiledb.retry_time = '5s'",
    ] {
        rows(&ctx, limit).await?;
    }
    rows(
        &ctx,
        "CREATE EXTERNAL TABLE t (x INT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION 's3://data/t'",
    )
    .await?;
    let faults = [
        RequestFault::SLOW_DOWN,
        RequestFault::CutBeforeHeaders,
        RequestFault::CutBody(20),
        RequestFault::StallBeforeHeaders,
        RequestFault::StallBody(20),
    ];
    for (number, fault) in faults.into_iter().enumerate() {
        let once = fault;
        cloud.server.set_faults(move |head| match head.number % 3 {
            0 => once,
            _ => RequestFault::None,
        });
        rows(&ctx, &format!("INSERT INTO t VALUES ({number})")).await?;
        let found = rows(&ctx, "SELECT count(*) AS n FROM 's3://data/t'").await?;
        if !found.contains(&format!("| {} |", number + 1)) {
            return Err(format!("{fault:?}: {found}").into());
        }
    }
    rows(&ctx, "SET tiledb.retries = 2").await?;
    rows(&ctx, "SET tiledb.retry_time = '1s'").await?;
    for (fault, expected) in [
        (RequestFault::SLOW_DOWN, "overloaded"),
        (RequestFault::CutBeforeHeaders, "cut"),
        (RequestFault::StallBeforeHeaders, "stopped answering"),
        (RequestFault::StallBody(20), "stopped answering"),
    ] {
        let always = fault;
        cloud.server.set_faults(move |_| always);
        let began = std::time::Instant::now();
        let found = error(&ctx, "SELECT * FROM 's3://data/t'").await?;
        if !found.contains(expected) || began.elapsed().as_secs() > 5 {
            return Err(format!("{fault:?} after {:?}: {found}", began.elapsed()).into());
        }
        cloud.server.clear_faults();
    }
    Ok(())
}
