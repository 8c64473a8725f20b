//! Delete conditions that are damaged, senseless, or of no concern to the query.

use libtest_mimic::Failed;

use crate::support::array_files::{Files, plain_tile};
use crate::support::refusals::{ALL, read_files, refused};

/// A comparison as it is stored.
fn leaf(operator: u8, field: &str, value: &[u8]) -> Vec<u8> {
    let name = u32::try_from(field.len()).expect("short").to_le_bytes();
    let size = (value.len() as u64).to_le_bytes();
    [&[1, operator], &name[..], field.as_bytes(), &size, value].concat()
}

/// A combination as it is stored, said to have `count` children.
fn inner(combination: u8, count: u64, children: &[u8]) -> Vec<u8> {
    [&[0, combination], &count.to_le_bytes()[..], children].concat()
}

const ONE: [u8; 4] = 1_i32.to_le_bytes();

/// Files of `delete_simple`, its delete replaced.
fn with_delete(tile: Vec<u8>) -> Files {
    let mut files = Files::golden("delete_simple");
    let path = files.find(".del");
    files.edit(&path, |file| *file = tile);
    files
}

trial!(damaged);
async fn damaged() -> Result<(), Failed> {
    let whole = Files::golden("delete_simple");
    let file = whole.0[&whole.find(".del")].clone();
    for len in [0, 3, 33, 34, 60, file.len() - 1] {
        let files = with_delete(file[..len].to_vec());
        let words = ["__commits/__2000_2000_", ".del", "delete"];
        refused(
            &format!("{len} bytes"),
            read_files(&files, ALL).await,
            &words,
        )?;
    }
    let two = [leaf(4, "a", &ONE), leaf(4, "a", &ONE)].concat();
    let many_starts = [&leaf(6, "a", &ONE)[..], &[0xf8; 8]].concat();
    for (tree, word) in [
        (Vec::new(), "type of a node"),
        (vec![7], "type of a node"),
        (leaf(9, "a", &ONE), "operator"),
        (leaf(6, "a", &ONE), "members' starts"),
        (many_starts, "members' starts"),
        (inner(2, 2, &two), "NOT"),
        (inner(5, 2, &two), "combination"),
        (inner(0, 1, &two), "number of children"),
        (inner(1, u64::MAX, &two), "number of children"),
        (inner(1, 3, &two), "truncated"),
        ([&leaf(4, "a", &ONE)[..], &[0]].concat(), "after the end"),
    ] {
        let files = with_delete(plain_tile(&tree));
        let words = ["__commits/__2000_2000_", ".del", word];
        refused(word, read_files(&files, ALL).await, &words)?;
    }
    // Each is an AND of a comparison and the next; the last is whole.
    let deep = [inner(0, 2, &leaf(4, "a", &ONE)).repeat(5000), two].concat();
    let files = with_delete(plain_tile(&deep));
    refused("depth", read_files(&files, ALL).await, &["levels deep"])
}

trial!(senseless);
/// Conditions that can be read but make no sense for this array.
async fn senseless() -> Result<(), Failed> {
    for (tree, word) in [
        (leaf(4, "nope", &ONE), "\"nope\""),
        (leaf(4, "a", &[1, 2]), "value of 2 bytes"),
        // What libtiledb stores for IS NULL.
        (leaf(5, "a", &[]), "NULL"),
        (
            [&leaf(6, "a", &[1; 8])[..], &8_u64.to_le_bytes(), &[0; 8]].concat(),
            "value of 8 bytes",
        ),
    ] {
        let files = with_delete(plain_tile(&tree));
        let words = ["__2000_2000_", "delete", word];
        refused(word, read_files(&files, ALL).await, &words)?;
    }
    Ok(())
}

trial!(inside_a_con_file);
async fn inside_a_con_file() -> Result<(), Failed> {
    let mut files = Files::golden("delete_commits_consolidated");
    let path = files.find(".con");
    files.edit(&path, |file| {
        // Within the tile that follows the line of the delete.
        let line = file.windows(5).position(|w| w == b".del\n");
        let tile = line.expect("a delete is inside") + 5 + 8;
        file[tile + 29] = 9;
    });
    let words = [".con", "encryption type", "__2000_2000_"];
    refused("inline", read_files(&files, ALL).await, &words)
}

trial!(of_no_concern);
/// A delete older than every cell is not read, whatever it holds.
async fn of_no_concern() -> Result<(), Failed> {
    let mut files = with_delete(vec![1, 2, 3]);
    files.rename(|path| {
        if path.contains(".del") {
            path.replace("__2000_2000_", "__999_999_")
        } else {
            path.to_owned()
        }
    });
    let rows = read_files(&files, ALL).await?;
    if rows != 40 {
        return Err(format!("40 rows were written, {rows} are there").into());
    }
    Ok(())
}

trial!(in_a_dense_array);
/// libtiledb writes none there, and reads past those of others.
async fn in_a_dense_array() -> Result<(), Failed> {
    let sparse = Files::golden("delete_simple");
    let delete = sparse.find(".del");
    let mut files = Files::golden("dense_global_write");
    files.0.insert(delete.clone(), sparse.0[&delete].clone());
    match read_files(&files, ALL).await? {
        64 => Ok(()),
        rows => Err(format!("64 cells were written, {rows} are there").into()),
    }
}
