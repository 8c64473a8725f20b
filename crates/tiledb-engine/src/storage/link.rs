//! What is known of the way to a store: how long an answer takes to begin, and how fast its bytes come.
//!
//! Both are moving estimates, from every request to the store. The subtle thing: a reader that asks for little gets little,
//! which says nothing about the store. So a sample of the bandwidth counts if it is higher than the estimate, or if as much
//! was asked for as the store can have on the way. The latency leans to the shortest samples, because the others waited for a
//! new connection, or for bytes that were asked for before.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The latency before any request, in seconds.
const FIRST_LATENCY: f64 = 0.030;
/// The bandwidth before any request, in bytes per second.
const FIRST_BANDWIDTH: f64 = 100e6;
/// The bounds of the estimates, so that no single sample makes them useless.
const LATENCIES: (f64, f64) = (0.0002, 2.0);
const BANDWIDTHS: (f64, f64) = (1e6, 20e9);
/// The fewest bytes, and the shortest time in seconds, that make a sample of the bandwidth.
const SAMPLE_BYTES: u64 = 256 << 10;
const SAMPLE_SECONDS: f64 = 0.001;
/// The fewest bytes to keep on the way, where the estimate is lower.
const FEWEST_IN_FLIGHT: u64 = 4 << 20;

/// The estimates of a store, which all its readers share.
#[derive(Debug)]
pub(super) struct StoreLink(Mutex<LinkState>);

/// How long an answer takes to begin, and how fast bytes come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LinkEstimate {
    /// In seconds.
    latency: f64,
    /// In bytes per second.
    bandwidth: f64,
}

#[derive(Debug)]
struct LinkState {
    estimate: LinkEstimate,
    /// Whether a request was answered.
    is_measured: bool,
    /// The bytes that came so far.
    received: u64,
    /// The bytes that running requests ask for.
    asked: u64,
}

/// A running request.
#[derive(Debug)]
pub(super) struct LinkRequest {
    link: Arc<StoreLink>,
    begun: Instant,
    asked: u64,
    answer: Option<LinkAnswer>,
}

/// An answer that has begun.
#[derive(Debug)]
struct LinkAnswer {
    begun: Instant,
    /// The bytes that the store had sent before it.
    received: u64,
    /// Whether as many bytes were asked for as can be on the way.
    is_full: bool,
}

impl Default for LinkEstimate {
    fn default() -> Self {
        Self {
            latency: FIRST_LATENCY,
            bandwidth: FIRST_BANDWIDTH,
        }
    }
}

impl LinkEstimate {
    /// The bytes that come in the time of a round trip.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the estimates are positive and bounded"
    )]
    pub fn round_trip_bytes(self) -> u64 {
        (self.latency * self.bandwidth) as u64
    }

    /// The bytes to keep on the way: what comes in two round trips, so that the store always has something to send.
    pub fn in_flight_bytes(self) -> u64 {
        self.round_trip_bytes()
            .saturating_mul(2)
            .max(FEWEST_IN_FLIGHT)
    }

    fn add_latency(&mut self, sample: Duration, is_first: bool) {
        let (least, most) = LATENCIES;
        let sample = sample.as_secs_f64().clamp(least, most);
        let weight = match sample < self.latency {
            _ if is_first => 1.0,
            true => 0.5,
            false => 1.0 / 16.0,
        };
        self.latency += (sample - self.latency) * weight;
    }

    fn add_bandwidth(&mut self, sample: f64, is_full: bool) {
        let (least, most) = BANDWIDTHS;
        let sample = sample.clamp(least, most);
        if sample > self.bandwidth {
            self.bandwidth += (sample - self.bandwidth) / 4.0;
        } else if is_full {
            self.bandwidth += (sample - self.bandwidth) / 8.0;
        }
    }
}

impl Default for StoreLink {
    fn default() -> Self {
        Self(Mutex::new(LinkState {
            estimate: LinkEstimate::default(),
            is_measured: false,
            received: 0,
            asked: 0,
        }))
    }
}

impl StoreLink {
    /// The current estimates.
    pub fn estimate(&self) -> LinkEstimate {
        self.state().estimate
    }

    /// The bytes that running requests ask for, of all readers.
    pub fn asked_bytes(&self) -> u64 {
        self.state().asked
    }

    /// Begins a request for `asked` bytes. A request whose size is unknown asks for 0.
    pub fn begin(self: &Arc<Self>, asked: u64) -> LinkRequest {
        self.begin_at(asked, Instant::now())
    }

    fn begin_at(self: &Arc<Self>, asked: u64, now: Instant) -> LinkRequest {
        let mut state = self.state();
        state.asked = state.asked.saturating_add(asked);
        LinkRequest {
            link: Arc::clone(self),
            begun: now,
            asked,
            answer: None,
        }
    }

    /// A panic of another thread leaves the state consistent.
    fn state(&self) -> MutexGuard<'_, LinkState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LinkRequest {
    /// The answer begins.
    pub fn answered(&mut self) {
        self.answered_at(Instant::now());
    }

    /// All bytes of the answer came.
    pub fn received(self, bytes: u64) {
        self.received_at(bytes, Instant::now());
    }

    fn answered_at(&mut self, now: Instant) {
        let mut state = self.link.state();
        let is_first = !std::mem::replace(&mut state.is_measured, true);
        let took = now.saturating_duration_since(self.begun);
        state.estimate.add_latency(took, is_first);
        self.answer = Some(LinkAnswer {
            begun: now,
            received: state.received,
            is_full: state.asked >= state.estimate.round_trip_bytes(),
        });
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "an estimate needs no more than 52 bits"
    )]
    fn received_at(self, bytes: u64, now: Instant) {
        let mut state = self.link.state();
        state.received = state.received.saturating_add(bytes);
        let Some(answer) = &self.answer else { return };
        let seconds = now.saturating_duration_since(answer.begun).as_secs_f64();
        // Other requests share the way, so their bytes count.
        let bytes = state.received.saturating_sub(answer.received);
        if bytes >= SAMPLE_BYTES && seconds >= SAMPLE_SECONDS {
            let sample = bytes as f64 / seconds;
            state.estimate.add_bandwidth(sample, answer.is_full);
        }
    }
}

impl Drop for LinkRequest {
    fn drop(&mut self) {
        let mut state = self.link.state();
        state.asked = state.asked.saturating_sub(self.asked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    /// A store with a latency in milliseconds and a bandwidth in megabytes per second, which serves `at_once` requests of a
    /// megabyte at a time, `rounds` times.
    fn measured(latency: u64, bandwidth: u64, at_once: u64, rounds: u64) -> LinkEstimate {
        let link = Arc::new(StoreLink::default());
        let mut now = Instant::now();
        for _ in 0..rounds {
            let mut requests: Vec<_> = (0..at_once).map(|_| link.begin_at(MB, now)).collect();
            now += Duration::from_millis(latency);
            for request in &mut requests {
                request.answered_at(now);
            }
            for request in requests {
                now += Duration::from_micros(1_000_000 / bandwidth);
                request.received_at(MB, now);
            }
        }
        assert_eq!(link.state().asked, 0);
        link.estimate()
    }

    fn assert_near(found: f64, expected: f64) {
        let ratio = found / expected;
        assert!((0.7..1.4).contains(&ratio), "{found} for {expected}");
    }

    #[test]
    fn estimates_follow_the_store() {
        for (latency, bandwidth) in [(5, 20), (30, 100), (100, 400), (1, 1000)] {
            let at_once = (latency * bandwidth / 500).max(4);
            let found = measured(latency, bandwidth, at_once, 60);
            assert_near(found.latency * 1e3, latency as f64);
            assert_near(found.bandwidth / 1e6, bandwidth as f64);
            assert_near(
                found.round_trip_bytes() as f64,
                (latency * bandwidth) as f64 * 1e3,
            );
        }
    }

    #[test]
    fn small_reads_lower_no_bandwidth() {
        let link = Arc::new(StoreLink::default());
        let start = Instant::now();
        for _ in 0..100 {
            let mut request = link.begin_at(400_000, start);
            request.answered_at(start + Duration::from_millis(30));
            request.received_at(400_000, start + Duration::from_millis(430));
        }
        assert_near(link.estimate().bandwidth, FIRST_BANDWIDTH);
        assert_near(link.estimate().latency, 0.03);
    }

    #[test]
    fn one_slow_answer_changes_little() {
        let link = Arc::new(StoreLink::default());
        let start = Instant::now();
        for latency in [10, 10, 10, 60] {
            let mut request = link.begin_at(1, start);
            request.answered_at(start + Duration::from_millis(latency));
        }
        assert_near(link.estimate().latency, 0.011);
        assert_eq!(link.state().asked, 0);
        assert_eq!(link.estimate().in_flight_bytes(), FEWEST_IN_FLIGHT);
    }

    #[test]
    fn extreme_samples_stay_within_bounds() {
        let link = Arc::new(StoreLink::default());
        let start = Instant::now();
        for (latency, took, bytes) in [(0, 1, u64::MAX), (1 << 40, 1 << 40, 1), (0, 0, 0)] {
            let mut request = link.begin_at(bytes, start);
            let answered = start + Duration::from_millis(latency);
            request.answered_at(answered);
            request.received_at(bytes, answered + Duration::from_millis(took));
        }
        let found = link.estimate();
        assert!(found.in_flight_bytes() >= FEWEST_IN_FLIGHT, "{found:?}");
        assert!(found.latency <= LATENCIES.1 && found.bandwidth <= BANDWIDTHS.1);
    }
}
