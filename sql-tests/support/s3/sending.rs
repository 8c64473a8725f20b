//! Bodies of answers, sent at a limited rate, whole or broken off.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::{Bytes, Frame};

use super::request_log::RequestRecord;

/// The most bytes that are sent at once.
const LARGEST_CHUNK: usize = 64 << 10;

/// The least bytes that are sent at once, unless the body has fewer.
const SMALLEST_CHUNK: usize = 1 << 10;

/// The number of chunks in a second if the bandwidth is low.
const CHUNKS_PER_SECOND: u64 = 50;

/// The time by which the sum of all bodies may be ahead of the bandwidth. It makes up for timers that fire late.
const BURST: Duration = Duration::from_millis(10);

/// The time in which the bytes before a cut get out.
const BEFORE_CUT: Duration = Duration::from_millis(10);

/// The error that makes hyper close a connection.
#[derive(Debug)]
pub struct ConnectionCut;

impl fmt::Display for ConnectionCut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server closes the connection")
    }
}

impl std::error::Error for ConnectionCut {}

/// The body of an answer.
pub type AnswerBody = UnsyncBoxBody<Bytes, ConnectionCut>;

struct BandwidthState {
    bytes_per_second: Option<u64>,
    /// The time at which all bytes that were admitted are sent.
    sent_by: Instant,
}

/// The bandwidth that all connections share.
pub struct SharedBandwidth(Mutex<BandwidthState>);

impl Default for SharedBandwidth {
    fn default() -> Self {
        Self(Mutex::new(BandwidthState {
            bytes_per_second: None,
            sent_by: Instant::now(),
        }))
    }
}

impl SharedBandwidth {
    /// Sets the limit, or removes it.
    pub fn set(&self, bytes_per_second: Option<u64>) {
        let mut state = self.0.lock().expect("nobody panics while holding it");
        state.bytes_per_second = bytes_per_second.map(|rate| rate.max(1));
        state.sent_by = Instant::now();
    }

    /// The most bytes to ask for at once.
    fn chunk(&self) -> usize {
        let state = self.0.lock().expect("nobody panics while holding it");
        let chunk = state.bytes_per_second.map(|rate| rate / CHUNKS_PER_SECOND);
        let chunk = chunk.and_then(|bytes| usize::try_from(bytes).ok());
        chunk.map_or(LARGEST_CHUNK, |bytes| {
            bytes.clamp(SMALLEST_CHUNK, LARGEST_CHUNK)
        })
    }

    /// Waits until so many bytes may be sent.
    async fn admit(&self, bytes: usize) {
        let sent_by = {
            let mut state = self.0.lock().expect("nobody panics while holding it");
            let Some(rate) = state.bytes_per_second else {
                return;
            };
            let now = Instant::now();
            let earliest = now.checked_sub(BURST).unwrap_or(now);
            let time = Duration::from_secs_f64(bytes as f64 / rate as f64);
            state.sent_by = state.sent_by.max(earliest) + time;
            state.sent_by
        };
        tokio::time::sleep_until(sent_by.into()).await;
    }
}

/// What happens behind the bytes of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyEnding {
    /// The body is complete.
    Complete,
    /// The connection is closed.
    Cut,
    /// Nothing until the client gives up.
    Stall,
}

/// A body that is being sent.
pub struct BodyDelivery {
    pub rest: Bytes,
    pub ending: BodyEnding,
    pub bandwidth: Arc<SharedBandwidth>,
    pub record: RequestRecord,
}

impl BodyDelivery {
    /// The bytes and their ending as a body.
    pub fn into_body(mut self) -> AnswerBody {
        if self.rest.is_empty() && self.ending == BodyEnding::Complete {
            self.record.finish();
            let empty = Empty::new();
            return empty.map_err(|never| match never {}).boxed_unsync();
        }
        let frames = stream::unfold(self, Self::next_frame);
        StreamBody::new(frames).boxed_unsync()
    }

    async fn next_frame(mut self) -> Option<(Result<Frame<Bytes>, ConnectionCut>, Self)> {
        if self.rest.is_empty() {
            match self.ending {
                BodyEnding::Complete => return None,
                BodyEnding::Stall => return std::future::pending().await,
                BodyEnding::Cut => {
                    self.record.finish();
                    // Hyper drops the bytes that it has not sent when it gets an error.
                    tokio::time::sleep(BEFORE_CUT).await;
                    return Some((Err(ConnectionCut), self));
                }
            }
        }
        let length = self.bandwidth.chunk().min(self.rest.len());
        self.bandwidth.admit(length).await;
        let chunk = self.rest.split_to(length);
        self.record.sent(length);
        if self.rest.is_empty() && self.ending == BodyEnding::Complete {
            // The log must have the request before the client can begin another one.
            self.record.finish();
        }
        Some((Ok(Frame::data(chunk)), self))
    }
}
