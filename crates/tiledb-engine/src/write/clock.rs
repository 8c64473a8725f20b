//! The time of changes, and names that nobody else has (specification: "Timestamped Name").
//!
//! The subtle thing: a delete also hits cells written in its own millisecond, so no two changes of a process share one. The
//! clock waits for the next millisecond instead of running ahead, because a reader sees nothing of the future.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::array::window::TimestampMs;
use crate::error::{Error, Result};
use crate::format::names::CHANGE_MARK;
use crate::format::version::FormatVersion;

/// How long to wait for a system clock that was set back.
const PATIENCE: Duration = Duration::from_millis(100);
const TICK: Duration = Duration::from_micros(200);

/// A source of times and of fresh names. Clones share their state.
#[derive(Debug, Clone)]
pub struct Clock(Arc<Mutex<ClockState>>);

#[derive(Debug)]
struct ClockState {
    source: ClockSource,
    last: TimestampMs,
    /// Makes names of one millisecond ascend in the order of their making, as libtiledb's do.
    counter: u32,
}

#[derive(Debug)]
enum ClockSource {
    System,
    /// The time, which moves by one millisecond with each use, and the state of the random numbers.
    Manual(TimestampMs, u64),
}

impl Clock {
    /// The clock of this machine, which all writers of the process share.
    pub fn system() -> Self {
        // The processes of a simulated world share a thread, and no clock.
        #[cfg(any(test, feature = "testing"))]
        if crate::simulated::world().is_some() {
            return Self::of(ClockSource::System);
        }
        static SHARED: Mutex<Option<Clock>> = Mutex::new(None);
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        let clock = shared.get_or_insert_with(|| Self::of(ClockSource::System));
        clock.clone()
    }

    /// A clock for tests: its times ascend from `start`, and equal seeds give equal names.
    pub fn manual(start: TimestampMs, seed: u64) -> Self {
        Self::of(ClockSource::Manual(start, seed))
    }

    fn of(source: ClockSource) -> Self {
        Self(Arc::new(Mutex::new(ClockState {
            source,
            last: TimestampMs(0),
            counter: 0,
        })))
    }

    /// The present, which no other change of this process has.
    pub async fn fresh_time(&self) -> TimestampMs {
        let mut waited = Duration::ZERO;
        loop {
            if let Some(time) = self.state().try_next(waited >= PATIENCE) {
                return time;
            }
            self.wait(TICK).await;
            waited += TICK;
        }
    }

    /// Waits so long.
    pub async fn wait(&self, time: Duration) {
        #[cfg(any(test, feature = "testing"))]
        if let Some(world) = crate::simulated::world() {
            return world.wait(time).await;
        }
        let slept = tokio::task::spawn_blocking(move || std::thread::sleep(time));
        // A runtime that is shut down no longer sleeps; who waits in a loop needs a limit.
        let _ = slept.await;
    }

    /// Waits for a part of `longest` that is chosen at random, so that those who met do not meet again.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub async fn wait_some_of(&self, longest: Duration) -> Result<()> {
        let random = u32::try_from(self.state().random()? & 0xff).unwrap_or(0);
        self.wait(longest * (random + 1) / 256).await;
        Ok(())
    }

    /// A name of 32 hexadecimal digits that nobody else has.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn fresh_uuid(&self) -> Result<String> {
        self.state().uuid()
    }

    /// A fresh name of the form `__t1_t2_uuid`, as schemas and metadata have it.
    ///
    /// # Errors
    /// As [`Self::fresh_uuid`].
    pub fn fresh_name(&self, t1: TimestampMs, t2: TimestampMs) -> Result<String> {
        Ok(format!("__{t1}_{t2}_{}", self.fresh_uuid()?))
    }

    /// A fresh name of the form `__t1_t2_uuid_version`, as fragments and commits have it.
    ///
    /// # Errors
    /// As [`Self::fresh_uuid`].
    pub fn fresh_fragment_name(&self, t1: TimestampMs, t2: TimestampMs) -> Result<String> {
        let name = self.fresh_name(t1, t2)?;
        Ok(format!("{name}_{}", FormatVersion::WRITTEN))
    }

    /// A fresh name for a fragment whose rows depend on cells that its statement has read. The name shows this to other
    /// writers.
    ///
    /// # Errors
    /// As [`Self::fresh_uuid`].
    pub fn fresh_name_of_change(&self, time: TimestampMs) -> Result<String> {
        let uuid = self.fresh_uuid()?;
        let random = uuid.get(..24).unwrap_or_default();
        let version = FormatVersion::WRITTEN;
        Ok(format!(
            "__{time}_{time}_{random}{CHANGE_MARK:08x}_{version}"
        ))
    }

    fn state(&self) -> MutexGuard<'_, ClockState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClockState {
    /// The present, or `None` if another change has it.
    fn try_next(&mut self, impatient: bool) -> Option<TimestampMs> {
        let now = match &mut self.source {
            ClockSource::System => TimestampMs::now(),
            ClockSource::Manual(time, _) => {
                let now = *time;
                time.0 = time.0.saturating_add(1);
                now
            }
        };
        (now > self.last || impatient).then(|| {
            self.last = now;
            now
        })
    }

    fn uuid(&mut self) -> Result<String> {
        let random = self.random()?;
        let (head, tail) = (random >> 96, random & ((1 << 96) - 1));
        if self.counter == 0 {
            // 31 random bits leave room to count.
            self.counter = u32::try_from(head & 0x7FFF_FFFF).unwrap_or(1);
        }
        self.counter = self.counter.wrapping_add(1);
        Ok(format!("{:08x}{tail:024x}", self.counter))
    }

    fn random(&mut self) -> Result<u128> {
        match &mut self.source {
            #[cfg(any(test, feature = "testing"))]
            ClockSource::System if crate::simulated::world().is_some() => {
                let world = crate::simulated::world();
                let next = || world.as_ref().map_or(0, |world| u128::from(world.random()));
                Ok(next() << 64 | next())
            }
            ClockSource::System => {
                let mut bytes = [0; 16];
                getrandom::getrandom(&mut bytes).map_err(|error| {
                    Error::storage("the system has no random numbers for the name of a file")
                        .with_source(error)
                })?;
                Ok(u128::from_le_bytes(bytes))
            }
            ClockSource::Manual(_, state) => {
                let mut next = || {
                    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
                    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                    u128::from(mixed ^ (mixed >> 27))
                };
                Ok(next() << 64 | next())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::names::TimestampedName;

    #[tokio::test]
    async fn no_time_is_given_twice() {
        let clock = Clock::system();
        let mut last = TimestampMs(0);
        for _ in 0..5 {
            let time = clock.fresh_time().await;
            assert!(time > last && time <= TimestampMs::now());
            last = time;
        }
    }

    #[tokio::test]
    async fn names_parse_and_ascend() {
        for clock in [Clock::system(), Clock::manual(TimestampMs(7), 1)] {
            let time = clock.fresh_time().await;
            let names = (0..100).map(|_| clock.fresh_fragment_name(time, time).unwrap());
            let names = names.collect::<Vec<_>>();
            assert!(names.is_sorted());
            let parsed = TimestampedName::parse(&names[99]).unwrap();
            assert_eq!((parsed.t1, parsed.t2), (time.0, time.0));
            assert_eq!(parsed.version, Some(FormatVersion::WRITTEN.get()));
            assert!(!parsed.is_of_change());
            let change = clock.fresh_name_of_change(time).unwrap();
            let change = TimestampedName::parse(&change).unwrap();
            assert!(change.is_of_change() && (change.t1, change.t2) == (time.0, time.0));
            let schema = TimestampedName::parse(&clock.fresh_name(time, time).unwrap()).unwrap();
            assert_eq!(schema.version, None);
        }
    }

    #[tokio::test]
    async fn equal_seeds_give_equal_names() {
        let name = |seed| Clock::manual(TimestampMs(1), seed).fresh_uuid().unwrap();
        assert_eq!(name(3), name(3));
        assert_ne!(name(3), name(4));
        assert_eq!(name(3).len(), 32);
    }
}
