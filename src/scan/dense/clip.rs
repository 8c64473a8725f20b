//! The part of one space tile that becomes rows, and which fragment supplies each of its cells.
//!
//! Every cell comes from the newest fragment that wrote it, with all its attributes. Dense fragments wrote boxes; the
//! newest box that covers the clip supplies all of it, and nothing is painted. Sparse fragments, which releases up to
//! 2.5 could write into dense arrays, wrote single cells. Their coordinates must be read first, so such a clip is
//! painted later, by [`super::scattered`].

use std::ops::Range;

use crate::array::fragment::TileIdx;
use crate::error::{Error, Result};
use crate::geometry::box_runs::BoxRuns;
use crate::geometry::domain::KeyBox;
use crate::geometry::subarray::Subarray;
use crate::scan::plan::dense::{DensePlan, StoredAs};
use crate::tile::selection::Selection;

/// A tile of a fragment that may supply cells of a clip.
#[derive(Debug, Clone)]
pub(super) struct Copy {
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
pub(super) struct Piece {
    /// Index into the clip's copies; the number of copies stands for cells that were never written.
    pub copy: usize,
    /// Number of the first cell within the copy.
    pub start: usize,
    /// The number of cells.
    pub len: usize,
}

/// The part of a space tile that becomes rows.
pub(super) struct Clip {
    /// The box of cells.
    pub cells: KeyBox,
    /// The first cell of the tile.
    tile_lo: Vec<u64>,
    /// The copies that supply cells, oldest first.
    pub copies: Vec<Copy>,
    /// Runs of cells, one copy each, in stored order.
    pub pieces: Vec<Piece>,
    /// The number of cells.
    pub rows: usize,
    /// Whether every cell is known to satisfy the predicate.
    pub proven: bool,
}

impl Clip {
    /// The clip of a tile; `None` if no row lies in it.
    pub fn new(dense: &DensePlan, tile: &[u64], subarray: &Subarray) -> Result<Option<Self>> {
        let Some(cells) = dense.grid.tile_box(tile).intersect(&dense.bounds) else {
            return Ok(None);
        };
        let Some(cells) = shrink(&cells, subarray) else {
            return Ok(None);
        };
        let tile_cells = usize::try_from(dense.grid.cells_per_tile())?;
        let mut scattered = dense.scattered.touching(&cells);
        let mut copies = Vec::new();
        for (i, fragment) in dense.fragments.iter().enumerate().rev() {
            let Some(part) = fragment.domain.intersect(&cells) else {
                continue;
            };
            let StoredAs::Tiles(tiles) = &fragment.stored_as else {
                let newer = scattered.partition_point(|t| t.fragment < i);
                let own = scattered.split_off(newer).into_iter().rev();
                copies.extend(own.filter(|t| t.fragment == i).map(|t| Copy {
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
            copies.push(Copy {
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
        };
        let runs = clip.runs(dense)?;
        clip.rows = runs.cells();
        if !clip.has_scattered_copies() {
            clip.paint_boxes(dense, runs)?;
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

    fn runs(&self, dense: &DensePlan) -> Result<BoxRuns> {
        self.runs_of(dense, &self.cells)
    }

    fn runs_of(&self, dense: &DensePlan, cells: &KeyBox) -> Result<BoxRuns> {
        let grid = &dense.grid;
        BoxRuns::new(grid.extents(), grid.cell_order(), &self.tile_lo, cells)
    }

    /// The pieces of the selected rows, if they are few; `None` if the selection must be applied to decoded columns.
    pub fn narrowed(&self, selection: &Selection) -> Option<Vec<Piece>> {
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
                narrowed.push(Piece {
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
    pub fn wants(&self, pieces: &[Piece], copy: usize, cells: &Range<usize>) -> bool {
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

    /// Whether coordinates must be read to know which copy supplies a cell.
    pub fn has_scattered_copies(&self) -> bool {
        self.copies.iter().any(|copy| copy.written.is_none())
    }

    /// Whether no fragment wrote the cells of a piece.
    pub fn is_empty_piece(&self, piece: &Piece) -> bool {
        piece.copy >= self.copies.len()
    }

    fn paint_boxes(&mut self, dense: &DensePlan, runs: BoxRuns) -> Result<()> {
        let one_covers = match self.copies.as_slice() {
            [] => true,
            [copy] => copy.written.as_ref() == Some(&self.cells),
            _ => false,
        };
        if one_covers {
            let piece = |start, len| Piece {
                copy: 0,
                start,
                len,
            };
            self.pieces = runs.map(|run| piece(run.start, run.len)).collect();
            return Ok(());
        }
        let mut canvas = Canvas::new(dense, self.copies.len(), false)?;
        for (i, copy) in self.copies.iter().enumerate() {
            if let Some(written) = &copy.written {
                canvas.paint_box(i, self.runs_of(dense, written)?);
            }
        }
        self.take(&canvas, runs);
        Ok(())
    }

    /// Paints the clip once the coordinates of its scattered copies are known. `cells_of` gives the cells of the clip
    /// that a copy holds, as (number within the space tile, number within the copy).
    pub fn resolve(
        &mut self,
        dense: &DensePlan,
        mut cells_of: impl FnMut(&Self, &Copy) -> Result<Vec<(usize, usize)>>,
    ) -> Result<()> {
        let mut canvas = Canvas::new(dense, self.copies.len(), true)?;
        for (i, copy) in self.copies.iter().enumerate() {
            match &copy.written {
                Some(written) => canvas.paint_box(i, self.runs_of(dense, written)?),
                None => canvas.paint_cells(i, &cells_of(self, copy)?),
            }
        }
        let runs = self.runs(dense)?;
        self.take(&canvas, runs);
        Ok(())
    }

    /// The number within the space tile of the cell with these keys; `None` outside the clip. `strides` are the grid's.
    pub fn cell_number(&self, strides: &[u64], keys: impl Iterator<Item = u64>) -> Option<usize> {
        let mut number = 0_u64;
        for (((key, (lo, hi)), tile_lo), stride) in keys
            .zip(self.cells.ranges())
            .zip(&self.tile_lo)
            .zip(strides)
        {
            if key < lo || key > hi {
                return None;
            }
            number += (key - tile_lo) * stride;
        }
        usize::try_from(number).ok()
    }

    /// Cuts the runs of the clip into pieces by the painted canvas, and drops the copies that supply nothing.
    fn take(&mut self, canvas: &Canvas, runs: BoxRuns) {
        canvas.pieces(runs, &mut self.pieces);
        let mut used = vec![false; self.copies.len()];
        for piece in &self.pieces {
            if let Some(used) = used.get_mut(piece.copy) {
                *used = true;
            }
        }
        let kept = used.iter().filter(|used| **used).count();
        let mut next = 0;
        let renumbered = used.iter().map(|used| {
            next += usize::from(*used);
            next.saturating_sub(1)
        });
        let renumbered = renumbered.collect::<Vec<_>>();
        for piece in &mut self.pieces {
            piece.copy = renumbered.get(piece.copy).copied().unwrap_or(kept);
        }
        let mut used = used.into_iter();
        self.copies.retain(|_| used.next().unwrap_or(false));
    }
}

/// The smallest box around the selected cells: ranges that select one interval clip the box itself.
fn shrink(cells: &KeyBox, subarray: &Subarray) -> Option<KeyBox> {
    let (mut lo, mut hi) = (cells.lo().to_vec(), cells.hi().to_vec());
    for (d, (lo, hi)) in lo.iter_mut().zip(&mut hi).enumerate() {
        let touched = subarray.dim(d).overlapping_keys(*lo, *hi);
        *lo = touched.first()?.lo.max(*lo);
        *hi = touched.last()?.hi.min(*hi);
    }
    KeyBox::new(lo, hi)
}

/// Which copy supplies each cell of a space tile: newer copies paint over older ones.
struct Canvas {
    owners: Vec<u32>,
    /// The number of each cell within its copy; empty if it equals the number within the tile.
    numbers: Vec<usize>,
}

impl Canvas {
    fn new(dense: &DensePlan, copies: usize, scattered: bool) -> Result<Self> {
        let cells = usize::try_from(dense.grid.cells_per_tile())?;
        let memory = || Error::out_of_memory(format!("a tile of {cells} cells"));
        let mut owners = Vec::new();
        owners
            .try_reserve_exact(cells)
            .map_err(|e| memory().with_source(e))?;
        owners.resize(cells, u32::try_from(copies)?);
        let mut numbers = Vec::new();
        if scattered {
            numbers
                .try_reserve_exact(cells)
                .map_err(|e| memory().with_source(e))?;
            numbers.extend(0..cells);
        }
        Ok(Self { owners, numbers })
    }

    fn paint_box(&mut self, copy: usize, runs: BoxRuns) {
        let copy = u32::try_from(copy).unwrap_or(u32::MAX);
        for run in runs {
            let cells = run.start..run.start + run.len;
            if let Some(owners) = self.owners.get_mut(cells.clone()) {
                owners.fill(copy);
            }
            if let Some(numbers) = self.numbers.get_mut(cells) {
                numbers
                    .iter_mut()
                    .zip(run.start..)
                    .for_each(|(n, cell)| *n = cell);
            }
        }
    }

    fn paint_cells(&mut self, copy: usize, cells: &[(usize, usize)]) {
        let copy = u32::try_from(copy).unwrap_or(u32::MAX);
        for (cell, number) in cells {
            if let (Some(owner), Some(n)) =
                (self.owners.get_mut(*cell), self.numbers.get_mut(*cell))
            {
                (*owner, *n) = (copy, *number);
            }
        }
    }

    /// Cuts runs of the tile where the copy changes or its cells are not consecutive.
    fn pieces(&self, runs: BoxRuns, pieces: &mut Vec<Piece>) {
        for run in runs {
            let cells = run.start..run.start + run.len;
            let owners = self.owners.get(cells.clone()).unwrap_or_default();
            let mut piece: Option<Piece> = None;
            for (cell, owner) in cells.zip(owners) {
                let copy = *owner as usize;
                let start = self.numbers.get(cell).copied().unwrap_or(cell);
                match &mut piece {
                    Some(p) if p.copy == copy && p.start + p.len == start => p.len += 1,
                    _ => pieces.extend(piece.replace(Piece {
                        copy,
                        start,
                        len: 1,
                    })),
                }
            }
            pieces.extend(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clip of these pieces, of two copies.
    fn clip(pieces: &[(usize, usize, usize)]) -> Clip {
        let copy = |fragment| Copy {
            fragment,
            tile: TileIdx(0),
            cells: 1000,
            written: KeyBox::new(vec![0], vec![999]),
        };
        let piece = |(copy, start, len): &(usize, usize, usize)| Piece {
            copy: *copy,
            start: *start,
            len: *len,
        };
        Clip {
            cells: KeyBox::new(vec![0], vec![999]).unwrap(),
            tile_lo: vec![0],
            copies: vec![copy(0), copy(1)],
            pieces: pieces.iter().map(piece).collect(),
            rows: pieces.iter().map(|p| p.2).sum(),
            proven: false,
        }
    }

    /// Copy and number of each cell.
    fn cells(pieces: &[Piece]) -> Vec<(usize, usize)> {
        let cells = |p: &Piece| {
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
            let expected = all.iter().zip(&mask).filter(|(_, selected)| **selected);
            let expected: Vec<_> = expected.map(|(cell, _)| *cell).collect();
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
