//! Every door finds the store of a URL: by the environment, by the options of its statement, or registered by the program.

use std::sync::Arc;

use datafusion::prelude::SessionContext;
use libtest_mimic::Failed;
use object_store::memory::InMemory;

use crate::support::cloud::{BUCKET, KEYS, S3Cloud, error, rows, session};
use crate::support::s3::{S3Action, S3Bucket, S3ServerOptions, S3User};
use crate::support::shell_place::Place;

fn expect(found: &str, part: &str) -> Result<(), Failed> {
    if found.contains(part) {
        return Ok(());
    }
    Err(format!("{found}\ndoes not contain {part}").into())
}

/// Statements that write and read an array at `$U`, each with a part of its result.
const LIFE: [(&str, &str); 18] = [
    (
        "CREATE EXTERNAL TABLE t (x INT, v INT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '$U/t'",
        "",
    ),
    ("INSERT INTO t VALUES (1, 10), (2, 20)", "| 2     |"),
    ("INSERT INTO '$U/t' VALUES (3, 30)", "| 1     |"),
    ("SELECT sum(v) AS s FROM '$U/t'", "| 60 |"),
    ("UPDATE t SET v = 0 WHERE x = 1", "| 1     |"),
    ("DELETE FROM t WHERE x = 2", "| 1     |"),
    ("SELECT sum(v) AS s FROM t", "| 30 |"),
    ("ALTER TABLE t ADD COLUMN w INT DEFAULT 7", ""),
    ("SELECT sum(w) AS s FROM '$U/t'", "| 14 |"),
    ("SELECT count(*) AS n FROM tiledb_schema('$U/t')", "| 3 |"),
    (
        "SELECT count(*) > 0 AS b FROM tiledb_fragments('$U/t')",
        "| true |",
    ),
    (
        "COPY (SELECT 5 AS x, 50 AS v) TO '$U/group/copied' STORED AS TILEDB PARTITIONED BY (x)",
        "| 1     |",
    ),
    ("COPY (SELECT 6 AS x) TO '$U/files/f.parquet'", "| 1     |"),
    ("SELECT x FROM '$U/files/f.parquet'", "| 6 |"),
    (
        "SELECT count(*) > 0 AS b FROM tiledb_create_group('$U/group')",
        "| true |",
    ),
    (
        "SELECT count(*) > 0 AS b FROM tiledb_add_member('$U/group', '$U/group/copied', name => 'c')",
        "| true |",
    ),
    ("ATTACH '$U/group' AS g", ""),
    ("SELECT v FROM g.c", "| 50 |"),
];

async fn lives(ctx: &SessionContext, url: &str) -> Result<(), Failed> {
    for (sql, part) in LIFE {
        expect(&rows(ctx, &sql.replace("$U", url)).await?, part)?;
    }
    Ok(())
}

trial!(environment);
async fn environment() -> Result<(), Failed> {
    let cloud = S3Cloud::start();
    lives(&cloud.session(), "s3://data/env").await?;
    lives(&cloud.session(), "s3a://data/other").await
}

trial!(options_of_statements);
/// A session without credentials in its environment gives each statement its own.
async fn options_of_statements() -> Result<(), Failed> {
    let cloud = S3Cloud::start();
    let mut variables = cloud.endpoint();
    variables.push(("AWS_ACCESS_KEY_ID", "nobody".to_owned()));
    variables.push(("AWS_SECRET_ACCESS_KEY", "nothing".to_owned()));
    let ctx = session(variables);
    let options = format!(
        "'aws.access_key_id' '{}', 'aws.secret_access_key' '{}'",
        KEYS.0, KEYS.1
    );
    for (sql, part) in [
        (
            "CREATE EXTERNAL TABLE t (x INT, v INT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION 's3://data/t' OPTIONS ($O)",
            "",
        ),
        ("INSERT INTO t VALUES (1, 10), (2, 20)", "| 2     |"),
        ("SELECT sum(v) AS s FROM t", "| 30 |"),
        ("SELECT count(*) AS n FROM tiledb_fragments('t')", "| 1 |"),
        ("ALTER TABLE t ADD COLUMN w INT DEFAULT 7", ""),
        ("DELETE FROM t WHERE x = 1", "| 1     |"),
        (
            "COPY (SELECT 5 AS x) TO 's3://data/copied' STORED AS TILEDB PARTITIONED BY (x) OPTIONS ($O)",
            "| 1     |",
        ),
        (
            "COPY (SELECT 6 AS x) TO 's3://data/f.csv' STORED AS CSV OPTIONS ($O, 'format.has_header' 'true')",
            "| 1     |",
        ),
        (
            "CREATE EXTERNAL TABLE f STORED AS CSV LOCATION 's3://data/f.csv' OPTIONS ($O, 'format.has_header' 'true')",
            "",
        ),
        ("SELECT x FROM f", "| 6 |"),
        (
            "CREATE EXTERNAL TABLE again STORED AS TILEDB LOCATION 's3://data/copied' OPTIONS ($O)",
            "",
        ),
        ("SELECT x FROM again", "| 5 |"),
    ] {
        let sql = sql.replace("$O", &options);
        expect(&rows(&ctx, &sql).await?, part)?;
    }
    // What stands for the options in a location is never shown.
    let explain = format!(
        "EXPLAIN COPY (SELECT 1 AS x) TO 's3://data/e.csv' STORED AS CSV OPTIONS ({options})"
    );
    let plan = rows(&ctx, &explain).await?;
    expect(&plan, "s3://data/e.csv")?;
    let missing = format!(
        "CREATE EXTERNAL TABLE missing STORED AS TILEDB LOCATION 's3://data/missing' OPTIONS ({options}, 'tiledb.capacity' '7')"
    );
    let missing = error(&ctx, &missing).await?;
    expect(&missing, "s3://data/missing")?;
    if plan.contains('@') || missing.contains('@') {
        return Err(format!("{plan}\n{missing}").into());
    }
    // The keys of a table serve nothing else.
    for sql in [
        "SELECT * FROM 's3://data/t'",
        "SELECT * FROM 's3://data/f.csv'",
        "SELECT * FROM tiledb_fragments('s3://data/t')",
        "ATTACH 's3://data/t' AS g",
        "CREATE EXTERNAL TABLE other STORED AS TILEDB LOCATION 's3://data/t'",
    ] {
        let refused = error(&ctx, sql).await?;
        expect(&refused, "the store doesn't know the access key")?;
        for secret in [KEYS.1, "nothing"] {
            if refused.contains(secret) {
                return Err(format!("{sql}: {refused}").into());
            }
        }
    }
    let group = "SELECT count(*) AS n FROM tiledb_create_group('s3://data/group')";
    rows(&cloud.session(), group).await?;
    let attach = format!("ATTACH 's3://data/group' AS g ({options})").replace("' '", "' = '");
    rows(&ctx, &attach).await?;
    Ok(())
}

trial!(two_tables_with_their_own_keys);
async fn two_tables_with_their_own_keys() -> Result<(), Failed> {
    let reader = S3User::new("reader", "reader-secret")
        .with_grants(&[S3Action::Read, S3Action::List], BUCKET);
    let cloud = S3Cloud::with(S3ServerOptions::default().with_user(reader));
    let owner = cloud.session();
    rows(&owner, LIFE[0].0.replace("$U", "s3://data").as_str()).await?;
    rows(&owner, "INSERT INTO t VALUES (1, 10)").await?;
    let create = |name: &str, key: &str, secret: &str| {
        format!(
            "CREATE EXTERNAL TABLE {name} STORED AS TILEDB LOCATION 's3://data/t' \
             OPTIONS ('aws.access_key_id' '{key}', 'aws.secret_access_key' '{secret}')"
        )
    };
    let ctx = session(cloud.endpoint());
    rows(&ctx, &create("reads", "reader", "reader-secret")).await?;
    rows(&ctx, &create("writes", KEYS.0, KEYS.1)).await?;
    for _ in 0..2 {
        let refused = error(&ctx, "INSERT INTO reads VALUES (2, 20)").await?;
        expect(&refused, "s3:PutObject on bucket 'data'")?;
        rows(&ctx, "INSERT INTO writes VALUES (2, 20)").await?;
        expect(
            &rows(&ctx, "SELECT sum(v) AS s FROM reads").await?,
            "| 30 |",
        )?;
    }
    Ok(())
}

trial!(registered_stores);
/// A store that the program registered comes before the environment, and after options.
async fn registered_stores() -> Result<(), Failed> {
    let cloud = S3Cloud::start();
    let ctx = cloud.session();
    let registered = Arc::new(InMemory::new());
    ctx.register_object_store(&url::Url::parse("s3://data")?, registered as _);
    lives(&ctx, "s3://data/x").await?;
    let requests = cloud.server.requests();
    if !requests.is_empty() {
        return Err(format!("{requests:?}").into());
    }
    let options = format!(
        "'aws.access_key_id' '{}', 'aws.secret_access_key' '{}'",
        KEYS.0, KEYS.1
    );
    let create = format!(
        "CREATE EXTERNAL TABLE o (x INT, PRIMARY KEY (x)) STORED AS TILEDB LOCATION 's3://data/o' OPTIONS ({options})"
    );
    rows(&ctx, &create).await?;
    if cloud.server.requests().is_empty() {
        return Err("the options did not count".into());
    }
    Ok(())
}

trial!(public_buckets);
/// Nobody is asked for credentials where requests need none.
async fn public_buckets() -> Result<(), Failed> {
    let cloud =
        S3Cloud::with(S3ServerOptions::default().with_bucket(S3Bucket::new("open").public()));
    let object = object_store::path::Path::parse("open/f.csv")?;
    let objects = cloud.server.objects();
    object_store::ObjectStoreExt::put(objects.as_ref(), &object, "x\n7\n".into()).await?;
    let mut variables = cloud.endpoint();
    variables.push(("AWS_SKIP_SIGNATURE", "true".to_owned()));
    expect(
        &rows(&session(variables), "SELECT x FROM 's3://open/f.csv'").await?,
        "| 7 |",
    )?;
    let create = "CREATE EXTERNAL TABLE f STORED AS CSV LOCATION 's3://open/f.csv' OPTIONS ('aws.skip_signature' 'true')";
    let ctx = cloud.session();
    rows(&ctx, create).await?;
    expect(&rows(&ctx, "SELECT x FROM f").await?, "| 7 |")
}

trial!(other_regions);
async fn other_regions() -> Result<(), Failed> {
    use crate::support::s3::WrongRegionAnswer;

    for answer in [WrongRegionAnswer::Malformed, WrongRegionAnswer::Redirect] {
        let far = S3Bucket::new("far").in_region("eu-west-1");
        let owner = S3User::new("far-owner", "far-secret").with_grants(&S3Action::ALL, "far");
        let options = S3ServerOptions {
            wrong_region: answer,
            ..S3ServerOptions::default()
        };
        let cloud = S3Cloud::with(options.with_bucket(far).with_user(owner));
        let mut variables = cloud.endpoint();
        variables.push(("AWS_ACCESS_KEY_ID", "far-owner".to_owned()));
        variables.push(("AWS_SECRET_ACCESS_KEY", "far-secret".to_owned()));
        lives(&session(variables), "s3://far/x").await?;
    }
    Ok(())
}

trial!(subcommands);
fn subcommands(place: &Place) -> Result<(), Failed> {
    let cloud = S3Cloud::start();
    let run = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.envs(cloud.variables());
        let output = command.output()?;
        Ok::<_, Failed>(crate::support::shell_place::ran(output))
    };
    let life = LIFE
        .map(|(sql, _)| sql.replace("$U", "s3://data/shell"))
        .join(";\n");
    let ran = run(&["-q", "-c", &life])?;
    expect(&format!("{ran:?}"), "50")?;
    for arguments in [
        &["check", "s3://data/shell/t"][..],
        &["consolidate", "s3://data/shell/t"],
        &["vacuum", "s3://data/shell/t"],
    ] {
        let ran = run(arguments)?;
        println!("{arguments:?} {ran:?}");
    }
    Ok(())
}
