//! Hash tables that find versions of cells: cells are split into buckets, and each bucket gets its own table.
//!
//! A bucket is small, so that its table stays in the processor's cache. The hash is seeded, because coordinates come
//! from files, which must not be able to choose their slots.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

/// About how many cells a bucket holds.
const BUCKET_CELLS: usize = 8 * 1024;
/// The largest number of buckets, as a power of two: distributing cells over more at once is slow.
const MOST_BUCKETS_LOG2: u32 = 9;
/// An empty slot.
const EMPTY: u64 = u64::MAX;
const EMPTY_ENTRY: u32 = u32::MAX;

/// A cell in a bucket.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BucketCell {
    /// Its packed coordinates, then the number of its fragment; less than 64 bits.
    pub key: u64,
    /// The cell, numbered through all tiles.
    pub cell: u32,
}

/// Cells, sorted into buckets.
pub(super) struct VersionTable {
    hash: CoordinateHash,
    fragment_bits: u32,
    /// Where the next item of each bucket goes; once all are in, the end of the bucket.
    next: Vec<usize>,
    items: Vec<BucketCell>,
    /// When each cell was written, if that decides.
    times: Vec<u64>,
}

impl VersionTable {
    /// Reserves room for cells with these coordinates.
    pub(super) fn new(packed: &[u64], fragment_bits: u32, timed: bool) -> Self {
        let buckets = (packed.len() / BUCKET_CELLS).next_power_of_two();
        let hash = CoordinateHash::new(buckets.trailing_zeros().min(MOST_BUCKETS_LOG2));
        let mut next = vec![0; 1 << hash.bucket_bits];
        for key in packed {
            if let Some(count) = next.get_mut(hash.bucket(hash.of(*key))) {
                *count += 1;
            }
        }
        let mut start = 0;
        for count in &mut next {
            let end = start + *count;
            *count = start;
            start = end;
        }
        Self {
            hash,
            fragment_bits,
            next,
            items: vec![BucketCell::default(); packed.len()],
            times: vec![0; if timed { packed.len() } else { 0 }],
        }
    }

    /// Puts a cell into its bucket.
    #[inline]
    pub(super) fn enter(&mut self, item: BucketCell, time: u64) {
        let hash = self.hash.of(item.key >> self.fragment_bits);
        let Some(next) = self.next.get_mut(self.hash.bucket(hash)) else {
            return;
        };
        if let Some(slot) = self.items.get_mut(*next) {
            *slot = item;
        }
        if let Some(slot) = self.times.get_mut(*next) {
            *slot = time;
        }
        *next += 1;
    }

    /// Sets `hidden` for the cells with newer versions, and counts them. `timed` says which fragments record times;
    /// `same` compares the coordinates of two cells, if packed numbers do not suffice.
    pub(super) fn hide(
        &self,
        hidden: &mut [bool],
        timed: &[bool],
        same: Option<impl Fn(u32, u32) -> bool>,
    ) -> usize {
        let mut count = 0;
        let mut hide = |item: &BucketCell| {
            if let Some(is_hidden) = hidden.get_mut(item.cell as usize) {
                *is_hidden = true;
            }
            count += 1;
        };
        let (mut table, mut thorough) = (Vec::new(), ThoroughTable::default());
        let simple = self.times.is_empty() && same.is_none();
        let same = |a: u32, b: u32| same.as_ref().is_none_or(|same| same(a, b));
        let mut start = 0;
        for end in &self.next {
            let bucket = start..*end;
            start = *end;
            let items = self.items.get(bucket.clone()).unwrap_or_default();
            if simple {
                self.first_come(items, &mut table, &mut hide);
            } else {
                let times = self.times.get(bucket).unwrap_or_default();
                thorough.hide(self, items, times, timed, &same, &mut hide);
            }
        }
        count
    }

    /// De-duplicates items that come newest first: the first of each coordinates stays, with the others of its
    /// fragment.
    #[expect(clippy::indexing_slicing, reason = "slots are taken modulo the length")]
    fn first_come(
        &self,
        items: &[BucketCell],
        table: &mut Vec<u64>,
        mut hide: impl FnMut(&BucketCell),
    ) {
        let len = (items.len() * 2).next_power_of_two();
        table.clear();
        table.resize(len, EMPTY);
        let (table, bits) = (table.as_mut_slice(), self.fragment_bits);
        for item in items {
            let coordinates = item.key >> bits;
            let mut slot = CoordinateHash::slot(self.hash.of(coordinates));
            loop {
                let found = &mut table[slot & (len - 1)];
                if *found == EMPTY {
                    *found = item.key;
                    break;
                }
                if *found >> bits == coordinates {
                    if *found != item.key {
                        hide(item);
                    }
                    break;
                }
                slot += 1;
            }
        }
    }
}

/// The table of a bucket whose cells have their own times, or whose packed numbers do not prove equality.
#[derive(Default)]
struct ThoroughTable {
    /// The entries in the slots of the table.
    table: Vec<u32>,
    /// The newest item with the coordinates of each entry.
    newest: Vec<usize>,
    /// The entry of each item.
    entries: Vec<u32>,
}

impl ThoroughTable {
    #[expect(
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        reason = "slots are taken modulo the length, entries and their items are known, and there are fewer than 2^32"
    )]
    fn hide(
        &mut self,
        table: &VersionTable,
        items: &[BucketCell],
        times: &[u64],
        timed: &[bool],
        same: &impl Fn(u32, u32) -> bool,
        mut hide: impl FnMut(&BucketCell),
    ) {
        let time = |i: usize| times.get(i).copied().unwrap_or(0);
        let bits = table.fragment_bits;
        let len = (items.len() * 2).next_power_of_two();
        self.table.clear();
        self.table.resize(len, EMPTY_ENTRY);
        self.newest.clear();
        self.entries.clear();
        for (i, item) in items.iter().enumerate() {
            let coordinates = item.key >> bits;
            let mut slot = CoordinateHash::slot(table.hash.of(coordinates));
            let entry = loop {
                let found = &mut self.table[slot & (len - 1)];
                if *found == EMPTY_ENTRY {
                    *found = self.newest.len() as u32;
                    self.newest.push(i);
                    break *found;
                }
                let other = &items[self.newest[*found as usize]];
                if other.key >> bits == coordinates && same(other.cell, item.cell) {
                    break *found;
                }
                slot += 1;
            };
            self.entries.push(entry);
            let newest = &mut self.newest[entry as usize];
            if is_newer((item, time(i)), (&items[*newest], time(*newest)), bits) {
                *newest = i;
            }
        }
        let number_bits = (1_u64 << bits) - 1;
        for (i, (item, entry)) in items.iter().zip(&self.entries).enumerate() {
            let newest = self.newest[*entry as usize];
            let as_new = item.key == items[newest].key && time(i) == time(newest);
            let timed = usize::try_from(item.key & number_bits).map_or(true, |f| timed[f]);
            if !as_new || (timed && i != newest) {
                hide(item);
            }
        }
    }
}

/// Whether a version is newer than another; fragments with smaller numbers win ties.
fn is_newer(a: (&BucketCell, u64), b: (&BucketCell, u64), fragment_bits: u32) -> bool {
    let fragment = |item: &BucketCell| item.key & ((1 << fragment_bits) - 1);
    (a.1, std::cmp::Reverse(fragment(a.0))) > (b.1, std::cmp::Reverse(fragment(b.0)))
}

/// A seeded hash of packed coordinates.
#[derive(Debug, Clone, Copy)]
pub(super) struct CoordinateHash {
    seed: u64,
    bucket_bits: u32,
}

impl CoordinateHash {
    pub(super) fn new(bucket_bits: u32) -> Self {
        // One seed serves the whole process: it only has to be unknown to whoever writes coordinates.
        static SEED: OnceLock<u64> = OnceLock::new();
        Self {
            seed: *SEED.get_or_init(|| RandomState::new().hash_one(0)),
            bucket_bits,
        }
    }

    #[inline]
    pub(super) fn of(self, key: u64) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
        let fold = |wide: u128| (wide as u64) ^ ((wide >> 64) as u64);
        fold(u128::from(key ^ self.seed) * 0x9E37_79B9_7F4A_7C15)
    }

    /// The bucket, by the high bits.
    #[inline]
    fn bucket(self, hash: u64) -> usize {
        let bucket = hash.rotate_left(self.bucket_bits) & ((1 << self.bucket_bits) - 1);
        usize::try_from(bucket).unwrap_or(0)
    }

    /// The first slot to try, by the low bits.
    #[inline]
    fn slot(hash: u64) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
        let slot = hash as u32 as usize;
        slot
    }
}
