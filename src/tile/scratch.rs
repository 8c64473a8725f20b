//! The working memory of a decoding thread: the state of filters, and the tile memory of the scan it works for.

use std::sync::Arc;

use crate::arrow::TileBuffer;
use crate::error::Result;
use crate::filter;
use crate::memory::budget::Unlimited;
use crate::tile::tile_memory::TileMemory;

/// Buffers and contexts of one decoding thread.
#[derive(Debug)]
pub struct Scratch {
    /// Working memory of the filters.
    pub filters: filter::Scratch,
    /// Memory for their results.
    pub memory: Arc<TileMemory>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            filters: filter::Scratch::default(),
            memory: TileMemory::new(Arc::new(Unlimited)),
        }
    }
}

impl Scratch {
    /// A buffer of `bytes` bytes of unspecified content.
    pub fn buffer(&self, bytes: usize) -> Result<TileBuffer> {
        self.memory.buffer(bytes)
    }
}
