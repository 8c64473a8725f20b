//! The thread of a cache: it opens foyer, passes entries on to it, and closes it.
//!
//! foyer's tasks run on a small runtime that only this thread drives. So a cache works in every runtime, outlives the one
//! it was opened in, and needs no runtime when it's dropped. The thread is detached: it never keeps the process alive.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use foyer::{
    BlockEngineConfig, Device, DeviceBuilder, FsDeviceBuilder, HybridCache, HybridCacheBuilder,
    HybridCachePolicy, RecoverMode,
};
use tokio::runtime::{self, Runtime};
use tokio::sync::oneshot;

use super::CacheCounters;
use super::cached_range::{EntryKey, FolderIdentity};
use super::eviction::OldestBlockPicker;
use super::folder::CacheFolder;
use super::layout::{BLOCK_INDEX_BYTES, BlockLayout};
use super::pending::{PENDING_LIMIT_BYTES, PendingWrites, WriteBatch};
use super::problem::{DiskCacheProblem, ProblemCause};

/// The entries on disk.
pub(super) type BlockStore = HybridCache<EntryKey, Bytes>;

/// What the thread hands to the cache that it serves.
pub(super) struct ServedBlocks {
    pub(super) store: BlockStore,
    pub(super) identity: FolderIdentity,
}

/// How many reads and writes run at once.
const IO_THREADS: usize = 16;

/// foyer's in-memory part holds no entries: all of them bypass it.
const MEMORY_ENTRIES: usize = 16;

/// Serves a cache until its queue ends. Everything is closed, and the lock released, when this returns.
pub(super) fn serve_cache(
    path: &Path,
    layout: BlockLayout,
    pending: &PendingWrites,
    counters: &CacheCounters,
    opened: oneshot::Sender<Result<ServedBlocks, DiskCacheProblem>>,
) {
    let (folder, runtime, store, device) = match open_all(path, layout) {
        Ok(all) => all,
        Err(problem) => {
            // Nobody waits any more if this fails.
            let _ = opened.send(Err(problem));
            return;
        }
    };
    let handed = ServedBlocks {
        store: store.clone(),
        identity: folder.identity(),
    };
    if opened.send(Ok(handed)).is_ok() {
        runtime.block_on(write_pending(&store, &folder, pending, counters));
    }
    drop(store);
    // This waits for reads and writes that are running. They use the numbers of open files, so the device that owns these
    // files has to live longer: the system gives numbers of closed files to files that are opened later.
    drop(runtime);
    drop(device);
    drop(folder);
}

type OpenedParts = (CacheFolder, Runtime, BlockStore, Arc<dyn Device>);

fn open_all(path: &Path, layout: BlockLayout) -> Result<OpenedParts, DiskCacheProblem> {
    let folder = CacheFolder::open(path)?;
    let recovered = folder.prepare_blocks(&layout)?;
    let runtime = runtime::Builder::new_current_thread()
        .thread_name("disk-cache-io")
        .max_blocking_threads(IO_THREADS)
        .build()
        .map_err(|error| folder.problem(error.into()))?;
    let (store, device) = runtime.block_on(open_blocks(&folder, layout, recovered))?;
    Ok((folder, runtime, store, device))
}

/// Why foyer didn't open its files.
enum OpenFailure {
    Panicked(String),
    Refused(String),
}

/// Opens the blocks. If that panics, which no random damage causes, all blocks are deleted first.
async fn open_blocks(
    folder: &CacheFolder,
    layout: BlockLayout,
    recovered: Vec<u32>,
) -> Result<(BlockStore, Arc<dyn Device>), DiskCacheProblem> {
    let opened = match try_blocks(folder, layout, recovered).await {
        Err(OpenFailure::Panicked(_)) => {
            folder.discard_blocks()?;
            try_blocks(folder, layout, Vec::new()).await
        }
        opened => opened,
    };
    opened.map_err(|failure| {
        let (OpenFailure::Panicked(reason) | OpenFailure::Refused(reason)) = failure;
        folder.problem(ProblemCause::Engine(reason))
    })
}

async fn try_blocks(
    folder: &CacheFolder,
    layout: BlockLayout,
    recovered: Vec<u32>,
) -> Result<(BlockStore, Arc<dyn Device>), OpenFailure> {
    let refused = |error: foyer::Error| OpenFailure::Refused(error.to_string());
    // foyer's device for single files would keep fewer files open, but it prints to standard output.
    let device = FsDeviceBuilder::new(folder.blocks())
        .with_capacity(layout.total_bytes())
        .build()
        .map_err(refused)?;
    let recovering = Arc::new(AtomicBool::new(true));
    let picker = OldestBlockPicker::new(recovered, Arc::clone(&recovering));
    let engine = BlockEngineConfig::new(Arc::clone(&device))
        .with_block_size(layout.block_bytes)
        .with_blob_index_size(BLOCK_INDEX_BYTES)
        .with_buffer_pool_size(layout.largest_entry_bytes)
        .with_submit_queue_size_threshold(PENDING_LIMIT_BYTES)
        .with_eviction_pickers(vec![Box::new(picker)]);
    let building = HybridCacheBuilder::new()
        .with_policy(HybridCachePolicy::WriteOnInsertion)
        .with_flush_on_close(false)
        .memory(MEMORY_ENTRIES)
        .storage()
        .with_engine_config(engine)
        .with_recover_mode(RecoverMode::Quiet)
        .build();
    match tokio::spawn(building).await {
        Ok(built) => {
            let store = built.map_err(refused)?;
            recovering.store(false, Ordering::Relaxed);
            Ok((store, device))
        }
        Err(error) => Err(OpenFailure::Panicked(error.to_string())),
    }
}

/// Writes the entries that wait, until the queue ends.
async fn write_pending(
    store: &BlockStore,
    folder: &CacheFolder,
    pending: &PendingWrites,
    counters: &CacheCounters,
) {
    let mut is_writable = true;
    while let Some(batch) = pending.next_batch().await {
        let mut stored = 0;
        if is_writable && folder.has_room(batch.total_bytes) {
            stored = write_batch(store, &batch).await;
            // foyer loses track of its blocks after a failed write. It still reads, but gets nothing more to write.
            is_writable = stored == batch.entries.len();
        }
        counters.stored.fetch_add(count(stored), Ordering::Relaxed);
        counters
            .dropped
            .fetch_add(count(batch.entries.len() - stored), Ordering::Relaxed);
        pending.finish(&batch);
    }
    // The only error of this is that the store was closed before.
    let _ = store.close().await;
}

/// Writes a batch, and returns the number of its entries that foyer can find afterwards.
async fn write_batch(store: &BlockStore, batch: &WriteBatch) -> usize {
    for (key, bytes) in &batch.entries {
        store.storage_writer(key.clone()).insert(bytes.clone());
    }
    store.storage().wait().await;
    batch
        .entries
        .iter()
        .filter(|(key, _)| store.storage().may_contains(key))
        .count()
}

fn count(entries: usize) -> u64 {
    u64::try_from(entries).unwrap_or(u64::MAX)
}
