//! Dense arrays whose grids reach to the ends of their types: products and sums of extents exceed 64 bits, and last tiles end
//! beyond the type. The expected contents follow from what was written.

use std::path::Path;

use datafusion::prelude::{SessionConfig, SessionContext};
use libtest_mimic::Failed;
use tiledb_engine::format::domain_range::DomainRange;
use tiledb_engine::format::fragment::footer::Footer;
use tiledb_engine::format::schema::ArraySchema;

use crate::support::array_files::{
    Files, METADATA_FILE, contents, join_footer, plain_tile, split_footer,
};
use crate::support::{allocations, neutral_rows};

/// The integer types in SQL, their sizes in bytes, and their limits.
const TYPES: [(&str, usize, i128, i128); 8] = [
    ("TINYINT", 1, -0x80, 0x7f),
    ("TINYINT UNSIGNED", 1, 0, 0xff),
    ("SMALLINT", 2, -0x8000, 0x7fff),
    ("SMALLINT UNSIGNED", 2, 0, 0xffff),
    ("INT", 4, -0x8000_0000, 0x7fff_ffff),
    ("INT UNSIGNED", 4, 0, 0xffff_ffff),
    ("BIGINT", 8, i64::MIN as i128, i64::MAX as i128),
    ("BIGINT UNSIGNED", 8, 0, u64::MAX as i128),
];

/// A session, and a folder for one array.
struct GridSession {
    context: SessionContext,
    folder: tempfile::TempDir,
}

impl GridSession {
    fn new() -> Result<Self, Failed> {
        let config = SessionConfig::new();
        let context = SessionContext::new_with_config_rt(config, allocations::runtime());
        datafusion_tiledb::register(&context)?;
        Ok(Self {
            context,
            folder: tempfile::tempdir()?,
        })
    }

    fn array(&self) -> &Path {
        self.folder.path()
    }

    /// The rows that a statement returns, sorted; `$` is the array.
    async fn try_run(&self, sql: &str) -> Result<Vec<String>, String> {
        let sql = sql.replace('$', &self.array().join("a").display().to_string());
        let frame = self.context.sql(&sql).await;
        let batches = frame.map_err(|e| e.to_string())?.collect().await;
        Ok(neutral_rows::rows(&batches.map_err(|e| e.to_string())?))
    }

    async fn run(&self, sql: &str) -> Result<Vec<String>, Failed> {
        let run = self.try_run(sql).await;
        run.map_err(|e| format!("{sql}: {e}").into())
    }

    async fn expect(&self, sql: &str, rows: &[&str]) -> Result<(), Failed> {
        let found = self.run(sql).await?;
        if found == rows {
            Ok(())
        } else {
            Err(format!("{sql}: {found:?}, expected {rows:?}").into())
        }
    }

    /// Creates a dense array of one INT attribute `v`; each dimension `x0`, `x1`, … has the same domain and extent.
    async fn create(
        &self,
        ty: &str,
        dimensions: usize,
        ends: (i128, i128),
        extent: i128,
    ) -> Result<(), Failed> {
        let names: Vec<_> = (0..dimensions).map(|d| format!("x{d}")).collect();
        let columns: Vec<_> = names.iter().map(|n| format!("{n} {ty}, ")).collect();
        let (lo, hi) = ends;
        let option = |n: &String| {
            format!(", 'tiledb.dim.{n}.domain' '[{lo}, {hi}]', 'tiledb.dim.{n}.tile' '{extent}'")
        };
        let options: Vec<_> = names.iter().map(option).collect();
        self.run(&format!(
            "CREATE EXTERNAL TABLE t ({}v INT NOT NULL, PRIMARY KEY ({})) STORED AS TILEDB LOCATION '$' \
             OPTIONS ('tiledb.array_type' 'dense'{})",
            columns.concat(),
            names.join(", "),
            options.concat()
        ))
        .await?;
        Ok(())
    }

    /// Writes 1 into the cell all of whose coordinates are `lo`, and then 2 into the one at `hi`.
    async fn write_ends(&self, dimensions: usize, lo: i128, hi: i128) -> Result<(), Failed> {
        for (value, end) in [(1, lo), (2, hi)] {
            let coordinates = format!("{end}, ").repeat(dimensions);
            self.run(&format!("INSERT INTO '$' VALUES ({coordinates}{value})"))
                .await?;
        }
        Ok(())
    }

    /// Queries an array with two written cells, one at each end of all dimensions.
    async fn check_ends(&self, dimensions: usize, lo: i128, hi: i128) -> Result<(), Failed> {
        let names: Vec<_> = (0..dimensions).map(|d| format!("x{d}")).collect();
        let at = |end: i128| {
            let equal = names.iter().map(|n| format!("{n} = {end}"));
            equal.collect::<Vec<_>>().join(" AND ")
        };
        for (value, end) in [("[1]", lo), ("[2]", hi)] {
            let one = format!("SELECT v FROM '$' WHERE {}", at(end));
            self.expect(&one, &[value]).await?;
            let count = format!("SELECT count(*) FROM '$' WHERE {}", at(end));
            self.expect(&count, &["[1]"]).await?;
        }
        if dimensions == 1 {
            let both = format!("SELECT v FROM '$' WHERE x0 = {lo} OR x0 = {hi}");
            self.expect(&both, &["[1]", "[2]"]).await?;
        }
        for (order, value) in [("ASC", "[1]"), ("DESC", "[2]")] {
            let order: Vec<_> = names.iter().map(|n| format!("{n} {order}")).collect();
            let sql = format!("SELECT v FROM '$' ORDER BY {} LIMIT 1", order.join(", "));
            self.expect(&sql, &[value]).await?;
        }
        let rows = cells(dimensions, lo, hi);
        if rows <= u64::MAX.into() {
            let ends = "SELECT CAST(min(x0) AS VARCHAR), CAST(max(x0) AS VARCHAR) FROM '$'";
            self.expect(ends, &[&format!("[\"{lo}\",\"{hi}\"]")])
                .await?;
        }
        check_count(self, rows).await
    }

    /// The limit ends the scan.
    async fn check_limit(&self) -> Result<(), Failed> {
        assert_eq!(self.run("SELECT v FROM '$' LIMIT 3").await?.len(), 3);
        Ok(())
    }
}

/// How many cells lie between two ends, inclusive, in some number of dimensions; at most the largest `u128`.
fn cells(dimensions: usize, lo: i128, hi: i128) -> u128 {
    let side = (hi - lo + 1) as u128;
    (0..dimensions).fold(1, |cells: u128, _| cells.saturating_mul(side))
}

/// COUNT returns a number that fits in its type, and refuses larger ones.
async fn check_count(session: &GridSession, rows: u128) -> Result<(), Failed> {
    let counted = session.try_run("SELECT count(*) FROM '$'").await;
    match i64::try_from(rows) {
        Ok(rows) => assert_eq!(counted?, [format!("[{rows}]")]),
        Err(_) => {
            let error = counted.expect_err("more rows than COUNT can return");
            assert!(error.contains("more rows than COUNT can return"), "{error}");
        }
    }
    Ok(())
}

trial!(both_ends_of_a_type);
/// Tests every integer type with the widest domains that libtiledb accepts, in tiles of one cell and of as many cells as divide
/// the domain.
async fn both_ends_of_a_type() -> Result<(), Failed> {
    for (ty, _, min, max) in TYPES {
        for dimensions in 1..=3 {
            let (lo, hi) = (min, max - 1);
            let extent = if dimensions == 3 { 17 } else { 255 };
            let session = GridSession::new()?;
            session.create(ty, dimensions, (lo, hi), extent).await?;
            session.write_ends(dimensions, lo, hi).await?;
            let checked = session.check_ends(dimensions, lo, hi).await;
            checked.map_err(|e| format!("{ty}[{dimensions}]: {}", e.message().unwrap_or("")))?;
            session.check_limit().await?;
        }
        let (lo, hi) = (min + 1, max);
        let session = GridSession::new()?;
        session.create(ty, 1, (lo, hi), 1).await?;
        session.write_ends(1, lo, hi).await?;
        session.check_ends(1, lo, hi).await?;
    }
    Ok(())
}

/// Replaces each listed value in the domain and in the boxes of fragments by the value beside it.
fn forge(files: &mut Files, bytes: usize, moved: &[(i128, i128)]) {
    let stored = |value: i128| value.to_le_bytes()[..bytes].to_vec();
    let moved: Vec<_> = moved
        .iter()
        .map(|(a, b)| (stored(*a), stored(*b)))
        .collect();
    let shift = |end: &mut Vec<u8>| {
        if let Some((_, to)) = moved.iter().find(|(from, _)| from == end) {
            end.clone_from(to);
        }
    };
    let path = files.find("__schema/");
    let mut schema = ArraySchema::decode(&contents(&files.0[&path])).expect("a schema");
    for metadata in files.find_all(METADATA_FILE) {
        files.edit(&metadata, |file| {
            let (body, footer) = split_footer(file);
            let mut footer = Footer::decode(footer, &schema).expect("a footer");
            let ranges = footer.non_empty_domain.iter_mut().flatten();
            ranges.for_each(|DomainRange { lo, hi }| [lo, hi].into_iter().for_each(shift));
            *file = join_footer(body, &footer.encode(&schema));
        });
    }
    for dimension in &mut schema.dimensions {
        let (lo, hi) = dimension.domain.as_mut().expect("a domain");
        [lo, hi].into_iter().for_each(shift);
    }
    files.edit(&path, |tile| {
        *tile = plain_tile(&schema.encode().expect("a schema"))
    });
}

trial!(whole_types);
/// Tests domains of every value of a type, up to 2^192 cells, which old releases accepted.
async fn whole_types() -> Result<(), Failed> {
    for (ty, bytes, min, max) in TYPES {
        for dimensions in 1..=3 {
            let session = GridSession::new()?;
            session.create(ty, dimensions, (min, max - 1), 1).await?;
            session.write_ends(dimensions, min, max - 1).await?;
            let mut files = Files::of(&session.array().join("a"));
            forge(&mut files, bytes, &[(max - 1, max)]);
            let session = GridSession::new()?;
            files.write(&session.array().join("a"));
            let checked = session.check_ends(dimensions, min, max).await;
            checked.map_err(|e| format!("{ty}[{dimensions}]: {}", e.message().unwrap_or("")))?;
        }
    }
    Ok(())
}

trial!(last_tiles);
/// Tests last tiles that end beyond the type. The other tiles can be written and changed. libtiledb crashes if it meets cells
/// in the last tile, so writes to it are refused, while existing cells there are read.
async fn last_tiles() -> Result<(), Failed> {
    for (ty, bytes, min, max) in TYPES.into_iter().filter(|(_, bytes, ..)| *bytes < 8) {
        for dimensions in 1..=2 {
            let session = GridSession::new()?;
            session.create(ty, dimensions, (min + 1, max), 100).await?;
            let whole = min + (max - min) / 100 * 100;
            session.write_ends(dimensions, min + 1, whole).await?;
            session.check_ends(dimensions, min + 1, whole).await?;
            let beyond = format!("{}3", format!("{}, ", whole + 1).repeat(dimensions));
            let refused = session
                .try_run(&format!("INSERT INTO '$' VALUES ({beyond})"))
                .await
                .expect_err("no reader of libtiledb survives it");
            assert!(
                refused.contains("the tiles that end within its type"),
                "{refused}"
            );
            if bytes == 1 {
                let all = "SELECT v FROM '$' WHERE v > 0";
                session.run("UPDATE '$' SET v = v * 10 WHERE v > 0").await?;
                session.expect(all, &["[10]", "[20]"]).await?;
                session.run("SELECT * FROM tiledb_consolidate('$')").await?;
                session.expect(all, &["[10]", "[20]"]).await?;
            }
            session
                .expect("SELECT * FROM tiledb_check('$')", &[])
                .await?;

            // The last cell of the second tile becomes the type's last value, and the tile ends beyond it.
            let session = GridSession::new()?;
            let (lo, last, hi) = (max - 208, max - 18, max - 9);
            session.create(ty, dimensions, (lo, hi), 100).await?;
            session.write_ends(dimensions, lo, last).await?;
            let mut files = Files::of(&session.array().join("a"));
            let moved = [(lo, lo + 18), (last, max), (hi, max)];
            forge(&mut files, bytes, &moved);
            let session = GridSession::new()?;
            files.write(&session.array().join("a"));
            session.check_ends(dimensions, lo + 18, max).await?;
            session.check_limit().await?;
            session
                .expect("SELECT * FROM tiledb_check('$')", &[])
                .await?;
        }
    }
    Ok(())
}

trial!(too_large_tiles);
/// Tests tiles that no machine can hold: the array can be opened, and has no rows.
async fn too_large_tiles() -> Result<(), Failed> {
    let session = GridSession::new()?;
    session.create("BIGINT UNSIGNED", 2, (0, 99), 10).await?;
    let mut files = Files::of(&session.array().join("a"));
    let path = files.find("__schema/");
    let mut schema = ArraySchema::decode(&contents(&files.0[&path])).expect("a schema");
    for dimension in &mut schema.dimensions {
        let largest = (u64::MAX - 1).to_le_bytes().to_vec();
        dimension
            .domain
            .as_mut()
            .expect("a domain")
            .1
            .clone_from(&largest);
        dimension.extent = Some(largest);
    }
    files.edit(&path, |tile| {
        *tile = plain_tile(&schema.encode().expect("a schema"))
    });
    let session = GridSession::new()?;
    files.write(&session.array().join("a"));
    session.expect("SELECT * FROM '$'", &[]).await?;
    session.expect("SELECT count(*) FROM '$'", &["[0]"]).await?;
    let refused = session
        .try_run("INSERT INTO '$' VALUES (1, 1, 1)")
        .await
        .expect_err("nothing holds such a tile");
    assert!(refused.contains("tile"), "{refused}");
    Ok(())
}

trial!(counts);
/// Tests as many rows as COUNT can return, and one more.
async fn counts() -> Result<(), Failed> {
    for (hi, rows) in [(i64::MAX - 1, i64::MAX as u128), (i64::MAX, 1 << 63)] {
        let session = GridSession::new()?;
        session
            .create("BIGINT UNSIGNED", 1, (0, hi.into()), 1)
            .await?;
        session.write_ends(1, 0, hi.into()).await?;
        check_count(&session, rows).await?;
        let half = format!("SELECT count(*) FROM '$' WHERE x0 < {}", i64::MAX);
        session.expect(&half, &[&format!("[{}]", i64::MAX)]).await?;
    }
    Ok(())
}
