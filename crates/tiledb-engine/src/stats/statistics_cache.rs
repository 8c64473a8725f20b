//! The statistics of a plan's tiles, as Arrow arrays for a pruner.
//!
//! Bounds are converted like cells, by the type of the column, so that they compare as cells do; conversions keep the
//! order. If a conversion fails, the bounds are unknown. For the two zeros of floats see [`outer_zeros`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array, new_null_array};
use arrow::buffer::NullBuffer;
use arrow::compute::kernels::cmp::gt;
use arrow::compute::{concat, nullif, take};
use arrow::datatypes::DataType;

use crate::array::fragment::boxes::{TileBoxes, TileRange};
use crate::array::fragment::{Fragment, TileIdx};
use crate::array::table::ArrayTable;
use crate::arrow::{CellData, ColumnType, TileBuffer, UnfilteredCells};
use crate::error::{Error, Result};
use crate::format::schema::CellValNum;
use crate::geometry::domain::KeyBox;
use crate::geometry::key;
use crate::stats::enumerated::ValueOrder;
use crate::stats::known::{KnownColumn, KnownStatistics, StoredStatistics};
use crate::stats::pruner::{ColumnStatistics, PrunedTileStatistics, TilePruner, Verdict};
use crate::stats::{bounds, outer_zeros};

/// The box around the cells of a tile.
#[derive(Debug, Clone, Copy)]
pub enum TileExtent<'a> {
    /// The tile's box.
    Box(&'a TileBoxes),
    /// This box.
    Cells(&'a KeyBox),
}

/// A tile that a pruner is evaluated on.
#[derive(Debug, Clone, Copy)]
pub struct CandidateTile<'a> {
    /// Its number in the fragment.
    pub tile: TileIdx,
    /// The number of cells that its statistics cover.
    pub cells: u64,
    /// The box around its cells.
    pub extent: TileExtent<'a>,
    /// The statistics of its attributes; `None` if it may be pruned by its coordinates only.
    pub known: Option<&'a KnownStatistics>,
}

/// The smallest and the largest stored value.
type StoredBounds = (Vec<u8>, Vec<u8>);

/// The number of a fragment in the plan, and columns.
type StatisticsKey = (usize, Vec<usize>);

/// The statistics of a plan's fragments, loaded as they are needed.
#[derive(Debug)]
pub struct StatisticsCache {
    table: Arc<ArrayTable>,
    known: Mutex<HashMap<StatisticsKey, Arc<KnownStatistics>>>,
    orders: Vec<OnceLock<Option<ValueOrder>>>,
}

/// Minima, maxima, NULL counts and codes of one column in some tiles.
struct CachedBounds {
    min: ArrayRef,
    max: ArrayRef,
    nulls: Vec<Option<u64>>,
    codes: Option<Vec<Option<(u64, u64)>>>,
}

impl StatisticsCache {
    /// An empty cache.
    pub fn new(table: &Arc<ArrayTable>) -> Self {
        Self {
            table: Arc::clone(table),
            known: Mutex::default(),
            orders: table.types.iter().map(|_| OnceLock::new()).collect(),
        }
    }

    /// The statistics of some columns in the fragment with this number in the plan.
    pub async fn of_fragment(
        &self,
        number: usize,
        fragment: &Fragment,
        columns: &[usize],
    ) -> Result<Arc<KnownStatistics>> {
        let key = (number, columns.to_vec());
        let found = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = found().get(&key) {
            return Ok(Arc::clone(known));
        }
        let known = Arc::new(KnownStatistics::load(&self.table, fragment, columns).await?);
        found().insert(key, Arc::clone(&known));
        Ok(known)
    }

    /// The array as a table.
    pub fn table(&self) -> &ArrayTable {
        &self.table
    }

    /// Whether a pruner reads a system column.
    pub fn reads_system_columns(&self, pruner: &dyn TilePruner) -> bool {
        let mut columns = pruner.columns().iter();
        columns.any(|c| self.table.system_column(*c).is_some())
    }

    /// Whether a pruner reads an attribute or a system column.
    pub fn reads_attributes(&self, pruner: &dyn TilePruner) -> bool {
        let dimensions = self.table.dimension_count();
        pruner.columns().iter().any(|c| *c >= dimensions)
    }

    /// Whether a pruner reads a dimension.
    pub fn reads_dimensions(&self, pruner: &dyn TilePruner) -> bool {
        let dimensions = self.table.dimension_count();
        pruner.columns().iter().any(|c| *c < dimensions)
    }

    /// Evaluates a pruner on some tiles: one verdict per tile.
    pub fn evaluate(
        &self,
        pruner: &dyn TilePruner,
        tiles: &[CandidateTile<'_>],
    ) -> Result<Vec<Verdict>> {
        if tiles.is_empty() {
            return Ok(Vec::new());
        }
        let mut verdicts = pruner.evaluate(&self.statistics(pruner.columns(), tiles)?);
        verdicts.resize(tiles.len(), Verdict::Something);
        Ok(verdicts)
    }

    /// The statistics of some columns of some tiles.
    pub fn statistics(
        &self,
        columns: &[usize],
        tiles: &[CandidateTile<'_>],
    ) -> Result<PrunedTileStatistics> {
        let columns = columns
            .iter()
            .map(|column| {
                let bounds = self.bounds(*column, tiles)?;
                Ok(ColumnStatistics {
                    column: *column,
                    min: bounds.min,
                    max: bounds.max,
                    null_counts: bounds.nulls.into_iter().collect(),
                    codes: bounds.codes,
                })
            })
            .collect::<Result<_>>()?;
        Ok(PrunedTileStatistics {
            tiles: tiles.len(),
            cells: tiles.iter().map(|t| t.cells).collect::<Vec<_>>().into(),
            columns,
        })
    }

    fn bounds(&self, column: usize, tiles: &[CandidateTile<'_>]) -> Result<CachedBounds> {
        let ty = self
            .table
            .types
            .get(column)
            .ok_or_else(|| Error::internal(format!("there is no column {column}")))?;
        let mut bounds = if column < self.table.dimension_count() {
            self.of_dimension(column, ty, tiles)?
        } else {
            self.of_attribute(column, ty, tiles)?
        };
        bounds.min = outer_zeros(&bounds.min, false);
        bounds.max = outer_zeros(&bounds.max, true);
        // Tiles without values store sentinels as bounds; damaged bounds may be in the wrong order, too.
        let crossed = gt(&bounds.min, &bounds.max);
        if let Ok(crossed) = crossed
            && crossed.true_count() > 0
        {
            let without = |array: &ArrayRef| {
                nullif(array, &crossed)
                    .map_err(|e| Error::internal("bounds cannot be taken back").with_source(e))
            };
            bounds.min = without(&bounds.min)?;
            bounds.max = without(&bounds.max)?;
        }
        Ok(bounds)
    }

    fn of_dimension(
        &self,
        column: usize,
        ty: &ColumnType,
        tiles: &[CandidateTile<'_>],
    ) -> Result<CachedBounds> {
        let dimension = self.table.snapshot.schema.dimensions.get(column);
        let dimension = dimension.ok_or_else(|| Error::internal("there is no such dimension"))?;
        let datatype = dimension.datatype;
        let stored = |(lo, hi)| (key::from_key(datatype, lo), key::from_key(datatype, hi));
        let ends = |tile: &CandidateTile<'_>| match tile.extent {
            TileExtent::Box(boxes) => match boxes.range(tile.tile.get(), column) {
                TileRange::Bytes { lo, hi } => Some((lo.to_vec(), hi.to_vec())),
                range => range.keys().map(stored),
            },
            TileExtent::Cells(cells) => cells.range(column).map(stored),
        };
        let mut bounds = CachedBounds::unknown(ty, tiles);
        bounds.nulls = vec![Some(0); tiles.len()];
        if dimension.cell_val_num == CellValNum::Var {
            if !ty.is_lossy() {
                let to = ty.data_type();
                bounds.min = bounds::text_array(tiles.iter().map(|t| Some(ends(t)?.0)), to);
                bounds.max = bounds::text_array(tiles.iter().map(|t| Some(ends(t)?.1)), to);
            }
            return Ok(bounds);
        }
        let ends = tiles.iter().map(ends);
        if let Some((min, max)) = converted(ty, ends.collect())? {
            (bounds.min, bounds.max) = (min, max);
        }
        Ok(bounds)
    }

    fn of_attribute(
        &self,
        column: usize,
        ty: &ColumnType,
        tiles: &[CandidateTile<'_>],
    ) -> Result<CachedBounds> {
        let same = |a: &CandidateTile<'_>, b: &CandidateTile<'_>| match (a.known, b.known) {
            (Some(a), Some(b)) => std::ptr::eq(a, b),
            (a, b) => a.is_none() && b.is_none(),
        };
        let mut parts = Vec::new();
        for run in tiles.chunk_by(same) {
            let known = run.first().and_then(|t| t.known);
            parts.push(match known.map(|known| known.column(column)) {
                None | Some(KnownColumn::Nothing) => CachedBounds::unknown(ty, run),
                Some(KnownColumn::Constant(value)) => CachedBounds::constant(value, ty, run)?,
                Some(KnownColumn::Stored(stored)) => self.stored(column, ty, stored, run)?,
            });
        }
        CachedBounds::concat(parts)
    }

    fn stored(
        &self,
        column: usize,
        ty: &ColumnType,
        stored: &StoredStatistics,
        tiles: &[CandidateTile<'_>],
    ) -> Result<CachedBounds> {
        let mut bounds = CachedBounds::unknown(ty, tiles);
        if ty.fill_is_null() && !stored.is_text() {
            // Only the bounds show whether such cells exist.
            return Ok(bounds);
        }
        bounds.nulls = tiles.iter().map(|t| stored.null_count(t.tile)).collect();
        if ty.enumeration_values().is_some() {
            self.enumerated(column, ty, stored, tiles, &mut bounds)?;
            return Ok(bounds);
        }
        let ends = tiles.iter().map(|t| stored.min_max(t.tile, t.cells));
        if stored.is_text() {
            let ends = ends.collect::<Vec<_>>();
            let to = ty.data_type();
            let mins = ends
                .iter()
                .map(|e| e.map(|(min, _)| bounds::text_lower(min)));
            bounds.min = bounds::text_array(mins, to);
            let maxes = ends
                .iter()
                .map(|e| e.map(|(_, max)| bounds::text_upper(max)));
            bounds.max = bounds::text_array(maxes, to);
            if ty.fill_is_null() {
                for (nulls, ends) in bounds.nulls.iter_mut().zip(&ends) {
                    if ends.is_none_or(|(_, max)| !max.is_ascii()) {
                        *nulls = None;
                    }
                }
            }
            return Ok(bounds);
        }
        let ends = ends
            .map(|e| e.map(|(min, max)| (min.to_vec(), max.to_vec())))
            .collect::<Vec<_>>();
        if ty.nat_is_null() {
            for (nulls, ends) in bounds.nulls.iter_mut().zip(&ends) {
                let nat = i64::MIN.to_le_bytes();
                // NaT sorts below all times and reads as NULL.
                if ends.as_ref().is_none_or(|(min, _)| *min == nat) {
                    *nulls = None;
                }
            }
        }
        if let Some((min, max)) = converted(ty, ends)? {
            (bounds.min, bounds.max) = (min, max);
        }
        Ok(bounds)
    }

    fn enumerated(
        &self,
        column: usize,
        ty: &ColumnType,
        stored: &StoredStatistics,
        tiles: &[CandidateTile<'_>],
        bounds: &mut CachedBounds,
    ) -> Result<()> {
        let (Some(values), Some(order)) = (ty.enumeration_values(), self.orders.get(column)) else {
            return Ok(());
        };
        let Some(order) = order.get_or_init(|| ValueOrder::new(values).ok()) else {
            return Ok(());
        };
        let datatype = ty.code_datatype();
        let mut codes = Vec::with_capacity(tiles.len());
        for (tile, nulls) in tiles.iter().zip(&mut bounds.nulls) {
            let ends = stored
                .min_max(tile.tile, tile.cells)
                .and_then(|(min, max)| {
                    let code = |bytes| key::key(datatype, bytes).ok();
                    code(min).zip(code(max))
                });
            // Codes outside the enumeration read as NULL, and so do invalid times in it.
            let zero = key::key(datatype, &vec![0; datatype.size()])?;
            let past = zero.saturating_add(order.len());
            codes.push(ends.and_then(|(lo, hi)| {
                let (first, last) = (lo.max(zero), hi.min(past.checked_sub(1)?));
                (first <= last).then(|| (first - zero, last - zero))
            }));
            let some_null = values.null_count() > 0;
            if some_null || ends.is_none_or(|(lo, hi)| lo < zero || hi >= past) {
                *nulls = None;
            }
        }
        let ends = codes.iter().map(|range| {
            let (lo, hi) = (*range)?;
            order.ends(lo, hi)
        });
        let (mins, maxes): (Vec<_>, Vec<_>) = ends.map(Option::unzip).unzip();
        bounds.min = picked(values, mins)?;
        bounds.max = picked(values, maxes)?;
        bounds.codes = Some(codes);
        Ok(())
    }
}

impl CachedBounds {
    fn unknown(ty: &ColumnType, tiles: &[CandidateTile<'_>]) -> Self {
        let nothing = new_null_array(value_type(ty), tiles.len());
        Self {
            min: Arc::clone(&nothing),
            max: nothing,
            nulls: vec![None; tiles.len()],
            codes: None,
        }
    }

    /// The bounds if every cell has the same value.
    fn constant(value: &ArrayRef, ty: &ColumnType, tiles: &[CandidateTile<'_>]) -> Result<Self> {
        let mut bounds = Self::unknown(ty, tiles);
        let null = value.is_null(0);
        let nulls = tiles.iter().map(|t| Some(if null { t.cells } else { 0 }));
        bounds.nulls = nulls.collect();
        if null {
            return Ok(bounds);
        }
        let mut value = Arc::clone(value);
        let mut index = 0_u64;
        if let Some(dictionary) = value.as_any_dictionary_opt() {
            let code = dictionary.normalized_keys().first().copied().unwrap_or(0);
            index = code as u64;
            value = Arc::clone(dictionary.values());
            bounds.codes = Some(vec![Some((index, index)); tiles.len()]);
        }
        bounds.min = picked(&value, vec![Some(index); tiles.len()])?;
        bounds.max = Arc::clone(&bounds.min);
        Ok(bounds)
    }

    fn concat(mut parts: Vec<Self>) -> Result<Self> {
        if parts.len() == 1
            && let Some(one) = parts.pop()
        {
            return Ok(one);
        }
        let together = |of: fn(&Self) -> &ArrayRef| {
            let arrays = parts.iter().map(|p| of(p).as_ref()).collect::<Vec<_>>();
            let differ = |e| Error::internal("bounds of fragments differ in type").with_source(e);
            concat(&arrays).map_err(differ)
        };
        let (min, max) = (together(|p| &p.min)?, together(|p| &p.max)?);
        let codes = parts.iter().any(|p| p.codes.is_some()).then(|| {
            let codes = parts.iter().flat_map(|p| match &p.codes {
                Some(codes) => codes.clone(),
                None => vec![None; p.nulls.len()],
            });
            codes.collect()
        });
        Ok(Self {
            min,
            max,
            codes,
            nulls: parts.into_iter().flat_map(|p| p.nulls).collect(),
        })
    }
}

/// The type of a column's values.
fn value_type(ty: &ColumnType) -> &DataType {
    ty.enumeration_values()
        .map_or(ty.data_type(), |values| values.data_type())
}

/// Stored pairs of bounds as arrays; `None` if they cannot be converted.
fn converted(
    ty: &ColumnType,
    ends: Vec<Option<(Vec<u8>, Vec<u8>)>>,
) -> Result<Option<(ArrayRef, ArrayRef)>> {
    let Some(size) = ty.cell_bytes() else {
        return Ok(None);
    };
    let nulls: NullBuffer = ends.iter().map(Option::is_some).collect();
    let array = |pick: fn(&StoredBounds) -> &Vec<u8>| {
        let mut values = Vec::with_capacity(size.saturating_mul(ends.len()));
        for ends in &ends {
            match ends.as_ref().map(pick) {
                Some(bytes) if bytes.len() == size => values.extend_from_slice(bytes),
                Some(_) => return None,
                None => values.resize(values.len() + size, 0),
            }
        }
        let cells = UnfilteredCells {
            len: ends.len(),
            data: CellData::Fixed(TileBuffer::copy_of(&values).ok()?),
            nulls: Some(nulls.clone()),
        };
        ty.to_array(cells).ok()
    };
    Ok(array(|e| &e.0).zip(array(|e| &e.1)))
}

/// Takes the values at some indices.
fn picked(values: &ArrayRef, indices: Vec<Option<u64>>) -> Result<ArrayRef> {
    let indices = indices
        .into_iter()
        .map(|index| index.and_then(|p| u32::try_from(p).ok()))
        .collect::<UInt32Array>();
    take(values, &indices, None)
        .map_err(|e| Error::internal("there is no such value").with_source(e))
}
