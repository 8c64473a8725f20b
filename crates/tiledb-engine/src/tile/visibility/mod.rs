//! De-duplication: which version of a cell is visible where several fragments hold it.
//!
//! The newest version wins: the one with the largest timestamp (the cell's own in fragments that record them, else the
//! fragment's start), and on a tie the one of the later fragment. Versions inside *one* fragment without timestamps are
//! all kept, as libtiledb keeps them; inside one with timestamps only the first of the newest is kept.
//!
//! Where versions can only be neighbours, each cell is compared with the one before (`neighbours`). Where they may lie
//! anywhere, the coordinates of a cell are packed into one number (`pack`). Its hash assigns the cell to a bucket, the
//! newest fragment first, and each bucket is de-duplicated in its own small hash table (`table`). Of cells without
//! timestamps the first to enter the table is the newest, and every later one with the same coordinates is hidden.

mod neighbours;
mod pack;
mod table;

#[cfg(test)]
mod tests;

pub use self::neighbours::{ComparedRuns, TimedTile};

use std::cmp::Reverse;

use self::pack::PackedCells;
use self::table::{BucketCell, VersionTable};
use crate::error::{Error, Result};
use crate::tile::coordinates::DimCells;

/// The memory to compare a cell with those of other tiles: its index in the tile, its packed coordinates, its entry in
/// a bucket, and its time there.
pub const BYTES_PER_COMPARED_CELL: usize = 4 + 8 + 16 + 8;

/// A tile whose cells are compared with those of other tiles.
#[derive(Debug)]
pub struct ComparedTile<'a> {
    /// The age of its fragment: a larger number is newer.
    pub age: usize,
    /// The start of its fragment.
    pub fragment_time: u64,
    /// The cells' own timestamps, if the fragment records them.
    pub timestamps: Option<&'a [u64]>,
    /// The coordinates, one entry per dimension.
    pub dims: Vec<DimCells<'a>>,
    /// Selects the cells that are compared; hidden cells are deselected.
    pub mask: &'a mut [bool],
}

impl ComparedTile<'_> {
    fn time(&self, cell: usize) -> u64 {
        let own = self.timestamps.and_then(|times| times.get(cell));
        own.copied().unwrap_or(self.fragment_time)
    }
}

/// Deselects all cells of which another tile holds a newer version; counts them.
pub fn hide_older_versions(tiles: &mut [ComparedTile<'_>]) -> Result<usize> {
    // The newest tiles come first, and on a tie those whose cells have their own times. The sort is stable: of equally
    // new versions in one fragment, the first stays first.
    let timed = tiles.iter().any(|tile| tile.timestamps.is_some());
    tiles.sort_by_key(|tile| {
        let time = if timed { 0 } else { tile.fragment_time };
        Reverse((time, tile.age))
    });
    let cells = tiles.iter().map(|t| t.mask.len()).sum::<usize>();
    if u32::try_from(cells).is_err() {
        return Err(Error::unsupported(
            "too many cells overlap at the same coordinates",
        ));
    }
    let asked = tiles
        .iter()
        .map(|t| ComparedCells::new(t.mask))
        .collect::<Vec<_>>();
    let fragments = VisibleFragments::of(tiles);
    let packed = PackedCells::new(tiles, &asked, 63 - fragments.bits)?;
    let mut table = VersionTable::new(&packed.keys, fragments.bits, timed);
    let mut starts = Vec::with_capacity(tiles.len());
    let (mut first, mut rest) = (0, packed.keys.as_slice());
    for ((tile, asked), fragment) in tiles.iter().zip(&asked).zip(&fragments.of_tile) {
        let (keys, others) = rest.split_at_checked(asked.len()).unwrap_or_default();
        rest = others;
        asked.for_each(keys, |cell, key| {
            let time = if timed { tile.time(cell) } else { 0 };
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the number of all cells was checked"
            )]
            let cell = (first + cell) as u32;
            let key = key << fragments.bits | fragment;
            table.enter(BucketCell { key, cell }, time);
        });
        starts.push(first);
        first += tile.mask.len();
    }
    let exact = packed.exact;
    drop((packed, asked));
    let mut hidden = vec![false; cells];
    let same = |a, b| same_coordinates(tiles, &starts, a, b);
    let same = (!exact).then_some(same);
    let count = table.hide(&mut hidden, &fragments.timed, same);
    let mut rest = hidden.as_slice();
    for tile in tiles.iter_mut() {
        let (own, others) = rest.split_at_checked(tile.mask.len()).unwrap_or_default();
        rest = others;
        for (selected, hidden) in tile.mask.iter_mut().zip(own) {
            *selected &= !*hidden;
        }
    }
    Ok(count)
}

/// Whether two cells, numbered through all tiles, have the same coordinates.
fn same_coordinates(tiles: &[ComparedTile<'_>], starts: &[usize], a: u32, b: u32) -> bool {
    let find = |cell: u32| {
        let number = starts
            .partition_point(|start| *start <= cell as usize)
            .checked_sub(1)?;
        let (tile, start) = tiles.get(number).zip(starts.get(number))?;
        Some((&tile.dims, cell as usize - start))
    };
    let Some(((a, a_cell), (b, b_cell))) = find(a).zip(find(b)) else {
        return false;
    };
    let mut dims = a.iter().zip(b);
    dims.all(|(a, b)| {
        a.cell_key(a_cell) == b.cell_key(b_cell) && a.bytes(a_cell) == b.bytes(b_cell)
    })
}

/// The fragments of some tiles, numbered in the order of the tiles.
struct VisibleFragments {
    /// The number of each tile's fragment.
    of_tile: Vec<u64>,
    /// Whether a fragment records the times of its cells.
    timed: Vec<bool>,
    /// The number of bits that a fragment's number takes.
    bits: u32,
}

impl VisibleFragments {
    /// Numbers the fragments; tiles of one fragment must be neighbours.
    fn of(tiles: &[ComparedTile<'_>]) -> Self {
        let (mut of_tile, mut timed) = (Vec::with_capacity(tiles.len()), Vec::new());
        let mut last = None;
        for tile in tiles {
            if last != Some(tile.age) {
                last = Some(tile.age);
                timed.push(false);
            }
            if let Some(timed) = timed.last_mut() {
                *timed |= tile.timestamps.is_some();
            }
            of_tile.push(timed.len() as u64 - 1);
        }
        let bits = u64::BITS - (timed.len() as u64).leading_zeros();
        Self {
            of_tile,
            timed,
            bits,
        }
    }
}

/// The cells of a tile that are compared with other cells.
#[derive(Debug)]
pub enum ComparedCells {
    /// All cells; this is their number.
    All(usize),
    /// The cells with these indices.
    Some(Vec<u32>),
}

impl ComparedCells {
    /// The selected cells of a mask.
    pub fn new(mask: &[bool]) -> Self {
        let count = mask
            .iter()
            .map(|selected| usize::from(*selected))
            .sum::<usize>();
        if count == mask.len() {
            return Self::All(count);
        }
        // A loop without branches: every index is written, and the next one overwrites it if the cell is not selected.
        let mut cells = vec![0; count + 1];
        let mut next = 0;
        for (cell, selected) in (0_u32..).zip(mask) {
            if let Some(slot) = cells.get_mut(next) {
                *slot = cell;
            }
            next += usize::from(*selected);
        }
        cells.truncate(count);
        Self::Some(cells)
    }

    /// The number of cells.
    pub fn len(&self) -> usize {
        match self {
            Self::All(count) => *count,
            Self::Some(cells) => cells.len(),
        }
    }

    /// Whether there are no cells.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first cell and the last.
    fn ends(&self) -> Option<(usize, usize)> {
        match self {
            Self::All(count) => Some((0, count.checked_sub(1)?)),
            Self::Some(cells) => Some((*cells.first()? as usize, *cells.last()? as usize)),
        }
    }

    /// Calls `f` with each cell and its value; `values` has one value for each of these cells.
    fn for_each<T: Copy>(&self, values: &[T], mut f: impl FnMut(usize, T)) {
        match self {
            Self::All(_) => values.iter().enumerate().for_each(|(c, v)| f(c, *v)),
            Self::Some(cells) => {
                let both = cells.iter().zip(values);
                both.for_each(|(cell, v)| f(*cell as usize, *v));
            }
        }
    }

    /// Calls `f` with each cell.
    fn for_each_cell(&self, f: impl FnMut(usize)) {
        match self {
            Self::All(count) => (0..*count).for_each(f),
            Self::Some(cells) => cells.iter().map(|cell| *cell as usize).for_each(f),
        }
    }

    /// Calls `f` with the value of each cell; `values` has one value for every cell of the tile.
    fn for_each_of<const N: usize>(&self, values: &[[u8; N]], mut f: impl FnMut([u8; N])) {
        match self {
            Self::All(count) => values.iter().take(*count).for_each(|v| f(*v)),
            Self::Some(cells) => cells
                .iter()
                .filter_map(|cell| values.get(*cell as usize))
                .for_each(|v| f(*v)),
        }
    }
}
