//! The part of one space tile that becomes rows, and which fragment supplies each of its cells.
//!
//! Every cell comes from the newest fragment that wrote it, with all its attributes. Dense fragments wrote boxes; the
//! newest box that covers the clip supplies all of it, and nothing is painted. Sparse fragments, which releases up to
//! 2.5 could write into dense arrays, wrote single cells. Their coordinates must be read first, so such a clip is
//! painted later, by [`super::scattered`].

use std::ops::Range;

use crate::array::fragment::TileIdx;
use crate::error::{Error, Result};
use crate::format::schema::Layout;
use crate::geometry::box_runs::BoxRuns;
use crate::geometry::domain::KeyBox;
use crate::geometry::subarray::Subarray;
use crate::geometry::tile_grid::strides;
use crate::memory::budget::{Grant, MemoryBudget};
use crate::scan::plan::dense::{DensePlan, StoredAs};
use crate::tile::selection::Selection;

/// A tile of a fragment that may supply cells of a clip.
#[derive(Debug, Clone)]
pub(super) struct ClipSource {
    /// Index into the plan's fragments.
    pub fragment: usize,
    /// The tile, in the fragment's own numbering.
    pub tile: TileIdx,
    /// Cells stored in it.
    pub cells: usize,
    /// The cells of the clip that it supplies; `None` for a tile of a sparse fragment, whose coordinates must be read.
    pub written: Option<KeyBox>,
}

/// Cells that are consecutive both in the clip and in the copy they come from.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClipPiece {
    /// Index into the clip's copies; the number of copies stands for cells that were never written.
    pub copy: usize,
    /// Number of the first cell within the copy.
    pub start: usize,
    /// The number of cells.
    pub len: usize,
}

/// The part of a space tile that becomes rows.
pub(super) struct TileClip {
    /// The box of cells.
    pub cells: KeyBox,
    /// The first cell of the tile.
    tile_lo: Vec<u64>,
    /// The copies that supply cells, oldest first.
    pub copies: Vec<ClipSource>,
    /// Runs of cells, one copy each, in stored order.
    pub pieces: Vec<ClipPiece>,
    /// The number of cells.
    pub rows: usize,
    /// Whether every cell is known to satisfy the predicate.
    pub proven: bool,
    /// The memory of the pieces.
    grant: Grant,
}

impl TileClip {
    /// The clip of a tile, or of its cells within a box; its pieces take memory of `budget`. `None` if no row lies in it.
    pub fn new(
        dense: &DensePlan,
        tile: &[u64],
        within: Option<&KeyBox>,
        subarray: &Subarray,
        budget: &dyn MemoryBudget,
    ) -> Result<Option<Self>> {
        let cells = dense.grid.tile_box(tile).intersect(&dense.bounds);
        let cells = match within {
            Some(within) => cells.and_then(|cells| cells.intersect(within)),
            None => cells,
        };
        let Some(cells) = cells.and_then(|cells| subarray.shrink(&cells)) else {
            return Ok(None);
        };
        let tile_cells = usize::try_from(dense.grid.cells_per_tile())?;
        let mut scattered = dense.scattered.touching(&cells);
        let mut copies = Vec::new();
        for i in dense.index.newest_first(&cells) {
            let Some(fragment) = dense.fragments.get(i) else {
                continue;
            };
            let Some(part) = fragment.domain.intersect(&cells) else {
                continue;
            };
            let StoredAs::Tiles(tiles) = &fragment.stored_as else {
                let newer = scattered.partition_point(|t| t.fragment < i);
                let own = scattered.split_off(newer).into_iter().rev();
                copies.extend(own.filter(|t| t.fragment == i).map(|t| ClipSource {
                    fragment: i,
                    tile: t.tile,
                    cells: t.cells,
                    written: None,
                }));
                continue;
            };
            let covers = part == cells;
            let position = tiles.position(tile).ok_or_else(|| {
                Error::internal("a fragment does not hold a tile of its own domain")
            })?;
            copies.push(ClipSource {
                fragment: i,
                tile: TileIdx(position),
                cells: tile_cells,
                written: Some(part),
            });
            if covers {
                break;
            }
        }
        copies.reverse();
        let mut clip = Self {
            tile_lo: dense.grid.tile_lo(tile),
            rows: 0,
            proven: false,
            cells,
            copies,
            pieces: Vec::new(),
            grant: Grant::default(),
        };
        let runs = clip.runs(dense)?;
        clip.rows = runs.cells();
        if !clip.has_scattered_copies() {
            clip.paint_boxes(dense, runs, budget)?;
        }
        Ok(Some(clip))
    }

    /// The indexes of its tile.
    pub fn tile(&self, dense: &DensePlan) -> Vec<u64> {
        let ranges = self.cells.ranges().enumerate();
        ranges
            .map(|(d, (lo, _))| dense.grid.tile_of(d, lo))
            .collect()
    }

    /// The runs of its cells, numbered within the space tile.
    fn runs(&self, dense: &DensePlan) -> Result<BoxRuns> {
        let grid = &dense.grid;
        BoxRuns::new(
            grid.extents(),
            grid.cell_order(),
            &self.tile_lo,
            &self.cells,
        )
    }

    /// The sides of the clip, in cells.
    fn sides(&self) -> Vec<u64> {
        let sides = self.cells.ranges();
        sides.map(|(lo, hi)| (hi - lo).saturating_add(1)).collect()
    }

    /// The pieces of the selected rows, if they are few; `None` if the selection must be applied to decoded columns.
    pub fn narrowed(&self, selection: &Selection) -> Option<Vec<ClipPiece>> {
        let runs = selection.few_runs()?;
        let mut narrowed = Vec::with_capacity(runs.len());
        let mut pieces = self.pieces.iter();
        let mut piece = pieces.next()?;
        // The first row of the piece.
        let mut row = 0;
        for run in runs {
            let mut start = run.start;
            while start < run.end {
                while row + piece.len <= start {
                    row += piece.len;
                    piece = pieces.next()?;
                }
                let end = run.end.min(row + piece.len);
                narrowed.push(ClipPiece {
                    copy: piece.copy,
                    start: piece.start + (start - row),
                    len: end - start,
                });
                start = end;
            }
        }
        Some(narrowed)
    }

    /// Whether `pieces` of the clip need one of these cells of a copy.
    pub fn wants(&self, pieces: &[ClipPiece], copy: usize, cells: &Range<usize>) -> bool {
        if self.has_scattered_copies() {
            // Cells of sparse fragments come in any order.
            let mut own = pieces.iter().filter(|p| p.copy == copy);
            return own.any(|p| p.start < cells.end && cells.start < p.start + p.len);
        }
        let first = pieces.partition_point(|p| p.start + p.len <= cells.start);
        let mut touched = pieces
            .iter()
            .skip(first)
            .take_while(|p| p.start < cells.end);
        touched.any(|p| p.copy == copy)
    }

    /// Whether its rows are copied together from several pieces, or not stored at all.
    pub fn is_gathered(&self) -> bool {
        !matches!(self.pieces.as_slice(), [piece] if !self.is_empty_piece(piece))
    }

    /// Whether coordinates must be read to know which copy supplies a cell.
    pub fn has_scattered_copies(&self) -> bool {
        self.copies.iter().any(|copy| copy.written.is_none())
    }

    /// Whether no fragment wrote the cells of a piece.
    pub fn is_empty_piece(&self, piece: &ClipPiece) -> bool {
        piece.copy >= self.copies.len()
    }

    fn paint_boxes(
        &mut self,
        dense: &DensePlan,
        runs: BoxRuns,
        budget: &dyn MemoryBudget,
    ) -> Result<()> {
        let one_covers = match self.copies.as_slice() {
            [] => true,
            [copy] => copy.written.as_ref() == Some(&self.cells),
            _ => false,
        };
        if one_covers {
            let piece = |start, len| ClipPiece {
                copy: 0,
                start,
                len,
            };
            self.reserve_pieces(runs.len(), budget)?;
            self.pieces
                .extend(runs.map(|run| piece(run.start, run.len)));
            return Ok(());
        }
        let mut canvas = Canvas::new(self, dense.grid.cell_order(), false, budget)?;
        for (i, copy) in self.copies.iter().enumerate() {
            if let Some(written) = &copy.written {
                canvas.paint_box(i, written)?;
            }
        }
        self.take(&canvas, &runs, budget)
    }

    /// Paints the clip once the coordinates of its scattered copies are known. `cells_of` gives the cells of the clip
    /// that a copy holds, as (row of the clip, number within the copy).
    pub fn resolve(
        &mut self,
        dense: &DensePlan,
        budget: &dyn MemoryBudget,
        mut cells_of: impl FnMut(&Self, &ClipSource) -> Result<Vec<(usize, usize)>>,
    ) -> Result<()> {
        let runs = self.runs(dense)?;
        let mut canvas = Canvas::new(self, dense.grid.cell_order(), true, budget)?;
        for (i, copy) in self.copies.iter().enumerate() {
            match &copy.written {
                Some(written) => canvas.paint_box(i, written)?,
                None => canvas.paint_cells(i, &cells_of(self, copy)?),
            }
        }
        self.take(&canvas, &runs, budget)
    }

    /// The numbers of rows from one step to the next in each dimension.
    pub fn strides(&self, dense: &DensePlan) -> Vec<u64> {
        strides(&self.sides(), dense.grid.cell_order())
    }

    /// The row of the cell with these keys; `None` outside the clip. `strides` are those of the clip.
    pub fn row_of(&self, strides: &[u64], keys: impl Iterator<Item = u64>) -> Option<usize> {
        let mut row = 0_u64;
        for ((key, (lo, hi)), stride) in keys.zip(self.cells.ranges()).zip(strides) {
            if key < lo || key > hi {
                return None;
            }
            row += (key - lo) * stride;
        }
        usize::try_from(row).ok()
    }

    fn reserve_pieces(&mut self, pieces: usize, budget: &dyn MemoryBudget) -> Result<()> {
        let bytes = pieces.saturating_mul(size_of::<ClipPiece>());
        self.grant = budget.reserve(bytes)?;
        let reserved = self.pieces.try_reserve_exact(pieces);
        reserved.map_err(|e| Error::out_of_memory(format!("{pieces} runs of cells")).with_source(e))
    }

    /// Cuts the runs of the clip into pieces by the painted canvas, and drops the copies that supply nothing.
    fn take(&mut self, canvas: &Canvas, runs: &BoxRuns, budget: &dyn MemoryBudget) -> Result<()> {
        let mut pieces = 0;
        canvas.pieces(runs.clone(), |_| pieces += 1);
        self.reserve_pieces(pieces, budget)?;
        canvas.pieces(runs.clone(), |piece| self.pieces.push(piece));
        let mut used = vec![false; self.copies.len()];
        for piece in &self.pieces {
            if let Some(used) = used.get_mut(piece.copy) {
                *used = true;
            }
        }
        let kept = used.iter().filter(|used| **used).count();
        let mut next = 0;
        let renumbered = used
            .iter()
            .map(|used| {
                next += usize::from(*used);
                next.saturating_sub(1)
            })
            .collect::<Vec<_>>();
        for piece in &mut self.pieces {
            piece.copy = renumbered.get(piece.copy).copied().unwrap_or(kept);
        }
        let mut used = used.into_iter();
        self.copies.retain(|_| used.next().unwrap_or(false));
        Ok(())
    }
}

/// Stands for a cell whose number within its copy is that within the space tile.
const SAME_NUMBER: usize = usize::MAX;

/// Which copy supplies each row of a clip: newer copies paint over older ones. Its memory follows from the rows that are read,
/// not from the size of the space tile.
struct Canvas {
    /// The first cell of the clip, and its sides in cells.
    lo: Vec<u64>,
    sides: Vec<u64>,
    order: Layout,
    owners: Vec<u32>,
    /// The number of each row's cell within its copy, where copies are sparse; empty if it is that within the tile for all.
    numbers: Vec<usize>,
    _grant: Grant,
}

impl Canvas {
    fn new(
        clip: &TileClip,
        order: Layout,
        scattered: bool,
        budget: &dyn MemoryBudget,
    ) -> Result<Self> {
        let rows = clip.rows;
        let row_bytes = size_of::<u32>() + if scattered { size_of::<usize>() } else { 0 };
        let grant = budget.reserve(rows.saturating_mul(row_bytes))?;
        let refused = || Error::out_of_memory(format!("{rows} rows of a tile"));
        let mut owners = Vec::new();
        owners
            .try_reserve_exact(rows)
            .map_err(|e| refused().with_source(e))?;
        owners.resize(rows, u32::try_from(clip.copies.len())?);
        let mut numbers = Vec::new();
        if scattered {
            numbers
                .try_reserve_exact(rows)
                .map_err(|e| refused().with_source(e))?;
            numbers.resize(rows, SAME_NUMBER);
        }
        Ok(Self {
            lo: clip.cells.lo().to_vec(),
            sides: clip.sides(),
            order,
            owners,
            numbers,
            _grant: grant,
        })
    }

    /// Paints the cells of a box inside the clip.
    fn paint_box(&mut self, copy: usize, written: &KeyBox) -> Result<()> {
        let copy = u32::try_from(copy).unwrap_or(u32::MAX);
        for run in BoxRuns::new(&self.sides, self.order, &self.lo, written)? {
            let rows = run.start..run.start + run.len;
            if let Some(owners) = self.owners.get_mut(rows.clone()) {
                owners.fill(copy);
            }
            if let Some(numbers) = self.numbers.get_mut(rows) {
                numbers.fill(SAME_NUMBER);
            }
        }
        Ok(())
    }

    /// Paints single cells, given as (row, number within the copy).
    fn paint_cells(&mut self, copy: usize, cells: &[(usize, usize)]) {
        let copy = u32::try_from(copy).unwrap_or(u32::MAX);
        for (row, number) in cells {
            if let (Some(owner), Some(n)) = (self.owners.get_mut(*row), self.numbers.get_mut(*row))
            {
                (*owner, *n) = (copy, *number);
            }
        }
    }

    /// Cuts the runs of the clip where the copy changes or its cells are not consecutive.
    fn pieces(&self, runs: BoxRuns, mut piece_of: impl FnMut(ClipPiece)) {
        let mut owners = self.owners.iter().enumerate();
        for run in runs {
            let mut piece: Option<ClipPiece> = None;
            let cells = run.start..run.start + run.len;
            for (cell, (row, owner)) in cells.zip(owners.by_ref()) {
                let copy = *owner as usize;
                let start = match self.numbers.get(row) {
                    None | Some(&SAME_NUMBER) => cell,
                    Some(number) => *number,
                };
                match &mut piece {
                    Some(p) if p.copy == copy && p.start + p.len == start => p.len += 1,
                    _ => {
                        let next = ClipPiece {
                            copy,
                            start,
                            len: 1,
                        };
                        piece.replace(next).into_iter().for_each(&mut piece_of);
                    }
                }
            }
            piece.into_iter().for_each(&mut piece_of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clip of these pieces, of two copies.
    fn clip(pieces: &[(usize, usize, usize)]) -> TileClip {
        let copy = |fragment| ClipSource {
            fragment,
            tile: TileIdx(0),
            cells: 1000,
            written: KeyBox::new(vec![0], vec![999]),
        };
        let piece = |(copy, start, len): &(usize, usize, usize)| ClipPiece {
            copy: *copy,
            start: *start,
            len: *len,
        };
        TileClip {
            cells: KeyBox::new(vec![0], vec![999]).unwrap(),
            tile_lo: vec![0],
            copies: vec![copy(0), copy(1)],
            pieces: pieces.iter().map(piece).collect(),
            rows: pieces.iter().map(|p| p.2).sum(),
            proven: false,
            grant: Grant::default(),
        }
    }

    /// Copy and number of each cell.
    fn cells(pieces: &[ClipPiece]) -> Vec<(usize, usize)> {
        let cells = |p: &ClipPiece| {
            (p.start..p.start + p.len)
                .map(|cell| (p.copy, cell))
                .collect::<Vec<_>>()
        };
        pieces.iter().flat_map(cells).collect()
    }

    #[test]
    fn pieces_of_selected_rows() {
        // The third piece was never written.
        let clip = clip(&[(0, 10, 100), (1, 110, 50), (2, 160, 150), (0, 400, 200)]);
        let all = cells(&clip.pieces);
        for ranges in [
            [0..1, 1..2],
            [5..10, 99..101],
            [95..320, 499..500],
            [150..151, 300..310],
        ] {
            let mut mask = vec![false; clip.rows];
            ranges.iter().for_each(|r| mask[r.clone()].fill(true));
            let narrowed = clip.narrowed(&Selection::from_bools(&mask)).unwrap();
            let expected: Vec<_> = all
                .iter()
                .zip(&mask)
                .filter(|(_, selected)| **selected)
                .map(|(cell, _)| *cell)
                .collect();
            assert_eq!(cells(&narrowed), expected);
        }
        assert!(clip.narrowed(&Selection::all(clip.rows)).is_none());
    }

    #[test]
    fn cells_that_a_piece_needs_are_wanted() {
        let clip = clip(&[(0, 10, 100), (1, 110, 50), (0, 400, 200)]);
        let wants = |copy, cells| clip.wants(&clip.pieces, copy, &cells);
        assert!(wants(0, 0..11) && wants(0, 109..300) && wants(0, 599..1000) && wants(1, 0..1000));
        assert!(!wants(0, 0..10) && !wants(0, 110..400) && !wants(0, 600..1000));
        assert!(!wants(1, 0..110) && !wants(1, 160..1000) && wants(1, 159..160));
    }
}
