//! Measures how long a request takes: by the clock of the machine, or that of a simulated world.

use std::time::{Duration, Instant};

/// A measurement that has begun.
#[derive(Debug)]
pub(super) struct RequestTimer {
    begun: Instant,
    #[cfg(any(test, feature = "testing"))]
    begun_in_world: Option<Duration>,
}

impl RequestTimer {
    pub(super) fn start() -> Self {
        Self {
            begun: Instant::now(),
            #[cfg(any(test, feature = "testing"))]
            begun_in_world: crate::simulated::world().map(|world| world.now()),
        }
    }

    /// The time since the start.
    pub(super) fn elapsed(&self) -> Duration {
        // In a simulated world, what is decided by time must not depend on how busy the machine is.
        #[cfg(any(test, feature = "testing"))]
        if let (Some(begun), Some(world)) = (self.begun_in_world, crate::simulated::world()) {
            return world.now().saturating_sub(begun);
        }
        self.begun.elapsed()
    }
}
