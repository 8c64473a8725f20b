//! Encrypted arrays: what a key opens, and that it is nowhere to be seen.
//!
//! A wrong key, none, or one too many is one clear error. The key must not appear in errors, plans, settings, table
//! definitions, debug output, the request log, the shell's history, or the logs at their most talkative.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tiledb::{
    EncryptionKey, ErrorKind, GroupEdit, MetadataEdit, TileDbGroup, TileDbTable, create_group,
};
use libtest_mimic::Failed;
use tiledb_engine::format::datatype::Datatype;
use tiledb_engine::format::enumeration::Enumeration;
use tiledb_engine::format::filter_list::{Filter, FilterList, Setting};
use tiledb_engine::format::schema::ArraySchema;
use tiledb_engine::storage::{Location, MetadataCache, RequestLog};

use crate::hostile::bad_input::{ALL, read, refused};
use crate::shell::program::{Place, Ran};
use crate::support::array_files::{Files, METADATA_FILE, contents_with, plain_tile};
use crate::support::golden;

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
                // Of the first section the nonce; of other files the end of the last cipher text.
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

trial!(plain_tiles);
/// A data tile in the clear is not taken for an encrypted one, and an encrypted one is not read without its key.
async fn plain_tiles() -> Result<(), Failed> {
    let mut files = Files::golden("encrypted_dense");
    let tile = files.find("a0.tdb");
    files.edit(&tile, |bytes| {
        let cells: Vec<u8> = (0..8_i32).flat_map(i32::to_le_bytes).collect();
        let sizes = [32_u32, 32, 44].map(u32::to_le_bytes).concat();
        let tile = [&1_u64.to_le_bytes()[..], &sizes, &[0; 44], &cells].concat();
        bytes[..tile.len()].copy_from_slice(&tile);
    });
    let folder = tempfile::tempdir()?;
    files.write(folder.path());
    let sql = "SELECT a FROM t WHERE d < 8";
    let outcome = read(folder.path(), &[("encryption_key", KEY)], sql).await;
    refused("a plain tile", outcome, &["attribute a"])
}

fn key() -> Arc<EncryptionKey> {
    Arc::new(EncryptionKey::from_text(KEY.as_bytes()).expect("a key"))
}

/// What an encrypted tile holds, as anybody can store it.
fn unlocked(tile: &[u8]) -> Vec<u8> {
    plain_tile(&contents_with(tile, Some(&key())))
}

/// Reads the files with the key.
async fn read_locked(files: &Files, sql: &str) -> Result<usize, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    files.write(folder.path());
    read(folder.path(), &[("encryption_key", KEY)], sql).await
}

trial!(plain_files);
/// Who can write to the folder but does not know the key cannot make anything pass for the owner's: libtiledb 2.30
/// refuses each of these files, too ("tile is encrypted with NO_ENCRYPTION but given key is for AES_256_GCM").
async fn plain_files() -> Result<(), Failed> {
    let words = |what: &'static str, path: &str| {
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        [what.to_owned(), "is not encrypted".to_owned(), name]
    };
    let check = |what: &'static str, path: &str, outcome: Result<usize, String>| {
        let words = words(what, path);
        refused(path, outcome, &words.each_ref().map(String::as_str))
    };
    // A delete, in a file of its own and among consolidated commits; and an update.
    let files = Files::golden("encrypted_deletes");
    assert_eq!(read_locked(&files, ALL).await?, 8);
    let path = files.find(".del");
    let mut forged = files.clone();
    forged.edit(&path, |tile| *tile = unlocked(tile));
    check("delete condition", &path, read_locked(&forged, ALL).await)?;
    let mut forged = files.clone();
    let tile = unlocked(&files.0[&path]);
    let update = path.replace(".del", ".upd");
    forged.0.remove(&path);
    forged.0.insert(update.clone(), tile);
    check("update condition", &update, read_locked(&forged, ALL).await)?;
    let path = files.find(".con");
    let mut forged = files.clone();
    forged.edit(&path, |list| {
        let at = list
            .windows(5)
            .position(|w| w == b".del\n")
            .expect("a delete")
            + 5;
        let (size, tile) = list[at..].split_at(8);
        let end = u64::from_le_bytes(size.try_into().expect("eight bytes")) as usize;
        let plain = unlocked(&tile[..end]);
        let size = (plain.len() as u64).to_le_bytes();
        *list = [&list[..at], &size, &plain, &tile[end..]].concat();
    });
    check("delete condition", &path, read_locked(&forged, ALL).await)?;

    // The metadata of a fragment: no section is believed, whichever is read first.
    for (name, sql) in [
        ("encrypted_sparse", "SELECT * FROM t WHERE x > 3"),
        ("encrypted_sparse", "SELECT max(a) FROM t"),
        ("encrypted_dense", "SELECT max(z) FROM t"),
        ("encrypted_dense", "SELECT a FROM t WHERE d = 7"),
        ("delete_encrypted", ALL),
    ] {
        let files = Files::golden(name);
        let rows = read_locked(&files, sql).await?;
        assert!(rows > 0, "{name}: {sql}");
        let mut forged = files.clone();
        for path in files.find_all(METADATA_FILE) {
            forged.edit(&path, |file| *file = plain_fragment(&files, file));
        }
        check("", METADATA_FILE, read_locked(&forged, sql).await)?;
    }

    // Copies of footers, and the metadata of the array.
    let files = Files::golden("encrypted_commits");
    let path = files.find("__fragment_meta/");
    let mut forged = files.clone();
    forged.edit(&path, |tile| *tile = unlocked(tile));
    let what = "consolidated fragment metadata";
    check(what, &path, read_locked(&forged, ALL).await)?;
    let path = files.find("__meta/");
    let mut forged = files.clone();
    forged.edit(&path, |tile| *tile = unlocked(tile));
    let folder = tempfile::tempdir()?;
    forged.write(folder.path());
    let builder = TileDbTable::builder(folder.path().display().to_string());
    let array = builder.option("encryption_key", KEY)?.open_array().await?;
    let outcome = array.metadata().await;
    check(
        "metadata",
        &path,
        outcome.map(|m| m.len()).map_err(|e| e.to_string()),
    )
}

/// The plain form of a fragment's metadata.
fn plain_fragment(files: &Files, file: &[u8]) -> Vec<u8> {
    files.plain_metadata(file, Some(&key()))
}

trial!(plain_schemas);
/// What libtiledb leaves plain when it evolves an encrypted array: its new schema, and enumerations that are new there.
/// libtiledb itself does not read them again. They can do what an evolution can do, and nothing else.
async fn plain_schemas() -> Result<(), Failed> {
    let files = Files::golden("encrypted_enumerations");
    let rows = read_locked(&files, ALL).await?;
    let path = files
        .0
        .keys()
        .find(|path| path.starts_with("__schema/__") && !path.contains("__enumerations"));
    let path = path.expect("a schema").clone();
    let known = contents_with(&files.0[&path], Some(&key()));
    let later = path.replace("__1000_1000_", "__5000_5000_");
    assert_ne!(path, later);
    let with = |edit: &dyn Fn(&mut ArraySchema)| {
        let mut schema = ArraySchema::decode(&known).expect("a schema");
        edit(&mut schema);
        let mut files = files.clone();
        let tile = plain_tile(&schema.encode().expect("small"));
        files.0.insert(later.clone(), tile);
        files
    };
    assert_eq!(read_locked(&with(&|_| ()), ALL).await?, rows);
    let dropped = with(&|schema| schema.attributes.truncate(1));
    assert_eq!(read_locked(&dropped, "SELECT c FROM t").await?, rows);
    // An enumeration that is new, or has more values, is in a file of its own.
    let colours = |schema: &ArraySchema| {
        let found = schema.enumerations.iter().position(|e| e.name == "colours");
        found.expect("colours")
    };
    let first = ArraySchema::decode(&known)?;
    let first = &first.enumerations[colours(&first)].file;
    let old = format!("__schema/__enumerations/{first}");
    let values = Enumeration::decode(&contents_with(&files.0[&old], Some(&key())))?;
    let renamed = |values: &[u8], offsets: &[u64]| {
        let mut files = with(&|schema| {
            let at = colours(schema);
            schema.enumerations[at].file = first.replace('_', "0");
        });
        let new = Enumeration {
            file: first.replace('_', "0"),
            data: values.to_vec(),
            offsets: Some(offsets.to_vec()),
            ..values_of(&files, &old)
        };
        let tile = plain_tile(&new.encode().expect("small"));
        files
            .0
            .insert(format!("__schema/__enumerations/{}", new.file), tile);
        files
    };
    let offsets = values.offsets.clone().expect("text");
    let more = [&values.data[..], b"mauve"].concat();
    let ends = [&offsets[..], &[values.data.len() as u64]].concat();
    assert_eq!(read_locked(&renamed(&more, &ends), ALL).await?, rows);
    let mut others = values.data.clone();
    others[..3].copy_from_slice(b"RED");
    let forged = read_locked(&renamed(&others, &offsets), ALL).await;
    refused("values", forged, &["has other values", "colours"])?;
    let mut forged = files.clone();
    forged.edit(&old, |tile| *tile = unlocked(tile));
    let words = ["the enumeration is not encrypted", "colours"];
    refused("enumeration", read_locked(&forged, ALL).await, &words)?;

    type Edit<'a> = (&'a str, &'a dyn Fn(&mut ArraySchema));
    let edits: [Edit<'_>; 6] = [
        ("other dimensions", &|s| s.dimensions[0].name = "e".into()),
        ("order, capacity", &|s| s.capacity = 7),
        ("order, capacity", &|s| s.allows_duplicates = true),
        ("order, capacity", &|s| {
            s.offsets_filters = FilterList::default()
        }),
        ("changes the attribute \"c\"", &|s| {
            s.attributes[0].datatype = Datatype::Int8;
        }),
        ("adds the attribute \"n\" with the filter bitsort", &|s| {
            let mut new = s.attributes[1].clone();
            new.name = "n".into();
            new.enumeration = None;
            new.filters = FilterList {
                filters: vec![Filter::Bitsort],
                settings: vec![Setting::None],
                ..FilterList::default()
            };
            s.attributes.push(new);
        }),
    ];
    for (words, edit) in edits {
        let forged = read_locked(&with(edit), ALL).await;
        refused(words, forged, &["not encrypted", words, "__5000_5000_"])?;
    }
    Ok(())
}

fn values_of(files: &Files, path: &str) -> Enumeration {
    Enumeration::decode(&contents_with(&files.0[path], Some(&key()))).expect("an enumeration")
}

trial!(plain_groups);
/// A group whose files are encrypted lists no member, and has no metadata, that somebody else put there.
async fn plain_groups() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let group = folder.path().join("g");
    let at = || Location::local(&group.display().to_string());
    create_group(at()?).await?;
    Files::golden("encrypted_dense").write(&group.join("a"));
    GroupEdit::new()
        .add_path("a", Some("a"))
        .encryption_key(Some(key()))
        .apply(at()?)
        .await?;
    MetadataEdit::new()
        .set("k", 1_i32)?
        .encryption_key(Some(key()))
        .apply(at()?)
        .await?;
    let files = Files::of(&group);
    let open = |files: &Files| {
        let place = folder.path().join("forged");
        let _ = fs::remove_dir_all(&place);
        files.write(&place);
        let place = place.display().to_string();
        async move {
            let ctx = SessionContext::new();
            datafusion_tiledb::register(&ctx).map_err(|e| e.to_string())?;
            let group = TileDbGroup::builder(place).option("encryption_key", KEY);
            let group = group.map_err(|e| e.to_string())?;
            group.attach(&ctx, "g").await.map_err(|e| e.to_string())?;
            let frame = ctx.sql("SELECT * FROM g.public.a").await;
            let rows = frame.map_err(|e| e.to_string())?.count().await;
            rows.map_err(|e| e.to_string())
        }
    };
    assert_eq!(open(&files).await?, 30);
    let listed = files.find("__group/__");
    let mut forged = files.clone();
    let details = contents_with(&files.0[&listed], Some(&key()));
    let later = "__group/__2_2_0123456789abcdef0123456789abcdef_2".to_owned();
    forged.0.insert(later, plain_tile(&details));
    let words = ["the group details is not encrypted", "__group/__"];
    refused("members", open(&forged).await, &words)?;
    let path = files.find("__meta/__");
    let mut forged = files.clone();
    forged.edit(&path, |tile| *tile = unlocked(tile));
    let place = folder.path().join("metadata");
    forged.write(&place);
    let place = place.display().to_string();
    let ctx = SessionContext::new();
    datafusion_tiledb::register(&ctx)?;
    let sql = format!("SELECT * FROM tiledb_metadata('{place}', 'encryption_key_file', '$')");
    fs::write(folder.path().join("key"), KEY)?;
    let sql = sql.replace('$', &folder.path().join("key").display().to_string());
    let outcome = match ctx.sql(&sql).await {
        Ok(frame) => frame.count().await.map_err(|e| e.to_string()),
        Err(e) => Err(e.to_string()),
    };
    refused(
        "metadata",
        outcome,
        &["the metadata is not encrypted", "__meta/__"],
    )
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
    let builder = TileDbTable::builder(place.as_str()).option("encryption_key", HEX)?;
    let builder = builder.request_log(Arc::clone(&log));
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
    let physical = ctx.sql("SELECT * FROM secret, built").await?;
    let physical = physical.create_physical_plan().await?;
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
        let ran = crate::shell::program::ran(command.output()?);
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
            let ran = crate::shell::program::ran(command.output()?);
            assert_eq!(ran.status, Some(0), "{}", ran.text());
            keeps_secrets("the log", &ran.text())?;
        }
    }
    Ok(())
}
