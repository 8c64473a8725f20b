//! Work stealing: how the partitions of a scan share its units.
//!
//! Every partition starts with a range of neighbouring units, for locality. A partition that has none left takes half
//! of those that the partition with the most units still has, from their end, so that a few slow units do not leave a
//! core idle.
//!
//! Units move only between partitions of one run of the query, and only while these are open. So a plan can run again,
//! or twice at a time, or in part: a partition that is executed alone reads exactly its own units.

use std::any::Any;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The units that the open partitions of a scan have not yet taken.
#[derive(Debug, Default)]
pub struct UnitPool {
    state: Mutex<PoolState>,
}

#[derive(Debug, Default)]
struct PoolState {
    open: Vec<OpenPartition>,
    /// The number of partitions that have joined so far.
    joined: u64,
}

/// The units that an open partition has left.
#[derive(Debug)]
struct OpenPartition {
    number: u64,
    partition: usize,
    run: UnitRun,
    units: Range<u64>,
}

/// Identifies one run of a query: the address of what all its partitions share, and how many runs had it before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct UnitRun {
    address: usize,
    again: usize,
}

impl UnitPool {
    /// Opens a partition that begins with `units`. `run` is what all partitions of one run of the query share, and
    /// those of no other.
    pub fn join(
        self: &Arc<Self>,
        run: Arc<dyn Any + Send + Sync>,
        partition: usize,
        units: Range<u64>,
    ) -> UnitQueue {
        let mut state = self.state();
        let address = Arc::as_ptr(&run).addr();
        let same =
            |open: &&OpenPartition| open.run.address == address && open.partition == partition;
        let again = state.open.iter().filter(same).count();
        let this = UnitRun { address, again };
        let number = state.joined;
        state.joined += 1;
        state.open.push(OpenPartition {
            number,
            partition,
            run: this,
            units,
        });
        UnitQueue::of(UnitSource::Pool {
            pool: Arc::clone(self),
            number,
            _run: run,
        })
    }

    /// The next unit of the partition with this number.
    fn next(&self, number: u64) -> Option<u64> {
        let mut state = self.state();
        let own = state.open.iter().position(|p| p.number == number)?;
        let open = state.open.get_mut(own)?;
        if let Some(unit) = open.units.next() {
            return Some(unit);
        }
        let run = open.run;
        let others = state.open.iter_mut().filter(|p| p.run == run);
        let richest = others.max_by_key(|p| p.units.end.saturating_sub(p.units.start))?;
        let left = richest.units.end.saturating_sub(richest.units.start);
        if left == 0 {
            return None;
        }
        let end = richest.units.end;
        richest.units.end -= left.div_ceil(2);
        let mut taken = richest.units.end..end;
        let unit = taken.next()?;
        if let Some(open) = state.open.get_mut(own) {
            open.units = taken;
        }
        Some(unit)
    }

    fn leave(&self, number: u64) {
        self.state().open.retain(|p| p.number != number);
    }

    /// A panic of another thread leaves the state consistent.
    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The units of one partition, in the order in which it reads them.
#[derive(Debug)]
pub struct UnitQueue {
    source: UnitSource,
    /// The units of partitions that read no more.
    others: Vec<Self>,
}

#[derive(Debug)]
enum UnitSource {
    /// Exactly these units.
    Alone(Range<u64>),
    /// The units of a partition in a pool, and those that it takes from others.
    Pool {
        pool: Arc<UnitPool>,
        number: u64,
        /// Kept as long as the queue, so that no other run gets its address.
        _run: Arc<dyn Any + Send + Sync>,
    },
}

impl UnitQueue {
    /// A queue of exactly these units.
    pub fn alone(units: Range<u64>) -> Self {
        Self::of(UnitSource::Alone(units))
    }

    fn of(source: UnitSource) -> Self {
        Self {
            source,
            others: Vec::new(),
        }
    }

    /// The queue, followed by those of partitions that read no more.
    pub fn followed_by(mut self, others: Vec<Self>) -> Self {
        self.others = others;
        self
    }

    /// The next unit.
    pub fn take(&mut self) -> Option<u64> {
        let own = match &mut self.source {
            UnitSource::Alone(units) => units.next(),
            UnitSource::Pool { pool, number, .. } => pool.next(*number),
        };
        own.or_else(|| self.others.iter_mut().find_map(Self::take))
    }
}

impl Drop for UnitQueue {
    fn drop(&mut self) {
        if let UnitSource::Pool { pool, number, .. } = &self.source {
            pool.leave(*number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Arc<dyn Any + Send + Sync> {
        Arc::new(String::from("a run"))
    }

    fn drain(queue: &mut UnitQueue) -> Vec<u64> {
        std::iter::from_fn(|| queue.take()).collect()
    }

    #[test]
    fn a_partition_without_units_takes_half_of_the_richest() {
        let pool = Arc::new(UnitPool::default());
        let run = run();
        let mut idle = pool.join(Arc::clone(&run), 0, 0..0);
        let mut poor = pool.join(Arc::clone(&run), 1, 0..2);
        let mut rich = pool.join(Arc::clone(&run), 2, 2..10);
        assert_eq!(rich.take(), Some(2));
        // Seven are left, four of which are taken over.
        assert_eq!(idle.take(), Some(6));
        assert_eq!(drain(&mut rich), [3, 4, 5, 8, 9, 1, 0, 7]);
        assert!(drain(&mut poor).is_empty());
        assert_eq!(idle.take(), None);
    }

    #[test]
    fn every_unit_is_read_once_whoever_reads() {
        let pool = Arc::new(UnitPool::default());
        let run = run();
        let ranges = [0..7, 7..8, 8..8, 8..40];
        let mut queues = ranges
            .into_iter()
            .enumerate()
            .map(|(partition, units)| pool.join(Arc::clone(&run), partition, units))
            .collect::<Vec<_>>();
        let mut read = Vec::new();
        let mut turn = 0_usize;
        loop {
            // An uneven but fixed order of readers.
            turn += 1;
            let mut any = false;
            for (i, queue) in queues.iter_mut().enumerate() {
                if turn.is_multiple_of(i + 1) {
                    let next = queue.take();
                    any |= next.is_some();
                    read.extend(next);
                }
            }
            if !any {
                break;
            }
        }
        read.sort_unstable();
        assert_eq!(read, (0..40).collect::<Vec<_>>());
    }

    #[test]
    fn a_partition_run_alone_or_again_reads_its_own_units() {
        let pool = Arc::new(UnitPool::default());
        for _ in 0..2 {
            let mut alone = pool.join(run(), 2, 20..30);
            assert_eq!(drain(&mut alone), (20..30).collect::<Vec<_>>());
        }
        // Nothing is taken from a partition that is no longer open.
        let run = run();
        drop(pool.join(Arc::clone(&run), 0, 0..10));
        let mut other = pool.join(run, 1, 10..12);
        assert_eq!(drain(&mut other), [10, 11]);
    }

    #[test]
    fn runs_at_the_same_time_do_not_mix() {
        let pool = Arc::new(UnitPool::default());
        let (first, second) = (run(), run());
        let _kept = pool.join(Arc::clone(&first), 0, 0..10);
        let mut other = pool.join(Arc::clone(&second), 1, 10..12);
        assert_eq!(drain(&mut other), [10, 11]);
        // That holds even for runs with the same identity.
        let mut again = pool.join(Arc::clone(&first), 0, 0..10);
        assert_eq!(drain(&mut again), (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn units_of_partitions_that_read_no_more_follow() {
        let mut alone = UnitQueue::alone(0..2)
            .followed_by(vec![UnitQueue::alone(5..6), UnitQueue::alone(8..10)]);
        assert_eq!(drain(&mut alone), [0, 1, 5, 8, 9]);
        let pool = Arc::new(UnitPool::default());
        let run = run();
        let ended = pool.join(Arc::clone(&run), 0, 0..3);
        let mut first = pool
            .join(Arc::clone(&run), 1, 3..4)
            .followed_by(vec![ended]);
        let mut second = pool.join(Arc::clone(&run), 2, 4..5);
        // A queue that has no units left takes over those of the partition that reads no more.
        assert_eq!([second.take(), second.take()], [Some(4), Some(1)]);
        let mut rest = drain(&mut first);
        rest.extend(drain(&mut second));
        rest.sort_unstable();
        assert_eq!(rest, [0, 2, 3]);
    }
}
