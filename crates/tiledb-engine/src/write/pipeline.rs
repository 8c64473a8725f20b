//! Tiles on their way to a fragment: filtered side by side on other threads, appended in their order.
//!
//! The memory of a tile, and of its filtered form, is reserved from its first cell until its bytes have been handed to the
//! store. If the memory is used up, the pipeline first waits for tiles that are on their way.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::encode::{EncodedTile, RawTile, TileEncoders};
use super::fields::WrittenFields;
use super::fragment::{FragmentWriter, StagedFragment};
use crate::error::{Error, ErrorKind, Result};
use crate::filter::EncryptionKey;
use crate::format::domain_range::DomainRange;
use crate::memory::budget::{Grant, MemoryBudget};

/// The tiles on their way for each thread, so that no thread waits while tiles are appended and the next ones made.
pub const QUEUED: usize = 2;

/// What has been written so far. It grows while a change runs, and may be looked at meanwhile.
#[derive(Debug, Default)]
pub struct WrittenCounts {
    tiles: AtomicU64,
    bytes: AtomicU64,
    filtering_nanos: AtomicU64,
}

impl WrittenCounts {
    /// The tiles that were handed to the store.
    pub fn tiles(&self) -> u64 {
        self.tiles.load(Ordering::Relaxed)
    }

    /// Their bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The time that threads have spent on putting tiles together and filtering them.
    pub fn filtering(&self) -> Duration {
        Duration::from_nanos(self.filtering_nanos.load(Ordering::Relaxed))
    }

    fn add(&self, bytes: u64, filtering: Duration) {
        let nanos = u64::try_from(filtering.as_nanos()).unwrap_or(u64::MAX);
        self.tiles.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.filtering_nanos.fetch_add(nanos, Ordering::Relaxed);
    }
}

/// Filters tiles and appends them to a fragment.
#[derive(Debug)]
pub struct TilePipeline {
    filters: TileFilters,
    fragment: FragmentWriter,
    running: VecDeque<RunningFilters>,
    /// Tiles that are filtered at the same time.
    width: usize,
    budget: Arc<dyn MemoryBudget>,
    written: Arc<WrittenCounts>,
}

#[derive(Debug)]
struct RunningFilters {
    tile: FilteringTile,
    memory: Vec<Grant>,
}

/// The filters of the tiles of a fragment, which several threads may use.
#[derive(Debug, Clone)]
pub struct TileFilters {
    fields: Arc<WrittenFields>,
    encoders: Arc<EncoderPool>,
}

/// A tile that is being filtered, or has been, and the time that it took.
#[derive(Debug)]
pub enum FilteringTile {
    /// A thread filters it.
    Running(JoinHandle<Result<(EncodedTile, Duration)>>),
    /// It is ready.
    Done(EncodedTile, Duration),
}

impl TileFilters {
    /// The filters of `fields`; with a key, tiles are encrypted.
    ///
    /// # Errors
    /// A field has filters that cannot be written.
    pub fn new(fields: &Arc<WrittenFields>, key: Option<Arc<EncryptionKey>>) -> Result<Self> {
        let first = TileEncoders::new(fields, key.as_ref())?;
        Ok(Self {
            fields: Arc::clone(fields),
            encoders: Arc::new(EncoderPool {
                idle: Mutex::new(vec![first]),
                key,
            }),
        })
    }

    /// Begins to filter a tile, which is put together on the thread that filters it.
    pub fn begin(&self, make: impl FnOnce() -> Result<RawTile> + Send + 'static) -> FilteringTile {
        let (fields, encoders) = (Arc::clone(&self.fields), Arc::clone(&self.encoders));
        FilteringTile::Running(on_another_thread(move || {
            let began = Instant::now();
            let tile = encoders.encode(&fields, &make()?)?;
            Ok((tile, began.elapsed()))
        }))
    }
}

impl FilteringTile {
    /// Waits for the tile.
    ///
    /// # Errors
    /// A filter cannot take the values.
    pub async fn finish(self) -> Result<(EncodedTile, Duration)> {
        match self {
            Self::Done(tile, took) => Ok((tile, took)),
            Self::Running(running) => running.await.map_err(|error| {
                Error::internal("filtering a tile ended in a panic").with_source(error)
            })?,
        }
    }
}

/// Encoders that no thread uses at the moment.
struct EncoderPool {
    idle: Mutex<Vec<TileEncoders>>,
    key: Option<Arc<EncryptionKey>>,
}

impl std::fmt::Debug for EncoderPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EncoderPool").finish_non_exhaustive()
    }
}

impl EncoderPool {
    fn encode(&self, fields: &WrittenFields, tile: &RawTile) -> Result<EncodedTile> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        let mut encoders = match taken {
            Some(encoders) => encoders,
            None => TileEncoders::new(fields, self.key.as_ref())?,
        };
        let encoded = encoders.encode(fields, tile);
        idle().push(encoders);
        encoded
    }
}

impl TilePipeline {
    /// A pipeline to `fragment`, `width` tiles wide.
    ///
    /// # Errors
    /// A field has filters that cannot be written.
    pub fn new(
        fields: Arc<WrittenFields>,
        fragment: FragmentWriter,
        key: Option<Arc<EncryptionKey>>,
        width: usize,
        budget: Arc<dyn MemoryBudget>,
    ) -> Result<Self> {
        let filters = TileFilters::new(&fields, key)?;
        Ok(Self::with_filters(filters, fragment, width, budget))
    }

    /// As [`Self::new`], with filters that are there already.
    pub fn with_filters(
        filters: TileFilters,
        fragment: FragmentWriter,
        width: usize,
        budget: Arc<dyn MemoryBudget>,
    ) -> Self {
        Self {
            filters,
            fragment,
            running: VecDeque::new(),
            width: width.max(1),
            budget,
            written: Arc::default(),
        }
    }

    /// Counts the written tiles in `written`.
    #[must_use]
    pub fn counted_in(self, written: &Arc<WrittenCounts>) -> Self {
        Self {
            written: Arc::clone(written),
            ..self
        }
    }

    /// Reserves memory, after waiting for running tiles if there is too little.
    ///
    /// # Errors
    /// There is too little even so, or a running tile fails.
    pub async fn reserve(&mut self, bytes: usize) -> Result<Grant> {
        loop {
            match self.budget.reserve(bytes) {
                Err(e) if e.kind() == ErrorKind::OutOfMemory && self.free_some().await? => {}
                reserved => return reserved,
            }
        }
    }

    /// Waits for the tile that has been running longest, which gives its memory back; `false` if none is running.
    ///
    /// # Errors
    /// The tile fails.
    pub async fn free_some(&mut self) -> Result<bool> {
        let running = !self.running.is_empty();
        self.append_first().await?;
        Ok(running)
    }

    /// Sends a tile on its way, with the memory reserved for it.
    ///
    /// # Errors
    /// An earlier tile fails.
    pub async fn push(&mut self, tile: RawTile, memory: Vec<Grant>) -> Result<()> {
        self.push_made(move || Ok(tile), memory).await
    }

    /// As [`Self::push`], for a tile that is put together on the thread that filters it.
    ///
    /// # Errors
    /// An earlier tile fails.
    pub async fn push_made(
        &mut self,
        make: impl FnOnce() -> Result<RawTile> + Send + 'static,
        memory: Vec<Grant>,
    ) -> Result<()> {
        self.make_room().await?;
        let tile = self.filters.begin(make);
        self.running.push_back(RunningFilters { tile, memory });
        Ok(())
    }

    /// As [`Self::push`], for a tile that these filters have begun to filter before.
    ///
    /// # Errors
    /// An earlier tile fails.
    pub async fn push_begun(&mut self, tile: FilteringTile, memory: Vec<Grant>) -> Result<()> {
        self.make_room().await?;
        self.running.push_back(RunningFilters { tile, memory });
        Ok(())
    }

    async fn make_room(&mut self) -> Result<()> {
        while self.running.len() >= self.width.saturating_mul(QUEUED) {
            self.append_first().await?;
        }
        Ok(())
    }

    /// Waits for all tiles and finishes the fragment; `written` is the box of a dense one.
    ///
    /// # Errors
    /// A tile fails, or the store does; what has been written is removed then.
    pub async fn finish(mut self, written: Option<Vec<DomainRange>>) -> Result<StagedFragment> {
        while !self.running.is_empty() {
            if let Err(error) = self.append_first().await {
                self.withdraw().await;
                return Err(error);
            }
        }
        self.fragment.finish(&self.filters.fields, written).await
    }

    /// Removes what has been written.
    pub async fn withdraw(self) {
        self.fragment.withdraw().await;
    }

    /// Waits until the first of the running tiles has been appended, so that its memory is free; `false` if none is running.
    ///
    /// # Errors
    /// The tile fails, or the store does.
    pub async fn wait_for_one(&mut self) -> Result<bool> {
        let running = !self.running.is_empty();
        self.append_first().await?;
        Ok(running)
    }

    async fn append_first(&mut self) -> Result<()> {
        let Some(first) = self.running.pop_front() else {
            return Ok(());
        };
        let (tile, filtering) = first.tile.finish().await?;
        let bytes = tile.bytes();
        self.fragment.append(tile).await?;
        self.written.add(bytes, filtering);
        drop(first.memory);
        Ok(())
    }
}

/// Runs `work` on a thread that may be busy for long.
fn on_another_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    // A simulated world has one thread.
    #[cfg(any(test, feature = "testing"))]
    if crate::simulated::world().is_some() {
        return tokio::spawn(async move { work() });
    }
    tokio::task::spawn_blocking(work)
}
