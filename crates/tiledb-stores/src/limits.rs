//! How long a store may take.

use std::time::Duration;

/// How long to wait for a store, and how often to try again.
///
/// A store that answers nothing fails after [`retry_time`](Self::retry_time) and one more [`request_timeout`](Self::request_timeout)
/// at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct NetworkLimits {
    /// A request fails if no byte arrives for this time. A long answer may take longer, as long as it goes on.
    pub request_timeout: Duration,
    /// The most retries of a request. Those of one answer that is cut several times are counted together.
    pub retries: usize,
    /// Nothing is retried after this time since the first attempt.
    pub retry_time: Duration,
}

impl Default for NetworkLimits {
    /// 10 seconds without a byte, 5 retries, 30 seconds.
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(10),
            retries: 5,
            retry_time: Duration::from_secs(30),
        }
    }
}

impl NetworkLimits {
    /// Sets the time without a byte after which a request fails.
    #[must_use]
    pub fn with_request_timeout(mut self, time: Duration) -> Self {
        self.request_timeout = time;
        self
    }

    /// Sets the most retries of a request.
    #[must_use]
    pub fn with_retries(mut self, retries: usize) -> Self {
        self.retries = retries;
        self
    }

    /// Sets the time after which nothing is retried.
    #[must_use]
    pub fn with_retry_time(mut self, time: Duration) -> Self {
        self.retry_time = time;
        self
    }
}
