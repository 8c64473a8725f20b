//! The memory pool that all sessions of a process share, and limits of single sessions within it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use datafusion::error::Result;
use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, UnboundedMemoryPool,
};

static PROCESS_POOL: OnceLock<Arc<dyn MemoryPool>> = OnceLock::new();

/// The pool of a session: that of the process, with the limit of the session. The first call decides the limit of the process; if that is
/// unknown, there is none.
pub fn session_pool(
    process_limit: impl FnOnce() -> Option<usize>,
    session_limit: Option<usize>,
) -> Arc<dyn MemoryPool> {
    let process = PROCESS_POOL.get_or_init(|| match process_limit() {
        Some(bytes) => Arc::new(FairSpillPool::new(bytes)),
        None => Arc::new(UnboundedMemoryPool::default()),
    });
    let process = Arc::clone(process);
    match session_limit {
        Some(bytes) => Arc::new(SessionPool {
            session: FairSpillPool::new(bytes),
            process,
        }),
        None => process,
    }
}

/// A limit within the pool of the process: each reservation counts in both.
struct SessionPool {
    session: FairSpillPool,
    process: Arc<dyn MemoryPool>,
}

impl MemoryPool for SessionPool {
    fn name(&self) -> &str {
        "session"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.session.register(consumer);
        self.process.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.session.unregister(consumer);
        self.process.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.session.grow(reservation, additional);
        self.process.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.session.shrink(reservation, shrink);
        self.process.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.session.try_grow(reservation, additional)?;
        let grown = self.process.try_grow(reservation, additional);
        if grown.is_err() {
            self.session.shrink(reservation, additional);
        }
        grown
    }

    fn reserved(&self) -> usize {
        self.session.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        match (self.session.memory_limit(), self.process.memory_limit()) {
            (MemoryLimit::Finite(session), MemoryLimit::Finite(process)) => {
                MemoryLimit::Finite(session.min(process))
            }
            (session, _) => session,
        }
    }
}

impl fmt::Debug for SessionPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for SessionPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserved(pool: &Arc<dyn MemoryPool>, spills: bool) -> MemoryReservation {
        let consumer = MemoryConsumer::new("test").with_can_spill(spills);
        consumer.register(pool)
    }

    #[test]
    fn a_reservation_counts_in_the_session_and_in_the_process() {
        let process: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(1000));
        let session = |bytes| -> Arc<dyn MemoryPool> {
            Arc::new(SessionPool {
                session: FairSpillPool::new(bytes),
                process: Arc::clone(&process),
            })
        };
        let (small, large) = (session(600), session(5000));
        let first = reserved(&small, false);
        first.try_grow(500).unwrap();
        assert!(first.try_grow(200).is_err(), "beyond the session");
        let second = reserved(&large, false);
        assert!(second.try_grow(501).is_err(), "beyond the process");
        second.try_grow(500).unwrap();
        let reserved_bytes = || [&small, &large, &process].map(|pool| pool.reserved());
        assert_eq!(reserved_bytes(), [500, 500, 1000]);
        assert!(first.try_grow(1).is_err(), "the process has no more");
        assert_eq!(reserved_bytes(), [500, 500, 1000]);
        second.shrink(100);
        first.try_grow(100).unwrap();
        drop(first);
        assert_eq!(reserved_bytes(), [0, 400, 400]);
        drop(second);
        assert_eq!(reserved_bytes(), [0, 0, 0]);
    }

    #[test]
    fn consumers_that_spill_share_the_process() {
        let process: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(1000));
        let session: Arc<dyn MemoryPool> = Arc::new(SessionPool {
            session: FairSpillPool::new(1000),
            process: Arc::clone(&process),
        });
        let (first, second) = (reserved(&session, true), reserved(&process, true));
        first.try_grow(500).unwrap();
        assert!(first.try_grow(1).is_err(), "the other half is the second's");
        second.try_grow(500).unwrap();
        drop(second);
        first.try_grow(500).unwrap();
        assert!(matches!(session.memory_limit(), MemoryLimit::Finite(1000)));
    }

    #[test]
    fn the_first_session_decides_the_limit_of_the_process() {
        let first = session_pool(|| Some(123_456), None);
        let second = session_pool(|| Some(1), None);
        assert!(Arc::ptr_eq(&first, &second));
        let limited = session_pool(|| None, Some(1000));
        assert!(matches!(limited.memory_limit(), MemoryLimit::Finite(1000)));
        let limited = session_pool(|| None, Some(1_000_000));
        assert!(matches!(
            limited.memory_limit(),
            MemoryLimit::Finite(123_456)
        ));
    }
}
