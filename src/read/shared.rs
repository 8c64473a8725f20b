//! Tiles that several units need, decoded once.
//!
//! Where tiles straddle the cut between two units, or may hold copies of another unit's cells, both look at them. What
//! one decodes it leaves here for the others, until all have had it; memory is reserved for as long, and where there is
//! none, nothing is left. The partitions of one run of a query share: whoever comes first decodes, and others who want
//! the same wait. What is left is always the whole tile, so that it does not matter who left it.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use arrow::array::ArrayRef;

use super::memory::{Grant, MemoryBudget};
use super::plan::Units;
use super::plan::sparse::{SparseUnit, TileRef};
use crate::array::fragment::TileIdx;
use crate::array::types::Cells;
use crate::error::Result;

/// The tiles that more than one unit of a run needs.
#[derive(Debug, Default)]
pub struct SharedTiles {
    tiles: HashMap<(usize, TileIdx), SharedTile>,
}

/// A tile that several units need.
#[derive(Debug)]
pub struct SharedTile {
    units: usize,
    state: Mutex<Decoded>,
}

/// What is decoded of a tile so far.
#[derive(Debug, Default)]
struct Decoded {
    /// Units that are done with it.
    done: usize,
    fields: Vec<(Field, Value)>,
    grants: Vec<Grant>,
}

/// A field of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// A column, as it is stored.
    Stored(usize),
    /// A column in Arrow.
    Column(usize),
    /// When each cell was written.
    Written,
    /// When each cell was deleted.
    Deleted,
}

/// What a field was decoded to.
#[derive(Clone)]
pub enum Value {
    /// Cells as they are stored.
    Cells(Arc<Cells>),
    /// A column.
    Array(ArrayRef),
    /// Times.
    Times(Arc<Vec<u64>>),
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Value")
    }
}

impl SharedTiles {
    /// The tiles that several of these units need.
    pub fn of(units: &Units, among: Range<u64>) -> Arc<Self> {
        let Units::Sparse(units) = units else {
            return Arc::default();
        };
        let index = |unit| usize::try_from(unit).unwrap_or(usize::MAX);
        let among = index(among.start)..index(among.end).min(units.len());
        let units = units.get(among).unwrap_or_default();
        let mut counts: HashMap<(usize, TileIdx), usize> = HashMap::new();
        for tile in units.iter().flat_map(|unit| shareable(unit)) {
            *counts.entry((tile.fragment, tile.tile)).or_default() += 1;
        }
        let shared = counts.into_iter().filter(|(_, units)| *units > 1);
        let tile = |(place, units)| {
            let state = Mutex::default();
            (place, SharedTile { units, state })
        };
        Arc::new(Self {
            tiles: shared.map(tile).collect(),
        })
    }

    /// The tile, if it is shared.
    pub fn get(&self, tile: &TileRef) -> Option<&SharedTile> {
        self.tiles.get(&(tile.fragment, tile.tile))
    }

    /// Forgets what is decoded, to have its memory for something else; without waiting for what is being decoded.
    pub fn forget(&self) {
        for tile in self.tiles.values() {
            if let Ok(mut state) = tile.state.try_lock() {
                state.forget();
            }
        }
    }
}

impl SharedTile {
    /// Whether somebody is decoding it right now.
    pub fn is_busy(&self) -> bool {
        matches!(self.state.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// A field, decoded if it is not there yet; it takes about `bytes`.
    pub fn get_or_decode(
        &self,
        field: Field,
        bytes: usize,
        memory: &dyn MemoryBudget,
        decode: impl FnOnce() -> Result<Value>,
    ) -> Result<Value> {
        let mut state = self.lock();
        if let Some((_, value)) = state.fields.iter().find(|(known, _)| *known == field) {
            return Ok(value.clone());
        }
        let value = decode()?;
        // The last unit has nobody to leave it for.
        if state.done + 1 < self.units
            && let Ok(grant) = memory.reserve(bytes)
        {
            state.fields.push((field, value.clone()));
            state.grants.push(grant);
        }
        Ok(value)
    }

    /// A unit is done with the tile.
    fn leave(&self) {
        let mut state = self.lock();
        state.done += 1;
        if state.done >= self.units {
            state.forget();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Decoded> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Decoded {
    fn forget(&mut self) {
        self.fields = Vec::new();
        self.grants = Vec::new();
    }
}

/// The tiles of a unit that may lie in others, too: only where space is cut, or where units have witnesses.
fn shareable(unit: &SparseUnit) -> impl Iterator<Item = &TileRef> {
    let shares = unit.clip.is_some() || !unit.witnesses.is_empty();
    unit.all_tiles().filter(move |_| shares)
}

/// A unit's need of its tiles, until it is dropped.
#[derive(Debug)]
pub struct Sharing<'a> {
    shared: &'a SharedTiles,
    unit: &'a SparseUnit,
}

impl<'a> Sharing<'a> {
    /// The need of a unit that is about to be read.
    pub fn new(shared: &'a SharedTiles, unit: &'a SparseUnit) -> Self {
        Self { shared, unit }
    }
}

impl Drop for Sharing<'_> {
    fn drop(&mut self) {
        if self.shared.tiles.is_empty() {
            return;
        }
        let tiles = shareable(self.unit);
        let tiles = tiles.filter_map(|tile| self.shared.get(tile));
        tiles.for_each(SharedTile::leave);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::subarray::Subarray;
    use crate::error::Error;
    use crate::read::memory::Unlimited;
    use crate::read::plan::sparse::Copies;

    #[derive(Debug)]
    struct NoMemory;

    impl MemoryBudget for NoMemory {
        fn reserve(&self, _bytes: usize) -> Result<Grant> {
            Err(Error::out_of_memory("none"))
        }
    }

    fn unit(tiles: &[u64]) -> Arc<SparseUnit> {
        let tile = |tile: &u64| TileRef {
            fragment: 0,
            tile: TileIdx(*tile),
            cells: 1,
            covered: false,
            spared: true,
            proven: false,
        };
        Arc::new(SparseUnit {
            tiles: tiles.iter().map(tile).collect(),
            witnesses: Vec::new(),
            clip: Some(Arc::new(Subarray::all(1))),
            copies: Copies::Anywhere,
            cells: 1,
        })
    }

    fn decode(shared: &SharedTile, memory: &dyn MemoryBudget, time: u64) -> u64 {
        let decode = || Ok(Value::Times(Arc::new(vec![time])));
        match shared.get_or_decode(Field::Written, 8, memory, decode) {
            Ok(Value::Times(times)) => times[0],
            _ => panic!("times were decoded"),
        }
    }

    #[test]
    fn a_tile_of_two_units_is_decoded_by_the_first_of_them_and_forgotten_by_the_last() {
        let units = [unit(&[1, 2]), unit(&[2, 3]), unit(&[4])];
        let all = SharedTiles::of(&Units::Sparse(units.to_vec()), 0..3);
        assert_eq!(all.tiles.len(), 1);
        let tile = all.get(&units[0].tiles[1]).unwrap();
        let first = Sharing::new(&all, &units[0]);
        assert_eq!(decode(tile, &Unlimited, 1), 1);
        drop(first);
        let second = Sharing::new(&all, &units[1]);
        assert_eq!(decode(tile, &Unlimited, 2), 1);
        drop(second);
        assert!(tile.lock().fields.is_empty());
    }

    #[test]
    fn units_that_others_read_do_not_count() {
        let units = Units::Sparse(vec![unit(&[1, 2]), unit(&[2, 3]), unit(&[3])]);
        assert!(SharedTiles::of(&units, 0..1).tiles.is_empty());
        assert_eq!(SharedTiles::of(&units, 1..3).tiles.len(), 1);
        assert_eq!(SharedTiles::of(&units, 0..9).tiles.len(), 2);
    }

    #[test]
    fn nothing_is_left_where_there_is_no_memory() {
        let units = [unit(&[1]), unit(&[1])];
        let all = SharedTiles::of(&Units::Sparse(units.to_vec()), 0..2);
        let tile = all.get(&units[0].tiles[0]).unwrap();
        assert_eq!(decode(tile, &NoMemory, 1), 1);
        assert_eq!(decode(tile, &Unlimited, 2), 2);
        assert_eq!(decode(tile, &Unlimited, 3), 2);
        all.forget();
        assert_eq!(decode(tile, &Unlimited, 4), 4);
        assert!(!tile.is_busy());
    }
}
