//! The threads that decode: one per processor, shared by all scans of the process.
//!
//! More threads would not be faster, and each takes memory: its own decompression contexts, and its own share of what
//! the allocator keeps. Other threads wait for files.

use std::io;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::error::{Error, Result};

/// Runs `work` on one of the threads. If the caller stops waiting before the work starts, it is cancelled.
pub async fn decode<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    decode_until_dropped(|_| work()).await
}

/// Runs `work` as [`decode`] does, and hands it a flag, which is set when the caller stops waiting: the work should end then.
pub async fn decode_until_dropped<T: Send + 'static>(
    work: impl FnOnce(Arc<AtomicBool>) -> T + Send + 'static,
) -> Result<T> {
    let waiting = Waiting::default();
    let stop = Arc::clone(&waiting.0);
    #[cfg(any(test, feature = "testing"))]
    if crate::simulated::world().is_some() {
        return Ok(work(stop));
    }
    let failed = |e| Error::internal("decoding stopped before it was done").with_source(e);
    let mut tasks = JoinSet::new();
    tasks.spawn_blocking_on(move || work(stop), threads()?.handle());
    match tasks.join_next().await {
        Some(done) => done.map_err(failed),
        None => Err(Error::internal("decoding never began")),
    }
}

/// The flag of work that somebody waits for. Dropping this value sets the flag.
#[derive(Default)]
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn threads() -> Result<&'static Runtime> {
    static THREADS: OnceLock<io::Result<Runtime>> = OnceLock::new();
    let threads = THREADS.get_or_init(|| {
        let processors = std::thread::available_parallelism();
        Builder::new_current_thread()
            .max_blocking_threads(processors.map_or(1, NonZero::get))
            .thread_name("tiledb-decode")
            .build()
    });
    let failed = |e: &io::Error| Error::internal(format!("there are no threads to decode: {e}"));
    threads.as_ref().map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[tokio::test]
    async fn work_is_done_elsewhere_and_panics_stay_there() {
        let name = || std::thread::current().name().map(str::to_owned);
        assert_eq!(decode(name).await.unwrap().unwrap(), "tiledb-decode");
        let failed = decode(|| std::panic::resume_unwind(Box::new(1))).await;
        assert!(failed.is_err());
        assert_eq!(decode(|| 1).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn work_ends_when_nobody_waits_any_longer() {
        use tokio::sync::oneshot;
        let (begun, has_begun) = oneshot::channel();
        let (ended, has_ended) = oneshot::channel();
        let work = move |stop: Arc<AtomicBool>| {
            begun.send(()).unwrap();
            let begun = Instant::now();
            let is_in_time = || begun.elapsed() < Duration::from_secs(10);
            while !stop.load(Ordering::Relaxed) && is_in_time() {
                std::thread::yield_now();
            }
            ended.send(is_in_time()).unwrap();
        };
        let waiting = tokio::spawn(decode_until_dropped(work));
        has_begun.await.unwrap();
        waiting.abort();
        assert!(has_ended.await.unwrap());
        assert!(waiting.await.unwrap_err().is_cancelled());
    }
}
