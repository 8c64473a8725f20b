//! The tiles of inputs, fetched and decoded before the merge asks for them.
//!
//! Each input reads at most one chunk of tiles ahead, and so do the next few inputs that the merge hasn't reached. If memory is
//! short, reading ahead is given up first: chunks shrink to single tiles, and grow again when there is enough memory.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;
use tokio::task::JoinHandle;

use super::deleted::InputDeletes;
use super::source::{ConsolidatedOutput, MergeSource};
use super::tile::InputTile;
use crate::array::fragment::Fragment;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::budget::MemoryBudget;
use crate::scan::threads;
use crate::storage::Storage;
use crate::tile::fetch::FetchList;
use crate::tile::tile_memory::DecodeScratch;

/// Filtered bytes that all inputs together fetch at a time.
const FETCHED_BYTES: u64 = 16 << 20;
/// Filtered bytes that one input fetches at a time, or one tile.
const CHUNK_BYTES: Range<u64> = (32 << 10)..(1 << 20);
/// Tiles that one input fetches at a time.
const CHUNK_TILES: u64 = 256;
/// Inputs that are fetched although the merge hasn't reached them.
const AHEAD: usize = 16;
/// After memory was short, chunks grow once this number of tiles came without another shortage. It doubles with each shortage,
/// because the tiles that were fetched ahead must then be fetched again.
const PATIENCE_TILES: u64 = 32;

/// An input that may not be opened yet. Its deletes are already prepared.
#[derive(Debug)]
pub(in crate::maintain::consolidate) struct UnopenedInput {
    /// The fragment.
    pub fragment: Arc<Fragment>,
    /// Its place among the inputs, oldest first.
    pub age: u32,
    /// The time of its cells, if they don't have their own.
    pub time: u64,
    /// The output.
    pub output: Arc<ConsolidatedOutput>,
    /// Its deletes. Opening may fail for lack of memory, and is tried again then.
    pub deletes: Arc<InputDeletes>,
    /// The opened input.
    pub source: OnceCell<MergeSource>,
}

impl UnopenedInput {
    /// Opens the input, once.
    pub(in crate::maintain::consolidate) async fn open(
        &self,
        storage: &Storage,
    ) -> Result<&MergeSource> {
        let open = || {
            let (fragment, output) = (Arc::clone(&self.fragment), Arc::clone(&self.output));
            MergeSource::open(
                storage,
                fragment,
                self.time,
                output,
                Arc::clone(&self.deletes),
            )
        };
        self.source.get_or_try_init(open).await
    }
}

/// The tiles of all inputs.
#[derive(Debug)]
pub(super) struct TileFeed {
    shared: FeedState,
    inputs: Vec<FedInput>,
    /// Inputs that weren't requested yet, in the order in which they will be.
    unreached: VecDeque<usize>,
    chunks: ChunkSize,
}

/// The size of the chunks that an input fetches, in filtered bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ChunkSize {
    bytes: u64,
    /// The size while there is enough memory.
    most_bytes: u64,
    /// Tiles since the size changed.
    tiles: u64,
    /// Tiles until chunks grow.
    patience: u64,
}

impl ChunkSize {
    fn new(most_bytes: u64) -> Self {
        Self {
            bytes: most_bytes,
            most_bytes,
            tiles: 0,
            patience: PATIENCE_TILES,
        }
    }

    /// Memory is short: one tile at a time for a while.
    fn shrink(&mut self) {
        self.bytes = 1;
        self.tiles = 0;
        self.patience = self.patience.saturating_mul(2);
    }

    /// A tile came, so chunks may grow.
    fn count_tile(&mut self) {
        self.tiles = self.tiles.saturating_add(1);
        if self.bytes < self.most_bytes && self.tiles >= self.patience {
            let grown = self.bytes.saturating_mul(2).max(CHUNK_BYTES.start);
            self.bytes = grown.min(self.most_bytes);
            self.tiles = 0;
        }
    }
}

/// The state that the loading of all inputs shares.
#[derive(Debug, Clone)]
struct FeedState {
    storage: Storage,
    budget: Arc<dyn MemoryBudget>,
    scratches: Arc<Mutex<Vec<DecodeScratch>>>,
}

#[derive(Debug)]
struct FedInput {
    source: Arc<UnopenedInput>,
    /// Tiles that are not loaded.
    tiles: Range<u64>,
    /// The number of its first tile, chosen so that all tiles have different numbers.
    serial: u64,
    ready: VecDeque<InputTile>,
    loading: Option<AbortingTask<TileChunk>>,
}

#[derive(Debug)]
struct TileChunk {
    tiles: Vec<InputTile>,
    next: u64,
}

impl TileFeed {
    pub(super) fn new(storage: &Storage, budget: &Arc<dyn MemoryBudget>) -> Self {
        Self {
            shared: FeedState {
                storage: storage.clone(),
                budget: Arc::clone(budget),
                scratches: Arc::default(),
            },
            inputs: Vec::new(),
            unreached: VecDeque::new(),
            chunks: ChunkSize::new(CHUNK_BYTES.end),
        }
    }

    /// Adds an input: tiles of a fragment.
    pub(super) fn add(&mut self, source: Arc<UnopenedInput>, tiles: Range<u64>) {
        // More tiles than fit into 40 bits do not fit into a file.
        let serial = (self.inputs.len() as u64) << 40;
        self.inputs.push(FedInput {
            source,
            tiles,
            serial,
            ready: VecDeque::new(),
            loading: None,
        });
    }

    /// Begins, given the order in which inputs will be requested.
    pub(super) fn begin(&mut self, order: Vec<usize>) {
        let inputs = u64::try_from(self.inputs.len()).unwrap_or(u64::MAX).max(1);
        let chunk_bytes = (FETCHED_BYTES / inputs).clamp(CHUNK_BYTES.start, CHUNK_BYTES.end);
        self.chunks = ChunkSize::new(chunk_bytes);
        self.unreached = order.into();
        self.load_ahead();
    }

    /// The next tile of an input; `None` if memory is short.
    pub(super) async fn next(&mut self, input: usize) -> Result<Option<InputTile>> {
        if let Some(place) = self
            .unreached
            .iter()
            .take(AHEAD * 2)
            .position(|i| *i == input)
        {
            self.unreached.remove(place);
            self.load_ahead();
        }
        let shared = self.shared.clone();
        let chunk_bytes = self.chunks.bytes;
        let Some(fed) = self.inputs.get_mut(input) else {
            return Err(Error::internal("there is no such input"));
        };
        if fed.ready.is_empty() {
            let loading = match fed.loading.take() {
                Some(loading) => loading,
                None => fed.load(&shared, chunk_bytes),
            };
            match loading.join().await {
                Ok(chunk) => fed.receive(chunk),
                Err(e) if e.kind() == ErrorKind::OutOfMemory => return Ok(None),
                Err(e) => return Err(e),
            }
        }
        let tile = fed.take(&shared, chunk_bytes);
        self.chunks.count_tile();
        tile.map(Some)
            .ok_or_else(|| Error::internal("an input has no more tiles"))
    }

    /// The first tiles of loaded inputs that weren't requested yet.
    pub(super) async fn loaded(&mut self) -> Result<Vec<(usize, InputTile)>> {
        let mut loaded = Vec::new();
        while let Some(index) = self.unreached.front().copied()
            && let Some(input) = self.inputs.get_mut(index)
            && let Some(loading) = input.loading.take_if(|loading| loading.is_done())
        {
            match loading.join().await {
                Ok(chunk) => input.receive(chunk),
                // The request for this input loads it again.
                Err(e) if e.kind() == ErrorKind::OutOfMemory => break,
                Err(e) => return Err(e),
            }
            let tile = input.take(&self.shared, self.chunks.bytes);
            loaded.extend(tile.map(|tile| (index, tile)));
            self.unreached.pop_front();
        }
        self.load_ahead();
        Ok(loaded)
    }

    /// Drops the tiles that were fetched ahead for inputs other than the needed one, and tiles that were loaded too early;
    /// `false` if there are none. For a while, the feed fetches one tile at a time.
    pub(super) fn give_up(
        &mut self,
        needed: Option<usize>,
        stock: impl Iterator<Item = (usize, InputTile)>,
    ) -> bool {
        self.chunks.shrink();
        self.unreached.clear();
        let mut given_up = false;
        for (index, tile) in stock {
            if let Some(input) = self.inputs.get_mut(index) {
                input.tiles.start = tile.serial.saturating_sub(input.serial);
                input.ready.clear();
                input.loading = None;
                given_up = true;
            }
        }
        for (index, input) in self.inputs.iter_mut().enumerate() {
            if Some(index) == needed {
                continue;
            }
            given_up |= input.loading.take().is_some();
            // Drop tiles that were fetched together with the current one.
            if let Some(first) = input.ready.front() {
                input.tiles.start = first.serial.saturating_sub(input.serial);
                input.ready.clear();
                given_up = true;
            }
        }
        given_up
    }

    fn load_ahead(&mut self) {
        for index in self.unreached.iter().take(AHEAD) {
            if let Some(input) = self.inputs.get_mut(*index)
                && input.loading.is_none()
                && input.ready.is_empty()
            {
                input.loading = Some(input.load(&self.shared, self.chunks.bytes));
            }
        }
    }
}

impl FedInput {
    fn receive(&mut self, chunk: TileChunk) {
        self.tiles.start = chunk.next;
        self.ready.extend(chunk.tiles);
    }

    /// The next loaded tile; after the last one, others are loaded.
    fn take(&mut self, shared: &FeedState, chunk_bytes: u64) -> Option<InputTile> {
        let tile = self.ready.pop_front();
        if self.loading.is_none() && self.ready.is_empty() && !self.tiles.is_empty() {
            self.loading = Some(self.load(shared, chunk_bytes));
        }
        tile
    }

    fn load(&self, shared: &FeedState, chunk_bytes: u64) -> AbortingTask<TileChunk> {
        let (source, shared) = (Arc::clone(&self.source), shared.clone());
        let (tiles, serial) = (self.tiles.clone(), self.serial);
        let load = async move { shared.load(source, tiles, serial, chunk_bytes).await };
        AbortingTask::new(load)
    }
}

impl FeedState {
    async fn load(
        self,
        unopened: Arc<UnopenedInput>,
        tiles: Range<u64>,
        serial: u64,
        chunk_bytes: u64,
    ) -> Result<TileChunk> {
        let source = unopened.open(&self.storage).await?;
        let (mut end, mut bytes) = (tiles.start, 0_u64);
        while end < tiles.end && end - tiles.start < CHUNK_TILES {
            bytes = bytes.saturating_add(source.filtered_bytes(end));
            if end > tiles.start && bytes > chunk_bytes {
                break;
            }
            end += 1;
        }
        let mut list = FetchList::default();
        let asked = source.ask(tiles.start..end, &mut list)?;
        let fetched_bytes = usize::try_from(list.bytes())?;
        let decoded = asked.bytes();
        let each = asked.decoded_bytes.clone();
        let mut grant = self.budget.reserve(decoded.saturating_add(fetched_bytes))?;
        let fetched = list.fetch(&self.storage).await?;
        let scratches = Arc::clone(&self.scratches);
        let opened = Arc::clone(&unopened);
        let work = move || {
            let idle = || scratches.lock().unwrap_or_else(PoisonError::into_inner);
            let taken = idle().pop();
            let mut scratch = taken.unwrap_or_default();
            let source = opened
                .source
                .get()
                .ok_or_else(|| Error::internal("an input is not open"))?;
            let tiles = source.decode(&asked, &fetched, serial + asked.first, &mut scratch);
            idle().push(scratch);
            tiles
        };
        let mut tiles = threads::decode(self.storage.engine(), work).await??;
        grant.shrink_to(decoded);
        // Each tile releases its memory when the merge no longer needs it.
        for (tile, bytes) in tiles.iter_mut().zip(each) {
            tile.memory = Some(grant.split(bytes));
        }
        Ok(TileChunk { tiles, next: end })
    }
}

/// A task of the runtime, which is stopped when this is dropped.
#[derive(Debug)]
pub(in crate::maintain::consolidate) struct AbortingTask<T>(JoinHandle<Result<T>>);

impl<T: Send + 'static> AbortingTask<T> {
    /// Begins.
    pub(in crate::maintain::consolidate) fn new(
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Self {
        Self(tokio::spawn(work))
    }

    /// Whether nobody has to wait for the result.
    fn is_done(&self) -> bool {
        self.0.is_finished()
    }

    /// Waits for the result.
    pub(in crate::maintain::consolidate) async fn join(mut self) -> Result<T> {
        let joined = (&mut self.0).await;
        joined.map_err(|e| Error::internal("reading a tile ended in a panic").with_source(e))?
    }
}

impl<T> Drop for AbortingTask<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_grow_again_after_a_shortage() {
        let usual = ChunkSize::new(100 << 10);
        let tiles_until = |chunks: &mut ChunkSize, bytes: u64| {
            let tiles = (0_u64..10_000).find(|_| {
                let found = chunks.bytes == bytes;
                chunks.count_tile();
                found
            });
            tiles.unwrap()
        };
        let mut chunks = usual.clone();
        assert_eq!(tiles_until(&mut chunks, 100 << 10), 0);
        chunks.shrink();
        assert_eq!(chunks.bytes, 1);
        assert_eq!(tiles_until(&mut chunks, 32 << 10), 2 * PATIENCE_TILES);
        chunks.shrink();
        assert_eq!(tiles_until(&mut chunks, 32 << 10), 4 * PATIENCE_TILES);
        let last = tiles_until(&mut chunks, 100 << 10);
        assert_eq!(last, 8 * PATIENCE_TILES - 1);
        for _ in 0..100 {
            chunks.shrink();
        }
        assert_eq!(chunks.bytes, 1);
    }
}
