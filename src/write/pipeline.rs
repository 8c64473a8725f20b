//! Tiles on their way to a fragment: filtered side by side on other threads, appended in their order.
//!
//! A tile is accounted for, with what its filtering makes of it, from its first cell until its bytes have been handed to the
//! store. If the memory is used up, tiles that are on their way are waited for first.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::JoinHandle;

use super::encode::{EncodedTile, RawTile, TileEncoders};
use super::fields::WrittenFields;
use super::fragment::{FragmentWriter, StagedFragment};
use crate::error::{Error, ErrorKind, Result};
use crate::filter::EncryptionKey;
use crate::format::domain_range::DomainRange;
use crate::memory::budget::{Grant, MemoryBudget};

/// Filters tiles and appends them to a fragment.
#[derive(Debug)]
pub struct TilePipeline {
    fields: Arc<WrittenFields>,
    fragment: FragmentWriter,
    encoders: Arc<EncoderPool>,
    running: VecDeque<Running>,
    /// Tiles that are filtered at the same time.
    width: usize,
    budget: Arc<dyn MemoryBudget>,
}

#[derive(Debug)]
struct Running {
    encoded: JoinHandle<Result<EncodedTile>>,
    memory: Vec<Grant>,
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
        let first = TileEncoders::new(&fields, key.as_ref())?;
        Ok(Self {
            fields,
            fragment,
            encoders: Arc::new(EncoderPool {
                idle: Mutex::new(vec![first]),
                key,
            }),
            running: VecDeque::new(),
            width: width.max(1),
            budget,
        })
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
        while self.running.len() >= self.width {
            self.append_first().await?;
        }
        let (fields, encoders) = (Arc::clone(&self.fields), Arc::clone(&self.encoders));
        let encode = move || encoders.encode(&fields, &make()?);
        self.running.push_back(Running {
            encoded: tokio::task::spawn_blocking(encode),
            memory,
        });
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
        self.fragment.finish(&self.fields, written).await
    }

    /// Removes what has been written.
    pub async fn withdraw(self) {
        self.fragment.withdraw().await;
    }

    /// The number of tiles, and bytes of data files, so far.
    pub fn progress(&self) -> (u64, u64) {
        (self.fragment.tiles(), self.fragment.bytes())
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
        let encoded = first.encoded.await.map_err(|error| {
            Error::internal("filtering a tile ended in a panic").with_source(error)
        })?;
        self.fragment.append(encoded?).await?;
        drop(first.memory);
        Ok(())
    }
}
