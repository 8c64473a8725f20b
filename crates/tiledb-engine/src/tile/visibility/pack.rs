//! Packing of the coordinates of a cell into one number.
//!
//! Each dimension contributes the distance from its smallest value, which takes few bits if the tiles lie close
//! together; if there are few different strings, they are numbered in the order of their first occurrence. Then equal
//! numbers mean equal coordinates. If the bits do not suffice, or if there are many different strings, the number is a
//! hash, and equal numbers only mean that the coordinates must be compared.

use std::hash::BuildHasher;

use hashbrown::hash_map::Entry;
use hashbrown::{DefaultHashBuilder, HashMap};

use super::table::CoordinateHash;
use super::{ComparedCells, ComparedTile};
use crate::error::{Error, Result};
use crate::geometry::key::{NativeKey, with_native};
use crate::tile::coordinates::DimCells;

/// The most different strings of a dimension that are numbered.
const MOST_STRINGS: usize = 1 << 14;

/// A number for each compared cell, tile after tile.
pub(super) struct PackedCells {
    /// The numbers.
    pub keys: Vec<u64>,
    /// Whether equal numbers prove equal coordinates.
    pub exact: bool,
}

impl PackedCells {
    /// Packs coordinates into at most `limit` bits.
    pub(super) fn new(
        tiles: &[ComparedTile<'_>],
        asked: &[ComparedCells],
        limit: u32,
    ) -> Result<Self> {
        let dimensions = tiles.first().map_or(0, |tile| tile.dims.len());
        let mut columns = Vec::with_capacity(dimensions);
        for d in 0..dimensions {
            let cells = tiles
                .iter()
                .zip(asked)
                .filter_map(|(tile, asked)| Some((tile.dims.get(d)?, asked)));
            let column = PackedColumn {
                tiles: cells.collect(),
            };
            columns.push(column);
        }
        let count = asked.iter().map(ComparedCells::len).sum();
        Ok(match exact(&columns, count, limit)? {
            Some(keys) => Self { keys, exact: true },
            None => Self {
                keys: hashed(&columns, count, limit)?,
                exact: false,
            },
        })
    }
}

fn exact(columns: &[PackedColumn<'_, '_>], count: usize, limit: u32) -> Result<Option<Vec<u64>>> {
    let mut bounds = Vec::with_capacity(columns.len());
    let mut bits = 0;
    for column in columns {
        let found = column.bounds()?;
        bits += found.map_or(1, |(lo, hi)| bits_of(hi - lo));
        bounds.push(found);
    }
    if bits > limit {
        return Ok(None);
    }
    let mut keys = zeros(count);
    let mut used = 0;
    for (column, bounds) in columns.iter().zip(bounds) {
        if let Some((lo, hi)) = bounds {
            let bits = bits_of(hi - lo);
            column.push_distances(&mut keys, lo, bits)?;
            used += bits;
            continue;
        }
        let Some((numbers, bits)) = column.numbered() else {
            return Ok(None);
        };
        used += bits;
        for (key, number) in keys.iter_mut().zip(numbers) {
            *key = *key << bits | u64::from(number);
        }
    }
    Ok((used <= limit).then_some(keys))
}

fn hashed(columns: &[PackedColumn<'_, '_>], count: usize, limit: u32) -> Result<Vec<u64>> {
    let mut keys = zeros(count);
    for column in columns {
        column.push_hashes(&mut keys)?;
    }
    for key in &mut keys {
        *key >>= u64::BITS.saturating_sub(limit).min(u64::BITS - 1);
    }
    Ok(keys)
}

/// Zeros, written explicitly. The system maps zeroed memory twice for each page that is read before it is written, each
/// time with an interrupt to all other processors.
fn zeros(count: usize) -> Vec<u64> {
    std::iter::repeat_n(0, count).collect()
}

fn bits_of(largest: u64) -> u32 {
    u64::BITS - largest.leading_zeros()
}

/// One dimension of all tiles.
struct PackedColumn<'c, 't> {
    tiles: Vec<(&'c DimCells<'t>, &'c ComparedCells)>,
}

impl PackedColumn<'_, '_> {
    /// The smallest and the largest key among the compared cells; `None` for strings.
    fn bounds(&self) -> Result<Option<(u64, u64)>> {
        let (mut lo, mut hi) = (u64::MAX, 0);
        for (dim, asked) in &self.tiles {
            let DimCells::Numbers { datatype, bytes } = dim else {
                return Ok(None);
            };
            with_native!(*datatype, T => {
                let mut bounds = (u64::MAX, 0);
                asked.for_each_of(bytes.as_chunks().0, |value| {
                    let key = T::from_le_bytes(value).to_cell_key();
                    bounds = (key.min(bounds.0), key.max(bounds.1));
                });
                (lo, hi) = (lo.min(bounds.0), hi.max(bounds.1));
            }, _ => return Err(no_keys()));
        }
        Ok(Some((lo.min(hi), hi)))
    }

    /// Appends the distances from `lo` to the packed numbers, in `bits` bits.
    fn push_distances(&self, keys: &mut [u64], lo: u64, bits: u32) -> Result<()> {
        if bits == 0 {
            return Ok(());
        }
        let mut keys = keys.iter_mut();
        for (dim, asked) in &self.tiles {
            let DimCells::Numbers { datatype, bytes } = dim else {
                return Err(no_keys());
            };
            with_native!(*datatype, T => asked.for_each_of(bytes.as_chunks().0, |value| {
                let distance = T::from_le_bytes(value).to_cell_key().wrapping_sub(lo);
                if let Some(key) = keys.next() {
                    *key = key.unbounded_shl(bits) | distance;
                }
            }), _ => return Err(no_keys()));
        }
        Ok(())
    }

    /// Mixes the values into the packed numbers by a hash.
    fn push_hashes(&self, keys: &mut [u64]) -> Result<()> {
        let (hash, strings) = (CoordinateHash::new(0), DefaultHashBuilder::default());
        let mut keys = keys.iter_mut();
        for (dim, asked) in &self.tiles {
            let mut mix = |value: u64| {
                if let Some(key) = keys.next() {
                    *key = hash.of(*key ^ value);
                }
            };
            match dim {
                DimCells::Numbers { datatype, bytes } => {
                    with_native!(*datatype, T => asked.for_each_of(bytes.as_chunks().0, |value| {
                        mix(T::from_le_bytes(value).to_cell_key());
                    }), _ => return Err(no_keys()));
                }
                DimCells::Bytes { .. } | DimCells::Encoded(_) => {
                    asked.for_each_cell(|cell| mix(strings.hash_one(dim.bytes(cell))));
                }
            }
        }
        Ok(())
    }

    /// Numbers the strings, and gives the bits that a number takes; `None` if there are too many strings.
    fn numbered(&self) -> Option<(Vec<u32>, u32)> {
        let count = self.tiles.iter().map(|(_, asked)| asked.len()).sum();
        let mut numbers = Vec::with_capacity(count);
        let mut known: HashMap<&[u8], u32> = HashMap::new();
        for (dim, asked) in &self.tiles {
            // Neighbours are often equal.
            let mut last: Option<(&[u8], u32)> = None;
            asked.for_each_cell(|cell| {
                let string = dim.bytes(cell);
                let number = match last {
                    Some((last, number)) if last == string => number,
                    _ => number(&mut known, string),
                };
                last = Some((string, number));
                numbers.push(number);
            });
            if known.len() > MOST_STRINGS {
                return None;
            }
        }
        let largest = (known.len() as u64).saturating_sub(1);
        Some((numbers, bits_of(largest)))
    }
}

fn number<'a>(known: &mut HashMap<&'a [u8], u32>, string: &'a [u8]) -> u32 {
    let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
    match known.entry(string) {
        Entry::Occupied(known) => *known.get(),
        Entry::Vacant(entry) => *entry.insert(next),
    }
}

fn no_keys() -> Error {
    Error::internal("a dimension of this type has no keys")
}
