//! Files that aren't TileDB's, such as those that file managers leave in every folder: nothing reads them, no change fails over
//! them, and `check` reports them.

use std::fs;
use std::path::{Path, PathBuf};

use datafusion::prelude::{SessionConfig, SessionContext};
use libtest_mimic::Failed;

use crate::support::array_files::Files;
use crate::support::{allocations, fixtures, neutral_rows};

/// The names of foreign files in a folder; `*` stands for the name of a file there.
const NAMES: [&str; 6] = [
    ".DS_Store",
    "._*",
    "Thumbs.db",
    "desktop.ini",
    "notes",
    "copy of *",
];

fn session() -> Result<SessionContext, Failed> {
    let config = SessionConfig::new();
    let context = SessionContext::new_with_config_rt(config, allocations::runtime());
    datafusion_tiledb::register(&context)?;
    Ok(context)
}

/// The rows that a statement returns about the folder `$`, sorted.
async fn rows(context: &SessionContext, folder: &Path, sql: &str) -> Result<Vec<String>, Failed> {
    let sql = sql.replace('$', &folder.display().to_string());
    let frame = datafusion_tiledb::execute(context, &sql).await;
    let batches = frame.map_err(|e| format!("{sql}: {e}"))?.collect().await;
    Ok(neutral_rows::rows(
        &batches.map_err(|e| format!("{sql}: {e}"))?,
    ))
}

/// A folder and all folders below it.
fn folders(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    let entries = fs::read_dir(root).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    for folder in paths.filter(|path| path.is_dir()) {
        found.extend(folders(&folder));
    }
    found
}

/// Puts a file into a folder, with the contents of a file that is there.
fn leave(folder: &Path, name: &str) -> PathBuf {
    let entries = fs::read_dir(folder).expect("a folder");
    let files = entries.map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = files.filter(|path| path.is_file()).collect();
    files.sort();
    // The last of several files: in the array's own folder, it isn't a lock.
    let last = files.pop();
    let of_file = last.as_ref().and_then(|path| path.file_name());
    let of_file = of_file.map_or("x".to_owned(), |name| name.to_string_lossy().into_owned());
    let contents = last.map_or_else(|| b"junk".to_vec(), |path| fs::read(path).expect("a file"));
    let left = folder.join(name.replace('*', &of_file));
    fs::write(&left, contents).expect("writable");
    left
}

/// The answers of queries and functions about an array.
const ASKED: [&str; 6] = [
    "SELECT * FROM '$'",
    "SELECT count(*) FROM '$'",
    "SELECT count(*) FROM tiledb_metadata('$')",
    "SELECT count(*) FROM tiledb_fragments('$')",
    "SELECT count(*) FROM tiledb_commits('$')",
    "SELECT count(*) FROM tiledb_schema('$')",
];

const CHECKED: &str = "SELECT severity, rule, object FROM tiledb_check('$')";

async fn asked(folder: &Path) -> Result<Vec<Vec<String>>, Failed> {
    let mut answers = Vec::new();
    for sql in ASKED {
        // Each question runs in a new session, which has cached nothing yet.
        answers.push(rows(&session()?, folder, sql).await?);
    }
    Ok(answers)
}

trial!(arrays);
/// Tries all names in all folders of arrays of all layouts, with labels, enumerations, deletes, metadata and consolidated
/// commits.
async fn arrays() -> Result<(), Failed> {
    for array in [
        "arrays/labels_on_datetime_as",
        "arrays/enum_extended",
        "arrays/delete_by_char",
        "arrays/everything_consolidated",
        "arrays/metadata_consolidated_kept",
        "arrays/old/v10_appended",
        "arrays/old/v05_appended",
    ] {
        let scratch = tempfile::tempdir()?;
        let folder = scratch.path().join("a");
        Files::of(&fixtures::root().join(array)).write(&folder);
        let expected = asked(&folder).await?;
        let findings = rows(&session()?, &folder, CHECKED).await?;
        let mut left = Vec::new();
        for place in folders(&folder) {
            for name in NAMES {
                left.push(leave(&place, name));
            }
        }
        let found = asked(&folder).await;
        let found = found.map_err(|e| format!("{array}: {}", e.message().unwrap_or("")))?;
        assert_eq!(found, expected, "{array}");
        let mut told = rows(&session()?, &folder, CHECKED).await?;
        told.retain(|finding| !findings.contains(finding));
        for path in &left {
            let path = path.display().to_string();
            let named = |finding: &&String| finding.contains(&format!("\"{path}\""));
            let of_file = told.iter().filter(named).collect::<Vec<_>>();
            let is_told =
                |f: &str| f.contains("\"foreign-file\"") || f.contains("\"unknown-file\"");
            let only = matches!(of_file.as_slice(), [one] if is_told(one));
            assert!(only, "{array}, {path}: {of_file:?}");
        }
        assert_eq!(told.len(), left.len(), "{array}: {told:?}");
    }
    Ok(())
}

trial!(groups);
/// Tries each name in the folders of a group.
async fn groups() -> Result<(), Failed> {
    let scratch = tempfile::tempdir()?;
    let folder = scratch.path().join("g");
    Files::of(&fixtures::root().join("groups/experiment")).write(&folder);
    let members = "SELECT path, type, found FROM tiledb_members('$')";
    let metadata = "SELECT count(*) FROM tiledb_metadata('$')";
    let expected = rows(&session()?, &folder, members).await?;
    assert!(!expected.is_empty());
    let expected_metadata = rows(&session()?, &folder, metadata).await?;
    for place in ["", "__group", "__meta"] {
        let place = folder.join(place);
        fs::create_dir_all(&place)?;
        for name in NAMES {
            let left = leave(&place, name);
            let shown = left.display().to_string();
            assert_eq!(
                rows(&session()?, &folder, members).await?,
                expected,
                "{shown}"
            );
            assert_eq!(
                rows(&session()?, &folder, metadata).await?,
                expected_metadata,
                "{shown}"
            );
            let told = rows(&session()?, &folder, CHECKED).await?;
            let errors = told.iter().filter(|finding| finding.contains("\"error\""));
            assert_eq!(errors.count(), 0, "{shown}: {told:?}");
            if place != folder {
                assert!(
                    told.iter().any(|f| f.contains("foreign-file")),
                    "{shown}: {told:?}"
                );
            }
            fs::remove_file(left)?;
        }
    }
    Ok(())
}

trial!(changes);
/// Runs all statements that change an array, with all names in all folders.
async fn changes() -> Result<(), Failed> {
    let scratch = tempfile::tempdir()?;
    let folder = scratch.path().join("a");
    let context = session()?;
    let run = async |sql: &str| rows(&session()?, &folder, sql).await;
    run("CREATE EXTERNAL TABLE t (x INT, v INT, e VARCHAR, PRIMARY KEY (x)) STORED AS TILEDB LOCATION '$' \
         OPTIONS ('tiledb.attr.e.enumeration' '[a, b]')")
        .await?;
    run("INSERT INTO '$' VALUES (1, 1, 'a'), (2, 2, 'b')").await?;
    let litter = |from: &Path| {
        for place in folders(from) {
            NAMES.iter().for_each(|name| drop(leave(&place, name)));
        }
    };
    litter(&folder);
    for sql in [
        "INSERT INTO '$' VALUES (3, 3, 'a')",
        "UPDATE '$' SET v = 20 WHERE x = 2",
        "DELETE FROM '$' WHERE x = 1",
        "SELECT * FROM tiledb_set_metadata('$', 'k', 'one')",
        "SELECT * FROM tiledb_set_metadata('$', 'k', 'two')",
        "SELECT * FROM tiledb_consolidate('$', mode => 'commits')",
        "SELECT * FROM tiledb_consolidate('$', mode => 'fragment_metadata')",
        "SELECT * FROM tiledb_consolidate('$', mode => 'array_metadata')",
        "SELECT * FROM tiledb_consolidate('$')",
        "SELECT * FROM tiledb_vacuum('$', min_age => '0 s')",
    ] {
        run(sql).await?;
        litter(&folder);
        assert_eq!(
            run("SELECT x, v, e FROM '$' WHERE x > 1 AND x < 3")
                .await?
                .len(),
            1,
            "{sql}"
        );
    }
    run("CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '$'").await?;
    rows(
        &context,
        &folder,
        "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '$'",
    )
    .await?;
    rows(&context, &folder, "ALTER TABLE t ADD COLUMN w INT").await?;
    litter(&folder);
    assert_eq!(
        run("SELECT x, v, e, w FROM '$'").await?,
        ["[2,20,\"b\",null]", "[3,3,\"a\",null]"]
    );
    assert_eq!(
        run("SELECT value FROM tiledb_metadata('$')").await?.len(),
        1
    );
    let errors = run(CHECKED).await?;
    let errors: Vec<_> = errors.iter().filter(|f| f.contains("\"error\"")).collect();
    assert!(errors.is_empty(), "{errors:?}");
    Ok(())
}
