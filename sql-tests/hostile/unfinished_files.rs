//! Files that another program is still writing. libtiledb writes the files of an array in place, so a reader may find one of them
//! empty or cut short: the reader waits, and reads what the file holds in the end.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::Duration;

use datafusion::prelude::SessionContext;
use libtest_mimic::Failed;

use crate::support::array_files::Files;
use crate::support::{fixtures, neutral_rows};

/// How long the other program takes.
const UNFINISHED: Duration = Duration::from_millis(20);

/// The rows of a query in a new session, which has cached nothing.
async fn rows(folder: &Path, sql: &str) -> Result<Vec<String>, Failed> {
    let context = SessionContext::new();
    datafusion_tiledb::register(&context)?;
    let sql = sql.replace('$', &folder.display().to_string());
    let batches = context.sql(&sql).await?.collect().await?;
    Ok(neutral_rows::rows(&batches))
}

/// Whether libtiledb writes a file while others may look at it: before a fragment is committed, nobody looks at its files.
fn is_seen_early(path: &str) -> bool {
    let in_folder = |folder: &str| {
        let below = path.strip_prefix(folder);
        below.is_some_and(|name| !name.contains('/'))
    };
    // Without a list of what is replaced, readers see that, too.
    if path.ends_with(".vac") {
        return false;
    }
    let is_commit = in_folder("__commits/") && (path.ends_with(".del") || path.ends_with(".con"));
    in_folder("__schema/") || in_folder("__meta/") || in_folder("__group/") || is_commit
}

/// Reads a folder while each of its files is cut short for a while, at its start, its middle and before its end.
async fn read_unfinished(fixture: &str, queries: &[&str]) -> Result<usize, Failed> {
    let scratch = tempfile::tempdir()?;
    let folder = scratch.path().join("a");
    let files = Files::of(&fixtures::root().join(fixture));
    files.write(&folder);
    let mut expected = Vec::new();
    for sql in queries {
        expected.push(rows(&folder, sql).await?);
    }
    let mut tried = 0;
    for (path, bytes) in files.0.iter().filter(|(path, _)| is_seen_early(path)) {
        let counts = [0, bytes.len() / 2, bytes.len().saturating_sub(1)];
        // The start of a list of commits is a list, too. What is missing then has its own commit file until the list is complete.
        let first = if path.ends_with(".con") { 2 } else { 0 };
        for count in counts.into_iter().skip(first) {
            for (sql, expected) in queries.iter().zip(&expected) {
                let file = folder.join(path);
                let (start, rest) = bytes.split_at(count);
                fs::write(&file, start)?;
                // Appends, because rewriting the file empties it for a moment, and an empty list of commits is a valid list.
                let mut file = OpenOptions::new().append(true).open(&file)?;
                let rest = rest.to_vec();
                let writer = thread::spawn(move || {
                    thread::sleep(UNFINISHED);
                    file.write_all(&rest)
                });
                let found = rows(&folder, sql).await;
                writer.join().expect("the writer ends")?;
                let found = found.map_err(|e| {
                    let error = e.message().unwrap_or_default();
                    format!("{fixture}/{path}, {count} bytes, {sql}: {error}")
                })?;
                assert_eq!(&found, expected, "{fixture}/{path}, {count} bytes, {sql}");
                tried += 1;
            }
        }
    }
    Ok(tried)
}

trial!(arrays);
async fn arrays() -> Result<(), Failed> {
    let mut tried = 0;
    for array in [
        "arrays/enum_extended",
        "arrays/delete_by_char",
        "arrays/everything_consolidated",
        "arrays/metadata_consolidated_kept",
    ] {
        let queries = ["SELECT * FROM '$'", "SELECT * FROM tiledb_metadata('$')"];
        tried += read_unfinished(array, &queries).await?;
    }
    assert!(tried > 20, "only {tried} unfinished files");
    Ok(())
}

trial!(groups);
async fn groups() -> Result<(), Failed> {
    let queries = [
        "SELECT path, type, found FROM tiledb_members('$')",
        "SELECT * FROM tiledb_metadata('$')",
    ];
    let tried = read_unfinished("groups/experiment", &queries).await?;
    assert!(tried > 5, "only {tried} unfinished files");
    Ok(())
}
