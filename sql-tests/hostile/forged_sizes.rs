//! Sizes that agree with each other and with nothing else: an array that promises more than any machine holds is
//! refused by what its files really have, in no time and without asking for the memory.

use datafusion::prelude::{SessionConfig, SessionContext};
use libtest_mimic::Failed;

use crate::support::array_files::{Files, METADATA_FILE, join_footer, split_footer};
use crate::support::refusals::{ALL, edit_schema, read_files, refused};
use crate::support::{allocations, golden, neutral_rows};

/// Replaces `from` by `to` wherever it stands.
fn replace(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    assert_eq!(from.len(), to.len());
    let offsets: Vec<usize> = (0..bytes.len())
        .filter(|at| bytes[*at..].starts_with(from))
        .collect();
    assert!(!offsets.is_empty(), "nothing to replace");
    for at in offsets {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
}

trial!(capacity);
/// The schema promises tiles of 2^36 cells and the footer agrees: nothing of that size is asked of the machine.
async fn capacity() -> Result<(), Failed> {
    let mut files = Files::golden("rtree_three_levels").plain();
    edit_schema(&mut files, |schema| {
        schema[8..16].copy_from_slice(&(1_u64 << 36).to_le_bytes())
    });
    for sql in [
        ALL,
        "SELECT a FROM t WHERE x = 101 AND y = 525",
        "SELECT x FROM t WHERE a > 5",
    ] {
        refused(sql, read_files(&files, sql).await, &["tile", "array"])?;
    }
    Ok(())
}

trial!(extents);
/// A dense array whose schema and footer agree on tiles of 2^40 cells.
async fn extents() -> Result<(), Failed> {
    let mut files = Files::golden("quickstart_dense").plain();
    edit_schema(&mut files, |schema| {
        let dimension = |hi: i32, extent: i32| {
            [
                &1_i32.to_le_bytes()[..],
                &hi.to_le_bytes(),
                &[0],
                &extent.to_le_bytes(),
            ]
            .concat()
        };
        replace(schema, &dimension(4, 4), &dimension(1 << 30, 1 << 20));
    });
    let metadata = files.find(METADATA_FILE);
    refused(
        "cells per tile",
        read_files(&files, ALL).await,
        &["16 cells per tile", "1099511627776"],
    )?;
    files.edit(&metadata, |file| {
        let (body, footer) = split_footer(file);
        let mut footer = footer.to_vec();
        // Behind the box of 1 to 4 in both dimensions: no sparse tiles, sixteen cells in a tile.
        let head = [1, 4, 1, 4].map(i32::to_le_bytes).concat();
        let cells = |n: u64| [&head[..], &[0; 8], &n.to_le_bytes()].concat();
        replace(&mut footer, &cells(16), &cells(1 << 40));
        *file = join_footer(body, &footer);
    });
    refused("tiles", read_files(&files, ALL).await, &["tile"])?;
    refused(
        "tiles",
        read_files(&files, "SELECT a FROM t WHERE cols > 2").await,
        &["tile"],
    )
}

trial!(non_empty_domain);
/// A dense fragment that claims more tiles than its file has room for, down to the box of the whole domain.
async fn non_empty_domain() -> Result<(), Failed> {
    let mut files = Files::golden("quickstart_dense").plain();
    let domain = |hi: i32| [1_i32.to_le_bytes(), hi.to_le_bytes()].concat();
    edit_schema(&mut files, |schema| {
        replace(schema, &domain(4), &domain(i32::MAX - 9))
    });
    let metadata = files.find(METADATA_FILE);
    files.edit(&metadata, |file| {
        let (body, footer) = split_footer(file);
        let mut footer = footer.to_vec();
        replace(&mut footer, &domain(4), &domain(i32::MAX - 9));
        *file = join_footer(body, &footer);
    });
    for sql in [
        ALL,
        "SELECT a FROM t WHERE \"rows\" > 2000000",
        "SELECT count(*), sum(\"rows\") FROM t",
        "SELECT count(*) FROM t",
    ] {
        refused(
            sql,
            read_files(&files, sql).await,
            &["tiles", "__1000_1000_"],
        )?;
    }
    Ok(())
}

trial!(sizes);
/// Sections and chunks that claim sizes beyond the file, each a length checked before memory is asked for.
async fn sizes() -> Result<(), Failed> {
    for value in [1_u64 << 31, 1 << 40, u64::MAX - 7, u64::MAX] {
        for at in [4, 12, 34 + 8] {
            // Persisted size, tile size and number of chunks of the schema's tile.
            let mut files = Files::golden("quickstart_sparse").plain();
            let schema = files.find("__schema/");
            files.edit(&schema, |tile| {
                tile[at..at + 8].copy_from_slice(&value.to_le_bytes())
            });
            refused(
                &format!("{value} at {at}"),
                read_files(&files, ALL).await,
                &["__schema/"],
            )?;
        }
        // The number of chunks of the first data tile, and the length of the footer.
        let mut files = Files::golden("quickstart_sparse");
        let data = files.find("a0.tdb");
        files.edit(&data, |file| {
            file[..8].copy_from_slice(&value.to_le_bytes())
        });
        refused(
            "chunks",
            read_files(&files, ALL).await,
            &["chunks", "attribute a", "__1000_1000_"],
        )?;
        let mut files = Files::golden("quickstart_sparse");
        let metadata = files.find(METADATA_FILE);
        files.edit(&metadata, |file| {
            let at = file.len() - 8;
            file[at..].copy_from_slice(&value.to_le_bytes());
        });
        refused(
            "footer",
            read_files(&files, ALL).await,
            &["footer", "__1000_1000_", METADATA_FILE],
        )?;
    }
    Ok(())
}

/// Where the first filter of a field stands in a schema: behind its name, type, values per cell, and the sizes of the list.
pub fn first_filter(schema: &[u8], field: &str) -> usize {
    let name = [&(field.len() as u32).to_le_bytes()[..], field.as_bytes()].concat();
    let offset = schema.windows(name.len()).position(|w| w == name);
    offset.expect("the schema has the field") + name.len() + 1 + 4 + 8
}

trial!(filters);
/// A filter that nobody knows: the columns it is for say so, all others are read.
async fn filters() -> Result<(), Failed> {
    let forged = |field: &str, from: u8, to: u8| {
        let mut files = Files::golden("weather_stations");
        edit_schema(&mut files, |schema| {
            let at = first_filter(schema, field);
            assert_eq!(schema[at], from);
            schema[at] = to;
        });
        files
    };
    // `wind` begins with a byte shuffle (9).
    for unknown in [20, 42, 255] {
        let files = forged("wind", 9, unknown);
        let name = format!("filter unknown ({unknown})");
        let words = [name.as_str(), "attribute wind", "fragment __", "array"];
        for sql in [
            ALL,
            "SELECT station FROM t WHERE wind > 3",
            "SELECT sum(wind) FROM t",
        ] {
            refused(sql, read_files(&files, sql).await, &words)?;
        }
        for sql in [
            "SELECT station, time, temperature, condition, note FROM t",
            "SELECT count(*) FROM t WHERE temperature < 0 AND station >= 'A'",
            "DESCRIBE t",
        ] {
            assert!(read_files(&files, sql).await? > 0);
        }
    }
    // A compressor nobody knows, a coordinate, and bitsort where it cannot be.
    let files = forged("condition", 2, 42);
    refused(
        "zstd",
        read_files(&files, ALL).await,
        &["unknown (42)", "attribute condition"],
    )?;
    let files = forged("time", 6, 42);
    let words = ["unknown (42)", "dimension time"];
    refused(
        "time",
        read_files(&files, "SELECT wind FROM t").await,
        &words,
    )?;
    let files = forged("wind", 9, 17);
    let words = [
        "filter bitsort beside dimensions of strings",
        "attribute wind",
    ];
    refused(
        "bitsort",
        read_files(&files, "SELECT wind FROM t").await,
        &words,
    )?;

    // Offsets: of the columns of any size only those have them that have no string form.
    let mut files = Files::golden("weather_stations");
    edit_schema(&mut files, |schema| {
        let positive_delta = [10, 4, 0, 0, 0, 0, 4, 0, 0];
        replace(
            schema,
            &positive_delta,
            &[&[42], &positive_delta[1..]].concat(),
        );
    });
    let words = ["unknown (42)", "offsets", "attribute note"];
    refused("offsets", read_files(&files, ALL).await, &words)?;
    let sql = "SELECT station, time, temperature, wind, condition FROM t";
    assert!(read_files(&files, sql).await? > 0);
    Ok(())
}

/// The rows that a session with everything registered answers; `$` stands for the array.
pub async fn ask(files: &Files, sql: &str) -> Result<Vec<String>, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    files.write(folder.path());
    let ctx = SessionContext::new_with_config_rt(SessionConfig::new(), allocations::runtime());
    datafusion_tiledb::register(&ctx).map_err(|e| e.to_string())?;
    let sql = sql.replace('$', &folder.path().display().to_string());
    let frame = ctx.sql(&sql).await.map_err(|e| e.to_string())?;
    Ok(neutral_rows::rows(
        &frame.collect().await.map_err(|e| e.to_string())?,
    ))
}

trial!(fragments_gone);
/// Commits whose fragments are gone. Up to format 11 fragments are found by their folders, by libtiledb 2.30 too, whose
/// numbers of rows these are; of later ones it finds no metadata and says so.
async fn fragments_gone() -> Result<(), Failed> {
    let without = |array: &str, part: &[&str]| {
        let mut files = Files::of(&golden::folder().join(array));
        let gone = |path: &String| part.iter().any(|p| path.contains(p) && path.contains("/"));
        files.0.retain(|path, _| !gone(path));
        files
    };
    let first = ["__1000_1000_"];
    for (array, gone, rows) in [
        ("old/v10_appended", &first[..], 11),
        ("old/v05_appended", &first, 11),
        ("old/v05_appended", &["__1000_1000_", "__2000_2000_"], 4),
        ("old/v10_appended", &["__1000_", "__2000_", "__3000_"], 0),
    ] {
        let files = without(array, gone);
        assert_eq!(
            read_files(&files, ALL).await?,
            rows,
            "{array} without {gone:?}"
        );
        let commits = ask(&files, "SELECT count(*) FROM tiledb_commits('$')").await?;
        assert_ne!(commits, ["[0]"], "commits of {array}");
        let first = "SELECT count(*) FROM tiledb_fragments('$') WHERE fragment LIKE '%1000_1000%'";
        assert_eq!(ask(&files, first).await?, ["[0]"], "fragments of {array}");
    }
    // What is left of a folder is damage.
    let mut files = Files::of(&golden::folder().join("old/v10_appended"));
    let metadata = files.find(METADATA_FILE);
    files.0.remove(&metadata);
    refused("metadata", read_files(&files, ALL).await, &["__1000_1000_"])?;
    let files = without("enum_extended", &["__fragments/__1000_1000_"]);
    refused(
        "a fragment of format 22",
        read_files(&files, ALL).await,
        &["__1000_1000_", METADATA_FILE],
    )
}
