//! Work on the threads of an engine that decode, which all of its scans share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::JoinSet;

use crate::error::{Error, Result};
use crate::storage::Engine;

/// Runs `work` on one of the threads of `engine`. If the caller stops waiting before the work starts, it is cancelled.
pub async fn decode<T: Send + 'static>(
    engine: &Engine,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    decode_until_dropped(engine, |_| work()).await
}

/// Runs `work` as [`decode`] does, and hands it a flag, which is set when the caller stops waiting: the work should end then.
pub async fn decode_until_dropped<T: Send + 'static>(
    engine: &Engine,
    work: impl FnOnce(Arc<AtomicBool>) -> T + Send + 'static,
) -> Result<T> {
    let waiting = WaiterFlag::default();
    let stop = Arc::clone(&waiting.0);
    #[cfg(any(test, feature = "testing"))]
    if crate::simulated::world().is_some() {
        return Ok(work(stop));
    }
    let failed = |e| Error::internal("decoding stopped before it was done").with_source(e);
    let mut tasks = JoinSet::new();
    tasks.spawn_blocking_on(move || work(stop), engine.decode_threads()?);
    match tasks.join_next().await {
        Some(done) => done.map_err(failed),
        None => Err(Error::internal("decoding never began")),
    }
}

/// The flag of work that somebody waits for. Dropping this value sets the flag.
#[derive(Default)]
struct WaiterFlag(Arc<AtomicBool>);

impl Drop for WaiterFlag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::atomic::AtomicUsize;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::storage::EngineOptions;

    #[tokio::test]
    async fn work_is_done_elsewhere_and_panics_stay_there() {
        let engine = Engine::shared();
        let name = || std::thread::current().name().map(str::to_owned);
        let name = decode(&engine, name).await.unwrap();
        assert_eq!(name.unwrap(), "tiledb-decode");
        let failed = decode(&engine, || std::panic::resume_unwind(Box::new(1))).await;
        assert!(failed.is_err());
        assert_eq!(decode(&engine, || 1).await.unwrap(), 1);
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
        let engine = Engine::shared();
        let waiting = tokio::spawn(async move { decode_until_dropped(&engine, work).await });
        has_begun.await.unwrap();
        waiting.abort();
        assert!(has_ended.await.unwrap());
        assert!(waiting.await.unwrap_err().is_cancelled());
    }

    /// The most pieces of work that an engine does at the same time, of many. Each waits until as many as expected have met.
    async fn most_at_once(engine: &Engine, expected: usize) -> usize {
        let (now, most) = <(Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
        let pieces = (0..12).map(|_| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            decode(engine, move || {
                let begun = Instant::now();
                let running = now.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(running, Ordering::SeqCst);
                while most.load(Ordering::SeqCst) < expected
                    && begun.elapsed() < Duration::from_secs(10)
                {
                    std::thread::yield_now();
                }
                now.fetch_sub(1, Ordering::SeqCst);
            })
        });
        futures::future::try_join_all(pieces).await.unwrap();
        most.load(Ordering::SeqCst)
    }

    #[tokio::test]
    async fn engines_have_threads_of_their_own() {
        let [one, three] = [1, 3]
            .map(|threads| Engine::new(EngineOptions::default().with_decode_threads(threads)));
        let most = futures::future::join(most_at_once(&one, 1), most_at_once(&three, 3)).await;
        assert_eq!(most, (1, 3));
    }

    /// Sends a message when the thread ends that holds it.
    struct ThreadEnd(std::sync::mpsc::Sender<()>);

    impl Drop for ThreadEnd {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }

    #[tokio::test]
    async fn threads_end_with_the_last_handle_of_their_engine() {
        thread_local!(static END: RefCell<Option<ThreadEnd>> = const { RefCell::new(None) });
        let engine = Engine::new(EngineOptions::default());
        let other = engine.clone();
        let (end, ended) = std::sync::mpsc::channel();
        let work = move || END.set(Some(ThreadEnd(end)));
        decode(&engine, work).await.unwrap();
        drop(engine);
        decode(&other, || ()).await.unwrap();
        assert!(ended.try_recv().is_err(), "there is another handle");
        // Here, nothing may block.
        drop(other);
        ended.recv_timeout(Duration::from_secs(5)).unwrap();
    }

    #[tokio::test]
    async fn work_may_hold_the_last_handle() {
        let engine = Engine::new(EngineOptions::default());
        let weak = engine.downgrade();
        let (dropped, has_dropped) = tokio::sync::oneshot::channel();
        let (go, goes) = std::sync::mpsc::channel::<()>();
        let last = engine.clone();
        let work = move || {
            goes.recv().unwrap();
            drop(last);
            dropped.send(()).unwrap();
        };
        let mut waiting = Box::pin(decode(&engine, work));
        assert!(futures::poll!(&mut waiting).is_pending());
        drop(waiting);
        drop(engine);
        go.send(()).ok();
        // The work was cancelled, if it had not begun.
        let _ = has_dropped.await;
        assert!(weak.upgrade().is_none());
    }
}
