//! Label arrays that no function of libtiledb writes: elsewhere, missing, broken, or not what the labelled array says.

use std::sync::Arc;

use datafusion::prelude::SessionContext;
use datafusion_tiledb::TileDbTable;
use libtest_mimic::Failed;

use super::{answer, expect, refused, rows};
use crate::support::array_files::{Files, contents, plain_tile};

/// What a label's entry says, to be changed.
#[derive(Debug, Clone)]
struct Entry {
    dimension: u32,
    name: String,
    relative: bool,
    uri: String,
    attribute: String,
    order: u8,
    datatype: u8,
    cell_val_num: u32,
    external: bool,
}

impl Entry {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = self.dimension.to_le_bytes().to_vec();
        bytes.extend((self.name.len() as u32).to_le_bytes());
        bytes.extend(self.name.as_bytes());
        bytes.push(self.relative.into());
        bytes.extend((self.uri.len() as u64).to_le_bytes());
        bytes.extend(self.uri.as_bytes());
        bytes.extend((self.attribute.len() as u32).to_le_bytes());
        bytes.extend(self.attribute.as_bytes());
        bytes.extend([self.order, self.datatype]);
        bytes.extend(self.cell_val_num.to_le_bytes());
        bytes.push(self.external.into());
        bytes
    }
}

/// `dimension_labels` with the entry of its label `depth` changed.
fn changed(change: impl FnOnce(&mut Entry)) -> Files {
    let mut entry = Entry {
        dimension: 0,
        name: "depth".into(),
        relative: true,
        uri: "__labels/l0".into(),
        attribute: "label".into(),
        order: 1,
        datatype: 3,
        cell_val_num: 1,
        external: false,
    };
    let old = entry.encode();
    change(&mut entry);
    let mut files = Files::golden("dimension_labels");
    let schema = files.find("__schema/__1000");
    files.edit(&schema, |tile| {
        let schema = contents(tile);
        let at = schema
            .windows(old.len())
            .position(|w| w == old)
            .expect("the entry is as libtiledb wrote it");
        let new = [&schema[..at], &entry.encode(), &schema[at + old.len()..]].concat();
        *tile = plain_tile(&new);
    });
    files
}

/// With another array's files in a folder of it.
fn with(mut files: Files, folder: &str, other: &Files) -> Files {
    for (path, bytes) in &other.0 {
        files.0.insert(format!("{folder}/{path}"), bytes.clone());
    }
    files
}

/// The labels of `dimension_labels`, moved away.
fn moved(files: &mut Files) -> Files {
    let mut labels = Files::golden("dimension_labels");
    labels.0 = files
        .0
        .iter()
        .filter_map(|(p, b)| Some((p.strip_prefix("__labels/l0/")?.to_owned(), b.clone())))
        .collect();
    files.0.retain(|path, _| !path.starts_with("__labels/l0/"));
    labels
}

const DEPTHS: &str = "SELECT d, depth, rank FROM t WHERE depth BETWEEN 1 AND 2 ORDER BY d";

const WANTED: [&str; 3] = ["3 1.0 8", "4 1.5 7", "5 2.0 6"];

trial!(elsewhere);
/// Below the array, beside it, or anywhere else; in whatever order the entry promises.
async fn elsewhere() -> Result<(), Failed> {
    let wanted = WANTED.map(str::to_owned).to_vec();
    for order in 0..=2 {
        let files = changed(|e| e.order = order);
        expect("an order", answer(&files, DEPTHS).await?, wanted.clone())?;
    }
    for uri in [
        "memory:///array/__labels/l0",
        "memory:///array/x/../__labels/l0",
    ] {
        let files = changed(|e| (e.relative, e.uri, e.external) = (false, uri.into(), true));
        expect(uri, answer(&files, DEPTHS).await?, wanted.clone())?;
    }
    let folder = tempfile::tempdir()?;
    let place = folder.path().display().to_string();
    for (relative, uri) in [
        (true, "../other/labels".to_owned()),
        (true, "./../other/labels/".to_owned()),
        (false, format!("{place}/other/labels")),
        (false, format!("file://{place}/other/labels")),
    ] {
        let mut files =
            changed(|e| (e.relative, e.uri, e.external) = (relative, uri.clone(), true));
        moved(&mut files).write(&folder.path().join("other/labels"));
        let array = folder.path().join(format!("array_{}", uri.len()));
        files.write(&array);
        for (external, words) in [
            (None, Some("lies outside")),
            (Some("none"), Some("lies outside")),
            (Some("same_store"), None),
            (Some(place.as_str()), None),
            (Some("/elsewhere"), Some("lies outside")),
        ] {
            let ctx = SessionContext::new();
            let mut table = TileDbTable::builder(array.display().to_string());
            if let Some(external) = external {
                table = table.option("external_members", external)?;
            }
            ctx.register_table("t", Arc::new(table.open().await?))?;
            match words {
                None => expect(&uri, rows(&ctx, DEPTHS).await?, wanted.clone())?,
                Some(words) => {
                    let refused = rows(&ctx, DEPTHS).await;
                    refused_because(&uri, refused, words)?;
                }
            }
        }
    }
    Ok(())
}

fn refused_because(
    what: &str,
    outcome: Result<Vec<String>, String>,
    words: &str,
) -> Result<(), Failed> {
    refused(what, outcome, &[words, "label depth", "external_members"])
}

trial!(nullable_and_codes);
/// An array of the user's may hold NULLs, or codes of an enumeration, which a label shows as they are.
async fn nullable_and_codes() -> Result<(), Failed> {
    let nullable = Files::golden("dense_nullable_fixed");
    let files = changed(|e| {
        (e.uri, e.attribute, e.external) = ("shared".into(), "f".into(), true);
    });
    let files = with(files, "shared", &nullable);
    // By the golden answer its cells are y/3, but NULL at 3 and from 10 to 19.
    let found = answer(&files, "SELECT d, depth FROM t WHERE d >= 9 ORDER BY d").await?;
    expect(
        "rows",
        found,
        vec!["9 3.0".to_owned(), "10 NULL".to_owned()],
    )?;
    let found = answer(&files, "SELECT d FROM t WHERE depth IS NULL").await?;
    expect("NULL", found, vec!["3".to_owned(), "10".to_owned()])?;
    let found = answer(&files, "SELECT count(*) FROM t WHERE depth > 0").await?;
    expect("not NULL", found, vec!["8".to_owned()])?;
    // Labels made with the array cannot be NULL.
    let files = changed(|e| (e.uri, e.attribute) = ("shared".into(), "f".into()));
    let outcome = answer(&with(files, "shared", &nullable), "SELECT depth FROM t").await;
    refused("a nullable label", outcome, &["depth", "may be NULL"])?;

    let codes = Files::golden("enum_dense");
    let files = changed(|e| {
        (e.uri, e.attribute, e.external) = ("shared".into(), "c".into(), true);
        e.datatype = 6;
    });
    let files = with(files, "shared", &codes);
    let found = answer(&files, "SELECT arrow_typeof(depth) FROM t LIMIT 1").await?;
    expect("type", found, vec!["UInt8".to_owned()])?;
    answer(&files, "SELECT * FROM t WHERE depth < 3").await?;
    Ok(())
}

trial!(missing);
/// Without the array of one label, everything but that label is there.
async fn missing() -> Result<(), Failed> {
    let mut files = Files::golden("dimension_labels");
    moved(&mut files);
    let found = answer(&files, "SELECT d, a, rank FROM t WHERE rank > 8 ORDER BY d").await?;
    expect("rows", found, vec!["1 0 10".to_owned(), "2 1 9".to_owned()])?;
    let found = answer(&files, "SELECT count(*) FROM t").await?;
    expect("count", found, vec!["10".to_owned()])?;
    for sql in [
        "SELECT * FROM t",
        "SELECT depth FROM t",
        "SELECT a FROM t WHERE depth > 0",
        "SELECT a FROM t WHERE depth > a",
    ] {
        refused(
            sql,
            answer(&files, sql).await,
            &["label depth", "__labels/l0", "EXCEPT (\"depth\")"],
        )?;
    }
    Ok(())
}

trial!(not_what_was_said);
/// A label array that is not what the labelled array says is an error of its label alone.
async fn not_what_was_said() -> Result<(), Failed> {
    let sparse = Files::golden("quickstart_sparse");
    let grid = Files::golden("dense_global_write");
    let dates = Files::golden("labels_on_datetime_day");
    let itself: fn(&mut Entry) = |e| e.uri = ".".into();
    let shared: fn(&mut Entry) = |e| e.uri = "shared".into();
    let cases: Vec<(&str, Files, &[&str])> = vec![
        (
            "the array itself",
            changed(itself),
            &["no attribute", "label"],
        ),
        (
            "a sparse array",
            with(changed(shared), "shared", &sparse),
            &["sparse"],
        ),
        (
            "a grid",
            with(changed(shared), "shared", &grid),
            &["2 dimensions"],
        ),
        (
            "another index",
            with(changed(shared), "shared", &dates),
            &["DATETIME_DAY", "INT32"],
        ),
        (
            "another attribute",
            changed(|e| e.attribute = "x".into()),
            &["no attribute", "x"],
        ),
        (
            "another type",
            changed(|e| e.datatype = 2),
            &["FLOAT32", "FLOAT64"],
        ),
        (
            "nothing",
            changed(|e| e.uri = "nowhere".into()),
            &["nowhere"],
        ),
        (
            "a store nobody knows",
            changed(|e| (e.relative, e.uri) = (false, "s3://bucket/labels".into())),
            &["s3://bucket"],
        ),
    ];
    for (what, files, words) in cases {
        expect(
            what,
            answer(&files, "SELECT a, rank FROM t").await?.len(),
            10,
        )?;
        let words = [words, &["label depth"]].concat();
        refused(what, answer(&files, "SELECT depth FROM t").await, &words)?;
        refused(
            what,
            answer(&files, "SELECT a FROM t WHERE depth > 1").await,
            &words,
        )?;
    }
    let files = changed(|e| e.cell_val_num = 2);
    let outcome = answer(&files, "SELECT depth FROM t").await;
    refused("another shape", outcome, &["FLOAT64", "label depth"])?;
    not_what_the_schema_says().await
}

async fn not_what_the_schema_says() -> Result<(), Failed> {
    // What the schema says of the label alone costs no other column, and is told with the way to do without.
    for (what, files, word) in [
        (
            "no such dimension",
            changed(|e| e.dimension = 7),
            "dimension 7",
        ),
        (
            "no such type",
            changed(|e| e.datatype = 99),
            "datatype code is 99",
        ),
        (
            "no values",
            changed(|e| e.cell_val_num = 0),
            "expected at least 1",
        ),
    ] {
        let others = answer(&files, "SELECT * EXCEPT (depth) FROM t").await?;
        expect(what, others.len(), 10)?;
        let words = [word, "label depth", "EXCEPT (\"depth\")"];
        for sql in ["SELECT * FROM t", "SELECT a FROM t WHERE depth IS NULL"] {
            refused(what, answer(&files, sql).await, &words)?;
        }
    }
    // What makes the schema itself wrong is an error of the array.
    for (what, files, word) in [
        (
            "a name twice",
            changed(|e| e.name = "a".into()),
            "two fields",
        ),
        ("no such order", changed(|e| e.order = 9), "data order"),
    ] {
        refused(what, answer(&files, "SELECT a FROM t").await, &[word])?;
    }
    Ok(())
}

trial!(damaged);
/// Damage to a label array never panics, and never touches the other columns.
async fn damaged() -> Result<(), Failed> {
    let whole = Files::golden("dimension_labels");
    for path in whole.find_all("__labels/l0/") {
        let bytes = whole.0[&path].clone();
        for cut in [0, 1, bytes.len() / 2, bytes.len().saturating_sub(1)] {
            let mut files = whole.clone();
            files.edit(&path, |bytes| bytes.truncate(cut));
            expect(
                &path,
                answer(&files, "SELECT a, rank FROM t").await?.len(),
                10,
            )?;
            if !path.ends_with(".wrt") {
                let outcome = answer(&files, "SELECT a FROM t WHERE depth > 1").await;
                refused(&format!("{path} cut at {cut}"), outcome, &["depth"])?;
                let outcome = answer(&files, "SELECT depth FROM t").await;
                refused(&format!("{path} cut at {cut}"), outcome, &[])?;
            }
        }
        for byte in (0..bytes.len()).step_by(7) {
            let mut files = whole.clone();
            files.edit(&path, |bytes| bytes[byte] ^= 1 << (byte % 8));
            expect(
                &path,
                answer(&files, "SELECT a, rank FROM t").await?.len(),
                10,
            )?;
            let _ = answer(&files, "SELECT depth FROM t WHERE depth > 1").await;
        }
    }
    Ok(())
}
