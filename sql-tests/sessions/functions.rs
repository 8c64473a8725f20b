//! What table functions ask of the storage, and how they take damaged metadata and odd sessions.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use datafusion_tiledb::TileDbTable;
use libtest_mimic::Failed;
use tiledb_engine::filter::generic_tile;
use tiledb_engine::storage::{LoggedRequest, MetadataCache, RequestKind, RequestLog};

use crate::support::array_files::{Files, METADATA_FILE, plain_tile};
use crate::support::golden;
use crate::support::session_folder::SessionFolder;

/// A schema that has no tables, and fails if it is asked to open one.
#[derive(Debug)]
struct Closed;

#[async_trait]
impl SchemaProvider for Closed {
    fn table_names(&self) -> Vec<String> {
        Vec::new()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        Err(DataFusionError::Internal(format!("{name} was opened")))
    }

    fn table_exist(&self, _: &str) -> bool {
        false
    }
}

trial!(open_nothing_else);
/// A name that is no table is a path, and the session is not asked to open whatever else has this name.
async fn open_nothing_else() -> Result<(), Failed> {
    let ctx = SessionContext::new();
    datafusion_tiledb::register(&ctx)?;
    let catalog = ctx.catalog("datafusion").ok_or("the default catalog")?;
    catalog.register_schema("closed", Arc::new(Closed))?;
    let asked = rows(&ctx, "SELECT * FROM tiledb_fragments('closed.nothing')").await;
    let error = asked.err().and_then(|e| e.message().map(str::to_owned));
    match error {
        Some(error) if error.contains("no array is here") => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

/// A session with a table `t`, whose requests are logged.
async fn session(table: TileDbTable) -> Result<SessionContext, Failed> {
    let ctx = SessionContext::new();
    datafusion_tiledb::register(&ctx)?;
    ctx.register_table("t", Arc::new(table))?;
    Ok(ctx)
}

async fn rows(ctx: &SessionContext, sql: &str) -> Result<usize, Failed> {
    let batches = ctx.sql(sql).await?.collect().await?;
    Ok(batches.iter().map(|b| b.num_rows()).sum())
}

/// Reads of fragment metadata by range.
fn sections(requests: &[LoggedRequest]) -> Vec<&LoggedRequest> {
    requests
        .iter()
        .filter(|r| r.kind == RequestKind::Range && r.file.ends_with(METADATA_FILE))
        .collect()
}

trial!(load_what_is_asked);
async fn load_what_is_asked() -> Result<(), Failed> {
    let log = Arc::new(RequestLog::new());
    let path = golden::folder().join("rtree_three_levels");
    let table = TileDbTable::builder(path.display().to_string())
        .request_log(Arc::clone(&log))
        .cache(Arc::new(MetadataCache::new(16 << 20)))
        .open()
        .await?;
    let ctx = session(table).await?;
    let cases = [
        // The footer says how many tiles there are, and of how many cells.
        (
            "SELECT fragment, tile, cells, field FROM tiledb_tiles('t')",
            0,
        ),
        (
            "SELECT count(*) FROM tiledb_tiles('t') WHERE field = 'nothing'",
            0,
        ),
        (
            "SELECT min FROM tiledb_tiles('t') WHERE field = 'nothing'",
            0,
        ),
        (
            "SELECT min, max FROM tiledb_tiles('t') WHERE role = 'attribute'",
            1,
        ),
        (
            "SELECT max FROM tiledb_tiles('t') WHERE role = 'attribute'",
            0,
        ),
        ("SELECT mbr FROM tiledb_tiles('t')", 1),
        ("SELECT data_bytes FROM tiledb_tiles('t')", 1),
        ("SELECT sum FROM tiledb_tiles('t')", 1),
        ("SELECT * FROM tiledb_tiles('t')", 0),
        ("SELECT * FROM tiledb_fragments('t')", 0),
        ("SELECT * FROM tiledb_schema('t')", 0),
    ];
    for (sql, wanted) in cases {
        log.clear();
        rows(&ctx, sql).await?;
        let requests = log.entries();
        let found = sections(&requests);
        // Requests of one call are few: near ranges are joined.
        let enough = found.len() <= wanted * 2 && (wanted == 0 || !found.is_empty());
        if !enough {
            return Err(
                format!("{sql}: expected {wanted} reads of sections, found {found:?}").into(),
            );
        }
    }
    log.clear();
    rows(
        &ctx,
        "SELECT fragment, data_bytes FROM tiledb_fragments('t')",
    )
    .await?;
    if log.count(RequestKind::Head) > 0 {
        return Err("the sizes of metadata were asked for without need".into());
    }
    Ok(())
}

trial!(damaged_metadata);
/// Every prefix and every flipped bit of a metadata file: an answer or an error that names the file.
async fn damaged_metadata() -> Result<(), Failed> {
    let original = Files::golden("metadata_history");
    let path = original.find("__meta/__5000");
    let contents = generic_tile::decode(&original.0[&path], "metadata", None)?.data;
    let mut damaged: Vec<Vec<u8>> = (0..contents.len())
        .map(|n| contents[..n].to_vec())
        .collect();
    for bit in 0..contents.len() * 8 {
        let mut flipped = contents.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        damaged.push(flipped);
    }
    let mut errors = 0;
    for contents in damaged {
        let mut files = original.clone();
        files.edit(&path, |bytes| *bytes = plain_tile(&contents));
        let table = TileDbTable::builder(files.aged_in_memory().await)
            .cache(Arc::new(MetadataCache::new(1 << 20)))
            .open()
            .await?;
        let ctx = session(table).await?;
        if let Err(e) = rows(&ctx, "SELECT * FROM tiledb_metadata('t')").await {
            let message = e.message().unwrap_or_default();
            if message.contains("internal error") || !message.contains("__meta/__5000") {
                return Err(format!("an error that does not name the file: {message}").into());
            }
            errors += 1;
        }
    }
    if errors == 0 {
        return Err("no damage was noticed".into());
    }
    Ok(())
}

trial!(on_one_thread);
/// Planning `tiledb_scan` waits for storage, also where there is one thread to do everything.
fn on_one_thread() -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let ctx = SessionContext::new();
        datafusion_tiledb::register(&ctx)?;
        let path = golden::folder().join("quickstart_sparse");
        let sql = format!("SELECT * FROM tiledb_scan('{}')", path.display());
        let found = rows(&ctx, &sql).await?;
        if found != 3 {
            return Err(format!("expected 3 rows, found {found}").into());
        }
        Ok(())
    })
}

trial!(arrays_that_cannot_be_queried);
/// Arrays that a query refuses, or cannot read yet, are still described.
async fn arrays_that_cannot_be_queried() -> Result<(), Failed> {
    let ctx = SessionContext::new();
    datafusion_tiledb::register(&ctx)?;
    for array in [
        "delete_simple",
        "refused_utf8",
        "delete_commits_consolidated",
    ] {
        let path = golden::folder().join(array);
        for function in ["array", "schema", "enumerations", "metadata", "commits"] {
            let sql = format!("SELECT * FROM tiledb_{function}('{}')", path.display());
            rows(&ctx, &sql).await?;
        }
    }
    Ok(())
}

/// A call that changes something, and the counts before it, after it, and after a second call by a prepared statement.
const CHANGES: [(&str, &str, [i64; 3]); 9] = [
    (
        "tiledb_consolidate('$DESK/t')",
        "count(*) FROM tiledb_fragments('$DESK/t')",
        [2, 3, 3],
    ),
    (
        "tiledb_vacuum('$DESK/v', min_age => '0')",
        "count(*) FROM tiledb_fragments('$DESK/v')",
        [3, 1, 1],
    ),
    (
        "tiledb_evolve('$DESK/t', add_if_missing => 'c INT')",
        "count(*) FROM tiledb_schema('$DESK/t')",
        [3, 4, 4],
    ),
    (
        "tiledb_extend_enumeration('$DESK/t', 'e', ['b'])",
        "count(*) FROM tiledb_enumerations('$DESK/t')",
        [1, 2, -1],
    ),
    (
        "tiledb_set_metadata('$DESK/t', 'key', 1)",
        "count(*) FROM tiledb_metadata('$DESK/t')",
        [0, 1, 1],
    ),
    (
        "tiledb_delete_metadata('$DESK/m', 'key')",
        "count(*) FROM tiledb_metadata('$DESK/m')",
        [1, 0, 0],
    ),
    (
        "tiledb_create_group('$DESK/h')",
        "count(*) FROM tiledb_metadata('$DESK/m')",
        [1, 1, -1],
    ),
    (
        "tiledb_add_member('$DESK/g', '$DESK/t', name => 'n')",
        "count(*) FROM tiledb_members('$DESK/g') WHERE name = 'n'",
        [0, 1, -1],
    ),
    (
        "tiledb_remove_member('$DESK/g', 'm')",
        "count(*) FROM tiledb_members('$DESK/g') WHERE name = 'm'",
        [1, 0, -1],
    ),
];

trial!(change_once_in_a_statement);
/// A function that changes something does so once in a statement, wherever the call stands. It changes nothing if the statement
/// is only explained, or doesn't read the rows of the call. Each execution of a prepared statement counts as a statement.
async fn change_once_in_a_statement() -> Result<(), Failed> {
    for (call, count, [before, after, again]) in CHANGES {
        let desk = SessionFolder::open()?;
        for name in ["t", "v", "m"] {
            desk.run(&format!(
                "CREATE EXTERNAL TABLE {name} (k INT NOT NULL, v INT, e VARCHAR, PRIMARY KEY (k)) STORED AS TILEDB LOCATION '$DESK/{name}' OPTIONS ('tiledb.attr.e.enumeration' '[a]')"
            ))
            .await?;
            desk.run(&format!("INSERT INTO {name} VALUES (1, 1, 'a')"))
                .await?;
            desk.run(&format!("INSERT INTO {name} VALUES (2, 2, 'a')"))
                .await?;
        }
        for first in [
            "tiledb_consolidate('$DESK/v')",
            "tiledb_set_metadata('$DESK/m', 'key', 1)",
            "tiledb_create_group('$DESK/g')",
            "tiledb_add_member('$DESK/g', '$DESK/m', name => 'm')",
        ] {
            desk.run(&format!("SELECT * FROM {first}")).await?;
        }
        let counted = async |expected: i64, statement: &str| {
            let found = desk.number(&format!("SELECT {count}")).await?;
            if found == expected {
                Ok(())
            } else {
                Err(Failed::from(format!("{found} after {statement}")))
            }
        };
        for idle in [
            format!("EXPLAIN SELECT * FROM {call}"),
            format!("SELECT * FROM {call} LIMIT 0"),
            format!("PREPARE p AS SELECT * FROM {call}"),
        ] {
            desk.run(&idle).await?;
            counted(before, &idle).await?;
        }
        let often = format!(
            "WITH c AS (SELECT * FROM {call}) SELECT * FROM c UNION ALL SELECT * FROM c UNION ALL SELECT * FROM {call} \
             UNION ALL SELECT a.* FROM c a JOIN {call} b ON true"
        );
        let rows = desk.run(&often).await?;
        if rows.iter().map(|batch| batch.num_rows()).sum::<usize>() < 4 {
            return Err(format!("{often}: {rows:?}").into());
        }
        counted(after, &often).await?;
        match (desk.run("EXECUTE p").await, again) {
            (Err(_), -1) => {}
            (Ok(_), -1) => return Err(format!("{call} could be repeated").into()),
            (Err(error), _) => return Err(error.into()),
            (Ok(_), again) => counted(again, "EXECUTE p").await?,
        }
    }
    Ok(())
}
