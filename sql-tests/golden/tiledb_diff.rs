//! `tiledb_diff` on every golden array: between two times differs what differs between the cells of both.
//!
//! The cells at each time, which the golden answers vouch for, are compared here as text, by their coordinates. One array
//! of eight is tried; `GOLDEN=each` tries each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{Int64Type, SchemaRef};
use datafusion::prelude::{SessionConfig, SessionContext};
use libtest_mimic::Failed;
use serde_json::Value;

use crate::support::session_shapes::{SHAPES, Shape, USUAL};
use crate::support::{golden, neutral_rows};

const MOST_ROWS: usize = 5_000;
/// So many pairs of times of an array are compared.
const MOST_PAIRS: usize = 4;

// Others than those that `system_columns` tries.
trials!(golden::on_one_of(16, 2, |array, entry| async move {
    check(&array, &entry).await
}));

async fn check(array: &Path, entry: &Value) -> Result<(), Failed> {
    let ctx = USUAL.context()?;
    let asked = Asked::new(array, entry)?;
    let facts = asked.of("tiledb_array", &[], "allows_duplicates");
    let facts = rows(&ctx, &facts).await?;
    if facts.column(0).as_boolean().value(0) {
        let diff = asked.of("tiledb_diff", &["0", "1000"], "*");
        return match rows(&ctx, &diff).await {
            Err(e)
                if e.message()
                    .unwrap_or_default()
                    .contains("allows duplicates") =>
            {
                Ok(())
            }
            other => Err(format!("{other:?}, expected an error about duplicates").into()),
        };
    }
    let lossy = asked.of("tiledb_diff", &["0", "1000"], "change");
    if let Err(e) = ctx.sql(&lossy).await
        && e.to_string().contains("changes coordinates")
    {
        return Ok(());
    }
    let mut shapes = [USUAL].iter().chain(&SHAPES).cycle();
    for (earlier, later) in pairs(&asked.times(&ctx).await?) {
        let shape = shapes.next().unwrap_or(&USUAL);
        asked.compare(shape, earlier, later).await?;
    }
    Ok(())
}

/// Pairs of times, some of them neighbours.
fn pairs(times: &[u64]) -> Vec<(u64, u64)> {
    let (Some(first), Some(last)) = (times.first(), times.last()) else {
        return vec![(0, 1000)];
    };
    let mut pairs = vec![(*first, *last), (first.saturating_sub(1), *first)];
    let neighbours = times.windows(2).map(|pair| (pair[0], pair[1]));
    let middle = times
        .get(times.len() / 2)
        .map(|middle| (*middle, *last + 1));
    pairs.extend(neighbours.take(MOST_PAIRS - 2));
    pairs.extend(middle);
    pairs.truncate(MOST_PAIRS);
    pairs
}

async fn rows(ctx: &SessionContext, sql: &str) -> Result<RecordBatch, Failed> {
    let failed = |e| Failed::from(format!("{sql}: {e}"));
    let frame = ctx.sql(sql).await.map_err(failed)?;
    let schema = Arc::clone(frame.schema().inner());
    let batches = frame.collect().await.map_err(failed)?;
    Ok(concat_batches(&schema, &batches)?)
}

/// An array and the options to read it with.
struct Asked {
    array: String,
    arguments: golden::Arguments,
}

/// The attributes of a cell, as text, by its coordinates.
type CellsByPlace = BTreeMap<String, String>;

impl Asked {
    fn new(array: &Path, entry: &Value) -> Result<Self, Failed> {
        Ok(Self {
            array: array.display().to_string(),
            arguments: golden::Arguments::of(golden::options(entry))?,
        })
    }

    /// The options of the array.
    fn options(&self) -> impl Iterator<Item = (&str, &str)> {
        let options = self.arguments.options().iter();
        options.map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The statement that asks a function for columns.
    fn of(&self, function: &str, more: &[&str], columns: &str) -> String {
        let options = self.options().flat_map(|(key, value)| [key, value]);
        let options = options.filter(|_| function != "tiledb_scan");
        let array = [self.array.as_str()].into_iter();
        let arguments = match function {
            "tiledb_diff" => array
                .chain(more.iter().copied())
                .chain(options)
                .collect::<Vec<_>>(),
            _ => array.chain(options).chain(more.iter().copied()).collect(),
        };
        let arguments = arguments
            .iter()
            .map(|a| format!("'{}'", a.replace('\'', "''")));
        let arguments = arguments.collect::<Vec<_>>().join(", ");
        format!("SELECT {columns} FROM {function}({arguments})")
    }

    /// The times of commits.
    async fn times(&self, ctx: &SessionContext) -> Result<Vec<u64>, Failed> {
        let mut times = BTreeSet::new();
        for column in ["timestamp_start", "timestamp_end"] {
            let found = self.of("tiledb_commits", &[], &format!("{column}::bigint"));
            let found = rows(ctx, &found).await?;
            let found = found.column(0).as_primitive::<Int64Type>().iter();
            times.extend(found.flatten().map(|time| time as u64));
        }
        Ok(times.into_iter().collect())
    }

    /// The columns and the cells as of a time; `None` if there are many.
    async fn cells(&self, time: u64) -> Result<Option<(SchemaRef, CellsByPlace)>, Failed> {
        let mut builder = datafusion_tiledb::TileDbTable::builder(self.array.clone());
        let time = time.to_string();
        let more = [("timestamp", time.as_str()), ("empty_cells", "skip")];
        let always = self.options().filter(|(k, _)| *k != "empty_cells");
        for (key, value) in always.chain(more) {
            builder = builder.option(key, value)?;
        }
        let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
        let frame = ctx.read_table(Arc::new(builder.open().await?))?;
        let schema = Arc::clone(frame.schema().inner());
        let all = concat_batches(&schema, &frame.collect().await?)?;
        if all.num_rows() > MOST_ROWS {
            return Ok(None);
        }
        let of = |role: &str| {
            let found = |c: &usize| {
                schema
                    .field(*c)
                    .metadata()
                    .get("tiledb.role")
                    .is_some_and(|r| r == role)
            };
            (0..schema.fields().len()).filter(found).collect::<Vec<_>>()
        };
        let (places, values) = (
            all.project(&of("dimension"))?,
            all.project(&of("attribute"))?,
        );
        let text = |batch: &RecordBatch, row| neutral_rows::rows(&[batch.slice(row, 1)]).concat();
        let cell = |row| (text(&places, row), text(&values, row));
        let cells = (0..all.num_rows()).map(cell).collect::<CellsByPlace>();
        // NaN coordinates of different bits are several cells, which SQL shows at one place.
        let told_apart = cells.len() == all.num_rows();
        Ok(told_apart.then(|| (values.schema(), cells)))
    }

    async fn compare(&self, shape: &Shape, earlier: u64, later: u64) -> Result<(), Failed> {
        let (Some((old_columns, old)), Some((new_columns, new))) =
            (self.cells(earlier).await?, self.cells(later).await?)
        else {
            return Ok(());
        };
        let types = |schema: &SchemaRef| {
            let fields = schema.fields().iter();
            fields
                .map(|f| (f.name().clone(), f.data_type().clone()))
                .collect::<Vec<_>>()
        };
        if types(&old_columns) != types(&new_columns) || self.given_empty_cells() {
            return Ok(());
        }
        let ctx = shape.context()?;
        let found = self.of(
            "tiledb_diff",
            &[&earlier.to_string(), &later.to_string()],
            "*",
        );
        let found = rows(&ctx, &found).await?;
        let at = found.schema().index_of("change")?;
        let attributes = (found.num_columns() - at - 1) / 2;
        let of = |columns: Vec<usize>| found.project(&columns);
        let places = of((0..at).collect())?;
        let changes = found.column(at).as_string::<i32>();
        let olds = of((0..attributes).map(|a| at + 1 + 2 * a).collect())?;
        let news = of((0..attributes).map(|a| at + 2 + 2 * a).collect())?;
        let text = |batch: &RecordBatch, row| neutral_rows::rows(&[batch.slice(row, 1)]).concat();
        let mut seen = BTreeMap::new();
        for row in 0..found.num_rows() {
            let place = text(&places, row);
            let change = (changes.value(row), text(&olds, row), text(&news, row));
            if seen.insert(place.clone(), change).is_some() {
                return Err(format!("{place} differs twice from {earlier} to {later}").into());
            }
        }
        for place in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
            let change = seen.remove(place);
            let fits = match (old.get(place), new.get(place), &change) {
                (Some(old), Some(new), None) => old == new,
                (Some(old), Some(new), Some(("changed", was, is))) => {
                    old != new && old == was && new == is
                }
                (Some(old), None, Some(("removed", was, _))) => old == was,
                (None, Some(new), Some(("added", _, is))) => new == is,
                _ => false,
            };
            if !fits {
                let (old, new) = (old.get(place), new.get(place));
                return Err(format!(
                    "from {earlier} to {later} in {}: {place} was {old:?} and is {new:?}, found {change:?}",
                    shape.name
                )
                .into());
            }
        }
        match seen.first_key_value() {
            None => Ok(()),
            Some(more) => Err(format!("from {earlier} to {later}: {more:?} isn't a cell").into()),
        }
    }

    /// Whether the options say how to show cells that a difference does not have.
    fn given_empty_cells(&self) -> bool {
        self.options().any(|(key, _)| key == "empty_cells")
    }
}
