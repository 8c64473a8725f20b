//! Arrays whose metadata say what they cannot mean: they have the answers of their cells.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use datafusion_tiledb::TileDbTable;
use libtest_mimic::Failed;
use tiledb_engine::format::datatype::Datatype;
use tiledb_engine::format::fragment::footer::Footer;
use tiledb_engine::format::schema::ArraySchema;
use tiledb_engine::storage::MetadataCache;

use super::{Random, number};
use crate::golden::pruning;
use crate::support::array_files::{Files, METADATA_FILE, contents, join_footer, split_footer};
use crate::support::neutral_rows;
use crate::support::trials::SqlTrial;
use crate::{block_on, trial};

trials!(contradictions());

/// Arrays with statistics of numbers, whose metadata are made to contradict themselves.
const CONTRADICTED: [&str; 11] = [
    "weather_stations",
    "dense_overlapping",
    "sparse_overwrite_hilbert",
    "sparse_consolidated_then_more",
    "sparse_nullable",
    "sparse_dates",
    "current_domain_sparse",
    "rtree_three_levels",
    "dense_nullable_var",
    "enum_dense",
    "evolved_sparse",
];

/// So many of each array, or as many as `MUTATIONS` says.
const CONTRADICTIONS: u64 = 6;

/// A box, a minimum or a count that cannot be one is unknown. It rules nothing out and answers nothing: whatever is asked, the
/// cells are asked, and in an array that is dense by its domain, or where all is unknown, there may be an error.
fn contradictions() -> Vec<SqlTrial> {
    let each = CONTRADICTED.iter().map(|array| {
        let array = *array;
        trial(format!("contradicted_{array}"), move || {
            block_on(contradicted(array))
        })
    });
    each.collect()
}

async fn contradicted(array: &str) -> Result<(), Failed> {
    let original = Files::golden(array).plain();
    let Some((_, rows)) = whole(&original, "cells").await? else {
        return Err("the array itself has no rows".into());
    };
    let expected = neutral_rows::rows(std::slice::from_ref(&rows));
    let cases = match number("MUTATION_CASE") {
        Some(case) => case..case + 1,
        None => 0..number("MUTATIONS").unwrap_or(CONTRADICTIONS),
    };
    let (mut changed, mut answers) = (0, 0);
    for case in cases {
        let mut random = Random((case + 7).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        (0..4).for_each(|_| {
            random.next();
        });
        let mut files = original.clone();
        let mut what = format!("{array}, case {case}");
        for _ in 0..1 + random.below(3) {
            if let Some(more) = contradict(&mut files, &mut random) {
                what.push_str(&format!("; {more}"));
            }
        }
        if files.0 == original.0 {
            continue;
        }
        changed += 1;
        let way = ["metadata", "cells"][random.below(2)];
        let found = match whole(&files, way).await {
            Ok(Some(found)) => found,
            Ok(None) => return Err(format!("{what}: no rows").into()),
            // The domain of a fragment is what its cells are counted by.
            Err(e)
                if what.contains("; domain of")
                    && !e.message().unwrap_or("").contains("internal") =>
            {
                continue;
            }
            Err(e) => return Err(format!("{what}: {e:?}").into()),
        };
        let (table, rows) = found;
        if neutral_rows::rows(std::slice::from_ref(&rows)) != expected {
            return Err(format!("{what}: other rows than before").into());
        }
        answers += 1;
        let memory = MemTable::try_new(rows.schema(), vec![vec![rows.clone()]])?;
        let name = PathBuf::from(format!("{array}{case}"));
        let compared = pruning::compare(&name, &table, &Arc::new(memory), &rows, 6).await;
        compared.map_err(|e| format!("{what}: {}", e.message().unwrap_or_default()))?;
    }
    if number("MUTATION_CASE").is_none() && (changed == 0) {
        return Err(format!("{array}: {changed} cases, {answers} answers").into());
    }
    println!("{array}: {changed} cases, {answers} answers");
    Ok(())
}

/// Reads everything, in memory; `None` if there are no rows.
async fn whole(
    files: &Files,
    aggregate_from: &str,
) -> Result<Option<(Arc<TileDbTable>, RecordBatch)>, Failed> {
    let builder = TileDbTable::builder(files.aged_in_memory().await)
        .cache(Arc::new(MetadataCache::new(1 << 20)));
    let table = builder
        .option("aggregate_from", aggregate_from)?
        .open()
        .await?;
    let table = Arc::new(table);
    let all = SessionContext::new().read_table(Arc::clone(&table) as _)?;
    let schema = Arc::clone(all.schema().inner());
    let batches = all.collect().await?;
    let rows = concat_batches(&schema, &batches)?;
    Ok((rows.num_rows() > 0).then_some((table, rows)))
}

/// The bytes of a plain tile before its contents.
const PLAIN_BYTES: usize = 34 + 8 + 8 + 12;

/// The size in bytes and the datatype of the cells in a slot of a footer; the slot after the attributes has none.
fn cell_size(schema: &ArraySchema, slot: usize) -> Option<(usize, Datatype)> {
    let attributes = schema.attributes.len();
    match slot.checked_sub(attributes + 1) {
        None if slot == attributes => None,
        None => schema.attributes[slot]
            .cell_size()
            .map(|s| (s, schema.attributes[slot].datatype)),
        Some(d) => schema.dimensions[d]
            .cell_size()
            .map(|s| (s, schema.dimensions[d].datatype)),
    }
}

/// Makes the metadata of one fragment say what they cannot mean, and says what.
fn contradict(files: &mut Files, random: &mut Random) -> Option<String> {
    let paths = files.find_all(METADATA_FILE);
    let path = &paths[random.below(paths.len())];
    let file = files.0.get(path)?.clone();
    let (body, footer) = split_footer(&file);
    let (_, name) = Footer::peek_schema_name(footer).ok()?;
    let schema = ArraySchema::decode(&contents(&files.0[&format!("__schema/{name}")])).ok()?;
    let mut footer = Footer::decode(footer, &schema).ok()?;
    let mut body = body.to_vec();
    let attributes = schema.attributes.len();
    let slot = random.below(attributes + 1 + schema.dimensions.len());
    let size = cell_size(&schema, slot);
    let what = match random.below(5) {
        0 => {
            let (size, datatype) = size?;
            let [mins, maxes] = [&footer.sections.mins, &footer.sections.maxes];
            let [min, max] = [mins, maxes].map(|starts| section(&body, starts[slot]));
            let tiles = (min.len() - 16) / size;
            let at = 16 + random.below(tiles) * size;
            if tiles == 0 {
                return None;
            }
            turn(
                &mut body,
                min.start + at,
                max.start + at,
                size,
                datatype,
                random,
            )?;
            format!("bounds of a tile in slot {slot} of {path}")
        }
        1 => {
            let counts = section(&body, footer.sections.null_counts[slot]);
            let tiles = (counts.len() - 8) / 8;
            if tiles == 0 {
                return None;
            }
            let at = counts.start + 8 + 8 * random.below(tiles);
            let value = [u64::MAX, 1 << 40, 1 << 63][random.below(3)];
            body[at..at + 8].copy_from_slice(&value.to_le_bytes());
            format!("null count of a tile in slot {slot} of {path}")
        }
        2 | 3 => {
            let tree = section(&body, footer.sections.rtree);
            let sizes = schema
                .dimensions
                .iter()
                .map(|d| d.cell_size())
                .collect::<Option<Vec<_>>>()?;
            let tiles = usize::try_from(footer.sparse_tile_count).ok()?;
            let width = 2 * sizes.iter().sum::<usize>();
            // The leaves are the last level.
            let leaves = tree.end.checked_sub(tiles * width).filter(|_| tiles > 0)?;
            let d = random.below(sizes.len());
            let before = 2 * sizes[..d].iter().sum::<usize>();
            let at = leaves + random.below(tiles) * width + before;
            let datatype = schema.dimensions[d].datatype;
            turn(&mut body, at, at + sizes[d], sizes[d], datatype, random)?;
            format!("rectangle of a tile in dimension {d} of {path}")
        }
        _ => {
            let domain = footer.non_empty_domain.as_mut()?;
            let range = domain.get_mut(random.below(schema.dimensions.len()))?;
            if range.lo == range.hi || footer.version.get() != 22 {
                return None;
            }
            std::mem::swap(&mut range.lo, &mut range.hi);
            format!("domain of {path}")
        }
    };
    let footer = match footer.version.get() {
        22 => footer.encode(&schema),
        _ => split_footer(&file).1.to_vec(),
    };
    files.edit(path, |bytes| *bytes = join_footer(&body, &footer));
    Some(what)
}

/// Where the contents of a plain section are.
fn section(body: &[u8], start: u64) -> std::ops::Range<usize> {
    let start = usize::try_from(start).expect("small");
    let size = body[start + 12..start + 20]
        .try_into()
        .expect("eight bytes");
    let begin = start + PLAIN_BYTES;
    begin..begin + usize::try_from(u64::from_le_bytes(size)).expect("small")
}

/// Puts the low end above the high end, or NaN in the place of one. `None` if both ends are the same number.
fn turn(
    body: &mut [u8],
    lo: usize,
    hi: usize,
    size: usize,
    datatype: Datatype,
    random: &mut Random,
) -> Option<()> {
    let nan = match datatype {
        Datatype::Float32 => f32::NAN.to_le_bytes().to_vec(),
        Datatype::Float64 => f64::NAN.to_le_bytes().to_vec(),
        _ => Vec::new(),
    };
    if nan.len() == size && random.below(2) == 0 {
        let at = [lo, hi][random.below(2)];
        body[at..at + size].copy_from_slice(&nan);
        return Some(());
    }
    let (low, high) = (body[lo..lo + size].to_vec(), body[hi..hi + size].to_vec());
    if low == high || size != datatype.size() {
        return None;
    }
    body[lo..lo + size].copy_from_slice(&high);
    body[hi..hi + size].copy_from_slice(&low);
    Some(())
}
