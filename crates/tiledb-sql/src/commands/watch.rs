//! `\watch`: the last statement again and again, to see how its result changes.

use std::time::Duration;

use datafusion::error::Result;

use crate::interrupt::Interruptible;
use crate::report;
use crate::shell::{OnError, Shell, ShellFlow};

const USUAL_PAUSE: Duration = Duration::from_secs(2);

/// The pause between two runs, and the number of runs.
#[derive(Debug, PartialEq)]
struct WatchPace {
    pause: Duration,
    /// `None` until the user interrupts.
    times: Option<u64>,
}

impl WatchPace {
    fn parse(words: Option<&str>) -> Option<Self> {
        let mut pace = Self {
            pause: USUAL_PAUSE,
            times: None,
        };
        let mut words = words.unwrap_or_default().split_whitespace();
        if let Some(seconds) = words.next() {
            pace.pause = Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?;
        }
        if let Some(times) = words.next() {
            pace.times = Some(times.parse().ok().filter(|times| *times > 0)?);
        }
        words.next().is_none().then_some(pace)
    }
}

impl Shell {
    /// Repeats the last statement until Ctrl-C, or as often as asked for.
    pub(super) async fn watch(
        &mut self,
        pace: Option<&str>,
        place: Option<&str>,
        on_error: OnError,
    ) -> ShellFlow {
        match self.repeat(pace).await {
            Ok(()) => ShellFlow::GoOn,
            // This is how the user ends it.
            Err(e) if report::is_interrupt(&e) && self.is_interactive => ShellFlow::GoOn,
            Err(e) => self.fail(&e, place, on_error),
        }
    }

    async fn repeat(&mut self, words: Option<&str>) -> Result<()> {
        let pace = WatchPace::parse(words).ok_or_else(|| {
            let words = words.unwrap_or_default();
            report::message(format!(
                "'\\watch {words}': expected a number of seconds, and perhaps a number of runs, as in \\watch 5 10"
            ))
        })?;
        let Some(statement) = self.last_statement.clone() else {
            return Err(report::message(
                "no statement has run yet that could be repeated",
            ));
        };
        // A signal counts even if it comes just as a statement has ended.
        let watching = Interruptible::begin();
        let mut runs = 0_u64;
        loop {
            self.statement(statement.to_string()).await?;
            runs += 1;
            if pace.times.is_some_and(|times| runs >= times) {
                return Ok(());
            }
            let pause = tokio::time::sleep(pace.pause);
            if watching.is_interrupted() || watching.run(pause).await.is_none() {
                return Err(report::interrupt());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_a_pause_and_a_number_of_runs() {
        let pace = |seconds: f64, times| {
            Some(WatchPace {
                pause: Duration::from_secs_f64(seconds),
                times,
            })
        };
        for (words, expected) in [
            (None, pace(2.0, None)),
            (Some("0.5"), pace(0.5, None)),
            (Some("0 3"), pace(0.0, Some(3))),
            (Some("x"), None),
            (Some("-1"), None),
            (Some("nan"), None),
            (Some("1e300"), None),
            (Some("1 0"), None),
            (Some("1 2 3"), None),
        ] {
            assert_eq!(WatchPace::parse(words), expected, "{words:?}");
        }
    }
}
