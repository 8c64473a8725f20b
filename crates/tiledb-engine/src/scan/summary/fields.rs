//! Where one fragment's metadata answer for each requested column, and whether they can be trusted.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};

use crate::array::fragment::boxes::TileRange;
use crate::array::fragment::statistics::{FieldStatistics, StatisticsWanted, TileSum};
use crate::array::fragment::{Fragment, FragmentField};
use crate::arrow::{CellShape, ColumnType, fill_array, stored_values};
use crate::error::{Error, Result};
use crate::format::datatype::Datatype;
use crate::format::fragment::rtree::Mbrs;
use crate::format::schema::CellValNum;
use crate::geometry::domain::KeyBox;
use crate::geometry::key::{self, NativeKey};
use crate::scan::plan::dense::DensePlan;
use crate::scan::plan::sparse_units::SparseUnit;
use crate::scan::plan::whole::WholeTile;
use crate::scan::plan::{PlanUnits, ScanPlan};
use crate::stats::trust::{
    FieldTrust, ProvenAggregates, RequestedAggregates, StoredTileStatistics, SumRounding,
    tells_dimension,
};
use crate::storage::Storage;
use crate::tile::fields::{ColumnSource, FragmentScan};

/// The requested columns in one fragment.
pub(super) struct SummaryFields<'a> {
    scan: &'a FragmentScan,
    asked: &'a [RequestedAggregates],
    fields: Vec<SummaryField<'a>>,
    /// The loaded statistics, of those fields that have any, in their order.
    statistics: Vec<FieldStatistics>,
}

/// The source of the answers for one column.
pub(super) enum SummaryField<'a> {
    /// The tile grid, for a dimension of a dense array.
    Grid {
        dimension: usize,
        datatype: Datatype,
    },
    /// Stored statistics, and MBRs if the field is a dimension.
    Stored {
        field: FragmentField,
        trust: FieldTrust,
        mbrs: Option<(&'a Mbrs, usize)>,
        /// The index of its loaded statistics.
        loaded: Option<usize>,
    },
    /// One value for all cells: the fill value of an attribute that the fragment does not have, or a system column.
    Fill {
        cell: ArrayRef,
        sum: Option<TileSum>,
    },
}

impl<'a> SummaryFields<'a> {
    /// `None` if the fragment can never answer the request.
    pub(super) fn new(
        plan: &'a ScanPlan,
        number: usize,
        asked: &'a [RequestedAggregates],
        rounding: SumRounding,
    ) -> Result<Option<Self>> {
        let scan = plan
            .fragments
            .get(number)
            .ok_or_else(|| Error::internal("a tile names a fragment not planned"))?;
        let mut fields = Vec::with_capacity(asked.len());
        for asked in asked {
            let Some(field) = field(plan, scan, asked, rounding)? else {
                return Ok(None);
            };
            fields.push(field);
        }
        Ok(Some(Self {
            scan,
            asked,
            fields,
            statistics: Vec::new(),
        }))
    }

    pub(super) fn fields(&self) -> &[SummaryField<'a>] {
        &self.fields
    }

    /// Loads the statistics that are needed.
    pub(super) async fn load(mut self, storage: &Storage) -> Result<Self> {
        let mut wanted = StatisticsWanted::default();
        let mut needed = Vec::new();
        for (asked, field) in self.asked.iter().zip(&mut self.fields) {
            let SummaryField::Stored {
                field,
                trust,
                mbrs,
                loaded,
            } = field
            else {
                continue;
            };
            let own = StatisticsWanted {
                min_max: mbrs.is_none() && trust.needs_bounds(asked),
                sums: trust.needs_sum(asked),
                null_counts: trust.needs_null_count(),
            };
            if own == StatisticsWanted::default() {
                continue;
            }
            wanted.min_max |= own.min_max;
            wanted.sums |= own.sums;
            wanted.null_counts |= own.null_counts;
            *loaded = Some(needed.len());
            needed.push(*field);
        }
        if !needed.is_empty() {
            let fragment = &self.scan.fragment;
            self.statistics = fragment.statistics(storage, &needed, wanted).await?;
        }
        Ok(self)
    }

    /// The values that metadata prove for a tile, column by column; `None` unless they answer for all columns.
    pub(super) fn check(&self, tile: &WholeTile) -> Option<Vec<ProvenAggregates<'_>>> {
        let fields = self.asked.iter().zip(&self.fields);
        fields
            .map(|(asked, field)| self.check_field(asked, field, tile))
            .collect()
    }

    fn check_field<'b>(
        &'b self,
        asked: &RequestedAggregates,
        field: &'b SummaryField<'a>,
        tile: &WholeTile,
    ) -> Option<ProvenAggregates<'b>> {
        let known = ProvenAggregates {
            count: tile.cells,
            min: None,
            max: None,
            sum: None,
            magnitude: 0,
        };
        match field {
            SummaryField::Grid {
                dimension,
                datatype,
            } => {
                if asked.sum.is_none() {
                    return Some(known);
                }
                let (sum, magnitude) = sum_of_grid(*datatype, tile.dense.as_ref()?, *dimension)?;
                Some(ProvenAggregates {
                    sum: Some(sum),
                    magnitude,
                    ..known
                })
            }
            SummaryField::Fill { cell, sum } => {
                let count = if cell.is_null(0) { 0 } else { tile.cells };
                let sum = match (asked.sum, sum) {
                    (Some(_), Some(one)) => Some(times(*one, count)?),
                    _ => None,
                };
                Some(ProvenAggregates {
                    count,
                    sum,
                    magnitude: sum.map_or(0, magnitude),
                    ..known
                })
            }
            SummaryField::Stored {
                trust,
                mbrs,
                loaded,
                ..
            } => {
                let own = loaded.and_then(|i| self.statistics.get(i));
                let mut stored = own
                    .map(|own| StoredTileStatistics::of(own, tile.tile))
                    .unwrap_or_default();
                if let Some((mbrs, dimension)) = mbrs {
                    let (lo, hi) = mbrs.range(tile.tile.get(), *dimension);
                    (stored.min, stored.max) = (Some(lo), Some(hi));
                }
                trust.check(asked, tile.cells, stored)
            }
        }
    }
}

fn field<'a>(
    plan: &ScanPlan,
    scan: &'a FragmentScan,
    asked: &RequestedAggregates,
    rounding: SumRounding,
) -> Result<Option<SummaryField<'a>>> {
    let table = &plan.spec.table;
    let own = &scan.fragment.schema;
    let missing = || Error::internal("what is requested isn't a column");
    let ty = table.types.get(asked.column).ok_or_else(missing)?;
    if asked.column < table.dimension_count() {
        let dimension = own.dimensions.get(asked.column).ok_or_else(missing)?;
        if scan.fragment.footer.dense {
            let datatype = dimension.datatype;
            return Ok(Some(SummaryField::Grid {
                dimension: asked.column,
                datatype,
            }));
        }
        let trust = FieldTrust::of_dimension(&scan.fragment, asked.column, ty);
        let trust = trust.map(|trust| trust.with_rounding(rounding));
        let (Some(trust), Some(boxes)) = (trust, &scan.boxes) else {
            return Ok(None);
        };
        return Ok(trust.may_know(asked).then_some(SummaryField::Stored {
            field: FragmentField::Dimension(asked.column),
            trust,
            mbrs: Some((boxes.mbrs(), asked.column)),
            loaded: None,
        }));
    }
    match scan.source(asked.column)? {
        ColumnSource::Fill => fill(plan, asked, ty, rounding),
        ColumnSource::Constant(cell) => Ok(asked.sum.is_none().then(|| SummaryField::Fill {
            cell: Arc::clone(cell),
            sum: None,
        })),
        ColumnSource::Stored { field, .. } => {
            let number = match field {
                FragmentField::Attribute(number) => number,
                FragmentField::Timestamps => return Ok(write_times(asked)),
                _ => return Ok(None),
            };
            let attribute = own.attributes.get(*number).ok_or_else(missing)?;
            // Where a value of the enumeration is NULL, a code need not stand for a value.
            let codes = ty
                .enumeration_values()
                .map(|values| match values.null_count() {
                    0 => values.len(),
                    _ => 0,
                });
            let trust = FieldTrust::of_attribute(&scan.fragment, attribute, ty)
                .with_rounding(rounding)
                .with_nat(ty.nat_is_null() && ty.shape() == CellShape::One)
                .with_codes(codes);
            // Stored NULLs that the array no longer allows are an error of the scan.
            let shown = !attribute.nullable || ty.nullable();
            let known = trust.may_know(asked) && shown;
            Ok(known.then_some(SummaryField::Stored {
                field: *field,
                trust,
                mbrs: None,
                loaded: None,
            }))
        }
    }
}

/// The times at which the cells of a fragment were written.
fn write_times<'a>(asked: &RequestedAggregates) -> Option<SummaryField<'a>> {
    let trust = FieldTrust::of_write_times();
    (asked.sum.is_none() && trust.may_know(asked)).then_some(SummaryField::Stored {
        field: FragmentField::Timestamps,
        trust,
        mbrs: None,
        loaded: None,
    })
}

fn fill<'a>(
    plan: &ScanPlan,
    asked: &RequestedAggregates,
    ty: &ColumnType,
    rounding: SumRounding,
) -> Result<Option<SummaryField<'a>>> {
    let table = &plan.spec.table;
    let attributes = &table.snapshot.schema.attributes;
    let number = table
        .shown_by(asked.column)
        .checked_sub(table.dimension_count());
    let Some(attribute) = number.and_then(|number| attributes.get(number)) else {
        return Err(Error::internal("what is requested isn't a column"));
    };
    // A fill value that cannot be shown is an error of the scan.
    let Ok(cell) = fill_array(attribute, ty, 1) else {
        return Ok(None);
    };
    let sum = if cell.is_null(0) {
        Some(TileSum::Int(0))
    } else {
        number_of(&cell)
    };
    let rounds = matches!(sum, Some(TileSum::Float(_))) && rounding == SumRounding::Exact;
    if asked.sum.is_some() && (sum.is_none() || rounds) {
        return Ok(None);
    }
    Ok(Some(SummaryField::Fill { cell, sum }))
}

/// The only value of an array, if it is a number.
fn number_of(cell: &ArrayRef) -> Option<TileSum> {
    macro_rules! first {
        ($type:ty) => {
            cell.as_primitive_opt::<$type>()?
                .values()
                .first()
                .copied()?
        };
    }
    Some(match cell.data_type() {
        DataType::Int8 => TileSum::Int(first!(Int8Type).into()),
        DataType::Int16 => TileSum::Int(first!(Int16Type).into()),
        DataType::Int32 => TileSum::Int(first!(Int32Type).into()),
        DataType::Int64 => TileSum::Int(first!(Int64Type)),
        DataType::UInt8 => TileSum::UInt(first!(UInt8Type).into()),
        DataType::UInt16 => TileSum::UInt(first!(UInt16Type).into()),
        DataType::UInt32 => TileSum::UInt(first!(UInt32Type).into()),
        DataType::UInt64 => TileSum::UInt(first!(UInt64Type)),
        DataType::Float32 => TileSum::Float(first!(Float32Type).into()),
        DataType::Float64 => TileSum::Float(first!(Float64Type)),
        _ => return None,
    })
}

/// The sum of `count` equal values; `None` if it does not fit in 64 bits.
fn times(one: TileSum, count: u64) -> Option<TileSum> {
    Some(match one {
        TileSum::Int(value) => TileSum::Int(value.checked_mul(i64::try_from(count).ok()?)?),
        TileSum::UInt(value) => TileSum::UInt(value.checked_mul(count)?),
        #[expect(clippy::cast_precision_loss, reason = "floats round")]
        TileSum::Float(value) => TileSum::Float(value * count as f64),
    })
}

/// The sum of the coordinates of all cells of a box, and a bound of its partial sums; `None` if it does not fit in 64
/// bits.
fn sum_of_grid(datatype: Datatype, cells: &KeyBox, dimension: usize) -> Option<(TileSum, u128)> {
    let (lo, hi) = cells.range(dimension)?;
    let side = i128::from(hi - lo) + 1;
    let each = i128::from(cells.cells()?) / side;
    let signed = datatype.is_signed();
    let value = |key: u64| {
        if signed {
            i128::from(i64::from_key(key))
        } else {
            i128::from(key)
        }
    };
    let (lo, hi) = (value(lo), value(hi));
    let sum = ((lo + hi).checked_mul(side)? / 2).checked_mul(each)?;
    let sum = if signed {
        TileSum::Int(i64::try_from(sum).ok()?)
    } else {
        TileSum::UInt(u64::try_from(sum).ok()?)
    };
    let largest = lo.unsigned_abs().max(hi.unsigned_abs());
    Some((sum, largest.checked_mul(cells.cells()?.into())?))
}

fn magnitude(sum: TileSum) -> u128 {
    match sum {
        TileSum::Int(sum) => sum.unsigned_abs().into(),
        TileSum::UInt(sum) => sum.into(),
        TileSum::Float(_) => 0,
    }
}

/// The smallest and the largest coordinate of one dimension.
#[derive(Debug)]
pub struct DimensionBounds {
    /// The smallest and the largest coordinate, as values of the column.
    pub values: ArrayRef,
    /// Whether rows have these coordinates; otherwise they only bound those of the rows.
    pub exact: bool,
}

/// The stored coordinates at both ends of the range.
struct StatisticsField {
    lo: Vec<u8>,
    hi: Vec<u8>,
}

impl ScanPlan {
    /// The bounds of a dimension, if there are tiles and all their bounds are known.
    pub fn dimension_bounds(&self, dimension: usize) -> Option<DimensionBounds> {
        let ty = self.spec.table.types.get(dimension)?;
        let dimensions = &self.spec.table.snapshot.schema.dimensions;
        let StatisticsField { lo, hi } = match &self.units {
            PlanUnits::Sparse(units) => {
                let cell_val_num = dimensions.get(dimension)?.cell_val_num;
                let units = units.iter().map(AsRef::as_ref);
                match cell_val_num {
                    CellValNum::Var => self.of_strings(units, dimension)?,
                    CellValNum::Fixed(_) => self.of_numbers(units, dimension, ty.datatype())?,
                }
            }
            PlanUnits::Dense(dense) => self.of_box(dense, dimension, ty.datatype())?,
        };
        let values = [Some(lo.as_slice()), Some(hi.as_slice())];
        let told =
            |fragment: &Fragment| fragment.footer.dense || tells_dimension(fragment, dimension);
        let told = self.fragments.iter().all(|scan| told(&scan.fragment));
        Some(DimensionBounds {
            values: stored_values(ty, values.into_iter(), None).ok()??,
            exact: told && self.exact_rows.is_some(),
        })
    }

    fn ranges<'a>(
        &'a self,
        units: impl Iterator<Item = &'a SparseUnit>,
        dimension: usize,
    ) -> impl Iterator<Item = Option<TileRange<'a>>> {
        let tiles = units.flat_map(|unit| &unit.tiles);
        tiles.map(move |tile| {
            let boxes = self.boxes.get(tile.fragment)?;
            Some(boxes.range(tile.tile.get(), dimension))
        })
    }

    fn of_strings<'a>(
        &'a self,
        units: impl Iterator<Item = &'a SparseUnit>,
        dimension: usize,
    ) -> Option<StatisticsField> {
        let mut found: Option<(&[u8], &[u8])> = None;
        for range in self.ranges(units, dimension) {
            let TileRange::Bytes { lo, hi } = range? else {
                return None;
            };
            found = Some(found.map_or((lo, hi), |(l, h)| (l.min(lo), h.max(hi))));
        }
        let (lo, hi) = found?;
        Some(StatisticsField {
            lo: lo.to_vec(),
            hi: hi.to_vec(),
        })
    }

    fn of_numbers<'a>(
        &'a self,
        units: impl Iterator<Item = &'a SparseUnit>,
        dimension: usize,
        datatype: Datatype,
    ) -> Option<StatisticsField> {
        let mut found: Option<(u64, u64)> = None;
        for range in self.ranges(units, dimension) {
            let (lo, hi) = range?.keys()?;
            found = Some(found.map_or((lo, hi), |(l, h)| (l.min(lo), h.max(hi))));
        }
        let (lo, hi) = found?;
        Some(stored(datatype, lo, hi))
    }

    fn of_box(
        &self,
        dense: &DensePlan,
        dimension: usize,
        datatype: Datatype,
    ) -> Option<StatisticsField> {
        let (lo, hi) = dense.bounds.range(dimension)?;
        let mut selected = self.spec.subarray.dim(dimension).clip_keys(lo, hi);
        let first = selected.next()?;
        let last = selected.next_back().unwrap_or(first);
        Some(stored(datatype, first.lo, last.hi))
    }
}

fn stored(datatype: Datatype, lo: u64, hi: u64) -> StatisticsField {
    StatisticsField {
        lo: key::from_key(datatype, lo),
        hi: key::from_key(datatype, hi),
    }
}
