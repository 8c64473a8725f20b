//! The window of time through which an array is opened.
//!
//! libtiledb opens an array at `[start, end]`, both inclusive, in milliseconds since the epoch; the default is `[0,
//! now]`. Which objects are inside depends on their kind; see [`OpenWindow::sees_fragment`].

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::format::names::TimestampedName;

/// Milliseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TimestampMs(pub u64);

impl TimestampMs {
    /// The current time of the system clock.
    pub fn now() -> Self {
        #[cfg(any(test, feature = "testing"))]
        if let Some(world) = crate::simulated::world() {
            return Self(world.now_ms());
        }
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
        let ms = elapsed.map_or(0, |d| d.as_millis());
        Self(u64::try_from(ms).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for TimestampMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An inclusive window `[start, end]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenWindow {
    /// The earliest visible time.
    pub start: TimestampMs,
    /// The latest visible time; `None` is the time of opening.
    pub end: Option<TimestampMs>,
}

impl Default for OpenWindow {
    fn default() -> Self {
        Self {
            start: TimestampMs(0),
            end: None,
        }
    }
}

/// How much of a fragment a window shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WindowVisibility {
    /// No cells.
    Hidden,
    /// All cells.
    Whole,
    /// The cells whose own timestamp lies inside; all of them if the fragment records no timestamps.
    ByCell,
}

impl OpenWindow {
    /// A window; `start` after `end` is an error.
    pub fn new(start: TimestampMs, end: Option<TimestampMs>) -> Result<Self> {
        match end {
            Some(end) if start > end => Err(Error::invalid(format!(
                "the window starts at {start} ms, after its end {end} ms"
            ))),
            _ => Ok(Self { start, end }),
        }
    }

    /// The end of the window, or the current time if it has none.
    pub fn end_or_now(&self) -> TimestampMs {
        self.end.unwrap_or_else(TimestampMs::now)
    }

    /// What a closed window shows of a fragment written in `[t1, t2]`.
    ///
    /// Dense fragments, and sparse ones before format 15, must lie inside; newer sparse ones need only overlap.
    pub fn sees_fragment(&self, name: &TimestampedName, sparse_array: bool) -> WindowVisibility {
        let (start, end) = (self.start.0, self.end_or_now().0);
        if self.contains(name) {
            WindowVisibility::Whole
        } else if sparse_array
            && name.version.is_some_and(|v| v >= 15)
            && name.t1 <= end
            && name.t2 >= start
        {
            WindowVisibility::ByCell
        } else {
            WindowVisibility::Hidden
        }
    }

    /// Whether `[t1, t2]` lies inside the window.
    pub fn contains(&self, name: &TimestampedName) -> bool {
        self.start.0 <= name.t1 && name.t2 <= self.end_or_now().0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(t1: u64, t2: u64, version: u32) -> TimestampedName {
        let uuid = "00000000000000000000000000000000";
        TimestampedName::parse(&format!("__{t1}_{t2}_{uuid}_{version}")).unwrap()
    }

    fn window(start: u64, end: u64) -> OpenWindow {
        OpenWindow::new(TimestampMs(start), Some(TimestampMs(end))).unwrap()
    }

    #[test]
    fn dense_fragments_must_lie_inside_and_sparse_ones_only_overlap() {
        let consolidated = fragment(10, 20, 22);
        assert_eq!(
            window(0, 15).sees_fragment(&consolidated, false),
            WindowVisibility::Hidden
        );
        assert_eq!(
            window(0, 15).sees_fragment(&consolidated, true),
            WindowVisibility::ByCell
        );
        assert_eq!(
            window(10, 20).sees_fragment(&consolidated, false),
            WindowVisibility::Whole
        );
        assert_eq!(
            window(21, 30).sees_fragment(&consolidated, true),
            WindowVisibility::Hidden
        );
        assert_eq!(
            window(0, 15).sees_fragment(&fragment(10, 20, 14), true),
            WindowVisibility::Hidden
        );
    }

    #[test]
    fn a_window_cannot_end_before_it_starts() {
        assert!(OpenWindow::new(TimestampMs(2), Some(TimestampMs(1))).is_err());
    }
}
