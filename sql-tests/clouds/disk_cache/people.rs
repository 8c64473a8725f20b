//! Users without permission, and other stores, get nothing.

use libtest_mimic::Failed;
use object_store::ObjectStoreExt;

use super::{CachedCloud, arrange_sparse, end, expect, keep_in};
use crate::support::cloud::{BUCKET, S3Cloud, error, rows, session};
use crate::support::s3::{RequestFault, S3Action, S3ServerOptions, S3User};

trial!(others_get_nothing);
/// A user without permission gets 403, although the bytes are in the cache of the same engine.
async fn others_get_nothing() -> Result<(), Failed> {
    let blind = S3User::new("blind", "blind-secret").with_grants(&[S3Action::Read], BUCKET);
    let cloud = S3Cloud::with(S3ServerOptions::default().with_user(blind));
    let cached = CachedCloud::with(cloud)?;
    arrange_sparse(&cached.cloud).await?;
    let ctx = cached.session().await?;
    let table = |name: &str, key: &str, secret: &str| {
        format!(
            "CREATE EXTERNAL TABLE {name} STORED AS TILEDB LOCATION 's3://data/sparse' \
             OPTIONS ('aws.access_key_id' '{key}', 'aws.secret_access_key' '{secret}')"
        )
    };
    let sql = "SELECT v FROM 's3://data/sparse' WHERE x = 31234";
    expect(&rows(&ctx, sql).await?, "| 15617.0 |")?;
    for (key, secret) in [
        ("blind", "blind-secret"),
        ("stranger", "hush"),
        ("owner", "wrong"),
    ] {
        let refused = error(&ctx, &table(&format!("of_{key}"), key, secret)).await?;
        expect(&refused, "403")?;
    }
    // The permission of a user ends while a table is open.
    cached.cloud.server.set_faults(|head| {
        if head.query.contains("list-type=2") {
            RequestFault::Status {
                status: 403,
                code: "AccessDenied",
                message: "Access Denied.",
            }
        } else {
            RequestFault::None
        }
    });
    expect(&error(&ctx, sql).await?, "403")?;
    cached.cloud.server.clear_faults();
    expect(&rows(&ctx, sql).await?, "| 15617.0 |")
}

trial!(endpoints_do_not_mix);
/// Two servers with the same bucket and the same path have an array each, whose files even have the same names.
async fn endpoints_do_not_mix() -> Result<(), Failed> {
    let [one, other] = [S3Cloud::start(), S3Cloud::start()];
    let folder = tempfile::tempdir()?;
    let writer = one.session();
    for sql in [
        "CREATE EXTERNAL TABLE t (x BIGINT, v BIGINT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION 's3://data/t' OPTIONS ('tiledb.attr.v.filters' 'none')",
        "INSERT INTO t VALUES (1, 81985529216486895)",
    ] {
        rows(&writer, sql).await?;
    }
    // The copy has another value, of the same length.
    let (old, new) = (
        81_985_529_216_486_895_i64.to_le_bytes(),
        7_i64.to_le_bytes(),
    );
    let mut changed = 0;
    for (path, bytes) in one.contents().await? {
        let mut bytes = bytes.to_vec();
        for at in 0..bytes.len().saturating_sub(7) {
            if bytes.get(at..at + 8) == Some(&old[..]) && path.as_ref().ends_with("a0.tdb") {
                bytes[at..at + 8].copy_from_slice(&new);
                changed += 1;
            }
        }
        other.server.objects().put(&path, bytes.into()).await?;
    }
    if changed != 1 {
        return Err(format!("{changed} places have the value").into());
    }
    let sql = "SELECT v FROM 's3://data/t' WHERE x = 1";
    for _ in 0..2 {
        for (cloud, expected) in [(&one, "| 81985529216486895 |"), (&other, "| 7 |")] {
            let ctx = session(cloud.variables());
            keep_in(&ctx, folder.path()).await?;
            expect(&rows(&ctx, sql).await?, expected)?;
            end(&ctx).await?;
        }
    }
    Ok(())
}
