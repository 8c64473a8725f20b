//! Files and tiles that lie unencrypted in an encrypted array: they are refused, or show nothing.

use std::fs;
use std::sync::Arc;

use datafusion::prelude::SessionContext;
use datafusion_tiledb::{
    Array, EncryptionKey, GroupEdit, MetadataEdit, TileDbGroup, TileDbTable, create_group,
};
use libtest_mimic::Failed;
use tiledb_engine::format::datatype::Datatype;
use tiledb_engine::format::enumeration::Enumeration;
use tiledb_engine::format::filter_list::{Filter, FilterList, FilterSetting};
use tiledb_engine::format::schema::ArraySchema;
use tiledb_engine::storage::Location;

use super::KEY;
use crate::support::array_files::{Files, METADATA_FILE, contents_with, plain_tile};
use crate::support::refusals::{ALL, read, refused};

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

pub fn key() -> Arc<EncryptionKey> {
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
    let array = Array::open(builder.option("encryption_key", KEY)?.storage()?).await?;
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

/// Makes the files of an array whose schema was edited.
type EditedFiles<'a> = &'a dyn Fn(&dyn Fn(&mut ArraySchema)) -> Files;

trial!(plain_schemas);
/// What libtiledb leaves plain when it evolves an encrypted array: its new schema, and enumerations that are new there.
/// libtiledb itself does not read them again. They can do what an evolution can do, and nothing else.
async fn plain_schemas() -> Result<(), Failed> {
    let files = Files::golden("encrypted_enumerations");
    let rows = read_locked(&files, ALL).await?;
    let path = files
        .0
        .keys()
        .find(|path| path.starts_with("__schema/__") && !path.contains("__enumerations"))
        .expect("a schema")
        .clone();
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
    changed_schemas(&with).await
}

/// Schemas that change more than what is new.
async fn changed_schemas(with: EditedFiles<'_>) -> Result<(), Failed> {
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
                settings: vec![FilterSetting::None],
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
/// A group whose files are encrypted lists no member, and has no metadata, that another writer put there.
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
            let group = TileDbGroup::builder(place)
                .option("encryption_key", KEY)
                .map_err(|e| e.to_string())?;
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
