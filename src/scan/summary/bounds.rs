//! The bounds of a dimension over all rows of a scan, from the boxes of its tiles.

use arrow::array::ArrayRef;

use crate::array::fragment::Fragment;
use crate::array::fragment::boxes::TileRange;
use crate::arrow::stored_values;
use crate::format::datatype::Datatype;
use crate::format::schema::CellValNum;
use crate::geometry::key;
use crate::scan::plan::dense::DensePlan;
use crate::scan::plan::sparse_units::SparseUnit;
use crate::scan::plan::{ScanPlan, Units};
use crate::stats::trust::tells_dimension;

/// The smallest and the largest coordinate of one dimension.
#[derive(Debug)]
pub struct DimensionBounds {
    /// The smallest and the largest coordinate, as values of the column.
    pub values: ArrayRef,
    /// Whether rows have these coordinates; otherwise they only bound those of the rows.
    pub exact: bool,
}

/// Stored coordinates, and whether rows have them.
struct Stored {
    lo: Vec<u8>,
    hi: Vec<u8>,
    exact: bool,
}

impl ScanPlan {
    /// The bounds of a dimension, if there are tiles and all their bounds are known.
    pub fn dimension_bounds(&self, dimension: usize) -> Option<DimensionBounds> {
        let ty = self.spec.table.types.get(dimension)?;
        let dimensions = &self.spec.table.snapshot.schema.dimensions;
        let Stored { lo, hi, exact } = match &self.units {
            Units::Sparse(units) => {
                let cell_val_num = dimensions.get(dimension)?.cell_val_num;
                let units = units.iter().map(AsRef::as_ref);
                match cell_val_num {
                    CellValNum::Var => self.of_strings(units, dimension)?,
                    CellValNum::Fixed(_) => self.of_numbers(units, dimension, ty.datatype())?,
                }
            }
            Units::Dense(dense) => self.of_box(dense, dimension, ty.datatype())?,
        };
        let values = [Some(lo.as_slice()), Some(hi.as_slice())];
        let told =
            |fragment: &Fragment| fragment.footer.dense || tells_dimension(fragment, dimension);
        let told = self.fragments.iter().all(|scan| told(&scan.fragment));
        Some(DimensionBounds {
            values: stored_values(ty, values.into_iter(), None).ok()??,
            exact: exact && told && self.exact_rows.is_some(),
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
    ) -> Option<Stored> {
        let mut found: Option<(&[u8], &[u8])> = None;
        for range in self.ranges(units, dimension) {
            let TileRange::Bytes { lo, hi } = range? else {
                return None;
            };
            found = Some(found.map_or((lo, hi), |(l, h)| (l.min(lo), h.max(hi))));
        }
        let (lo, hi) = found?;
        Some(Stored {
            lo: lo.to_vec(),
            hi: hi.to_vec(),
            exact: true,
        })
    }

    fn of_numbers<'a>(
        &'a self,
        units: impl Iterator<Item = &'a SparseUnit>,
        dimension: usize,
        datatype: Datatype,
    ) -> Option<Stored> {
        let mut found: Option<(u64, u64)> = None;
        for range in self.ranges(units, dimension) {
            let (lo, hi) = range?.keys()?;
            found = Some(found.map_or((lo, hi), |(l, h)| (l.min(lo), h.max(hi))));
        }
        let (lo, hi) = found?;
        Some(stored(datatype, lo, hi))
    }

    fn of_box(&self, dense: &DensePlan, dimension: usize, datatype: Datatype) -> Option<Stored> {
        let (lo, hi) = dense.bounds.range(dimension)?;
        let mut selected = self.spec.subarray.dim(dimension).clip_keys(lo, hi);
        let first = selected.next()?;
        let last = selected.next_back().unwrap_or(first);
        Some(stored(datatype, first.lo, last.hi))
    }
}

fn stored(datatype: Datatype, lo: u64, hi: u64) -> Stored {
    // A key does not distinguish the zeros of either sign.
    let zero = key::key(datatype, &vec![0; datatype.size()]).ok();
    let unsigned = datatype.is_float() && (Some(lo) == zero || Some(hi) == zero);
    Stored {
        lo: key::from_key(datatype, lo),
        hi: key::from_key(datatype, hi),
        exact: !unsigned,
    }
}
