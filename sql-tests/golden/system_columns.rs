//! What system columns say of every golden array is what windows of time show, which the golden answers vouch for.
//!
//! A window that starts at T shows the cells whose newest version was written at T or later, so these are the rows
//! with `__timestamp >= T`; a window of one time shows all versions written at that time. Fragments that were
//! consolidated without the times of their cells are no match: a window shows all of such a fragment or nothing.
//! Then random queries, as in `pruning`: on the array, where names and times of fragments rule tiles out, and on the
//! same rows in memory. One array of 32 is tried; `GOLDEN=each` tries each, for ten minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::TimestampMillisecondType;
use datafusion::datasource::MemTable;
use datafusion::logical_expr::{Expr, col, lit};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::scalar::ScalarValue;
use datafusion_tiledb::TileDbTable;
use libtest_mimic::Failed;
use serde_json::Value;
use tiledb_engine::format::schema::ArraySchema;

use crate::golden::pruning;
use crate::support::array_files::Files;
use crate::support::refusals::edit_schema;
use crate::support::{golden, neutral_rows};

/// Larger arrays are left to other tests.
const MOST_ROWS: usize = 5_000;
/// So many times of an array, evenly chosen, are looked at.
const MOST_TIMES: usize = 6;
const QUERIES: usize = 2;

type Options = Vec<(String, String)>;

trials!(golden::on_one_of(32, 0, |array, entry| async move {
    check(array, &entry).await
}));

fn and(options: &Options, more: &[(&str, &str)]) -> Options {
    let more = more.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    options.iter().cloned().chain(more).collect()
}

async fn open(array: &Path, options: &Options) -> Result<Arc<TileDbTable>, Failed> {
    let mut builder = TileDbTable::builder(array.display().to_string());
    for (key, value) in options {
        builder = builder.option(key, value)?;
    }
    Ok(Arc::new(builder.open().await?))
}

/// The rows of a table that meet a condition.
async fn read(table: &Arc<TileDbTable>, condition: Option<Expr>) -> Result<RecordBatch, Failed> {
    let config = SessionConfig::new().with_target_partitions(2);
    let ctx = SessionContext::new_with_config(config);
    let mut rows = ctx.read_table(Arc::clone(table) as _)?;
    if let Some(condition) = condition {
        rows = rows.filter(condition)?;
    }
    let schema = Arc::clone(rows.schema().inner());
    Ok(concat_batches(&schema, &rows.collect().await?)?)
}

/// The dimensions and attributes of rows.
fn plain(rows: &RecordBatch) -> Vec<String> {
    let schema = rows.schema();
    let columns = 0..rows.num_columns();
    let role = |c: &usize| schema.field(*c).metadata().get("tiledb.role").cloned();
    let of_cells = |c: &usize| ["dimension", "attribute"].contains(&&*role(c).unwrap_or_default());
    let fields = columns.filter(of_cells);
    let kept = rows.project(&fields.collect::<Vec<_>>()).unwrap();
    neutral_rows::rows(&[kept])
}

fn times(rows: &RecordBatch) -> Vec<Option<u64>> {
    let times = rows
        .column_by_name("__timestamp")
        .unwrap()
        .as_primitive::<TimestampMillisecondType>()
        .iter();
    times.map(|time| time.map(|t| t as u64)).collect()
}

fn at(time: u64) -> Expr {
    lit(ScalarValue::TimestampMillisecond(Some(time as i64), None))
}

async fn check(array: PathBuf, entry: &Value) -> Result<(), Failed> {
    let options = golden::options(entry);
    let table = open(&array, &and(&options, &[("system_columns", "true")])).await?;
    let rows = read(&table, None).await?;
    if rows.num_rows() > MOST_ROWS {
        return Ok(());
    }
    if plain(&read(&open(&array, &options).await?, None).await?) != plain(&rows) {
        return Err("the other columns differ".into());
    }
    let facts = Facts::of(&array, &options).await?;
    facts.check_names(&rows)?;
    for time in facts.times(&rows) {
        let expected = window(&array, &facts.written_only(&options), time, u64::MAX).await?;
        let found = read(&table, Some(col("__timestamp").gt_eq(at(time)))).await?;
        if plain(&found) != expected {
            return Err(format!("__timestamp >= {time} is not the window from there on").into());
        }
    }
    ask(&array, &table, &rows).await?;
    if facts.dense {
        return Ok(());
    }
    let everything = [("system_columns", "true"), ("all_versions", "true")];
    let table = open(&array, &and(&options, &everything)).await?;
    let rows = read(&table, None).await?;
    facts.check_names(&rows)?;
    if facts.tells_each_time() {
        let mut versions = Vec::new();
        for time in times(&rows).into_iter().flatten().collect::<BTreeSet<_>>() {
            versions.extend(window(&array, &options, time, time).await?);
        }
        versions.sort();
        if plain(&rows) != versions {
            return Err("all versions are not those of the windows of each time".into());
        }
    }
    if rows.num_rows() <= MOST_ROWS {
        ask(&array, &table, &rows).await?;
    }
    Ok(())
}

/// The rows of a window of time.
async fn window(
    array: &Path,
    options: &Options,
    start: u64,
    end: u64,
) -> Result<Vec<String>, Failed> {
    let (start, end) = (start.to_string(), end.to_string());
    let window = [("timestamp_start", &*start), ("timestamp_end", &*end)];
    let table = open(array, &and(options, &window)).await?;
    Ok(plain(&read(&table, None).await?))
}

/// Random queries on the array and on the same rows in memory.
async fn ask(array: &Path, table: &Arc<TileDbTable>, rows: &RecordBatch) -> Result<(), Failed> {
    if rows.num_rows() == 0 {
        return Ok(());
    }
    let memory = MemTable::try_new(rows.schema(), vec![vec![rows.clone()]])?;
    let memory = Arc::new(memory);
    pruning::compare(array, table, &memory, rows, QUERIES).await?;
    // With the special ways of arrays and without them.
    let mut sessions = Vec::new();
    for special in [true, false] {
        let config = SessionConfig::new().with_target_partitions(3);
        let ctx = SessionContext::new_with_config(config);
        if special {
            datafusion_tiledb::register(&ctx)?;
        }
        ctx.register_table("cells", Arc::clone(table) as _)?;
        ctx.register_table("copies", Arc::clone(&memory) as _)?;
        sessions.push(ctx);
    }
    let mut random = pruning::Random::new(array);
    let column = |name: &str| rows.schema().index_of(name);
    let name = random.value(rows, column("__fragment")?).to_string();
    let time = random.value(rows, column("__timestamp")?);
    let time = format!("arrow_cast({time}, 'Timestamp(ms)')");
    let queries = [
        "SELECT __fragment, __timestamp, count(*) FROM t GROUP BY 1, 2".to_owned(),
        "SELECT min(__timestamp), max(__timestamp), count(__timestamp), count(*) FROM t".to_owned(),
        "SELECT min(__fragment), max(__fragment), count(__fragment) FROM t".to_owned(),
        "SELECT __timestamp FROM t ORDER BY __timestamp DESC NULLS LAST LIMIT 5".to_owned(),
        "SELECT __fragment FROM t WHERE __timestamp IS NOT NULL ORDER BY 1 LIMIT 5".to_owned(),
        format!("SELECT * FROM t WHERE __fragment = '{name}'"),
        format!("SELECT count(*), max(__timestamp) FROM t WHERE __fragment <> '{name}'"),
        format!("SELECT * FROM t WHERE __timestamp < {time} OR __fragment LIKE '{name}%'"),
        format!("SELECT count(*) FROM t WHERE __timestamp = {time}"),
        format!("SELECT * FROM t WHERE __timestamp > {time}"),
    ];
    for _ in 0..3 {
        let query = &queries[random.below(queries.len())];
        for ctx in &sessions {
            let mut answers = Vec::new();
            for name in ["cells", "copies"] {
                let sql = query.replace("FROM t", &format!("FROM {name}"));
                answers.push(neutral_rows::rows(&ctx.sql(&sql).await?.collect().await?));
            }
            if answers[0] != answers[1] {
                let [found, expected] = [&answers[0], &answers[1]];
                let differ = format!("{query}\nexpected {expected:#?}\nfound    {found:#?}");
                return Err(differ.into());
            }
        }
    }
    Ok(())
}

/// What the functions that describe arrays tell.
struct Facts {
    dense: bool,
    duplicates: bool,
    deletes: bool,
    evolved: bool,
    /// First and last time of each fragment, and whether it tells the times of its cells, by its name.
    fragments: BTreeMap<String, (u64, u64, bool)>,
}

impl Facts {
    async fn of(array: &Path, options: &Options) -> Result<Self, Failed> {
        let ctx = SessionContext::new();
        datafusion_tiledb::register(&ctx)?;
        let arguments = golden::Arguments::of(options.clone())?;
        let list = arguments.after(&array.display().to_string());
        let ask = async |what: &str| -> Result<RecordBatch, Failed> {
            let rows = ctx.sql(&what.replace("()", &format!("({list})"))).await?;
            let schema = Arc::clone(rows.schema().inner());
            Ok(concat_batches(&schema, &rows.collect().await?)?)
        };
        let facts =
            "SELECT array_type = 'dense', allows_duplicates, schemas > 1 FROM tiledb_array()";
        let facts = ask(facts).await?;
        let deletes =
            "SELECT count(*) > 0 FROM tiledb_commits() WHERE kind IN ('delete', 'update')";
        let deletes = ask(deletes).await?;
        let fragments = "SELECT fragment, timestamp_start::bigint, timestamp_end::bigint, has_timestamps, \
                         arrow_cast(fragment, 'Utf8') FROM tiledb_fragments() WHERE visible";
        let fragments = ask(fragments).await?;
        let numbers = |column: usize| {
            let column = fragments.column(column);
            column
                .as_primitive::<datafusion::arrow::datatypes::Int64Type>()
                .clone()
        };
        let (t1, t2) = (numbers(1), numbers(2));
        let names = fragments.column(4).as_string::<i32>().clone();
        let tells = fragments.column(3).as_boolean().clone();
        let row = |i: usize| {
            let times = (t1.value(i) as u64, t2.value(i) as u64, tells.value(i));
            (names.value(i).to_owned(), times)
        };
        Ok(Self {
            dense: facts.column(0).as_boolean().value(0),
            duplicates: facts.column(1).as_boolean().value(0),
            evolved: facts.column(2).as_boolean().value(0),
            deletes: deletes.column(0).as_boolean().value(0),
            fragments: (0..fragments.num_rows()).map(row).collect(),
        })
    }

    /// Every row comes from a visible fragment, and was written at its time.
    fn check_names(&self, rows: &RecordBatch) -> Result<(), Failed> {
        let names = rows.column_by_name("__fragment").unwrap();
        for (name, time) in names.as_string_view().iter().zip(times(rows)) {
            let (Some(name), Some(time)) = (name, time) else {
                // Only cells that no fragment wrote have none, and these have neither.
                if self.dense && name.is_none() && time.is_none() {
                    continue;
                }
                return Err("a written cell has no time or no fragment".into());
            };
            let Some((t1, t2, tells)) = self.fragments.get(name) else {
                return Err(format!("{name} is no visible fragment").into());
            };
            let fits = if *tells {
                (*t1..=*t2).contains(&time)
            } else {
                time == *t1
            };
            if !fits {
                return Err(format!("a cell of {name} is of {time}").into());
            }
        }
        Ok(())
    }

    /// Some times at which cells were written, without those that lie inside the time of a fragment that a window shows
    /// as a whole.
    fn times(&self, rows: &RecordBatch) -> Vec<u64> {
        let times = times(rows).into_iter().flatten().collect::<BTreeSet<_>>();
        let inside = |time: &u64| {
            let mut whole = self.fragments.values().filter(|(_, _, tells)| !tells);
            whole.any(|(t1, t2, _)| t1 < time && time <= t2)
        };
        let times = times
            .into_iter()
            .filter(|time| !inside(time))
            .collect::<Vec<_>>();
        let step = times.len().div_ceil(MOST_TIMES).max(1);
        times.into_iter().step_by(step).collect()
    }

    /// The options under which a window has no cells that no fragment wrote.
    fn written_only(&self, options: &Options) -> Options {
        if self.dense {
            and(options, &[("empty_cells", "skip")])
        } else {
            options.clone()
        }
    }

    /// Whether the window of each time shows all versions that were written then: not if one of several of one
    /// time hides another, if a later delete hits them, or if the schema was another then.
    fn tells_each_time(&self) -> bool {
        let times = self.fragments.values().map(|(t1, ..)| t1);
        let each = times.collect::<BTreeSet<_>>().len() == self.fragments.len();
        let whole = |(t1, t2, tells): &(u64, u64, bool)| t1 == t2 || *tells;
        let told = self.fragments.values().all(whole);
        told && !self.deletes && !self.evolved && (self.duplicates || each)
    }
}

trial!(names_taken);
/// An attribute of the name of a system column is read as always, and the option is refused.
async fn names_taken() -> Result<(), Failed> {
    for name in ["__timestamp", "__fragment"] {
        let mut files = Files::golden("sparse_value_gone");
        edit_schema(&mut files, |bytes| {
            let mut schema = ArraySchema::decode(bytes).expect("a schema of libtiledb");
            schema.attributes[0].name = name.to_owned();
            *bytes = schema.encode().expect("a schema");
        });
        let open = |options: Options| {
            let files = files.clone();
            async move {
                let mut builder = TileDbTable::builder(files.in_memory().await);
                for (key, value) in options {
                    builder = builder.option(&key, &value)?;
                }
                builder.open().await
            }
        };
        let rows = read(&Arc::new(open(Vec::new()).await?), None).await?;
        if rows.num_rows() != 100 || rows.column_by_name(name).is_none() {
            return Err(format!("{:?}", rows.schema()).into());
        }
        let refused = open(and(&Vec::new(), &[("system_columns", "true")])).await;
        match refused {
            Err(e)
                if e.to_string()
                    .contains("but the array has a field of this name") => {}
            other => return Err(format!("{name}: {other:?}").into()),
        }
    }
    Ok(())
}

trial!(times_beyond);
/// A fragment of a time that no timestamp can be has no `__timestamp`, and everything else.
async fn times_beyond() -> Result<(), Failed> {
    let mut files = Files::golden("sparse_value_gone");
    let late = u64::MAX - 1;
    files.rename(|path| path.replace("__2000_2000_", &format!("__{late}_{late}_")));
    let builder = TileDbTable::builder(files.in_memory().await);
    let builder = builder
        .option("system_columns", "true")?
        .timestamp_end(late);
    let ctx = SessionContext::new();
    ctx.register_table("t", Arc::new(builder.open().await?))?;
    let counted = ctx
        .sql("SELECT count(*), count(DISTINCT __fragment) FROM t")
        .await?;
    let counted = neutral_rows::rows(&counted.collect().await?);
    if counted != ["[100,2]"] {
        return Err(format!("{counted:?}").into());
    }
    match ctx
        .sql("SELECT max(__timestamp) FROM t")
        .await?
        .collect()
        .await
    {
        Err(e)
            if e.to_string()
                .contains("is later than 9223372036854775807 ms") =>
        {
            Ok(())
        }
        other => Err(format!("{other:?}").into()),
    }
}
