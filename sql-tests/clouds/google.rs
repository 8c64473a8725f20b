//! Arrays in Google Cloud Storage, whose XML API is that of S3 but for the words of its conditions.

use libtest_mimic::Failed;

use crate::support::cloud::{S3Cloud, rows, session};
use crate::support::s3::S3ServerOptions;

/// The variables with which a program finds the server. The account is one that needs no token; without an account, `object_store`
/// asks the metadata service of the machine for one before it writes.
fn variables(cloud: &S3Cloud) -> Vec<(&'static str, String)> {
    let endpoint = cloud.server.endpoint();
    let account = format!(
        r#"{{"gcs_base_url": "{endpoint}", "disable_oauth": true, "client_email": "", "private_key": "", "private_key_id": ""}}"#
    );
    vec![
        ("GOOGLE_SERVICE_ACCOUNT_KEY", account),
        ("GOOGLE_ALLOW_HTTP", "true".to_owned()),
    ]
}

fn cloud() -> S3Cloud {
    S3Cloud::with(S3ServerOptions {
        allow_anonymous: true,
        ..S3ServerOptions::default()
    })
}

fn expect(found: &str, part: &str) -> Result<(), Failed> {
    if found.contains(part) {
        return Ok(());
    }
    Err(format!("{found}\ndoes not contain {part}").into())
}

const CREATE: &str = "CREATE EXTERNAL TABLE t (x BIGINT, v BIGINT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION 'gs://data/t' \
                      OPTIONS ('tiledb.attr.v.filters' 'none')";
const SUM: &str = "SELECT count(*) AS n, sum(v) AS s FROM 'gs://data/t'";

trial!(life_of_an_array);
async fn life_of_an_array() -> Result<(), Failed> {
    let cloud = cloud();
    let ctx = session(variables(&cloud));
    for sql in [
        CREATE,
        "INSERT INTO t VALUES (1, 1), (2, 2)",
        // A file of it is uploaded in parts.
        "INSERT INTO t SELECT value + 10, 1 FROM generate_series(0, 1999999)",
        "UPDATE t SET v = 20 WHERE x = 2",
        "DELETE FROM t WHERE x > 1000009",
    ] {
        rows(&ctx, sql).await?;
    }
    expect(&rows(&ctx, SUM).await?, "| 1000002 | 1000021 |")?;
    for call in [
        "tiledb_consolidate('gs://data/t', purge_deleted => true)",
        "tiledb_vacuum('gs://data/t', min_age => '0')",
    ] {
        expect(
            &rows(&ctx, &format!("SELECT outcome FROM {call}")).await?,
            "done",
        )?;
    }
    let other = session(variables(&cloud));
    expect(&rows(&other, SUM).await?, "| 1000002 | 1000021 |")?;
    let check = "SELECT count(*) AS n FROM tiledb_check('gs://data/t')";
    expect(&rows(&other, check).await?, "| 0 |")?;
    cloud.no_upload_is_open().await
}

trial!(many_writers);
/// No writer replaces the file of another.
async fn many_writers() -> Result<(), Failed> {
    let cloud = cloud();
    rows(&session(variables(&cloud)), CREATE).await?;
    let writers = (0..16).map(|number| {
        let ctx = session(variables(&cloud));
        async move {
            let insert = format!("INSERT INTO 'gs://data/t' VALUES ({number}, {number})");
            rows(&ctx, &insert).await
        }
    });
    for written in futures::future::join_all(writers).await {
        written?;
    }
    expect(
        &rows(&session(variables(&cloud)), SUM).await?,
        "| 16 | 120 |",
    )
}
