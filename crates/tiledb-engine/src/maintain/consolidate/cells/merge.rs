//! A merge of sorted inputs, which finds the next cells and copies nothing.
//!
//! The inputs lie in a heap by their next cell. As long as the first input's cells come before those of the second, they are
//! taken together, and doubling steps find the end of the run: inputs that do not overlap cost nothing per cell. An input whose
//! cells are not loaded yet lies in the heap by a lower bound of its cells, and is requested when it is first. The subtle
//! thing: an input may turn out not to be sorted, because its writer compared strings in another way; then [`Merger::give`]
//! returns `false`, and the caller begins again with inputs of single tiles.

use std::cmp::Ordering;
use std::sync::Arc;

use hashbrown::HashMap;

use super::order::{LowerCellBound, MergeCell};
use super::source::ConsolidatedOutput;
use super::tile::{CellSegment, InputTile, TileRecipe};
use super::{CellStep, KeptVersions, MergedCells, NextCell};
use crate::error::{Error, Result};

/// The rules of a merge.
#[derive(Debug)]
pub(super) struct MergeRules {
    /// The inputs' columns and order.
    pub output: Arc<ConsolidatedOutput>,
    /// Cells in a tile of the output.
    pub capacity: usize,
    /// Whether cells of the same coordinates are different cells.
    pub allows_duplicates: bool,
    /// Which versions remain.
    pub versions: KeptVersions,
}

/// The tiles of the output after which the merge stops, for others to filter them.
const TILES_AT_A_TIME: usize = 4;

/// Merges inputs.
#[derive(Debug)]
pub(super) struct Merger {
    rules: MergeRules,
    inputs: Vec<MergeInput>,
    /// The first number of the next cell of each input.
    heads: Vec<u64>,
    heap: Vec<usize>,
    /// Tiles of inputs that weren't requested yet.
    stock: HashMap<usize, InputTile>,
    current: TileRecipe,
    /// The index of each tile in the current recipe.
    known: HashMap<u64, u32>,
    complete: Vec<TileRecipe>,
    /// The last cell that was taken.
    last: Option<(Arc<InputTile>, usize, u32)>,
    /// The versions of the current cell, newest first.
    group: Vec<(Arc<InputTile>, usize, u32)>,
    counts: MergedCells,
}

#[derive(Debug)]
struct MergeInput {
    /// The age of the fragment.
    age: u32,
    /// The place among the inputs of one fragment.
    part: u64,
    /// Tiles that are not given yet.
    left: u64,
    state: MergeState,
}

#[derive(Debug)]
enum MergeState {
    Ahead(LowerCellBound),
    At(Arc<InputTile>, usize),
    /// The input has no more cells, and holds no tile.
    Ended,
}

impl Merger {
    /// A merge without inputs.
    pub(super) fn new(rules: MergeRules) -> Self {
        Self {
            rules,
            inputs: Vec::new(),
            heads: Vec::new(),
            heap: Vec::new(),
            stock: HashMap::new(),
            current: TileRecipe::default(),
            known: HashMap::new(),
            complete: Vec::new(),
            last: None,
            group: Vec::new(),
            counts: MergedCells::default(),
        }
    }

    /// Adds an input of `tiles` tiles, whose cells all come at `bound` or later.
    pub(super) fn add(&mut self, age: u32, part: u64, tiles: u64, bound: LowerCellBound) {
        if tiles == 0 {
            return;
        }
        self.heads.push(bound.head());
        self.inputs.push(MergeInput {
            age,
            part,
            left: tiles,
            state: MergeState::Ahead(bound),
        });
        self.heap.push(self.inputs.len() - 1);
        let mut child = self.heap.len() - 1;
        while child > 0 {
            let parent = (child - 1) / 2;
            if self.is_before(child, parent) {
                self.heap.swap(child, parent);
            }
            child = parent;
        }
    }

    /// Adds the next tile of an input that was requested; `false` if its cells are not in the order of the merge.
    pub(super) fn give(&mut self, input: usize, tile: InputTile) -> Result<bool> {
        let tile = Arc::new(tile);
        let output = Arc::clone(&self.rules.output);
        let asked = self.heap.first() == Some(&input);
        let Some(slot) = self.inputs.get_mut(input).filter(|_| asked) else {
            return Err(Error::internal("an input was given that was not asked for"));
        };
        slot.left = slot.left.saturating_sub(1);
        let empty = tile.cells == 0;
        if !empty {
            let first = MergeCell {
                tile: &tile,
                place: 0,
            };
            if let Some((last, place, _)) = &self.last {
                let last = MergeCell {
                    tile: last,
                    place: *place,
                };
                if output.order.compare_versions(first, last).is_lt() {
                    return Ok(false);
                }
            }
            if let Some(head) = self.heads.get_mut(input) {
                *head = output.order.head(first);
            }
        }
        slot.state = MergeState::At(tile, 0);
        if !empty {
            self.settle();
        }
        Ok(true)
    }

    /// The numbers of cells that were read and written so far.
    pub(super) fn counts(&self) -> MergedCells {
        self.counts
    }

    /// Adds the next tile of an input before it is requested.
    pub(super) fn store(&mut self, input: usize, tile: InputTile) {
        self.stock.insert(input, tile);
    }

    /// The tiles that were added before they were requested, and their inputs; the merge requests them again.
    pub(super) fn empty_stock(&mut self) -> impl Iterator<Item = (usize, InputTile)> {
        std::mem::take(&mut self.stock).into_iter()
    }

    /// Continues until some tiles of the output are complete, or an input must give its next tile.
    pub(super) fn advance(&mut self) -> Result<CellStep> {
        let next = self.go_on()?;
        if next == NextCell::Done {
            self.flush()?;
            if self.current.cells > 0 {
                self.finish_tile();
            }
        }
        Ok(CellStep {
            tiles: std::mem::take(&mut self.complete),
            next,
        })
    }

    fn go_on(&mut self) -> Result<NextCell> {
        while self.complete.len() < TILES_AT_A_TIME {
            let Some(first) = self.heap.first().copied() else {
                return Ok(NextCell::Done);
            };
            let input = self.input(first)?;
            let (tile, place) = match &input.state {
                MergeState::At(tile, place) if *place < tile.cells => (Arc::clone(tile), *place),
                MergeState::At(..) | MergeState::Ended if input.left == 0 => {
                    self.end(first);
                    continue;
                }
                MergeState::Ahead(_) | MergeState::At(..) | MergeState::Ended => {
                    let Some(tile) = self.stock.remove(&first) else {
                        return Ok(NextCell::Needs(first));
                    };
                    if self.give(first, tile)? {
                        continue;
                    } else {
                        return Ok(NextCell::Unsorted);
                    }
                }
            };
            let age = input.age;
            let end = self.run_end(first, &tile, place);
            self.take(&tile, place, end, age)?;
            self.move_to(first, &tile, end);
        }
        Ok(NextCell::More)
    }

    /// Takes the first input, which has no more cells, off the heap.
    fn end(&mut self, first: usize) {
        if let Some(input) = self.inputs.get_mut(first) {
            input.state = MergeState::Ended;
        }
        self.heap.swap_remove(0);
        self.settle();
    }

    fn input(&self, input: usize) -> Result<&MergeInput> {
        let input = self.inputs.get(input);
        input.ok_or_else(|| Error::internal("the merge has no such input"))
    }

    fn move_to(&mut self, input: usize, tile: &Arc<InputTile>, place: usize) {
        if let (true, Some(head)) = (place < tile.cells, self.heads.get_mut(input)) {
            *head = self.rules.output.order.head(MergeCell { tile, place });
        }
        let mut exhausted = false;
        if let Some(input) = self.inputs.get_mut(input) {
            exhausted = place >= tile.cells && input.left > 0;
            input.state = MergeState::At(Arc::clone(tile), place);
        }
        // An input without cells stays first, so that its next tile is requested at once.
        if !exhausted && place < tile.cells {
            self.settle();
        }
    }

    /// Moves the first of the heap to its place.
    fn settle(&mut self) {
        let mut parent = 0;
        loop {
            let left = parent * 2 + 1;
            let right = left + 1;
            let mut first = left;
            if right < self.heap.len() && self.is_before(right, left) {
                first = right;
            }
            if first >= self.heap.len() || !self.is_before(first, parent) {
                return;
            }
            self.heap.swap(first, parent);
            parent = first;
        }
    }

    /// Whether the input at a place of the heap comes before that at another.
    #[inline]
    fn is_before(&self, a: usize, b: usize) -> bool {
        let at = |place: usize| self.heap.get(place).copied().unwrap_or(usize::MAX);
        self.compare_inputs(at(a), at(b)).is_lt()
    }

    #[inline]
    fn compare_inputs(&self, a: usize, b: usize) -> Ordering {
        let head = |input: usize| self.heads.get(input).copied().unwrap_or(u64::MAX);
        head(a)
            .cmp(&head(b))
            .then_with(|| self.compare_states(a, b))
    }

    fn compare_states(&self, a: usize, b: usize) -> Ordering {
        let (Some(x), Some(y)) = (self.inputs.get(a), self.inputs.get(b)) else {
            return a.cmp(&b);
        };
        let order = &self.rules.output.order;
        match (&x.state, &y.state) {
            // An ended input is in no heap.
            (MergeState::Ended, _) | (_, MergeState::Ended) => a.cmp(&b),
            // The next cells of an input without any are requested first.
            (MergeState::At(tile, place), _) if *place >= tile.cells => Ordering::Less,
            (_, MergeState::At(tile, place)) if *place >= tile.cells => Ordering::Greater,
            (MergeState::Ahead(x), MergeState::Ahead(y)) => x.compare(y).then(a.cmp(&b)),
            (MergeState::Ahead(bound), MergeState::At(tile, place)) => {
                let cell = MergeCell {
                    tile,
                    place: *place,
                };
                order.compare_bound(bound, cell).then(Ordering::Less)
            }
            (MergeState::At(tile, place), MergeState::Ahead(bound)) => {
                let cell = MergeCell {
                    tile,
                    place: *place,
                };
                let bound = order.compare_bound(bound, cell).then(Ordering::Less);
                bound.reverse()
            }
            (MergeState::At(tile, place), MergeState::At(other, other_place)) => {
                let cell = MergeCell {
                    tile,
                    place: *place,
                };
                let other = MergeCell {
                    tile: other,
                    place: *other_place,
                };
                order
                    .compare_versions(cell, other)
                    .then_with(|| (y.age, x.part).cmp(&(x.age, y.part)))
            }
        }
    }

    /// Whether a cell of the first input comes before all cells of another.
    fn precedes(&self, first: usize, cell: MergeCell<'_>, other: usize) -> bool {
        let head = self.rules.output.order.head(cell);
        let other_head = self.heads.get(other).copied().unwrap_or(u64::MAX);
        if head != other_head {
            return head < other_head;
        }
        let (Some(x), Some(y)) = (self.inputs.get(first), self.inputs.get(other)) else {
            return true;
        };
        let order = &self.rules.output.order;
        match &y.state {
            MergeState::Ended => true,
            MergeState::Ahead(bound) => order.compare_bound(bound, cell).is_gt(),
            MergeState::At(tile, place) => {
                let other = MergeCell {
                    tile,
                    place: *place,
                };
                order
                    .compare_versions(cell, other)
                    .then_with(|| (y.age, x.part).cmp(&(x.age, y.part)))
                    .is_lt()
            }
        }
    }

    /// The end of the first input's cells that come before all others. The cell at `place` does.
    fn run_end(&self, first: usize, tile: &InputTile, place: usize) -> usize {
        let second = match (self.heap.get(1), self.heap.get(2)) {
            (Some(left), Some(right)) => match self.is_before(2, 1) {
                true => *right,
                false => *left,
            },
            (Some(left), None) => *left,
            (None, _) => return tile.cells,
        };
        let precedes = |place: usize| self.precedes(first, MergeCell { tile, place }, second);
        let (mut inside, mut step) = (place, 1);
        while inside + step < tile.cells && precedes(inside + step) {
            inside += step;
            step *= 2;
        }
        let mut outside = (inside + step).min(tile.cells);
        while outside - inside > 1 {
            let middle = inside + (outside - inside) / 2;
            if precedes(middle) {
                inside = middle
            } else {
                outside = middle
            }
        }
        outside
    }

    /// Takes cells of a tile.
    fn take(&mut self, tile: &Arc<InputTile>, start: usize, end: usize, age: u32) -> Result<()> {
        self.counts.read += (end - start) as u64;
        if self.rules.versions == KeptVersions::All {
            let start = if self.is_hidden(tile, start, age) {
                start + 1
            } else {
                start
            };
            self.push(tile, start, end)?;
        } else {
            for place in start..end {
                self.group_cell(tile, place, age)?;
            }
        }
        match &mut self.last {
            Some((last, place, of)) if Arc::ptr_eq(last, tile) => {
                (*place, *of) = (end - 1, age);
            }
            last => *last = Some((Arc::clone(tile), end - 1, age)),
        }
        Ok(())
    }

    /// Whether a newer fragment has a version of this cell of the same time: no reader ever sees this one.
    fn is_hidden(&self, tile: &Arc<InputTile>, place: usize, age: u32) -> bool {
        let Some((last, last_place, last_age)) = &self.last else {
            return false;
        };
        let (cell, other) = (
            MergeCell { tile, place },
            MergeCell {
                tile: last,
                place: *last_place,
            },
        );
        let order = &self.rules.output.order;
        !self.rules.allows_duplicates
            && *last_age != age
            && order.head(cell) == order.head(other)
            && order.compare_versions(cell, other).is_eq()
            && order.same_cell(cell, other)
    }

    /// Adds a cell to the current versions, or begins with those of another cell.
    fn group_cell(&mut self, tile: &Arc<InputTile>, place: usize, age: u32) -> Result<()> {
        let cell = MergeCell { tile, place };
        if let Some((last, last_place, last_age)) = self.group.last() {
            let order = &self.rules.output.order;
            let last = MergeCell {
                tile: last,
                place: *last_place,
            };
            let same = !self.rules.allows_duplicates
                && order.head(cell) == order.head(last)
                && order.compare(cell, last).is_eq()
                && order.same_cell(cell, last);
            if !same {
                self.flush()?;
            } else if order.compare_versions(cell, last).is_eq() && *last_age != age {
                // A newer fragment has a version of the same time: no reader ever sees this one.
                return Ok(());
            }
        }
        self.group.push((Arc::clone(tile), place, age));
        Ok(())
    }

    /// Keeps the current versions that remain.
    fn flush(&mut self) -> Result<()> {
        let mut group = std::mem::take(&mut self.group);
        if self.rules.versions == KeptVersions::Newest {
            group.truncate(1);
        }
        while group
            .last()
            .is_some_and(|(tile, place, _)| tile.is_dead(*place))
        {
            group.pop();
        }
        for (tile, place, _) in &group {
            self.push(tile, *place, place + 1)?;
        }
        group.clear();
        self.group = group;
        Ok(())
    }

    /// Copies cells to the output.
    fn push(&mut self, tile: &Arc<InputTile>, mut start: usize, end: usize) -> Result<()> {
        while start < end {
            let room = self.rules.capacity - self.current.cells;
            let count = room.min(end - start);
            let number = match self.known.get(&tile.serial) {
                Some(number) => *number,
                None => {
                    let number = u32::try_from(self.current.tiles.len())?;
                    self.current.tiles.push(Arc::clone(tile));
                    self.known.insert(tile.serial, number);
                    number
                }
            };
            let (from, len) = (u32::try_from(start)?, u32::try_from(count)?);
            match self.current.segments.last_mut() {
                Some(last) if last.tile == number && last.start + last.len == from => {
                    last.len += len;
                }
                _ => self.current.segments.push(CellSegment {
                    tile: number,
                    start: from,
                    len,
                }),
            }
            self.current.cells += count;
            self.counts.written += count as u64;
            start += count;
            if self.current.cells >= self.rules.capacity {
                self.finish_tile();
            }
        }
        Ok(())
    }

    fn finish_tile(&mut self) {
        self.known.clear();
        self.complete.push(std::mem::take(&mut self.current));
    }
}
