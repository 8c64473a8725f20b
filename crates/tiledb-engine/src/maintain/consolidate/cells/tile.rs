//! A decoded tile of an input, with a column for each field of the output; and the recipe of a tile of the output.

use std::ops::Range;
use std::sync::Arc;

use crate::arrow::StoredCells;
use crate::error::{Error, Result};
use crate::maintain::column::DecodedColumn;
use crate::memory::budget::Grant;
use crate::write::encode::RawTile;
use crate::write::fields::WrittenFields;

/// The cells of one field of the output.
#[derive(Debug)]
pub(in crate::maintain::consolidate) enum TileColumn {
    /// Stored by the input.
    Stored(Arc<DecodedColumn>),
    /// The input has no such field.
    Fill { value: Arc<[u8]>, valid: bool },
    /// A number for all cells.
    Number(u64),
    /// A number for each cell.
    Numbers(Vec<u64>),
}

impl TileColumn {
    /// Appends a run of cells.
    pub(super) fn append_to(&self, run: Range<usize>, to: &mut StoredCells) {
        match self {
            Self::Stored(column) => column.append_to(run, to),
            Self::Fill { value, valid } => {
                to.len = to.len.saturating_add(run.len());
                if let Some(validity) = &mut to.validity {
                    validity.resize(validity.len().saturating_add(run.len()), u8::from(*valid));
                }
                for _ in run {
                    if let Some(starts) = &mut to.starts {
                        starts.push(to.values.len() as u64);
                    }
                    to.values.extend_from_slice(value);
                }
            }
            Self::Number(number) => {
                to.len = to.len.saturating_add(run.len());
                let bytes = number.to_le_bytes();
                run.for_each(|_| to.values.extend_from_slice(&bytes));
            }
            Self::Numbers(numbers) => {
                to.len = to.len.saturating_add(run.len());
                let numbers = numbers.get(run).unwrap_or_default();
                to.values
                    .extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
            }
        }
    }

    /// About how many bytes `cells` cells take in the output.
    pub(super) fn bytes(&self, cells: usize) -> usize {
        match self {
            Self::Stored(column) => column.bytes(),
            Self::Fill { value, .. } => cells.saturating_mul(value.len().saturating_add(9)),
            Self::Number(_) | Self::Numbers(_) => cells.saturating_mul(8),
        }
    }

    /// The number of a cell, of a column of numbers.
    pub(super) fn number(&self, cell: usize) -> u64 {
        match self {
            Self::Number(number) => *number,
            Self::Numbers(numbers) => numbers.get(cell).copied().unwrap_or(0),
            Self::Stored(_) | Self::Fill { .. } => 0,
        }
    }
}

/// The keys by which the cells of a tile are ordered: a number for each column of numbers.
#[derive(Debug, Default)]
pub(in crate::maintain::consolidate) struct TileKeys {
    /// The numbers of all cells.
    pub numbers: Vec<Vec<u64>>,
}

impl TileKeys {
    /// A number of a stored cell.
    #[inline]
    pub(super) fn number(&self, column: usize, cell: usize) -> u64 {
        let numbers = self.numbers.get(column);
        numbers.and_then(|n| n.get(cell)).copied().unwrap_or(0)
    }
}

/// A decoded tile of a sparse input.
#[derive(Debug)]
pub(in crate::maintain::consolidate) struct InputTile {
    /// A number that no other tile of the consolidation has.
    pub serial: u64,
    /// The number of cells.
    pub cells: usize,
    /// One for each field of the output.
    pub columns: Vec<TileColumn>,
    /// The keys by which the cells are ordered.
    pub keys: TileKeys,
    /// When each cell was written.
    pub written: TileColumn,
    /// Which cells are deleted; `None` if no cell is, or if it makes no difference.
    pub dead: Option<Vec<bool>>,
    /// The cells in the order of the merge, if they are stored in another one.
    pub sorted: Option<Vec<u32>>,
    /// About how many bytes of the output a cell takes.
    pub bytes_per_cell: usize,
    /// The memory of the tile.
    pub memory: Option<Grant>,
}

impl InputTile {
    /// The stored cell at a place in the order of the merge.
    #[inline]
    pub(super) fn stored(&self, place: usize) -> usize {
        match &self.sorted {
            None => place,
            Some(sorted) => sorted.get(place).map_or(place, |cell| *cell as usize),
        }
    }

    /// Whether a cell is dropped because it is deleted.
    pub(super) fn is_dead(&self, place: usize) -> bool {
        let dead = self.dead.as_ref();
        dead.is_some_and(|dead| dead.get(self.stored(place)).is_some_and(|dead| *dead))
    }
}

/// Cells that follow each other in a tile, in the order of the merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::maintain::consolidate) struct CellSegment {
    /// The index of the tile among those of the recipe.
    pub tile: u32,
    /// The first cell.
    pub start: u32,
    /// The number of cells.
    pub len: u32,
}

/// The cells that a tile of the output consists of.
#[derive(Debug, Default)]
pub(in crate::maintain::consolidate) struct TileRecipe {
    /// The tiles of the inputs.
    pub tiles: Vec<Arc<InputTile>>,
    /// The cells.
    pub segments: Vec<CellSegment>,
    /// The number of cells.
    pub cells: usize,
}

impl TileRecipe {
    /// About how many bytes the tile will have.
    pub(super) fn bytes(&self) -> usize {
        let of_segment = |segment: &CellSegment| {
            let tile = self.tiles.get(segment.tile as usize);
            let per_cell = tile.map_or(0, |tile| tile.bytes_per_cell);
            (segment.len as usize).saturating_mul(per_cell)
        };
        self.segments.iter().map(of_segment).sum()
    }

    /// Puts the tile together.
    pub(super) fn make(&self, fields: &WrittenFields) -> Result<RawTile> {
        let missing = || Error::internal("a recipe names a tile or field that is not there");
        let mut made = Vec::with_capacity(fields.fields.len());
        for (index, field) in fields.fields.iter().enumerate() {
            let var = field.cell_val_num.is_var();
            let mut cells = StoredCells::none(var, field.nullable);
            if let Some(size) = field.cell_val_num.cell_size(field.datatype)? {
                cells.values.reserve(size.saturating_mul(self.cells));
            }
            let columns = self
                .tiles
                .iter()
                .map(|tile| tile.columns.get(index))
                .collect::<Option<Vec<_>>>()
                .ok_or_else(missing)?;
            for segment in &self.segments {
                let number = segment.tile as usize;
                let (column, tile) = columns
                    .get(number)
                    .zip(self.tiles.get(number))
                    .ok_or_else(missing)?;
                let (start, len) = (segment.start as usize, segment.len as usize);
                match &tile.sorted {
                    None => column.append_to(start..start + len, &mut cells),
                    Some(_) => (start..start + len).for_each(|place| {
                        let cell = tile.stored(place);
                        column.append_to(cell..cell + 1, &mut cells);
                    }),
                }
            }
            if cells.len != self.cells {
                return Err(Error::internal(
                    "a tile has not as many cells as its recipe",
                ));
            }
            made.push(cells);
        }
        let real = std::iter::once(0..self.cells).collect();
        Ok(RawTile { fields: made, real })
    }
}
