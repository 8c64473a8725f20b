//! Encrypted arrays: what a key opens, and that it is nowhere to be seen.
//!
//! A wrong key, none, or one too many is one clear error. The key must not appear in errors, plans, settings, table
//! definitions, debug output, the request log, the shell's history, or the logs at their most talkative.

mod plain_files;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::{EncryptionKey, ErrorKind, TileDbTable};
use libtest_mimic::Failed;
use tiledb_engine::storage::{MetadataCache, RequestLog};

use crate::support::array_files::{Files, METADATA_FILE};
use crate::support::golden;
use crate::support::refusals::{ALL, read, refused};
use crate::support::shell_place::{Place, Ran};

/// The key of the golden arrays.
pub const KEY: &str = "0123456789abcdeF0123456789abcdeF";

const HEX: &str = "3031323334353637383961626364654630313233343536373839616263646546";

const WRONG: &str = "another-key-of-thirty-two-bytes!";

fn array(name: &str) -> PathBuf {
    golden::folder().join(name)
}

/// `text` must not hold a key or a good part of one, in any spelling.
pub fn keeps_secrets(what: &str, text: &str) -> Result<(), Failed> {
    let upper = HEX.to_uppercase();
    // As a list of numbers it would be the derived form of `Debug`.
    let numbers = "48, 49, 50, 51";
    let parts = [&KEY[..16], &WRONG[..12], &HEX[..16], &upper[..16], numbers];
    match parts.iter().find(|part| text.contains(**part)) {
        Some(part) => Err(format!("{what}: {part} is in: {text}").into()),
        None => Ok(()),
    }
}

trial!(keys_in_every_form);
async fn keys_in_every_form() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("key");
    let file = path.display().to_string();
    let place = array("encrypted_dense");
    for text in [KEY, HEX] {
        fs::write(&path, format!("{text}\n"))?;
        for option in [("encryption_key", text), ("encryption_key_file", &file)] {
            let rows = read(&place, &[option], ALL).await.map_err(Failed::from)?;
            assert_eq!(rows, 30, "{option:?}");
        }
        let key = EncryptionKey::from_text(text.as_bytes())?;
        let builder = TileDbTable::builder(place.display().to_string());
        builder.encryption_key(key).open().await?;
    }
    Ok(())
}

trial!(keys_that_do_not_fit);
async fn keys_that_do_not_fit() -> Result<(), Failed> {
    for name in ["encrypted_dense", "encrypted_sparse", "encrypted_evolved"] {
        let place = array(name);
        let words = [
            "no key was given",
            "tiledb.encryption_key_file",
            "__schema/",
            name,
        ];
        refused(name, read(&place, &[], ALL).await, &words)?;
        let outcome = read(&place, &[("encryption_key", WRONG)], ALL).await;
        keeps_secrets(name, outcome.as_ref().err().map_or("", String::as_str))?;
        refused(name, outcome, &["key does not fit", "__schema/", name])?;
    }
    let plain = array("quickstart_dense");
    let words = [
        "an encryption key was given",
        "not encrypted",
        "quickstart_dense",
    ];
    refused(
        "plain",
        read(&plain, &[("encryption_key", KEY)], ALL).await,
        &words,
    )?;

    let open = |key: &str| {
        let key = EncryptionKey::from_text(key.as_bytes()).expect("a key");
        let builder = TileDbTable::builder(array("encrypted_dense").display().to_string());
        builder.encryption_key(key).open()
    };
    let error = open(WRONG).await.expect_err("the key does not fit");
    assert_eq!(error.kind(), ErrorKind::Encryption);
    for (key, value, word) in [
        ("encryption_key", "hunter2", "32 bytes"),
        ("encryption_key", "", "32 bytes"),
        ("encryption_key_file", "/no/such/file", "/no/such/file"),
        ("encryption_key_env", "NO_SUCH_VARIABLE", "NO_SUCH_VARIABLE"),
        ("encryption_key_file", KEY, "not shown"),
        ("encryption_key_env", HEX, "not shown"),
    ] {
        let outcome = read(&plain, &[(key, value)], ALL).await;
        let message = outcome.as_ref().err().map_or("", String::as_str);
        keeps_secrets(key, message)?;
        assert!(!message.contains("hunter2"), "{message}");
        refused(key, outcome, &[word, key])?;
    }
    Ok(())
}

trial!(one_cache_for_all);
/// What one session decrypted is not there for another without the key.
async fn one_cache_for_all() -> Result<(), Failed> {
    let cache = Arc::new(MetadataCache::new(1 << 24));
    for name in [
        "encrypted_dense",
        "encrypted_sparse",
        "encrypted_enumerations",
    ] {
        let open = |key: Option<&str>| {
            let mut builder = TileDbTable::builder(array(name).display().to_string());
            if let Some(key) = key {
                let key = EncryptionKey::from_text(key.as_bytes()).expect("a key");
                builder = builder.encryption_key(key);
            }
            builder.cache(Arc::clone(&cache)).open()
        };
        let table = open(Some(KEY)).await?;
        let ctx = SessionContext::new();
        assert!(ctx.read_table(Arc::new(table))?.count().await? > 0);
        for key in [None, Some(WRONG)] {
            let error = open(key).await.expect_err("no key that fits");
            assert_eq!(error.kind(), ErrorKind::Encryption);
        }
        let hits = cache.stats().hits;
        open(Some(HEX)).await?;
        assert!(
            cache.stats().hits > hits,
            "the same key finds what is there"
        );
    }
    Ok(())
}

trial!(flipped_bits);
/// Any changed bit of an encrypted file is found, and is told as such.
async fn flipped_bits() -> Result<(), Failed> {
    for name in ["encrypted_dense", "encrypted_strings", "encrypted_stacked"] {
        let whole = Files::golden(name);
        let folder = tempfile::tempdir()?;
        let data = |path: &&String| path.ends_with(".tdb") || path.starts_with("__schema/");
        for (number, path) in whole.0.keys().filter(data).enumerate() {
            let mut files = whole.clone();
            let is_metadata = path.ends_with(METADATA_FILE);
            files.edit(path, |bytes| {
                // The flipped bit lies in the nonce of the first section, or at the end of the last cipher text.
                let at = if is_metadata { 100 } else { bytes.len() - 1 };
                bytes[at] ^= 1 << (number % 8);
            });
            // Stubs are in the clear, cells without bytes are not decrypted, and a dense array has no use for the
            // first section, the R-tree.
            let unread = whole.0[path].iter().all(|byte| *byte == 0)
                || name == "encrypted_strings" && path.ends_with("a2_var.tdb")
                || name != "encrypted_strings" && is_metadata;
            let place = folder.path().join(number.to_string());
            files.write(&place);
            let outcome = read(&place, &[("encryption_key", KEY)], ALL).await;
            let message = outcome.as_ref().err().cloned().unwrap_or_default();
            keeps_secrets(path, &message)?;
            if !unread {
                refused(path, outcome, &["key does not fit"])?;
            }
        }
    }
    Ok(())
}

trial!(nothing_shows_the_key);
async fn nothing_shows_the_key() -> Result<(), Failed> {
    let config = SessionConfig::new().with_information_schema(true);
    let ctx = SessionContext::new_with_config(config);
    datafusion_tiledb::register(&ctx)?;
    let place = array("encrypted_dense").display().to_string();
    let create = format!(
        "CREATE EXTERNAL TABLE secret STORED AS TILEDB LOCATION '{place}' OPTIONS ('tiledb.encryption_key' '{KEY}')"
    );
    ctx.sql(&create).await?.collect().await?;
    let log = Arc::new(RequestLog::new());
    let builder = TileDbTable::builder(place.as_str())
        .option("encryption_key", HEX)?
        .request_log(Arc::clone(&log));
    keeps_secrets("the builder", &format!("{builder:?} {builder:#?}"))?;
    let table = Arc::new(builder.open().await?);
    keeps_secrets("the table", &format!("{table:?} {table:#?}"))?;
    ctx.register_table("built", table)?;
    ctx.sql("CREATE VIEW shown AS SELECT s.a FROM secret s JOIN built b ON s.d = b.d")
        .await?
        .collect()
        .await?;
    for sql in [
        "EXPLAIN SELECT * FROM shown",
        "EXPLAIN VERBOSE SELECT * FROM secret WHERE a > 3",
        "EXPLAIN ANALYZE SELECT * FROM built",
        "EXPLAIN FORMAT PGJSON SELECT * FROM secret",
        "EXPLAIN FORMAT GRAPHVIZ SELECT * FROM secret",
        "SHOW ALL VERBOSE",
        "SHOW TABLES",
        "SHOW COLUMNS FROM secret",
        "SHOW CREATE TABLE secret",
        "SHOW CREATE TABLE shown",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM information_schema.views",
        "SELECT * FROM information_schema.columns",
        "SELECT * FROM information_schema.df_settings",
        "DESCRIBE secret",
    ] {
        let frame = ctx.sql(sql).await.map_err(|e| format!("{sql}: {e}"))?;
        let plan = format!("{:?} {}", frame.logical_plan(), frame.logical_plan());
        keeps_secrets(sql, &plan)?;
        let batches = frame.collect().await?;
        keeps_secrets(sql, &pretty_format_batches(&batches)?.to_string())?;
    }
    let physical = ctx
        .sql("SELECT * FROM secret, built")
        .await?
        .create_physical_plan()
        .await?;
    keeps_secrets("the physical plan", &format!("{physical:?}"))?;
    keeps_secrets(
        "the table options",
        &format!("{:?}", ctx.state().table_options()),
    )?;
    keeps_secrets("the request log", &format!("{:?}", log.entries()))?;
    assert!(!log.is_empty());

    for sql in [
        create.replace(KEY, WRONG).replace("secret", "other"),
        create.replace(KEY, &KEY[..31]).replace("secret", "other"),
        create.clone(),
        format!("SELECT * FROM '{place}?encryption_key={KEY}'"),
        format!("SELECT * FROM '{place}?tiledb.encryption_key={HEX}'"),
        format!("DESCRIBE '{place}?encryption_key={KEY}'"),
    ] {
        let error = match ctx.sql(&sql).await {
            Ok(frame) => frame
                .collect()
                .await
                .expect_err("not to be done")
                .to_string(),
            Err(error) => error.to_string(),
        };
        keeps_secrets("a failing statement", &error)?;
    }
    Ok(())
}

trial!(in_the_shell);
fn in_the_shell(place: &Place) -> Result<(), Failed> {
    let [array, plain] =
        ["encrypted_dense", "quickstart_dense"].map(|n| array(n).display().to_string());
    fs::write(place.0.join("key"), format!("{HEX}\n"))?;
    let count = format!("SELECT count(*) AS n FROM '{array}'");
    let with = |query: &str| format!("SELECT count(*) AS n FROM '{array}?{query}'");
    let run = |sql: &str, variables: &[(&str, &str)]| -> Result<Ran, Failed> {
        let mut command = place.command(&["-q", "--format", "csv", "-c", sql]);
        command.envs(variables.iter().copied());
        let ran = crate::support::shell_place::ran(command.output()?);
        keeps_secrets(sql, &ran.text())?;
        Ok(ran)
    };
    let session = [("TILEDB_ENCRYPTION_KEY", KEY)];
    run(&count, &session)?.gave("n\n30\n")?;
    run(&count, &[("TILEDB_ENCRYPTION_KEY", HEX)])?.gave("n\n30\n")?;
    // The key of the session is for what is encrypted.
    run(&format!("SELECT count(*) AS n FROM '{plain}'"), &session)?.gave("n\n16\n")?;
    run(&with("encryption_key_env=MY_KEY"), &[("MY_KEY", KEY)])?.gave("n\n30\n")?;
    run(&with("encryption_key_file=key"), &[])?.gave("n\n30\n")?;
    run(
        &with("encryption_key_file=key"),
        &[("TILEDB_ENCRYPTION_KEY", WRONG)],
    )?
    .gave("n\n30\n")?;
    let create = |option: &str| {
        format!(
            "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{array}' OPTIONS ({option}); SELECT count(*) AS n FROM t"
        )
    };
    run(&create(&format!("'tiledb.encryption_key' '{KEY}'")), &[])?.gave("n\n30\n")?;
    run(
        &create("'tiledb.encryption_key_env' 'MY_KEY'"),
        &[("MY_KEY", HEX)],
    )?
    .gave("n\n30\n")?;
    for (sql, variables, words) in [
        (
            &count,
            &[][..],
            ["no key was given", "TILEDB_ENCRYPTION_KEY"],
        ),
        (
            &count,
            &[("TILEDB_ENCRYPTION_KEY", WRONG)],
            ["key does not fit", "__schema/"],
        ),
        (
            &count,
            &[("TILEDB_ENCRYPTION_KEY", &KEY[..30])],
            ["TILEDB_ENCRYPTION_KEY", "32 bytes"],
        ),
        (
            &with(&format!("encryption_key={KEY}")),
            &[],
            ["cannot hold a key", "encryption_key_file"],
        ),
        (
            &create(&format!("'tiledb.encryption_key' '{WRONG}'")),
            &[],
            ["key does not fit", "__schema/"],
        ),
        (
            &create("'tiledb.encryption_key_env' 'MY_KEY'"),
            &[],
            ["MY_KEY", "not set"],
        ),
    ] {
        run(sql, variables)?.failed("", &words)?;
    }
    Ok(())
}

trial!(in_logs);
/// Everything the libraries log, at the level that shows most.
fn in_logs(place: &Place) -> Result<(), Failed> {
    let array = array("encrypted_dense").display().to_string();
    let query = "SELECT sum(a) FROM t WHERE z > 1; EXPLAIN VERBOSE SELECT * FROM t; SHOW ALL; SHOW CREATE TABLE t";
    for option in [
        format!("'tiledb.encryption_key' '{KEY}'"),
        "'tiledb.encryption_key_env' 'MY_KEY'".to_owned(),
    ] {
        let sql = format!(
            "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{array}' OPTIONS ({option}); {query}"
        );
        fs::write(place.0.join("script.sql"), &sql)?;
        for arguments in [["-c", &sql], ["-f", "script.sql"]] {
            let mut command = place.command(&arguments);
            command.env("RUST_LOG", "trace").env("MY_KEY", KEY);
            let ran = crate::support::shell_place::ran(command.output()?);
            assert_eq!(ran.status, Some(0), "{}", ran.text());
            keeps_secrets("the log", &ran.text())?;
        }
    }
    Ok(())
}
