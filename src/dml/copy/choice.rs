//! Chooses the parts of a new array that a COPY doesn't specify, from the rows it has seen.

use std::fmt;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use tiledb_engine::Error;
use tiledb_engine::array::snapshot::Snapshot;
use tiledb_engine::arrow::{NullPolicy, TypeOptions};
use tiledb_engine::write::create::ArrayBuilder;
use tiledb_engine::write::fields::{WrittenFields, cell_writers};
use tiledb_engine::write::trial::{BestFilters, best_filters};

use super::profile::RowProfile;
use crate::error::to_datafusion_error;

/// The approximate maximum of a tile's bytes in the widest column.
const TILE_BYTES: u64 = 4 << 20;
/// The cells of a tile of a sparse array, if they are narrow enough.
const MOST_CAPACITY: u64 = 100_000;
const USUAL_CAPACITY: u64 = 10_000;
const LEAST_CAPACITY: u64 = 1_000;
/// The number of tiles above which tiles get more cells than usual.
const MANY_TILES: u64 = 1_000;
/// The rows per value from which an enumeration is worth its file.
const ROWS_PER_VALUE: u64 = 16;
/// The cells per string from which the dictionary of a tile is a small part of it.
const CELLS_PER_STRING: u64 = 64;
/// The cells of a tile up to which dictionaries of strings number their entries in two bytes; then in four.
const SHORT_IDS: u64 = 65_535;

/// The source of the domains of dimensions without a chosen domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DomainChoice {
    /// The types, so that any row can be added later; but the rows for dense arrays, and along a Hilbert curve.
    Types,
    /// The rows: the least and the greatest value.
    Rows,
}

/// A choice, as an option with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OptionChoice {
    /// The option, without prefix.
    pub(super) option: String,
    /// The chosen value.
    pub(super) value: String,
}

impl fmt::Display for OptionChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.option, self.value)
    }
}

impl OptionChoice {
    /// The filters of a column, which proved best.
    pub(super) fn of_filters(builder: &ArrayBuilder, column: &str, best: &BestFilters) -> Self {
        let kind = if builder.dimensions().any(|dimension| dimension == column) {
            "dim"
        } else {
            "attr"
        };
        let filters = match best.filters.to_string() {
            none if none.is_empty() => "none".to_owned(),
            some => some,
        };
        let per_cent = best.after.saturating_mul(100) / best.before.max(1);
        Self {
            option: format!("{kind}.{column}.filters"),
            value: format!("{filters} ({per_cent} % of the sample's bytes)"),
        }
    }
}

/// Chooses domains, order, extents, capacity and enumerations.
///
/// # Errors
/// A coordinate does not fit its dimension, or the rows of a dense array leave cells of their domain out.
pub(super) fn choose(
    builder: &mut ArrayBuilder,
    profile: &mut RowProfile,
    domains: DomainChoice,
    types: &TypeOptions,
) -> Result<Vec<OptionChoice>> {
    let mut made = Vec::new();
    let mut say = |option: String, value: String| made.push(OptionChoice { option, value });
    let capacity = capacity(profile, builder);
    let tile = builder.capacity().unwrap_or(capacity);
    // Cells of one tile are all read together, whatever their order.
    let hilbert = builder.may_follow_hilbert() && profile.rows > tile;
    if hilbert || builder.lacks_domains() || domains == DomainChoice::Rows {
        let mut chosen = false;
        for column in &mut profile.columns {
            let range = column.range()?;
            let Some([low, high]) = &range else {
                continue;
            };
            let room = !builder.is_dense() && domains == DomainChoice::Types;
            let shown = builder.suggest_domain(&column.name, [low, high], room, types);
            if let Some(shown) = shown.map_err(to_datafusion_error)? {
                say(format!("dim.{}.domain", column.name), shown);
                chosen = true;
            }
        }
        if chosen {
            check_full(builder, profile.rows).map_err(to_datafusion_error)?;
        }
    }
    let names = builder.dimensions().map(str::to_owned).collect::<Vec<_>>();
    if hilbert && names.iter().all(|name| builder.has_domain(name)) {
        builder.suggest_hilbert();
        say("cell_order".to_owned(), "hilbert".to_owned());
    }
    for (name, parts) in parts(builder, profile.rows / tile.max(1)) {
        let column = profile.columns.iter_mut().find(|c| c.name == name);
        let range = column.map(|column| column.range()).transpose()?.flatten();
        let Some([low, high]) = &range else {
            continue;
        };
        let tile = builder.suggest_tile(&name, [low, high], parts, types);
        for (option, value) in tile.map_err(to_datafusion_error)? {
            say(format!("dim.{name}.{option}"), value);
        }
    }
    if profile.rows > 0 && builder.suggest_capacity(capacity) {
        say("capacity".to_owned(), capacity.to_string());
    }
    for column in &profile.columns {
        let values = if builder.may_be_enumerated(&column.name) {
            column.few_values()
        } else {
            None
        };
        let Some(values) = values else {
            continue;
        };
        let count = values.len() as u64;
        if count > 0 && count.saturating_mul(ROWS_PER_VALUE) <= profile.rows {
            builder.suggest_enumeration(&column.name, values);
            let option = format!("attr.{}.enumeration", column.name);
            say(option, format!("[{count} values]"));
        }
    }
    Ok(made)
}

/// As many cells as usual; more if each tile would repeat much of a dictionary, and fewer if the cells of some column are wide.
fn capacity(profile: &RowProfile, builder: &ArrayBuilder) -> u64 {
    let widest = profile.columns.iter().map(|column| column.bytes).max();
    let width = widest.unwrap_or(0).div_ceil(profile.rows.max(1)).max(1);
    let usual = (profile.rows / MANY_TILES).clamp(USUAL_CAPACITY, MOST_CAPACITY);
    let most = match repeated(profile, builder) {
        Some(values) => usual
            .max(values.saturating_mul(CELLS_PER_STRING))
            .min(SHORT_IDS),
        None => usual,
    };
    (TILE_BYTES / width).clamp(LEAST_CAPACITY, most)
}

/// The most values that a dimension of text repeats in tile after tile. Cells are sorted by the first dimension, so that a tile has
/// few values of it.
fn repeated(profile: &RowProfile, builder: &ArrayBuilder) -> Option<u64> {
    let values = builder.dimensions().skip(1).filter_map(|name| {
        let column = profile.columns.iter().find(|c| c.name == name);
        let values = column?.count_of_few()? as u64;
        (values.saturating_mul(CELLS_PER_STRING) <= profile.rows).then_some(values)
    });
    values.max()
}

/// The number of space tiles into which each dimension is cut, if `tiles` tiles hold all rows.
///
/// Without space tiles, a range of the dimension by which cells are sorted first covers a few neighbouring tiles, but a range
/// of any other dimension touches all tiles. So the other dimensions are cut. Within each space tile cells are sorted by the
/// first dimension, which still divides most of the tiles.
fn parts(builder: &ArrayBuilder, tiles: u64) -> Vec<(String, u64)> {
    let Some(cut) = builder.cut_dimensions() else {
        return Vec::new();
    };
    // A range of the first dimension reads a tile of every space tile, so the first one counts half a dimension more, and a
    // whole one more beside a single other.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let (tiles, dimensions) = (tiles as f64, (cut.len() as f64 + 1.5).max(3.0));
    let parts = tiles.powf(dimensions.recip()).floor();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the root of a small number of tiles"
    )]
    let parts = parts as u64;
    let cut = cut.into_iter().filter(|_| parts > 1);
    cut.map(|name| (name, parts)).collect()
}

/// The keys between which the coordinates of all rows lie, for each dimension.
pub(super) fn key_ranges(
    builder: &ArrayBuilder,
    profile: &mut RowProfile,
    types: &TypeOptions,
) -> Result<Vec<Option<(u64, u64)>>> {
    let names = builder.dimensions().map(str::to_owned).collect::<Vec<_>>();
    let ranges = names.iter().map(|name| {
        let column = profile.columns.iter_mut().find(|c| c.name == *name);
        let range = column.map(|column| column.range()).transpose()?.flatten();
        let Some([low, high]) = &range else {
            return Ok(None);
        };
        let keys = builder.key_range(name, [low, high], types);
        keys.map_err(to_datafusion_error)
    });
    ranges.collect()
}

/// Fails unless the rows of a dense array are all cells of its domain: missing cells would read as fill values.
fn check_full(builder: &ArrayBuilder, rows: u64) -> tiledb_engine::Result<()> {
    match builder.dense_cells()? {
        Some(cells) if cells != u128::from(rows) => Err(Error::invalid(format!(
            "the rows aren't a full grid: there are {rows}, and the box between their least and greatest coordinates has {cells} \
             cells; copy them to a sparse array, or choose tiledb.dim.<name>.domain of all dimensions, and cells without a row \
             show fill values"
        ))),
        _ => Ok(()),
    }
}

/// The first rows in the order in which they are stored, for trying filters.
#[derive(Debug)]
pub(super) struct SampledRows {
    /// The array as it would be with the usual filters.
    pub(super) snapshot: Snapshot,
    pub(super) types: TypeOptions,
    pub(super) builder: ArrayBuilder,
    /// A column for each dimension and attribute, and perhaps more.
    pub(super) rows: Vec<RecordBatch>,
}

impl SampledRows {
    /// The filters of columns that become smaller with them than with the usual ones. This takes long, so call it on a thread
    /// of its own.
    ///
    /// # Errors
    /// The schema cannot be written.
    pub(super) fn filters(self) -> Result<Vec<(String, BestFilters)>> {
        self.tried().map_err(to_datafusion_error)
    }

    fn tried(&self) -> tiledb_engine::Result<Vec<(String, BestFilters)>> {
        let snapshot = &self.snapshot;
        let fields = WrittenFields::new(&snapshot.schema, snapshot.schema_name()?);
        let writers = cell_writers(snapshot, &self.types, NullPolicy::Refused)?;
        // Coordinates of dense cells are not stored.
        let unstored = writers.len().saturating_sub(fields.fields.len());
        let stored = writers.iter().enumerate().skip(unstored);
        let mut found = Vec::new();
        for (field, (i, writer)) in fields.fields.iter().zip(stored) {
            let columns = self.rows.iter().filter_map(|batch| batch.columns().get(i));
            let mut cells = writer.no_cells();
            // The write reports values that can't be stored, with their cells.
            if columns
                .into_iter()
                .any(|column| writer.append(column, &mut cells).is_err())
            {
                continue;
            }
            let name = self
                .rows
                .first()
                .map(|batch| batch.schema().field(i).name().clone());
            let Some(name) = name.filter(|name| self.builder.are_filters_open(name)) else {
                continue;
            };
            found.extend(best_filters(&fields, field, &cells)?.map(|best| (name, best)));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, FixedSizeBinaryArray, Int64Array, StringArray};
    use datafusion::arrow::datatypes::SchemaRef;

    use super::*;

    /// The capacity for rows with `names` different names, in the order of their number or by turns.
    fn of_names(rows: i64, names: i64, dimensions: [&str; 2]) -> u64 {
        let name = |row| format!("S{}", row % names);
        let columns: [(&str, ArrayRef); 3] = [
            ("pos", Arc::new(Int64Array::from_iter_values(0..rows))),
            (
                "name",
                Arc::new(StringArray::from_iter_values((0..rows).map(name))),
            ),
            ("v", Arc::new(Int64Array::from_iter_values(0..rows))),
        ];
        of_columns(&columns, &dimensions)
    }

    fn of_columns(columns: &[(&str, ArrayRef)], dimensions: &[&str]) -> u64 {
        let columns = columns
            .iter()
            .map(|(name, values)| (*name, Arc::clone(values), false));
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let schema: SchemaRef = batch.schema();
        let builder = ArrayBuilder::new(&schema, dimensions).unwrap();
        let mut profile = RowProfile::new(&schema, &builder).unwrap();
        profile.add(&batch).unwrap();
        capacity(&profile, &builder)
    }

    #[test]
    fn tiles_are_large_beside_the_strings_that_all_of_them_have() {
        assert_eq!(of_names(20_000, 200, ["pos", "name"]), 12_800);
        assert_eq!(of_names(70_000, 1_050, ["pos", "name"]), SHORT_IDS);
    }

    #[test]
    fn tiles_have_few_strings_of_the_first_dimension_and_many_of_rare_ones() {
        assert_eq!(of_names(20_000, 200, ["name", "pos"]), USUAL_CAPACITY);
        assert_eq!(of_names(20_000, 400, ["pos", "name"]), USUAL_CAPACITY);
    }

    #[test]
    fn wide_columns_make_small_tiles() {
        let wide = FixedSizeBinaryArray::try_from_iter((0..40).map(|_| vec![7_u8; 2048])).unwrap();
        let columns: [(&str, ArrayRef); 2] = [
            ("pos", Arc::new(Int64Array::from_iter_values(0..40))),
            ("v", Arc::new(wide)),
        ];
        assert_eq!(of_columns(&columns, &["pos"]), TILE_BYTES / 2048);
    }
}
