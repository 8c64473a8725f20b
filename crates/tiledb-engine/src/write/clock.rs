//! The time of changes, and unique names (specification: "Timestamped Name").
//!
//! The subtle thing: a delete also hits cells written in its own millisecond, so no two changes of an engine share one. The
//! clock waits for the next millisecond instead of running ahead, because a reader sees nothing of the future.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::array::window::TimestampMs;
use crate::error::{Error, Result};
use crate::format::names::CHANGE_MARK;
use crate::format::version::FormatVersion;
use crate::storage::{ClockTicks, Engine};

/// How long to wait for a system clock that was set back.
const PATIENCE: Duration = Duration::from_millis(100);
const TICK: Duration = Duration::from_micros(200);

/// A source of times and of fresh names. Clones share their state.
#[derive(Debug, Clone)]
pub struct Clock {
    source: ClockSource,
    ticks: Arc<Mutex<ClockTicks>>,
}

#[derive(Debug, Clone)]
enum ClockSource {
    System,
    Manual(Arc<Mutex<ManualTime>>),
}

/// The time of a test.
#[derive(Debug)]
struct ManualTime {
    /// It moves by one millisecond with each use.
    now: TimestampMs,
    /// The state of the random numbers.
    random: u64,
}

impl Clock {
    /// The clock of this machine, as all changes in the shared engine use it. A change in another engine uses the clock of [its
    /// engine](Self::in_engine).
    pub fn system() -> Self {
        Self::of_engine(&Engine::shared())
    }

    /// The clock that all changes in an engine share.
    pub fn of_engine(engine: &Engine) -> Self {
        let source = ClockSource::System;
        // The processes of a simulated world share a thread and an engine, but no clock.
        #[cfg(any(test, feature = "testing"))]
        if crate::simulated::world().is_some() {
            let ticks = Arc::default();
            return Self { source, ticks };
        }
        let ticks = Arc::clone(engine.ticks());
        Self { source, ticks }
    }

    /// A clock for tests: its times ascend from `start`, and equal seeds give equal names.
    pub fn manual(start: TimestampMs, seed: u64) -> Self {
        let time = ManualTime {
            now: start,
            random: seed,
        };
        Self {
            source: ClockSource::Manual(Arc::new(Mutex::new(time))),
            ticks: Arc::default(),
        }
    }

    /// The clock of a change in an engine: that of the engine, or this one if it is manual.
    #[must_use]
    pub fn in_engine(&self, engine: &Engine) -> Self {
        #[cfg(any(test, feature = "testing"))]
        if crate::simulated::world().is_some() {
            return self.clone();
        }
        match &self.source {
            ClockSource::System => Self::of_engine(engine),
            ClockSource::Manual(_) => self.clone(),
        }
    }

    /// The current time, as a millisecond that no other change of the engine has.
    pub async fn fresh_time(&self) -> TimestampMs {
        let mut waited = Duration::ZERO;
        loop {
            if let Some(time) = self.try_next(waited >= PATIENCE) {
                return time;
            }
            self.wait(TICK).await;
            waited += TICK;
        }
    }

    /// Waits for this long.
    pub async fn wait(&self, time: Duration) {
        #[cfg(any(test, feature = "testing"))]
        if let Some(world) = crate::simulated::world() {
            return world.wait(time).await;
        }
        let slept = tokio::task::spawn_blocking(move || std::thread::sleep(time));
        // A runtime that is shut down no longer sleeps, so a loop of waits needs a limit.
        let _ = slept.await;
    }

    /// Waits for a random part of `longest`, so that changes that collided don't collide again.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub async fn wait_some_of(&self, longest: Duration) -> Result<()> {
        let random = u32::try_from(self.source.random()? & 0xff).unwrap_or(0);
        self.wait(longest * (random + 1) / 256).await;
        Ok(())
    }

    /// A unique name of 32 hexadecimal digits.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn fresh_uuid(&self) -> Result<String> {
        let random = self.source.random()?;
        let (head, tail) = (random >> 96, random & ((1 << 96) - 1));
        let mut ticks = self.ticks();
        if ticks.counter == 0 {
            // 31 random bits leave room to count.
            ticks.counter = u32::try_from(head & 0x7FFF_FFFF).unwrap_or(1);
        }
        ticks.counter = ticks.counter.wrapping_add(1);
        Ok(format!("{:08x}{tail:024x}", ticks.counter))
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

    /// The current millisecond, or `None` if another change has it.
    fn try_next(&self, impatient: bool) -> Option<TimestampMs> {
        // The lock is taken first, so that the times of concurrent callers ascend.
        let mut ticks = self.ticks();
        let now = self.source.now();
        (now.0 > ticks.last_ms || impatient).then(|| {
            ticks.last_ms = now.0;
            now
        })
    }

    fn ticks(&self) -> MutexGuard<'_, ClockTicks> {
        self.ticks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClockSource {
    fn now(&self) -> TimestampMs {
        match self {
            Self::System => TimestampMs::now(),
            Self::Manual(time) => {
                let mut time = time.lock().unwrap_or_else(PoisonError::into_inner);
                let now = time.now;
                time.now.0 = now.0.saturating_add(1);
                now
            }
        }
    }

    fn random(&self) -> Result<u128> {
        match self {
            #[cfg(any(test, feature = "testing"))]
            Self::System if crate::simulated::world().is_some() => {
                let world = crate::simulated::world();
                let next = || world.as_ref().map_or(0, |world| u128::from(world.random()));
                Ok(next() << 64 | next())
            }
            Self::System => {
                let mut bytes = [0; 16];
                getrandom::getrandom(&mut bytes).map_err(|error| {
                    Error::storage("the system has no random numbers for the name of a file")
                        .with_source(error)
                })?;
                Ok(u128::from_le_bytes(bytes))
            }
            Self::Manual(time) => {
                let mut time = time.lock().unwrap_or_else(PoisonError::into_inner);
                let mut next = || {
                    let state = time.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
                    time.random = state;
                    let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
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
            let names = (0..100)
                .map(|_| clock.fresh_fragment_name(time, time).unwrap())
                .collect::<Vec<_>>();
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
