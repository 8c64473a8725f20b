//! Which copy of a cell is seen where several fragments hold it.
//!
//! The newest wins: the largest timestamp (the cell's own in fragments that record them, else the fragment's start),
//! and on a tie the later fragment. Copies inside *one* fragment without timestamps are all kept, as libtiledb keeps
//! them; inside one with timestamps only the first of the newest.

use std::hash::{BuildHasher, Hasher};

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};

use super::coordinates::DimCells;
use crate::error::{Error, Result};

/// A tile whose cells are compared with those of others.
#[derive(Debug)]
pub struct ContestedTile {
    /// Age of its fragment: a larger number is newer.
    pub age: usize,
    /// The start of its fragment.
    pub fragment_time: u64,
    /// The cells' own timestamps, if recorded.
    pub timestamps: Option<Vec<u64>>,
    /// The coordinates, one entry a dimension.
    pub dims: Vec<DimCells>,
    /// The cells in question; those hidden are cleared.
    pub mask: Vec<bool>,
}

impl ContestedTile {
    fn time(&self, cell: usize) -> u64 {
        match &self.timestamps {
            Some(times) => times.get(cell).copied().unwrap_or(self.fragment_time),
            None => self.fragment_time,
        }
    }

    fn hash(&self, cell: usize, state: &DefaultHashBuilder) -> u64 {
        let mut hasher = state.build_hasher();
        for dim in &self.dims {
            match dim {
                DimCells::Keys { .. } => hasher.write_u64(dim.key(cell)),
                DimCells::Bytes { .. } | DimCells::Encoded(_) => {
                    let bytes = dim.bytes(cell);
                    hasher.write_usize(bytes.len());
                    hasher.write(bytes);
                }
            }
        }
        hasher.finish()
    }

    fn same_cell(&self, cell: usize, other: &Self, other_cell: usize) -> bool {
        self.dims
            .iter()
            .zip(&other.dims)
            .all(|(a, b)| a.same(cell, b, other_cell))
    }
}

/// The newest copy of a cell known so far.
#[derive(Debug, Clone, Copy)]
struct Newest {
    tile: usize,
    cell: usize,
    time: u64,
    age: usize,
}

/// Marks a cell that is not in question.
const NOT_ASKED: u32 = u32::MAX;

/// Clears the marks of all cells of which another tile holds a newer copy; says how many.
pub fn hide_older_copies(tiles: &mut [ContestedTile]) -> Result<usize> {
    let state = DefaultHashBuilder::default();
    let asked = tiles.iter().flat_map(|t| &t.mask).filter(|m| **m).count();
    let mut newest: Vec<Newest> = Vec::with_capacity(asked / 2);
    let mut table: HashTable<u32> = HashTable::with_capacity(asked / 2);
    let mut entries: Vec<Vec<u32>> = Vec::with_capacity(tiles.len());
    for (t, tile) in tiles.iter().enumerate() {
        let mut numbers = vec![NOT_ASKED; tile.mask.len()];
        for (cell, number) in numbers.iter_mut().enumerate() {
            if !tile.mask.get(cell).copied().unwrap_or(false) {
                continue;
            }
            let copy = Newest {
                tile: t,
                cell,
                time: tile.time(cell),
                age: tile.age,
            };
            let at = |entry: u32| newest.get(entry as usize).copied();
            let same = |entry: &u32| {
                let other = at(*entry).and_then(|n| tiles.get(n.tile).map(|tile| (tile, n.cell)));
                other.is_some_and(|(other, other_cell)| tile.same_cell(cell, other, other_cell))
            };
            let rehash = |entry: &u32| {
                let other = at(*entry).and_then(|n| tiles.get(n.tile).map(|tile| (tile, n.cell)));
                other.map_or(0, |(tile, cell)| tile.hash(cell, &state))
            };
            *number = match table.entry(tile.hash(cell, &state), same, rehash) {
                Entry::Occupied(found) => {
                    let entry = *found.get();
                    if let Some(known) = newest.get_mut(entry as usize)
                        && (known.time, known.age) < (copy.time, copy.age)
                    {
                        *known = copy;
                    }
                    entry
                }
                Entry::Vacant(slot) => {
                    let entry = u32::try_from(newest.len())
                        .ok()
                        .filter(|entry| *entry != NOT_ASKED)
                        .ok_or_else(|| Error::unsupported("too many cells overlap at one place"))?;
                    slot.insert(entry);
                    newest.push(copy);
                    entry
                }
            };
        }
        entries.push(numbers);
    }
    let mut hidden = 0;
    for (t, (tile, numbers)) in tiles.iter_mut().zip(&entries).enumerate() {
        for (cell, entry) in numbers.iter().enumerate() {
            let Some(known) = newest.get(*entry as usize) else {
                continue;
            };
            let as_new = (tile.time(cell), tile.age) == (known.time, known.age);
            let seen =
                as_new && (tile.timestamps.is_none() || (known.tile, known.cell) == (t, cell));
            if !seen && let Some(mark) = tile.mask.get_mut(cell) {
                *mark = false;
                hidden += 1;
            }
        }
    }
    Ok(hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tile(age: usize, time: u64, keys: &[u64], times: Option<&[u64]>) -> ContestedTile {
        ContestedTile {
            age,
            fragment_time: time,
            timestamps: times.map(<[u64]>::to_vec),
            dims: vec![DimCells::Keys {
                keys: keys.to_vec(),
                negative_zeros: None,
            }],
            mask: vec![true; keys.len()],
        }
    }

    #[test]
    fn the_newest_fragment_wins() {
        let mut tiles = [tile(0, 10, &[1, 2, 3], None), tile(1, 20, &[3, 4], None)];
        assert_eq!(hide_older_copies(&mut tiles).unwrap(), 1);
        assert_eq!(tiles[0].mask, [true, true, false]);
        assert_eq!(tiles[1].mask, [true, true]);
    }

    #[test]
    fn a_cells_own_timestamp_beats_the_age_of_its_fragment() {
        // A consolidated fragment [1, 10] holds a copy of cell 7 from time 10; a fragment from time 5 is later in order.
        let mut tiles = [
            tile(0, 1, &[7, 7, 8], Some(&[10, 1, 1])),
            tile(1, 5, &[7, 8], None),
        ];
        assert_eq!(hide_older_copies(&mut tiles).unwrap(), 3);
        assert_eq!(tiles[0].mask, [true, false, false]);
        assert_eq!(tiles[1].mask, [false, true]);
    }

    #[test]
    fn copies_inside_one_fragment_without_timestamps_stay() {
        let mut tiles = [tile(0, 1, &[5, 5], None), tile(1, 1, &[6], None)];
        assert_eq!(hide_older_copies(&mut tiles).unwrap(), 0);
        assert_eq!(tiles[0].mask, [true, true]);
    }

    #[test]
    fn a_tie_goes_to_the_later_fragment_and_unasked_cells_do_not_count() {
        let mut tiles = [tile(0, 5, &[1], None), tile(1, 5, &[1], None)];
        hide_older_copies(&mut tiles).unwrap();
        assert_eq!((tiles[0].mask[0], tiles[1].mask[0]), (false, true));
        let mut tiles = [tile(0, 5, &[1], None), tile(1, 5, &[1], None)];
        tiles[1].mask[0] = false;
        hide_older_copies(&mut tiles).unwrap();
        assert!(tiles[0].mask[0]);
    }
}
