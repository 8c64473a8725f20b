//! Where one fragment's metadata answer for each requested column, and whether they can be trusted.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};

use crate::array::fragment::FragmentField;
use crate::array::fragment::statistics::{FieldStatistics, StatisticsWanted, Sum};
use crate::arrow::fill_array;
use crate::arrow::{ColumnType, Shape};
use crate::error::{Error, Result};
use crate::format::datatype::Datatype;
use crate::format::fragment::rtree::Mbrs;
use crate::geometry::domain::KeyBox;
use crate::geometry::key::Native;
use crate::scan::plan::ScanPlan;
use crate::scan::plan::whole::WholeTile;
use crate::stats::trust::{Asked, FieldTrust, Known, Rounding, TileStatistics};
use crate::storage::Storage;
use crate::tile::fields::{ColumnSource, FragmentScan};

/// The requested columns in one fragment.
pub(super) struct Fields<'a> {
    scan: &'a FragmentScan,
    asked: &'a [Asked],
    fields: Vec<Field<'a>>,
    /// The loaded statistics, of those fields that have any, in their order.
    statistics: Vec<FieldStatistics>,
}

/// The source of the answers for one column.
pub(super) enum Field<'a> {
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
    Fill { cell: ArrayRef, sum: Option<Sum> },
}

impl<'a> Fields<'a> {
    /// `None` if the fragment can never answer the request.
    pub(super) fn new(
        plan: &'a ScanPlan,
        number: usize,
        asked: &'a [Asked],
        rounding: Rounding,
    ) -> Result<Option<Self>> {
        let scan = plan.fragments.get(number);
        let scan = scan.ok_or_else(|| Error::internal("a tile names a fragment not planned"))?;
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

    pub(super) fn fields(&self) -> &[Field<'a>] {
        &self.fields
    }

    /// Loads the statistics that are needed.
    pub(super) async fn load(mut self, storage: &Storage) -> Result<Self> {
        let mut wanted = StatisticsWanted::default();
        let mut needed = Vec::new();
        for (asked, field) in self.asked.iter().zip(&mut self.fields) {
            let Field::Stored {
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
    pub(super) fn check(&self, tile: &WholeTile) -> Option<Vec<Known<'_>>> {
        let fields = self.asked.iter().zip(&self.fields);
        fields
            .map(|(asked, field)| self.check_field(asked, field, tile))
            .collect()
    }

    fn check_field<'b>(
        &'b self,
        asked: &Asked,
        field: &'b Field<'a>,
        tile: &WholeTile,
    ) -> Option<Known<'b>> {
        let known = Known {
            count: tile.cells,
            min: None,
            max: None,
            sum: None,
            magnitude: 0,
        };
        match field {
            Field::Grid {
                dimension,
                datatype,
            } => {
                if asked.sum.is_none() {
                    return Some(known);
                }
                let (sum, magnitude) = sum_of_grid(*datatype, tile.dense.as_ref()?, *dimension)?;
                Some(Known {
                    sum: Some(sum),
                    magnitude,
                    ..known
                })
            }
            Field::Fill { cell, sum } => {
                let count = if cell.is_null(0) { 0 } else { tile.cells };
                let sum = match (asked.sum, sum) {
                    (Some(_), Some(one)) => Some(times(*one, count)?),
                    _ => None,
                };
                Some(Known {
                    count,
                    sum,
                    magnitude: sum.map_or(0, magnitude),
                    ..known
                })
            }
            Field::Stored {
                trust,
                mbrs,
                loaded,
                ..
            } => {
                let own = loaded.and_then(|i| self.statistics.get(i));
                let stored = own.map(|own| TileStatistics::of(own, tile.tile));
                let mut stored = stored.unwrap_or_default();
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
    asked: &Asked,
    rounding: Rounding,
) -> Result<Option<Field<'a>>> {
    let table = &plan.spec.table;
    let own = &scan.fragment.schema;
    let missing = || Error::internal("what is asked for is no column");
    let ty = table.types.get(asked.column).ok_or_else(missing)?;
    if asked.column < table.dimension_count() {
        let dimension = own.dimensions.get(asked.column).ok_or_else(missing)?;
        if scan.fragment.footer.dense {
            let datatype = dimension.datatype;
            return Ok(Some(Field::Grid {
                dimension: asked.column,
                datatype,
            }));
        }
        let trust = FieldTrust::of_dimension(&scan.fragment, asked.column, ty);
        let trust = trust.map(|trust| trust.with_rounding(rounding));
        let (Some(trust), Some(boxes)) = (trust, &scan.boxes) else {
            return Ok(None);
        };
        return Ok(trust.may_know(asked).then_some(Field::Stored {
            field: FragmentField::Dimension(asked.column),
            trust,
            mbrs: Some((boxes.mbrs(), asked.column)),
            loaded: None,
        }));
    }
    match scan.source(asked.column)? {
        ColumnSource::Fill => fill(plan, asked, ty, rounding),
        ColumnSource::Constant(cell) => Ok(asked.sum.is_none().then(|| Field::Fill {
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
                .with_nat(ty.nat_is_null() && ty.shape() == Shape::One)
                .with_codes(codes);
            // Stored NULLs that the array no longer allows are an error of the scan.
            let shown = !attribute.nullable || ty.nullable();
            let known = trust.may_know(asked) && shown;
            Ok(known.then_some(Field::Stored {
                field: *field,
                trust,
                mbrs: None,
                loaded: None,
            }))
        }
    }
}

/// The times at which the cells of a fragment were written.
fn write_times<'a>(asked: &Asked) -> Option<Field<'a>> {
    let trust = FieldTrust::of_write_times();
    (asked.sum.is_none() && trust.may_know(asked)).then_some(Field::Stored {
        field: FragmentField::Timestamps,
        trust,
        mbrs: None,
        loaded: None,
    })
}

fn fill<'a>(
    plan: &ScanPlan,
    asked: &Asked,
    ty: &ColumnType,
    rounding: Rounding,
) -> Result<Option<Field<'a>>> {
    let table = &plan.spec.table;
    let attributes = &table.snapshot.schema.attributes;
    let number = asked.column.checked_sub(table.dimension_count());
    let Some(attribute) = number.and_then(|number| attributes.get(number)) else {
        return Err(Error::internal("what is asked for is no column"));
    };
    // A fill value that cannot be shown is an error of the scan.
    let Ok(cell) = fill_array(attribute, ty, 1) else {
        return Ok(None);
    };
    let sum = if cell.is_null(0) {
        Some(Sum::Int(0))
    } else {
        number_of(&cell)
    };
    let rounds = matches!(sum, Some(Sum::Float(_))) && rounding == Rounding::Exact;
    if asked.sum.is_some() && (sum.is_none() || rounds) {
        return Ok(None);
    }
    Ok(Some(Field::Fill { cell, sum }))
}

/// The only value of an array, if it is a number.
fn number_of(cell: &ArrayRef) -> Option<Sum> {
    macro_rules! first {
        ($type:ty) => {
            cell.as_primitive_opt::<$type>()?
                .values()
                .first()
                .copied()?
        };
    }
    Some(match cell.data_type() {
        DataType::Int8 => Sum::Int(first!(Int8Type).into()),
        DataType::Int16 => Sum::Int(first!(Int16Type).into()),
        DataType::Int32 => Sum::Int(first!(Int32Type).into()),
        DataType::Int64 => Sum::Int(first!(Int64Type)),
        DataType::UInt8 => Sum::UInt(first!(UInt8Type).into()),
        DataType::UInt16 => Sum::UInt(first!(UInt16Type).into()),
        DataType::UInt32 => Sum::UInt(first!(UInt32Type).into()),
        DataType::UInt64 => Sum::UInt(first!(UInt64Type)),
        DataType::Float32 => Sum::Float(first!(Float32Type).into()),
        DataType::Float64 => Sum::Float(first!(Float64Type)),
        _ => return None,
    })
}

/// The sum of `count` equal values; `None` if it does not fit in 64 bits.
fn times(one: Sum, count: u64) -> Option<Sum> {
    Some(match one {
        Sum::Int(value) => Sum::Int(value.checked_mul(i64::try_from(count).ok()?)?),
        Sum::UInt(value) => Sum::UInt(value.checked_mul(count)?),
        #[expect(clippy::cast_precision_loss, reason = "floats round")]
        Sum::Float(value) => Sum::Float(value * count as f64),
    })
}

/// The sum of the coordinates of all cells of a box, and a bound of its partial sums; `None` if it does not fit in 64
/// bits.
fn sum_of_grid(datatype: Datatype, cells: &KeyBox, dimension: usize) -> Option<(Sum, u128)> {
    let (lo, hi) = cells.range(dimension)?;
    let side = i128::from(hi - lo) + 1;
    let each = i128::from(cells.cells()?) / side;
    let signed = datatype.is_signed();
    let value = |key: u64| match signed {
        true => i128::from(i64::from_key(key)),
        false => i128::from(key),
    };
    let (lo, hi) = (value(lo), value(hi));
    let sum = ((lo + hi).checked_mul(side)? / 2).checked_mul(each)?;
    let sum = if signed {
        Sum::Int(i64::try_from(sum).ok()?)
    } else {
        Sum::UInt(u64::try_from(sum).ok()?)
    };
    let largest = lo.unsigned_abs().max(hi.unsigned_abs());
    Some((sum, largest.checked_mul(cells.cells()?.into())?))
}

fn magnitude(sum: Sum) -> u128 {
    match sum {
        Sum::Int(sum) => sum.unsigned_abs().into(),
        Sum::UInt(sum) => sum.into(),
        Sum::Float(_) => 0,
    }
}
